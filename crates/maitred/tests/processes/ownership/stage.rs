//! Everything that is on the stage: the server, its puppets, the clients, and what each of them is at.

use std::collections::{HashMap, HashSet, VecDeque};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixListener;
use std::time::{Duration, Instant};

use maitred_handoff::{Done, Outcome, encode_detach, encode_done, encode_tail, encode_tail_file};
use maitred_testing::channel::{Given, Heard};
use maitred_testing::model::{Answer, Connection, Fate, Id, Progress, Request, Transport};
use maitred_testing::random::Random;
use maitred_testing::response;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{SendFlags, send};

use crate::ownership::client::Client;
use crate::ownership::ledger::Ledger;
use crate::ownership::puppet::{Phase, Puppet};
use crate::support::Server;

/// How long requests may take.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Pace {
    /// Of both pools: long beside `too_old`, because the stage itself may be kept waiting on a busy machine.
    pub(crate) request_timeout: Duration,
    /// A request of this age is not touched any more: the server could be ending its process at the same time.
    pub(crate) too_old: Duration,
}

impl Pace {
    /// Most requests end soon.
    pub(crate) const QUICK: Pace =
        Pace { request_timeout: Duration::from_secs(6), too_old: Duration::from_millis(1200) };
    /// Requests may be under way while several worker processes come and go.
    pub(crate) const ACROSS_RELOADS: Pace =
        Pace { request_timeout: Duration::from_secs(8), too_old: Duration::from_secs(3) };
}

/// Lines of the trace that a failure shows.
const TRACE_LINES: usize = 400;
/// Bytes that one request returns in tails of bytes rather than in files. Below what the protocol allows (1 MiB), as every
/// response is: a process that returns no files returns all of it so.
const TAIL_BYTES: usize = 500_000;

/// How an application ends a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ending {
    Clean,
    /// Reports that it has aborted the response.
    Broken,
    /// Reports that it wrote nothing.
    Nothing,
    /// Reports it complete twice.
    Twice,
    /// Reports a request that it does not have.
    Unknown,
    /// Says what is no frame.
    Garbage,
    /// The process dies; the kernel closes its descriptors first.
    Crash,
    /// The process dies, while another process holds its descriptors.
    Killed,
    /// Closes its channel and stays.
    Closes,
    /// Says that it receives no more, and ends in order.
    Leaves,
    /// Does nothing at all.
    Never,
    /// Takes the connection over.
    Detach,
}

/// A request that a puppet is at.
#[derive(Debug)]
pub(crate) struct Job {
    pub(crate) puppet: u32,
    connection: u32,
    request: u32,
    pub(crate) id: Id,
    /// When Maitred can have given it, at the earliest.
    since: Instant,
    /// Bytes of the answer that are written or returned so far.
    at: usize,
    /// Up to where it writes; from there on it returns tails.
    split: usize,
    /// Where it stops.
    limit: usize,
    tail_bytes: usize,
    /// Bytes that the client sent behind a request to upgrade, and that Maitred had already read.
    early: Vec<u8>,
    pub(crate) ending: Ending,
    /// Whether the puppet was asked to forget the connection: it writes nothing more.
    forgotten: bool,
}

/// A client, and the model of its connection.
#[derive(Debug)]
pub(crate) struct Line {
    pub(crate) client: Client,
    pub(crate) model: Connection,
    /// Where in the client's bytes each request ends.
    pub(crate) boundaries: Vec<usize>,
    /// Whether the client takes what it receives as soon as it can.
    pub(crate) reads: bool,
    /// What the client has received meant at the last look.
    pub(crate) progress: Option<Progress>,
}

/// A connection that an application has taken over.
#[derive(Debug)]
pub(crate) struct Detached {
    pub(crate) socket: OwnedFd,
    pub(crate) line: usize,
    pub(crate) at: usize,
    pub(crate) received: Vec<u8>,
    pub(crate) ended: bool,
}

/// See the module.
pub(crate) struct Stage {
    pub(crate) server: Server,
    pub(crate) listener: UnixListener,
    pub(crate) random: Random,
    pub(crate) puppets: Vec<Puppet>,
    pub(crate) jobs: Vec<Job>,
    pub(crate) lines: Vec<Line>,
    pub(crate) detached: Vec<Detached>,
    pub(crate) ledger: Ledger,
    ids: HashMap<Id, (usize, usize)>,
    /// Requests of earlier parts that no process has seen.
    left: HashSet<Id>,
    /// When requests had been sent to their ends, at the latest.
    sent: HashMap<Id, Instant>,
    next_id: Id,
    next_puppet: u32,
    /// Applications misbehave in this part.
    pub(crate) wild: bool,
    /// When the test last took all that had arrived: a request that it finds now may have been there since.
    looked: Instant,
    /// For direct and relay: requests may have gone to a process that the test could not receive from any more.
    unseen: [bool; 2],
    pub(crate) pace: Pace,
    trace: VecDeque<String>,
}

impl Stage {
    pub(crate) fn new(server: Server, listener: UnixListener, random: Random, pace: Pace) -> Stage {
        Stage {
            server,
            listener,
            random,
            puppets: Vec::new(),
            jobs: Vec::new(),
            lines: Vec::new(),
            detached: Vec::new(),
            ledger: Ledger::default(),
            ids: HashMap::new(),
            left: HashSet::new(),
            sent: HashMap::new(),
            next_id: 0,
            next_puppet: 0,
            wild: false,
            looked: Instant::now(),
            unseen: [false; 2],
            pace,
            trace: VecDeque::new(),
        }
    }

    /// Notes what happens, for the analysis of a failure.
    pub(crate) fn note(&mut self, text: impl FnOnce() -> String) {
        if self.trace.len() == TRACE_LINES {
            self.trace.pop_front();
        }
        self.trace.push_back(text());
    }

    /// Ends the test, with everything that led there.
    pub(crate) fn fail(&self, why: &str) -> ! {
        let trace: Vec<&str> = self.trace.iter().map(String::as_str).collect();
        // In both places: what shows a part of a long output shows its beginning or its end.
        panic!("{why}\n{}\n{why}", trace.join("\n"));
    }

    pub(crate) fn next_id(&mut self) -> Id {
        self.next_id += 1;
        self.next_id
    }

    /// Takes in a client with the requests that it means to send.
    pub(crate) fn add_line(&mut self, mut line: Line) {
        for request in &mut line.model.requests {
            request.may_be_unseen = self.unseen[usize::from(request.asked.transport == Transport::Relay)];
        }
        for (at, request) in line.model.requests.iter().enumerate() {
            self.ids.insert(request.asked.id, (self.lines.len(), at));
        }
        self.lines.push(line);
    }

    pub(crate) fn request(&mut self, id: Id) -> &mut Request {
        let (line, at) = self.ids[&id];
        &mut self.lines[line].model.requests[at]
    }

    /// Takes what has arrived from puppets and processes; waits for it for at most `wait`. Whether anything came.
    pub(crate) fn pump(&mut self, wait: Duration) -> bool {
        let mut came = self.wait(wait);
        let now = Instant::now();
        while self.is_readable(self.listener.as_fd()) {
            let capacity = self.random.weighted(&[(3, 1), (2, 2), (1, 3)]);
            // A process that takes no files has to be able to wait for one client while it answers another.
            let sockets_only = capacity > 1 && self.random.percent(40);
            let puppet = Puppet::accept(&self.listener, self.next_puppet, capacity, sockets_only);
            let Some(puppet) = puppet else { continue };
            self.next_puppet += 1;
            self.note(|| {
                format!(
                    "puppet {} of {} with capacity {capacity}, sockets only {sockets_only}",
                    puppet.number, puppet.pool
                )
            });
            self.puppets.push(puppet);
            came = true;
        }
        for at in 0..self.puppets.len() {
            came |= self.hear(at);
        }
        came |= self.notice_exits();
        self.puppets.retain(|puppet| !puppet.is_gone());
        self.note_late(now);
        self.looked = now;
        came
    }

    /// What was sent long ago may have taken too long for the server: a busy machine kept the test waiting, so that nothing
    /// answered it, or is slow to start the process that is to answer it.
    fn note_late(&mut self, now: Instant) {
        let long = self.pace.request_timeout / 2;
        if now.duration_since(self.looked) >= long {
            self.note(|| "the test was kept waiting".to_owned());
        }
        for request in self.lines.iter_mut().flat_map(|line| &mut line.model.requests) {
            if request.sent {
                let since = *self.sent.entry(request.asked.id).or_insert(self.looked);
                let open = matches!(request.fate, Fate::Waiting | Fate::UnderWay | Fate::Lost);
                request.timed_out |= open && now.duration_since(since) >= long;
            }
        }
    }

    /// Requests of processes that have exited are lost.
    fn notice_exits(&mut self) -> bool {
        let mut came = false;
        for at in 0..self.puppets.len() {
            if self.puppets[at].has_exited() {
                let number = self.puppets[at].number;
                self.note(|| format!("puppet {number} has exited"));
                self.lose_jobs(number, false);
                came = true;
            }
        }
        came
    }

    fn is_readable(&self, descriptor: BorrowedFd<'_>) -> bool {
        let mut one = [PollFd::from_borrowed_fd(descriptor, PollFlags::IN)];
        poll(&mut one, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })).is_ok_and(|ready| ready > 0)
    }

    fn wait(&self, wait: Duration) -> bool {
        let timeout = Timespec::try_from(wait).ok();
        let clients = self.lines.iter().filter(|line| line.reads && !line.client.ended);
        let mut all: Vec<PollFd<'_>> = clients
            .filter_map(|line| line.client.stream.as_ref())
            .map(|stream| PollFd::new(stream, PollFlags::IN))
            .collect();
        all.push(PollFd::new(&self.listener, PollFlags::IN));
        let puppets = self.puppets.iter().filter(|puppet| puppet.phase != Phase::Leaving);
        let spoken = puppets.flat_map(Puppet::descriptors);
        all.extend(spoken.map(|descriptor| PollFd::from_borrowed_fd(descriptor, PollFlags::IN)));
        poll(&mut all, timeout.as_ref()).is_ok_and(|ready| ready > 0)
    }

    fn hear(&mut self, at: usize) -> bool {
        let number = self.puppets[at].number;
        let heard = match self.puppets[at].hear() {
            Ok(heard) => heard,
            Err(why) => self.fail(&format!("to puppet {number}: {why}")),
        };
        let came = !heard.is_empty();
        for heard in heard {
            match heard {
                Heard::Request(given) => {
                    // A request that comes again comes after the end of the process that had it, and after what that one
                    // was sent.
                    self.notice_exits();
                    if self.puppets[at].may_speak() {
                        let others =
                            (0..self.puppets.len()).filter(|other| !self.puppets[*other].may_speak());
                        others.collect::<Vec<_>>().into_iter().for_each(|other| _ = self.hear(other));
                    }
                    self.on_request(at, &given);
                }
                Heard::Cancel { connection, request } => {
                    self.note(|| format!("puppet {number}: CANCEL {connection:#x} {request}"));
                    self.cancel(at, request);
                }
                Heard::Forget { connection } => self.forget(number, connection),
                Heard::Welcome => {}
                Heard::Ping { .. } | Heard::Shutdown => unreachable!("puppets keep them"),
                Heard::End => {
                    self.note(|| format!("puppet {number}: end of the channel"));
                    self.puppets[at].channel.kept.clear();
                    self.lose_jobs(number, false);
                }
            }
        }
        came
    }

    /// A request is cancelled. Maitred ends a process that takes several at a time only if cancelled ones hold all of its
    /// capacity.
    fn cancel(&mut self, at: usize, request: u32) {
        let Puppet { number, concurrent, .. } = self.puppets[at];
        let never = |job: &&mut Job| {
            (job.puppet, job.request) == (number, request) && concurrent && job.ending == Ending::Never
        };
        if let Some(job) = self.jobs.iter_mut().find(never) {
            job.ending = Ending::Nothing;
        }
    }

    /// A puppet is asked to forget a connection. If it is at a request of that, there is no client left to answer.
    fn forget(&mut self, puppet: u32, connection: u32) {
        let is_it = |job: &Job| (job.puppet, job.connection) == (puppet, connection);
        for at in (0..self.jobs.len()).filter(|at| is_it(&self.jobs[*at])).collect::<Vec<_>>() {
            let id = self.jobs[at].id;
            self.note(|| format!("puppet {puppet}: FORGET {connection:#x}, at request {id}"));
            let (line, _) = self.ids[&id];
            let Line { client, model, .. } = &self.lines[line];
            if !(model.left || model.cut || client.ended) {
                self.fail(&format!(
                    "puppet {puppet} is to forget the connection of request {id}, whose client is there"
                ));
            }
            self.jobs[at].forgotten = true;
        }
    }

    /// A puppet gets a request. The request must be one that it may get, and come with what belongs to it.
    fn on_request(&mut self, at: usize, given: &Given) {
        let number = self.puppets[at].number;
        let name =
            format!("puppet {number}: REQUEST {:#x} {} {}", given.connection, given.request, given.target);
        self.note(|| name.clone());
        let id = given.target.rsplit('/').next().and_then(|id| id.parse::<Id>().ok());
        let Some((line, place)) = id.and_then(|id| self.ids.get(&id).copied()) else {
            return self.on_late_request(at, given, id, &name);
        };
        if let Err(why) = self.is_rightly_given(at, given, line, place) {
            self.fail(&format!("{name}: {why}"));
        }
        let asked = self.lines[line].model.requests[place].asked.clone();
        if !self.puppets[at].may_speak() {
            let request = &mut self.lines[line].model.requests[place];
            request.fate = Fate::Lost;
            return;
        }
        let detaches = given.flags.may_detach && self.random.percent(70);
        let answer = match detaches {
            true => response::upgrade(asked.id),
            false => response::answer(asked.id, given.flags, &mut self.random),
        };
        let job = self.plan(at, given, &answer, asked.id, detaches);
        self.note(|| {
            format!("  {:?} from {} to {} of {} bytes", job.ending, job.split, job.limit, answer.full.len())
        });
        self.lines[line].model.requests[place].answer = answer;
        self.jobs.push(job);
    }

    /// A request of an earlier part, whose client closed its side while it waited for a process. The client may still
    /// listen, so that the request is given all the same, when there is a process.
    fn on_late_request(&mut self, at: usize, given: &Given, id: Option<Id>, name: &str) {
        if !id.is_some_and(|id| self.left.remove(&id)) {
            self.fail(&format!("{name}: it was not asked for"));
        }
        let (connection, request) = (given.connection, given.request);
        let nothing =
            Done { connection, request, status: 0, outcome: Outcome::Broken, service_us: 1, body_bytes: 0 };
        let mut frame = Vec::new();
        encode_done(&mut frame, &nothing);
        self.puppets[at].say(&frame, &[]);
    }

    fn is_rightly_given(
        &mut self,
        at: usize,
        given: &Given,
        line: usize,
        place: usize,
    ) -> Result<(), String> {
        let Line { client, model, .. } = &mut self.lines[line];
        model.deliver(place)?;
        let flags = given.flags;
        if flags.body_stream {
            if !self.puppets[at].sockets_only {
                return Err("its body is in a stream, which it did not ask for".into());
            }
            // Whatever the pool's transport is.
            model.requests[place].asked.transport = Transport::Relay;
        }
        // A body on its way ends with the connection that it is for.
        let cut_short = flags.body_stream && (model.left || model.cut || !self.puppets[at].may_speak());
        let asked = &model.requests[place].asked;
        let said = (flags.keep, flags.http10, flags.head);
        let meant = (asked.keep, asked.http10, asked.method == "HEAD");
        if said != meant {
            return Err(format!("KEEP, HTTP10 and HEAD are {said:?}, and should be {meant:?}"));
        }
        if given.body != asked.body && !flags.may_detach && !cut_short {
            return Err(format!("its body has {} bytes, or others than were sent", given.body.len()));
        }
        let relayed = given.connection >> 31 == 1;
        if relayed != (asked.transport == Transport::Relay) || flags.may_detach && !asked.upgrade {
            return Err("it comes by the wrong transport".into());
        }
        // The process of a doomed puppet has had its descriptors closed.
        let Some(descriptor) = self.puppets[at].channel.kept.get(&given.connection) else { return Ok(()) };
        if !relayed {
            let peer = rustix::net::getpeername(descriptor).ok().flatten();
            let peer = peer.and_then(|peer| std::net::SocketAddr::try_from(peer).ok());
            if client.stream.is_some() && peer.is_some_and(|peer| peer != client.local) {
                return Err(format!("its descriptor leads to {peer:?}, its client is {}", client.local));
            }
        }
        Ok(())
    }

    fn plan(&mut self, at: usize, given: &Given, answer: &Answer, id: Id, detaches: bool) -> Job {
        use Ending as E;
        let wild = [
            (60, E::Clean),
            (8, E::Broken),
            (6, E::Nothing),
            (2, E::Twice),
            (2, E::Unknown),
            (2, E::Garbage),
            (4, E::Crash),
            (4, E::Killed),
            (2, E::Closes),
            (2, E::Leaves),
            (1, E::Never),
        ];
        let whole = answer.full.len();
        let random = &mut self.random;
        let ending = match (detaches, self.wild) {
            (true, _) => E::Detach,
            (false, true) => random.weighted(&wild),
            (false, false) => E::Clean,
        };
        let limit = match ending {
            E::Clean | E::Twice | E::Leaves | E::Detach => whole,
            E::Nothing | E::Never => 0,
            E::Broken => random.within(1..whole),
            _ if random.percent(30) => 0,
            _ => random.within(0..whole + 1),
        };
        let split = if detaches || random.percent(40) { limit } else { random.within(0..limit + 1) };
        Job {
            puppet: self.puppets[at].number,
            connection: given.connection,
            request: given.request,
            id,
            since: self.looked,
            at: 0,
            split,
            limit,
            tail_bytes: 0,
            early: if detaches { given.body.clone() } else { Vec::new() },
            ending,
            forgotten: false,
        }
    }

    /// The requests of a puppet whose frames will not be read any more are lost.
    fn lose_jobs(&mut self, puppet: u32, overdue: bool) {
        let (lost, rest) = std::mem::take(&mut self.jobs).into_iter().partition(|job| job.puppet == puppet);
        self.jobs = rest;
        let lost: Vec<Job> = lost;
        for job in lost {
            self.note(|| format!("  request {} is lost at {}", job.id, job.at));
            // A test that was kept waiting itself sees the end before it could see how late it is.
            let overdue = overdue || job.since.elapsed() > self.pace.too_old;
            let request = self.request(job.id);
            request.fate = Fate::Lost;
            request.overdue = overdue;
        }
    }

    /// Nothing is said or written in a puppet's name from now on.
    fn doom(&mut self, puppet: usize, overdue: bool) {
        self.puppets[puppet].phase = Phase::Doomed;
        self.may_lose_unseen(puppet);
        self.lose_jobs(self.puppets[puppet].number, overdue);
    }

    /// The pool is about to lose a process. Maitred may have chosen it for requests which the test will never see: it sends them
    /// at the end of its turn, if the process is still there.
    fn may_lose_unseen(&mut self, puppet: usize) {
        let relay = self.puppets[puppet].pool == "relay";
        self.unseen[usize::from(relay)] = true;
        for request in self.lines.iter_mut().flat_map(|line| &mut line.model.requests) {
            request.may_be_unseen |= relay == (request.asked.transport == Transport::Relay);
        }
    }

    /// Dooms puppets that Maitred is about to end because a request takes too long. The test itself ends those that take several
    /// at a time: Maitred cancels what takes too long, and goes on to give such a process requests while it has room.
    pub(crate) fn doom_the_slow(&mut self) {
        let old =
            self.jobs.iter().filter(|job| job.since.elapsed() > self.pace.too_old).map(|job| job.puppet);
        let old: Vec<u32> = old.collect();
        for at in 0..self.puppets.len() {
            if self.puppets[at].may_speak() && old.contains(&self.puppets[at].number) {
                let number = self.puppets[at].number;
                self.note(|| format!("puppet {number} takes too long"));
                self.doom(at, true);
                if self.puppets[at].concurrent {
                    self.puppets[at].end(true);
                }
            }
        }
    }

    /// A puppet goes on with a request by one step.
    pub(crate) fn step(&mut self, job: usize) {
        self.doom_the_slow();
        let Some(found) = self.jobs.get(job) else { return };
        let Some(puppet) = self.puppets.iter().position(|puppet| puppet.number == found.puppet) else {
            return;
        };
        if !self.puppets[puppet].may_speak() {
            return;
        }
        match (found.at < found.split, found.at < found.limit) {
            (true, _) => self.write(job, puppet),
            (false, true) => self.tail(job, puppet),
            (false, false) => self.end_job(job, puppet),
        }
    }

    fn write(&mut self, at: usize, puppet: usize) {
        let id = self.jobs[at].id;
        let full = std::mem::take(&mut self.request(id).answer.full);
        let job = &mut self.jobs[at];
        let piece = if self.random.percent(60) { usize::MAX } else { self.random.within(1..20_000) };
        let end = job.split.min(job.at.saturating_add(piece));
        let descriptor = self.puppets[puppet].channel.kept.get(&job.connection).filter(|_| !job.forgotten);
        let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
        let result =
            descriptor.map_or(Err(Errno::PIPE), |descriptor| send(descriptor, &full[job.at..end], flags));
        match result {
            Ok(sent) => job.at += sent,
            // The rest is Maitred's, or waits.
            Err(Errno::AGAIN) if job.ending != Ending::Detach && self.random.percent(50) => {
                job.split = job.at
            }
            Err(Errno::AGAIN | Errno::INTR) => {}
            Err(_) => {
                (job.limit, job.split) = (job.at, job.at);
                job.ending = if job.at == 0 { Ending::Nothing } else { Ending::Broken };
            }
        }
        let offered = job.at;
        self.note(|| format!("request {id}: written to {offered}, {result:?}"));
        let request = self.request(id);
        request.answer.full = full;
        (request.offered, request.written) = (offered, offered);
    }

    fn tail(&mut self, at: usize, puppet: usize) {
        let id = self.jobs[at].id;
        let full = std::mem::take(&mut self.request(id).answer.full);
        let job = &mut self.jobs[at];
        let mut frames = Vec::new();
        let bytes = self.random.within(1..60_000).min(job.limit - job.at);
        let files = !self.puppets[puppet].sockets_only;
        let as_file = files && (job.tail_bytes + bytes > TAIL_BYTES || self.random.percent(40));
        let said = if as_file {
            let bytes = if self.random.percent(70) { job.limit - job.at } else { bytes };
            let (before, after) = (self.random.within(0..5000), self.random.within(0..3));
            let file = [&vec![b'#'; before], &full[job.at..job.at + bytes], &vec![b'#'; after]].concat();
            let file = maitred_sys::memfile::sealed("tail", &file).unwrap();
            encode_tail_file(&mut frames, job.connection, job.request, before as u64, bytes as u64);
            job.at += bytes;
            self.puppets[puppet].say(&frames, &[file.as_fd()])
        } else {
            encode_tail(&mut frames, job.connection, job.request, &full[job.at..job.at + bytes]);
            job.at += bytes;
            job.tail_bytes += bytes;
            self.puppets[puppet].say(&frames, &[])
        };
        let offered = job.at;
        self.note(|| format!("request {id}: tail to {offered}, file {as_file}, {said}"));
        let request = self.request(id);
        request.answer.full = full;
        request.offered = offered;
    }

    fn end_job(&mut self, at: usize, puppet: usize) {
        let Job { ending, id, connection, request, limit, forgotten, .. } = self.jobs[at];
        // The puppet has nothing left that it could take over.
        let ending = if forgotten && ending == Ending::Detach { Ending::Nothing } else { ending };
        if ending == Ending::Never {
            return;
        }
        self.note(|| format!("request {id}: {ending:?}"));
        let open_ended = self.request(id).answer.open_ended;
        let status = self.request(id).answer.status;
        let whole = if open_ended { Outcome::Close } else { Outcome::Clean };
        let service_us = self.random.weighted(&[(2, 50), (2, 5000), (1, 300_000)]);
        let done = |outcome, status| {
            let body_bytes = limit as u64;
            let mut frame = Vec::new();
            encode_done(&mut frame, &Done { connection, request, status, outcome, service_us, body_bytes });
            frame
        };
        match ending {
            Ending::Clean => self.report(at, puppet, &done(whole, status), Fate::Whole),
            Ending::Broken => self.report(at, puppet, &done(Outcome::Broken, status), Fate::Broken),
            Ending::Nothing => self.report(at, puppet, &done(Outcome::Broken, 0), Fate::Nothing),
            Ending::Twice => {
                self.report(at, puppet, &done(whole, status).repeat(2), Fate::Whole);
                self.doom(puppet, false);
            }
            Ending::Unknown => {
                let mut frame = done(whole, status);
                frame[12..16].copy_from_slice(&request.wrapping_add(1000).to_le_bytes());
                self.puppets[puppet].say(&frame, &[]);
                self.doom(puppet, false);
            }
            Ending::Garbage => {
                self.puppets[puppet].say(&[0xff; 16], &[]);
                self.doom(puppet, false);
            }
            Ending::Crash | Ending::Killed | Ending::Closes => self.crash(puppet, ending),
            Ending::Leaves => {
                self.leave(puppet);
                self.jobs[at].ending = Ending::Clean;
            }
            Ending::Detach => self.detach(at, puppet),
            Ending::Never => {}
        }
    }

    fn report(&mut self, at: usize, puppet: usize, frames: &[u8], fate: Fate) {
        let job = self.jobs.swap_remove(at);
        // A report is not read if the worker process has just ended; then the end of the channel is on its way.
        let heard = self.puppets[puppet].say(frames, &[]);
        self.request(job.id).fate = if heard { fate } else { Fate::Lost };
    }

    /// Ends a puppet's process, or has Maitred do so.
    pub(crate) fn crash(&mut self, puppet: usize, how: Ending) {
        let number = self.puppets[puppet].number;
        self.note(|| format!("puppet {number}: {how:?}"));
        if how != Ending::Killed {
            self.puppets[puppet].close_channel();
        }
        self.doom(puppet, false);
        if how != Ending::Closes {
            self.puppets[puppet].end(true);
        }
    }

    /// A puppet asks for no more requests.
    pub(crate) fn leave(&mut self, puppet: usize) {
        let number = self.puppets[puppet].number;
        self.note(|| format!("puppet {number} leaves"));
        self.may_lose_unseen(puppet);
        self.puppets[puppet].leave();
        self.hear(puppet);
    }

    /// Puppets that leave and have nothing left to do exit.
    pub(crate) fn let_leave(&mut self) {
        let Stage { puppets, jobs, .. } = self;
        for puppet in puppets.iter_mut().filter(|puppet| puppet.phase == Phase::Leaving) {
            if !jobs.iter().any(|job| job.puppet == puppet.number) {
                puppet.end(false);
            }
        }
    }

    fn detach(&mut self, at: usize, puppet: usize) {
        let job = self.jobs.swap_remove(at);
        let mut frame = Vec::new();
        encode_detach(&mut frame, job.connection, job.request);
        let kept = &mut self.puppets[puppet].channel.kept;
        let socket = kept.remove(&job.connection).expect("a request comes with its descriptor");
        let heard = self.puppets[puppet].say(&frame, &[]);
        self.request(job.id).fate = if heard { Fate::Detached } else { Fate::Lost };
        if heard {
            let (line, at) = self.ids[&job.id];
            self.detached.push(Detached { socket, line, at, received: job.early, ended: false });
        }
    }

    /// The next part begins with no clients.
    pub(crate) fn clear(&mut self) {
        let lines = std::mem::take(&mut self.lines);
        lines.iter().for_each(|line| self.ledger.add(&line.model));
        let waits = |request: &&Request| request.fate == Fate::Waiting;
        let left = lines.iter().flat_map(|line| line.model.requests.iter().filter(waits));
        self.left.extend(left.map(|request| request.asked.id));
        self.ids.clear();
        self.sent.clear();
        self.detached.clear();
        self.unseen = [false; 2];
    }
}
