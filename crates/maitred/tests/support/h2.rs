//! An HTTP/2 client that sends exactly the frames that it is given, and ends the test where the server breaks RFC 9113.

use std::collections::BTreeMap;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

#[path = "h2_stream.rs"]
mod stream;

use crate::support::TIMEOUT;
use frame::{Frame, PREFACE, code, flag, kind, setting};
pub(crate) use maitred_testing::h2::{frame, hpack};
pub(crate) use stream::{Response, Stream};

/// What a connection begins with, unless its SETTINGS say otherwise (9113-6.5.2, 6.9.2).
const WINDOW_BYTES: u32 = 65_535;
const FRAME_BYTES_MAX: u32 = 16_384;

/// What both directions of a connection need.
pub(crate) trait Wire: Read + Write + Send + std::fmt::Debug {}
impl<T: Read + Write + Send + std::fmt::Debug> Wire for T {}

#[derive(Debug)]
pub(crate) struct Connection {
    wire: Box<dyn Wire>,
    /// The socket below it, for its settings.
    socket: TcpStream,
    received: Vec<u8>,
    decoder: hpack::Decoder,
    streams: BTreeMap<u32, Stream>,
    next_stream: u32,
    next_ping: u64,
    pongs: Vec<u64>,
    /// The header block that CONTINUATION frames go on with.
    block: Option<(u32, bool, Vec<u8>)>,
    /// What the server may still send on the connection; on a stream: [`Stream`].
    window: i64,
    /// What this side's SETTINGS said.
    stream_window: i64,
    frame_bytes_max: usize,
    /// What this side may still send.
    send_window: i64,
    /// The server's SETTINGS.
    pub(crate) settings: BTreeMap<u16, u32>,
    /// Acknowledgements of this side's SETTINGS.
    pub(crate) settings_acks: usize,
    /// Last stream and code of the GOAWAY that came last, and how many there were.
    pub(crate) goaway: Option<(u32, u32)>,
    pub(crate) goaways: usize,
    /// What requests say that they came by.
    pub(crate) scheme: &'static str,
    /// Whether windows are opened again as soon as something came.
    pub(crate) reads: bool,
}

/// Why there is no response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Lost {
    /// RST_STREAM with this code.
    Reset(u32),
    /// The connection has ended.
    Ended,
}

impl Connection {
    /// With the settings that every connection begins with.
    pub(crate) fn new(address: SocketAddr) -> Connection {
        Connection::with(address, &[])
    }

    /// With settings of its own. Does not wait for the server's.
    #[track_caller]
    pub(crate) fn with(address: SocketAddr, values: &[(u16, u32)]) -> Connection {
        let mut connection = Connection::silent(address);
        connection.begin(values);
        connection
    }

    /// Says nothing yet.
    pub(crate) fn silent(address: SocketAddr) -> Connection {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(TIMEOUT)).unwrap();
        stream.set_write_timeout(Some(TIMEOUT)).unwrap();
        stream.set_nodelay(true).unwrap();
        let socket = stream.try_clone().unwrap();
        Connection::on(Box::new(stream), socket)
    }

    /// On any transport over a socket.
    pub(crate) fn on(wire: Box<dyn Wire>, socket: TcpStream) -> Connection {
        Connection {
            wire,
            socket,
            received: Vec::new(),
            decoder: hpack::Decoder::new(4096),
            streams: BTreeMap::new(),
            next_stream: 1,
            next_ping: 0,
            pongs: Vec::new(),
            block: None,
            window: WINDOW_BYTES.into(),
            stream_window: WINDOW_BYTES.into(),
            frame_bytes_max: FRAME_BYTES_MAX as usize,
            send_window: WINDOW_BYTES.into(),
            settings: BTreeMap::new(),
            settings_acks: 0,
            goaway: None,
            goaways: 0,
            scheme: "http",
            reads: true,
        }
    }

    /// Sends the preface and SETTINGS.
    #[track_caller]
    pub(crate) fn begin(&mut self, values: &[(u16, u32)]) {
        for (name, value) in values {
            match *name {
                setting::INITIAL_WINDOW_SIZE => self.stream_window = i64::from(*value),
                setting::MAX_FRAME_SIZE => self.frame_bytes_max = *value as usize,
                setting::HEADER_TABLE_SIZE => self.decoder = hpack::Decoder::new(*value as usize),
                _ => {}
            }
        }
        self.send([PREFACE, &frame::settings(values)].concat());
    }

    #[track_caller]
    pub(crate) fn send(&mut self, bytes: impl AsRef<[u8]>) {
        self.try_send(bytes).unwrap();
    }

    /// Sends to a server that may close before all of it is taken.
    pub(crate) fn try_send(&mut self, bytes: impl AsRef<[u8]>) -> io::Result<()> {
        self.wire.write_all(bytes.as_ref())?;
        self.wire.flush()
    }

    /// Takes the number of the next stream, and knows it as open.
    pub(crate) fn open(&mut self) -> u32 {
        let id = self.next_stream;
        self.next_stream += 2;
        let send_window = self.settings.get(&setting::INITIAL_WINDOW_SIZE).copied().unwrap_or(WINDOW_BYTES);
        self.streams.insert(id, Stream::new(self.stream_window, send_window.into()));
        id
    }

    /// Sends a request's HEADERS: pseudo-fields for `localhost`, and `fields`.
    #[track_caller]
    pub(crate) fn request(&mut self, method: &str, path: &str, fields: &[(&str, &str)], end: bool) -> u32 {
        let id = self.open();
        let bytes = self.request_bytes(id, method, path, fields, end);
        self.send(bytes);
        id
    }

    /// The frame that [`Connection::request`] sends.
    pub(crate) fn request_bytes(
        &mut self,
        id: u32,
        method: &str,
        path: &str,
        fields: &[(&str, &str)],
        end: bool,
    ) -> Vec<u8> {
        let pseudo =
            [(":method", method), (":scheme", self.scheme), (":path", path), (":authority", "localhost")];
        if let Some(stream) = self.streams.get_mut(&id) {
            stream.method = method.to_owned();
        }
        frame::headers(id, &hpack::block(&[&pseudo, fields].concat()), end)
    }

    /// Asks for something, and waits for the answer.
    #[track_caller]
    pub(crate) fn get(&mut self, path: &str) -> Response {
        let id = self.request("GET", path, &[], true);
        self.response(id)
    }

    /// Another method without a body.
    #[track_caller]
    pub(crate) fn method(&mut self, method: &str, path: &str, fields: &[(&str, &str)]) -> Response {
        let id = self.request(method, path, fields, true);
        self.response(id)
    }

    /// A POST with `content-length`, sent as fast as the server's windows allow.
    #[track_caller]
    pub(crate) fn post(&mut self, path: &str, body: &[u8]) -> Response {
        let length = body.len().to_string();
        let id = self.request("POST", path, &[("content-length", &length)], body.is_empty());
        if !body.is_empty() {
            self.upload(id, body, true);
        }
        self.response(id)
    }

    /// Sends DATA within the server's windows; a stream that the server has ended is left.
    #[track_caller]
    pub(crate) fn upload(&mut self, id: u32, body: &[u8], end: bool) {
        let mut rest = body;
        loop {
            let room = self.send_window.min(self.streams[&id].send_window).min(FRAME_BYTES_MAX.into());
            let piece = rest.len().min(usize::try_from(room).unwrap_or(0));
            if self.streams[&id].reset.is_some() {
                return;
            }
            if piece == 0 && !rest.is_empty() {
                self.step().unwrap();
                continue;
            }
            let (now, later) = rest.split_at(piece);
            rest = later;
            self.send_window -= piece as i64;
            self.stream(id).send_window -= piece as i64;
            self.send(frame::data(id, now, end && rest.is_empty()));
            if rest.is_empty() {
                return;
            }
        }
    }

    /// Asks for a WebSocket by an extended CONNECT (8441-4).
    #[track_caller]
    pub(crate) fn websocket(&mut self, path: &str) -> u32 {
        self.protocol("websocket", path)
    }

    /// Asks for any protocol in the same way.
    pub(crate) fn protocol(&mut self, protocol: &str, path: &str) -> u32 {
        let id = self.open();
        self.stream(id).method = "CONNECT".to_owned();
        let fields = [
            (":method", "CONNECT"),
            (":protocol", protocol),
            (":scheme", self.scheme),
            (":path", path),
            (":authority", "localhost"),
            ("sec-websocket-version", "13"),
            ("sec-websocket-protocol", "chat"),
        ];
        self.send(frame::headers(id, &hpack::block(&fields), false));
        id
    }

    /// What is known of a stream.
    #[track_caller]
    pub(crate) fn stream(&mut self, id: u32) -> &mut Stream {
        self.streams.get_mut(&id).expect("a stream that this side has opened")
    }

    /// Waits for the end of a response.
    #[track_caller]
    pub(crate) fn response(&mut self, id: u32) -> Response {
        self.try_response(id)
            .unwrap_or_else(|lost| panic!("no response on {id}: {lost:?}; {:?}", self.goaway))
    }

    /// The same from a server that may abort the response.
    #[track_caller]
    pub(crate) fn try_response(&mut self, id: u32) -> Result<Response, Lost> {
        loop {
            let stream = self.stream(id);
            if stream.ended {
                let stream = self.streams.remove(&id).expect("it was just there");
                return Ok(stream.into_response());
            }
            if let Some(code) = stream.reset {
                return Err(Lost::Reset(code));
            }
            self.step().map_err(|_| Lost::Ended)?;
        }
    }

    /// Waits for the head of a response.
    #[track_caller]
    pub(crate) fn head(&mut self, id: u32) -> Response {
        while self.stream(id).head.is_none() {
            self.step().unwrap();
        }
        self.stream(id).head.clone().expect("it is there")
    }

    /// Waits until the server has reset a stream; its code.
    #[track_caller]
    pub(crate) fn reset_of(&mut self, id: u32) -> u32 {
        loop {
            if let Some(code) = self.stream(id).reset {
                return code;
            }
            self.step().unwrap();
        }
    }

    /// Waits until at least so many bytes of content have come.
    #[track_caller]
    pub(crate) fn content(&mut self, id: u32, bytes: usize) {
        while self.stream(id).body.len() < bytes {
            assert!(!self.stream(id).ended && self.stream(id).reset.is_none(), "{:?}", self.stream(id));
            self.step().unwrap();
        }
    }

    /// Waits until the server has dealt with everything that was sent to it so far.
    #[track_caller]
    pub(crate) fn sync(&mut self) {
        self.try_sync().unwrap();
    }

    /// The same with a server that may close.
    #[track_caller]
    pub(crate) fn try_sync(&mut self) -> io::Result<()> {
        self.next_ping += 1;
        let number = self.next_ping;
        self.try_send(frame::ping(number))?;
        while !self.pongs.contains(&number) {
            self.step()?;
        }
        Ok(())
    }

    /// Opens a window.
    #[track_caller]
    pub(crate) fn open_window(&mut self, id: u32, bytes: u32) {
        match self.streams.get_mut(&id) {
            Some(stream) => stream.window += i64::from(bytes),
            None if id == 0 => self.window += i64::from(bytes),
            None => {}
        }
        self.send(frame::window_update(id, bytes));
    }

    /// Resets a stream.
    #[track_caller]
    pub(crate) fn cancel(&mut self, id: u32) {
        self.stream(id).cancelled = true;
        self.send(frame::rst_stream(id, code::CANCEL));
    }

    /// Reads to the end of the connection; the code of its GOAWAY, if there was one.
    #[track_caller]
    pub(crate) fn end(&mut self) -> Option<u32> {
        loop {
            match self.step() {
                Ok(()) => {}
                Err(error) if is_end(&error) => return self.goaway.map(|(_, code)| code),
                Err(error) => panic!("the connection stays open: {error}"),
            }
        }
    }

    /// Receives and applies the next frame.
    #[track_caller]
    pub(crate) fn step(&mut self) -> io::Result<()> {
        let frame = self.next_frame()?;
        self.obey(frame)
    }

    /// The next frame as it is.
    pub(crate) fn next_frame(&mut self) -> io::Result<Frame> {
        loop {
            if let Some(frame) = Frame::take(&mut self.received) {
                return Ok(frame);
            }
            let mut piece = [0; 64 * 1024];
            match self.wire.read(&mut piece)? {
                0 => return Err(ErrorKind::UnexpectedEof.into()),
                got => self.received.extend_from_slice(&piece[..got]),
            }
        }
    }

    #[track_caller]
    fn obey(&mut self, frame: Frame) -> io::Result<()> {
        assert!(frame.payload.len() <= self.frame_bytes_max, "{} bytes in a frame", frame.payload.len());
        assert!(self.block.is_none() || frame.kind == kind::CONTINUATION, "{frame:?} in a block");
        let on_connection = [kind::SETTINGS, kind::PING, kind::GOAWAY].contains(&frame.kind);
        assert!(frame.stream == 0 || !on_connection, "{frame:?}");
        match frame.kind {
            kind::SETTINGS => return self.on_settings(&frame),
            kind::PING if frame.has(flag::ACK) => {
                self.pongs.push(u64::from_be_bytes(frame.payload[..].try_into().expect("eight bytes")));
            }
            kind::PING => return self.reply(&frame::frame(kind::PING, flag::ACK, 0, &frame.payload)),
            kind::GOAWAY => {
                let last = frame.number(0);
                assert!(self.goaway.is_none_or(|(before, _)| last <= before), "GOAWAY with a higher id");
                self.goaway = Some((last, frame.number(4)));
                self.goaways += 1;
            }
            kind::WINDOW_UPDATE => self.on_window_update(&frame),
            kind::RST_STREAM => {
                assert_eq!(frame.payload.len(), 4, "{frame:?}");
                let code = frame.number(0);
                if let Some(stream) = self.streams.get_mut(&frame.stream) {
                    stream.on_reset(code);
                }
                assert!(
                    frame.stream % 2 == 1 && frame.stream < self.next_stream,
                    "{frame:?} of an idle stream"
                );
            }
            kind::HEADERS | kind::CONTINUATION => self.on_block(&frame),
            kind::DATA => return self.on_data(&frame),
            other => panic!("nothing here sends frames of type {other}: {frame:?}"),
        }
        Ok(())
    }

    fn on_settings(&mut self, frame: &Frame) -> io::Result<()> {
        if frame.has(flag::ACK) {
            assert!(frame.payload.is_empty());
            self.settings_acks += 1;
            return Ok(());
        }
        assert_eq!(frame.payload.len() % 6, 0, "{frame:?}");
        let before = self.settings.get(&setting::INITIAL_WINDOW_SIZE).copied().unwrap_or(WINDOW_BYTES);
        for pair in frame.payload.chunks(6) {
            let name = u16::from_be_bytes([pair[0], pair[1]]);
            self.settings.insert(name, u32::from_be_bytes([pair[2], pair[3], pair[4], pair[5]]));
        }
        let now = self.settings.get(&setting::INITIAL_WINDOW_SIZE).copied().unwrap_or(WINDOW_BYTES);
        for stream in self.streams.values_mut() {
            stream.send_window += i64::from(now) - i64::from(before);
        }
        self.reply(&frame::frame(kind::SETTINGS, flag::ACK, 0, &[]))
    }

    /// Sends what the server expects, unless it has gone meanwhile: what it sent before is read all the same.
    fn reply(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.try_send(bytes).or_else(|error| if is_end(&error) { Ok(()) } else { Err(error) })
    }

    #[track_caller]
    fn on_window_update(&mut self, frame: &Frame) {
        let bytes = i64::from(frame.number(0));
        assert!((1..1 << 31).contains(&bytes), "{frame:?}");
        let window = match self.streams.get_mut(&frame.stream) {
            Some(stream) => &mut stream.send_window,
            None if frame.stream == 0 => &mut self.send_window,
            None => return,
        };
        *window += bytes;
        assert!(*window < 1 << 31, "a window of {window}");
    }

    #[track_caller]
    fn on_block(&mut self, frame: &Frame) {
        let (stream, ended, mut block) = match self.block.take() {
            None => {
                assert_eq!(frame.kind, kind::HEADERS, "{frame:?} without HEADERS");
                assert!(!frame.has(flag::PADDED) && !frame.has(flag::PRIORITY), "nothing here sends these");
                (frame.stream, frame.has(flag::END_STREAM), Vec::new())
            }
            Some(open) => open,
        };
        assert_eq!(stream, frame.stream, "a block of two streams");
        block.extend_from_slice(&frame.payload);
        if !frame.has(flag::END_HEADERS) {
            self.block = Some((stream, ended, block));
            return;
        }
        let fields = self.decoder.decode(&block);
        assert!(stream % 2 == 1 && stream < self.next_stream, "HEADERS on stream {stream}, which is idle");
        if let Some(stream) = self.streams.get_mut(&stream) {
            stream.on_fields(fields, ended);
        }
    }

    #[track_caller]
    fn on_data(&mut self, frame: &Frame) -> io::Result<()> {
        assert!(!frame.has(flag::PADDED), "nothing here pads");
        let bytes = frame.payload.len();
        self.window -= bytes as i64;
        assert!(self.window >= 0, "more than the connection's window");
        let (id, reads) = (frame.stream, self.reads);
        assert!(id % 2 == 1 && id < self.next_stream, "DATA on an idle stream");
        let mut open = Vec::new();
        if let Some(stream) = self.streams.get_mut(&id) {
            stream.on_data(&frame.payload, frame.has(flag::END_STREAM));
            if reads && bytes > 0 && !stream.ended {
                stream.window += bytes as i64;
                open.extend(frame::window_update(id, bytes as u32));
            }
        }
        if reads && bytes > 0 {
            self.window += bytes as i64;
            open.extend(frame::window_update(0, bytes as u32));
        }
        if open.is_empty() { Ok(()) } else { self.reply(&open) }
    }

    /// Whether nothing comes for a moment ([`QUIET`]).
    pub(crate) fn is_silent(&mut self) -> bool {
        self.socket.set_read_timeout(Some(QUIET)).unwrap();
        let frame = self.next_frame();
        self.socket.set_read_timeout(Some(TIMEOUT)).unwrap();
        matches!(frame, Err(error) if error.kind() == ErrorKind::WouldBlock)
    }

    /// The socket.
    pub(crate) fn socket(&self) -> &TcpStream {
        &self.socket
    }

    /// How many more bytes the server may send on the connection.
    pub(crate) fn window(&self) -> i64 {
        self.window
    }
}

/// Whether the peer has ended the connection, in order or not.
pub(crate) fn is_end(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::UnexpectedEof | ErrorKind::ConnectionReset | ErrorKind::BrokenPipe)
}

/// A connection's whole life in one line: for tests of one response.
#[track_caller]
pub(crate) fn get(address: SocketAddr, path: &str) -> Response {
    Connection::new(address).get(path)
}

/// How long something that must not come is waited for. The time does not have to be enough for a slow machine: a test that is
/// too quick passes where it should fail, never the other way round.
pub(crate) const QUIET: Duration = Duration::from_millis(300);
