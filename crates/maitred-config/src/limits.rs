//! Everything that a peer controls, with a name, a default, the reason for it, and the memory that it bounds.
//!
//! The relations between the defaults are held by the assertions at the end of the constants; those between values of
//! a file are checked when it is read.

use std::time::Duration;

use super::keys::{Default, Key, Kind, Table};

const KIB: u64 = 1024;
const MIB: u64 = 1024 * KIB;
pub(super) const GIB: u64 = 1024 * MIB;

/// Open client connections of one thread.
pub const CONNECTIONS_PER_THREAD_MAX: u64 = 8192;
/// Open connections of one address.
pub const CONNECTIONS_PER_ADDRESS_MAX: u64 = 1024;
const TLS_HANDSHAKES_PER_ADDRESS_PER_SECOND_MAX: u64 = 100;
const HTTP2_RESETS_PER_ADDRESS_PER_SECOND_MAX: u64 = 1000;
/// Bytes of a request head.
pub const HEAD_BYTES_MAX: u64 = 16 * KIB;
/// Header fields of a request.
pub const HEADER_COUNT_MAX: u64 = 100;
/// Bytes of the request target; RFC 9112 section 3 recommends at least 8000.
pub const TARGET_BYTES_MAX: u64 = 8 * KIB;
/// Bytes of a request body.
pub const BODY_BYTES_MAX: u64 = 16 * MIB;
/// Bytes of a body that goes to an application in the request's frame.
pub const BODY_INLINE_BYTES_MAX: u64 = 64 * KIB;
/// Bytes of a body that is kept in memory.
pub const BODY_MEMORY_BYTES_MAX: u64 = MIB;
/// Bytes of all bodies of a worker process that are kept in memory files.
pub const BODIES_MEMORY_BYTES_MAX: u64 = 256 * MIB;
/// Bytes of those on a disk.
pub const BODIES_DISK_BYTES_MAX: u64 = 4 * GIB;
/// Default of `unsent_files_bytes_max`: as many bytes as bodies of requests may have there.
pub const UNSENT_FILES_BYTES_MAX: u64 = BODIES_DISK_BYTES_MAX;
/// Bytes that a worker process holds because clients have not taken them.
pub const UNSENT_MEMORY_BYTES_MAX: u64 = 256 * MIB;
/// Of these, what one HTTP/2 connection may have before further streams are refused.
pub const UNSENT_CONNECTION_BYTES_MAX: u64 = 4 * MIB;
/// How long a turn of an event loop may take where every turn takes so long.
pub const LOOP_DELAY_MAX: Duration = Duration::from_millis(250);
/// Requests on one connection.
pub const REQUESTS_PER_CONNECTION_MAX: u64 = 100_000;
/// Requests at a time on one HTTP/2 connection.
pub const STREAMS_PER_CONNECTION_MAX: u64 = 128;
/// Ranges in one request.
pub const RANGES_MAX: u64 = 16;
/// From the first byte of a head to its end, without what its bytes add to that.
pub const HEAD_TIMEOUT: Duration = Duration::from_secs(20);
/// The same with all of it.
pub const HEAD_TIMEOUT_MAX: Duration = Duration::from_secs(40);
/// Bytes of a head, or of a body, that add a second to the time for it; bytes of a response that have to be taken in a second.
pub const BYTES_PER_SECOND_MIN: u64 = 500;
/// Before the rate of a body counts.
pub const BODY_RATE_GRACE: Duration = Duration::from_secs(20);
/// Over which the rate of a response is taken.
pub const RESPONSE_RATE_WINDOW: Duration = Duration::from_secs(60);
/// Without a response that needs them.
pub const RELAY_IDLE_TIMEOUT: Duration = Duration::from_secs(60);
/// Without a byte in either direction after an upgrade.
pub const TUNNEL_IDLE_TIMEOUT: Duration = Duration::from_secs(60 * 60);
/// Between two pieces of a request body.
pub const BODY_TIMEOUT: Duration = Duration::from_secs(30);
/// Idle between two requests.
pub const KEEP_ALIVE_TIMEOUT: Duration = Duration::from_secs(75);
/// Without progress while a response is written.
pub const WRITE_TIMEOUT: Duration = Duration::from_secs(60);
/// Reading and dropping what a peer still sends after the last response.
pub const LINGER_TIMEOUT: Duration = Duration::from_secs(2);
/// Bytes in a thread's file cache.
pub const FILE_CACHE_BYTES_MAX: u64 = 32 * MIB;
/// Open descriptors in a thread's file cache.
pub const FILE_CACHE_FILES_MAX: u64 = 1024;
/// Largest file that is kept in memory.
pub const INLINE_FILE_BYTES_MAX: u64 = 32 * KIB;
/// Largest file that is compressed.
pub const COMPRESS_FILE_BYTES_MAX: u64 = MIB;
/// Responses that one thread compresses at a time.
pub const COMPRESS_ENCODERS_MAX: u64 = 32;
/// Bytes of a thread's access-log lines that wait for the writer.
pub const LOG_BUFFER_BYTES_MAX: u64 = MIB;

/// Requests that `delay` holds.
pub const DELAYED_REQUESTS_MAX: u64 = 1024;
/// Bytes a second of what one application process writes that are logged.
pub const OUTPUT_BYTES_PER_SECOND_MAX: u64 = MIB;

/// The longest time that any limit can be set to.
pub(super) const TIME_MAX: Duration = Duration::from_secs(24 * 60 * 60);
pub(super) const TIME_MIN: Duration = Duration::from_millis(1);

// One address must not take the room of all others.
const _: () = assert!(CONNECTIONS_PER_ADDRESS_MAX * 8 <= CONNECTIONS_PER_THREAD_MAX);
// A target has to fit into its head, with room for the method, the version and a Host field.
const _: () = assert!(TARGET_BYTES_MAX + KIB <= HEAD_BYTES_MAX);
// Every field takes at least "a:\r\n", so that more fields than this could never arrive.
const _: () = assert!(HEADER_COUNT_MAX * 4 <= HEAD_BYTES_MAX);
// The parser's room for fields is an array of fixed size.
const _: () = assert!(HEADER_COUNT_MAX <= maitred_http::limits::FIELDS_MAX as u64);
// Each place for a body takes larger ones than the place before it.
const _: () =
    assert!(BODY_INLINE_BYTES_MAX <= BODY_MEMORY_BYTES_MAX && BODY_MEMORY_BYTES_MAX <= BODY_BYTES_MAX);
// One body must not take the room of all others.
const _: () = assert!(
    BODY_MEMORY_BYTES_MAX * 64 <= BODIES_MEMORY_BYTES_MAX && BODY_BYTES_MAX * 64 <= BODIES_DISK_BYTES_MAX
);
// One connection must not take the room of all others.
const _: () = assert!(UNSENT_CONNECTION_BYTES_MAX * 64 <= UNSENT_MEMORY_BYTES_MAX);
// One file must not push everything else out of the cache.
const _: () = assert!(INLINE_FILE_BYTES_MAX * 64 <= FILE_CACHE_BYTES_MAX);
// A full cache of the smallest bodies is bounded by descriptors, one of the largest by bytes.
const _: () = assert!(FILE_CACHE_FILES_MAX * INLINE_FILE_BYTES_MAX >= FILE_CACHE_BYTES_MAX);
// The log's buffer holds the longest line (target, referer and user agent, each escaped to four times its length).
const _: () = assert!(4 * HEAD_BYTES_MAX <= LOG_BUFFER_BYTES_MAX);
// A slow head must be aborted before an idle connection is closed.
const _: () = assert!(HEAD_TIMEOUT_MAX.as_millis() < KEEP_ALIVE_TIMEOUT.as_millis());
// A head of the largest size can come at the minimal rate.
const _: () = assert!(HEAD_BYTES_MAX / BYTES_PER_SECOND_MIN <= HEAD_TIMEOUT_MAX.as_secs());
const _: () = assert!(HEAD_TIMEOUT.as_millis() < KEEP_ALIVE_TIMEOUT.as_millis());
// Lingering only serves the peer, and must be the shortest wait of all.
const _: () = assert!(LINGER_TIMEOUT.as_millis() < HEAD_TIMEOUT.as_millis());

const fn limit(
    name: &'static str,
    kind: Kind,
    default: Default,
    doc: &'static str,
    reason: &'static str,
) -> Key {
    Key { name, kind, default, doc, reason }
}

const fn rate(name: &'static str, doc: &'static str, reason: &'static str) -> Key {
    limit(name, Kind::Whole { min: 0, max: 1_000_000_000 }, Default::Whole(BYTES_PER_SECOND_MIN), doc, reason)
}

const fn total(name: &'static str, doc: &'static str, reason: &'static str) -> Key {
    limit(name, Kind::Time { min: TIME_MIN, max: TIME_MAX }, Default::Absent("no bound"), doc, reason)
}

const fn time(name: &'static str, default: Duration, doc: &'static str, reason: &'static str) -> Key {
    limit(name, Kind::Time { min: TIME_MIN, max: TIME_MAX }, Default::Time(default), doc, reason)
}

/// `[limits]`
pub const LIMITS: Table = Table {
    title: "[limits]",
    doc: "Limits on everything that a peer controls. Each has a default that fits a public site; the text in italics gives \
          its reason, and the memory that it bounds.",
    example: "[limits]\nbody_bytes_max = \"8MiB\"\nkeep_alive_timeout = \"30s\"\n",
    keys: &[
        limit(
            "connections_per_thread_max",
            Kind::Whole { min: 1, max: 1_000_000 },
            Default::Whole(CONNECTIONS_PER_THREAD_MAX),
            "Open client connections of one thread. At this limit, a thread closes the connection that has been idle longest \
             for each new one (HTTP/2: with GOAWAY; a connection with a stream is not idle). If none is idle, the thread \
             stops accepting, and new connections wait in the accept queue. The process's limit on open files lowers the \
             number further: to each thread's share of it, and with pools to a third of that, because a request may need two \
             more descriptors.",
            "8192 idle connections take at most 8 MiB of user memory per thread, at 1 KiB each.",
        ),
        limit(
            "connections_per_address_max",
            Kind::Whole { min: 0, max: 1_000_000 },
            Default::Whole(CONNECTIONS_PER_ADDRESS_MAX),
            "Open connections of one client address, over all threads of a worker process; a network of IPv6 with 64 bits \
             (`/64`) counts as one address. With `proxy_protocol`, the address in the header counts. Further connections are \
             closed at once. 0: no limit.",
            "Enough for an office behind one address: a thousand browsers with HTTP/2, or 170 with six HTTP/1.1 connections \
             each within `keep_alive_timeout`. One address takes an eighth of a thread's connections at most. Raise it for \
             clients behind a carrier's NAT, and for load tests.",
        ),
        limit(
            "connections_per_address_exempt",
            Kind::Texts("addresses and networks such as `\"10.0.0.0/8\"`"),
            Default::Absent("loopback addresses and `trusted_proxies`"),
            "Addresses without that limit. `[]`: none. Connections to the admin address and to Unix sockets are never counted.",
            "A proxy has the connections of all its clients.",
        ),
        limit(
            "tls_handshakes_per_address_per_second_max",
            Kind::Whole { min: 0, max: 100_000 },
            Default::Whole(TLS_HANDSHAKES_PER_ADDRESS_PER_SECOND_MAX),
            "TLS handshakes of one client address in a second, over all its connections; ten times as many at once. Addresses \
             are counted as for `connections_per_address_max`, with its exceptions. A handshake that resumes a session does not \
             count. Further connections are closed before the handshake. 0: no limit.",
            "A full handshake takes a millisecond of CPU with RSA, and less with ECDSA: one address takes a tenth of a CPU at \
             most. A thousand clients behind one address can come at once.",
        ),
        limit(
            "http2_resets_per_address_per_second_max",
            Kind::Whole { min: 0, max: 100_000 },
            Default::Whole(HTTP2_RESETS_PER_ADDRESS_PER_SECOND_MAX),
            "HTTP/2 streams that one client address resets in a second, over all its connections; ten times as many at once. \
             Addresses are counted as for `connections_per_address_max`, with its exceptions. A connection with a further one \
             is ended (GOAWAY with ENHANCE_YOUR_CALM). 0: no limit.",
            "Each connection has a limit of its own: 200 at once, and 20 in a second. A client that has many connections can \
             reset that many on each (CVE-2023-44487). A hundred browsers behind one address can leave a page at the same time.",
        ),
        limit(
            "head_bytes_max",
            Kind::Size { min: KIB, max: 256 * KIB },
            Default::Size(HEAD_BYTES_MAX),
            "Bytes of a request head, request line included. A longer one gets 431.",
            "Twice what common browsers send with full cookie jars. Bounds the receive buffer of each connection that \
             is in the middle of a head.",
        ),
        limit(
            "header_count_max",
            Kind::Whole { min: 1, max: maitred_http::limits::FIELDS_MAX as u64 },
            Default::Whole(HEADER_COUNT_MAX),
            "Header fields of a request. More get 431.",
            "Browsers send about 20. The parser keeps them on the stack: 32 bytes each, at most 4 KiB.",
        ),
        limit(
            "target_bytes_max",
            Kind::Size { min: 64, max: 128 * KIB },
            Default::Size(TARGET_BYTES_MAX),
            "Bytes of the request target (path and query). A longer one gets 414. Not more than `head_bytes_max`.",
            "RFC 9112 section 3 recommends at least 8000. Bounds the decoded path, which is never longer.",
        ),
        limit(
            "body_bytes_max",
            Kind::Size { min: 0, max: 64 * GIB },
            Default::Size(BODY_BYTES_MAX),
            "Bytes of a request body. A longer one gets 413.",
            "Forms, and photographs from a telephone; twice what PHP takes by default. Raise it for larger uploads. Bounds \
             what one request for a pool can take up in memory and in `spool` before a process has it.",
        ),
        limit(
            "body_inline_bytes_max",
            Kind::Size { min: 0, max: 16 * MIB },
            Default::Size(BODY_INLINE_BYTES_MAX),
            "Largest request body that goes to an application in one piece with its request; a larger one goes as a \
             descriptor of a file. Not more than `body_memory_bytes_max`. A body without use, as of a POST to a file, is \
             read and discarded up to this size before the connection is closed.",
            "Forms and API calls fit, and need no file. Each process has a buffer for the largest request, and so has each \
             connection whose body is arriving.",
        ),
        limit(
            "body_memory_bytes_max",
            Kind::Size { min: 0, max: GIB },
            Default::Size(BODY_MEMORY_BYTES_MAX),
            "Largest request body that is kept in memory; a larger one goes to a file without a name in the directory \
             `spool`.",
            "Such a body never reaches a disk. Memory: this size for each request whose body is arriving.",
        ),
        limit(
            "bodies_memory_bytes_max",
            Kind::Size { min: 0, max: 1024 * GIB },
            Default::Size(BODIES_MEMORY_BYTES_MAX),
            "Memory of a worker process for all request bodies over `body_inline_bytes_max` together, until their requests \
             end. Beyond that, a body goes to `spool` at once, whatever its size. Not less than `body_memory_bytes_max`.",
            "256 bodies of the largest size that stays in memory. Memory: this size, twice during a reload.",
        ),
        limit(
            "bodies_disk_bytes_max",
            Kind::Size { min: 0, max: 16 * 1024 * GIB },
            Default::Size(BODIES_DISK_BYTES_MAX),
            "Space in `spool` for all request bodies together. A request whose body does not fit gets 503, with \
             `Retry-After`. Not less than `body_bytes_max`.",
            "256 bodies of the largest size. Disk: this size, twice during a reload.",
        ),
        limit(
            "unsent_memory_bytes_max",
            Kind::Size { min: MIB, max: 1024 * GIB },
            Default::Size(UNSENT_MEMORY_BYTES_MAX),
            "Memory of a worker process for all responses that are buffered because their clients have not read them yet. \
             From 70 % on, HTTP/2 connections get fewer streams, and slow clients less time; from 90 % on, no connections \
             are accepted. A response beyond the limit is aborted. `docs/overload.md` has the steps.",
            "64 connections at their own limit. Memory: this size, twice during a reload.",
        ),
        limit(
            "unsent_files_bytes_max",
            Kind::Size { min: 0, max: 16 * 1024 * GIB },
            Default::Size(UNSENT_FILES_BYTES_MAX),
            "What all responses together may take up in files without a name that application processes have passed because their \
             clients read slowly (memory files and temporary ones), until the clients have all of it. A response that finds no \
             room there any more is aborted.",
            "As much as for bodies of requests. It is this space in memory or on a disk, by the application's choice, twice while a \
             reload is under way.",
        ),
        limit(
            "unsent_connection_bytes_max",
            Kind::Size { min: 64 * KIB, max: 16 * GIB },
            Default::Size(UNSENT_CONNECTION_BYTES_MAX),
            "The same for the responses of one HTTP/2 connection. Further streams are refused (`REFUSED_STREAM`, after which \
             clients retry) until the client reads. Not more than `unsent_memory_bytes_max`.",
            "A page of 64 images from a pool, with 64 KiB buffered for each. Memory: this size for each such connection.",
        ),
        limit(
            "requests_per_connection_max",
            Kind::Whole { min: 1, max: u32::MAX as u64 },
            Default::Whole(REQUESTS_PER_CONNECTION_MAX),
            "Requests on one connection, after which it is closed.",
            "Reconnecting this seldom costs nothing, but no connection stays on one thread for ever. No memory.",
        ),
        limit(
            "streams_per_connection_max",
            Kind::Whole { min: 1, max: 1024 },
            Default::Whole(STREAMS_PER_CONNECTION_MAX),
            "Requests at a time on one HTTP/2 connection (`SETTINGS_MAX_CONCURRENT_STREAMS`).",
            "RFC 9113 section 6.5.2 recommends at least 100; browsers seldom use more. Memory: about 300 bytes per stream, \
             and its buffers while it waits.",
        ),
        limit(
            "ranges_max",
            Kind::Whole { min: 1, max: 256 },
            Default::Whole(RANGES_MAX),
            "Ranges in one request, after merging; more are answered with the whole file.",
            "Readers of PDF files ask for fewer than ten. Each takes about 150 bytes of response head.",
        ),
        time(
            "head_timeout",
            HEAD_TIMEOUT,
            "From the first byte of a head to its end; longer by a second for each `head_bytes_per_second_min` bytes of it. \
             Then 408, and the connection is closed. Also the time for the first byte of a new connection, for the PROXY \
             header, and for the TLS handshake.",
            "As in Apache's mod_reqtimeout. A head is one or two packets; 20 s outlasts several retransmissions. Bounds how long a \
             slow sender holds `head_bytes_max`.",
        ),
        time(
            "head_timeout_max",
            HEAD_TIMEOUT_MAX,
            "From the first byte of a head to its end, however many bytes come. Without effect below `head_timeout`.",
            "As in Apache's mod_reqtimeout. At the minimal rate, more than the largest head takes.",
        ),
        rate(
            "head_bytes_per_second_min",
            "Bytes of a head that add a second to `head_timeout`. 0: none do.",
            "As in Apache's mod_reqtimeout. 4 kbit/s: any network that carries a page is quicker. No memory.",
        ),
        time(
            "body_timeout",
            BODY_TIMEOUT,
            "Between two pieces of a request body. Then 408, and the connection is closed.",
            "Outlasts a change of mobile cell. Bounds how long a stalled sender holds `body_bytes_max`.",
        ),
        rate(
            "body_bytes_per_second_min",
            "The minimal rate of a request body, as a mean since its head, after `body_rate_grace`. Below it, the client \
             gets 408, and the connection is closed. Time in which the server does not read does not count. 0: no minimum.",
            "As in Apache's mod_reqtimeout. Bounds how long a slow sender holds the received part of `body_bytes_max`.",
        ),
        time(
            "body_rate_grace",
            BODY_RATE_GRACE,
            "Time at the start of a request body in which its rate does not count.",
            "As in Apache's mod_reqtimeout: a form on a bad line takes seconds.",
        ),
        total(
            "request_total_timeout",
            "From the first byte of a request to the end of its body, whatever its rate. Then 408, and the connection is closed.",
            "Rates bound slow clients; a limit on the whole time would end large uploads of well-behaved clients.",
        ),
        time(
            "keep_alive_timeout",
            KEEP_ALIVE_TIMEOUT,
            "How long a connection may be idle between two requests.",
            "Longer than the 60 s of common load balancers, so that they close first. Bounds the number of idle \
             connections, 1 KiB each.",
        ),
        time(
            "write_timeout",
            WRITE_TIMEOUT,
            "How long a response may make no progress before the connection is closed. Bytes that leave the kernel's buffer \
             count as progress.",
            "Bounds how long a peer that reads nothing holds a socket buffer and an open file.",
        ),
        rate(
            "response_bytes_per_second_min",
            "The minimal rate at which a client reads a response. If bytes waited during a whole `response_rate_window`, and \
             the client read fewer, the connection is closed; over HTTP/2, also a stream whose window the client does not \
             open. Time in which there is nothing to send does not count, so that event streams may be silent. 0: no \
             minimum.",
            "The same as for request bodies: 4 kbit/s. Bounds how long a slow reader holds a socket buffer and an open file.",
        ),
        time(
            "response_rate_window",
            RESPONSE_RATE_WINDOW,
            "The time over which that rate is measured; it is checked four times per window.",
            "Outlasts a change of mobile cell, and the pauses of a video player with a full buffer.",
        ),
        total(
            "response_total_timeout",
            "From the first byte of a request to the end of its response, whatever the rate, time in a queue and event \
             streams included. Then the connection, or the stream, is closed. Upgraded connections have no such limit.",
            "Rates bound slow clients; a limit on the whole time would end large downloads of well-behaved clients.",
        ),
        time(
            "tunnel_idle_timeout",
            TUNNEL_IDLE_TIMEOUT,
            "How long an upgraded connection (WebSocket) may be silent in both directions, where Maitred forwards its bytes. \
             A process that has the client's own socket decides by itself.",
            "Applications send a ping every minute or so; others are seldom silent for an hour. Bounds one connection, and a \
             relay or an upstream connection.",
        ),
        time(
            "relay_idle_timeout",
            RELAY_IDLE_TIMEOUT,
            "How long unused relays stay: after a burst, as many are kept as were in use at the same time since then.",
            "Long enough that creating relays costs little, short enough that a burst does not hold descriptors. Each relay \
             takes a descriptor here and one in the application process.",
        ),
        time(
            "linger_timeout",
            LINGER_TIMEOUT,
            "After an error or a `Connection: close`, how long the peer's remaining bytes are read and discarded, so that \
             the response is not lost to a reset (RFC 9112 section 9.6). The time starts again while the peer still reads \
             the response.",
            "A round trip to anywhere, with a retransmission. One connection without buffers.",
        ),
        time(
            "loop_delay_max",
            LOOP_DELAY_MAX,
            "How long each iteration of an event loop may take before its thread counts as overloaded; events wait that \
             long. The shortest iteration of the last second counts, so that a single long one has no effect.",
            "A delay that users notice; an iteration usually takes less than a millisecond. No memory.",
        ),
        limit(
            "file_cache_bytes_max",
            Kind::Size { min: 0, max: 16 * GIB },
            Default::Size(FILE_CACHE_BYTES_MAX),
            "Bytes of small files and prepared response heads that each thread keeps in memory.",
            "A thousand pages of 32 KiB. Memory: this size, once per thread.",
        ),
        limit(
            "file_cache_files_max",
            Kind::Whole { min: 0, max: 1_000_000 },
            Default::Whole(FILE_CACHE_FILES_MAX),
            "Files that each thread keeps open.",
            "This many files of the largest inline size fill the byte limit. One descriptor and about 500 bytes each.",
        ),
        limit(
            "inline_file_bytes_max",
            Kind::Size { min: 0, max: 16 * MIB },
            Default::Size(INLINE_FILE_BYTES_MAX),
            "Largest file that is kept in memory and sent with its head in one write; larger ones are sent by `sendfile`. \
             Not more than `file_cache_bytes_max`.",
            "About the size from which `sendfile` is cheaper than a copy. Bounds one entry of the file cache.",
        ),
        limit(
            "compress_encoders_max",
            Kind::Whole { min: 1, max: 65_536 },
            Default::Whole(COMPRESS_ENCODERS_MAX),
            "Responses that each thread compresses at a time (`compress`). Further ones are sent as they are. A response that an \
             application sends at once needs an encoder for a moment only; one that comes slowly, for as long as it takes.",
            "So many slow responses at a time are rare. Memory: less than 2 MiB for each, once per thread.",
        ),
        limit(
            "compress_file_bytes_max",
            Kind::Size { min: 0, max: 64 * MIB },
            Default::Size(COMPRESS_FILE_BYTES_MAX),
            "Largest file that is compressed (`compress`). That is done once, by a helper thread, when the file has been asked for \
             three times; the result is kept with the file, within `file_cache_bytes_max`.",
            "A helper thread takes about a tenth of a second for this. Memory: some times this size while one file is compressed, \
             one at a time.",
        ),
        limit(
            "log_buffer_bytes_max",
            Kind::Size { min: 64 * KIB, max: GIB },
            Default::Size(LOG_BUFFER_BYTES_MAX),
            "Buffer of each thread for access-log lines that wait for the writer. Lines that do not fit are dropped and \
             counted.",
            "Some 5,000 lines: more than a writer with a busy disk falls behind. Memory: this size, once per thread.",
        ),
        limit(
            "delayed_requests_max",
            Kind::Whole { min: 0, max: 1_000_000 },
            Default::Whole(DELAYED_REQUESTS_MAX),
            "Requests that `delay` of a site or a route holds at a time. Further ones go on at once, and are counted \
             (`delays_left_out`).",
            "A test of ten requests a second that wait for a minute and a half fits. An eighth of a thread's connections: a delay \
             that stays in a configuration takes the room of no others. Memory: a head for each, mostly 1 KiB.",
        ),
        limit(
            "output_bytes_per_second_max",
            Kind::Size { min: 4 * KIB, max: GIB },
            Default::Size(OUTPUT_BYTES_PER_SECOND_MAX),
            "Bytes per second of an application process's standard output and error that are copied to the error log, after \
             a burst of four times as much. Further lines are dropped and counted; the log says how many.",
            "A verbose application writes some hundred KiB a second; a process in an endless loop fills a disk of 100 GB in \
             a day with this limit, and in minutes without it.",
        ),
    ],
};
