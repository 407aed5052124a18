//! What does not change over the master's life.

use std::cell::{OnceCell, RefCell};

use super::sockets::Group;
use maitred_base::pki::Pair;
use maitred_tls::quic::secrets::Secret;
use maitred_tls::tickets::Seed;

/// See the module.
#[derive(Debug)]
pub struct Surroundings {
    /// Whether `SO_REUSEPORT` works.
    pub reuseport: bool,
    /// Listening sockets that a service manager passed.
    pub inherited: Vec<Group>,
    /// Whether standard output is a terminal.
    pub terminal: bool,
    /// Where the keys of session tickets come from, in all worker processes.
    pub tickets: RefCell<Seed>,
    /// What connection ids, stateless resets and tokens of QUIC are made with, in all worker processes.
    pub datagrams: Secret,
    /// The certificate that stands for [`maitred_config::Certificate::SelfSigned`], once one was asked for.
    pub self_signed: OnceCell<Pair>,
}
