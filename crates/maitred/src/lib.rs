//! The command line, exit codes and `main`: the only crate that knows both processes. The server is in crates of its own;
//! `ARCHITECTURE.md` draws the map.
//!
//! | module | what it holds |
//! |---|---|
//! | [`cli`] | the one table of commands and flags |
//! | [`detect`] | what kind of application a directory holds, and the configuration for it |

pub mod cli;
pub mod detect;
