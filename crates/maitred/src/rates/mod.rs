//! How often the requests of one client may come: the rule, and the table of clients that all threads and worker processes share.
//!
//! | file | what |
//! |---|---|
//! | [`gcra`] | the rule: one time per key (pure) |
//! | [`key`] | what is counted together |
//! | [`table`] | keys and their times in shared memory, of a fixed size |

pub mod gcra;
pub mod key;
pub mod table;

pub use gcra::Gcra;
pub use key::{AddressKey, Key};
pub use table::{Table, Verdict};
