//! Scoreboard, and the ways to show it.
//!
//! | module | what it holds |
//! |---|---|
//! | [`scoreboard`] | the shared memory file |
//! | [`fields`] | the one table of all numbers: name, unit, kind, text |
//! | [`facts`] | what is known without the scoreboard, and what is asked for when it is shown |
//! | [`rates`] | counters → what happens in a second |
//! | [`json`] | `/status.json` |
//! | [`metrics`] | `/metrics`, for Prometheus |
//! | [`text`] | what `maitred status` prints |

pub mod facts;
pub mod fields;
pub mod json;
pub mod metrics;
pub mod rates;
pub mod scoreboard;
#[cfg(test)]
mod tests;
pub mod text;
