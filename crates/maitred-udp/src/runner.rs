//! The event loop of a path: one socket for all clients, and one towards the server for each of them.

use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::mpsc::Receiver;
use std::time::{Duration, Instant};

use rustix::buffer::spare_capacity;
use rustix::event::{Timespec, epoll};
use rustix::io::Errno;
use rustix::time::{Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags};

use crate::config::{Config, Rebind};
use crate::counts::Counts;
use crate::dice::Dice;
use crate::link::{Datagram, Link, Outlet};
use crate::path::Command;
use crate::socket::{Room, Socket};

/// What an event is about; from `FLOWS` on, the client with that number.
const LISTENER: u64 = 0;
const WAKE: u64 = 1;
const TIMER: u64 = 2;
const FLOWS: u64 = 3;
const EVENTS_MAX: usize = 64;
/// Receives of one socket in one turn, so that one does not starve the others and the timer.
const RECEIVES_MAX: usize = 4;
/// Addresses that rebinding goes through, from 127.0.0.1 on.
const ADDRESSES: u64 = 250;

/// A client, by its address.
#[derive(Debug)]
struct Flow {
    client: SocketAddr,
    socket: Socket,
    to_server: Dice,
    to_client: Dice,
    /// Datagrams that the client has sent.
    sent: u64,
    began: Duration,
    rebound: u64,
}

/// Sends to the server, from the client's socket.
struct ToServer<'a>(&'a [Flow], SocketAddr);

impl Outlet for ToServer<'_> {
    fn send(&mut self, datagram: Datagram<'_>) -> bool {
        self.0.get(datagram.flow).is_some_and(|flow| flow.socket.send(self.1, datagram.bytes, datagram.ecn))
    }
}

/// Sends to clients, from the socket that they know.
struct ToClients<'a>(&'a [Flow], &'a Socket);

impl Outlet for ToClients<'_> {
    fn send(&mut self, datagram: Datagram<'_>) -> bool {
        let client = self.0.get(datagram.flow).map(|flow| flow.client);
        client.is_some_and(|client| self.1.send(client, datagram.bytes, datagram.ecn))
    }
}

#[derive(Debug)]
pub(crate) struct Runner {
    server: SocketAddr,
    seed: u64,
    rebind: Rebind,
    began: Instant,
    epoll: OwnedFd,
    wake: Arc<OwnedFd>,
    commands: Receiver<Command>,
    timer: OwnedFd,
    /// What the timer is set to.
    armed: Option<Duration>,
    listener: Socket,
    flows: Vec<Flow>,
    by_client: HashMap<SocketAddr, usize>,
    to_server: Link,
    to_client: Link,
    counts: Counts,
}

impl Runner {
    pub(crate) fn new(
        config: Config,
        server: SocketAddr,
        wake: Arc<OwnedFd>,
        commands: Receiver<Command>,
    ) -> io::Result<Runner> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let timer_flags = TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK;
        let timer = rustix::time::timerfd_create(TimerfdClockId::Monotonic, timer_flags)?;
        let listener = Socket::bind(config.listen)?;
        for (descriptor, what) in [(listener.as_fd(), LISTENER), (wake.as_fd(), WAKE), (timer.as_fd(), TIMER)]
        {
            watch(&epoll, descriptor, what)?;
        }
        Ok(Runner {
            server,
            seed: config.seed,
            rebind: config.rebind,
            began: Instant::now(),
            epoll,
            wake,
            commands,
            timer,
            armed: None,
            listener,
            flows: Vec::new(),
            by_client: HashMap::new(),
            to_server: Link::new(config.to_server),
            to_client: Link::new(config.to_client),
            counts: Counts::default(),
        })
    }

    pub(crate) fn address(&self) -> io::Result<SocketAddr> {
        self.listener.address()
    }

    /// Runs until it is stopped.
    pub(crate) fn run(mut self) -> io::Result<Counts> {
        let mut events = Vec::with_capacity(EVENTS_MAX);
        let mut room = Room::new();
        loop {
            self.arm()?;
            events.clear();
            match epoll::wait(&self.epoll, spare_capacity(&mut events), None) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
            self.arrive();
            for event in &events {
                match event.data.u64() {
                    TIMER => {}
                    LISTENER => self.read_clients(&mut room)?,
                    WAKE => {
                        if !self.obey()? {
                            return Ok(self.counts());
                        }
                    }
                    flow => {
                        self.read_server(usize::try_from(flow - FLOWS).unwrap_or(usize::MAX), &mut room)?
                    }
                }
            }
        }
    }

    fn now(&self) -> Duration {
        self.began.elapsed()
    }

    /// Sets the timer to the next arrival.
    fn arm(&mut self) -> io::Result<()> {
        let next = [self.to_server.next(), self.to_client.next()].into_iter().flatten().min();
        if next == self.armed {
            return Ok(());
        }
        // A time of zero would stop the timer.
        let left =
            next.map_or(Duration::ZERO, |at| at.saturating_sub(self.now()).max(Duration::from_nanos(1)));
        let zero = Timespec { tv_sec: 0, tv_nsec: 0 };
        let it_value = Timespec::try_from(left).map_err(io::Error::other)?;
        let setting = Itimerspec { it_interval: zero, it_value };
        rustix::time::timerfd_settime(&self.timer, TimerfdTimerFlags::empty(), &setting)?;
        self.armed = next;
        Ok(())
    }

    fn arrive(&mut self) {
        let now = self.now();
        self.to_server.arrive(now, &mut ToServer(&self.flows, self.server));
        self.to_client.arrive(now, &mut ToClients(&self.flows, &self.listener));
        // The timer may have gone off for them; it is set again for what is left.
        if self.armed.is_some_and(|at| at <= now) {
            self.armed = None;
        }
    }

    fn read_clients(&mut self, room: &mut Room) -> io::Result<()> {
        for _ in 0..RECEIVES_MAX {
            if !self.listener.receive(room)? {
                break;
            }
            let now = self.now();
            for (client, bytes, ecn) in room.datagrams() {
                let Some(number) = self.flow_of(client, now) else {
                    self.counts.refused += 1;
                    continue;
                };
                self.rebind_if_due(number, now)?;
                let Some(flow) = self.flows.get_mut(number) else { continue };
                flow.sent += 1;
                let mut dice = std::mem::replace(&mut flow.to_server, Dice::new(0, 0));
                let datagram = Datagram { flow: number, bytes, ecn };
                self.to_server.take(now, &mut dice, datagram, &mut ToServer(&self.flows, self.server));
                if let Some(flow) = self.flows.get_mut(number) {
                    flow.to_server = dice;
                }
            }
        }
        Ok(())
    }

    fn read_server(&mut self, number: usize, room: &mut Room) -> io::Result<()> {
        for _ in 0..RECEIVES_MAX {
            let Some(flow) = self.flows.get_mut(number) else { break };
            if !flow.socket.receive(room)? {
                break;
            }
            let mut dice = flow.to_client.clone();
            let now = self.now();
            for (sender, bytes, ecn) in room.datagrams() {
                if sender == self.server {
                    let datagram = Datagram { flow: number, bytes, ecn };
                    let mut out = ToClients(&self.flows, &self.listener);
                    self.to_client.take(now, &mut dice, datagram, &mut out);
                }
            }
            if let Some(flow) = self.flows.get_mut(number) {
                flow.to_client = dice;
            }
        }
        Ok(())
    }

    /// The number of a client; one that is new gets a socket, if there is one.
    fn flow_of(&mut self, client: SocketAddr, now: Duration) -> Option<usize> {
        if let Some(known) = self.by_client.get(&client) {
            return Some(*known);
        }
        let number = self.flows.len();
        let socket = self.socket(number, 0).ok()?;
        let stream = 2 * number as u64;
        let (to_server, to_client) = (Dice::new(self.seed, stream), Dice::new(self.seed, stream + 1));
        self.flows.push(Flow { client, socket, to_server, to_client, sent: 0, began: now, rebound: 0 });
        self.by_client.insert(client, number);
        Some(number)
    }

    /// A socket towards the server for a client that was rebound so often.
    fn socket(&self, number: usize, rebound: u64) -> io::Result<Socket> {
        let host = match self.server.ip() {
            IpAddr::V4(_) if self.rebind.address => {
                IpAddr::V4(Ipv4Addr::new(127, 0, 0, u8::try_from(1 + rebound % ADDRESSES).unwrap_or(1)))
            }
            IpAddr::V4(_) => IpAddr::V4(Ipv4Addr::LOCALHOST),
            IpAddr::V6(_) => IpAddr::V6(std::net::Ipv6Addr::LOCALHOST),
        };
        let socket = Socket::bind(SocketAddr::new(host, 0))?;
        watch(&self.epoll, socket.as_fd(), FLOWS + number as u64)?;
        Ok(socket)
    }

    fn rebind_if_due(&mut self, number: usize, now: Duration) -> io::Result<()> {
        let Some(flow) = self.flows.get(number) else { return Ok(()) };
        let by_count = self.rebind.every.is_some_and(|every| flow.sent > 0 && flow.sent % every.max(1) == 0);
        let by_time = self.rebind.after.is_some_and(|after| flow.rebound == 0 && now - flow.began >= after);
        if by_count || by_time { self.rebind(number) } else { Ok(()) }
    }

    /// The new socket is made before the old one is closed, so that the port is another one.
    fn rebind(&mut self, number: usize) -> io::Result<()> {
        let Some(rebound) = self.flows.get(number).map(|flow| flow.rebound + 1) else { return Ok(()) };
        let socket = self.socket(number, rebound)?;
        if let Some(flow) = self.flows.get_mut(number) {
            flow.rebound = rebound;
            flow.socket = socket;
            self.counts.rebound += 1;
        }
        Ok(())
    }

    /// Does what the handle asks for; false at the end.
    fn obey(&mut self) -> io::Result<bool> {
        let mut number = [0; 8];
        match rustix::io::read(&self.wake, &mut number) {
            Ok(_) | Err(Errno::AGAIN) => {}
            Err(error) => return Err(error.into()),
        }
        while let Ok(command) = self.commands.try_recv() {
            // Who asked may have gone meanwhile.
            match command {
                Command::Counts(answer) => _ = answer.send(self.counts()),
                Command::Rebind(answer) => {
                    let done = (0..self.flows.len()).try_for_each(|number| self.rebind(number));
                    let _ = answer.send(done);
                }
                Command::Change(faults, answer) => {
                    let [to_server, to_client] = *faults;
                    self.to_server.change(to_server);
                    self.to_client.change(to_client);
                    let _ = answer.send(());
                }
                Command::Stop => return Ok(false),
            }
        }
        Ok(true)
    }

    fn counts(&self) -> Counts {
        let clients = self.flows.len() as u64;
        Counts { clients, to_server: self.to_server.counts, to_client: self.to_client.counts, ..self.counts }
    }
}

/// Level-triggered: what a turn has left is seen in the next one.
fn watch(epoll: &OwnedFd, descriptor: impl AsFd, what: u64) -> io::Result<()> {
    epoll::add(epoll, descriptor, epoll::EventData::new_u64(what), epoll::EventFlags::IN)?;
    Ok(())
}
