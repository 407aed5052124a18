//! Modules as a server loads them, with a stand-in for the server: the examples, modules in C, and those that are wrong.
//!
//! | module | what it tests |
//! |---|---|
//! | [`errors`] | what loading says of libraries that are no modules, and of modules that refuse |
//! | [`examples`] | the answers of the examples in Rust |
//! | [`faults`] | modules that break rules, in Rust and in C |
//! | [`guide`] | that `docs/modules.md` shows the examples as they are |
//! | [`header`] | `maitred_module.h`: it compiles, and says what the types in Rust say |
//! | [`in_c`] | the example in C, also under valgrind |
//! | [`server`] | the stand-in |
//! | [`support`] | builds libraries |

#![allow(clippy::unwrap_used, reason = "helpers of tests, which clippy.toml does not know to be such")]

mod errors;
mod examples;
mod faults;
mod guide;
mod header;
mod in_c;
mod server;
mod support;
