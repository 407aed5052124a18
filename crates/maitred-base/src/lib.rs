//! Parts that know nothing of the server.
//!
//! | module | what it holds |
//! |---|---|
//! | [`backoff`] | growing delays for processes that keep dying |
//! | [`bounds`] | how many threads, pools and slots one server can have |
//! | [`budget`] | bounds on what all requests together take up |
//! | [`clock`] | the time as one turn of an event loop sees it |
//! | [`jwt`] | signed tokens, and the keys that they are checked by |
//! | [`overload`] | what is dropped or refused when memory, descriptors or time are short: a pure function |
//! | [`passed`] | descriptors that application processes have passed |
//! | [`passwords`] | users and hashed passwords |
//! | [`pki`] | certificates and keys, read and checked |
//! | [`pool`] | how many application processes a pool has: a pure function |
//! | [`rates`] | how often requests of one client may come: a table that all threads share |
//! | [`residency`] | which parts of a file are in memory |
//! | [`sandbox`] | what a process may reach in the filesystem |
//! | [`trusted`] | whether another account can decide what a file is |
//! | [`unix_time`] | the wall clock |
//! | [`upgrade`] | what crosses from one executable to the next |

pub mod backoff;
pub mod bounds;
pub mod budget;
pub mod clock;
pub mod jwt;
pub mod overload;
pub mod passed;
pub mod passwords;
pub mod pki;
pub mod pool;
pub mod rates;
pub mod residency;
pub mod sandbox;
pub mod trusted;
pub mod unix_time;
pub mod upgrade;
