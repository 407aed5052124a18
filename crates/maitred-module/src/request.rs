//! A request.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use maitred_sys::module::abi::{self, Response};
use maitred_sys::module::guest::SeenRequest;

use crate::later::Ticket;

/// A request. What it shows is good until the handler returns.
#[derive(Debug)]
pub struct Request<'a>(SeenRequest<'a>);

/// What a handler has made of a request: each way to consume a [`Request`] gives one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Outcome(u32);

impl Outcome {
    /// The client gets 500. Why is for the handler to log.
    pub const FAILED: Outcome = Outcome(abi::FAILED);

    pub(crate) fn number(self) -> u32 {
        self.0
    }
}

/// Where a request comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Client {
    /// The client's address, also behind a trusted proxy; `None` on a Unix socket.
    pub address: Option<IpAddr>,
    /// The client's port; 0 where it is not known.
    pub port: u16,
    /// Whether the client has asked over TLS, if only to a trusted proxy.
    pub secure: bool,
    /// 10, 11, 20 or 30 for HTTP/1.0, HTTP/1.1, HTTP/2 and HTTP/3.
    pub http: u8,
}

/// What is text by the rules of HTTP: visible ASCII.
fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap_or_default()
}

impl<'a> Request<'a> {
    pub(crate) fn of(seen: SeenRequest<'a>) -> Request<'a> {
        Request(seen)
    }

    /// The method, as it was sent.
    pub fn method(&self) -> &'a str {
        text(self.0.part(abi::METHOD))
    }

    /// Path and query as they were sent; or what a `rewrite` of the route has made of them.
    pub fn target(&self) -> &'a str {
        text(self.0.part(abi::TARGET))
    }

    /// The path, decoded, as routes see it.
    pub fn path(&self) -> &'a [u8] {
        self.0.part(abi::PATH)
    }

    /// What follows the first `?`, as it was sent; empty without one.
    pub fn query(&self) -> &'a str {
        text(self.0.part(abi::QUERY))
    }

    /// The host, and the port if it was sent.
    pub fn authority(&self) -> &'a str {
        text(self.0.part(abi::AUTHORITY))
    }

    /// The whole body, where the module [reads it](crate::Module::reads_body); empty otherwise.
    pub fn body(&self) -> &'a [u8] {
        self.0.part(abi::BODY)
    }

    /// The value of the first field of this name, whatever its case.
    pub fn field(&self, name: &str) -> Option<&'a [u8]> {
        self.0.field(name.as_bytes())
    }

    /// Names and values, in their order.
    pub fn fields(&self) -> impl Iterator<Item = (&'a [u8], &'a [u8])> {
        (0..self.0.field_count()).filter_map(|index| self.0.field_at(index))
    }

    /// Where it comes from.
    pub fn client(&self) -> Client {
        let seen = self.0.client();
        let [a, b, c, d, ..] = seen.address;
        let address = match seen.family {
            4 => Some(IpAddr::V4(Ipv4Addr::new(a, b, c, d))),
            6 => Some(IpAddr::V6(Ipv6Addr::from(seen.address))),
            _ => None,
        };
        Client { address, port: seen.port, secure: seen.secure != 0, http: seen.http }
    }

    /// A field for what the request goes on to ([`Request::pass`]), in place of what the client has sent of this name. False
    /// unless the name is among `request_fields` of the configuration, and the value is one of HTTP.
    pub fn set_field(&mut self, name: &str, value: impl AsRef<[u8]>) -> bool {
        self.0.set_field(name.as_bytes(), value.as_ref())
    }

    /// Answers. If the response breaks a rule of HTTP (a status outside of 200 to 599, a name that is no token, a line break in a
    /// value), the client gets 500.
    pub fn answer(mut self, response: &Response<'_>) -> Outcome {
        match self.0.answer(response) {
            true => Outcome(abi::ANSWERED),
            false => Outcome::FAILED,
        }
    }

    /// The route goes on: with the next module, or with what it answers with. Without any of that, the client gets 404.
    pub fn pass(self) -> Outcome {
        Outcome(abi::PASS)
    }

    /// Answers later: `begin` gets what the answer is given to, and sees to it that this happens. Only of a module that
    /// [may](crate::Module::may_answer_later); the request waits for `timeout` of the module's table at the most.
    pub fn later(mut self, begin: impl FnOnce(Ticket)) -> Outcome {
        match self.0.later() {
            Some(ticket) => {
                begin(Ticket::new(ticket));
                Outcome(abi::LATER)
            }
            None => {
                crate::error("a module answers later and has not said that it may");
                Outcome::FAILED
            }
        }
    }
}
