//! A world: everything that is in it, and the steps that it can take.

use std::collections::{BTreeMap, VecDeque};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use maitred_testing::model::{Asked, Connection, Id, Request, Transport};
use maitred_testing::random::Random;
use maitred_testing::response;
use rustix::buffer::spare_capacity;
use rustix::event::{Timespec, epoll};

use super::application::{Detached, Job};
use super::client::Client;
use super::http2::Carrier;
use super::puppet::{Phase, Puppet};
use super::reload::Reload;
use super::server::Servers;
use super::stage::Stage;
use super::time;
use crate::inbox::{ConnectionTransfer, Message};
use crate::reactor::Reactor;
use crate::shared::Outgoing;
use maitred_control::{DrainTime, FromWorker, SlotId, Started};

/// Steps of the trace that a failure shows.
const TRACE_LINES: usize = 3000;
/// Clients at the same time.
const CLIENTS_MAX: usize = 8;
/// Turns without anything that a world adds; more are a thread that does not come to rest.
const TURNS_MAX: u32 = 5000;
/// How late threads may be at the end of a world, when nothing else happens.
pub(super) const LATE_MAX: Duration = Duration::from_millis(60);
/// What a step takes, so that no two of them are at the same time.
const STEP: Duration = Duration::from_micros(1);

/// A world; see the top of `worlds/mod.rs`.
pub(super) struct World<'s> {
    pub(super) stage: &'s Stage,
    pub(super) seed: u64,
    pub(super) random: Random,
    /// The threads of one worker process after those of the other.
    pub(super) reactors: Vec<Option<Reactor>>,
    /// Which of them accepts.
    pub(super) generation: usize,
    pub(super) reload: Reload,
    pub(super) clients: Vec<Client>,
    pub(super) puppets: Vec<Puppet>,
    pub(super) jobs: Vec<Job>,
    pub(super) servers: Servers,
    pub(super) carriers: Vec<Carrier>,
    pub(super) detached: Vec<Detached>,
    /// Which client a request belongs to, and which of its requests it is.
    pub(super) ids: BTreeMap<Id, (usize, usize)>,
    /// Slots without a process.
    pub(super) vacant: Vec<(u16, u16)>,
    next_id: Id,
    next_epoch: u64,
    /// Applications misbehave.
    pub(super) wild: bool,
    pub(super) draining: bool,
    pub(super) end_begins: Option<Instant>,
    trace: VecDeque<String>,
    digest: DefaultHasher,
}

/// What can happen.
#[derive(Debug, Clone, Copy)]
enum Event {
    Turn,
    Settle,
    Connect,
    Send,
    SendAll,
    Read,
    ReadAll,
    HalfClose,
    Leave,
    Hear,
    Step,
    Finish,
    Crash,
    LeaveIdle,
    Master,
    Retire,
    Moment,
    Wait,
    Serve,
    ServeAll,
    Disturb,
    Http2,
    Drain,
    Reload,
    Adopt,
    Help,
}

impl World<'_> {
    pub(super) fn new(stage: &Stage, seed: u64) -> World<'_> {
        time::begin();
        let mut random = Random::new(seed);
        let wild = random.percent(60);
        let pools = stage.kind.pools.iter().enumerate();
        let vacant = pools.flat_map(|(pool, kind)| (0..kind.slots).map(move |slot| (pool as u16, slot)));
        World {
            stage,
            seed,
            random,
            reactors: stage.reactors(0).into_iter().map(Some).collect(),
            generation: 0,
            reload: Reload::default(),
            clients: Vec::new(),
            puppets: Vec::new(),
            jobs: Vec::new(),
            servers: Servers::default(),
            carriers: Vec::new(),
            detached: Vec::new(),
            ids: BTreeMap::new(),
            vacant: vacant.collect(),
            next_id: 0,
            next_epoch: 1,
            wild,
            draining: false,
            end_begins: None,
            trace: VecDeque::new(),
            digest: DefaultHasher::new(),
        }
    }

    /// Adds a line to the trace that a failure shows.
    pub(super) fn note(&mut self, text: impl FnOnce() -> String) {
        let text = text();
        text.hash(&mut self.digest);
        if self.trace.len() == TRACE_LINES {
            self.trace.pop_front();
        }
        self.trace.push_back(text);
    }

    /// Ends the test, with everything that led there.
    pub(super) fn fail(&self, why: &str) -> ! {
        let again = format!(
            "world {}: {why}\nagain: MAITRED_WORLD={} cargo test -p maitred-worker worlds",
            self.seed, self.seed
        );
        panic!("{again}\n{:?}\n{}{again}", self.stage.kind, self.trace());
    }

    /// Stands for everything that was observed.
    pub(super) fn digest(&mut self) -> u64 {
        for client in &self.clients {
            // Errors have random numbers in them.
            client.received.len().hash(&mut self.digest);
        }
        self.digest.finish()
    }

    /// Plays the world to its end.
    pub(super) fn play(&mut self) -> u64 {
        for (pool, slot) in std::mem::take(&mut self.vacant) {
            match self.random.percent(85) {
                true => self.start(pool, slot),
                false => self.vacant.push((pool, slot)),
            }
        }
        self.open_servers();
        self.begin_disks();
        let events = self.random.within(20..140) + if self.has_servers() { 30 } else { 0 };
        let drains = self.random.percent(15);
        for _ in 0..events {
            let event = self.next_event(drains);
            time::pass(STEP);
            self.happen(event);
        }
        self.finish();
        self.digest()
    }

    /// What has happened, step by step.
    pub(super) fn trace(&self) -> String {
        self.trace.iter().map(|line| format!("{line}\n")).collect()
    }

    fn next_event(&mut self, drains: bool) -> Event {
        let often = usize::from(self.wild);
        let serves = usize::from(self.has_servers());
        self.random.weighted(&[
            (30, Event::Turn),
            (8, Event::Settle),
            (8, Event::Connect),
            (8, Event::Send),
            (12, Event::SendAll),
            (5, Event::Read),
            (5, Event::ReadAll),
            (2, Event::HalfClose),
            (3, Event::Leave),
            (14, Event::Hear),
            (16, Event::Step),
            (10, Event::Finish),
            (often, Event::Crash),
            (often, Event::LeaveIdle),
            (4, Event::Master),
            (1, Event::Retire),
            (4, Event::Moment),
            (1, Event::Wait),
            (30 * serves, Event::Serve),
            (12 * serves, Event::ServeAll),
            (6 * serves * often, Event::Disturb),
            (60 * usize::from(self.stage.kind.http2), Event::Http2),
            (usize::from(drains && !self.draining), Event::Drain),
            (2 * usize::from(self.stage.kind.reloads && self.generation == 0), Event::Reload),
            (10 * usize::from(self.is_passing()), Event::Adopt),
            (12 * usize::from(self.stage.kind.files), Event::Help),
        ])
    }

    fn happen(&mut self, event: Event) {
        match event {
            Event::Turn => {
                let thread = self.random.within(0..self.reactors.len());
                let events = self.random.weighted(&[(2, 64), (1, 1), (1, 3)]);
                self.turn(thread, events);
            }
            Event::Settle => self.settle(),
            Event::Connect => self.connect(),
            Event::Send | Event::SendAll | Event::Read | Event::ReadAll => self.move_bytes(event),
            Event::HalfClose | Event::Leave => {
                let Some(at) = self.any_client(Client::has_socket) else { return };
                let leaves = matches!(event, Event::Leave);
                self.note(|| format!("client {at}: leaves {leaves}"));
                match leaves {
                    true => self.clients[at].leave(),
                    false => self.clients[at].half_close(),
                }
            }
            Event::Hear | Event::Step | Event::Finish | Event::Crash | Event::LeaveIdle | Event::Retire => {
                self.happen_to_process(event);
            }
            Event::Master => _ = self.master(),
            Event::Moment => {
                let moment = self.random.within(1..80);
                self.pass(Duration::from_millis(moment as u64));
            }
            Event::Wait => {
                let wait = self.random.within(500..12_000);
                self.pass(Duration::from_millis(wait as u64));
            }
            Event::Serve => self.serve_some(),
            Event::ServeAll => _ = self.serve_all(),
            Event::Disturb => self.disturb_server(),
            Event::Http2 => self.http2_event(),
            Event::Drain => self.drain(),
            Event::Reload => self.reload(),
            Event::Adopt => _ = self.adopt(),
            Event::Help => {
                let jobs = self.random.within(1..4);
                self.help(jobs);
            }
        }
    }

    fn happen_to_process(&mut self, event: Event) {
        match event {
            Event::Hear => {
                if let Some(at) = self.any_puppet(|puppet| puppet.phase != Phase::Dead) {
                    self.hear_or_greet(at);
                }
            }
            Event::Step => _ = self.step_one(),
            Event::Finish => {
                let before = self.jobs.len();
                for _ in 0..20 {
                    if !self.step_one() || self.jobs.len() < before {
                        break;
                    }
                }
            }
            Event::Crash => {
                if let Some(at) = self.any_puppet(|puppet| puppet.phase != Phase::Dead) {
                    self.die(at);
                }
            }
            Event::LeaveIdle => {
                if let Some(at) = self.any_puppet(|puppet| puppet.phase == Phase::Live && puppet.greeted) {
                    self.leave(at);
                }
            }
            Event::Retire => {
                if let Some(at) = self.any_puppet(|puppet| puppet.phase == Phase::Live) {
                    self.retire(at);
                }
            }
            _ => {}
        }
    }

    fn any_client(&mut self, holds: impl Fn(&Client) -> bool) -> Option<usize> {
        let found: Vec<usize> = (0..self.clients.len()).filter(|at| holds(&self.clients[*at])).collect();
        if found.is_empty() { None } else { Some(found[self.random.within(0..found.len())]) }
    }

    fn any_puppet(&mut self, holds: impl Fn(&Puppet) -> bool) -> Option<usize> {
        let found: Vec<usize> = (0..self.puppets.len()).filter(|at| holds(&self.puppets[*at])).collect();
        if found.is_empty() { None } else { Some(found[self.random.within(0..found.len())]) }
    }

    fn step_one(&mut self) -> bool {
        if self.jobs.is_empty() {
            return false;
        }
        let at = self.random.within(0..self.jobs.len());
        self.step(at)
    }

    /// Time passes, and with it timeouts of clients.
    pub(super) fn pass(&mut self, time: Duration) {
        self.note(|| format!("{time:?} pass"));
        time::pass(time);
        self.clients.iter_mut().for_each(Client::note_time);
    }

    fn move_bytes(&mut self, event: Event) {
        let sends = matches!(event, Event::Send | Event::SendAll);
        let found = match sends {
            true => self.any_client(Client::may_send),
            false => self.any_client(Client::has_socket),
        };
        let Some(at) = found else { return };
        let some = self.random.within(1..400);
        let bytes = if matches!(event, Event::Send | Event::Read) { some } else { usize::MAX };
        let client = &mut self.clients[at];
        let moved = if sends { client.send(bytes) } else { client.read(bytes) };
        let (sent, received, ended) = (client.sent, client.received.len(), client.ended);
        self.note(|| format!("client {at}: sent {sent}, received {received}, ended {ended}, {moved}"));
    }

    fn connect(&mut self) {
        let open = self.clients.iter().filter(|client| client.is_open()).count();
        if open >= CLIENTS_MAX || self.draining {
            return;
        }
        let count = self.random.weighted(&[(4, 1), (3, 2), (2, 3), (1, 6)]);
        let (mut bytes, mut boundaries, mut requests) = (Vec::new(), Vec::new(), Vec::new());
        let at = self.clients.len();
        for place in 0..count {
            let (request, pool) = self.next_request((at, place));
            let asked = &request.asked;
            bytes.extend(response::request_to(&pool, asked, &mut self.random));
            boundaries.push(bytes.len());
            let (id, method, keep) = (asked.id, asked.method, asked.keep);
            self.note(|| format!("client {at}: {method} {pool}/{id} keep {keep}"));
            requests.push(request);
        }
        let model = Connection { requests, refusals: true, ..Connection::default() };
        let narrow = self.random.percent(40);
        let (client, far) = Client::new(model, bytes, boundaries, narrow);
        let (thread, shared) = (self.accepting_thread(), self.shared());
        if !shared.claim(thread) {
            shared.force_claim(thread);
        }
        let remote = SocketAddr::from((Ipv4Addr::LOCALHOST, 10_000 + at as u16));
        shared.transfer(thread, ConnectionTransfer::accepted(far, Some(remote), 0, false));
        time::note_client(client.inode);
        self.note(|| format!("client {at}: comes to thread {thread}, narrow {narrow}"));
        self.clients.push(client);
    }

    /// A request of a client, and the name of its pool; which of its requests it is.
    pub(super) fn next_request(&mut self, place: (usize, usize)) -> (Request, String) {
        self.next_id += 1;
        let (mut asked, mut pool, mut server) = self.ask();
        let mut file = None;
        if self.stage.kind.files && matches!(asked.method, "GET" | "HEAD") && self.random.percent(40) {
            let found = self.random.within(0..self.stage.files.len());
            (asked.fixed, asked.upgrade, pool, server) = (true, false, format!("files/{found}?"), None);
            file = Some(found);
        }
        self.ids.insert(asked.id, place);
        let mut request = Request::new(asked);
        request.content = file.map(|file| Arc::clone(&self.stage.files[file]));
        if let Some(pool) = server {
            request.server = Some(pool);
            request.bounded = self.stage.kind.pools[pool].bounded;
            request.passing = self.stage.kind.passes(pool, request.asked.body.len());
            request.may_be_unseen = self.may_be_unreachable(pool);
            request.exhausted = request.may_be_unseen;
        }
        (request, pool)
    }

    /// A request, the name of its pool, and which that is if it consists of servers.
    fn ask(&mut self) -> (Asked, String, Option<usize>) {
        let (id, random) = (self.next_id, &mut self.random);
        let method = random.weighted(&[(6, "GET"), (2, "HEAD"), (4, "POST")]);
        let http10 = random.percent(15);
        let length = if random.percent(15) { random.within(8000..30_000) } else { random.within(0..1500) };
        let fixed = method == "GET" && random.percent(15);
        let pool = random.within(0..self.stage.kind.pools.len());
        let keep = if http10 { random.percent(50) } else { random.percent(85) };
        let server = (!fixed && self.stage.kind.pools[pool].servers > 0).then_some(pool);
        let upgrade = method == "GET" && !http10 && keep && !fixed && random.percent(12) && server.is_none();
        let asked = Asked {
            id,
            method,
            http10,
            keep,
            transport: Transport::Relay,
            upgrade,
            fixed,
            body: if method == "POST" { response::pattern(id, length) } else { Vec::new() },
        };
        (asked, if fixed { "fixed".to_owned() } else { format!("p{pool}") }, server)
    }

    /// One turn of a thread, with at most this many events. Whether there was anything to do.
    pub(super) fn turn(&mut self, thread: usize, events_max: usize) -> bool {
        let Some(reactor) = &mut self.reactors[thread] else { return false };
        let mut events: Vec<epoll::Event> = Vec::with_capacity(events_max);
        let none = Timespec { tv_sec: 0, tv_nsec: 0 };
        epoll::wait(&reactor.epoll, spare_capacity(&mut events), Some(&none)).unwrap();
        let wait = reactor.timeout(time::now());
        // The wait is rounded up to the next millisecond.
        let due = wait.is_some_and(|wait| wait.tv_sec == 0 && wait.tv_nsec < 1_000_000);
        if events.is_empty() && !due {
            // epoll_wait(2) would not return.
            return false;
        }
        // The kernel returns events in the order in which they came, which may differ on another machine.
        let number = |event: &epoll::Event| event.data.u64();
        events.sort_unstable_by_key(number);
        for last in (1..events.len()).rev() {
            events.swap(last, self.random.within(0..last + 1));
        }
        time::pass(STEP);
        reactor.turn(&events);
        // Otherwise a thread of its own would close them, in its own time.
        reactor.upstreams.connections.iter_mut().for_each(|(_, upstream)| upstream.foreign = false);
        let finished = reactor.is_finished();
        if !events.is_empty() {
            let name = |event: &epoll::Event| {
                let flags = event.flags;
                format!("{:x}:{:x}", number(event), flags.bits())
            };
            let names: Vec<String> = events.iter().map(name).collect();
            self.note(|| format!("thread {thread}: {}", names.join(" ")));
        }
        self.check(thread);
        if finished && let Some(reactor) = self.reactors[thread].take() {
            self.note(|| format!("thread {thread} ends"));
            reactor.end();
            self.note_end(thread / self.stage.kind.threads);
        }
        self.take_outbox();
        true
    }

    /// Threads go on until there is nothing to do at this time.
    pub(super) fn settle(&mut self) {
        let mut turns = 0;
        loop {
            let before = turns;
            for thread in 0..self.reactors.len() {
                turns += u32::from(self.turn(thread, 64));
            }
            if turns == before {
                return self.check_quiet();
            }
            if turns > TURNS_MAX {
                self.fail("a thread does not come to rest");
            }
        }
    }

    /// Acts on messages of the threads, as the control thread and the master do.
    fn take_outbox(&mut self) {
        let all = self.stage.shared.iter().enumerate();
        let all = all.flat_map(|(at, shared)| shared.outbox.take().into_iter().map(move |said| (at, said)));
        for (generation, outgoing) in all {
            let Outgoing::Tell(said) = outgoing else { continue };
            self.note(|| format!("worker process {generation} to the master: {said:?}"));
            self.on_said(generation, &said);
            if let FromWorker::SlotLost(id, _) | FromWorker::SlotClosed(id) = said
                && let Some(at) = self.puppets.iter().position(|puppet| puppet.id == id)
            {
                self.puppets[at].lost = true;
                self.doom(at);
            }
        }
    }

    fn hear_or_greet(&mut self, at: usize) -> bool {
        if self.puppets[at].phase == Phase::Live && !self.puppets[at].greeted {
            let capacity = self.stage.kind.pools[usize::from(self.puppets[at].id.pool)].capacity;
            let epoch = self.puppets[at].id.epoch;
            self.note(|| format!("process {epoch}: HELLO"));
            self.puppets[at].greet(capacity);
            return true;
        }
        self.hear(at)
    }

    fn start(&mut self, pool: u16, slot: u16) {
        let id = SlotId { pool, slot, epoch: self.next_epoch };
        self.next_epoch += 1;
        self.note(|| format!("process {} starts in {pool}/{slot}", id.epoch));
        let (mut puppet, channel) = Puppet::new(id);
        puppet.generation = self.generation;
        puppet.held = self.stage.kind.reloads.then(|| channel.try_clone().unwrap());
        self.puppets.push(puppet);
        let started =
            Started { pid: id.epoch as u32, greeting: None, borrowed: false, linked: false, guest: false };
        self.tell(self.generation, id, Message::SlotStarted { id, started, channel });
    }

    /// Has a process retire: it ends when it has nothing to do.
    pub(super) fn retire(&mut self, at: usize) {
        let Puppet { id, generation, .. } = self.puppets[at];
        self.note(|| format!("process {} is retired", id.epoch));
        self.puppets[at].retired = true;
        self.tell(generation, id, Message::Retire(id));
    }

    /// The master does one thing: it ends a process, reports that one has exited, or starts one. Whether there was anything to
    /// do.
    pub(super) fn master(&mut self) -> bool {
        let idle =
            |world: &World<'_>, puppet: &Puppet| !world.jobs.iter().any(|job| job.epoch == puppet.id.epoch);
        // A process that reads nothing more does not see that the server has ended.
        for at in 0..self.puppets.len() {
            let puppet = &self.puppets[at];
            let over = puppet.told_to_end || puppet.phase == Phase::Leaving;
            match puppet.phase {
                Phase::Doomed => self.die(at),
                Phase::Leaving if self.has_ended(puppet.generation) => self.die(at),
                Phase::Dead => self.report_exit(at),
                _ if over && puppet.has_spoken() && idle(self, puppet) => self.die(at),
                _ => continue,
            }
            return true;
        }
        if self.draining || self.vacant.is_empty() {
            return false;
        }
        let at = self.random.within(0..self.vacant.len());
        let (pool, slot) = self.vacant.swap_remove(at);
        self.start(pool, slot);
        true
    }

    fn report_exit(&mut self, at: usize) {
        let mut puppet = self.puppets.remove(at);
        let Puppet { id, generation, .. } = puppet;
        self.note(|| format!("the master says that process {} has exited", id.epoch));
        self.note_unheard(&mut puppet);
        self.tell(generation, id, Message::SlotExited { id, how: "killed".into() });
        self.vacant.push((id.pool, id.slot));
    }

    pub(super) fn drain(&mut self) {
        self.note(|| "the server stops".into());
        self.draining = true;
        for inbox in &self.shared().inboxes {
            inbox.send(Message::Drain { time: DrainTime::bounded(600_000), successor: None });
        }
        self.clients.iter_mut().for_each(|client| client.model.may_close = true);
    }

    /// When the first thread has something to do, if any has.
    fn next_due(&self) -> Option<Duration> {
        let now = time::now();
        let waits = self.reactors.iter().flatten().filter_map(|reactor| reactor.timeout(now));
        waits.map(|wait| Duration::new(wait.tv_sec as u64, wait.tv_nsec as u32)).min()
    }

    /// Brings everything to its end: processes answer, clients read, and close when they have all they may expect.
    fn finish(&mut self) {
        self.note(|| "--- the end begins".into());
        let unfinished: Vec<bool> = self.clients.iter().map(|_| self.random.percent(20)).collect();
        let began = *self.end_begins.insert(time::now());
        loop {
            self.settle();
            let mut moved = self.work() | self.finish_http2();
            for (at, unfinished) in unfinished.iter().enumerate() {
                moved |= self.conclude(at, *unfinished);
            }
            let open = self.clients.iter().any(Client::is_open);
            match (moved, open || !self.jobs.is_empty() || self.are_servers_busy()) {
                (true, _) => time::pass(STEP),
                (false, false) => break,
                (false, true) => self.wait_for_time(began),
            }
        }
        self.judge();
        self.judge_detached();
        self.close();
    }

    /// Nothing can happen before time has passed, and a client waits.
    pub(super) fn wait_for_time(&mut self, began: Instant) {
        let Some(due) = self.next_due() else {
            self.fail("nothing is due, and nothing can happen, while somebody waits");
        };
        if time::now().saturating_duration_since(began) > Duration::from_secs(900) {
            self.fail(&format!("somebody waits in vain: {}", self.described()));
        }
        // Threads may be late.
        let late = Duration::from_millis(self.random.within(1..LATE_MAX.as_millis() as usize) as u64);
        self.pass(due + late);
    }

    pub(super) fn described(&self) -> String {
        let open = self.clients.iter().enumerate().filter(|(_, client)| client.is_open());
        let shown = open.map(|(at, client)| {
            let progress = client.model.progress(&client.received);
            format!("client {at} sent {} of {:?}, {progress:?}", client.sent, client.boundaries)
        });
        format!("{:?}\n{:#?}", shown.collect::<Vec<_>>(), self.jobs)
    }

    /// Processes and the master do all that they can. Whether anything happened.
    pub(super) fn work(&mut self) -> bool {
        let mut moved = self.listen_to_detached() | self.adopt() | self.help(usize::MAX);
        for at in 0..self.puppets.len() {
            moved |= self.puppets[at].phase != Phase::Dead && self.hear_or_greet(at);
        }
        for job in (0..self.jobs.len()).rev() {
            moved |= self.step(job);
        }
        moved |= self.serve_all();
        while self.master() {
            moved = true;
        }
        moved
    }

    /// Brings one client nearer to its end. Whether anything happened.
    fn conclude(&mut self, at: usize, unfinished: bool) -> bool {
        let client = &mut self.clients[at];
        if !client.has_socket() {
            return false;
        }
        let mut moved = client.read(usize::MAX);
        if client.may_send() && !unfinished {
            moved |= client.send(usize::MAX);
        }
        let client = &self.clients[at];
        let progress = match client.model.progress(&client.received) {
            Ok(progress) => progress,
            Err(why) => self.fail(&format!("client {at}: {why}")),
        };
        if client.is_content(progress, unfinished) {
            self.note(|| format!("client {at} has all, and closes its side"));
            self.clients[at].half_close();
            moved = true;
        }
        moved
    }
}
