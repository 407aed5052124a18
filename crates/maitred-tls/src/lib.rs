//! TLS: from the files of certificates ([`maitred_base::pki`]) to the configuration of a session. Driving sessions is the
//! worker's (`maitred_worker`).
//!
//! | file | what |
//! |---|---|
//! | [`material`] | all that the master hands to a worker process: keys, roots, the seed of ticket keys |
//! | [`server`] | the configurations of rustls, one per listener, swapped as a whole when there is new material |
//! | [`resolver`] | which certificate a client gets |
//! | [`on_demand`] | names without a certificate that clients ask for |
//! | [`tickets`] | session tickets, with keys that follow from the time and the seed |
//! | [`upstream`] | the configurations of rustls towards servers, one per pool |
//! | [`client`] | clients' certificates, and what of them is passed to applications |
//! | [`watch`] | which files have changed |
//! | [`self_signed`] | the certificate of `maitred serve --tls` |
//! | [`redirect`] | where a cleartext listener sends its clients |
//! | [`early`] | early data that is skipped, and how much of it tickets announce |
//! | [`key_log`] | session secrets for debugging |
//! | [`ktls`] | records that the kernel encrypts |
//! | [`quic`] | where a datagram of QUIC goes, over all processes of a master |
//!
//! Keys are read by the master only. A worker process gets them in sealed memory files, which have no name in any
//! filesystem; nothing that holds one shows it in its `Debug` form.

pub mod client;
pub mod early;
pub(crate) mod key_log;
pub mod ktls;
pub mod material;
pub(crate) mod on_demand;
pub mod quic;
pub mod redirect;
pub mod resolver;
pub mod self_signed;
pub mod server;
pub mod tickets;
pub mod upstream;
pub mod watch;

pub use server::TlsServer;
