//! What the application processes of a world do with their requests.

use std::os::fd::{AsFd as _, OwnedFd};

use maitred_handoff::{Done, Outcome, encode_detach, encode_done, encode_tail, encode_tail_file};
use maitred_testing::channel::{Given, Heard};
use maitred_testing::model::{Answer, Fate, Id, Request, Transport};
use maitred_testing::random::Random;
use maitred_testing::response;
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, send};

use super::puppet::Phase;
use super::world::World;
use super::{files, time};

/// How an application ends a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ending {
    Clean,
    /// Reports that it aborted the response.
    Broken,
    /// Reports that it wrote nothing.
    Nothing,
    /// Reports it complete twice.
    Twice,
    /// Reports a request that it does not have.
    Unknown,
    /// Sends bytes that are no frame.
    Garbage,
    /// The process exits.
    Crash,
    /// Closes its channel and stays.
    Closes,
    /// Shuts down its receiving side, and ends in order.
    Leaves,
    /// Does nothing at all.
    Never,
    /// Takes the connection over.
    Detach,
}

/// A connection that an application has taken over.
#[derive(Debug)]
pub(super) struct Detached {
    socket: Option<OwnedFd>,
    client: usize,
    place: usize,
    received: Vec<u8>,
}

/// A request that a process works on.
#[derive(Debug)]
pub(super) struct Job {
    /// The epoch of the process.
    pub(super) epoch: u64,
    connection: u32,
    request: u32,
    pub(super) id: Id,
    /// Bytes of the answer that are written or returned so far.
    at: usize,
    /// Up to where it writes; from there on it returns tails.
    split: usize,
    /// Where it stops.
    limit: usize,
    ending: Ending,
    /// What the client sent after a request to upgrade, and the server had already read.
    early: Vec<u8>,
    cancelled: bool,
    /// The process got FORGET for the connection: it writes nothing more.
    forgotten: bool,
}

/// Lengths of bodies.
pub(super) fn length(random: &mut Random) -> usize {
    let (from, to) = random.weighted(&[(2, (0, 1)), (10, (1, 300)), (3, (300, 6000)), (1, (6000, 40_000))]);
    random.within(from..to)
}

impl World<'_> {
    /// A process reads what it was sent. Whether anything came.
    pub(super) fn hear(&mut self, at: usize) -> bool {
        let heard = match self.puppets[at].hear() {
            Ok(heard) => heard,
            Err(why) => self.fail(&format!("to process {}: {why}", self.puppets[at].id.epoch)),
        };
        let mut came = !heard.is_empty();
        for heard in heard {
            let epoch = self.puppets[at].id.epoch;
            match heard {
                Heard::Request(given) => self.on_request(at, &given),
                Heard::Cancel { request, .. } => {
                    self.note(|| format!("process {epoch}: CANCEL {request}"));
                    let is_it = |job: &&mut Job| (job.epoch, job.request) == (epoch, request);
                    self.jobs.iter_mut().filter(is_it).for_each(|job| job.cancelled = true);
                }
                Heard::Forget { connection } => self.forget(epoch, connection),
                Heard::Shutdown => {
                    self.note(|| format!("process {epoch}: SHUTDOWN"));
                    self.puppets[at].told_to_end = true;
                }
                Heard::End => {
                    self.note(|| format!("process {epoch}: end of the channel"));
                    self.doom(at);
                }
                Heard::Welcome | Heard::Ping { .. } => unreachable!("puppets keep them"),
            }
        }
        came |= self.puppets[at].flush();
        came
    }

    fn forget(&mut self, epoch: u64, connection: u32) {
        for at in 0..self.jobs.len() {
            if (self.jobs[at].epoch, self.jobs[at].connection) != (epoch, connection) {
                continue;
            }
            let id = self.jobs[at].id;
            self.note(|| format!("process {epoch}: FORGET {connection:#x}, at request {id}"));
            let (client, place) = self.ids[&id];
            let found = &self.clients[client];
            let asked = &found.model.requests[place];
            let gone = found.model.left || found.model.cut || found.ended || asked.timed_out;
            if !gone && asked.asked.transport == Transport::Direct {
                self.fail(&format!(
                    "process {epoch} is to forget the connection of request {id}, whose client is there"
                ));
            }
            self.jobs[at].forgotten = true;
        }
    }

    /// A process gets a request. The request must be one that this process may get, and come with the right descriptors.
    fn on_request(&mut self, at: usize, given: &Given) {
        let epoch = self.puppets[at].id.epoch;
        let name =
            format!("process {epoch}: REQUEST {:#x} {} {}", given.connection, given.request, given.target);
        self.note(|| name.clone());
        let id = given.target.rsplit('/').next().and_then(|id| id.parse::<Id>().ok());
        let Some((client, place)) = id.and_then(|id| self.ids.get(&id).copied()) else {
            self.fail(&format!("{name}: nobody asked for it"));
        };
        if let Err(why) = self.is_rightly_given(at, given, client, place) {
            self.fail(&format!("{name}: {why}"));
        }
        let asked = self.clients[client].model.requests[place].asked.clone();
        if !self.puppets[at].may_speak() {
            self.clients[client].model.requests[place].fate = Fate::Lost;
            return;
        }
        let detaches = given.flags.may_detach && self.random.percent(70);
        let mut answer = match detaches {
            true => response::upgrade(asked.id),
            false => response::answer_of(asked.id, given.flags, length, &mut self.random),
        };
        if !detaches && asked.transport == Transport::Relay {
            // The server decides whether the connection ends.
            answer.closes = !asked.keep || answer.open_ended;
        }
        let job = self.plan(at, given, &answer, asked.id, detaches);
        self.note(|| {
            format!("  {:?} from {} to {} of {}", job.ending, job.split, job.limit, answer.full.len())
        });
        self.clients[client].model.requests[place].answer = answer;
        self.jobs.push(job);
    }

    fn is_rightly_given(
        &mut self,
        at: usize,
        given: &Given,
        client: usize,
        place: usize,
    ) -> Result<(), String> {
        let puppet = &self.puppets[at];
        let inode = given.inode()?;
        let own = self.clients[client].inode == inode;
        if !own && self.clients.iter().any(|other| other.socket.is_some() && other.inode == inode) {
            return Err("its descriptor is another client's".into());
        }
        // A thread that has no room for more connections sends the request alone, and so does one with a stream.
        let alone = self.stage.kind.connections_max < 100 || self.clients[client].is_stream;
        let (flags, draining, across) =
            (given.flags, self.is_drained(), alone && self.stage.kind.threads > 1);
        let pool = puppet.id.pool;
        let model = &mut self.clients[client].model;
        model.deliver(place)?;
        model.requests[place].across = across && !own;
        let asked = &mut model.requests[place].asked;
        // A thread that has the client may send the request to another, which then has a socket between the two.
        asked.transport = if own { Transport::Direct } else { Transport::Relay };
        if given.target != format!("/p{pool}/{}", asked.id) {
            return Err("it is for another pool".into());
        }
        if flags.may_detach && !asked.upgrade {
            return Err("it may take over what is not its to take".into());
        }
        if (flags.http10, flags.head) != (asked.http10, asked.method == "HEAD") {
            return Err("its flags are not those of the request".into());
        }
        if own && (flags.keep && !asked.keep || !flags.keep && asked.keep && !draining) {
            return Err(format!("KEEP is {}", flags.keep));
        }
        if given.body != asked.body && !flags.may_detach {
            return Err(format!("its body has {} bytes, or others than were sent", given.body.len()));
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
            (6, E::Crash),
            (2, E::Closes),
            (2, E::Leaves),
            (3, E::Never),
        ];
        let whole = answer.full.len();
        let ending = match (detaches, self.wild) {
            (true, _) => E::Detach,
            (false, true) => self.random.weighted(&wild),
            (false, false) => E::Clean,
        };
        let random = &mut self.random;
        let limit = match ending {
            E::Clean | E::Twice | E::Leaves | E::Detach => whole,
            E::Nothing => 0,
            E::Broken => random.within(1..whole),
            _ if random.percent(30) => 0,
            _ => random.within(0..whole + 1),
        };
        let split = if detaches || random.percent(50) { limit } else { random.within(0..limit + 1) };
        Job {
            epoch: self.puppets[at].id.epoch,
            connection: given.connection,
            request: given.request,
            id,
            at: 0,
            split,
            limit,
            ending,
            early: if detaches { given.body.clone() } else { Vec::new() },
            cancelled: false,
            forgotten: false,
        }
    }

    pub(super) fn request(&mut self, id: Id) -> &mut Request {
        let (client, at) = self.ids[&id];
        &mut self.clients[client].model.requests[at]
    }

    /// Nothing is read from a process any more: its requests are lost.
    pub(super) fn doom(&mut self, at: usize) {
        if matches!(self.puppets[at].phase, Phase::Live | Phase::Leaving) {
            self.puppets[at].phase = Phase::Doomed;
        }
        let epoch = self.puppets[at].id.epoch;
        let (lost, rest) = std::mem::take(&mut self.jobs).into_iter().partition(|job| job.epoch == epoch);
        self.jobs = rest;
        let lost: Vec<Job> = lost;
        for job in lost {
            self.note(|| format!("  request {} is lost at {}", job.id, job.at));
            let request = self.request(job.id);
            request.fate = Fate::Lost;
            request.overdue = request.timed_out;
        }
    }

    /// A process ends; the master has yet to notice.
    pub(super) fn die(&mut self, at: usize) {
        let epoch = self.puppets[at].id.epoch;
        self.note(|| format!("process {epoch} dies"));
        self.doom(at);
        // What it has not read is lost with it.
        self.hear(at);
        self.puppets[at].die();
    }

    pub(super) fn leave(&mut self, at: usize) {
        let epoch = self.puppets[at].id.epoch;
        self.note(|| format!("process {epoch} leaves"));
        self.puppets[at].leave();
        self.hear(at);
    }

    /// A process does one step of a request. Whether it did anything.
    pub(super) fn step(&mut self, job: usize) -> bool {
        let Some(found) = self.jobs.get(job) else { return false };
        let epoch = found.epoch;
        let Some(at) = self.puppets.iter().position(|puppet| puppet.id.epoch == epoch) else { return false };
        if !self.puppets[at].may_speak() || !self.puppets[at].has_spoken() {
            return false;
        }
        let (id, reached, unfinished) = (found.id, found.at, found.at < found.limit);
        let stops = found.cancelled && (unfinished || found.ending == Ending::Never);
        if stops && self.random.percent(50) {
            let whole = self.request(id).answer.full.len();
            let job = &mut self.jobs[job];
            (job.limit, job.split) = (reached, reached);
            job.ending = match reached {
                0 => Ending::Nothing,
                _ if reached == whole => Ending::Clean,
                _ => Ending::Broken,
            };
            return true;
        }
        let found = &self.jobs[job];
        match (found.at < found.split, found.at < found.limit) {
            (true, _) => self.write(job, at),
            (false, true) => self.tail(job, at),
            (false, false) => self.end_job(job, at),
        }
    }

    fn write(&mut self, at: usize, puppet: usize) -> bool {
        let id = self.jobs[at].id;
        let full = std::mem::take(&mut self.request(id).answer.full);
        let job = &mut self.jobs[at];
        let piece = if self.random.percent(60) { usize::MAX } else { self.random.within(1..5000) };
        let end = job.split.min(job.at.saturating_add(piece));
        let descriptor = self.puppets[puppet].channel.kept.get(&job.connection).filter(|_| !job.forgotten);
        let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
        let result =
            descriptor.map_or(Err(Errno::PIPE), |descriptor| send(descriptor, &full[job.at..end], flags));
        match result {
            Ok(sent) => {
                job.at += sent;
                time::note_write(descriptor.map_or(0, time::inode));
            }
            // The rest is returned to the server as a tail, or waits.
            Err(Errno::AGAIN) if job.ending != Ending::Detach && self.random.percent(50) => {
                job.split = job.at
            }
            Err(Errno::AGAIN) => {}
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
        result != Err(Errno::AGAIN)
    }

    fn tail(&mut self, at: usize, puppet: usize) -> bool {
        let id = self.jobs[at].id;
        let full = std::mem::take(&mut self.request(id).answer.full);
        let job = &mut self.jobs[at];
        let mut frame = Vec::new();
        let bytes = self.random.within(1..30_000).min(job.limit - job.at);
        let piece = &full[job.at..job.at + bytes];
        let as_file = self.random.percent(25);
        if as_file {
            let before = self.random.within(0..50);
            let content = [&vec![b'#'; before], piece].concat();
            let file = match self.stage.kind.files && self.random.percent(60) {
                true => files::nameless(self.stage.sockets.path(), &content),
                false => maitred_sys::memfile::sealed("tail", &content).unwrap(),
            };
            encode_tail_file(&mut frame, job.connection, job.request, before as u64, bytes as u64);
            if !self.puppets[puppet].say_with(&frame, file.as_fd()) {
                self.request(id).answer.full = full;
                return false;
            }
        } else {
            encode_tail(&mut frame, job.connection, job.request, piece);
            self.puppets[puppet].say(&frame);
        }
        job.at += bytes;
        let offered = job.at;
        self.note(|| format!("request {id}: tail to {offered}, file {as_file}"));
        let request = self.request(id);
        request.answer.full = full;
        request.offered = offered;
        true
    }

    fn end_job(&mut self, at: usize, puppet: usize) -> bool {
        let Job { ending, id, connection, request, limit, epoch, forgotten, .. } = self.jobs[at];
        // After FORGET the process has no descriptor to take over.
        let ending = if forgotten && ending == Ending::Detach { Ending::Broken } else { ending };
        if ending == Ending::Never {
            return false;
        }
        self.note(|| format!("request {id}: {ending:?}"));
        let Answer { open_ended, status, .. } = self.request(id).answer;
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
                self.doom(puppet);
            }
            Ending::Unknown => {
                let mut frame = done(whole, status);
                frame[12..16].copy_from_slice(&request.wrapping_add(1000).to_le_bytes());
                self.puppets[puppet].say(&frame);
                self.doom(puppet);
            }
            Ending::Garbage => {
                self.puppets[puppet].say(&[0xff; 16]);
                self.doom(puppet);
            }
            Ending::Crash => self.die(puppet),
            Ending::Closes => {
                self.note(|| format!("process {epoch} closes its channel"));
                self.doom(puppet);
                self.hear(puppet);
                self.puppets[puppet].close_channel();
            }
            Ending::Leaves => {
                self.jobs[at].ending = Ending::Clean;
                if self.puppets[puppet].phase == Phase::Live {
                    self.leave(puppet);
                }
            }
            Ending::Detach => self.detach(at, puppet),
            Ending::Never => {}
        }
        true
    }

    fn detach(&mut self, at: usize, puppet: usize) {
        let Job { id, connection, request, .. } = self.jobs[at];
        let early = std::mem::take(&mut self.jobs[at].early);
        let mut frame = Vec::new();
        encode_detach(&mut frame, connection, request);
        let socket = self.puppets[puppet].channel.kept.remove(&connection);
        let (client, place) = self.ids[&id];
        self.report(at, puppet, &frame, Fate::Detached);
        self.detached.push(Detached { socket, client, place, received: early });
    }

    /// Applications that have taken connections over read to the end, and close then. Whether anything came.
    pub(super) fn listen_to_detached(&mut self) -> bool {
        let mut came = false;
        for detached in &mut self.detached {
            let mut piece = [0; 4096];
            while let Some(socket) = &detached.socket {
                match rustix::net::recv(socket, &mut piece, RecvFlags::DONTWAIT) {
                    Ok((bytes, _)) if bytes > 0 => detached.received.extend_from_slice(&piece[..bytes]),
                    Err(Errno::AGAIN) => break,
                    _ => {
                        let _ = rustix::net::shutdown(socket, rustix::net::Shutdown::Both);
                        detached.socket = None;
                    }
                }
                came = true;
            }
        }
        came
    }

    /// An application that has taken a connection over gets what the client has sent since.
    pub(super) fn judge_detached(&self) {
        for Detached { client, place, received, .. } in &self.detached {
            let found = &self.clients[*client];
            let sent = found.bytes_sent().get(found.boundaries[*place]..).unwrap_or_default();
            // A client that had another answer by then may have gone.
            let gone = found.model.left || found.model.cut || found.model.requests[*place].timed_out;
            if !sent.starts_with(received) || !gone && sent != received {
                let (sent, got) = (sent.len(), received.len());
                self.fail(&format!("client {client}: after the upgrade it sent {sent} bytes, {got} arrived"));
            }
        }
    }

    fn report(&mut self, at: usize, puppet: usize, frames: &[u8], fate: Fate) {
        let job = self.jobs.swap_remove(at);
        self.puppets[puppet].say(frames);
        self.request(job.id).fate = fate;
    }
}
