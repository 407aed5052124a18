//! Which process owns a connection, and when: random sequences of events against the real binary, judged by a model.
//!
//! The application processes are *puppets*: Maitred starts them, and they hand their channel to the test, which reads every
//! REQUEST and writes every response, TAIL and DONE itself. The clients' sockets are in the same process. So the test decides
//! about every event on both sides: requests of all kinds in pieces or pipelined, half-closes, resets, slow readers; parts of
//! responses, tails, DONE once, twice or wrongly, crashes, time-outs, upgrades; reloads, and the death of the worker process.
//! [`maitred_testing::model`] says which process may be given what, and what a client may have received.
//!
//! Each world is a server with a seed of its own. `MAITRED_OWNERSHIP_SEED=7` plays the world of that seed alone, with the trace
//! of its last events if it fails; `MAITRED_OWNERSHIP_WORLDS=200` plays so many of them. What the kernel does first, and so what
//! the choices are made from, is not in the seed's hand: a rare failure may need several runs to come back.

mod cases;
mod client;
mod episode;
mod ledger;
mod play;
mod puppet;
mod slow;
mod stage;
mod world;
