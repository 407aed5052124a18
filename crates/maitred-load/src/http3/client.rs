//! A client for tests: one connection, driven step by step, with all of its streams at hand.
//!
//! Each call that waits drives the connection until what it waits for has come, or [`Connector::timeout`] is over. Between calls
//! nothing is sent and nothing acknowledged. What has come on a stream is read only by the calls that say so, so that windows
//! fill up when they are not read.
//!
//! ```no_run
//! use maitred_load::client::Trust;
//! use maitred_load::http3::client::Connector;
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let connector = Connector::new("127.0.0.1:8443".parse()?, "localhost", &Trust::Anyone)?;
//! let mut client = connector.connect()?;
//! let response = client.get("/")?;
//! assert_eq!(response.status, 200);
//! # Ok(())
//! # }
//! ```

mod message;
mod streams;

use std::fmt;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use bytes::Bytes;
use hashbrown::{HashMap, HashSet};
use maitred_http::h3::frame::Settings;
use quinn_proto::{ConnectionError, ConnectionStats, Dir, Event, StreamEvent, StreamId};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::session::{self, Session};
use super::{Buffers, Dialer, Link};
use crate::client::{Tls, Trust};

pub use message::{Fields, Response, frame, headers};
pub use streams::Read;

/// How long a step may take, unless a test says otherwise: long enough for any machine.
const TIMEOUT: Duration = Duration::from_secs(20);

/// How connections are made. Connections of one connector resume one another's sessions.
#[derive(Debug, Clone)]
pub struct Connector {
    /// Addresses, and settings of transport.
    pub dialer: Dialer,
    /// The settings that are said on the control stream; `None`: no stream is opened at all, and those of the server are left to
    /// [`Client::accept_uni`].
    pub settings: Option<Settings>,
    /// How long a step may take.
    pub timeout: Duration,
}

/// Why a step was not done.
#[derive(Debug)]
pub enum Failed {
    /// The step took longer than [`Connector::timeout`].
    TimedOut,
    /// The connection has ended before.
    Closed(Closed),
    /// The server has reset the stream, with this code.
    Reset(u64),
    /// The server does not want more on the stream, and says this code.
    Stopped(u64),
    /// The stream is not there, or has ended before.
    NoStream,
    /// The server may not send that; the connection stays as it is.
    Malformed(maitred_http::h3::Error),
    /// The system, or arguments that cannot be used.
    Other(String),
}

impl fmt::Display for Failed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failed::TimedOut => f.write_str("nothing has come in time"),
            Failed::Closed(closed) => write!(f, "the connection has ended: {closed:?}"),
            Failed::Reset(code) => write!(f, "the stream was reset with {code:#x}"),
            Failed::Stopped(code) => write!(f, "the stream was stopped with {code:#x}"),
            Failed::NoStream => f.write_str("there is no such stream any more"),
            Failed::Malformed(error) => write!(f, "malformed: {error}"),
            Failed::Other(what) => f.write_str(what),
        }
    }
}

impl std::error::Error for Failed {}

/// How a connection has ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Closed {
    /// The server's HTTP/3 has closed it, with a code (RFC 9114 section 8.1) and perhaps a reason.
    Application {
        /// The code.
        code: u64,
        /// The reason; empty if none was given.
        reason: String,
    },
    /// The server's QUIC has closed it, with a code (RFC 9000 section 20.1) and perhaps a reason.
    Transport {
        /// The code.
        code: u64,
        /// The reason; empty if none was given.
        reason: String,
    },
    /// The server does not know the connection any more: a stateless reset.
    Reset,
    /// Nothing has come for too long.
    TimedOut,
    /// The connection was closed on this side: [`Client::close`], or something of the server's that QUIC does not allow.
    Here(String),
}

impl From<ConnectionError> for Closed {
    fn from(error: ConnectionError) -> Closed {
        match error {
            ConnectionError::ApplicationClosed(close) => Closed::Application {
                code: close.error_code.into_inner(),
                reason: String::from_utf8_lossy(&close.reason).into_owned(),
            },
            ConnectionError::ConnectionClosed(close) => Closed::Transport {
                code: close.error_code.into(),
                reason: String::from_utf8_lossy(&close.reason).into_owned(),
            },
            ConnectionError::Reset => Closed::Reset,
            ConnectionError::TimedOut => Closed::TimedOut,
            other => Closed::Here(other.to_string()),
        }
    }
}

impl Connector {
    /// To a server at this address, whose certificate has to be good for this name.
    ///
    /// # Errors
    /// What is wrong with the name or the authorities.
    pub fn new(remote: SocketAddr, name: &str, trust: &Trust) -> Result<Connector, Failed> {
        Connector::with(remote, &Tls::new(name, trust, true).map_err(Failed::Other)?, &[b"h3"])
    }

    /// The same with any protocols, and with a `tls` whose sessions others may share. 0-RTT is used if a session allows it.
    ///
    /// # Errors
    /// When TLS cannot be that of QUIC.
    pub fn with(remote: SocketAddr, tls: &Tls, alpn: &[&[u8]]) -> Result<Connector, Failed> {
        let dialer = Dialer::new(remote, tls, alpn, true).map_err(Failed::Other)?;
        Ok(Connector { dialer, settings: Some(Settings::default()), timeout: TIMEOUT })
    }

    /// Connects, and waits for the end of the handshake.
    ///
    /// # Errors
    /// Why there is no connection.
    pub fn connect(&self) -> Result<Client, Failed> {
        let mut client = self.begin()?;
        client.wait(|client| client.is_connected.then_some(()))?;
        Ok(client)
    }

    /// Begins to connect. If there is a session with 0-RTT to be resumed, requests can be sent at once
    /// ([`Client::has_early_data`]), and the first packet has them.
    ///
    /// # Errors
    /// When there is no socket.
    pub fn begin(&self) -> Result<Client, Failed> {
        let link = self.dialer.dial(Instant::now()).map_err(|error| Failed::Other(error.to_string()))?;
        let mut client = Client {
            link,
            session: Session::new(),
            settings: self.settings,
            timeout: self.timeout,
            buffers: Buffers::default(),
            is_connected: false,
            has_begun: false,
            closed: None,
            opened: Vec::new(),
            held: HashMap::new(),
            stopped: HashMap::new(),
            finished: HashSet::new(),
        };
        if client.has_early_data() {
            client.start();
        }
        Ok(client)
    }
}

/// One connection.
pub struct Client {
    link: Link,
    session: Session,
    settings: Option<Settings>,
    timeout: Duration,
    buffers: Buffers,
    is_connected: bool,
    /// The streams of HTTP/3 are open.
    has_begun: bool,
    closed: Option<Closed>,
    /// Unidirectional streams of the server that are left to the test.
    opened: Vec<StreamId>,
    /// What was read with [`Client::read`] and has not been asked for.
    held: HashMap<StreamId, streams::Held>,
    /// Streams that the server has asked to stop, and the codes.
    stopped: HashMap<StreamId, u64>,
    /// Streams whose end the server has acknowledged.
    finished: HashSet<StreamId>,
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client")
            .field("link", &self.link)
            .field("closed", &self.closed)
            .finish_non_exhaustive()
    }
}

impl Client {
    /// Drives the connection until `done` says something.
    ///
    /// # Errors
    /// When the connection has ended, or the timeout has passed.
    pub fn wait<T>(&mut self, mut done: impl FnMut(&mut Client) -> Option<T>) -> Result<T, Failed> {
        let deadline = Instant::now() + self.timeout;
        loop {
            if let Some(value) = done(self) {
                // What was read or written may have to be told.
                self.link.transmit(Instant::now(), &mut self.buffers);
                return Ok(value);
            }
            if let Some(closed) = &self.closed {
                return Err(Failed::Closed(closed.clone()));
            }
            if Instant::now() >= deadline {
                return Err(Failed::TimedOut);
            }
            self.turn(deadline);
        }
    }

    /// Drives the connection for so long, or until it has ended.
    pub fn run_for(&mut self, time: Duration) {
        let until = Instant::now() + time;
        while self.closed.is_none() && Instant::now() < until {
            self.turn(until);
        }
    }

    /// Sends what there is to send, without waiting for anything.
    pub fn flush(&mut self) {
        self.link.transmit(Instant::now(), &mut self.buffers);
    }

    /// Waits for datagrams or a timer, until `deadline` at most, and does what they ask for.
    fn turn(&mut self, deadline: Instant) {
        self.link.transmit(Instant::now(), &mut self.buffers);
        let until = self.link.timeout().map_or(deadline, |timer| timer.min(deadline));
        let left = until.saturating_duration_since(Instant::now());
        let left = Timespec { tv_sec: left.as_secs() as i64, tv_nsec: left.subsec_nanos().into() };
        let _ = poll(&mut [PollFd::new(&self.link, PollFlags::IN)], Some(&left));
        let now = Instant::now();
        // A server that is gone for a moment does not end a connection that has begun.
        if let Err(error) = self.link.receive(now, &mut self.buffers)
            && !self.is_connected
        {
            self.closed.get_or_insert(Closed::Here(error.to_string()));
        }
        if self.link.timeout().is_some_and(|timer| timer <= now) {
            self.link.expire(now);
        }
        while let Some(event) = self.link.connection.poll() {
            self.on_event(event);
        }
        self.link.transmit(Instant::now(), &mut self.buffers);
    }

    fn start(&mut self) {
        if let Some(settings) = self.settings.filter(|_| !self.has_begun) {
            Session::start(&mut self.link.connection, &settings);
        }
        self.has_begun = true;
    }

    fn on_event(&mut self, event: Event) {
        let connection = &mut self.link.connection;
        let result = match event {
            Event::Connected => {
                self.is_connected = true;
                // The server may have refused 0-RTT, and with it all streams that were opened.
                self.has_begun &= connection.accepted_0rtt();
                self.start();
                Ok(())
            }
            Event::ConnectionLost { reason } => {
                self.closed.get_or_insert(reason.into());
                Ok(())
            }
            Event::Stream(StreamEvent::Opened { dir: Dir::Uni }) if self.settings.is_none() => {
                while let Some(id) = connection.streams().accept(Dir::Uni) {
                    self.opened.push(id);
                }
                Ok(())
            }
            Event::Stream(StreamEvent::Opened { dir: Dir::Uni }) => self.session.on_opened(connection),
            Event::Stream(StreamEvent::Readable { id }) if id.dir() == Dir::Uni => {
                self.session.on_readable(connection, id)
            }
            Event::Stream(StreamEvent::Stopped { id, error_code }) => {
                self.stopped.insert(id, error_code.into_inner());
                Ok(())
            }
            Event::Stream(StreamEvent::Finished { id }) => {
                self.finished.insert(id);
                Ok(())
            }
            _ => Ok(()),
        };
        if let Err(error) = result {
            self.close(error.code.number(), error.reason);
        }
    }

    /// Waits until the server has ended the connection, and says how.
    ///
    /// # Errors
    /// When it has not, before the timeout.
    pub fn wait_closed(&mut self) -> Result<Closed, Failed> {
        match self.wait(|client| client.closed.clone()) {
            Err(Failed::Closed(closed)) => Ok(closed),
            other => other,
        }
    }

    /// How the connection has ended, if it has.
    pub fn closed(&self) -> Option<&Closed> {
        self.closed.as_ref()
    }

    /// Closes the connection with a code of HTTP/3 and a reason, and sends that.
    pub fn close(&mut self, code: u64, reason: &str) {
        let now = Instant::now();
        self.link.connection.close(now, session::code(code), Bytes::copy_from_slice(reason.as_bytes()));
        self.closed.get_or_insert(Closed::Here(reason.to_owned()));
        self.link.transmit(now, &mut self.buffers);
    }

    /// The server's settings, once they have come.
    pub fn settings(&self) -> Option<Settings> {
        self.session.settings
    }

    /// The identifier of the last GOAWAY that has come.
    pub fn go_away(&self) -> Option<u64> {
        self.session.go_away
    }

    /// Waits for a GOAWAY that is smaller than `below`: `u64::MAX` is any.
    ///
    /// # Errors
    /// When there is none.
    pub fn wait_go_away(&mut self, below: u64) -> Result<u64, Failed> {
        self.wait(|client| client.go_away().filter(|first| *first < below))
    }

    /// Whether a session was resumed that allows 0-RTT.
    pub fn has_early_data(&self) -> bool {
        self.link.connection.has_0rtt()
    }

    /// Whether the server has taken what was sent in 0-RTT. Of use once connected.
    pub fn early_data_accepted(&self) -> bool {
        self.link.connection.accepted_0rtt()
    }

    /// Goes on from another local address, without telling the server.
    ///
    /// # Errors
    /// When there is no such socket.
    pub fn rebind(&mut self, local: SocketAddr) -> Result<(), Failed> {
        self.link.rebind(local).map_err(|error| Failed::Other(error.to_string()))
    }

    /// Goes on from another local address with another connection ID, as a client does that moves to another network.
    ///
    /// # Errors
    /// When there is no such socket.
    pub fn migrate(&mut self, local: SocketAddr) -> Result<(), Failed> {
        self.rebind(local)?;
        self.link.connection.local_address_changed();
        Ok(())
    }

    /// Changes the keys of the connection (RFC 9001 section 6); the next packet has the new ones.
    pub fn update_keys(&mut self) {
        self.link.connection.force_key_update();
    }

    /// Makes the next packet one that the server has to acknowledge.
    pub fn ping(&mut self) {
        self.link.connection.ping();
    }

    /// What QUIC has counted.
    pub fn stats(&self) -> ConnectionStats {
        self.link.connection.stats()
    }

    /// The connection itself, for what this type has no words for.
    pub fn link(&mut self) -> &mut Link {
        &mut self.link
    }
}
