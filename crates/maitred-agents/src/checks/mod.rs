//! Servers of pools that are checked at intervals.
//!
//! A process of its own does that, once for all event loops and all worker processes: the *checks agent*. The master starts it
//! when a pool has `health`, tells it which servers there are, and makes lists of servers of what it says
//! (`master::endpoints`), as of all else that is known of them.
//!
//! ```text
//!   servers ◀── questions ── checks agent ── news ──▶ master ── servers ──▶ worker process
//!                                  ◀── addresses ──
//! ```
//!
//! | module | what it holds |
//! |---|---|
//! | [`verdict`] | when a server is well: pure, **start reading here** |
//! | [`agent`] | the process: a task for each server |
//! | [`check`] | one question to one server |
//! | [`grpc`] | the messages of `grpc.health.v1` |
//! | [`messages`] | what master and checks agent say to each other |

pub mod agent;
pub mod check;
pub mod grpc;
pub mod messages;
pub mod verdict;
