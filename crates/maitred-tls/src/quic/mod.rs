//! QUIC: what stays the same over all processes of a master, so that a datagram finds the process and the thread that it is for.
//!
//! | file | what |
//! |---|---|
//! | [`congestion`] | how much a connection may have under way |
//! | [`endpoint`] | how the QUIC library is set up |
//! | [`ids`] | connection ids, which say where their datagrams go |
//! | [`packets`] | what headers say without keys |
//! | [`secrets`] | the secret of a master, and the keys that follow from it |

pub(crate) mod congestion;
pub mod endpoint;
pub mod ids;
pub mod packets;
pub mod secrets;
