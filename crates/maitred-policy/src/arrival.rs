//! Where a request has come in.

use maitred_config::Address;

/// Where a request has come in: facts of its connection, of which the request itself says nothing. Neither `Host` nor the target,
/// nor any field, nor a PROXY header changes it. The worker makes one for each request, in one place
/// (`maitred_worker::clients::arrival`); routes, conditions and placeholders take it from there.
///
/// A client has a certificate only where the connection uses TLS.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Arrival<'a> {
    listener: Option<u16>,
    local: Option<&'a Address>,
    tls: bool,
    certificate: bool,
}

impl<'a> Arrival<'a> {
    /// In cleartext, by the listener of this index, which is bound there; `None`: by one that the configuration does not have any
    /// more.
    pub fn new(listener: Option<u16>, local: Option<&'a Address>) -> Arrival<'a> {
        Arrival { listener, local, tls: false, certificate: false }
    }

    /// The same over TLS; `certificate`: the client has shown one, which was verified.
    #[must_use]
    pub fn over_tls(self, certificate: bool) -> Arrival<'a> {
        Arrival { tls: true, certificate, ..self }
    }

    /// The index of the listener.
    pub fn listener(&self) -> Option<u16> {
        self.listener
    }

    /// Where the listener is bound.
    pub fn local(&self) -> Option<&'a Address> {
        self.local
    }

    /// The port where it is bound; none of a Unix socket.
    pub fn local_port(&self) -> Option<u16> {
        self.local.and_then(Address::port)
    }

    /// Whether the connection uses TLS.
    pub fn is_tls(&self) -> bool {
        self.tls
    }

    /// Whether the client has shown a certificate in it, which was verified.
    pub fn has_certificate(&self) -> bool {
        self.certificate
    }
}
