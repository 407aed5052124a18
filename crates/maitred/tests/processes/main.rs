//! Black-box tests of processes: how the real binary starts, is replaced and ends, and what it starts or loads itself.
//!
//! | module | what it tests |
//! |---|---|
//! | [`acme`] | automatic certificates, with a real authority |
//! | [`app`] | `maitred app` and `maitred init` |
//! | [`in_process`] | in-process modules |
//! | [`judging`] | `maitred check` says ok if and only if `maitred run` starts |
//! | [`listen_pools`] | pools that accept connections by themselves |
//! | [`master`] | start, crash, reload, stop, what is inherited and what is left behind |
//! | [`operator`] | exit codes and messages, `check`, the service manager, the documents that are made from the code |
//! | [`ownership`] | random sequences of events, judged by a model of who owns a connection |
//! | [`pools`] | elastic pools of application processes |
//! | [`support`] | what all black-box tests share |
//! | [`upgrade`] | the executable of a running server is replaced |

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

mod acme;
mod app;
mod in_process;
mod judging;
mod listen_pools;
mod master;
mod operator;
mod ownership;
mod pools;
#[path = "../support/mod.rs"]
mod support;
mod upgrade;
