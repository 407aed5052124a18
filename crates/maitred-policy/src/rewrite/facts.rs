//! A request as routes see it.

use std::net::IpAddr;

use maitred_http::request::Request;
use maitred_http::uri;

use crate::arrival::Arrival;

/// What conditions and placeholders look at.
#[derive(Clone, Copy)]
pub struct Facts<'a> {
    /// The request, whose `path` and `query` may be rewritten ones.
    pub request: &'a Request<'a, 'a>,
    /// The path of the request, decoded and without dot segments.
    pub path: &'a [u8],
    /// Where it has come in.
    pub arrival: &'a Arrival<'a>,
    /// Where it comes from. Few routes ask, and a proxy's fields have to be read for it.
    pub origin: &'a dyn Fn() -> Origin,
}

/// Where a request comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Origin {
    /// The client's address; `None` over a Unix socket.
    pub client: Option<IpAddr>,
    /// Whether the client has used TLS.
    pub https: bool,
    /// The port that its connection has come in by, or that of its scheme.
    pub port: u16,
}

/// The value of the first cookie of this name (RFC 6265 section 4.2.1).
pub fn cookie<'a>(request: &Request<'_, 'a>, name: &str) -> Option<&'a [u8]> {
    let fields = request.fields.iter().filter(|field| field.name.eq_ignore_ascii_case("cookie"));
    let mut pairs = fields.flat_map(|field| field.value.split(|byte| *byte == b';')).map(<[u8]>::trim_ascii);
    pairs.find_map(|pair| pair.strip_prefix(name.as_bytes())?.strip_prefix(b"="))
}

impl<'a> Facts<'a> {
    /// Values of the fields of this name.
    pub(crate) fn fields(&self, name: &str) -> impl Iterator<Item = &'a [u8]> {
        let named = self.request.fields.iter().filter(move |field| field.name.eq_ignore_ascii_case(name));
        named.map(|field| field.value)
    }

    /// Values of the parameters of this name, as they were sent.
    pub(crate) fn parameters(&self, name: &str) -> impl Iterator<Item = &'a str> {
        parameters(self.request.query).filter(move |(found, _)| is_named(found, name)).map(|(_, value)| value)
    }

    /// The value of the first cookie of this name (RFC 6265 section 4.2.1).
    pub(crate) fn cookie(&self, name: &str) -> Option<&'a [u8]> {
        cookie(self.request, name)
    }

    /// The host that the request is for, without its port.
    pub(crate) fn host(&self) -> &'a str {
        Facts::host_of(self.request.authority)
    }

    /// An authority without its port.
    pub(crate) fn host_of(authority: &'a str) -> &'a str {
        match authority.rfind(':') {
            Some(at) if !authority.ends_with(']') => authority.get(..at).unwrap_or_default(),
            _ => authority,
        }
    }
}

/// The parameters of a query as they were sent: names and values.
pub fn parameters(query: Option<&str>) -> impl Iterator<Item = (&str, &str)> {
    let items = query.into_iter().flat_map(|query| query.split('&')).filter(|item| !item.is_empty());
    items.map(|item| item.split_once('=').unwrap_or((item, "")))
}

/// Whether a name, as it was sent, is this one.
fn is_named(sent: &str, name: &str) -> bool {
    sent == name || sent.contains(['%', '+']) && uri::decode_parameter(sent) == name.as_bytes()
}

#[cfg(test)]
#[path = "tests.rs"]
pub(crate) mod testing;
