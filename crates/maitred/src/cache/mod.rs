//! The store of a response cache: entries in files of a directory, the hot ones in memory, and an index that stays when worker
//! processes are replaced.
//!
//! It knows nothing of HTTP's rules: what may be stored, and how long it is good for, is its caller's to say. Event loops never wait
//! for it: what may touch the disk is a [`Job`] for a helper thread.
//!
//! **The file is the truth.** A file is named by the hash of its key, so that there is at most one for a key, whatever has happened to
//! processes and jobs. It gets its name when it is complete: nothing partial ever has one. The index is a table of hints.
//!
//! **What was purged does not come back.** A response that was asked for before a purge, or that is being written, is not published
//! after it: what is to be stored begins with a [`Fetch`], which knows what was purged before it.
//!
//! | module | what |
//! |---|---|
//! | [`store`] | what the event loops call |
//! | [`job`] | work for helper threads |
//! | [`entry`] | what is stored |
//! | [`key`] | under which key |
//! | [`table`] | the index, in shared memory |
//! | [`queues`] | which entry has to go |
//! | [`hot`] | hot entries in memory |
//! | [`format`] | what a file consists of |

pub use entry::{BODY_OFFSET, Body, Entry, Head, Kind, Lifetime};
pub use job::{Job, Outcome, Trouble};
pub use key::{Hash, KEY_BYTES_MAX, Key};
pub use store::{Counts, Fetch, Found, Purge, PurgeError, Settings, Store, Writing};
pub use table::Table;

mod entry;
mod format;
mod hot;
mod job;
mod key;
mod queues;
mod store;
mod table;
