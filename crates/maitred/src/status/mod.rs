//! Scoreboard, and the ways to show it.

pub mod scoreboard;
