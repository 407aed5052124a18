//! What the tests of this module share: a site in a temporary directory, and requests to it.

use std::path::Path;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use maitred_http::h1::Persistence;
use maitred_http::request::{Known, Method, Request};

use super::{FileServer, FileSet, GivenUp};
use crate::testing::{Written, request};
use crate::{RequestContext, Segment, Served};
use maitred_base::budget::Budget;
use maitred_base::clock::Clock;
use maitred_config::{Files, HeaderRules, Limits, MediaTypes};

/// Inline bodies of the tests' servers.
pub(super) const INLINE_BYTES_MAX: u32 = 4096;

/// A set with a configuration that allows nothing special.
pub(crate) fn set(root: &Path) -> FileSet {
    FileSet::open(files(root))
}

pub(super) fn files(root: &Path) -> Files {
    Files {
        root: root.to_owned(),
        strip_prefix: "/".to_owned(),
        index: vec!["index.html".to_owned()],
        listing: false,
        hidden: false,
        symlinks_may_leave: false,
        precompressed: Vec::new(),
        try_files: Vec::new(),
        headers: HeaderRules::default(),
        media: Box::new(MediaTypes::default()),
    }
}

pub(super) fn limits() -> Limits {
    let second = Duration::from_secs(1);
    Limits {
        connections_per_thread_max: 1,
        connections_per_address_max: 1,
        connections_per_address_exempt: Vec::new(),
        tls_handshakes_per_address_per_second_max: 1,
        http2_resets_per_address_per_second_max: 1,
        head_bytes_max: 1,
        header_count_max: 1,
        target_bytes_max: 1,
        body_bytes_max: 1,
        body_inline_bytes_max: 1,
        body_memory_bytes_max: 1,
        bodies_memory_bytes_max: 1,
        bodies_disk_bytes_max: 1,
        unsent_files_bytes_max: 1,
        unsent_memory_bytes_max: 1,
        unsent_connection_bytes_max: 1,
        requests_per_connection_max: 1,
        streams_per_connection_max: 1,
        ranges_max: 4,
        head_timeout: second,
        head_timeout_max: second,
        head_bytes_per_second_min: 1,
        body_timeout: second,
        body_bytes_per_second_min: 1,
        body_rate_grace: second,
        request_total_timeout: None,
        response_bytes_per_second_min: 1,
        response_rate_window: second,
        response_total_timeout: None,
        tunnel_idle_timeout: second,
        relay_idle_timeout: second,
        keep_alive_timeout: second,
        write_timeout: second,
        linger_timeout: second,
        loop_delay_max: second,
        file_cache_bytes_max: 1 << 20,
        file_cache_files_max: 16,
        inline_file_bytes_max: INLINE_BYTES_MAX,
        compress_encoders_max: 1,
        compress_file_bytes_max: 1 << 16,
        log_buffer_bytes_max: 1,
        delayed_requests_max: 1,
        output_bytes_per_second_max: 1,
    }
}

/// An answer as a client sees it.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) status: u16,
    pub(super) head: String,
    pub(super) body: Vec<u8>,
    /// Whether a segment of a file was part of it.
    pub(super) streamed: bool,
    /// Whether a helper thread was needed.
    pub(super) blocked: bool,
}

impl Answer {
    pub(super) fn field(&self, name: &str) -> Option<&str> {
        let lines = self.head.split("\r\n");
        lines
            .filter_map(|line| line.split_once(": "))
            .find(|(other, _)| *other == name)
            .map(|(_, value)| value)
    }

    pub(super) fn text(&self) -> &str {
        std::str::from_utf8(&self.body).unwrap()
    }
}

/// A server, its clock, and what each request is to say.
pub(super) struct Bench {
    pub(super) server: FileServer,
    pub(super) clock: Clock,
    pub(super) method: Method,
    pub(super) query: Option<&'static str>,
}

impl Bench {
    /// A bench whose wall clock is an hour ahead, so that files just written are old.
    pub(super) fn new(sets: Vec<FileSet>) -> Bench {
        Bench::with_limits(&limits(), sets)
    }

    pub(super) fn with_limits(limits: &Limits, sets: Vec<FileSet>) -> Bench {
        let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
        let clock = Clock {
            now: Instant::now(),
            unix_secs: since_epoch.as_secs() + 3600,
            unix_micros: 0,
            steady_us: 0,
            http_date: *b"Sun, 06 Nov 1994 08:49:37 GMT",
        };
        let given_up = GivenUp { unsent: Budget::new(u64::MAX), descriptors: Budget::new(u64::MAX) };
        Bench { server: FileServer::new(limits, sets, given_up), clock, method: Method::Get, query: None }
    }

    pub(super) fn of(files: Files) -> Bench {
        Bench::new(vec![FileSet::open(files)])
    }

    pub(super) fn pass(&mut self, time: Duration) {
        self.clock.now += time;
        self.clock.unix_secs += time.as_secs();
    }

    pub(super) fn get(&mut self, path: &str) -> Answer {
        self.ask(path.as_bytes(), Known::default())
    }

    /// Serves a request as the event loop does, a helper thread's part included.
    pub(super) fn ask(&mut self, path: &[u8], known: Known<'_>) -> Answer {
        let mut out = b"before".to_vec();
        let (served, blocked) = match self.once(path, known, false, &mut out) {
            Served::Blocked(job) => {
                assert_eq!(out, b"before", "a blocked answer writes nothing");
                crate::disk::tests::run_here(&job);
                (self.once(path, known, true, &mut out), true)
            }
            served => (served, false),
        };
        assert!(out.starts_with(b"before"));
        read(served, &out[6..], self.method == Method::Head, blocked)
    }

    pub(super) fn once(&mut self, path: &[u8], known: Known<'_>, warmed: bool, out: &mut Vec<u8>) -> Served {
        let request = Request { query: self.query, known, ..request(self.method) };
        let clock = self.clock.clone();
        let context = RequestContext { request: &request, path, clock: &clock, warmed };
        let head_only = self.method == Method::Head;
        let mut written =
            Written { out: std::mem::take(out), head_only, ..Written::new(Persistence::Implied) };
        let served = self.server.serve(0, &context, &mut written.writer());
        *out = written.out;
        served
    }
}

/// Puts an answer together, and checks what every answer has to hold to.
pub(super) fn read(served: Served, out: &[u8], head_only: bool, blocked: bool) -> Answer {
    let (summary, segments) = match served {
        Served::Whole(summary) => (summary, Default::default()),
        Served::Cached(summary, cached) => {
            assert!(out.ends_with(cached.bytes()) && cached.bytes().len() as u64 == summary.body_bytes);
            (summary, Default::default())
        }
        Served::Streaming(summary, segments) => (summary, segments),
        Served::Blocked(job) => panic!("blocked twice: {job:?}"),
    };
    let end = out.windows(4).position(|four| four == b"\r\n\r\n").unwrap();
    let head = String::from_utf8(out[..end].to_vec()).unwrap();
    let mut body = out[end + 4..].to_vec();
    let streamed = !segments.is_empty();
    for segment in segments {
        match segment {
            Segment::Cached(cached) => body.extend_from_slice(cached.bytes()),
            Segment::Bytes(bytes) => body.extend_from_slice(&bytes),
            Segment::File { file, offset, end } => {
                let mut piece = vec![0; (end - offset) as usize];
                assert_eq!(rustix::io::pread(&*file, &mut piece, offset).unwrap(), piece.len());
                body.extend_from_slice(&piece);
            }
        }
    }
    let answer = Answer { status: summary.status, head, body, streamed, blocked };
    assert!(answer.head.starts_with(&format!("HTTP/1.1 {} ", answer.status)), "{}", answer.head);
    assert_eq!(answer.body.len() as u64, summary.body_bytes);
    assert_eq!(answer.field("Date"), Some("Sun, 06 Nov 1994 08:49:37 GMT"));
    let length = answer.field("Content-Length");
    match answer.status {
        204 | 304 => assert_eq!((length, summary.body_bytes), (None, 0)),
        _ if head_only => assert!(length.is_some() && answer.body.is_empty()),
        _ => assert_eq!(length, Some(&*answer.body.len().to_string())),
    }
    answer
}
