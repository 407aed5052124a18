//! Modules: shared libraries that a worker process loads and calls. Their interface is `maitred_module.h` of the crate
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

pub mod abi;
pub mod calls;
pub mod guest;
pub mod host;
