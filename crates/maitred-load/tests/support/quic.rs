//! An HTTP/3 server that follows a script, on QUIC as the client's library has it.

use std::collections::HashMap;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};
use maitred_http::h3::frame::{Place, Settings, Side, kind, put_identifier};
use maitred_http::h3::qpack::{BOUNDS, Decoder};
use maitred_http::h3::reader::{Event as Frame, Reader};
use maitred_load::http3::client::{frame, headers};
use quinn_proto::crypto::rustls::QuicServerConfig;
use quinn_proto::{
    Connection, ConnectionHandle, DatagramEvent, Dir, Endpoint, EndpointConfig, Event, ServerConfig,
    StreamEvent, StreamId, Transmit, VarInt, WriteError,
};
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};

/// What the server does with a request.
#[derive(Debug, Clone)]
pub(crate) enum Act {
    /// Bytes on the stream, and its end.
    Answer(Vec<u8>),
    /// Bytes, and a reset with this code.
    Reset(Vec<u8>, u64),
    /// The stream is reset as one that was not processed, and GOAWAY says that no further one will be.
    Leave,
    /// GOAWAY with the next identifier, and then the answer.
    Last(Vec<u8>),
    /// The connection is closed with this code.
    Close(u64),
    /// Nothing.
    Hang,
}

/// A request as the server saw it.
#[derive(Debug, Clone)]
pub(crate) struct Seen {
    /// Number of the connection, from 0.
    pub(crate) connection: usize,
    pub(crate) path: String,
    pub(crate) fields: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
    /// Where the connection's client was.
    pub(crate) from: SocketAddr,
    /// Whether it came before the end of the handshake.
    pub(crate) early: bool,
}

/// A response as it is on a stream.
pub(crate) fn answer(status: u16, body: &[u8]) -> Vec<u8> {
    let (status, length) = (status.to_string(), body.len().to_string());
    let mut bytes = headers(&[(":status", status.as_str()), ("content-length", length.as_str())]);
    if !body.is_empty() {
        bytes.extend(frame(kind::DATA, body));
    }
    bytes
}

pub(crate) struct QuicServer {
    pub(crate) address: SocketAddr,
    /// The server's certificate, which is good for `localhost`, as PEM.
    pub(crate) certificate: String,
    seen: Arc<Mutex<Vec<Seen>>>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

type Script = dyn Fn(&Seen, usize) -> Act + Send;

impl QuicServer {
    /// `script` is asked for each request, with its number among all of them.
    pub(crate) fn start(script: impl Fn(&Seen, usize) -> Act + Send + 'static) -> QuicServer {
        let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
        let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(made.signing_key.serialize_der()));
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let mut config = rustls::ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![made.cert.der().clone()], key)
            .unwrap();
        config.alpn_protocols = vec![b"h3".to_vec()];
        config.max_early_data_size = u32::MAX;
        let config = ServerConfig::with_crypto(Arc::new(QuicServerConfig::try_from(config).unwrap()));
        let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let address = socket.local_addr().unwrap();
        let (seen, stop) = (Arc::<Mutex<Vec<Seen>>>::default(), Arc::<AtomicBool>::default());
        let server = Serving {
            endpoint: Endpoint::new(Arc::new(EndpointConfig::default()), Some(Arc::new(config)), true, None),
            socket,
            connections: HashMap::new(),
            opened: 0,
            script: Box::new(script),
            seen: seen.clone(),
        };
        let stopped = stop.clone();
        let thread = Some(std::thread::spawn(move || server.run(&stopped)));
        QuicServer { address, certificate: made.cert.pem(), seen, stop, thread }
    }

    pub(crate) fn url(&self) -> String {
        format!("https://localhost:{}", self.address.port())
    }

    pub(crate) fn seen(&self) -> Vec<Seen> {
        self.seen.lock().unwrap().clone()
    }
}

impl Drop for QuicServer {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        // A datagram wakes it.
        let _ = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().send_to(b"x", self.address);
        let ended = self.thread.take().unwrap().join();
        assert!(ended.is_ok() || std::thread::panicking());
    }
}

struct Serving {
    endpoint: Endpoint,
    socket: UdpSocket,
    connections: HashMap<ConnectionHandle, Served>,
    opened: usize,
    script: Box<Script>,
    seen: Arc<Mutex<Vec<Seen>>>,
}

struct Served {
    connection: Connection,
    number: usize,
    control: Option<StreamId>,
    requests: HashMap<StreamId, (Reader, Seen)>,
    unsent: HashMap<StreamId, Bytes>,
    decoder: Decoder,
    is_connected: bool,
    /// The first request that is not processed.
    first_left: u64,
}

impl Serving {
    fn run(mut self, stop: &AtomicBool) {
        let mut room = vec![0; 65_536];
        while !stop.load(Ordering::Relaxed) {
            let timers = self.connections.values_mut().filter_map(|served| served.connection.poll_timeout());
            let wait = timers.min().map(|timer| timer.saturating_duration_since(Instant::now()));
            self.socket.set_read_timeout(wait.map(|wait| wait.max(Duration::from_micros(100)))).unwrap();
            if let Ok((count, from)) = self.socket.recv_from(&mut room) {
                self.on_datagram(from, BytesMut::from(&room[..count]));
            }
            let handles: Vec<_> = self.connections.keys().copied().collect();
            handles.into_iter().for_each(|handle| self.drive(handle));
        }
    }

    fn on_datagram(&mut self, from: SocketAddr, datagram: BytesMut) {
        let (now, mut out) = (Instant::now(), Vec::new());
        match self.endpoint.handle(now, from, None, None, datagram, &mut out) {
            Some(DatagramEvent::ConnectionEvent(handle, event)) => {
                self.connections.get_mut(&handle).unwrap().connection.handle_event(event);
            }
            Some(DatagramEvent::NewConnection(incoming)) => {
                let Ok((handle, connection)) = self.endpoint.accept(incoming, now, &mut out, None) else {
                    return;
                };
                let served = Served {
                    connection,
                    number: self.opened,
                    control: None,
                    requests: HashMap::new(),
                    unsent: HashMap::new(),
                    decoder: Decoder::new(0, 0),
                    is_connected: false,
                    first_left: (1 << 62) - 4,
                };
                self.opened += 1;
                self.connections.insert(handle, served);
            }
            Some(DatagramEvent::Response(transmit)) => send(&self.socket, &transmit, &out),
            None => {}
        }
    }

    fn drive(&mut self, handle: ConnectionHandle) {
        let Serving { endpoint, socket, connections, script, seen, .. } = self;
        let served = connections.get_mut(&handle).unwrap();
        let now = Instant::now();
        served.connection.handle_timeout(now);
        let mut is_drained = false;
        while let Some(event) = served.connection.poll_endpoint_events() {
            is_drained |= event.is_drained();
            if let Some(event) = endpoint.handle_event(handle, event) {
                served.connection.handle_event(event);
            }
        }
        while let Some(event) = served.connection.poll() {
            served.on_event(event, script, seen);
        }
        let mut out = Vec::new();
        while let Some(transmit) = served.connection.poll_transmit(now, 1, &mut out) {
            send(socket, &transmit, &out);
            out.clear();
        }
        if is_drained {
            connections.remove(&handle);
        }
    }
}

fn send(socket: &UdpSocket, transmit: &Transmit, bytes: &[u8]) {
    let _ = socket.send_to(&bytes[..transmit.size], transmit.destination);
}

impl Served {
    fn on_event(&mut self, event: Event, script: &Script, seen: &Mutex<Vec<Seen>>) {
        match event {
            Event::Connected => self.is_connected = true,
            Event::Stream(StreamEvent::Opened { dir }) => {
                while let Some(id) = self.connection.streams().accept(dir) {
                    self.read(id, script, seen);
                }
            }
            Event::Stream(StreamEvent::Readable { id }) => self.read(id, script, seen),
            Event::Stream(StreamEvent::Writable { id }) => self.write(id),
            _ => {}
        }
        if self.control.is_none() && !self.connection.is_closed() {
            self.control = self.connection.streams().open(Dir::Uni);
            let mut bytes = vec![0];
            Settings { list_bytes_max: Some(65_536), ..Settings::default() }.write(&mut bytes);
            if let Some(control) = self.control {
                self.connection.send_stream(control).write(&bytes).unwrap();
            }
        }
    }

    fn read(&mut self, id: StreamId, script: &Script, seen: &Mutex<Vec<Seen>>) {
        let (mut bytes, mut is_whole) = (Vec::new(), false);
        if let Ok(mut chunks) = self.connection.recv_stream(id).read(true) {
            loop {
                match chunks.next(usize::MAX) {
                    Ok(Some(chunk)) => bytes.extend_from_slice(&chunk.bytes),
                    Ok(None) => break is_whole = true,
                    Err(_) => break,
                }
            }
        }
        if id.dir() == Dir::Uni {
            return;
        }
        let (connection, from, early) = (self.number, self.connection.remote_address(), !self.is_connected);
        let (reader, request) = self.requests.entry(id).or_insert_with(|| {
            let (path, fields, body) = (String::new(), Vec::new(), Vec::new());
            let seen = Seen { connection, path, fields, body, from, early };
            (Reader::new(Place::Request, Side::Client, 65_536), seen)
        });
        let mut at = 0;
        while let Ok(Some(event)) = reader.next(&bytes, &mut at) {
            match event {
                Frame::Data(bytes) => request.body.extend_from_slice(bytes),
                Frame::Headers { section, .. } => {
                    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
                    let fields = &mut request.fields;
                    let take = |name: &[u8], value: &[u8]| fields.push((text(name), text(value)));
                    self.decoder.decode(id.into(), &section, BOUNDS, take).unwrap();
                }
                other => panic!("{other:?}"),
            }
        }
        if is_whole && let Some((_, mut request)) = self.requests.remove(&id) {
            if u64::from(id) >= self.first_left {
                return self.act(id, Act::Reset(Vec::new(), 0x10b));
            }
            let path = request.fields.iter().find(|(name, _)| name == ":path");
            request.path = path.map_or(String::new(), |(_, path)| path.clone());
            let number = seen.lock().unwrap().len();
            seen.lock().unwrap().push(request.clone());
            self.act(id, script(&request, number));
        }
    }

    fn act(&mut self, id: StreamId, act: Act) {
        match act {
            Act::Answer(bytes) => {
                self.unsent.insert(id, bytes.into());
                self.write(id);
            }
            Act::Reset(bytes, code) => {
                let mut stream = self.connection.send_stream(id);
                let _ = stream.write(&bytes);
                stream.reset(VarInt::from_u64(code).unwrap()).unwrap();
            }
            Act::Leave => {
                self.go_away(u64::from(id));
                self.act(id, Act::Reset(Vec::new(), 0x10b));
            }
            Act::Last(bytes) => {
                self.go_away(u64::from(id) + 4);
                self.act(id, Act::Answer(bytes));
            }
            Act::Close(code) => {
                self.connection.close(
                    Instant::now(),
                    VarInt::from_u64(code).unwrap(),
                    Bytes::from_static(b"enough"),
                );
            }
            Act::Hang => {}
        }
    }

    /// The identifier never goes up.
    fn go_away(&mut self, first: u64) {
        self.first_left = self.first_left.min(first);
        let mut bytes = Vec::new();
        put_identifier(&mut bytes, kind::GOAWAY, self.first_left);
        let control = self.control.unwrap();
        self.connection.send_stream(control).write(&bytes).unwrap();
    }

    fn write(&mut self, id: StreamId) {
        let Some(bytes) = self.unsent.remove(&id) else { return };
        let mut rest = [bytes];
        while !rest[0].is_empty() {
            match self.connection.send_stream(id).write_chunks(&mut rest) {
                Ok(_) => {}
                Err(WriteError::Blocked) => {
                    let [rest] = rest;
                    self.unsent.insert(id, rest);
                    return;
                }
                Err(_) => return,
            }
        }
        let _ = self.connection.send_stream(id).finish();
    }
}
