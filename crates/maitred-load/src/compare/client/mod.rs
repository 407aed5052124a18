//! The client of a comparison: one request at a time, sent as it is spelled, and the whole response up to a bound.

mod http1;
mod http2;
mod link;
mod response;

use std::collections::HashMap;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use http2::Http2;
use link::Link;
pub use response::{Failure, Response};

use super::request::Request;
use crate::client::Tls;

/// Connections that one thread keeps. Hosts, ports and certificates make different ones; beyond, all are closed.
const KEPT_MAX: usize = 32;

/// What all clients of a comparison have in common.
#[derive(Debug, Clone)]
pub(super) struct Manners {
    /// How long a request may take, with its connection.
    pub(super) timeout: Duration,
    /// Bytes of a body that are read.
    pub(super) body_bytes_max: usize,
    /// HTTP/2 is spoken.
    pub(super) is_http2: bool,
    /// TLS with the client's certificate, if it has one.
    pub(super) tls: Option<Tls>,
    /// TLS without.
    pub(super) tls_anonymous: Option<Tls>,
}

/// Where a request goes.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Place {
    pub(super) address: SocketAddr,
    /// The name that TLS asks for, if TLS is spoken.
    pub(super) tls_name: Option<String>,
    pub(super) is_anonymous: bool,
}

enum Connection {
    Http1(Link),
    Http2(Box<Http2>),
}

/// The connections of one thread.
#[derive(Default)]
pub(super) struct Client {
    kept: HashMap<Place, Connection>,
}

impl Client {
    /// Sends a request, on a kept connection if there is one. A server may close that at any time, so that what was sent on it
    /// without an answer is sent once more; `again` is called before that.
    pub(super) fn send(
        &mut self,
        place: &Place,
        request: &Request,
        bytes: &[u8],
        manners: &Manners,
        again: impl FnOnce(),
    ) -> Result<Response, Failure> {
        let deadline = Instant::now() + manners.timeout;
        let kept = self.kept.remove(place).filter(|_| request.is_safe());
        if let Some(connection) = kept {
            match self.exchange(connection, place, request, bytes, manners, deadline) {
                Err((Failure::Closed | Failure::Reset, true)) => again(),
                Ok(response) => return Ok(response),
                Err((failure, _)) => return Err(failure),
            }
        }
        let connection = open(place, manners, deadline)?;
        let answered = self.exchange(connection, place, request, bytes, manners, deadline);
        answered.map_err(|(failure, _)| failure)
    }

    fn exchange(
        &mut self,
        mut connection: Connection,
        place: &Place,
        request: &Request,
        bytes: &[u8],
        manners: &Manners,
        deadline: Instant,
    ) -> Result<Response, (Failure, bool)> {
        let answer = match &mut connection {
            Connection::Http1(link) => {
                link.set_deadline(deadline);
                http1::exchange(link, bytes, request.method == "HEAD", manners.body_bytes_max)?
            }
            Connection::Http2(http2) => {
                http2.set_deadline(deadline);
                let scheme = if place.tls_name.is_some() { "https" } else { "http" };
                http2.exchange(scheme, bytes, manners.body_bytes_max)?
            }
        };
        if answer.keeps {
            if self.kept.len() >= KEPT_MAX {
                self.kept.clear();
            }
            self.kept.insert(place.clone(), connection);
        }
        Ok(answer.response)
    }
}

fn open(place: &Place, manners: &Manners, deadline: Instant) -> Result<Connection, Failure> {
    let tls = match &place.tls_name {
        None => None,
        Some(name) => {
            let tls = if place.is_anonymous { &manners.tls_anonymous } else { &manners.tls };
            let protocol: &[u8] = if manners.is_http2 { b"h2" } else { b"http/1.1" };
            let tls = tls.as_ref().ok_or(Failure::Tls)?;
            Some(tls.connection(name, protocol).map_err(|_| Failure::Tls)?)
        }
    };
    let link = Link::open(place.address, tls, deadline)?;
    match manners.is_http2 {
        false => Ok(Connection::Http1(link)),
        true if link.has_agreed_on_http2() => Ok(Connection::Http2(Box::new(Http2::begin(link)))),
        true => Err(Failure::Protocol),
    }
}

/// Whether a server is there at all.
pub(super) fn probe(place: &Place, manners: &Manners) -> Result<(), Failure> {
    open(place, manners, Instant::now() + manners.timeout).map(drop)
}
