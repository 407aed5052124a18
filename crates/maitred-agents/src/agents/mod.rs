//! What the processes have in common that speak to other servers for the master: they get certificates ([`crate::acme`]), fetch
//! keys ([`crate::key_agent`]), resolve names ([`crate::names`]), check servers ([`crate::checks`]).
//!
//! | module | what it holds |
//! |---|---|
//! | [`life`] | the master's part: when an agent is started, and started again |
//! | [`process`] | the agent's part: how it begins, and what it hears |
//! | [`confined`] | what it may reach |
//! | [`errors`] | what libraries say of failures |

pub(crate) mod confined;
pub(crate) mod errors;
pub mod life;
pub(crate) mod process;

/// Descriptor of the socket to the master in an agent.
pub(crate) const CONTROL_FD: i32 = 3;
/// The message that brings the file of the error log, opened anew; all others are in JSON.
pub const ERROR_LOG: &[u8] = b"error log";
/// Descriptor of the memory file that holds its start document as JSON.
pub(crate) const START_FD: i32 = 4;
