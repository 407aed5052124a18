//! Requests, the clients that send them over each version of HTTP, and what is compared of the responses.

use std::collections::HashMap;
use std::fmt;
use std::io::Read as _;
use std::net::SocketAddr;
use std::sync::Arc;

use maitred_load::client::Tls;
use maitred_load::http3::client::Connector;
use rustls::ClientConfig;

use crate::identity::Who;
use crate::judge::Source;
use crate::site::Guise;
use crate::support::h2::{self, Wire, frame, hpack};
use crate::support::h3::{self, Guest};
use crate::support::{Client, TIMEOUT};
use crate::world::World;

/// What a request comes by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Arrival {
    /// HTTP/1.1 without TLS: the only one that a process can answer itself.
    Http1,
    /// HTTP/2 without TLS.
    Http2,
    /// HTTP/3, and so TLS.
    Http3,
    /// HTTP/1.1 over TLS.
    Secure1,
    /// HTTP/2 over TLS.
    Secure2,
    /// HTTP/1.1 without TLS, at another listener.
    Inner,
}

pub(crate) const ARRIVALS: [Arrival; 6] =
    [Arrival::Http1, Arrival::Http2, Arrival::Http3, Arrival::Secure1, Arrival::Secure2, Arrival::Inner];

impl Arrival {
    /// The `name` of its `[[listen]]`.
    pub(crate) fn listener(self) -> &'static str {
        match self {
            Arrival::Http1 | Arrival::Http2 => "plain",
            Arrival::Http3 | Arrival::Secure1 | Arrival::Secure2 => "secure",
            Arrival::Inner => "inner",
        }
    }

    pub(crate) fn is_secure(self) -> bool {
        self.listener() == "secure"
    }
}

/// A request; its host is said when it is sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Ask {
    pub(crate) method: &'static str,
    pub(crate) path: String,
    /// Where it has `n=…`, another number stands there each time it is sent.
    pub(crate) query: String,
    pub(crate) fields: Vec<(&'static str, String)>,
    pub(crate) body: Vec<u8>,
    /// Whose certificate the client shows, where the request comes by TLS.
    pub(crate) certificate: Who,
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
        if self.certificate != Who::None {
            write!(f, "\n    with the certificate of {}", self.certificate.name())?;
        }
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

/// Connections, made when they are needed: one for each way in and each certificate.
pub(crate) struct Clients<'w> {
    world: &'w World,
    /// How many requests were made.
    pub(crate) asked: u64,
    http1: HashMap<(Arrival, Who), Client>,
    http2: HashMap<(Arrival, Who), h2::Connection>,
    http3: HashMap<Who, Guest>,
}

impl<'w> Clients<'w> {
    pub(crate) fn new(world: &'w World) -> Clients<'w> {
        Clients { world, asked: 0, http1: HashMap::new(), http2: HashMap::new(), http3: HashMap::new() }
    }

    fn config(&self, certificate: Who) -> &Arc<ClientConfig> {
        self.world.credentials.client(certificate)
    }

    fn address(&self, by: Arrival) -> SocketAddr {
        self.world.address(by.listener())
    }

    fn over_http1(&mut self, by: Arrival, host: &str, ask: &Ask, target: &str) -> Answer {
        let who = (by, ask.certificate);
        let mut client = self.http1.remove(&who).unwrap_or_else(|| match by {
            Arrival::Secure1 => {
                Client::try_connect_tls(self.address(by), self.config(ask.certificate), "localhost").unwrap()
            }
            _ => Client::connect(self.address(by)),
        });
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
            self.http1.insert(who, client);
        }
        Answer::new(response.status, response.fields.into_iter(), response.body)
    }

    /// A connection with HTTP/2 over TLS.
    fn secure_http2(&self, certificate: Who) -> h2::Connection {
        let mut config = ClientConfig::clone(self.config(certificate));
        config.alpn_protocols = vec![b"h2".to_vec()];
        let address = self.address(Arrival::Secure2);
        let client = Client::try_connect_tls(address, &Arc::new(config), "localhost").unwrap();
        let stream = client.into_tls();
        let socket = stream.sock.try_clone().unwrap();
        let mut connection = h2::Connection::on(stream as Box<dyn Wire>, socket);
        connection.scheme = "https";
        connection.begin(&[]);
        connection
    }

    fn over_http2(&mut self, by: Arrival, host: &str, ask: &Ask, target: &str) -> Answer {
        let who = (by, ask.certificate);
        let mut client = self.http2.remove(&who).unwrap_or_else(|| match by {
            Arrival::Secure2 => self.secure_http2(ask.certificate),
            _ => h2::Connection::new(self.address(by)),
        });
        let (length, scheme) = (ask.body.len().to_string(), client.scheme);
        let mut fields =
            vec![(":method", ask.method), (":scheme", scheme), (":path", target), (":authority", host)];
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
            self.http2.insert(who, client);
        }
        Answer::new(response.status, response.fields.into_iter(), response.body)
    }

    fn over_http3(&mut self, host: &str, ask: &Ask, target: &str) -> Answer {
        let mut client = self.http3.remove(&ask.certificate).unwrap_or_else(|| {
            let tls = Tls::of("localhost", Arc::clone(self.config(ask.certificate))).unwrap();
            let mut connector = Connector::with(self.address(Arrival::Http3), &tls, &[b"h3"]).unwrap();
            connector.timeout = TIMEOUT;
            h3::join(&connector)
        });
        let length = ask.body.len().to_string();
        let mut fields =
            vec![(":method", ask.method), (":scheme", "https"), (":authority", host), (":path", target)];
        fields.extend(ask.fields.iter().map(|(name, value)| (*name, value.as_str())));
        if !ask.body.is_empty() {
            fields.push(("content-length", &length));
        }
        let response = client.request(&fields, &ask.body).unwrap_or_else(|failed| panic!("HTTP/3: {failed}"));
        self.http3.insert(ask.certificate, client);
        let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
        let fields = response.fields.into_iter().map(|(name, value)| (text(name), text(value)));
        Answer::new(response.status, fields, response.body)
    }
}

impl Source for Clients<'_> {
    fn ask(&mut self, by: Arrival, _: Guise, host: &str, ask: &Ask, target: &str) -> Answer {
        self.asked += 1;
        match by {
            Arrival::Http1 | Arrival::Secure1 | Arrival::Inner => self.over_http1(by, host, ask, target),
            Arrival::Http2 | Arrival::Secure2 => self.over_http2(by, host, ask, target),
            Arrival::Http3 => self.over_http3(host, ask, target),
        }
    }
}
