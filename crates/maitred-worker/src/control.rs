//! The worker process's side of the control socket to the master, in a thread of its own: the event loops never wait for it.

use std::collections::HashMap;
use std::io::{self, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::Ordering::AcqRel;
use std::sync::{Arc, PoisonError, RwLockWriteGuard};
use std::time::{Duration, Instant};

use maitred_sys::memfile;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendFlags, recvmsg, send};
use rustix::process::Pid;

use super::datagram_link::{WORD_BYTES_MAX, Word};
use super::drain::{ROOM_BYTES, receive_connection};
use super::inbox::{ForwardedDatagrams, Message};
use super::orphan_mode::{BETWEEN_IMAGES, OrphanMode};
use super::shared::{Outgoing, Shared};
use crate::access_logs::LogFiles;
use crate::affinity_watcher::Watcher;
use crate::keys::ConnId;
use crate::modules::watch::{Finding, Watch};
use crate::proxy::Listed;
use maitred_base::jwt::keys::Key;
use maitred_base::pki::files::FILE_BYTES_MAX;
use maitred_config::{Affinity, Source};
use maitred_control::servers::ServerList;
use maitred_control::{
    Challenge, Command, Document, DrainTime, FromWorker, LogFile, MESSAGE_BYTES_MAX, SlotId, ToWorker,
};
use maitred_tls::TlsServer;
use maitred_tls::material::Material;

/// How often the threads' use of their CPUs is looked at.
const WATCH_EVERY: Duration = Duration::from_secs(1);
/// How long a worker process goes on when its master has died: requests under way are finished, and no connections are accepted.
const ORPHAN_GRACE_MS: u64 = 10_000;
/// How long it may take until the predecessor is known that still reads the datagram sockets; what comes meanwhile waits in them.
const PREDECESSOR_WAIT: Duration = Duration::from_secs(1);
/// Words about datagrams that are taken from one link before messages of the master are read again.
const WORDS_PER_TURN: usize = 256;
/// Connections taken from the predecessor before messages of the master are read again.
const ADOPTED_PER_TURN: usize = 64;

pub(super) struct Control<'a> {
    pub(super) shared: &'static Shared,
    socket: &'a OwnedFd,
    /// Sockets over which the predecessors' idle connections come.
    predecessors: Vec<Arc<OwnedFd>>,
    /// Sockets over which later processes pass datagrams on.
    successors: Vec<Arc<OwnedFd>>,
    /// Until when it is waited for the predecessor before the datagram sockets are read all the same.
    reads_at: Option<Instant>,
    /// Where the kernel writes what comes with them.
    room: Vec<u8>,
    /// Which thread gets the next of them.
    next_thread: usize,
    /// The connections that wait for an answer, by the number of their command.
    pub(super) asking: HashMap<u64, Asking>,
    commands: u64,
    /// Threads that have not finished draining.
    running: usize,
    pub(super) orphaned: bool,
    /// The threads have got the message to stop accepting.
    draining: bool,
    /// Threads that have got it, and still accept.
    accepting: usize,
    /// Answers to commands, for the threads that wait for them.
    answers: Vec<(usize, Message)>,
    /// What is to be done while the master's executable is replaced.
    pub(super) orphan_mode: OrphanMode,
    log_files: Option<LogFiles>,
}

/// A connection that waits for the answer to a command.
#[derive(Debug, Clone, Copy)]
pub(super) struct Asking {
    pub(super) thread: usize,
    pub(super) connection: ConnId,
    interim: bool,
    pub(super) about: About,
}

/// What a command is about, as far as it matters while the master's executable is replaced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum About {
    /// The upgrade itself.
    Upgrade,
    /// The end of the server.
    Stop,
    /// Anything else.
    Rest,
}

impl About {
    fn command(command: &Command) -> About {
        match command {
            Command::Upgrade => About::Upgrade,
            Command::Stop => About::Stop,
            Command::Reload | Command::Pool(..) | Command::Upstream(..) | Command::Config(..) => About::Rest,
        }
    }
}

/// The largest set of keys for tokens, as the master sends it: four times what one can have.
const KEYS_BYTES_MAX: u64 = 512 * 1024;

/// The largest file of users, as the master sends it: four times what it reads.
const USERS_BYTES_MAX: u64 = 4 * FILE_BYTES_MAX;

/// The pieces in which the text of a configuration is sent, in bytes: JSON makes six of one at the most.
const PIECE_BYTES: usize = MESSAGE_BYTES_MAX / 8;

/// A message of the master, with its descriptor if it has one.
pub(super) type Told = (ToWorker, Option<OwnedFd>);

/// Tells the master that this process may get private keys.
pub(super) fn say_private(socket: &OwnedFd) -> io::Result<()> {
    send(socket, &serde_json::to_vec(&FromWorker::Private)?, SendFlags::NOSIGNAL)?;
    Ok(())
}

/// Tells the master why this process ends before it was ready. If that cannot be sent, the error log has it.
pub(super) fn say_cannot_run(socket: &OwnedFd, why: &str) {
    let end = (0..=why.len().min(PIECE_BYTES)).rev().find(|end| why.is_char_boundary(*end));
    let why = why.get(..end.unwrap_or_default()).unwrap_or_default().to_owned();
    if let Ok(text) = serde_json::to_vec(&FromWorker::CannotRun(why)) {
        let _ = send(socket, &text, SendFlags::NOSIGNAL);
    }
}

/// Waits for the keys of TLS, the memory file of [`ToWorker::Certificates`]. Gives back the messages before it, too.
///
/// # Errors
/// `UnexpectedEof` if the master has exited; errors of the system.
pub(super) fn wait_for_keys(socket: &OwnedFd) -> io::Result<(OwnedFd, Vec<Told>)> {
    let mut early = Vec::new();
    loop {
        match receive(socket) {
            Ok(Some((ToWorker::Certificates, Some(file)))) => return Ok((file, early)),
            Ok(Some(told)) => early.push(told),
            Ok(None) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                match poll(&mut [PollFd::new(socket, PollFlags::IN)], None) {
                    Ok(_) | Err(Errno::INTR) => {}
                    Err(error) => return Err(error.into()),
                }
            }
            Err(error) => return Err(error),
        }
    }
}

/// Runs until every event loop has finished. `tids` are their thread ids, `early` are messages of the master that were received
/// already.
pub(super) fn run(
    shared: &'static Shared,
    socket: &OwnedFd,
    tids: Vec<Pid>,
    (early, log_files): (Vec<Told>, LogFiles),
) -> io::Result<()> {
    let running = tids.len();
    let adaptive = shared.start.config.server.affinity == Affinity::Auto;
    let (homes, usable) = (shared.start.threads.clone(), shared.start.usable_cpus.clone());
    let mut watcher = Watcher::new(tids, homes, usable, adaptive);
    let mut control = Control::new(shared, socket, running);
    control.log_files = Some(log_files);
    control.tell(&FromWorker::Ready);
    if shared.start.adopts {
        control.reads_at = Some(Instant::now() + PREDECESSOR_WAIT);
    }
    control.read_datagrams(Instant::now());
    early.into_iter().for_each(|(message, descriptor)| control.on_message(message, descriptor));
    let mut next_watch = Instant::now() + WATCH_EVERY;
    let mut modules = Watch::default();
    // The first second counts from here on.
    shared.tick_status(Instant::now());
    while control.running > 0 {
        control.wait(next_watch)?;
        control.take_outgoing();
        control.take_messages();
        control.take_orders();
        control.take_connections();
        control.take_datagrams();
        control.read_datagrams(Instant::now());
        control.tell_waiting(Instant::now());
        if Instant::now() >= next_watch {
            watcher.tick(Instant::now(), &shared.board.threads);
            shared.tick_status(Instant::now());
            control.watch_modules(&mut modules, Instant::now());
            next_watch = Instant::now() + WATCH_EVERY;
        }
    }
    shared.publish_latencies();
    Ok(())
}

impl<'a> Control<'a> {
    /// The control thread's state for this socket, and for this many event loops.
    pub(super) fn new(shared: &'static Shared, socket: &'a OwnedFd, running: usize) -> Control<'a> {
        Control {
            shared,
            socket,
            predecessors: Vec::new(),
            successors: Vec::new(),
            reads_at: Some(Instant::now()),
            room: Vec::new(),
            next_thread: 0,
            asking: HashMap::new(),
            commands: 0,
            running,
            orphaned: false,
            draining: false,
            accepting: 0,
            answers: Vec::new(),
            orphan_mode: OrphanMode::default(),
            log_files: None,
        }
    }

    /// Names modules that hold an event loop, and has the master end this process if one does not come back.
    fn watch_modules(&mut self, watch: &mut Watch, now: Instant) {
        let shared = self.shared;
        if shared.modules.is_empty() {
            return;
        }
        let cells = shared.board.calls.iter().take(shared.inboxes.len());
        for finding in watch.look(cells.map(|row| row.module.get()), now) {
            match finding {
                Finding::Holds { thread, module } => {
                    let module = shared.modules.name(module);
                    tracing::warn!(
                        module,
                        thread,
                        "a module holds an event loop: no other client of the thread is served"
                    );
                }
                Finding::Hangs { module } => {
                    let name = shared.modules.name(module);
                    tracing::error!(
                        module = name,
                        "a module does not give an event loop back; the worker process ends"
                    );
                    // As a crash in it counts.
                    shared.board.worker.crashed_in.set(u64::from(module) + 1);
                    self.tell(&FromWorker::ModuleHangs(usize::from(module)));
                }
            }
        }
    }

    fn wait(&self, until: Instant) -> io::Result<()> {
        let wakeup_fd = self.shared.outbox.wakeup_fd();
        let mut descriptors = vec![PollFd::from_borrowed_fd(wakeup_fd, PollFlags::IN)];
        if !self.is_alone() {
            descriptors.push(PollFd::new(self.socket, PollFlags::IN));
        }
        let links = self.predecessors.iter().chain(&self.successors);
        descriptors.extend(links.map(|socket| PollFd::new(socket, PollFlags::IN)));
        descriptors
            .extend(self.orphan_mode.descriptors().map(|one| PollFd::from_borrowed_fd(one, PollFlags::IN)));
        let wait = Timespec::try_from(until.saturating_duration_since(Instant::now())).ok();
        match poll(&mut descriptors, wait.as_ref()) {
            Ok(_) | Err(Errno::INTR) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    fn tell(&mut self, message: &FromWorker) {
        if self.orphan_mode.alone {
            return self.act_without_master(message);
        }
        self.orphan_mode.note(message);
        let Ok(text) = serde_json::to_vec(message) else { return };
        // The master always reads. If it has died, the next read returns end of file.
        let _ = send(self.socket, &text, SendFlags::NOSIGNAL);
    }

    /// Sends a text in pieces that have room in a message, however they are escaped.
    fn tell_text(&mut self, mut text: &str) {
        while !text.is_empty() {
            let (piece, rest) = text.split_at(text.floor_char_boundary(PIECE_BYTES));
            self.tell(&FromWorker::ConfigPiece(piece.to_owned()));
            text = rest;
        }
    }

    pub(super) fn take_outgoing(&mut self) {
        for outgoing in self.shared.outbox.take() {
            match outgoing {
                Outgoing::Tell(message) => self.tell(&message),
                Outgoing::Ask { command, thread, connection, interim, text } => {
                    let about = About::command(&command);
                    let asking = Asking { thread, connection, interim, about };
                    if self.orphan_mode.alone && !self.passes_on(about) {
                        self.reply(asking, false, BETWEEN_IMAGES);
                        continue;
                    }
                    text.into_iter().for_each(|text| self.tell_text(&text));
                    self.commands += 1;
                    self.asking.insert(self.commands, asking);
                    // Nothing is sent if the command was passed on to the new image.
                    self.tell(&FromWorker::Command(self.commands, command));
                }
                Outgoing::Closed => self.on_closed(),
                Outgoing::Drained => self.running -= 1,
            }
        }
    }

    pub(super) fn take_messages(&mut self) {
        while !self.is_alone() {
            match receive(self.socket) {
                Ok(Some((message, descriptor))) => self.on_message(message, descriptor),
                Ok(None) => self.on_end(),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) => {
                    tracing::error!(%error, "the master's message cannot be read");
                    self.on_orphaned();
                }
            }
        }
    }

    pub(super) fn on_orphaned(&mut self) {
        tracing::error!("the master process has died; finishing what is under way");
        self.orphaned = true;
        self.drain(DrainTime::bounded(ORPHAN_GRACE_MS), None);
    }

    fn on_message(&mut self, message: ToWorker, descriptor: Option<OwnedFd>) {
        match (message, descriptor) {
            (ToWorker::SlotStarted(id, started), Some(channel)) => {
                self.pass_socket(id, channel, |channel| Message::SlotStarted { id, started, channel });
            }
            (ToWorker::Retire(id), _) => self.pass(id, Message::Retire(id)),
            (ToWorker::Release(id, _), Some(link)) => {
                self.pass_socket(id, link, |link| Message::HandOn(id, link));
            }
            (ToWorker::Release(id, at_once), None) => self.pass(id, Message::Release(id, at_once)),
            (ToWorker::Link(id), Some(link)) => {
                self.pass_socket(id, link, |link| Message::LinkComes(id, link));
            }
            (ToWorker::Guest(id), Some(link)) => {
                self.pass_socket(id, link, |link| Message::GuestComes(id, link));
            }
            (ToWorker::Trouble(pool, why), _) => self.on_trouble(pool, why),
            (ToWorker::LastWords(pool, words), _) => self.shared.set_last_words(pool, words),
            (ToWorker::SlotExited(id, how), _) => {
                self.orphan_mode.forget(id);
                self.pass(id, Message::SlotExited { id, how });
            }
            (ToWorker::Drain(time), successor) => self.drain(time, successor.map(Arc::new)),
            (ToWorker::Hurry(left_ms), _) => {
                self.tell_threads(|| Message::Hurry(Duration::from_millis(left_ms)));
            }
            (ToWorker::Adopt(generation), Some(predecessor)) => self.adopt_from(predecessor, generation),
            (ToWorker::Successor, Some(successor)) => self.follow_to(Arc::new(successor)),
            (ToWorker::CommandWaits(number, text), _) => {
                self.asking.get(&number).into_iter().for_each(|asking| self.progress(asking, text.clone()));
            }
            (ToWorker::CommandDone(number, well, text), _) => {
                self.asking.remove(&number).into_iter().for_each(|asking| self.reply(asking, well, &text));
            }
            (ToWorker::CommandDocument(number), Some(file)) => self.answer_with(number, file),
            (ToWorker::Watch(id), Some(process)) => self.orphan_mode.watch(id, process),
            (ToWorker::OrphanMode(time), end) => {
                self.orphan_mode.promise(end, time);
                self.tell(&FromWorker::Outlives);
            }
            (ToWorker::Certificates, Some(file)) => self.replace_certificates(file),
            (ToWorker::KeySet(set), Some(file)) => self.replace_keys(set, file),
            (ToWorker::Users(index), Some(file)) => self.replace_users(index, file),
            (ToWorker::Servers, Some(file)) => self.replace_servers(file),
            (ToWorker::LogFile(log), Some(file)) => self.replace_log(log, file),
            (ToWorker::Challenge(challenge), _) => self.put_in_place(challenge),
            (ToWorker::ChallengeOver(serial), _) => self.shared.acme.over(serial),
            (ToWorker::NameRefused(name), _) => self.on_no_certificate(|tls| tls.refused(&name)),
            (ToWorker::NameLater(name), _) => self.on_no_certificate(|tls| tls.later(&name)),
            (ToWorker::CertificateReport(report), _) => self.shared.status.note_automatic(report),
            (ToWorker::SlotStarted(..) | ToWorker::Link(_) | ToWorker::Guest(_), None)
            | (ToWorker::Adopt(_) | ToWorker::Successor | ToWorker::Watch(_), None)
            | (ToWorker::Certificates | ToWorker::KeySet(_) | ToWorker::Users(_) | ToWorker::Servers, None)
            | (ToWorker::CommandDocument(_) | ToWorker::LogFile(_), None) => {
                tracing::error!("a message of the master came without its descriptor");
            }
        }
    }

    fn replace_log(&self, log: LogFile, file: OwnedFd) {
        if let Some(files) = &self.log_files {
            files.replace(log, file);
        }
    }

    /// To the thread that has the channel of an application process.
    fn pass(&self, id: SlotId, message: Message) {
        self.shared.inboxes[self.shared.home_of(id)].send(message);
    }

    /// The same with a socket, which no thread waits for.
    fn pass_socket(&self, id: SlotId, socket: OwnedFd, message: impl FnOnce(OwnedFd) -> Message) {
        let _ = rustix::io::ioctl_fionbio(&socket, true);
        self.pass(id, message(socket));
    }

    fn tell_threads(&self, message: impl Fn() -> Message) {
        self.shared.inboxes.iter().for_each(|inbox| inbox.send(message()));
    }

    fn on_trouble(&self, pool: u16, why: Option<String>) {
        // An external server may be restarted, and take longer for it than usual: requests go on waiting.
        let pool_of = self.shared.start.config.pools.get(usize::from(pool));
        let comes_back = pool_of.is_some_and(|pool| matches!(pool.source, Source::Channel(_)));
        let hopeless = why.is_some() && !comes_back;
        self.shared.set_trouble(pool, why);
        if hopeless {
            self.tell_threads(|| Message::PoolUnavailable(pool));
        }
    }

    /// Another worker process has taken over meanwhile. The new process reads the datagrams now: kept, the sockets of those
    /// before would keep these processes from ending.
    fn follow_to(&mut self, successor: Arc<OwnedFd>) {
        self.take_datagrams();
        self.successors = vec![Arc::clone(&successor)];
        self.tell_threads(|| Message::Successor(Arc::clone(&successor)));
    }

    fn adopt_from(&mut self, predecessor: OwnedFd, generation: u64) {
        self.shared.predecessors.fetch_add(1, AcqRel);
        self.room.resize(ROOM_BYTES, 0);
        let predecessor = Arc::new(predecessor);
        for local in &self.shared.datagram_addresses {
            Word::TakesOver(*local).say(predecessor.as_fd());
        }
        self.quic_links().push((generation as u8, Arc::clone(&predecessor)));
        self.predecessors.push(predecessor);
        self.reads_at = self.reads_at.map(|_| Instant::now());
    }

    fn quic_links(&self) -> RwLockWriteGuard<'_, Vec<(u8, Arc<OwnedFd>)>> {
        self.shared.quic_links.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// Has the datagram sockets read, when it is time: the predecessor has been told, or there is none.
    fn read_datagrams(&mut self, now: Instant) {
        if self.reads_at.take_if(|at| *at <= now).is_some() && !self.draining {
            self.tell_threads(|| Message::ReadDatagrams);
        }
    }

    /// Takes what later processes have read for connections of this one.
    fn take_datagrams(&mut self) {
        let mut successors = std::mem::take(&mut self.successors);
        if successors.is_empty() {
            return;
        }
        let mut room = vec![0; WORD_BYTES_MAX];
        successors.retain(|successor| self.take_words(successor, &mut room));
        self.successors = successors;
    }

    /// Takes some words of one process. False at the end.
    fn take_words(&self, successor: &OwnedFd, room: &mut [u8]) -> bool {
        for _ in 0..WORDS_PER_TURN {
            let length = match rustix::net::recv(successor, &mut *room, RecvFlags::DONTWAIT) {
                Ok((0, _)) => return false,
                Ok((length, _)) => length,
                Err(Errno::AGAIN | Errno::INTR) => return true,
                Err(_) => return false,
            };
            let word = room.get(..length).unwrap_or_default();
            match Word::read(word) {
                Some(Word::TakesOver(local)) => self.tell_threads(|| Message::LeaveDatagrams(local)),
                Some(Word::Datagrams(batch)) => {
                    let thread = self.shared.datagram_thread(u16::from(batch.socket));
                    let forwarded = ForwardedDatagrams { word: word.to_vec() };
                    self.shared.inboxes[thread].send(Message::Datagrams(forwarded));
                }
                // Of a version that is not known here: the client sends it again.
                None => {}
            }
        }
        true
    }

    fn put_in_place(&mut self, challenge: Challenge) {
        let serial = challenge.serial;
        self.shared.acme.set(challenge);
        self.tell(&FromWorker::ChallengeInPlace(serial));
    }

    /// The master has checked them; what cannot be used all the same changes nothing.
    fn replace_certificates(&self, file: OwnedFd) {
        let material = Material::open(file).map_err(|error| error.to_string());
        match material.and_then(|material| self.shared.tls.replace(&material)) {
            Ok(()) => {
                self.shared.status.note_certificates(self.shared.tls.certificates());
                self.look_at_handshakes();
            }
            Err(error) => tracing::error!(%error, "new certificates cannot be used"),
        }
    }

    fn replace_users(&self, index: usize, file: OwnedFd) {
        let text = memfile::read(file, USERS_BYTES_MAX);
        match text.and_then(|text| Ok(serde_json::from_slice::<Vec<(String, String)>>(&text)?)) {
            Ok(users) => self.shared.user_lists.replace(index, &users),
            Err(error) => tracing::error!(%error, "new users cannot be used"),
        }
    }

    /// Notes that there will be no certificate for a name.
    fn on_no_certificate(&self, note: impl FnOnce(&TlsServer)) {
        note(&self.shared.tls);
        self.look_at_handshakes();
    }

    /// What handshakes wait for may be there, or will not be.
    fn look_at_handshakes(&self) {
        if self.shared.tls.waiting().used() > 0 {
            self.tell_threads(|| Message::Certificates);
        }
    }

    fn replace_keys(&self, set: usize, file: OwnedFd) {
        let text = memfile::read(file, KEYS_BYTES_MAX);
        match text.and_then(|text| Ok(serde_json::from_slice::<Vec<Key>>(&text)?)) {
            Ok(keys) => self.shared.key_rings.replace(set, &keys),
            Err(error) => tracing::error!(%error, "new keys for tokens cannot be used"),
        }
    }

    /// The master has checked the list; one that cannot be read changes nothing.
    fn replace_servers(&self, file: OwnedFd) {
        match ServerList::open(file) {
            Ok(list) => self.take_servers(&list),
            Err(error) => tracing::error!(%error, "a new list of servers cannot be used"),
        }
    }

    fn take_servers(&self, list: &ServerList) {
        let pools = &self.shared.start.config.pools;
        // A pool that a reload has taken away, or brings.
        let Some(pool) = pools.iter().position(|pool| pool.name == list.pool) else { return };
        let Some(table) = self.shared.servers(pool as u16) else { return };
        let servers: Vec<Listed> = list.servers.iter().map(Listed::of).collect();
        let Some(refused) = table.take(list.revision, servers, Instant::now()) else { return };
        if refused > 0 {
            tracing::warn!(
                pool = list.pool,
                refused,
                "too many servers have gone lately: new ones have no room yet"
            );
        }
        // Connections to servers that have gone are closed by each thread, also one that has nothing to do.
        self.tell_threads(|| Message::ServersChanged(pool as u16));
    }

    /// Answers commands; while threads are about to stop accepting, not before they have: when a client gets the answer to a
    /// reload, no new connection reaches the old configuration any more.
    fn answer(&mut self) {
        if self.accepting == 0 {
            self.answers.drain(..).for_each(|(thread, message)| self.shared.inboxes[thread].send(message));
        }
    }

    fn on_closed(&mut self) {
        self.accepting -= 1;
        self.answer();
    }

    pub(super) fn progress(&self, asking: &Asking, text: String) {
        let Asking { thread, connection, interim, .. } = *asking;
        self.shared.inboxes[thread].send(Message::CommandWaits { connection, interim, text });
    }

    pub(super) fn reply(&mut self, asking: Asking, well: bool, text: &str) {
        let Asking { thread, connection, .. } = asking;
        self.answers.push((thread, Message::CommandDone { connection, well, text: text.to_owned() }));
        self.answer();
    }

    /// The answer to a command is a document.
    fn answer_with(&mut self, number: u64, file: OwnedFd) {
        let Some(Asking { thread, connection, .. }) = self.asking.remove(&number) else { return };
        let text = memfile::read(file, Document::BYTES_MAX);
        let message = match text.and_then(|text| Ok(serde_json::from_slice::<Document>(&text)?)) {
            Ok(document) => Message::CommandDocument { connection, document: Box::new(document) },
            Err(error) => {
                let text = format!("the answer cannot be read: {error}");
                Message::CommandDone { connection, well: false, text }
            }
        };
        self.answers.push((thread, message));
        self.answer();
    }

    pub(super) fn drain(&mut self, time: DrainTime, successor: Option<Arc<OwnedFd>>) {
        if !std::mem::replace(&mut self.draining, true) {
            self.accepting = self.shared.inboxes.len();
        }
        self.shared.close_watched();
        self.successors.extend(successor.clone());
        self.tell_threads(|| Message::Drain { time, successor: successor.clone() });
    }

    /// Distributes the predecessors' connections over the threads.
    fn take_connections(&mut self) {
        let mut predecessors = std::mem::take(&mut self.predecessors);
        predecessors.retain(|predecessor| {
            let more = self.take_some(predecessor);
            if !more {
                self.shared.predecessors.fetch_sub(1, AcqRel);
                self.quic_links().retain(|(_, link)| !Arc::ptr_eq(link, predecessor));
            }
            more
        });
        self.predecessors = predecessors;
        if self.predecessors.is_empty() {
            self.room = Vec::new();
        }
    }

    /// Takes some of one predecessor's connections. Gives back whether there may be more.
    fn take_some(&mut self, predecessor: &OwnedFd) -> bool {
        for _ in 0..ADOPTED_PER_TURN {
            match receive_connection(predecessor.as_fd(), &mut self.room) {
                Ok(Some(mut transfer)) => {
                    transfer.listen = self.shared.listen_of(transfer.socket.as_fd());
                    // The connection was within the limit of the predecessor, and no other process takes it.
                    self.shared.force_claim(self.next_thread);
                    self.shared.transfer(self.next_thread, transfer);
                    self.next_thread = (self.next_thread + 1) % self.shared.inboxes.len();
                }
                Ok(None) => return false,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return true,
                // The socket of the transfer is closed; the next one may be a connection again.
                Err(error) if error.kind() == io::ErrorKind::InvalidData => {
                    tracing::warn!(%error, "a connection of the previous worker process is closed");
                }
                Err(error) => {
                    tracing::warn!(%error, "connections of the previous worker process cannot be read");
                    return false;
                }
            }
        }
        true
    }
}

/// One message of the master, with its descriptor if it has one; `None` at the end.
fn receive(socket: &OwnedFd) -> io::Result<Option<Told>> {
    let mut text = vec![0u8; MESSAGE_BYTES_MAX];
    let mut room = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut room);
    let flags = RecvFlags::CMSG_CLOEXEC | RecvFlags::DONTWAIT;
    let received = loop {
        match recvmsg(socket, &mut [IoSliceMut::new(&mut text)], &mut control, flags) {
            Ok(message) => break message.bytes,
            // Reported once, if the master has exited without having read everything; its own messages can still be read.
            Err(Errno::CONNRESET) => {}
            Err(error) => return Err(error.into()),
        }
    };
    if received == 0 {
        return Ok(None);
    }
    let mut descriptors = control.drain().filter_map(|message| match message {
        RecvAncillaryMessage::ScmRights(rights) => Some(rights),
        _ => None,
    });
    let descriptor = descriptors.next().and_then(|mut rights| rights.next());
    let message = serde_json::from_slice(text.get(..received).unwrap_or_default())?;
    Ok(Some((message, descriptor)))
}

#[cfg(test)]
mod tests;
