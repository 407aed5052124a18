//! Servers of HTTP/2 that do anything that the protocol has, at any time, by a seed: GOAWAY, refused streams, resets, windows and
//! other settings, early responses, the end of the connection. What their clients see has to be theirs, and to end.

use std::collections::BTreeMap;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};

use maitred_testing::random::Random;

use super::{Kind, Seen};
use crate::support::framed::{Came, Far, field, head};
use crate::support::h2::Connection;
use crate::support::h2::frame::{self, code, kind, setting};
use crate::support::upstream::Upstream;
use crate::support::{Server, Setup, eventually};

/// Worlds that are played one after the other, and requests of each client in them.
const WORLDS: u64 = 8;
const REQUESTS: usize = 40;

/// What all connections of a server share.
#[derive(Debug, Default)]
struct Shared {
    /// How often each POST may have been acted on.
    acted: Mutex<BTreeMap<String, usize>>,
    /// From now on it does what it should.
    good: AtomicBool,
    /// A frame of Maitred's was wrong.
    wrong: AtomicBool,
    connections: AtomicUsize,
}

/// A request that a server has.
#[derive(Debug)]
struct Task {
    path: String,
    is_post: bool,
    bytes: usize,
    ended: bool,
}

/// What a server can do.
#[derive(Debug, Clone, Copy)]
enum Act {
    Answer,
    AnswerEarly,
    Interim,
    Refuse,
    Reset,
    Leave,
    Window,
    Settings,
    Ping,
    Close,
    Wait,
}

struct Player<'f, 'p> {
    far: &'f mut Far<'p>,
    shared: &'f Shared,
    random: Random,
    tasks: BTreeMap<u32, Task>,
    /// The last stream that is answered.
    last: Option<u32>,
    newest: u32,
}

impl Player<'_, '_> {
    fn play(&mut self) -> io::Result<()> {
        loop {
            self.hear()?;
            let often = usize::from(!self.shared.good.load(SeqCst));
            let acts = if often == 0 { self.tasks.len().max(1) } else { self.random.within(1..5) };
            for _ in 0..acts {
                let act = self.random.weighted(&[
                    (30, Act::Answer),
                    (3 * often, Act::AnswerEarly),
                    (3 * often, Act::Interim),
                    (5 * often, Act::Refuse),
                    (4 * often, Act::Reset),
                    (3 * often, Act::Leave),
                    (5 * often, Act::Window),
                    (4 * often, Act::Settings),
                    (4 * often, Act::Ping),
                    (2 * often, Act::Close),
                    (8 * often, Act::Wait),
                ]);
                self.act(act)?;
            }
        }
    }

    /// The next of what comes.
    fn hear(&mut self) -> io::Result<()> {
        match self.far.next()? {
            Came::Head { id, fields, ended } if id > self.newest => {
                self.newest = id;
                // What comes behind GOAWAY is not looked at.
                if self.last.is_some_and(|last| id > last) {
                    return Ok(());
                }
                let path = field(&fields, ":path").unwrap().to_owned();
                let is_post = field(&fields, ":method") == Some("POST");
                self.count(&path, is_post, true);
                self.tasks.insert(id, Task { path, is_post, bytes: 0, ended });
            }
            Came::Head { id, ended, .. } => {
                self.tasks.get_mut(&id).into_iter().for_each(|task| task.ended |= ended)
            }
            Came::Data { id, bytes, ended } => {
                if let Some(task) = self.tasks.get_mut(&id) {
                    task.bytes += bytes.len();
                    task.ended |= ended;
                }
            }
            Came::Reset { id, .. } => drop(self.tasks.remove(&id)),
        }
        Ok(())
    }

    fn count(&self, path: &str, is_post: bool, more: bool) {
        if is_post {
            let mut acted = self.shared.acted.lock().unwrap();
            let count = acted.entry(path.to_owned()).or_default();
            *count = if more { *count + 1 } else { *count - 1 };
        }
    }

    /// A stream, of those that are as wanted.
    fn some(&mut self, wanted: impl Fn(&Task) -> bool) -> Option<u32> {
        let all: Vec<u32> = self.tasks.iter().filter(|(_, task)| wanted(task)).map(|(id, _)| *id).collect();
        (!all.is_empty()).then(|| all[self.random.within(0..all.len())])
    }

    fn act(&mut self, act: Act) -> io::Result<()> {
        match act {
            Act::Answer => match self.some(|task| task.ended) {
                Some(id) => self.answer(id),
                None => Ok(()),
            },
            Act::AnswerEarly => match self.some(|task| !task.ended) {
                Some(id) => {
                    self.answer(id)?;
                    self.far.send(frame::rst_stream(id, code::NO_ERROR))
                }
                None => Ok(()),
            },
            Act::Interim => match self.some(|_| true) {
                Some(id) => self.far.send(head(id, &[(":status", "103"), ("link", "</x>")], false)),
                None => Ok(()),
            },
            Act::Refuse => self.reset(code::REFUSED_STREAM),
            Act::Reset => {
                let codes = [code::INTERNAL_ERROR, code::CANCEL, code::NO_ERROR, code::ENHANCE_YOUR_CALM];
                let code = codes[self.random.within(0..codes.len())];
                self.reset(code)
            }
            Act::Leave => self.leave(),
            Act::Window => {
                let (id, bytes) = (self.some(|_| true).unwrap_or(0), self.random.within(1..100_000) as u32);
                self.far.send(frame::window_update(if self.random.percent(50) { 0 } else { id }, bytes))
            }
            Act::Settings => {
                let (name, most) = match self.random.percent(50) {
                    true => (setting::INITIAL_WINDOW_SIZE, 200_000),
                    false => (setting::MAX_CONCURRENT_STREAMS, 20),
                };
                let value = self.random.within(1..most) as u32;
                self.far.send(frame::settings(&[(name, value)]))
            }
            Act::Ping => self.far.send(frame::ping(7)),
            Act::Close => Err(io::ErrorKind::ConnectionAborted.into()),
            Act::Wait => Ok(()),
        }
    }

    fn reset(&mut self, code: u32) -> io::Result<()> {
        let Some(id) = self.some(|_| true) else { return Ok(()) };
        let task = self.tasks.remove(&id).unwrap();
        if code == code::REFUSED_STREAM {
            self.count(&task.path, task.is_post, false);
        }
        self.far.send(frame::rst_stream(id, code))
    }

    /// GOAWAY, for any of the streams; sometimes again, with a lower one.
    fn leave(&mut self) -> io::Result<()> {
        let most = self.last.unwrap_or(self.newest + 4);
        let last = self.random.within(0..most as usize + 1) as u32;
        self.last = Some(last);
        let unseen = self.tasks.split_off(&(last + 1));
        unseen.values().for_each(|task| self.count(&task.path, task.is_post, false));
        self.far.send(frame::goaway(last, code::NO_ERROR))
    }

    /// Answers with the task's path and the length of its content, in one of many shapes.
    fn answer(&mut self, id: u32) -> io::Result<()> {
        let task = self.tasks.remove(&id).unwrap();
        let text = format!("{} {}", task.path, if task.ended { "all" } else { "early" });
        let (length, at) = (text.len().to_string(), self.random.within(0..text.len()));
        let mut fields = vec![(":status", "200")];
        if self.random.percent(50) {
            fields.push(("content-length", &length));
        }
        let trailers = self.random.percent(30);
        let (one, two) = text.as_bytes().split_at(at);
        let mut out = head(id, &fields, false);
        out.extend(frame::data(id, one, false));
        if self.random.percent(30) {
            out.extend(frame::frame(kind::PRIORITY, 0, id, &[0, 0, 0, 0, 1]));
        }
        out.extend(frame::data(id, two, !trailers));
        if trailers {
            out.extend(head(id, &[("x-end", "1")], true));
        }
        // Not always at once.
        let cut = self.random.within(0..out.len());
        self.far.send(&out[..cut])?;
        self.far.send(&out[cut..])
    }
}

/// A server whose connections each have a seed of their own.
fn arbitrary(seed: u64, shared: &Arc<Shared>) -> Upstream {
    let shared = Arc::clone(shared);
    Upstream::start(move |peer| {
        let number = shared.connections.fetch_add(1, SeqCst) as u64;
        let played = catch_unwind(AssertUnwindSafe(|| {
            let random = Random::new(seed << 32 | number);
            let far = &mut Far::new(peer, &[])?;
            Player { far, shared: &shared, random, tasks: BTreeMap::new(), last: None, newest: 0 }.play()
        }));
        // A panic says why on standard error.
        played.unwrap_or_else(|_| {
            shared.wrong.store(true, SeqCst);
            Ok(())
        })
    })
}

/// What the client of a request sees: its own answer, or one of Maitred's.
fn is_right(path: &str, status: u16, text: &str) -> Seen {
    if status == 200 {
        assert!(text == format!("{path} all") || text == format!("{path} early"), "{path}: {text}");
        return Seen::Whole;
    }
    assert!([502, 503, 504].contains(&status), "{path}: {status}");
    Seen::Failed(status)
}

fn ask_by_lines(server: &Server, seed: u64, client: usize) -> usize {
    let mut random = Random::new(seed << 16 | client as u64);
    let mut connection = server.connect();
    let mut whole = 0;
    for number in 0..REQUESTS {
        let path = format!("/{seed}/{client}/{number}");
        let (method, bytes) = match random.percent(50) {
            true => ("GET", 0),
            false => ("POST", random.within(0..200_000)),
        };
        let request = format!("{method} {path} HTTP/1.1\r\nHost: h\r\nContent-Length: {bytes}\r\n\r\n");
        let sent = connection.try_send([request.as_bytes(), &vec![b'x'; bytes]].concat());
        let again = match connection.try_response(method) {
            Ok(response) => {
                whole += usize::from(is_right(&path, response.status, response.text()) == Seen::Whole);
                response.says_close() || sent.is_err()
            }
            Err(error) => {
                assert_ne!(error.kind(), io::ErrorKind::WouldBlock, "{path} never ends");
                true
            }
        };
        if again {
            connection = server.connect();
        }
    }
    whole
}

fn ask_by_streams(server: &Server, seed: u64, client: usize) -> usize {
    let mut random = Random::new(seed << 16 | client as u64);
    let mut connection = Connection::new(server.address);
    let mut whole = 0;
    for number in 0..REQUESTS / 4 {
        let paths: Vec<String> = (0..4).map(|at| format!("/{seed}/{client}/{number}/{at}")).collect();
        let ids: Vec<u32> = paths.iter().map(|path| connection.request("GET", path, &[], true)).collect();
        if random.percent(20) {
            connection.cancel(ids[0]);
        }
        for (id, path) in ids.into_iter().zip(&paths) {
            if connection.stream(id).cancelled {
                continue;
            }
            if let Ok(response) = connection.try_response(id) {
                whole += usize::from(is_right(path, response.status, response.text()) == Seen::Whole);
            }
        }
    }
    whole
}

#[test]
fn whatever_a_server_of_http_2_does_each_client_gets_what_is_its_own() {
    let mut whole = 0;
    for seed in 0..WORLDS {
        let shared = Arc::new(Shared::default());
        let upstream = arbitrary(seed, &shared);
        let server = Setup::with_files()
            .server("threads = 1")
            .route(
                "/*",
                &format!("pool = \"app\"\n{}", ["", "request_buffering = \"off\""][seed as usize % 2]),
            )
            .table(&Kind::Http2.pool("app", upstream.address(), "request_timeout = \"1s\""))
            .start();
        std::thread::scope(|scope| {
            let clients: Vec<_> = (0..6)
                .map(|client| {
                    let server = &server;
                    scope.spawn(move || match client % 2 {
                        0 => ask_by_lines(server, seed, client),
                        _ => ask_by_streams(server, seed, client),
                    })
                })
                .collect();
            whole += clients.into_iter().map(|client| client.join().unwrap()).sum::<usize>();
        });
        let acted = std::mem::take(&mut *shared.acted.lock().unwrap());
        let twice: Vec<_> = acted.into_iter().filter(|(_, count)| *count > 1).collect();
        assert!(twice.is_empty(), "seed {seed}: these were sent again: {twice:?}");
        // As soon as it does what it should, all is well again.
        shared.good.store(true, SeqCst);
        eventually("requests are answered", || (0..3).all(|_| server.connect().get("/good").status == 200));
        assert!(!shared.wrong.load(SeqCst), "seed {seed}: a frame was wrong");
        server.stop();
    }
    assert!(whole > WORLDS as usize * 6 * REQUESTS / 4, "only {whole} were answered");
}
