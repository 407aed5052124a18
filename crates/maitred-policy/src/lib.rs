//! The configuration, compiled: what happens to a request, and to its response.
//!
//! | module | what it holds |
//! |---|---|
//! | [`access`] | who may use a site or a route |
//! | [`arrival`] | where a request has come in |
//! | [`compress`] | content codings: which responses get one, and the encoders |
//! | [`filter`] | what is done to responses, route by route |
//! | [`plan`] | what happens to the requests of one route, compiled once |
//! | [`rewrite`] | a request as routes see it; placeholders filled in, targets rewritten |
//! | [`route`] | the one function that chooses what answers a request |
//! | [`target`] | the target of a request, in the one form that all consumers get |

pub mod access;
pub mod arrival;
pub mod compress;
pub mod filter;
pub mod plan;
pub mod rewrite;
pub mod route;
pub mod target;
