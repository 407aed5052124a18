//! A server with HTTP/3, and clients of it.

use std::ops::{Deref, DerefMut};

use maitred_http::h3::Code;
use maitred_http::h3::frame::{Place, Side, kind};
use maitred_http::h3::qpack::{Bounds, Decoder};
use maitred_http::h3::reader::{Event, Reader};
use maitred_load::client::Trust;
use maitred_load::http3::client::{Client, Connector, Failed, Read, Response, frame, headers};
use maitred_load::http3::quinn_proto::StreamId;

use crate::support::stage::{self, Authority};
use crate::support::{Server, Setup, TIMEOUT, eventually};

/// What a pool's queue is like in tests where nothing is about it.
pub(crate) const PATIENT: &str = "workers = 1\nqueue = { max = 1024, timeout = \"60s\" }";

/// Fields of a head: what a test adds to those that each request has.
pub(crate) type Added<'a> = &'a [(&'a str, &'a str)];

/// A site with files, a certificate, and HTTP/3 beside the versions over TCP; `tls` are keys of that table.
pub(crate) fn setup(tls: &str) -> Setup {
    stage::setup(&Authority::new(), tls).listen("http3 = true")
}

/// Makes connections to a server of [`setup`].
pub(crate) fn connector(server: &Server) -> Connector {
    let trust = Trust::Authorities(server.path("ca.pem"));
    let mut connector = Connector::new(server.address_of("https"), "localhost", &trust).unwrap();
    connector.timeout = TIMEOUT;
    connector
}

/// A connection that is closed when it is dropped. A client that only stops to answer is waited for: what it has not acknowledged
/// may be lost.
#[derive(Debug)]
pub(crate) struct Guest(pub(crate) Client);

impl Deref for Guest {
    type Target = Client;

    fn deref(&self) -> &Client {
        &self.0
    }
}

impl DerefMut for Guest {
    fn deref_mut(&mut self) -> &mut Client {
        &mut self.0
    }
}

impl Drop for Guest {
    fn drop(&mut self) {
        if self.0.closed().is_none() {
            self.0.close(Code::NoError.number(), "");
        }
    }
}

/// A connection with its handshake complete.
#[track_caller]
pub(crate) fn join(connector: &Connector) -> Guest {
    Guest(connector.connect().unwrap())
}

/// One connection of its own.
#[track_caller]
pub(crate) fn connect(server: &Server) -> Guest {
    join(&connector(server))
}

/// A connection whose first flight has the request, once the session before has been given a ticket for that.
#[track_caller]
pub(crate) fn early(connector: &Connector) -> Guest {
    let mut client = Guest(connector.begin().unwrap());
    eventually("there is a ticket", || {
        let again = client.has_early_data();
        if !again {
            assert_eq!(join(connector).get("/a.txt").unwrap().status, 200);
            client = Guest(connector.begin().unwrap());
        }
        again
    });
    client
}

/// The fields of a request, with these added.
pub(crate) fn head<'a>(method: &'a str, path: &'a str, added: Added<'a>) -> Vec<(&'a str, &'a str)> {
    let pseudo = [(":method", method), (":scheme", "https"), (":authority", "localhost"), (":path", path)];
    pseudo.into_iter().chain(added.iter().copied()).collect()
}

/// What clients ask for in one line.
pub(crate) trait Asks {
    fn ask(&mut self, method: &str, path: &str, added: Added<'_>, body: &[u8]) -> Response;
    /// Sends a GET, and does not wait for the response.
    fn send_get(&mut self, path: &str, added: Added<'_>) -> StreamId;
    /// Sends the head of a request that goes on.
    fn begin(&mut self, method: &str, path: &str, added: Added<'_>) -> StreamId;
    /// Sends a piece of content.
    fn upload(&mut self, stream: StreamId, bytes: &[u8]);
}

impl Asks for Client {
    #[track_caller]
    fn ask(&mut self, method: &str, path: &str, added: Added<'_>, body: &[u8]) -> Response {
        self.request(&head(method, path, added), body)
            .unwrap_or_else(|failed| panic!("{method} {path}: {failed}"))
    }

    #[track_caller]
    fn send_get(&mut self, path: &str, added: Added<'_>) -> StreamId {
        self.send(&head("GET", path, added), b"").unwrap()
    }

    #[track_caller]
    fn begin(&mut self, method: &str, path: &str, added: Added<'_>) -> StreamId {
        let stream = self.open_bidi().unwrap();
        self.write(stream, &headers(&head(method, path, added))).unwrap();
        stream
    }

    #[track_caller]
    fn upload(&mut self, stream: StreamId, bytes: &[u8]) {
        self.write(stream, &frame(kind::DATA, bytes)).unwrap();
    }
}

/// The content of a response as text.
pub(crate) trait Text {
    fn text(&self) -> &str;
    /// The value of a field that has to be there.
    fn need(&self, name: &str) -> &str;
}

impl Text for Response {
    fn text(&self) -> &str {
        std::str::from_utf8(&self.body).expect("content is text")
    }

    #[track_caller]
    fn need(&self, name: &str) -> &str {
        self.field(name).unwrap_or_else(|| panic!("no {name} in {self:?}"))
    }
}

/// A response of which the test takes as much as it likes.
pub(crate) struct Incoming {
    pub(crate) stream: StreamId,
    reader: Reader,
    pub(crate) status: Option<u16>,
    pub(crate) body: Vec<u8>,
    /// How the stream has ended.
    pub(crate) end: Option<Read>,
}

impl Incoming {
    pub(crate) fn new(stream: StreamId) -> Incoming {
        let reader = Reader::new(Place::Request, Side::Server, 1 << 20);
        Incoming { stream, reader, status: None, body: Vec::new(), end: None }
    }

    /// Takes what is there; whether that was anything.
    pub(crate) fn take(&mut self, client: &mut Client) -> bool {
        if self.end.is_some() {
            return false;
        }
        match client.try_read(self.stream) {
            None => false,
            Some(Read::Bytes(bytes)) => {
                self.parse(&bytes);
                true
            }
            end => {
                self.end = end;
                true
            }
        }
    }

    fn parse(&mut self, bytes: &[u8]) {
        let mut at = 0;
        while let Some(event) = self.reader.next(bytes, &mut at).unwrap() {
            match event {
                Event::Data(bytes) => self.body.extend_from_slice(bytes),
                Event::Headers { section, .. } => {
                    let bounds = Bounds { list_bytes_max: 1 << 20, fields_max: 1000 };
                    let mut status = None;
                    let take = |name: &[u8], value: &[u8]| {
                        if name == b":status" {
                            status = std::str::from_utf8(value).unwrap().parse().ok();
                        }
                    };
                    Decoder::new(0, 0).decode(self.stream.into(), &section, bounds, take).unwrap();
                    // Trailers have none.
                    self.status = status.or(self.status);
                }
                other => panic!("{other:?} in a response"),
            }
        }
    }

    /// Waits until `done`, and takes what comes.
    pub(crate) fn wait(
        &mut self,
        client: &mut Client,
        done: impl Fn(&Incoming) -> bool,
    ) -> Result<(), Failed> {
        loop {
            if done(self) {
                return Ok(());
            }
            match client.wait(|client| self.take(client).then_some(())) {
                // What had come before the end of the connection is there all the same.
                Err(Failed::Closed(_)) if self.take(client) => {}
                other => other?,
            }
        }
    }
}

/// Reloads, and waits until the worker process of this generation answers.
#[track_caller]
pub(crate) fn reload(server: &Server, generation: u64) {
    let (status, said) = server.command(&["reload"]);
    assert!(status.success(), "{said}");
    // Until the old worker process has gone, the admin address may lead to either.
    eventually("the new worker process answers", || server.status()["generation"] == generation);
}

/// Has the executable replaced, and waits until the worker process of this generation answers.
#[track_caller]
pub(crate) fn upgrade(server: &Server, generation: u64) {
    eventually("the executable is replaced", || {
        let (status, said) = server.command(&["upgrade"]);
        assert!(status.success() || said.contains("try again"), "{said}");
        status.success()
    });
    eventually("the new worker process answers", || server.status()["generation"] == generation);
}
