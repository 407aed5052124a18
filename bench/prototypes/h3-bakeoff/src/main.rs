//! A small HTTP/3 server of fixed answers, the same on two libraries of QUIC, that decided between them
//! (bench/runs/2026-11-27-quic-libraries).
//!
//! `h3-bakeoff CERTIFICATE KEY [OPTION...]`, both DER; prints its port. Options, all of them numbers: `port=`, `tick-us=` (0:
//! timers as the library sets them), `send-window=`, `stream-window=`, `window=`, `streams=`, `fair=`, `gso=`, `batch=` (segments
//! of one transmit), `mtu=`. On SIGTERM it prints what it has counted.

mod library;
mod served;

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::io::{self, IoSliceMut, Write};
use std::net::UdpSocket;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::BytesMut;
use library::{
    ConnectionHandle, DatagramEvent, EcnCodepoint, Endpoint, EndpointConfig, QuicServerConfig, ServerConfig,
    Transmit, TransportConfig, VarInt, handle, poll_transmit,
};
use quinn_udp::{RecvMeta, UdpSocketState};
use rustix::buffer::spare_capacity;
use rustix::event::{Timespec, epoll};
use served::{Contents, Served};

const SLOTS: usize = 8;
const SLOT_BYTES: usize = 64 << 10;
/// Receives of a turn, of all slots.
const RECEIVES_MAX: usize = 4;

/// The options, with what holds without them.
struct Options(HashMap<String, u64>);

impl Options {
    fn get(&self, name: &str, otherwise: u64) -> u64 {
        self.0.get(name).copied().unwrap_or(otherwise)
    }

    fn transport(&self) -> TransportConfig {
        let small = |name, otherwise| VarInt::from_u32(self.get(name, otherwise) as u32);
        let mut transport = TransportConfig::default();
        transport
            .max_concurrent_bidi_streams(small("streams", 128))
            .max_concurrent_uni_streams(VarInt::from_u32(8))
            .stream_receive_window(small("stream-window", 256 << 10))
            .receive_window(small("window", 1 << 20))
            .send_window(self.get("send-window", 1 << 20))
            .send_fairness(self.get("fair", 0) > 0)
            .datagram_receive_buffer_size(None)
            .enable_segmentation_offload(self.get("gso", 1) > 0)
            .initial_mtu(self.get("mtu", 1200) as u16)
            .max_idle_timeout(Some(VarInt::from_u32(120_000).into()));
        transport
    }
}

#[derive(Debug, Default)]
struct Counts {
    turns: u64,
    receives: u64,
    slots: u64,
    datagrams: u64,
    sends: u64,
    segments: u64,
    timers: u64,
    held: u64,
    answers: u64,
    unsent: u64,
    packets: u64,
    lost: u64,
    mtu: u64,
}

struct Server {
    socket: UdpSocket,
    state: UdpSocketState,
    epoll: std::os::fd::OwnedFd,
    endpoint: Endpoint,
    /// Boxed: a connection has 6.5 KB, and a table has room for more of them than there are.
    connections: HashMap<ConnectionHandle, Box<Served>>,
    contents: Rc<Contents>,
    dirty: Vec<ConnectionHandle>,
    timers: BinaryHeap<Reverse<(Instant, usize)>>,
    out: Vec<u8>,
    tick: Duration,
    batch: usize,
    counts: Counts,
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().collect();
    let [_, certificate, key, options @ ..] = &arguments[..] else {
        return Err("CERTIFICATE KEY [OPTION...]".into());
    };
    let options = options.iter().filter_map(|option| option.split_once('='));
    let options =
        Options(options.map(|(name, value)| (name.to_owned(), value.parse().unwrap_or(0))).collect());
    let certificate = rustls::pki_types::CertificateDer::from(std::fs::read(certificate)?);
    let key = rustls::pki_types::PrivateKeyDer::try_from(std::fs::read(key)?)?;
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let mut tls = rustls::ServerConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&rustls::version::TLS13])?
        .with_no_client_auth()
        .with_single_cert(vec![certificate], key)?;
    tls.alpn_protocols = vec![b"h3".to_vec()];
    let mut config = ServerConfig::with_crypto(Arc::new(QuicServerConfig::try_from(tls)?));
    config.transport_config(Arc::new(options.transport()));

    let socket = UdpSocket::bind(("127.0.0.1", options.get("port", 0) as u16))?;
    let state = UdpSocketState::new((&socket).into())?;
    state.set_recv_buffer_size((&socket).into(), 4 << 20)?;
    state.set_send_buffer_size((&socket).into(), 4 << 20)?;
    let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
    epoll::add(&epoll, &socket, epoll::EventData::new_u64(1), epoll::EventFlags::IN)?;
    let signals = maitred_sys::signals::Signals::block()?;
    epoll::add(&epoll, &signals, epoll::EventData::new_u64(0), epoll::EventFlags::IN)?;
    println!("port {} ({})", socket.local_addr()?.port(), library::NAME);
    io::stdout().flush()?;

    let mut server = Server {
        endpoint: library::endpoint(EndpointConfig::default(), config, !state.may_fragment()),
        batch: (options.get("batch", 32) as usize).min(state.max_gso_segments()),
        socket,
        state,
        epoll,
        connections: HashMap::new(),
        contents: Rc::new(Contents::new()),
        dirty: Vec::new(),
        timers: BinaryHeap::new(),
        out: Vec::new(),
        tick: Duration::from_micros(options.get("tick-us", 0)),
        counts: Counts::default(),
    };
    server.run()?;
    println!("{:?}", server.counts);
    Ok(())
}

impl Server {
    fn run(&mut self) -> io::Result<()> {
        let mut room = vec![0; SLOTS * SLOT_BYTES];
        let mut events = Vec::with_capacity(4);
        loop {
            events.clear();
            let wait =
                self.timers.peek().map(|Reverse((at, _))| at.saturating_duration_since(Instant::now()));
            let wait = wait
                .map(|wait| Timespec { tv_sec: wait.as_secs() as i64, tv_nsec: wait.subsec_nanos().into() });
            match epoll::wait(&self.epoll, spare_capacity(&mut events), wait.as_ref()) {
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
            if events.iter().any(|event| event.data.u64() == 0) {
                return Ok(());
            }
            self.counts.turns += 1;
            let now = Instant::now();
            if !events.is_empty() {
                for _ in 0..RECEIVES_MAX {
                    if !self.receive(&mut room, now)? {
                        break;
                    }
                }
            }
            self.expire(now);
            while let Some(key) = self.dirty.pop() {
                self.drive(key, now);
            }
        }
    }

    /// Takes what has come; whether there may be more.
    fn receive(&mut self, room: &mut [u8], now: Instant) -> io::Result<bool> {
        let mut room = room.chunks_exact_mut(SLOT_BYTES);
        let mut slots: [_; SLOTS] = std::array::from_fn(|_| IoSliceMut::new(room.next().unwrap_or_default()));
        let mut metas = [RecvMeta::default(); SLOTS];
        let count = match self.state.recv((&self.socket).into(), &mut slots, &mut metas) {
            Ok(count) => count,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
            Err(error) => return Err(error),
        };
        self.counts.receives += 1;
        for (slot, meta) in slots.iter().zip(&metas).take(count) {
            self.counts.slots += 1;
            let mut all = BytesMut::from(slot.get(..meta.len).unwrap_or_default());
            while !all.is_empty() {
                let datagram = all.split_to(meta.stride.clamp(1, all.len()));
                self.on_datagram(meta, datagram, now);
            }
        }
        Ok(count == SLOTS)
    }

    fn on_datagram(&mut self, meta: &RecvMeta, datagram: BytesMut, now: Instant) {
        self.counts.datagrams += 1;
        self.out.clear();
        let ecn = meta.ecn.and_then(|ecn| EcnCodepoint::from_bits(ecn as u8));
        let event = handle(&mut self.endpoint, now, (meta.addr, meta.dst_ip), ecn, datagram, &mut self.out);
        let key = match event {
            Some(DatagramEvent::ConnectionEvent(key, event)) => {
                if let Some(served) = self.connections.get_mut(&key) {
                    served.connection.handle_event(event);
                }
                key
            }
            Some(DatagramEvent::NewConnection(incoming)) => {
                let Ok((key, connection)) = self.endpoint.accept(incoming, now, &mut self.out, None) else {
                    return;
                };
                self.connections.insert(key, Box::new(Served::new(connection, self.contents.clone())));
                key
            }
            Some(DatagramEvent::Response(transmit)) => return self.send(&transmit),
            None => return,
        };
        if let Some(served) = self.connections.get_mut(&key)
            && !std::mem::replace(&mut served.is_dirty, true)
        {
            self.dirty.push(key);
        }
    }

    fn expire(&mut self, now: Instant) {
        while let Some(Reverse((at, key))) = self.timers.peek().copied().filter(|first| first.0.0 <= now) {
            self.timers.pop();
            let key = ConnectionHandle(key);
            let Some(served) = self.connections.get_mut(&key).filter(|served| served.queued == Some(at))
            else {
                continue;
            };
            (served.queued, served.held_until) = (None, None);
            if served.connection.poll_timeout().is_some_and(|timer| timer <= now) {
                self.counts.timers += 1;
                served.connection.handle_timeout(now);
            }
            if !std::mem::replace(&mut served.is_dirty, true) {
                self.dirty.push(key);
            }
        }
    }

    fn drive(&mut self, key: ConnectionHandle, now: Instant) {
        let Some(served) = self.connections.get_mut(&key) else { return };
        served.is_dirty = false;
        let mut is_drained = false;
        self.counts.answers += served.drive();
        while let Some(event) = served.connection.poll_endpoint_events() {
            is_drained |= event.is_drained();
            if let Some(event) = self.endpoint.handle_event(key, event) {
                served.connection.handle_event(event);
            }
        }
        if is_drained {
            let [packets, lost, mtu] = library::sent_lost_mtu(&mut served.connection);
            (self.counts.packets, self.counts.lost) =
                (self.counts.packets + packets, self.counts.lost + lost);
            self.counts.mtu = mtu;
            self.connections.remove(&key);
            return;
        }
        if served.held_until.is_some_and(|until| now < until) {
            self.counts.held += 1;
        } else {
            self.transmit(key, now);
        }
        self.queue_timer(key, now);
    }

    fn transmit(&mut self, key: ConnectionHandle, now: Instant) {
        let Some(served) = self.connections.get_mut(&key) else { return };
        loop {
            self.out.clear();
            let Some(transmit) = poll_transmit(&mut served.connection, now, self.batch, &mut self.out) else {
                break;
            };
            self.counts.sends += 1;
            self.counts.segments +=
                transmit.segment_size.map_or(1, |size| transmit.size.div_ceil(size)) as u64;
            self.counts.unsent += u64::from(!send(&self.state, &self.socket, &transmit, &self.out));
        }
    }

    fn send(&self, transmit: &Transmit) {
        let _ = send(&self.state, &self.socket, transmit, &self.out);
    }

    /// A timer that is as near as this is the pacer's, or may as well wait: with a tick nothing is sent before it.
    fn queue_timer(&mut self, key: ConnectionHandle, now: Instant) {
        let Some(served) = self.connections.get_mut(&key) else { return };
        let Some(mut at) = served.connection.poll_timeout() else { return };
        if at < now + self.tick {
            at = *served.held_until.get_or_insert(now + self.tick);
        }
        if served.queued.is_none_or(|queued| at < queued) {
            served.queued = Some(at);
            self.timers.push(Reverse((at, key.0)));
        }
    }
}

/// Whether the socket has taken it: what it does not take is lost, and comes again.
fn send(state: &UdpSocketState, socket: &UdpSocket, transmit: &Transmit, contents: &[u8]) -> bool {
    let transmit = quinn_udp::Transmit {
        destination: transmit.destination,
        ecn: transmit.ecn.and_then(|ecn| quinn_udp::EcnCodepoint::from_bits(ecn as u8)),
        contents: contents.get(..transmit.size).unwrap_or_default(),
        segment_size: transmit.segment_size,
        src_ip: transmit.src_ip,
    };
    state.try_send(socket.into(), &transmit).is_ok()
}
