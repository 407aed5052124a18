//! HTTP servers of a world: what they do with connections and requests. The servers have Unix sockets, on which everything
//! happens at once, so that a seed plays the same world again. FastCGI applications are servers whose requests and responses
//! are records.

use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use maitred_handoff::RequestFlags;
use maitred_http::body::Decoder;
use maitred_http::request::Framing;
use maitred_testing::model::{Answer, Asked, Fate, Id};
use maitred_testing::response;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketAddrUnix, SocketFlags, SocketType, accept_with, bind, listen,
    recv, send, socket_with,
};

use super::application::length;
use super::records::{self, Wire};
use super::time;
use super::world::{LATE_MAX, World};
use crate::upstream::HALF_CLOSED_TIMEOUT;

/// How a server ends a response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ending {
    /// All of it is written, and the connection kept, if the response says so.
    Clean,
    /// All of it is written, and the connection closed.
    Closes,
    /// The connection is closed in the middle of it, or before.
    Breaks,
    /// The same with what has not been read, which is a reset.
    Resets,
    /// What is no response.
    Garbage,
    /// A FastCGI application says that it has too much to do.
    Overloaded,
    /// Nothing more is written.
    Never,
}

/// A request that a server is at.
#[derive(Debug)]
pub(super) struct Task {
    pub(super) id: Id,
    /// The server waits for all of the request before it answers.
    pub(super) patient: bool,
    /// An informational response that comes first.
    pub(super) interim: bool,
    pub(super) begun: bool,
    /// What is written, how much of it is, and how much will be.
    pub(super) wire: Wire,
    pub(super) at: usize,
    pub(super) limit: usize,
    /// When it came, or the server last wrote.
    pub(super) moved_at: Instant,
    pub(super) ending: Ending,
    pub(super) closes: bool,
}

/// What a server knows of a request: `body` once all of it is there, if it came in records.
#[derive(Debug)]
pub(super) struct Head {
    pub(super) id: Id,
    pub(super) pool: usize,
    pub(super) method: String,
    /// Bytes of all of it.
    pub(super) whole: usize,
    pub(super) body: Option<Vec<u8>>,
}

/// A connection to a server.
#[derive(Debug)]
pub(super) struct Link {
    number: u64,
    socket: OwnedFd,
    /// What has come of a request.
    input: Vec<u8>,
    pub(super) task: Option<Task>,
    /// The head of the request in `input` was read: its number, and how long the request is.
    heard: Option<(Id, usize)>,
    /// A response was given over it.
    pub(super) used: bool,
    /// Why no request may come any more.
    pub(super) spoilt: Option<&'static str>,
}

/// A server of a pool.
#[derive(Debug)]
pub(super) struct Server {
    pub(super) pool: usize,
    /// The number of the server within the pool.
    pub(super) place: usize,
    /// The server speaks FastCGI.
    fastcgi: bool,
    path: PathBuf,
    backlog: i32,
    listener: Option<OwnedFd>,
    /// The server has had times at which no connection to it could be made.
    failing: bool,
    pub(super) links: Vec<Link>,
}

/// What became of a request at servers so far.
#[derive(Debug, Default)]
pub(super) struct Tried {
    /// The servers that have lost it on a new connection, or have refused it.
    pub(super) lost: BTreeSet<usize>,
}

/// The servers of a world.
#[derive(Debug, Default)]
pub(super) struct Servers {
    pub(super) all: Vec<Server>,
    pub(super) tried: BTreeMap<Id, Tried>,
    next_link: u64,
}

impl Server {
    /// Begins to listen, which anything that was there before makes room for.
    fn open(&mut self) {
        let _ = std::fs::remove_file(&self.path);
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None).unwrap();
        bind(&socket, &SocketAddrUnix::new(&self.path).unwrap()).unwrap();
        listen(&socket, self.backlog).unwrap();
        self.listener = Some(socket);
    }
}

impl Link {
    /// Takes at most so many bytes. Whether any came, and whether nothing will come any more.
    fn receive(&mut self, at_most: usize, flags: RecvFlags) -> (bool, bool) {
        let (mut piece, mut left) = (vec![0; 16 * 1024], at_most);
        while left > 0 {
            let room = left.min(piece.len());
            match recv(&self.socket, &mut piece[..room], flags) {
                Ok((bytes, _)) if bytes > 0 => {
                    self.input.extend_from_slice(&piece[..bytes]);
                    left -= bytes;
                }
                Err(Errno::AGAIN) => return (left < at_most, false),
                // A closer of its own may have closed it: that is an end as well as a reset.
                _ => return (left < at_most, true),
            }
            if flags.contains(RecvFlags::PEEK) {
                // The received bytes stay there.
                break;
            }
        }
        (true, false)
    }

    /// Whether the other side has closed it.
    fn is_closed(&self) -> bool {
        let mut polled = [PollFd::new(&self.socket, PollFlags::RDHUP)];
        poll(&mut polled, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })).unwrap();
        polled[0].revents().intersects(PollFlags::RDHUP | PollFlags::HUP)
    }

    fn is_idle(&self) -> bool {
        self.task.is_none() && self.heard.is_none() && self.input.is_empty() && self.spoilt.is_none()
    }
}

/// What a head says.
fn read_head(input: &[u8]) -> Result<Option<Head>, String> {
    let Some(end) = input.windows(4).position(|window| window == b"\r\n\r\n") else { return Ok(None) };
    let text = String::from_utf8_lossy(&input[..end]).into_owned();
    let (line, fields) = text.split_once("\r\n").ok_or("a head without fields")?;
    let mut words = line.split(' ');
    let (method, target) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    let (pool, id) = target.trim_start_matches("/p").split_once('/').ok_or("a strange target")?;
    let (Ok(pool), Ok(id)) = (pool.parse(), id.parse()) else {
        return Err(format!("a strange target: {line}"));
    };
    let value_of = |wanted: &str| {
        let mut fields = fields.split("\r\n").filter_map(|field| field.split_once(": "));
        fields.find(|(name, _)| name.eq_ignore_ascii_case(wanted)).map(|(_, value)| value)
    };
    let length = value_of("content-length").and_then(|value| value.parse::<usize>().ok());
    let (mut whole, mut body) = (end + 4 + length.unwrap_or(0), None);
    if value_of("transfer-encoding") == Some("chunked") {
        let mut content = Vec::new();
        let mut decoder = Decoder::new(Framing::Chunked, u64::MAX);
        let progress = decoder.decode_with(&input[end + 4..], |piece| content.extend_from_slice(piece));
        let progress = progress.map_err(|reject| format!("chunks: {}", reject.reason))?;
        (whole, body) = match progress.complete {
            true => (end + 4 + progress.consumed, Some(content)),
            false => (usize::MAX, None),
        };
    }
    Ok(Some(Head { id, pool, method: method.to_owned(), whole, body }))
}

impl World<'_> {
    /// The servers begin to listen.
    pub(super) fn open_servers(&mut self) {
        for (pool, kind) in self.stage.kind.pools.iter().enumerate() {
            for place in 0..usize::from(kind.servers) {
                let backlog = if self.random.percent(80) { 64 } else { 0 };
                let mut server = Server {
                    pool,
                    place,
                    fastcgi: kind.fastcgi,
                    path: self.stage.server_path(pool, place),
                    backlog,
                    listener: None,
                    // A full one refuses.
                    failing: backlog == 0,
                    links: Vec::new(),
                };
                match self.random.percent(90) {
                    true => server.open(),
                    false => {
                        let _ = std::fs::remove_file(&server.path);
                        server.failing = true;
                    }
                }
                self.servers.all.push(server);
            }
        }
    }

    pub(super) fn has_servers(&self) -> bool {
        !self.servers.all.is_empty()
    }

    /// Whether no server of a pool could be relied on.
    pub(super) fn may_be_unreachable(&self, pool: usize) -> bool {
        self.servers.all.iter().filter(|server| server.pool == pool).all(|server| server.failing)
    }

    /// Whether servers have requests.
    pub(super) fn are_servers_busy(&self) -> bool {
        self.servers.all.iter().flat_map(|server| &server.links).any(|link| link.task.is_some())
    }

    /// A server, if there is one, does one thing.
    pub(super) fn serve_some(&mut self) {
        if self.servers.all.is_empty() {
            return;
        }
        let at = self.random.within(0..self.servers.all.len());
        self.accept(at, 1);
        let links = self.servers.all[at].links.len();
        if links > 0 {
            let link = self.random.within(0..links);
            let bytes = if self.random.percent(70) { usize::MAX } else { self.random.within(1..3000) };
            if self.listen_to(at, link, bytes).is_some() {
                self.answer_some(at, link);
            }
        }
    }

    /// All servers do all that they can. Whether anything happened.
    pub(super) fn serve_all(&mut self) -> bool {
        let mut moved = false;
        for at in 0..self.servers.all.len() {
            moved |= self.accept(at, usize::MAX);
            for link in (0..self.servers.all[at].links.len()).rev() {
                match self.listen_to(at, link, usize::MAX) {
                    Some(came) => moved |= came | self.answer_some(at, link),
                    None => moved = true,
                }
            }
        }
        moved
    }

    /// Something happens to a server, or to a connection of it, which no request has caused.
    pub(super) fn disturb_server(&mut self) {
        if self.servers.all.is_empty() {
            return;
        }
        let at = self.random.within(0..self.servers.all.len());
        let what = self.random.weighted(&[(2, 0), (5, 1), (4, 2), (1, 3)]);
        let links = self.servers.all[at].links.len();
        let idle = self.servers.all[at].links.iter().position(Link::is_idle);
        // What is most likely to be used next.
        let idle = idle.filter(|_| self.random.percent(60));
        match what {
            0 if self.servers.all[at].listener.is_some() => self.stop_server(at),
            0 => {
                self.note(|| format!("server {at} listens again"));
                self.servers.all[at].open();
            }
            _ if links == 0 => {}
            _ => {
                let link = idle.unwrap_or_else(|| self.random.within(0..links));
                match what {
                    1 => {
                        let resets = self.random.percent(40);
                        self.close_link(at, link, resets);
                    }
                    2 => self.speak_unasked(at, link),
                    _ => self.end_idle(at, link),
                }
            }
        }
    }

    fn stop_server(&mut self, at: usize) {
        // Who waits to be accepted is lost, and may have sent a request: that has to be known.
        self.accept(at, usize::MAX);
        self.note(|| format!("server {at} stops listening"));
        let server = &mut self.servers.all[at];
        (server.listener, server.failing) = (None, true);
        let _ = std::fs::remove_file(&server.path);
        self.find_reasons();
    }

    fn accept(&mut self, at: usize, at_most: usize) -> bool {
        let mut moved = false;
        for _ in 0..at_most {
            let server = &mut self.servers.all[at];
            let Some(listener) = &server.listener else { break };
            let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
            let Ok(socket) = accept_with(listener, flags) else { break };
            self.servers.next_link += 1;
            let number = self.servers.next_link;
            if self.random.percent(30) {
                rustix::net::sockopt::set_socket_send_buffer_size(&socket, 2304).unwrap();
            }
            let link = Link {
                number,
                socket,
                input: Vec::new(),
                task: None,
                heard: None,
                used: false,
                spoilt: None,
            };
            self.servers.all[at].links.push(link);
            self.note(|| format!("server {at}: accepts {number}"));
            moved = true;
        }
        moved
    }

    /// A server reads. Whether anything came; `None` if the connection has ended.
    fn listen_to(&mut self, at: usize, link: usize, bytes: usize) -> Option<bool> {
        let found = &mut self.servers.all[at].links[link];
        let (came, ended) = found.receive(bytes, RecvFlags::DONTWAIT);
        if came {
            self.take_request(at, link);
        }
        if ended {
            let Link { number, task, .. } = self.servers.all[at].links.remove(link);
            self.note(|| format!("server {at}: {number} was closed by the server before it"));
            if let Some(task) = task {
                self.on_left(&task);
            }
            return None;
        }
        Some(came)
    }

    /// A connection to a server has gone, with a request that the server was at.
    fn on_left(&mut self, task: &Task) {
        let (client, place) = self.ids[&task.id];
        let found = &self.clients[client];
        let asked = &found.model.requests[place];
        let truncated = asked.passing && !asked.sent && (found.model.half_closed || asked.late);
        let gone = found.model.left || found.model.cut || found.ended || asked.timed_out || truncated;
        if self.is_left_too_long(task) {
            self.fail(&format!("a server has worked at request {}, whose client has gone", task.id));
        }
        if !gone && asked.fate == Fate::UnderWay {
            self.fail(&format!("the connection of request {} to its server was closed", task.id));
        }
        let request = self.request(task.id);
        if request.fate == Fate::UnderWay {
            request.fate = Fate::Lost;
            request.overdue = request.timed_out;
        }
    }

    /// Looks at what has come of requests.
    fn take_request(&mut self, at: usize, link: usize) {
        loop {
            let Some((id, whole, body)) = self.read_more(at, link) else { return };
            let found = &self.servers.all[at].links[link];
            if found.input.len() > whole && (found.task.is_some() || self.servers.all[at].fastcgi) {
                self.fail(&format!("server {at} got something behind request {id}"));
            }
            let Some(request) = found.input.get(..whole) else { return };
            let (client, place) = self.ids[&id];
            let asked = &self.clients[client].model.requests[place].asked;
            if !body.map_or(request.ends_with(&asked.body), |body| body == asked.body) {
                self.fail(&format!("server {at} got another body than that of request {id}"));
            }
            if let Some(task) = &mut self.servers.all[at].links[link].task {
                task.patient = false;
                return;
            }
            // The request was answered before it was read.
            let found = &mut self.servers.all[at].links[link];
            found.input.drain(..whole);
            found.heard = None;
        }
    }

    /// Reads what has come: which request it is, and where it ends. Gives back the body, too, if it came in records.
    fn read_more(&mut self, at: usize, link: usize) -> Option<(Id, usize, Option<Vec<u8>>)> {
        let fastcgi = self.servers.all[at].fastcgi;
        let found = &self.servers.all[at].links[link];
        let heard = found.heard.is_some();
        let known = found.heard.is_some_and(|(_, whole)| whole != usize::MAX);
        if found.input.is_empty() || known && !fastcgi && !found.input.starts_with(b"POST") {
            return found.heard.map(|(id, whole)| (id, whole, None));
        }
        let read = if fastcgi { records::read_request(&found.input) } else { read_head(&found.input) };
        let head = match read {
            Ok(head) => head?,
            Err(why) => self.fail(&format!("to server {at}: {why}")),
        };
        let (id, whole) = (head.id, head.whole);
        if !heard {
            self.begin_task(at, link, &head);
        }
        self.servers.all[at].links[link].heard = Some((id, whole));
        Some((id, whole, head.body))
    }

    /// A connection has nothing more of a request that is answered, and that has come as a whole.
    fn become_idle(&mut self, at: usize, link: usize) {
        let found = &mut self.servers.all[at].links[link];
        let whole = found.heard.is_some_and(|(_, whole)| found.input.len() == whole);
        if whole && found.task.is_none() {
            found.input.clear();
            found.heard = None;
        }
    }

    fn begin_task(&mut self, at: usize, link: usize, head: &Head) {
        let Head { id, pool, method, .. } = head;
        let (id, pool) = (*id, *pool);
        let Server { pool: own, place: server, fastcgi, .. } = self.servers.all[at];
        let Link { number, used, spoilt, .. } = self.servers.all[at].links[link];
        let name = format!("server {at}: {method} {id} over {number}");
        self.note(|| format!("{name}, used {used}"));
        if let Some(why) = spoilt {
            self.fail(&format!("{name}: {why}"));
        }
        let Some(&(client, place)) = self.ids.get(&id) else {
            self.fail(&format!("{name}: nobody asked for it"))
        };
        let asked = self.clients[client].model.requests[place].asked.clone();
        if pool != own || *method != asked.method {
            self.fail(&format!("{name}: it is another request, or for another pool"));
        }
        if self.servers.tried.entry(id).or_default().lost.contains(&server) {
            self.fail(&format!("{name}: this server has lost it before"));
        }
        if let Err(why) = self.clients[client].model.deliver(place) {
            self.fail(&format!("{name}: {why}"));
        }
        let (answer, task) = match fastcgi {
            true => {
                let answer = records::answer_to(&asked, &mut self.random);
                let task = self.plan_records(id, &answer.full);
                (answer, task)
            }
            false => self.plan_response(&asked),
        };
        self.note(|| format!("  {:?}, {} of {}", task.ending, task.limit, task.wire.bytes.len()));
        self.request(id).answer = answer;
        self.servers.all[at].links[link].task = Some(task);
    }

    fn plan_response(&mut self, asked: &Asked) -> (Answer, Task) {
        let old = asked.http10 || self.random.percent(10);
        let flags = RequestFlags {
            keep: self.random.percent(85),
            http10: old,
            head: asked.method == "HEAD",
            body_fd: false,
            may_detach: false,
            body_stream: false,
        };
        let mut answer = response::answer_of(asked.id, flags, length, &mut self.random);
        let closes = answer.closes;
        answer.closes = !asked.keep || answer.open_ended && asked.http10;
        let task = self.plan_task(asked.id, &answer.full, closes);
        (answer, task)
    }

    fn plan_task(&mut self, id: Id, full: &[u8], closes: bool) -> Task {
        use Ending as E;
        let wild =
            [(60, E::Clean), (8, E::Closes), (16, E::Breaks), (6, E::Resets), (3, E::Garbage), (4, E::Never)];
        let ending = if self.wild { self.random.weighted(&wild) } else { E::Clean };
        let limit = match ending {
            E::Clean | E::Closes => full.len(),
            E::Garbage | E::Overloaded => 0,
            E::Breaks | E::Resets | E::Never if self.random.percent(50) => 0,
            E::Breaks | E::Resets | E::Never => self.random.within(0..full.len()),
        };
        Task {
            id,
            wire: Wire::plain(full),
            patient: self.random.percent(80),
            interim: self.random.percent(8),
            begun: false,
            at: 0,
            moved_at: time::now(),
            limit,
            ending,
            closes,
        }
    }

    /// A server goes on with a response by one step. Whether it did anything.
    fn answer_some(&mut self, at: usize, link: usize) -> bool {
        let Some(task) = &mut self.servers.all[at].links[link].task else { return false };
        if task.patient {
            return false;
        }
        if std::mem::take(&mut task.interim) {
            task.begun = true;
            return self.say(at, link, b"HTTP/1.1 103 Early\r\nLink: </a>\r\n\r\n");
        }
        match task.at < task.limit {
            true => self.write_response(at, link),
            false => self.end_task(at, link),
        }
    }

    /// Writes something short. Whether that was possible; if not, the connection has gone, or is full.
    fn say(&mut self, at: usize, link: usize, bytes: &[u8]) -> bool {
        let found = &self.servers.all[at].links[link];
        let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
        let result = send(&found.socket, bytes, flags);
        let number = found.number;
        self.note(|| format!("server {at}: says {} on {number}: {result:?}", String::from_utf8_lossy(bytes)));
        result.is_ok()
    }

    fn write_response(&mut self, at: usize, link: usize) -> bool {
        let piece = if self.random.percent(60) { usize::MAX } else { self.random.within(1..5000) };
        let found = &mut self.servers.all[at].links[link];
        let Some(task) = &mut found.task else { return false };
        let (client, place) = self.ids[&task.id];
        let request = &mut self.clients[client].model.requests[place];
        let end = task.limit.min(task.at.saturating_add(piece));
        let has_all = found.heard.is_some_and(|(_, whole)| found.input.len() >= whole);
        let early = request.passing && !(request.sent && has_all);
        let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
        let result = send(&found.socket, &task.wire.bytes[task.at..end], flags);
        if let Ok(sent) = result {
            task.at += sent;
            task.moved_at = time::now();
            task.begun |= sent > 0;
            let offered = task.wire.offered(task.at);
            (request.offered, request.written) = (offered, offered);
        }
        let (id, reached, number) = (task.id, task.at, found.number);
        // What is left of its body is dropped; if that is long, so is the connection.
        self.clients[client].model.cut |= early;
        let request = &self.clients[client].model.requests[place];
        let Some(task) = &self.servers.all[at].links[link].task else { return false };
        let whole = match task.wire.decided_at {
            Some(decided_at) => reached >= decided_at,
            None => reached == task.wire.bytes.len() && !request.answer.open_ended,
        };
        self.note(|| format!("server {at}: {id} is written to {reached} on {number}, {result:?}"));
        if whole {
            // Which the server at the other side sees as well as this one.
            self.end_task(at, link);
        }
        // A close by the other side shows when the socket is read.
        result.is_ok()
    }

    fn end_task(&mut self, at: usize, link: usize) -> bool {
        if self.servers.all[at].fastcgi {
            return self.end_records(at, link);
        }
        let found = &mut self.servers.all[at].links[link];
        let Some(task) = &mut found.task else { return false };
        let (id, ending, closes) = (task.id, task.ending, task.closes);
        let open_ended = self.clients[self.ids[&id].0].model.requests[self.ids[&id].1].answer.open_ended;
        match ending {
            Ending::Never | Ending::Overloaded => false,
            Ending::Clean if !closes && !open_ended => {
                self.note(|| format!("server {at}: {id} is answered"));
                self.request(id).fate = Fate::Whole;
                let found = &mut self.servers.all[at].links[link];
                (found.task, found.used) = (None, true);
                self.become_idle(at, link);
                true
            }
            Ending::Garbage => {
                task.begun = true;
                task.ending = Ending::Never;
                self.request(id).fate = Fate::Broken;
                self.say(at, link, b"SSH-2.0-OpenSSH_9.2p1\r\n\r\n")
            }
            // Some servers only say that they will close, and wait for the other side.
            Ending::Clean if !open_ended && self.random.percent(40) => {
                self.request(id).fate = Fate::Whole;
                let found = &mut self.servers.all[at].links[link];
                (found.task, found.used) = (None, true);
                found.spoilt = Some("its response was said to be the last");
                self.become_idle(at, link);
                true
            }
            Ending::Resets => {
                self.close_link(at, link, true);
                true
            }
            Ending::Clean | Ending::Closes | Ending::Breaks => {
                self.close_link(at, link, false);
                true
            }
        }
    }

    /// A server closes a connection.
    pub(super) fn close_link(&mut self, at: usize, link: usize, resets: bool) {
        // What it has not read is lost with it, and has to be known.
        let flags = if resets { RecvFlags::PEEK | RecvFlags::DONTWAIT } else { RecvFlags::DONTWAIT };
        let (came, ended) = self.servers.all[at].links[link].receive(usize::MAX, flags);
        if came {
            self.take_request(at, link);
        }
        let Link { number, task, used, input, .. } = self.servers.all[at].links.remove(link);
        self.note(|| {
            format!("server {at}: closes {number}, resets {resets}, ended {ended}, {}", input.len())
        });
        let Some(task) = task else { return };
        if ended {
            return self.on_left(&task);
        }
        let Server { place, fastcgi, .. } = self.servers.all[at];
        // Everything that was read is then behind the end of the stream.
        let reset = resets && came;
        let request = self.request(task.id);
        let answer = &mut request.answer;
        let headed = request.offered >= answer.head_bytes;
        request.fate = match task.begun {
            _ if request.fate == Fate::Broken => Fate::Broken,
            // Only a record says that it was all.
            _ if request.offered == answer.full.len() && !(answer.open_ended && reset) && !fastcgi => {
                Fate::Whole
            }
            // The end of the connection says that the response was whole.
            true if answer.open_ended && headed && !reset => {
                answer.full.truncate(request.offered);
                answer.body.truncate(request.offered - answer.head_bytes);
                Fate::Whole
            }
            true => Fate::Broken,
            false => Fate::Lost,
        };
        if request.fate == Fate::Lost && !used {
            self.servers.tried.entry(task.id).or_default().lost.insert(place);
        }
        self.find_reasons();
    }

    /// A server says something on a connection that has no request.
    fn speak_unasked(&mut self, at: usize, link: usize) {
        if self.listen_to(at, link, usize::MAX).is_none() || !self.servers.all[at].links[link].is_idle() {
            return;
        }
        let text = b"HTTP/1.1 200 OK\r\nX-Id: 0\r\nContent-Length: 5\r\n\r\nwrong";
        if self.say(at, link, text) {
            self.servers.all[at].links[link].spoilt = Some("something was said on it unasked");
        }
    }

    /// A server finishes sending on a connection that has no request.
    fn end_idle(&mut self, at: usize, link: usize) {
        if self.listen_to(at, link, usize::MAX).is_none() || !self.servers.all[at].links[link].is_idle() {
            return;
        }
        let found = &mut self.servers.all[at].links[link];
        let _ = rustix::net::shutdown(&found.socket, rustix::net::Shutdown::Write);
        found.spoilt = Some("its server has finished sending");
        let number = found.number;
        self.note(|| format!("server {at}: finishes sending on {number}"));
    }

    /// Until when a server may be left to work for a client that has gone. (One that has only just asked may have closed one
    /// direction.) Before the end of the world begins, threads may be as late as they like.
    fn is_left_too_long(&self, task: &Task) -> bool {
        let client = &self.clients[self.ids[&task.id].0];
        let (Some(left), Some(end)) = (client.left_at, self.end_begins) else { return false };
        let since = time::now().saturating_duration_since(left.max(task.moved_at).max(end));
        since > HALF_CLOSED_TIMEOUT + LATE_MAX + Duration::from_millis(100)
    }

    /// When nothing can happen: no server has worked for a long time for a client that has gone.
    pub(super) fn check_servers(&self) {
        for link in self.servers.all.iter().flat_map(|server| &server.links) {
            let Some(task) = &link.task else { continue };
            if self.is_left_too_long(task) && !link.is_closed() {
                self.fail(&format!("a server still works at request {}, whose client has gone", task.id));
            }
        }
    }

    /// Which requests have a reason to be answered by an error now.
    pub(super) fn find_reasons(&mut self) {
        let pools = self.stage.kind.pools.len();
        for pool in 0..pools {
            let unreachable = self.may_be_unreachable(pool);
            let servers = self.servers.all.iter().filter(|server| server.pool == pool);
            let reliable: BTreeSet<usize> =
                servers.filter(|server| !server.failing).map(|server| server.place).collect();
            for client in &mut self.clients {
                for request in client.model.requests.iter_mut().filter(|request| request.server == Some(pool))
                {
                    request.may_be_unseen |= unreachable;
                    let tried = self.servers.tried.get(&request.asked.id);
                    request.exhausted |= unreachable
                        || tried.is_some_and(|tried| reliable.iter().all(|place| tried.lost.contains(place)));
                }
            }
        }
    }
}
