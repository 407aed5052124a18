//! Servers that fail, in every way and of every kind: plain, over TLS, of HTTP/2, of FastCGI.

mod arbitrary;
mod cuts;
mod early;
mod framing;
mod relay;
mod stalls;

use std::io;
use std::net::SocketAddr;

use crate::proxy::fastcgi;
use crate::proxy::secure::{Authority, config};
use crate::support::framed::{self, field, head};
use crate::support::h2::frame;
use crate::support::upstream::{Peer, Upstream};
use crate::support::{Server, Setup};

/// How a server is spoken to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Http,
    Https,
    Http2,
    FastCgi,
}

const KINDS: [Kind; 4] = [Kind::Http, Kind::Https, Kind::Http2, Kind::FastCgi];

impl Kind {
    /// What stands in `connect` before the address.
    fn scheme(self) -> &'static str {
        match self {
            Kind::Http => "http",
            Kind::Https => "https",
            Kind::Http2 => "h2",
            Kind::FastCgi => "fastcgi",
        }
    }

    /// A pool of one server of this kind.
    fn pool(self, name: &str, address: impl std::fmt::Display, lines: &str) -> String {
        let tls = match self {
            Kind::Https => "tls = { ca = \"ca.pem\", server_name = \"inner.example\" }\n",
            _ => "",
        };
        format!("[pool.{name}]\nconnect = \"{}://{address}\"\n{tls}{lines}\n", self.scheme())
    }

    /// A server that answers each request with what `says` makes of its path, and its stream of HTTP/2, piece by piece.
    fn upstream(
        self,
        authority: &Authority,
        says: impl Fn(&str, u32) -> Vec<Vec<u8>> + Send + Sync + 'static,
    ) -> Upstream {
        if self == Kind::Http2 {
            return framed::start(&[], move |far| {
                loop {
                    let (id, fields, _) = far.request()?;
                    let path = field(&fields, ":path").unwrap();
                    says(path, id).into_iter().try_for_each(|piece| far.send(piece))?;
                }
            });
        }
        let path = match self {
            Kind::FastCgi => {
                |peer: &mut Peer| Ok(fastcgi::request(peer)?.get("REQUEST_URI").unwrap().to_owned())
            }
            _ => |peer: &mut Peer| Ok(peer.request()?.target().to_owned()),
        };
        self.serving(authority, move |peer| {
            loop {
                let path: io::Result<String> = path(peer);
                says(&path?, 0).into_iter().try_for_each(|piece| peer.send(piece))?;
            }
        })
    }

    /// A server that does this with each connection.
    fn serving(
        self,
        authority: &Authority,
        serve: impl Fn(&mut Peer) -> io::Result<()> + Send + Sync + 'static,
    ) -> Upstream {
        match self {
            Kind::Https => Upstream::secure(config(&authority.sign("inner.example", 2100), None), serve),
            _ => Upstream::start(serve),
        }
    }

    /// A server whose requests go to one of this kind.
    fn start(self, authority: &Authority, address: SocketAddr) -> Server {
        Setup::with_files()
            .server("threads = 1")
            .limit("body_bytes_max = \"20MiB\"")
            .outside("ca.pem", authority.pem.as_bytes())
            .route("/*", "pool = \"app\"")
            .table(&self.pool("app", address, ""))
            .start()
    }
}

/// What a client sees of a response, the worst first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Seen {
    /// An answer of Maitred's own, with this status.
    Failed(u16),
    /// The connection ended before the response did.
    Cut,
    /// The response looks whole.
    Whole,
}

/// Asks for something on a connection of its own.
fn seen(server: &Server, method: &str, path: &str, expected: &str) -> Seen {
    let mut client = server.connect();
    let content = if method == "POST" { "Content-Length: 1\r\n\r\nx" } else { "\r\n" };
    client.send(format!("{method} {path} HTTP/1.1\r\nHost: h\r\n{content}"));
    match client.try_response(method) {
        Ok(response) if response.status == 200 => {
            assert_eq!(response.text(), expected);
            Seen::Whole
        }
        Ok(response) => Seen::Failed(response.status),
        Err(error) => {
            assert_ne!(error.kind(), io::ErrorKind::WouldBlock, "it never ends");
            Seen::Cut
        }
    }
}

/// The text of [`response`].
const TEXT: &str = "0123456789";

/// A response of this kind, in pieces.
fn response(kind: Kind, id: u32) -> Vec<Vec<u8>> {
    let (one, two) = TEXT.as_bytes().split_at(4);
    match kind {
        Kind::Http | Kind::Https => {
            vec![b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n".to_vec(), one.to_vec(), two.to_vec()]
        }
        Kind::Http2 => vec![
            head(id, &[(":status", "200"), ("x-one", "1")], false),
            frame::data(id, one, false),
            frame::data(id, two, true),
        ],
        Kind::FastCgi => vec![
            fastcgi::of(fastcgi::STDOUT, "Content-Type: text/plain\r\n\r\n"),
            fastcgi::of(fastcgi::STDOUT, one),
            fastcgi::of(fastcgi::STDOUT, two),
            fastcgi::end(0),
        ],
    }
}
