//! Black-box tests of in-process modules: the real binary, with the examples of the crate `maitred-module` and with modules that
//! do what the test says.
//!
//! | module | what it tests |
//! |---|---|
//! | [`actions`] | modules that are asked before what a route answers with |
//! | [`answers`] | modules that are what a route answers with |
//! | [`checks`] | modules that cannot begin, and what `maitred check`, a start and a reload say of them |
//! | [`crashes`] | crashes: the worker process is replaced, and a module that crashes too often is turned off |
//! | [`filters`] | modules that change the fields of responses |
//! | [`guide`] | the configurations of `docs/modules.md` |
//! | [`held`] | modules that do not give an event loop back |
//! | [`later`] | answers that come later |
//! | [`rights`] | what a library may do from its first instruction on, and which ones are refused |
//! | [`rules`] | answers that break a rule, and panics |
//! | [`scene`] | configurations and commands that several of them use |
//! | [`shared`] | what goes on over reloads, upgrades and crashes, and what a confined process may do |

mod actions;
mod answers;
mod checks;
mod crashes;
mod filters;
mod guide;
mod held;
mod later;
mod rights;
mod rules;
mod scene;
mod shared;
