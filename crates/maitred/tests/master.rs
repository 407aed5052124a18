//! The real binary from outside: start, crash, reload, stop, what it inherits and what it leaves behind.

#![allow(clippy::unwrap_used, reason = "helpers of tests, which clippy.toml does not know to be such")]

use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

use maitred_sys::spawn::{Child, Command, Exit};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, Signal, kill_process};

/// After this, something hangs.
const PATIENCE: Duration = Duration::from_secs(30);

/// A running server, and the lines of its standard output and standard error.
struct Server {
    child: Child,
    lines: Receiver<String>,
}

impl Server {
    /// Starts the binary; `change` may add descriptors or put a shell around it.
    fn start(arguments: &[&str], change: impl FnOnce(&mut Command<'_>)) -> Server {
        let (reader, writer) = std::io::pipe().unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_maitred"));
        for argument in arguments {
            command.arg(*argument);
        }
        command.env_remove("XDG_RUNTIME_DIR");
        change(&mut command);
        let child = {
            let stream = writer.as_fd();
            // The borrow of the descriptors has to end with this block.
            let mut command = command;
            command.stdout(stream).stderr(stream);
            command.spawn().unwrap()
        };
        drop(writer);
        let (sender, lines) = channel();
        std::thread::spawn(move || {
            let lines = BufReader::new(reader).lines().map_while(Result::ok);
            lines.for_each(|line| drop(sender.send(line)));
        });
        Server { child, lines }
    }

    fn run(config: &Path) -> Server {
        Server::start(&["run", "-c", config.to_str().unwrap()], |_| ())
    }

    /// The next line that contains `text`.
    fn line(&self, text: &str) -> String {
        let mut seen = Vec::new();
        loop {
            match self.lines.recv_timeout(PATIENCE) {
                Ok(line) if line.contains(text) => return line,
                Ok(line) => seen.push(line),
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {
                    panic!("no line with {text:?} in {seen:#?}")
                }
            }
        }
    }

    /// Where it listens, from its announcement.
    fn address(&self) -> SocketAddr {
        let line = self.line("http://");
        let (_, rest) = line.split_once("http://").unwrap();
        rest.split_whitespace().next().unwrap().parse().unwrap()
    }

    fn signal(&self, signal: Signal) {
        kill_process(pid(self.child.pid()), signal).unwrap();
    }

    /// Its child processes.
    fn children(&self) -> Vec<u32> {
        let id = self.child.pid();
        let text = std::fs::read_to_string(format!("/proc/{id}/task/{id}/children")).unwrap();
        text.split_whitespace().map(|number| number.parse().unwrap()).collect()
    }

    fn wait(&self) -> Exit {
        assert!(ends(&self.child), "the server does not end");
        self.child.wait().unwrap()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Ok(None) = self.child.try_wait() {
            // It ends its children, which a killed master could not.
            self.signal(Signal::INT);
            if !ends(&self.child) {
                self.child.kill().unwrap();
            }
            let _ = self.child.wait();
        }
    }
}

fn ends(child: &Child) -> bool {
    let patience = Timespec::try_from(PATIENCE).unwrap();
    poll(&mut [PollFd::new(child, PollFlags::IN)], Some(&patience)).unwrap() == 1
}

fn pid(number: u32) -> Pid {
    Pid::from_raw(number.try_into().unwrap()).unwrap()
}

/// Sends a request on a connection, and reads the answer up to the end of its body.
fn ask(stream: &mut TcpStream) -> String {
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.write_all(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
    let mut answer = String::new();
    let mut bytes = [0; 1024];
    while !answer.ends_with("hello\n") {
        let got = stream.read(&mut bytes).unwrap();
        assert!(got > 0, "the connection was closed after {answer:?}");
        answer.push_str(std::str::from_utf8(&bytes[..got]).unwrap());
    }
    answer
}

/// Asks for a path on a connection of its own, and reads to its end.
fn ask_and_close(address: SocketAddr, path: &str) {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let request = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).unwrap();
    stream.read_to_end(&mut Vec::new()).unwrap();
}

fn get(address: SocketAddr) -> String {
    ask(&mut TcpStream::connect(address).unwrap())
}

/// A directory with a site and a configuration: `more` is added to its `[server]` table, `after` to its end.
fn site(address: &str, more: &str, after: &str) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    // An account without privileges has to reach it.
    std::fs::set_permissions(dir.path(), PermissionsExt::from_mode(0o755)).unwrap();
    std::fs::write(dir.path().join("index.html"), "hello\n").unwrap();
    let config = format!(
        "[server]\nthreads = 2\ngrace = \"5s\"\n{more}\n[[listen]]\naddress = \"{address}\"\nbuckets = 2\n\
         [[site]]\nroot = \"{}\"\n{after}\n",
        dir.path().display()
    );
    std::fs::write(dir.path().join("maitred.toml"), config).unwrap();
    dir
}

#[test]
fn serve_prints_one_line_with_address_threads_and_buckets() {
    let dir = site("127.0.0.1:0", "", "");
    let path = dir.path().to_str().unwrap();
    let server = Server::start(&["serve", path, "--listen", "127.0.0.1:0", "--threads", "2"], |_| ());
    let mut line = server.line("http://");
    if line.contains("INFO") {
        // The same line is in the error log; the order of the two streams is not the matter here.
        line = server.line("http://");
    }
    let (url, rest) = line.split_once("  ").unwrap();
    assert_eq!(rest, "2 threads, 1 bucket");
    assert!(get(url.strip_prefix("http://").unwrap().parse().unwrap()).starts_with("HTTP/1.1 200 "));
}

#[test]
fn a_killed_worker_process_is_replaced_and_no_connection_is_refused() {
    let dir = site("127.0.0.1:0", "", "");
    let server = Server::run(&dir.path().join("maitred.toml"));
    let address = server.address();
    get(address);
    for worker in server.children() {
        kill_process(pid(worker), Signal::KILL).unwrap();
    }
    // Waits in the master's socket until the next worker process is there.
    get(address);
    server.line("was killed by SIGKILL; another one starts at once");
}

#[test]
fn a_reload_keeps_the_port_and_an_idle_connection() {
    let dir = site("127.0.0.1:0", "", "");
    let server = Server::run(&dir.path().join("maitred.toml"));
    let address = server.address();
    let mut idle = TcpStream::connect(address).unwrap();
    ask(&mut idle);
    let before = server.children();
    server.signal(Signal::HUP);
    server.line("has taken over");
    server.line("exited with status 0");
    assert_ne!(server.children(), before);
    ask(&mut idle);
    get(address);
}

#[test]
fn a_bad_reload_changes_nothing() {
    let dir = site("127.0.0.1:0", "", "");
    let config = dir.path().join("maitred.toml");
    let server = Server::run(&config);
    let address = server.address();
    let before = server.children();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let good = std::fs::read_to_string(&config).unwrap();
    let occupied = format!("{good}\n[[listen]]\naddress = \"{}\"\n", taken.local_addr().unwrap());
    for (bad, reason) in [("[server]\nthread = 1\n", "unknown key"), (&occupied, "in use by another process")]
    {
        std::fs::write(&config, bad).unwrap();
        server.signal(Signal::HUP);
        server.line("reload refused");
        if reason == "unknown key" {
            server.line("did you mean");
        }
        assert_eq!(server.children(), before, "{reason}");
        get(address);
    }
}

#[test]
fn a_reload_binds_a_new_address_and_closes_a_dropped_one() {
    let dir = site("127.0.0.1:0", "", "");
    let config = dir.path().join("maitred.toml");
    let server = Server::run(&config);
    let first = server.address();
    // An address that was free a moment ago, other than the present one.
    let second = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let text = std::fs::read_to_string(&config).unwrap().replace("127.0.0.1:0", &second.to_string());
    std::fs::write(&config, text).unwrap();
    server.signal(Signal::HUP);
    server.line("has taken over");
    get(second);
    server.line("exited with status 0");
    assert!(TcpStream::connect(first).is_err());
}

#[test]
fn a_stop_ends_with_0_and_leaves_nothing_behind() {
    for signal in [Signal::TERM, Signal::QUIT, Signal::INT] {
        let dir = tempfile::tempdir().unwrap();
        let (admin, pid_file, pids) =
            (dir.path().join("admin"), dir.path().join("pid"), dir.path().join("pids"));
        let more = format!("admin = \"unix:{}\"\npid_file = \"{}\"", admin.display(), pid_file.display());
        let script = format!("echo $$ $MAITRED_POOL $MAITRED_SLOT $MAITRED_CHANNEL >> {}; ", pids.display());
        let pool = format!(
            "[[site.route]]\npath = \"/app/*\"\npool = \"web\"\n[pool.web]\nworkers = 2\n\
             command = [\"sh\", \"-c\", \"{script} exec sleep 1000\"]\n"
        );
        let site = site("127.0.0.1:0", &more, &pool);
        let server = Server::run(&site.path().join("maitred.toml"));
        let address = server.address();
        get(address);
        assert_eq!(std::fs::read_to_string(&pid_file).unwrap(), format!("{}\n", server.child.pid()));
        assert_eq!(std::fs::metadata(&admin).unwrap().permissions().mode() & 0o777, 0o600);
        for environment in [" web 0 3", " web 1 3"] {
            wait_for_file(&pids, environment);
        }
        let children = server.children();
        assert_eq!(children.len(), 3, "one worker process, two application processes");
        server.signal(signal);
        assert_eq!(server.wait(), Exit::Status(0), "{signal:?}");
        assert!(TcpStream::connect(address).is_err());
        assert!(!admin.exists() && !pid_file.exists());
        for child in children {
            assert!(!Path::new(&format!("/proc/{child}")).exists());
        }
    }
}

#[test]
fn exit_codes_tell_a_wrong_configuration_from_a_failure() {
    let dir = site("127.0.0.1:0", "thread = 2", "");
    let server = Server::run(&dir.path().join("maitred.toml"));
    server.line("unknown key `thread`");
    assert_eq!(server.wait(), Exit::Status(2));
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let dir = site(&taken.local_addr().unwrap().to_string(), "", "");
    let server = Server::run(&dir.path().join("maitred.toml"));
    server.line("is in use by another process");
    assert_eq!(server.wait(), Exit::Status(1));
}

#[test]
fn sockets_of_a_service_manager_are_used() {
    let passed = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = passed.local_addr().unwrap();
    let dir = site(&address.to_string(), "", "");
    let config = dir.path().join("maitred.toml");
    let script = format!(
        "LISTEN_PID=$$ LISTEN_FDS=1 exec {} run -c {}",
        env!("CARGO_BIN_EXE_maitred"),
        config.display()
    );
    let (reader, writer) = std::io::pipe().unwrap();
    let mut command = Command::new("sh");
    command.arg("-c").arg(script).descriptor(passed.as_fd());
    command.stdout(writer.as_fd()).stderr(writer.as_fd());
    let child = command.spawn().unwrap();
    drop(command);
    drop(writer);
    let (sender, lines) = channel();
    std::thread::spawn(move || {
        BufReader::new(reader).lines().map_while(Result::ok).for_each(|line| drop(sender.send(line)));
    });
    let server = Server { child, lines };
    assert!(server.line("http://").ends_with("  2 threads, 1 bucket"), "as passed, whatever is configured");
    get(address);
    server.signal(Signal::HUP);
    server.line("has taken over");
    get(address);
    // Another executable in the same process gets them from the one before, not from the environment.
    server.signal(Signal::USR2);
    server.line("upgraded: worker process 3 has taken over from 2");
    get(address);
    server.signal(Signal::HUP);
    server.line("reloaded: worker process 4 has taken over");
    get(address);
}

#[test]
fn log_files_are_reopened_by_a_reload() {
    let logs = tempfile::tempdir().unwrap();
    let (access, errors) = (logs.path().join("access.log"), logs.path().join("error.log"));
    let table = format!(
        "[log]\naccess = \"combined\"\naccess_file = \"{}\"\nerror_file = \"{}\"\n",
        access.display(),
        errors.display()
    );
    let dir = site("127.0.0.1:0", "", &table);
    let server = Server::run(&dir.path().join("maitred.toml"));
    let address = wait_for_file(&errors, "http://");
    let address =
        address.split_once("http://").unwrap().1.split_whitespace().next().unwrap().parse().unwrap();
    get(address);
    for log in [&access, &errors] {
        std::fs::rename(log, log.with_extension("old")).unwrap();
    }
    server.signal(Signal::HUP);
    wait_for_file(&errors, "has taken over");
    // Until it has heard of it, the old worker process takes connections, and writes to the old file.
    wait_for_file(&errors, "exited with status 0");
    ask_and_close(address, "/after");
    server.signal(Signal::TERM);
    assert_eq!(server.wait(), Exit::Status(0));
    let (before, after) = (
        std::fs::read_to_string(access.with_extension("old")).unwrap(),
        std::fs::read_to_string(&access).unwrap(),
    );
    assert!(before.contains("\"GET / HTTP/1.1\" 200 6") && !before.contains("/after"), "{before}");
    assert!(after.contains("\"GET /after HTTP/1.1\" 404 ") && !after.contains("GET / "), "{after}");
    assert_eq!(std::fs::metadata(&access).unwrap().permissions().mode() & 0o777, 0o640);
}

/// The line of a file that contains `text`, once it is there.
fn wait_for_file(path: &Path, text: &str) -> String {
    let end = std::time::Instant::now() + PATIENCE;
    while std::time::Instant::now() < end {
        let mut content = String::new();
        if let Ok(mut file) = File::open(path) {
            file.read_to_string(&mut content).unwrap();
        }
        if let Some(line) = content.lines().find(|line| line.contains(text)) {
            return line.to_owned();
        }
        std::thread::yield_now();
    }
    panic!("no {text:?} in {}", path.display());
}

#[test]
fn root_changes_to_the_account() {
    if !rustix::process::geteuid().is_root() {
        return eprintln!("SKIPPED: only root can change to another account");
    }
    let dir = site("127.0.0.1:0", "user = \"nobody\"", "");
    let server = Server::run(&dir.path().join("maitred.toml"));
    get(server.address());
    for worker in server.children() {
        let status = std::fs::read_to_string(format!("/proc/{worker}/status")).unwrap();
        let field = |name: &str| {
            let line = status.lines().find(|line| line.starts_with(name)).unwrap();
            line.split_whitespace().skip(1).map(str::to_owned).collect::<Vec<_>>()
        };
        assert!(field("Uid:").iter().all(|id| id == "65534"), "{status}");
        assert!(field("Gid:").iter().all(|id| id == "65534"), "{status}");
        assert_eq!(field("NoNewPrivs:"), ["1"]);
        assert_eq!(field("CapEff:"), ["0000000000000000"]);
    }
}
