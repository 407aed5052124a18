//! Handshakes that may have to wait: where certificates are made on demand, the client's first message is looked at before rustls
//! is given a configuration, and a handshake for a name whose certificate is being ordered waits for that.

use std::fmt;

use rustls::server::{Accepted, Acceptor};

use maitred_base::budget::Permit;

/// What has come of the client's first message.
pub(crate) enum Hello {
    /// Not all of it.
    Reading(Box<Acceptor>),
    /// All of it; the certificate that it needs is being ordered.
    Waits(Box<WaitingHello>),
}

/// A client's first message, kept.
pub(crate) struct WaitingHello {
    pub(crate) accepted: Accepted,
    /// What has come behind it, which is early data at most.
    pub(crate) rest: Vec<u8>,
    /// The place of the handshake among those that wait.
    pub(crate) permit: Permit,
}

impl fmt::Debug for Hello {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Hello::Reading(_) => "Reading",
            Hello::Waits(_) => "Waits",
        })
    }
}

impl Hello {
    /// Takes received bytes: the message, once all of it is there, and what has come behind it.
    ///
    /// # Errors
    /// What rustls says, and the alert for the client.
    pub(crate) fn take(&mut self, mut ciphertext: &[u8]) -> Result<Option<(Accepted, Vec<u8>)>, Failed> {
        let Hello::Reading(acceptor) = self else { return Ok(None) };
        while !ciphertext.is_empty() {
            // A slice has no errors of its own: this one is about more than a message may have.
            if let Err(error) = acceptor.read_tls(&mut ciphertext) {
                return Err((rustls::Error::General(error.to_string()), Vec::new()));
            }
            match acceptor.accept() {
                Ok(None) => {}
                Ok(Some(accepted)) => return Ok(Some((accepted, ciphertext.to_vec()))),
                Err((error, mut alert)) => {
                    let mut bytes = Vec::new();
                    // Into memory, which does not fail.
                    let _ = alert.write_all(&mut bytes);
                    return Err((error, bytes));
                }
            }
        }
        Ok(None)
    }
}

/// Why a handshake has failed, and what the client is told about it.
pub(crate) type Failed = (rustls::Error, Vec<u8>);
