//! Names of servers that are resolved again and again, by the time that their records are good for.
//!
//! A process of its own does that, so that no event loop ever waits for a name server: the *names agent*. The master starts it
//! when a pool has `resolve`, receives what names lead to over a socket, and makes lists of servers of it
//! (`master::endpoints`).
//!
//! ```text
//!   name servers ◀── DNS ── names agent ── addresses ──▶ master ── servers ──▶ worker process
//! ```
//!
//! | module | what it holds |
//! |---|---|
//! | [`schedule`] | when which name is resolved: pure, **start reading here** |
//! | [`answers`] | what records mean, within bounds: pure |
//! | [`agent`] | the process: clock, socket and tasks around the schedule |
//! | [`lookup`] | one question to the resolver |
//! | [`messages`] | what master and agent say to each other |

pub mod agent;
pub mod answers;
pub mod lookup;
pub mod messages;
pub mod schedule;
