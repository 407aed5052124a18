//! Modules: shared libraries that a worker process loads and calls. The interface of modules is `maitred_module.h` of the crate
//! `maitred-module`.
//!
//! | module | what it holds |
//! |---|---|
//! | [`abi`] | the types of that header |
//! | [`host`] | the server's side: loads a library, calls its functions, and is called by them |
//! | [`guest`] | the library's side, for modules in Rust |
//! | [`calls`] | which module a thread is in, also for whom it crashes in |
//!
//! A library is part of the process that loads it: no check here makes it safe to load one that was not meant to be. What the
//! compiler cannot know of it, the header asks of it.
//!
//! What both sides keep to:
//!
//! - Memory does not change hands. What the server shows is good until the call returns (of a head: until the next edit), and
//!   stays in place over `set_field` and `answer`; what a module gives is checked and copied before the call returns.
//! - A ticket (an answer that comes later) is three words that the server looks up and never follows; who completes one sends a
//!   message to the thread of the request.
//! - A library is never unloaded: a reload or an upgrade is a new process, which loads it anew.
//! - What processes share is a file of counters, as atomics ([`counter_file`](crate::counter_file)). What is only read is in
//!   sealed memory, so that `&[u8]` is sound.

pub mod abi;
pub mod calls;
pub mod guest;
pub mod host;
