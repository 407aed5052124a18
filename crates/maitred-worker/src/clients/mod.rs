//! Connections of clients, and what carries their bytes.
//!
//! | file | what |
//! |---|---|
//! | [`table`] | connections come into it, and change their state |
//! | [`exchange`] | looks at the exchange of a connection |
//! | [`wire`] | a socket, TLS, or a stream: receive, send |
//! | [`throttle`] | responses that may leave only so fast |
//! | [`tls_kernel`] | TLS sessions whose records the kernel encrypts |
//! | [`tls_session`] | TLS sessions |
//! | [`handshakes`] | handshakes that wait for certificates on demand |
//! | [`http2`] | begin and end of HTTP/2 connections, frames that leave, GOAWAY |
//! | [`datagrams`] | UDP sockets, datagrams that leave, the end of QUIC connections |
//! | [`streams`] | what is received and sent on a stream |
//! | [`outdate`] | responses that say something about others that the cache keeps |
//! | [`told_apart`] | which clients the cache tells apart |
//! | [`altering`] | heads of responses that go through modules |
//! | [`rates`] | how fast a head and a body have to come |
//! | [`unsent`] | what clients do not take: counted and bounded |
//! | [`reclaim`] | whether a connection is idle, and since when |
//! | [`arrival`] | where a request has come in |
//! | [`answer`] | responses of the server itself: chosen, written, counted, logged |
//! | [`forwarded`] | what applications and servers are told of a request |
//! | [`filled`] | fields of responses whose values have placeholders |
//! | [`told`] | what placeholders and conditions look at, besides heads |
//! | [`spans`] | what traces say of requests |
//! | [`timing`] | how long requests took |
//! | [`under_way`] | those that have no end yet |
//! | [`errors`] | errors that the server answers with |
//! | [`aborted`] | requests that end without a whole response |

mod aborted;
mod altering;
pub(crate) mod answer;
mod arrival;
pub(crate) mod datagrams;
mod errors;
mod exchange;
mod filled;
pub(crate) mod forwarded;
mod handshakes;
mod http2;
mod outdate;
mod rates;
mod reclaim;
mod spans;
mod streams;
mod table;
mod throttle;
mod timing;
mod tls_kernel;
mod tls_session;
mod told;
mod told_apart;
mod under_way;
mod unsent;
mod wire;

use std::time::{Duration, Instant};

use maitred_http::fields::FieldLines;
use maitred_http::h2::Settings;
use maitred_http::h3;
use maitred_http::request::{HeadLimits, RequestHead};

use super::base::Base;
use super::connection::Exchange;
use super::drain::Drain;
use super::layers::above;
use super::origin::ForwardedHeaders;
use super::scratch::Scratch;
use crate::clients::datagrams::DatagramSocket;
use crate::connection::multiplexed::Multiplexed;
use crate::connection::tls::{CIPHERTEXT_BYTES, TlsSession};
use crate::connection::wire::FILE_PIECE_BYTES;
use crate::entry::Entry;
use crate::keys::{ConnId, ConnKey, SessionKey, Table, TlsKey};
use crate::modules::Answer;
use crate::modules::altering::HeadFilter;
use maitred_base::overload::Overload;
use maitred_config::Limits;
use maitred_files::CachedBytes;
use maitred_files::files::FileServer;
use maitred_log::thread_logs::ThreadLogs;
use maitred_policy::compress::Encoders;

/// Bytes of the receive buffer that all connections of a thread share, beyond what a head may have.
const RECEIVE_BYTES: usize = 64 * 1024;
/// Buffers of finished requests that are kept for the next ones.
const SPARE_EXCHANGES: usize = 64;

/// Bytes of one connection that are received and not acted on, at most.
pub(crate) fn received_bytes_max(limits: &HeadLimits) -> usize {
    RECEIVE_BYTES + 2 * limits.head_bytes_max
}

/// Connections, what carries their bytes, and what the server itself answers with.
pub(crate) struct Clients {
    pub(crate) base: Base,
    pub(crate) connections: Table<ConnKey, Entry>,
    /// How many of them are not accepted from clients: streams of HTTP/2 connections, and what other threads have sent.
    pub(crate) streams: usize,
    /// How many belong to the admin listener, and take no places from clients.
    pub(crate) admins: usize,
    /// The serial number of the newest one.
    pub(crate) serial: u32,
    /// Exchanges without a connection, for the next requests.
    #[expect(clippy::vec_box, reason = "the boxes are what is kept: connections take and return them")]
    pub(crate) spare: Vec<Box<Exchange>>,
    /// TLS sessions.
    pub(crate) tls_sessions: Table<TlsKey, Box<TlsSession>>,
    /// Connections whose handshakes wait for a certificate.
    pub(crate) handshakes: Vec<ConnId>,
    /// HTTP/2 and HTTP/3 sessions.
    pub(crate) sessions: Table<SessionKey, Box<Multiplexed>>,
    /// UDP sockets, and the endpoints of QUIC behind them.
    pub(crate) datagrams: Vec<DatagramSocket>,
    /// Sessions with something to do at the end of the turn.
    pub(crate) unsent_sessions: Vec<SessionKey>,
    /// The settings for HTTP/2 clients.
    pub(crate) http2: Settings,
    /// The settings for HTTP/3 clients.
    pub(crate) http3: h3::Settings,
    pub(crate) head_limits: HeadLimits,
    pub(crate) buffers: Buffers,
    pub(crate) load: Load,
    pub(crate) files: FileServer,
    pub(crate) logs: ThreadLogs,
    pub(crate) encoders: Encoders,
    pub(crate) forwarded: ForwardedHeaders,
    /// The process ends.
    pub(crate) drain: Option<Drain>,
}
above!(Clients, base: Base);

/// Buffers that all connections of a thread use, one after another.
pub(crate) struct Buffers {
    /// Received bytes.
    pub(crate) rx: Scratch,
    /// What was received from the socket of a TLS connection, still encrypted.
    pub(crate) ciphertext: Box<[u8; CIPHERTEXT_BYTES]>,
    /// The head of a request that comes over HTTP/2, while `rx` has the frames of its connection.
    pub(crate) head: RequestHead,
    /// Datagrams that are to leave.
    pub(crate) datagrams: Vec<u8>,
    /// A piece of a file on its way.
    pub(crate) piece: Scratch,
    /// Bytes to send. Unlike those before it, it is mostly used in place, and grows when something is written to it: nothing is
    /// lost where it does not come back.
    pub(crate) tx: Vec<u8>,
    /// What `tx` may end with, where that is in the cache of files, or the configuration: if it cannot be sent, it is held there.
    pub(crate) tx_cached: Option<CachedBytes>,
    /// Fields of a response that is being made.
    pub(crate) lines: FieldLines,
    /// Fields that a response has because of its request.
    pub(crate) further: FieldLines,
    /// The answer of a module; its memory is used again.
    pub(crate) module_answer: Option<Box<Answer>>,
    /// The modules that see the head of the response that is being written.
    pub(crate) head_filter: Option<Box<HeadFilter>>,
}

/// How much there is to do, and what follows from that.
pub(crate) struct Load {
    pub(crate) overload: Overload,
    /// How long the last turn took.
    pub(crate) turn_took: Duration,
    /// `keep_alive_timeout` at the present level of overload.
    pub(crate) keep_alive_timeout: Duration,
    /// `write_timeout` likewise.
    pub(crate) write_timeout: Duration,
    /// Connections whose responses found no room in the budget for what is unsent.
    pub(crate) without_room: Vec<ConnId>,
    /// Connections whose reads the disk helpers had no room for.
    pub(crate) postponed: Vec<ConnId>,
    /// When they are submitted again.
    pub(crate) postponed_until: Option<Instant>,
}

impl Clients {
    pub(crate) fn new(base: Base, files: FileServer, logs: ThreadLogs) -> Clients {
        let limits = &base.shared.start.config.limits;
        let head_limits = HeadLimits {
            head_bytes_max: limits.head_bytes_max as usize,
            header_count_max: usize::from(limits.header_count_max),
            target_bytes_max: limits.target_bytes_max as usize,
            // A longer body is refused once the route is known (`Requests::begin_body`).
            body_bytes_max: u64::MAX,
        };
        Clients {
            connections: Table::new(),
            streams: 0,
            admins: 0,
            serial: 0,
            spare: Vec::new(),
            tls_sessions: Table::new(),
            handshakes: Vec::new(),
            sessions: Table::new(),
            datagrams: Vec::new(),
            unsent_sessions: Vec::new(),
            http2: crate::connection::multiplexed::settings(limits),
            http3: crate::connection::multiplexed::http3_settings(limits),
            head_limits,
            buffers: Buffers::new(&head_limits),
            load: Load::new(limits, base.clock.now),
            files,
            logs,
            encoders: Encoders::new(limits.compress_encoders_max),
            forwarded: ForwardedHeaders::default(),
            drain: None,
            base,
        }
    }

    /// Keeps the buffers of a finished request for a later one.
    pub(crate) fn recycle(&mut self, mut exchange: Box<Exchange>) {
        if self.spare.len() < SPARE_EXCHANGES && exchange.capacity() < RECEIVE_BYTES {
            exchange.reset();
            self.spare.push(exchange);
        }
    }
}

impl Buffers {
    fn new(limits: &HeadLimits) -> Buffers {
        Buffers {
            rx: Scratch::new(received_bytes_max(limits)),
            ciphertext: Box::new([0; CIPHERTEXT_BYTES]),
            head: RequestHead::default(),
            datagrams: Vec::new(),
            piece: Scratch::new(FILE_PIECE_BYTES),
            tx: Vec::with_capacity(RECEIVE_BYTES),
            tx_cached: None,
            lines: FieldLines::default(),
            further: FieldLines::default(),
            module_answer: None,
            head_filter: None,
        }
    }
}

impl Load {
    fn new(limits: &Limits, now: Instant) -> Load {
        Load {
            overload: Overload::new(limits.loop_delay_max, now),
            turn_took: Duration::ZERO,
            keep_alive_timeout: limits.keep_alive_timeout,
            write_timeout: limits.write_timeout,
            without_room: Vec::new(),
            postponed: Vec::new(),
            postponed_until: None,
        }
    }
}
