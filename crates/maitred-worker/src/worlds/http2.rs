//! HTTP/2 connections of clients. For the model each stream is a connection of its own with one request: its response is written
//! down as HTTP/1.1, and what ends a stream too early is the early end of that connection.

use std::collections::{BTreeMap, VecDeque};
use std::net::{Ipv4Addr, SocketAddr};
use std::os::fd::OwnedFd;
use std::time::Instant;

use maitred_testing::h2::frame::{self, Frame, PREFACE, code, flag, kind, setting};
use maitred_testing::h2::hpack;
use maitred_testing::model::Connection;
use rustix::io::Errno;
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, recv, send, socketpair};

use super::client::{Client, MARGIN};
use super::stage::CLIENT_TIMEOUT;
use super::time;
use super::world::World;
use crate::inbox::ConnectionTransfer;

/// What a connection begins with, unless SETTINGS say otherwise (9113-6.5.2, 6.9.2).
const WINDOW_BYTES: i64 = 65_535;
/// Streams at the same time, of all connections.
const STREAMS_MAX: usize = 16;
/// HTTP/2 connections at the same time.
const CARRIERS_MAX: usize = 3;
/// Room in a socket that has little of it.
const NARROW_BYTES: usize = 2304;

/// How the content of a response is written down.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    /// The head has not come.
    Headless,
    /// The response has no content.
    Bare,
    /// As it is: its length is in the head.
    Plain,
    /// In chunks; so many bytes are to come, if that was said.
    Chunks(Option<usize>),
}

/// One stream.
#[derive(Debug)]
struct Stream {
    client: usize,
    /// What the server may still send.
    window: i64,
    /// What it was sent back of that not yet.
    owed: u32,
    /// What this side may still send.
    send_window: i64,
    /// What is left of the request's body.
    body: VecDeque<u8>,
    form: Form,
}

/// An HTTP/2 connection.
#[derive(Debug)]
pub(super) struct Carrier {
    socket: Option<OwnedFd>,
    /// What is to be sent.
    out: VecDeque<u8>,
    /// Bytes that have left.
    sent: usize,
    /// Where in all that is sent requests end, and whose they are.
    marks: VecDeque<(usize, usize)>,
    input: Vec<u8>,
    decoder: hpack::Decoder,
    block: Option<(u32, bool, Vec<u8>)>,
    streams: BTreeMap<u32, Stream>,
    next_stream: u32,
    /// What the server may still send: all in all, and on a new stream.
    window: i64,
    stream_window: i64,
    owed: u32,
    /// The same in the other direction.
    send_window: i64,
    send_stream_window: i64,
    leaving: bool,
    /// When it last sent anything, and since when a part of what it has to send has not left.
    active: Instant,
    unsent_since: Option<Instant>,
    /// The connection has sent something when the server might have had enough of waiting, and may not have looked yet.
    was_late: bool,
}

impl Carrier {
    fn new(socket: OwnedFd, stream_window: i64) -> Carrier {
        let window = (setting::INITIAL_WINDOW_SIZE, stream_window as u32);
        Carrier {
            socket: Some(socket),
            out: [PREFACE, &frame::settings(&[window])].concat().into(),
            sent: 0,
            marks: VecDeque::new(),
            input: Vec::new(),
            decoder: hpack::Decoder::new(4096),
            block: None,
            streams: BTreeMap::new(),
            next_stream: 1,
            window: WINDOW_BYTES,
            stream_window,
            owed: 0,
            send_window: WINDOW_BYTES,
            send_stream_window: WINDOW_BYTES,
            leaving: false,
            active: time::now(),
            unsent_since: None,
            was_late: false,
        }
    }

    /// Whether the server may have had enough of waiting for this side.
    fn is_late(&self) -> bool {
        let since = self.unsent_since.map_or(self.active, |since| since.min(self.active));
        self.was_late || time::now().saturating_duration_since(since) >= CLIENT_TIMEOUT
    }

    /// Puts as much of the bodies into frames as the windows allow, in frames of at most so many bytes. Whether anything was.
    fn put_bodies(&mut self, most: usize) -> bool {
        let mut any = false;
        for (id, stream) in &mut self.streams {
            while !stream.body.is_empty() {
                let room = self.send_window.min(stream.send_window).max(0) as usize;
                let bytes = room.min(most).min(stream.body.len());
                if bytes == 0 {
                    break;
                }
                let piece: Vec<u8> = stream.body.drain(..bytes).collect();
                self.send_window -= bytes as i64;
                stream.send_window -= bytes as i64;
                self.out.extend(frame::data(*id, &piece, stream.body.is_empty()));
                any = true;
                if stream.body.is_empty() {
                    self.marks.push_back((self.sent + self.out.len(), stream.client));
                }
            }
        }
        any
    }
}

impl World<'_> {
    /// Something happens on an HTTP/2 connection, or to it.
    pub(super) fn http2_event(&mut self) {
        let what = self.random.weighted(&[(8, 0), (10, 1), (8, 2), (5, 3), (2, 4), (1, 5), (2, 6)]);
        let open: Vec<usize> =
            (0..self.carriers.len()).filter(|at| self.carriers[*at].socket.is_some()).collect();
        if open.is_empty() || what == 6 && open.len() < CARRIERS_MAX {
            return self.connect_http2();
        }
        let at = open[self.random.within(0..open.len())];
        match what {
            0 => self.open_stream(at),
            1 => {
                let most = self.random.weighted(&[(3, 16_384), (1, 700)]);
                self.carriers[at].put_bodies(most);
                let bytes = if self.random.percent(70) { usize::MAX } else { self.random.within(1..2000) };
                self.send_frames(at, bytes);
            }
            2 => {
                let bytes = if self.random.percent(70) { usize::MAX } else { self.random.within(1..2000) };
                self.receive_frames(at, bytes);
            }
            3 => {
                let all = self.random.percent(60);
                self.give_credit(at, all);
            }
            4 => self.reset_stream(at),
            5 => self.lose_carrier(at),
            _ => {}
        }
    }

    /// Everything goes on as far as it can, and connections without streams are closed. Whether anything happened.
    pub(super) fn finish_http2(&mut self) -> bool {
        let mut moved = false;
        for at in 0..self.carriers.len() {
            if self.carriers[at].socket.is_none() {
                continue;
            }
            moved |= self.carriers[at].put_bodies(16_384);
            moved |= self.send_frames(at, usize::MAX);
            moved |= self.receive_frames(at, usize::MAX);
            moved |= self.give_credit(at, true);
            moved |= self.send_frames(at, usize::MAX);
            if self.carriers[at].streams.is_empty() && self.carriers[at].socket.take().is_some() {
                self.note(|| format!("connection {at} has nothing left, and is closed"));
                moved = true;
            }
        }
        moved
    }

    fn connect_http2(&mut self) {
        if self.draining {
            return;
        }
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let (near, far) = socketpair(AddressFamily::UNIX, SocketType::STREAM, flags, None).unwrap();
        if self.random.percent(30) {
            for end in [&near, &far] {
                rustix::net::sockopt::set_socket_send_buffer_size(end, NARROW_BYTES).unwrap();
            }
        }
        let window = self.random.weighted(&[(4, WINDOW_BYTES), (2, 1000), (1, 100), (1, 0)]);
        let at = self.carriers.len();
        self.carriers.push(Carrier::new(near, window));
        let (thread, shared) = (self.accepting_thread(), self.shared());
        if !shared.claim(thread) {
            shared.force_claim(thread);
        }
        let remote = SocketAddr::from((Ipv4Addr::LOCALHOST, 20_000 + at as u16));
        shared.transfer(thread, ConnectionTransfer::accepted(far, Some(remote), 0, false));
        self.note(|| format!("connection {at}: HTTP/2 to thread {thread}, windows of {window}"));
        self.open_stream(at);
    }

    fn open_stream(&mut self, at: usize) {
        let open = self.clients.iter().filter(|client| client.is_open()).count();
        if open >= STREAMS_MAX || self.carriers[at].leaving {
            return;
        }
        let client = self.clients.len();
        let (mut request, pool) = self.next_request((client, 0));
        // HTTP/2 cannot say any of these three.
        (request.asked.http10, request.asked.keep, request.asked.upgrade) = (false, true, false);
        let asked = &request.asked;
        let (id, method, body) = (asked.id, asked.method, asked.body.clone());
        let path = format!("/{pool}/{id}");
        let length = body.len().to_string();
        let mut fields =
            vec![(":method", method), (":scheme", "http"), (":path", &path), (":authority", "localhost")];
        if method == "POST" && self.random.percent(70) {
            fields.push(("content-length", &length));
        }
        let carrier = &mut self.carriers[at];
        let number = carrier.next_stream;
        carrier.next_stream += 2;
        carrier.out.extend(frame::headers(number, &hpack::block(&fields), body.is_empty()));
        if body.is_empty() {
            carrier.marks.push_back((carrier.sent + carrier.out.len(), client));
        }
        let stream = Stream {
            client,
            window: carrier.stream_window,
            owed: 0,
            send_window: carrier.send_stream_window,
            body: body.into(),
            form: Form::Headless,
        };
        carrier.streams.insert(number, stream);
        // The server may say that it leaves before it has seen the request.
        let may_close = self.draining;
        let model =
            Connection { requests: vec![request], refusals: true, may_close, ..Connection::default() };
        self.clients.push(Client::of_stream(model));
        self.note(|| format!("client {client}: stream {number} of connection {at}: {method} {path}"));
    }

    /// Sends at most so many bytes. Whether any left.
    fn send_frames(&mut self, at: usize, at_most: usize) -> bool {
        let carrier = &mut self.carriers[at];
        let Some(socket) = &carrier.socket else { return false };
        let bytes = carrier.out.make_contiguous();
        let bytes = &bytes[..bytes.len().min(at_most)];
        if bytes.is_empty() {
            return false;
        }
        // A close by the server shows when the socket is read.
        let Ok(sent) = send(socket, bytes, SendFlags::NOSIGNAL) else { return false };
        carrier.out.drain(..sent);
        carrier.sent += sent;
        let late = time::now().saturating_duration_since(carrier.active) >= CLIENT_TIMEOUT - MARGIN;
        carrier.was_late |= late;
        carrier.active = time::now();
        match carrier.out.is_empty() {
            true => carrier.unsent_since = None,
            false => _ = carrier.unsent_since.get_or_insert(carrier.active),
        }
        let (now, left) = (time::now(), carrier.out.len());
        for stream in carrier.streams.values() {
            self.clients[stream.client].active = now;
            self.clients[stream.client].model.cut |= late;
        }
        while let Some((_, client)) = carrier.marks.pop_front_if(|(end, _)| *end <= carrier.sent) {
            let client = &mut self.clients[client];
            client.model.requests[0].sent = true;
            client.sent_at[0] = Some(now);
        }
        self.note(|| format!("connection {at}: sent {sent}, {left} are left"));
        true
    }

    /// Reads at most so many bytes, and does what the frames say. Whether any came.
    fn receive_frames(&mut self, at: usize, at_most: usize) -> bool {
        let (mut piece, mut left, mut ended) = (vec![0; 16 * 1024], at_most, false);
        let carrier = &mut self.carriers[at];
        let Some(socket) = &carrier.socket else { return false };
        while left > 0 && !ended {
            let room = left.min(piece.len());
            match recv(socket, &mut piece[..room], RecvFlags::empty()) {
                Ok((0, _)) | Err(Errno::CONNRESET) => ended = true,
                Ok((bytes, _)) => {
                    carrier.input.extend_from_slice(&piece[..bytes]);
                    left -= bytes;
                }
                Err(_) => break,
            }
        }
        while let Some(frame) = Frame::take(&mut self.carriers[at].input) {
            self.on_frame(at, &frame);
        }
        if ended {
            self.note(|| format!("connection {at} was ended by the server"));
            let late = self.carriers[at].is_late();
            self.carriers[at].socket = None;
            for (_, stream) in std::mem::take(&mut self.carriers[at].streams) {
                let client = &mut self.clients[stream.client];
                (client.ended, client.early) = (true, true);
                client.model.cut |= late;
            }
        }
        left < at_most || ended
    }

    fn on_frame(&mut self, at: usize, frame: &Frame) {
        let (name, number, bytes) = (frame.kind, frame.stream, frame.payload.len());
        self.note(|| format!("connection {at}: frame {name} of {bytes} bytes on {number}"));
        let carrier = &mut self.carriers[at];
        match frame.kind {
            kind::SETTINGS if !frame.has(flag::ACK) => {
                for pair in frame.payload.chunks_exact(6) {
                    let value = i64::from(u32::from_be_bytes([pair[2], pair[3], pair[4], pair[5]]));
                    if u16::from_be_bytes([pair[0], pair[1]]) == setting::INITIAL_WINDOW_SIZE {
                        let more = value - carrier.send_stream_window;
                        carrier.send_stream_window = value;
                        carrier.streams.values_mut().for_each(|stream| stream.send_window += more);
                    }
                }
                carrier.out.extend(frame::frame(kind::SETTINGS, flag::ACK, 0, &[]));
            }
            kind::PING if !frame.has(flag::ACK) => {
                carrier.out.extend(frame::frame(kind::PING, flag::ACK, 0, &frame.payload));
            }
            kind::WINDOW_UPDATE if number == 0 => carrier.send_window += i64::from(frame.number(0)),
            kind::WINDOW_UPDATE => {
                if let Some(stream) = carrier.streams.get_mut(&number) {
                    stream.send_window += i64::from(frame.number(0));
                }
            }
            kind::GOAWAY => self.on_goaway(at, frame.number(0), frame.number(4)),
            kind::RST_STREAM => {
                let refused = frame.number(0) == code::REFUSED_STREAM;
                if let Some(stream) = carrier.streams.remove(&number) {
                    self.end_early(stream.client, refused);
                }
            }
            kind::HEADERS | kind::CONTINUATION => self.on_block(at, frame),
            kind::DATA => self.on_content(at, frame),
            _ => {}
        }
    }

    /// The server ends a stream before its response is whole. A stream that it has refused may be asked for elsewhere.
    fn end_early(&mut self, at: usize, refused: bool) {
        let client = &mut self.clients[at];
        let deliveries = client.model.requests[0].deliveries;
        (client.ended, client.early) = (true, true);
        if refused && deliveries > 0 {
            self.fail(&format!("client {at}: the stream was refused, and its request given away"));
        }
        self.clients[at].model.left |= refused;
    }

    fn on_goaway(&mut self, at: usize, last: u32, code: u32) {
        if code != code::NO_ERROR && !self.carriers[at].is_late() {
            self.fail(&format!("connection {at} is ended with the error {code}"));
        }
        self.carriers[at].leaving = true;
        for (_, stream) in self.carriers[at].streams.split_off(&last.saturating_add(1)) {
            self.end_early(stream.client, true);
        }
    }

    fn on_block(&mut self, at: usize, frame: &Frame) {
        let carrier = &mut self.carriers[at];
        let begun = carrier.block.take();
        let (number, ended, mut block) =
            begun.unwrap_or((frame.stream, frame.has(flag::END_STREAM), Vec::new()));
        block.extend_from_slice(&frame.payload);
        if !frame.has(flag::END_HEADERS) {
            carrier.block = Some((number, ended, block));
            return;
        }
        let fields = carrier.decoder.decode(&block);
        let Some(stream) = carrier.streams.get_mut(&number) else { return };
        let of = |name: &str| fields.iter().find(|(other, _)| other == name).map(|(_, value)| value.as_str());
        let status: u16 = of(":status").and_then(|status| status.parse().ok()).unwrap_or(0);
        if status >= 200 && stream.form == Form::Headless {
            let client = &mut self.clients[stream.client];
            let length = of("content-length").and_then(|length| length.parse().ok());
            let bare = client.model.requests[0].asked.method == "HEAD" || matches!(status, 204 | 304);
            let mut head = format!("HTTP/1.1 {status} Stream\r\n");
            match (of("x-id"), length) {
                (Some(id), length) => {
                    head += &format!("X-Id: {id}\r\n");
                    stream.form = if bare { Form::Bare } else { Form::Chunks(length) };
                    if !bare {
                        head += "Transfer-Encoding: chunked\r\n";
                    }
                }
                (None, length) => {
                    head += &format!("Content-Length: {}\r\n", length.unwrap_or(0));
                    stream.form = Form::Plain;
                }
            }
            client.received.extend_from_slice(format!("{head}\r\n").as_bytes());
        }
        if ended {
            self.end_stream(at, number);
        }
    }

    fn on_content(&mut self, at: usize, frame: &Frame) {
        let (bytes, content) = (frame.payload.len(), &frame.payload);
        let carrier = &mut self.carriers[at];
        carrier.window -= bytes as i64;
        carrier.owed += bytes as u32;
        let overrun = carrier.window < 0;
        if let Some(stream) = carrier.streams.get_mut(&frame.stream) {
            stream.window -= bytes as i64;
            stream.owed += bytes as u32;
            if overrun || stream.window < 0 {
                self.fail(&format!("stream {} of connection {at}: more than its window", frame.stream));
            }
            let received = &mut self.clients[stream.client].received;
            match &mut stream.form {
                Form::Headless | Form::Bare if bytes > 0 => {
                    self.fail(&format!("content on stream {} of connection {at}", frame.stream));
                }
                Form::Headless | Form::Bare => {}
                Form::Plain => received.extend_from_slice(content),
                Form::Chunks(left) => {
                    if bytes > 0 {
                        received.extend_from_slice(format!("{bytes:x}\r\n").as_bytes());
                        received.extend_from_slice(&[content.as_slice(), b"\r\n"].concat());
                    }
                    if let Some(left) = left {
                        *left = left.saturating_sub(bytes);
                    }
                }
            }
        }
        if frame.has(flag::END_STREAM) {
            self.end_stream(at, frame.stream);
        }
    }

    /// The response is whole.
    fn end_stream(&mut self, at: usize, number: u32) {
        let Some(stream) = self.carriers[at].streams.remove(&number) else { return };
        match stream.form {
            Form::Headless => self.fail(&format!("stream {number} of connection {at} has no response")),
            Form::Chunks(Some(1..)) => {
                self.fail(&format!("stream {number} of connection {at}: less than its Content-Length"));
            }
            Form::Chunks(_) => self.clients[stream.client].received.extend_from_slice(b"0\r\n\r\n"),
            Form::Bare | Form::Plain => {}
        }
        self.clients[stream.client].ended = true;
        let client = stream.client;
        self.note(|| format!("client {client} has its response"));
    }

    /// Opens windows by what was received: all of them, or one. Whether any was.
    fn give_credit(&mut self, at: usize, all: bool) -> bool {
        let carrier = &mut self.carriers[at];
        let mut any = false;
        let mut owed: Vec<(u32, u32)> =
            carrier.streams.iter().map(|(id, stream)| (*id, stream.owed)).collect();
        owed.push((0, carrier.owed));
        // A stream that had no window at first gets one, too.
        for (id, stream) in &carrier.streams {
            if stream.window + i64::from(stream.owed) < 100 {
                owed.push((*id, 100));
            }
        }
        owed.retain(|(_, bytes)| *bytes > 0);
        if !all && !owed.is_empty() {
            owed = vec![owed[self.random.within(0..owed.len())]];
        }
        for (id, bytes) in owed {
            any = true;
            let carrier = &mut self.carriers[at];
            carrier.out.extend(frame::window_update(id, bytes));
            match carrier.streams.get_mut(&id) {
                None => {
                    carrier.window += i64::from(bytes);
                    carrier.owed -= bytes;
                }
                Some(stream) => {
                    stream.window += i64::from(bytes);
                    stream.owed = stream.owed.saturating_sub(bytes);
                }
            }
        }
        any
    }

    fn reset_stream(&mut self, at: usize) {
        let carrier = &mut self.carriers[at];
        if carrier.streams.is_empty() {
            return;
        }
        let place = self.random.within(0..carrier.streams.len());
        let Some((&number, stream)) = carrier.streams.iter().nth(place) else { return };
        let client = stream.client;
        carrier.streams.remove(&number);
        carrier.out.extend(frame::rst_stream(number, code::CANCEL));
        self.clients[client].leave();
        self.note(|| format!("client {client}: resets stream {number} of connection {at}"));
    }

    /// The client closes, with all that it has asked for.
    fn lose_carrier(&mut self, at: usize) {
        self.note(|| format!("connection {at} is closed by its client"));
        self.carriers[at].socket = None;
        for (_, stream) in std::mem::take(&mut self.carriers[at].streams) {
            self.clients[stream.client].leave();
        }
    }
}
