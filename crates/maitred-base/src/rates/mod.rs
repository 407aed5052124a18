//! How often the requests of one client may come, and how many at a time: the rule, and the table of clients that all threads and
//! worker processes share.
//!
//! | file | what |
//! |---|---|
//! | [`gcra`] | the rule of rates: one time per key (pure) |
//! | [`key`] | what is counted together |
//! | [`table`] | keys and their times in shared memory, of a fixed size |
//! | [`under_way`] | how many requests of a key are under way |
//! | [`word`] | how many each worker process has (pure) |
//! | [`processes`] | which worker processes there are |

pub mod gcra;
pub mod key;
pub mod processes;
pub mod table;
pub mod under_way;
pub mod word;

pub use gcra::Gcra;
pub use key::{AddressKey, Key};
pub use table::{Layout, Table, Verdict};
pub use under_way::{Entered, Place};
pub use word::{CONCURRENT_MAX, Process};
