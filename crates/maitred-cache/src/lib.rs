//! The store of a response cache: entries in files of a directory, the hot ones in memory, and an index that stays when worker
//! processes are replaced.
//!
//! The store knows nothing of HTTP's rules: what may be stored, and how long it is good for, is its caller's to say. Event
//! loops never wait for it: what may touch the disk is a [`Job`] for a helper thread.
//!
//! **The file is the truth.** A file is named by the hash of its key, so that there is at most one for a key, no matter what
//! has happened to processes and jobs. A file gets its name when it is complete: nothing partial ever has one. The index is a
//! table of hints.
//!
//! **What was purged does not come back.** A response that was asked for before a purge, or that is being written, is not
//! published after it: what is to be stored begins with a [`Fetch`], which knows what was purged before it.
//!
//! | module | what |
//! |---|---|
//! | [`store`] | what the event loops call |
//! | [`job`] | work for helper threads |
//! | [`rebuild`] | the directory is read |
//! | [`purge`] | files are tested against a rule |
//! | [`walk`] | reading all of a directory, in parts |
//! | [`writing`] | a response that is stored as it comes |
//! | [`jobs`] | the file of one key is written, given another head, removed |
//! | [`read`] | a file becomes an entry |
//! | [`core`] | what all handles share |
//! | [`directory_state`] | what a directory keeps of itself |
//! | [`index`] | the table, and which of its entries has to go |
//! | [`table`] | slots in shared memory |
//! | [`queues`] | S3-FIFO |
//! | [`hot`] | hot entries in memory |
//! | [`rules`] | purges of more than one key |
//! | [`storing`] | whether anything is stored |
//! | [`disk`] | operations on files |
//! | [`layout`] | what a file consists of |
//! | [`entry`] | what is stored |
//! | [`fetch`] | what a response is stored by |
//! | [`key`] | under which key |
//! | [`settings`] | what a store has |

pub use entry::{BODY_OFFSET, Body, Entry, Head, Kind, Lifetime};
pub use fetch::Fetch;
pub use job::{Job, Outcome};
pub use key::{Hash, KEY_BYTES_MAX, Key};
pub use rules::{Purge, PurgeError};
pub use settings::Settings;
pub use store::{Counts, Found, Store};
pub use storing::Trouble;
pub use table::Table;
pub use writing::Writing;

mod core;
mod directory_state;
mod disk;
mod entry;
mod fetch;
mod hot;
mod index;
mod job;
mod jobs;
mod key;
mod layout;
mod purge;
mod queues;
mod read;
mod rebuild;
mod rules;
mod settings;
mod store;
mod storing;
mod table;
mod walk;
mod writing;
