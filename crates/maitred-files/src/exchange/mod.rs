//! One request and its response, between the protocols of clients and what answers: files, processes, servers.
//!
//! | file | what |
//! |---|---|
//! | [`writer`] | where responses are written: past the filters of their route, to the encoder of the client's protocol |
//! | [`coding`] | the coding of a response that comes from an upstream |
//! | [`decision`] | what is decided about a request |
//! | [`named_file`] | a file that an application names instead of sending it |
//! | [`field`] | a field of a response that is made here |

pub mod coding;
pub mod decision;
pub mod field;
pub mod named_file;
pub mod writer;

pub use coding::Coding;
pub use decision::{Decision, Routed};
pub use field::Field;
pub use writer::{AlterHead, ReplyContext, ResponseWriter, Watch};
