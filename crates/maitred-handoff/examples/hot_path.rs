//! The parts of a request's way that have no I/O, over and over: for counting their instructions.
//!
//! `hot_path PART TIMES`; the parts are in [`main`]. `cargo xtask instructions` runs it under callgrind with two numbers of
//! times, and compares the difference with `bench/instructions/baseline.toml`.

use std::hint::black_box;
use std::sync::LazyLock;
use std::time::Instant;

use maitred_handoff::{
    Done, FromApp, FromServer, Outcome, PAYLOAD_BYTES_MAX, RequestFlags, begin_request, encode_done,
    is_forwardable,
};
use maitred_http::fields::{FieldEdits, FieldLines, FieldsRef};
use maitred_http::h2::frame::{self, flag, kind};
use maitred_http::h2::{Event, Session, Settings};
use maitred_http::paths::{Index, Shape};
use maitred_http::request::{HeadLimits, HeadRoom, RequestHead, field_room, parse};
use maitred_http::response::{Filter, ResponseHead, ResponsePolicy};
use maitred_http::{date, h1, uri};

type Result<T, E = Box<dyn std::error::Error>> = std::result::Result<T, E>;
/// What is done again and again; its output is thrown away.
type Part = Box<dyn FnMut(&mut Vec<u8>) -> Result<()>>;

/// What a browser sends.
const HEAD: &[u8] = b"GET /articles/2026/how%20it%20works.html?page=2 HTTP/1.1\r\nHost: www.example.test\r\n\
    User-Agent: Mozilla/5.0 (X11; Linux x86_64; rv:128.0) Gecko/20100101 Firefox/128.0\r\n\
    Accept: text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8\r\nAccept-Language: en-GB,en;q=0.5\r\n\
    Accept-Encoding: gzip, deflate, br, zstd\r\nReferer: https://www.example.test/articles/\r\n\
    Cookie: session=0123456789abcdef0123456789abcdef\r\nConnection: keep-alive\r\n\r\n";
/// What an application answers, before 1 KB of body.
const ANSWER: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Type: text/html; charset=utf-8\r\nContent-Length: 1024\r\n\
    Cache-Control: max-age=60\r\nSet-Cookie: session=0123456789abcdef0123456789abcdef; Path=/; HttpOnly\r\n\r\n";
const LIMITS: HeadLimits = HeadLimits {
    head_bytes_max: 32 * 1024,
    header_count_max: 100,
    target_bytes_max: 8 * 1024,
    body_bytes_max: 1024 * 1024,
};

fn main() -> Result<()> {
    let mut arguments = std::env::args().skip(1);
    let (part, times) = (arguments.next().unwrap_or_default(), arguments.next().unwrap_or_default());
    let mut part: Part = match part.as_str() {
        "request" => Box::new(request),
        "route" => routed(1),
        "routes-1000" => routed(1000),
        "response" => Box::new(response),
        "frame-write" => Box::new(frame_write),
        "frame-read" => Box::new(frame_read),
        "report" => Box::new(report),
        "date" => Box::new(write_date),
        "h2" => Box::new(Http2::new().exchange(|head| {
            black_box(head);
            Ok(())
        })),
        "h2-judged" => Box::new(Http2::new().exchange(judge)),
        other => return Err(format!("no part {other:?}").into()),
    };
    let mut out = Vec::with_capacity(64 * 1024);
    for _ in 0..times.parse()? {
        out.clear();
        part(black_box(&mut out))?;
        black_box(&out);
    }
    Ok(())
}

/// A head is parsed and judged, and its path normalised.
fn request(_: &mut Vec<u8>) -> Result<()> {
    let mut room = field_room();
    let (request, _) = parse(black_box(HEAD), &mut room, &LIMITS)?.ok_or("the head is whole")?;
    black_box(uri::normalise(request.path)?);
    Ok(())
}

/// The same, and the last of so many routes by the beginning of the path is found for it.
fn routed(routes: usize) -> Part {
    let starts: Vec<String> =
        (1..routes).map(|number| format!("/r{number}/")).chain(["/articles/".into()]).collect();
    let index = Index::new(starts.iter().map(|start| std::iter::once(Shape::Start(start))));
    Box::new(move |_| {
        let mut room = field_room();
        let (request, _) = parse(black_box(HEAD), &mut room, &LIMITS)?.ok_or("the head is whole")?;
        let path = uri::normalise(request.path)?;
        let is_for = |number: &usize| Shape::Start(&starts[*number]).covers(&path);
        let found = match &index {
            Some(index) => index.candidates(&path).find(is_for),
            None => (0..starts.len()).find(is_for),
        };
        if black_box(found) == Some(routes - 1) { Ok(()) } else { Err("another route".into()) }
    })
}

/// What `server_header` makes of a response.
static EDITS: LazyLock<FieldEdits> = LazyLock::new(|| {
    let mut edits = FieldEdits::default();
    edits.add_if_absent("Server", b"maitred");
    edits
});

/// A response of an application is judged, and framed for the client.
fn response(out: &mut Vec<u8>) -> Result<()> {
    let wanted = ResponsePolicy {
        head_request: false,
        http10: false,
        framed: false,
        informational: false,
        continues: false,
        keep: true,
        trailers: false,
        switch: None,
        bounds: maitred_http::limits::ResponseBounds::DEFAULT,
    };
    let mut filter = Filter::new(wanted);
    let date = b"Fri, 20 Nov 2026 12:00:00 GMT";
    let mut encoder = h1::Encoder { out, date, edits: &EDITS, further: FieldsRef::default() };
    filter.feed(black_box(ANSWER), &mut encoder).map_err(|bad| format!("{bad:?}"))?;
    filter.feed(black_box(&[b'x'; 1024]), &mut encoder).map_err(|bad| format!("{bad:?}"))?;
    if filter.keeps() { Ok(()) } else { Err("the response is not complete".into()) }
}

/// A head that was parsed goes into a REQUEST frame.
fn frame_write(out: &mut Vec<u8>) -> Result<()> {
    let mut room = field_room();
    let (request, _) = parse(black_box(HEAD), &mut room, &LIMITS)?.ok_or("the head is whole")?;
    let flags = RequestFlags { keep: true, ..RequestFlags::default() };
    let meta = begin_request(out, 7, 42, flags, 0).line("remote", "192.0.2.1:54321").number("id", 42);
    let mut head = meta.head(request.method_text, request.target);
    head.field("host", request.authority.as_bytes());
    for field in request.fields.iter().filter(|field| is_forwardable(field.name)) {
        head.field(field.name, field.value);
    }
    if head.body(None).finish(PAYLOAD_BYTES_MAX) { Ok(()) } else { Err("the frame is too large".into()) }
}

/// The same, and the worker's side reads it.
fn frame_read(out: &mut Vec<u8>) -> Result<()> {
    frame_write(out)?;
    let decoded = FromServer::decode(black_box(out), PAYLOAD_BYTES_MAX);
    match decoded.map_err(|error| format!("{error:?}"))? {
        Some((FromServer::Request(request), _)) => {
            black_box(request.meta("remote"));
            Ok(())
        }
        other => Err(format!("not a request: {other:?}").into()),
    }
}

/// The worker's report is written and read.
fn report(out: &mut Vec<u8>) -> Result<()> {
    let outcome = Outcome::Clean;
    let done = Done { connection: 7, request: 42, status: 200, outcome, service_us: 500, body_bytes: 1024 };
    encode_done(out, &done);
    match FromApp::decode(black_box(out)).map_err(|error| format!("{error:?}"))? {
        Some((FromApp::Done(done), _)) if done.status == 200 => Ok(()),
        other => Err(format!("not a report: {other:?}").into()),
    }
}

/// The value of `Date`.
fn write_date(out: &mut Vec<u8>) -> Result<()> {
    out.extend_from_slice(&date::format(black_box(1_795_000_000)));
    Ok(())
}

/// A connection whose client has asked for the same before, as clients of benchmarks and browsers do: most of the head
/// is in the tables of HPACK.
struct Http2 {
    session: Session,
    now: Instant,
    stream: u32,
    /// The client's frame, but for its stream.
    request: Vec<u8>,
    head: RequestHead,
    /// What a file of 1 KB is answered with.
    file: FieldLines,
}

/// The head of a request of HTTP/2 is judged, as that of HTTP/1 is when it is parsed, and looked at.
fn judge(head: &mut RequestHead) -> Result<()> {
    head.judge(&LIMITS)?;
    black_box(head.view(&mut HeadRoom::default()));
    Ok(())
}

const FILE_DATE: &[u8; 29] = b"Fri, 20 Nov 2026 12:00:00 GMT";

impl Http2 {
    fn new() -> Self {
        let now = Instant::now();
        let session = Session::new(&Settings::default(), now);
        let mut file = FieldLines::default();
        file.push(b"Content-Type", b"text/html; charset=utf-8");
        file.push_number(b"Content-Length", 1024);
        file.push(b"Last-Modified", b"Thu, 19 Nov 2026 12:00:00 GMT");
        file.push(b"ETag", b"\"18b1-1024\"");
        file.push(b"Accept-Ranges", b"bytes");
        let request = frame::PREFACE.to_vec();
        let mut client = Self { session, now, stream: 1, request, head: RequestHead::default(), file };
        frame::put_settings(&mut client.request, 0, &[]);
        let mut block = vec![0x82, 0x87];
        let named =
            [(0x41, "www.example.test"), (0x44, "/articles/how.html"), (0x7a, "h2load nghttp2/1.52.0")];
        for (name, value) in named {
            block.extend([name, value.len() as u8]);
            block.extend(value.as_bytes());
        }
        let ends = flag::END_HEADERS | flag::END_STREAM;
        frame::put_header(&mut client.request, block.len(), kind::HEADERS, ends, 1);
        client.request.extend(block);
        client
    }

    /// One request, which `look` looks at, and its response of 1 KB, on a stream of their own.
    fn exchange(
        mut self,
        mut look: impl FnMut(&mut RequestHead) -> Result<()>,
    ) -> impl FnMut(&mut Vec<u8>) -> Result<()> {
        move |out| {
            let event = self.session.next(self.now, black_box(&self.request), &mut 0, &mut self.head)?;
            let Some(Event::Request { stream, ended: true, .. }) = event else {
                return Err("no request".into());
            };
            look(&mut self.head)?;
            let head = ResponseHead::own(200, black_box(self.file.all()));
            let further = FieldsRef::default();
            self.session.respond(stream, &head, FieldEdits::NONE, further, Some(FILE_DATE), false);
            let room = self.session.room(stream);
            if room < 1024 {
                return Err(format!("no room: {room}").into());
            }
            self.session.data(stream, 1024, true).extend_from_slice(black_box(&[b'x'; 1024]));
            self.session.release(stream);
            out.append(self.session.out());
            self.stream += 2;
            self.request.clear();
            if self.stream % 64 == 1 {
                frame::put_number(&mut self.request, kind::WINDOW_UPDATE, 0, 32 * 1024);
            }
            frame::put_header(
                &mut self.request,
                5,
                kind::HEADERS,
                flag::END_HEADERS | flag::END_STREAM,
                self.stream,
            );
            self.request.extend([0x82, 0x87, 0x80 | 64, 0x80 | 63, 0x80 | 62]);
            Ok(())
        }
    }
}
