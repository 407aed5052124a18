//! Frames of the handoff protocol, version 1, between Maitred and application processes: bytes in, frames out, and
//! the reverse. No I/O. `adapters/PROTOCOL.md` is the specification; the names here are its names.
//!
//! Maitred writes with [`begin_request`], [`encode_welcome`], [`encode_forget`], [`encode_cancel`], [`encode_ping`] and
//! [`encode_shutdown`], and reads with [`FromApp::decode`]. An application reads with [`FromServer::decode`] and writes
//! with [`encode_hello`], [`encode_done`], [`encode_tail`], [`encode_tail_file`], [`encode_detach`] and [`encode_pong`].
//!
//! Descriptors travel beside the bytes. Both sides keep those received in a queue; a frame that decodes takes its
//! descriptors ([`FromApp::descriptors`], [`FromServer::descriptors`]) from the front of it. The rule that a sender
//! keeps (a descriptor leaves no later than the
//! last byte of its frame) makes that sound: a complete frame's descriptors are always in the queue.
//!
//! Of an application's response [`is_sendable`] says which fields are sent, and [`encode_informational`] writes what may come
//! before it (103 Early Hints), [`encode_last_chunk`] what may come behind it (trailers).
//!
//! `examples/worker.rs` is an application of one thread, `examples/tower/` one that serves any `tower::Service` of `http`
//! requests, many at a time.

mod builder;
mod error;
mod field;
mod from_app;
mod from_server;
pub mod fuzzing;
mod header;
mod response;

pub use builder::{BodyPart, HeadPart, MetaPart, begin_request, is_forwardable};
pub use error::{ProtocolError, Rule, Side};
pub use from_app::{
    Done, FromApp, Hello, Outcome, encode_detach, encode_done, encode_hello, encode_limits, encode_pong,
    encode_streams, encode_tail, encode_tail_file,
};
pub use from_server::{
    FromServer, Request, Trailers, Welcome, encode_cancel, encode_forget, encode_ping, encode_shutdown,
    encode_trailers, encode_welcome,
};
pub use header::{Header, OPTIONAL, RequestFlags, kind};
pub use response::{
    INFORMATIONAL_BYTES_MAX, INFORMATIONAL_MAX, NOT_IN_TRAILERS, TRAILER_BYTES_MAX, TRAILERS_MAX,
    encode_informational, encode_last_chunk, is_sendable,
};

/// The version of the protocol that is spoken here.
pub const VERSION: u16 = 1;
/// Environment variable that names the descriptor of the channel in an application process.
pub const CHANNEL_VARIABLE: &str = "MAITRED_CHANNEL";
/// The same of the recovery socket, over which the process gets another channel.
pub const RECOVERY_VARIABLE: &str = "MAITRED_RECOVERY";
/// Bytes of a frame's header.
pub const HEADER_BYTES: usize = 16;
/// Bytes of a REQUEST before its meta part: header, and the lengths of the parts. A REQUEST without meta lines holds behind
/// them what an HTTP/1.1 server would be sent.
pub const REQUEST_PREFIX_BYTES: usize = HEADER_BYTES + from_server::PART_LENGTHS_BYTES;
/// Bytes of a frame's payload from Maitred, unless WELCOME says otherwise: bounds an application's receive buffer.
pub const PAYLOAD_BYTES_MAX: u32 = 2 * 1024 * 1024;
/// Bytes of a frame's payload from an application; bounds Maitred's receive buffer per channel.
pub const APP_PAYLOAD_BYTES_MAX: u32 = TAIL_BYTES_MAX as u32;
/// Bytes of the response in one TAIL.
pub const TAIL_BYTES_MAX: usize = 64 * 1024;
/// Bytes of the response in all TAILs of one request, files apart; bounds what Maitred keeps for a client that reads
/// slowly. More goes through a file (a memfd).
pub const TAIL_TOTAL_BYTES_MAX: usize = 1024 * 1024;
/// Frames of TAIL for one request, of either form; bounds Maitred's list of them.
pub const TAILS_MAX: usize = 1024;
/// Frames of TAIL with FILE; each is a descriptor of Maitred's until the client has the file.
pub const TAIL_FILES_MAX: usize = 8;
/// The only status with which a connection is taken over.
pub const DETACH_STATUS: u16 = 101;
/// Bytes of the meta part of a REQUEST.
pub const META_BYTES_MAX: u32 = 4096;
/// Bytes of an adapter's name in HELLO.
pub const NAME_BYTES_MAX: usize = 64;
/// Requests at a time that an application can ask for in HELLO.
pub const CAPACITY_MAX: u32 = 65_536;
/// Descriptors that come with one REQUEST: the connection's, and the body's.
pub const REQUEST_DESCRIPTORS_MAX: u16 = 2;
/// Descriptors that come with a frame of any kind.
pub const FRAME_DESCRIPTORS_MAX: u16 = 2;
/// Descriptors that fit into one `sendmsg` (`SCM_MAX_FD` of the kernel, unix(7)).
pub const MESSAGE_DESCRIPTORS_MAX: usize = 253;

const _: () = assert!(META_BYTES_MAX < PAYLOAD_BYTES_MAX);
const _: () = assert!(NAME_BYTES_MAX + 8 <= APP_PAYLOAD_BYTES_MAX as usize);
const _: () = assert!(TAIL_BYTES_MAX <= APP_PAYLOAD_BYTES_MAX as usize);
const _: () = assert!(TAIL_BYTES_MAX * TAILS_MAX >= TAIL_TOTAL_BYTES_MAX);
const _: () = assert!(FRAME_DESCRIPTORS_MAX as usize <= MESSAGE_DESCRIPTORS_MAX);
const _: () = assert!(REQUEST_DESCRIPTORS_MAX <= FRAME_DESCRIPTORS_MAX);
