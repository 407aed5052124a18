//! Processes of the master that speak to other servers for it, so that nothing of them is in the way of a request.
//!
//! | module | what it holds |
//! |---|---|
//! | [`acme`] | automatic certificates |
//! | [`agents`] | what the processes have in common that speak to other servers for the master |
//! | [`checks`] | checks of the servers of pools |
//! | [`key_agent`] | keys of tokens that are fetched from a URL |
//! | [`names`] | names of servers that are resolved again and again |

pub mod acme;
pub mod agents;
pub mod checks;
pub mod key_agent;
pub mod names;
