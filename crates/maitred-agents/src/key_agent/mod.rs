//! Keys of tokens that are fetched from a URL (`jwks_url`).
//!
//! A process of its own fetches them, so that nothing of that is in the way of a request: the *key agent*. The master starts it
//! when a gate names a URL, receives the keys over a socket, and gives them to the worker processes, which tell it when a token
//! names a key that they do not have.
//!
//! ```text
//!   provider ◀── HTTP(S) ── key agent ── keys ──▶ master ── keys ──▶ worker process
//!                               ▲─── wanted ─────────┴──── wanted ────────┘
//! ```
//!
//! | module | what it holds |
//! |---|---|
//! | [`schedule`] | when what is fetched: pure, **start reading here** |
//! | [`agent`] | the process: clock, socket and tasks around the schedule |
//! | [`fetch`] | one exchange with a provider, bounded |
//! | [`messages`] | what master and agent say to each other |
//! | [`supervise`] | the master's part: the life of the agent, and the keys that it has sent |
//!
//! The keys are public: they go to worker processes in memory files (`ToWorker::KeySet`), as those that the master reads from
//! files do (`maitred_master::key_files`).

pub mod agent;
pub(crate) mod fetch;
pub mod messages;
pub(crate) mod schedule;
pub mod supervise;
