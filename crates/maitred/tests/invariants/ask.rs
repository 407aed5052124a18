//! Requests, the clients that send them over each version of HTTP, and what is compared of the responses.

use std::fmt;
use std::io::Read as _;

use maitred_load::http3::client::Connector;

use crate::judge::Source;
use crate::site::Guise;
use crate::support::h2::frame;
use crate::support::h2::{self, hpack};
use crate::support::h3::{self, Guest};
use crate::support::{Client, Server};

/// What a request comes by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Arrival {
    /// HTTP/1.1 without TLS: the only one that a process can answer itself.
    Http1,
    /// HTTP/2 without TLS.
    Http2,
    /// HTTP/3, and so TLS.
    Http3,
}

pub(crate) const ARRIVALS: [Arrival; 3] = [Arrival::Http1, Arrival::Http2, Arrival::Http3];

/// A request; its host is said when it is sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Ask {
    pub(crate) method: &'static str,
    pub(crate) path: String,
    /// Where it has `n=…`, another number stands there each time it is sent.
    pub(crate) query: String,
    pub(crate) fields: Vec<(&'static str, String)>,
    pub(crate) body: Vec<u8>,
}

impl Ask {
    pub(crate) fn target(&self, number: u64) -> String {
        let query = self.query.replace(NUMBER, &format!("n={number:07}"));
        if query.is_empty() { self.path.clone() } else { format!("{}?{query}", self.path) }
    }

    /// The same with more fields.
    pub(crate) fn with(&self, fields: &[(&'static str, String)]) -> Ask {
        let mut other = self.clone();
        other.fields.extend_from_slice(fields);
        other
    }
}

/// What stands in a query for a number that no other request has.
pub(crate) const NUMBER: &str = "n=*";

impl fmt::Display for Ask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}?{}", self.method, self.path, self.query)?;
        for (name, value) in &self.fields {
            write!(f, "\n    {name}: {value}")?;
        }
        if self.body.is_empty() { Ok(()) } else { write!(f, "\n    and {} bytes", self.body.len()) }
    }
}

/// A response, its fields in order of their names in small letters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) fields: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
}

impl Answer {
    fn new(status: u16, fields: impl Iterator<Item = (String, String)>, body: Vec<u8>) -> Answer {
        let mut fields: Vec<_> = fields.map(|(name, value)| (name.to_ascii_lowercase(), value)).collect();
        fields.sort();
        Answer { status, fields, body }
    }

    pub(crate) fn field(&self, name: &str) -> Option<&str> {
        self.fields.iter().find(|(found, _)| found == name).map(|(_, value)| value.as_str())
    }

    /// The content without its coding, and without the field that says so.
    pub(crate) fn decoded(&self) -> Answer {
        let mut answer = self.clone();
        let Some(coding) = self.field("content-encoding") else { return answer };
        let mut plain = Vec::new();
        let body = self.body.as_slice();
        // Of a response to HEAD there is none.
        if !body.is_empty() {
            match coding {
                "gzip" => drop(flate2::read::GzDecoder::new(body).read_to_end(&mut plain).expect("gzip")),
                "br" => drop(brotli::Decompressor::new(body, 4096).read_to_end(&mut plain).expect("Brotli")),
                "zstd" => {
                    let mut decoder = ruzstd::decoding::StreamingDecoder::new(body).expect("zstd");
                    decoder.read_to_end(&mut plain).expect("zstd");
                }
                other => panic!("nobody has asked for {other}"),
            }
        }
        answer.body = plain;
        answer.fields.retain(|(name, _)| name != "content-encoding");
        answer
    }

    /// The line of the application's content that begins so.
    pub(crate) fn line(&self, begin: &str) -> Option<&str> {
        let text = std::str::from_utf8(&self.body).ok()?;
        text.starts_with("pool ").then_some(())?;
        text.lines().find_map(|line| line.strip_prefix(begin))
    }
}

impl fmt::Display for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "    {}", self.status)?;
        for (name, value) in &self.fields {
            writeln!(f, "    {name}: {value}")?;
        }
        let text = String::from_utf8_lossy(&self.body);
        for line in text.lines().filter(|line| !line.contains("padding")).take(30) {
            writeln!(f, "    | {line}")?;
        }
        Ok(())
    }
}

/// One connection of each version, made when it is needed.
pub(crate) struct Clients<'s> {
    server: &'s Server,
    connector: Connector,
    /// How many requests were made.
    pub(crate) asked: u64,
    http1: Option<Client>,
    http2: Option<h2::Connection>,
    http3: Option<Guest>,
}

impl<'s> Clients<'s> {
    pub(crate) fn new(server: &'s Server) -> Clients<'s> {
        Clients { server, connector: h3::connector(server), asked: 0, http1: None, http2: None, http3: None }
    }

    fn over_http1(&mut self, host: &str, ask: &Ask, target: &str) -> Answer {
        let mut client = self.http1.take().unwrap_or_else(|| self.server.connect());
        let mut head = format!("{} {target} HTTP/1.1\r\nHost: {host}\r\n", ask.method);
        for (name, value) in &ask.fields {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        if !ask.body.is_empty() {
            head.push_str(&format!("content-length: {}\r\n", ask.body.len()));
        }
        head.push_str("\r\n");
        client.send([head.as_bytes(), &ask.body].concat());
        let response = client.response(ask.method);
        if !response.says_close() {
            self.http1 = Some(client);
        }
        Answer::new(response.status, response.fields.into_iter(), response.body)
    }

    fn over_http2(&mut self, host: &str, ask: &Ask, target: &str) -> Answer {
        let mut client = self.http2.take().unwrap_or_else(|| h2::Connection::new(self.server.address));
        let length = ask.body.len().to_string();
        let mut fields =
            vec![(":method", ask.method), (":scheme", "http"), (":path", target), (":authority", host)];
        fields.extend(ask.fields.iter().map(|(name, value)| (*name, value.as_str())));
        if !ask.body.is_empty() {
            fields.push(("content-length", &length));
        }
        let id = client.open();
        client.stream(id).method = ask.method.to_owned();
        client.send(frame::headers(id, &hpack::block(&fields), ask.body.is_empty()));
        if !ask.body.is_empty() {
            client.upload(id, &ask.body, true);
        }
        let response = client.response(id);
        if client.goaway.is_none() {
            self.http2 = Some(client);
        }
        Answer::new(response.status, response.fields.into_iter(), response.body)
    }

    fn over_http3(&mut self, host: &str, ask: &Ask, target: &str) -> Answer {
        let mut client = self.http3.take().unwrap_or_else(|| h3::join(&self.connector));
        let length = ask.body.len().to_string();
        let mut fields =
            vec![(":method", ask.method), (":scheme", "https"), (":authority", host), (":path", target)];
        fields.extend(ask.fields.iter().map(|(name, value)| (*name, value.as_str())));
        if !ask.body.is_empty() {
            fields.push(("content-length", &length));
        }
        let response = client.request(&fields, &ask.body).unwrap_or_else(|failed| panic!("HTTP/3: {failed}"));
        self.http3 = Some(client);
        let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
        let fields = response.fields.into_iter().map(|(name, value)| (text(name), text(value)));
        Answer::new(response.status, fields, response.body)
    }
}

impl Source for Clients<'_> {
    fn ask(&mut self, by: Arrival, _: Guise, host: &str, ask: &Ask, target: &str) -> Answer {
        self.asked += 1;
        match by {
            Arrival::Http1 => self.over_http1(host, ask, target),
            Arrival::Http2 => self.over_http2(host, ask, target),
            Arrival::Http3 => self.over_http3(host, ask, target),
        }
    }
}
