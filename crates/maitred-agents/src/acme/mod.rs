//! Automatic certificates: the client side of ACME (RFC 8555).
//!
//! A process of its own speaks to the authority, so that nothing of it is in the way of a request: the *agent*. The master starts
//! it when a site has automatic certificates, and receives from it over a socket what has to be answered when the authority
//! looks (RFC 8555 section 8.3, RFC 8737), and when there is a new certificate. The worker process answers; the files are
//! the agent's, and the master reads them.
//!
//! ```text
//!   authority ◀── HTTPS ── agent ── challenge, certificate ──▶ master ── challenge ──▶ worker process ◀── authority looks
//!                            └── files: account, certificates         ◀── is in place ──┘
//! ```
//!
//! | module | what it holds |
//! |---|---|
//! | [`schedule`] | when what is ordered: pure, **start reading here** |
//! | [`agent`] | the process: clocks, socket, tasks around the schedule |
//! | [`link`] | how agent and orders speak to the master |
//! | [`order`] | one order, from the first message to the certificate |
//! | [`client`] | HTTPS to the authority, bounded |
//! | [`account`] | the account at the authority |
//! | [`certificate`] | keys, requests, and what stands in a certificate |
//! | [`store`] | the files |
//! | [`sandbox`] | what the process may do |
//! | [`messages`] | what master and agent say to each other |
//! | [`supervise`] | the master's part: the life of the agent, and which processes have which challenge |
//! | [`on_demand`] | names that clients ask for |
//! | [`dns`] | records for DNS-01 |

pub mod account;
pub mod agent;
pub mod certificate;
pub mod client;
pub mod dns;
pub mod link;
pub mod messages;
pub mod on_demand;
pub mod order;
pub mod sandbox;
pub mod schedule;
pub mod store;
pub mod supervise;
