//! System calls of the event loop per request, counted by strace(1): the one figure of speed that does not depend on the machine.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

use crate::support::{TIMEOUT, eventually, skip_here, skip_missing};
use crate::the_machine;

/// Requests that are counted; where several come in one write, the writes.
const REQUESTS: usize = 500;
/// Calls besides those of the requests: a full log buffer, timers; and in each second that it takes, on a machine that is slow,
/// checks of the file and looks at what is idle.
const OTHERS_MAX: usize = 40;
const OTHERS_PER_SECOND_MAX: usize = 10;

/// Ends a process by SIGINT, and reaps it.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        if matches!(self.0.try_wait(), Ok(None)) {
            kill_process(Pid::from_child(&self.0), Signal::INT).unwrap();
        }
        self.0.wait().unwrap();
    }
}

/// The event-loop thread of the worker process of this master.
fn event_loop(master: u32) -> String {
    let children = std::fs::read_to_string(format!("/proc/{master}/task/{master}/children")).unwrap();
    let tasks = children.split_whitespace().map(|child| Path::new("/proc").join(child).join("task"));
    let mut tasks = tasks.flat_map(|tasks| std::fs::read_dir(tasks).unwrap()).map(|task| task.unwrap());
    let named = |name: String| name.trim() == "loop-0";
    let task = tasks.find(|task| std::fs::read_to_string(task.path().join("comm")).is_ok_and(named));
    task.unwrap().file_name().into_string().unwrap()
}

/// Requests on one connection, so many in each write, which are answered with `hot` before the next are sent.
fn ask(stream: &mut (impl Read + Write), path: &str, writes: usize, batch: usize) {
    let mut bytes = vec![0; 16 * 1024];
    let requests = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n").repeat(batch);
    for _ in 0..writes {
        stream.write_all(requests.as_bytes()).unwrap();
        let mut got = 0;
        while bytes[..got].windows(5).filter(|bytes| bytes == b"\nhot\n").count() < batch {
            let more = stream.read(&mut bytes[got..]).unwrap();
            assert!(more > 0, "the connection was closed");
            got += more;
        }
    }
}

/// What was counted.
#[derive(Debug)]
struct Calls {
    by_name: BTreeMap<String, usize>,
    /// How long the requests took.
    took: Duration,
    /// As many besides those of the requests, by the time that it took.
    others_max: usize,
}

impl Calls {
    fn of(&self, name: &str) -> usize {
        self.by_name.get(name).copied().unwrap_or_default()
    }
}

/// System calls of the event loop by name, while [`REQUESTS`] writes of so many requests are answered. `None`, with a word on
/// why, where they cannot be counted.
fn calls(dir: &Path, master: u32, path: &str, batch: usize) -> Option<Calls> {
    let mut stream = connect(dir);
    calls_of(dir, master, &mut |writes| ask(&mut stream, path, writes, batch))
}

/// The same for any client that makes so many writes, each of which is answered before the next.
fn calls_of(dir: &Path, master: u32, ask: &mut dyn FnMut(usize)) -> Option<Calls> {
    ask(20);
    let output = dir.join("calls");
    let strace = Command::new("strace")
        .args(["-p", &event_loop(master)])
        .arg("-o")
        .arg(&output)
        .stderr(Stdio::piped())
        .spawn();
    let Ok(mut strace) = strace else {
        skip_missing("there is no strace(1) here");
        return None;
    };
    let mut said = BufReader::new(strace.stderr.take().unwrap()).lines();
    let strace = Running(strace);
    match said.next() {
        Some(Ok(line)) if line.contains("attached") => {}
        other => {
            skip_here(format_args!("strace(1) may not look at a process here: {other:?}"));
            return None;
        }
    }
    let began = Instant::now();
    ask(REQUESTS);
    drop(strace);
    let took = began.elapsed();
    let others_max = OTHERS_MAX + OTHERS_PER_SECOND_MAX * took.as_secs() as usize;
    let mut by_name: BTreeMap<String, usize> = BTreeMap::new();
    for line in std::fs::read_to_string(&output).unwrap().lines() {
        if let Some((name, _)) = line.split_once('(') {
            let kinds = ["recv", "send", "epoll_wait", "epoll_pwait"];
            let kind = kinds.into_iter().find(|kind| name.starts_with(kind)).unwrap_or(name);
            *by_name.entry(kind.replace("pwait", "wait")).or_default() += 1;
        }
    }
    Some(Calls { by_name, took, others_max })
}

fn connect(dir: &Path) -> TcpStream {
    let address = announced(&std::fs::read_to_string(dir.join("output")).unwrap()).unwrap();
    let stream = TcpStream::connect(address).unwrap();
    stream.set_nodelay(true).unwrap();
    stream.set_read_timeout(Some(TIMEOUT)).unwrap();
    stream
}

/// What each request, or write of several, may cost at most: name, and calls of it. All others together stay below
/// what is allowed of these.
fn assert_at_most(calls: Calls, budget: &[(&str, usize)]) {
    let all = format!("{calls:?}");
    let Calls { mut by_name, others_max, .. } = calls;
    for &(kind, each) in budget {
        let count = by_name.remove(kind).unwrap_or_default();
        assert!(count <= each * REQUESTS + others_max, "{kind}: {each} a request are allowed; {all}");
    }
    assert!(by_name.values().sum::<usize>() <= others_max, "{all}");
}

/// A directory with `hot.txt`. A file that is written now would be read anew for a while, since it might change once more
/// without a change of its times.
const SITE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/alone/system_calls");

fn files(dir: &Path) -> Running {
    start(dir, &["serve", SITE, "--listen", "127.0.0.1:0", "--threads", "1", "--log", "combined"])
}

/// The same over TLS, and a client that has shaken hands and trusts it.
fn secure_files(dir: &Path, protocol: &[u8]) -> (Running, StreamOwned<ClientConnection, TcpStream>) {
    let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
    std::fs::write(dir.join("certificate.pem"), made.cert.pem()).unwrap();
    std::fs::write(dir.join("key.pem"), made.signing_key.serialize_pem()).unwrap();
    let config = format!(
        "[server]\nthreads = 1\nshare_user = true\n[log]\nerror_file = \"output\"\naccess_file = \"access.log\"\n\
         [[listen]]\naddress = \"127.0.0.1:0\"\ntls = {{}}\n[[site]]\nroot = {SITE:?}\n\
         certificates = [{{ certificate = \"certificate.pem\", key = \"key.pem\" }}]\n"
    );
    std::fs::write(dir.join("maitred.toml"), config).unwrap();
    let server = start(dir, &["run"]);
    let mut roots = RootCertStore::empty();
    roots.add(made.cert.der().clone()).unwrap();
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let builder = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let mut config = builder.unwrap().with_root_certificates(roots).with_no_client_auth();
    config.alpn_protocols = vec![protocol.to_owned()];
    let name = ServerName::try_from("localhost").unwrap();
    let session = ClientConnection::new(Arc::new(config), name).unwrap();
    (server, StreamOwned::new(session, connect(dir)))
}

/// A client of HTTP/2 that makes [`STREAMS`] requests in each write.
struct Http2<S> {
    stream: S,
    greeted: bool,
    last_stream: u32,
    received: Vec<u8>,
}

/// Requests in one write over HTTP/2.
const STREAMS: u32 = 32;
/// Types and flags of frames (9113-6).
const DATA: u8 = 0;
const HEADERS: u8 = 1;
const SETTINGS: u8 = 4;
const WINDOW_UPDATE: u8 = 8;
const END_STREAM: u8 = 1;
const ACK: u8 = 1;
const END_HEADERS: u8 = 4;

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(&u32::try_from(payload.len()).unwrap().to_be_bytes()[1..]);
    out.extend_from_slice(&[kind, flags]);
    out.extend_from_slice(&stream.to_be_bytes());
    out.extend_from_slice(payload);
}

impl<S: Read + Write> Http2<S> {
    fn new(stream: S) -> Self {
        Self { stream, greeted: false, last_stream: 0, received: Vec::new() }
    }

    fn ask(&mut self, writes: usize) {
        // GET and http by the static table; authority and path without a table (RFC 7541 appendix A, section 6.2.2).
        let head = b"\x82\x86\x01\x09localhost\x04\x08/hot.txt";
        for _ in 0..writes {
            let mut out = Vec::new();
            if !std::mem::replace(&mut self.greeted, true) {
                out.extend_from_slice(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
                frame(SETTINGS, 0, 0, &[], &mut out);
                frame(WINDOW_UPDATE, 0, 0, &0x1000_0000_u32.to_be_bytes(), &mut out);
            }
            for _ in 0..STREAMS {
                self.last_stream = if self.last_stream == 0 { 1 } else { self.last_stream + 2 };
                frame(HEADERS, END_HEADERS | END_STREAM, self.last_stream, head, &mut out);
            }
            self.stream.write_all(&out).unwrap();
            let mut answered = 0;
            while answered < STREAMS {
                answered += self.receive();
            }
        }
    }

    /// Reads once, and says how many responses have ended.
    fn receive(&mut self) -> u32 {
        let mut bytes = [0; 16 * 1024];
        let more = self.stream.read(&mut bytes).unwrap();
        assert!(more > 0, "the connection was closed");
        self.received.extend_from_slice(&bytes[..more]);
        let mut ended = 0;
        while let Some(header) = self.received.first_chunk::<9>() {
            let [_, _, _, kind, flags, ..] = *header;
            let end = 9 + u32::from_be_bytes([0, header[0], header[1], header[2]]) as usize;
            if self.received.len() < end {
                break;
            }
            assert!(matches!(kind, DATA | HEADERS | SETTINGS | WINDOW_UPDATE), "{:?}", &self.received[..end]);
            if kind == DATA && flags & END_STREAM != 0 {
                assert_eq!(&self.received[9..end], b"hot\n");
                ended += 1;
            }
            if kind == SETTINGS && flags & ACK == 0 {
                let mut out = Vec::new();
                frame(SETTINGS, ACK, 0, &[], &mut out);
                self.stream.write_all(&out).unwrap();
            }
            self.received.drain(..end);
        }
        ended
    }
}

/// `/app/*` leads to the pool that is described so.
fn pool(dir: &Path, pool: &str) -> Running {
    let config = format!(
        "[server]\nthreads = 1\nshare_user = true\n[log]\nerror_file = \"output\"\naccess_file = \"access.log\"\n\
         [[listen]]\naddress = \"127.0.0.1:0\"\n[[site]]\nroot = \".\"\n\
         [[site.route]]\npath = \"/app/*\"\npool = \"web\"\n[pool.web]\n{pool}\n"
    );
    std::fs::write(dir.join("maitred.toml"), config).unwrap();
    start(dir, &["run"])
}

/// An application in Python, which answers by that transport.
fn application(dir: &Path, transport: &str) -> Running {
    std::fs::write(
        dir.join("hot.py"),
        "def application(environ, start_response):\n    \
         start_response('200 OK', [('Content-Length', '4')])\n    return [b'hot\\n']\n",
    )
    .unwrap();
    let adapter = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../adapters/python").canonicalize().unwrap();
    // A machine that has much to do may take longer to start it than requests wait by default.
    let command = "command = [\"python3\", \"-m\", \"maitred\", \"hot:application\"]\nworkers = 1\n\
                   queue = { timeout = \"60s\" }";
    let env = format!("env = {{ PYTHONPATH = \"{}\" }}", adapter.display());
    pool(dir, &format!("{command}\ntransport = \"{transport}\"\n{env}"))
}

/// An HTTP server that answers every request on every connection with `hot`, as long as this process lives.
fn origin() -> std::net::SocketAddr {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().map_while(Result::ok) {
            std::thread::spawn(move || {
                let mut bytes = [0; 4096];
                let mut got = 0;
                while let Ok(more @ 1..) = stream.read(&mut bytes[got..]) {
                    got += more;
                    if bytes[..got].ends_with(b"\r\n\r\n") {
                        got = 0;
                        stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nhot\n").unwrap();
                    }
                }
            });
        }
    });
    address
}

#[test]
fn a_hot_request_takes_one_receive_one_send_and_a_share_of_the_wait() {
    let _machine = the_machine();
    let dir = tempfile::tempdir().unwrap();
    let server = files(dir.path());
    let Some(calls) = calls(dir.path(), server.0.id(), "/hot.txt", 1) else { return };
    assert_eq!(calls.of("send"), REQUESTS, "{calls:?}");
    assert_eq!(calls.of("recv"), REQUESTS, "{calls:?}");
    // With this one connection nothing is shared: each request costs a wait of its own, and no more.
    assert_at_most(calls, &[("send", 1), ("recv", 1), ("epoll_wait", 1)]);
}

#[test]
fn sixteen_requests_in_one_write_take_one_receive_and_one_send() {
    let _machine = the_machine();
    let dir = tempfile::tempdir().unwrap();
    let server = files(dir.path());
    let Some(calls) = calls(dir.path(), server.0.id(), "/hot.txt", 16) else { return };
    assert_at_most(calls, &[("send", 1), ("recv", 1), ("epoll_wait", 1)]);
}

/// Whether a file is in memory is asked for a tenth of a second, and not for each response.
#[test]
fn a_hot_file_that_is_sent_from_the_page_cache_takes_one_more_call() {
    let _machine = the_machine();
    let dir = tempfile::tempdir().unwrap();
    let docs = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs");
    let arguments = ["serve", docs, "--listen", "127.0.0.1:0", "--threads", "1", "--log", "combined"];
    let server = start(dir.path(), &arguments);
    let length = std::fs::metadata(format!("{docs}/status-page.png")).unwrap().len() as usize;
    let mut stream = connect(dir.path());
    let mut bytes = vec![0; length + 4096];
    let calls = calls_of(dir.path(), server.0.id(), &mut |writes| {
        for _ in 0..writes {
            stream.write_all(b"GET /status-page.png HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
            let (mut got, mut whole) = (0, usize::MAX);
            while got < whole {
                let more = stream.read(&mut bytes[got..]).unwrap();
                assert!(more > 0, "the connection was closed");
                got += more;
                let head = bytes[..got].windows(4).position(|four| four == b"\r\n\r\n");
                whole = head.map_or(usize::MAX, |head| head + 4 + length);
            }
        }
    });
    let Some(calls) = calls else { return };
    // One for the head and one for the file, which are of a kind by their names.
    assert!(calls.of("send") >= 2 * REQUESTS, "{calls:?}");
    // An older strace(1) knows cachestat(2) by its number only.
    let asked = calls.of("preadv2") + calls.of("cachestat") + calls.of("syscall_0x1c3");
    // The first page, the last one, and those between; for the file as a whole, and once more for what the socket did not take.
    let asked_max = 2 * 3 * (1 + calls.took.as_millis() as usize / 100);
    assert!(asked <= asked_max, "{asked} questions, {asked_max} at most: {calls:?}");
}

#[test]
fn over_tls_it_is_the_same() {
    let _machine = the_machine();
    let dir = tempfile::tempdir().unwrap();
    let (server, mut client) = secure_files(dir.path(), b"http/1.1");
    let ask = &mut |writes| ask(&mut client, "/hot.txt", writes, 1);
    let Some(calls) = calls_of(dir.path(), server.0.id(), ask) else { return };
    assert_eq!(calls.of("send"), REQUESTS, "{calls:?}");
    assert_at_most(calls, &[("send", 1), ("recv", 1), ("epoll_wait", 1)]);
}

/// What [`STREAMS`] requests in one write may take. The lines of requests fill the log's buffers, each of which wakes the
/// thread that writes them: once for some hundreds of requests.
const HTTP2: &[(&str, usize)] = &[("send", 1), ("recv", 1), ("epoll_wait", 1), ("futex", 0)];

#[test]
fn thirty_two_requests_of_http2_take_one_receive_and_one_send() {
    let _machine = the_machine();
    let dir = tempfile::tempdir().unwrap();
    let server = files(dir.path());
    let mut client = Http2::new(connect(dir.path()));
    let Some(calls) = calls_of(dir.path(), server.0.id(), &mut |writes| client.ask(writes)) else { return };
    assert_at_most(calls, HTTP2);
}

#[test]
fn so_they_do_over_tls() {
    let _machine = the_machine();
    let dir = tempfile::tempdir().unwrap();
    let (server, stream) = secure_files(dir.path(), b"h2");
    let mut client = Http2::new(stream);
    let Some(calls) = calls_of(dir.path(), server.0.id(), &mut |writes| client.ask(writes)) else { return };
    assert_at_most(calls, HTTP2);
}

#[test]
fn a_handed_off_request_takes_one_message_each_way_and_no_change_of_the_epoll_set() {
    let _machine = the_machine();
    let dir = tempfile::tempdir().unwrap();
    let server = application(dir.path(), "direct");
    let Some(calls) = calls(dir.path(), server.0.id(), "/app/", 1) else { return };
    assert_eq!(calls.of("send"), REQUESTS, "one message to the process; {calls:?}");
    assert_eq!(calls.of("epoll_ctl"), 0, "the connection stays where it is registered: {calls:?}");
    // The request, and the report on it. One wait for each of these two; and a third where what the process sends is
    // acknowledged in between, which is an event of the connection (edge-triggered, EPOLLOUT). The process shares the
    // socket's flags: they are set when it is passed, and not for each request.
    assert_at_most(calls, &[("send", 1), ("recv", 2), ("epoll_wait", 3)]);
}

#[test]
fn a_relayed_request_takes_one_message_each_way_and_one_pass_through_the_relay() {
    let _machine = the_machine();
    let dir = tempfile::tempdir().unwrap();
    let server = application(dir.path(), "relay");
    let Some(calls) = calls(dir.path(), server.0.id(), "/app/", 1) else { return };
    // To the process and to the client; the request, the report, the response. A relay that nothing has come through for a
    // millisecond is watched.
    assert_at_most(calls, &[("send", 2), ("recv", 3), ("epoll_wait", 3), ("epoll_ctl", 1)]);
}

#[test]
fn a_proxied_request_takes_one_receive_and_one_send_on_each_side_and_a_look() {
    let _machine = the_machine();
    let dir = tempfile::tempdir().unwrap();
    let server = pool(dir.path(), &format!("connect = \"http://{}\"", origin()));
    let Some(calls) = calls(dir.path(), server.0.id(), "/app/", 1) else { return };
    // The look is for all kept connections that get a request in one turn: here there is only one.
    assert_at_most(calls, &[("send", 2), ("recv", 2), ("ppoll", 1), ("epoll_wait", 2)]);
}

/// A server in that directory, which listens and says where in `output`.
fn start(dir: &Path, arguments: &[&str]) -> Running {
    let output = dir.join("output");
    let stdout = std::fs::File::create(&output).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_maitred"));
    command.args(arguments).current_dir(dir).env_remove("XDG_RUNTIME_DIR");
    let spawned = command.stdin(Stdio::null()).stdout(stdout).stderr(Stdio::null()).spawn();
    let mut server = Running(spawned.unwrap());
    wait_for_announcement(&mut server.0, &output);
    server
}

/// Where the server listens, from what it says when it is ready.
fn announced(said: &str) -> Option<String> {
    said.split_once("://").and_then(|(_, rest)| rest.split_once(' ')).map(|(address, _)| address.to_owned())
}

fn wait_for_announcement(server: &mut Child, output: &Path) {
    eventually("it says where it listens", || {
        assert!(matches!(server.try_wait(), Ok(None)), "it did not start");
        announced(&std::fs::read_to_string(output).unwrap()).is_some()
    });
}
