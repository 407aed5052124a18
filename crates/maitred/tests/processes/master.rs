//! The real binary from outside: start, crash, reload, stop, what it inherits and what it leaves behind.

use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};

use rustix::process::Signal;

use crate::support::processes::send_signal;
use crate::support::{Client, Setup, binary, eventually};

/// A site of one file, on two threads with two buckets.
fn site() -> Setup {
    Setup::new().file("index.html", b"hello\n").server("threads = 2\ngrace = \"5s\"").listen("buckets = 2")
}

/// Asks for the file, on a connection of its own.
#[track_caller]
fn get(address: SocketAddr) {
    ask(&mut Client::connect(address));
}

#[track_caller]
fn ask(client: &mut Client) {
    let response = client.get("/");
    assert_eq!((response.status, response.text()), (200, "hello\n"));
}

#[test]
fn serve_prints_one_line_with_address_threads_and_buckets() {
    let mut command = Command::new(binary());
    command.args(["serve", "root", "--listen", "127.0.0.1:0", "--threads", "2"]);
    command.env_remove("XDG_RUNTIME_DIR").stdin(Stdio::null());
    let server = site().start_by(command);
    // The same line is in the error log; the order of the two streams is not the matter here.
    let line = server.wait_for_line(|line| line.starts_with("http://"));
    let (url, rest) = line.split_once("  ").unwrap();
    assert_eq!(rest, "2 threads, 1 bucket");
    get(url.strip_prefix("http://").unwrap().parse().unwrap());
}

#[test]
fn a_killed_worker_process_is_replaced_and_no_connection_is_refused() {
    let server = site().start();
    let address = server.address;
    get(address);
    for worker in server.children() {
        send_signal(worker, Signal::KILL);
    }
    // Waits in the master's socket until the next worker process is there.
    get(address);
    server.wait_for("was killed by SIGKILL; another one starts at once");
}

#[test]
fn a_reload_keeps_the_port_and_an_idle_connection() {
    let server = site().start();
    let address = server.address;
    let mut idle = server.connect();
    ask(&mut idle);
    let before = server.children();
    server.signal(Signal::HUP);
    server.wait_for("has taken over");
    server.wait_for("exited with status 0");
    assert_ne!(server.children(), before);
    ask(&mut idle);
    get(address);
}

#[test]
fn a_bad_reload_changes_nothing() {
    let server = site().start();
    let (address, config) = (server.address, server.path("maitred.toml"));
    let before = server.children();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let good = std::fs::read_to_string(&config).unwrap();
    let occupied = format!("{good}\n[[listen]]\naddress = \"{}\"\n", taken.local_addr().unwrap());
    for (bad, said) in
        [("[server]\nthread = 1\n", "did you mean"), (&occupied, "is in use by another process")]
    {
        std::fs::write(&config, bad).unwrap();
        server.signal(Signal::HUP);
        server.wait_for(said);
        assert_eq!(server.children(), before, "{said}");
        get(address);
    }
    let said = server.terminate(Signal::TERM).said;
    assert_eq!(said.iter().filter(|line| line.contains("reload refused")).count(), 2, "{said:#?}");
}

#[test]
fn a_reload_binds_a_new_address_and_closes_a_dropped_one() {
    let server = site().start();
    let (first, config) = (server.address, server.path("maitred.toml"));
    // An address that was free a moment ago, and that no other test uses.
    let second = TcpListener::bind("127.0.0.3:0").unwrap().local_addr().unwrap();
    let text = std::fs::read_to_string(&config).unwrap().replace("127.0.0.1:0", &second.to_string());
    std::fs::write(&config, text).unwrap();
    server.signal(Signal::HUP);
    server.wait_for("has taken over");
    get(second);
    server.wait_for("exited with status 0");
    assert!(TcpStream::connect(first).is_err());
}

#[test]
fn a_stop_ends_with_0_and_leaves_nothing_behind() {
    for signal in [Signal::TERM, Signal::QUIT, Signal::INT] {
        let setup = site();
        let pids = setup.directory.path().join("pids");
        let script = format!("echo $$ $MAITRED_POOL $MAITRED_SLOT $MAITRED_CHANNEL >> {}; ", pids.display());
        let pool =
            format!("[pool.web]\nworkers = 2\ncommand = [\"sh\", \"-c\", \"{script} exec sleep 1000\"]\n");
        let server =
            setup.server("pid_file = \"pid\"").route("/app/*", "pool = \"web\"").table(&pool).start();
        let (address, admin, pid_file) = (server.address, server.path("admin.sock"), server.path("pid"));
        get(address);
        assert_eq!(
            std::fs::read_to_string(&pid_file).unwrap(),
            format!("{}\n", server.pid().as_raw_nonzero())
        );
        assert_eq!(std::fs::metadata(&admin).unwrap().permissions().mode() & 0o777, 0o600);
        for environment in [" web 0 3", " web 1 3"] {
            wait_for_file(&pids, environment);
        }
        let children = server.children();
        assert_eq!(children.len(), 3, "one worker process, two application processes");
        // The server's directory lives on until the end of this block.
        let stopped = server.terminate(signal);
        assert_eq!(stopped.status.code(), Some(0), "{signal:?}");
        assert!(TcpStream::connect(address).is_err());
        assert!(!admin.exists() && !pid_file.exists());
        for child in children {
            assert!(!Path::new(&format!("/proc/{child}")).exists());
        }
    }
}

#[test]
fn exit_codes_tell_a_wrong_configuration_from_a_failure() {
    let server = site().server("thread = 2").launch();
    server.wait_for("unknown key `thread`");
    assert_eq!(server.wait_for_exit().status.code(), Some(2));
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let server = site().replacing_address(&taken.local_addr().unwrap().to_string()).launch();
    server.wait_for("is in use by another process");
    assert_eq!(server.wait_for_exit().status.code(), Some(1));
}

#[test]
fn sockets_of_a_service_manager_are_used() {
    let passed = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = passed.local_addr().unwrap();
    // As standard input the socket gets past the start of the shell, which moves it to where it belongs.
    let script = "exec 3<&0 0</dev/null; LISTEN_PID=$$ LISTEN_FDS=1 exec \"$0\" run -c maitred.toml";
    let mut command = Command::new("sh");
    command.args(["-c", script]).arg(binary()).stdin(OwnedFd::from(passed));
    let server = site().replacing_address(&address.to_string()).start_by(command);
    let line = server.wait_for("http://");
    assert!(line.ends_with("  2 threads, 1 bucket"), "as passed, whatever is configured: {line}");
    get(address);
    server.signal(Signal::HUP);
    server.wait_for("reloaded: worker process 2 has taken over");
    get(address);
    // Another executable in the same process gets them from the one before, not from the environment.
    server.signal(Signal::USR2);
    server.wait_for("upgraded: worker process 3 has taken over from 2");
    get(address);
    server.signal(Signal::HUP);
    server.wait_for("reloaded: worker process 4 has taken over");
    get(address);
}

#[test]
fn log_files_are_reopened_by_a_reload() {
    let server = site().log("error_file = \"error.log\"").launch();
    let (access, errors) = (server.path("access.log"), server.path("error.log"));
    let line = wait_for_file(&errors, "http://");
    let address = line.split_once("http://").unwrap().1.split_whitespace().next().unwrap().parse().unwrap();
    get(address);
    for log in [&access, &errors] {
        std::fs::rename(log, log.with_extension("old")).unwrap();
    }
    server.signal(Signal::HUP);
    wait_for_file(&errors, "has taken over");
    // Until it has received the message, the old worker process takes connections, and writes to the old file.
    wait_for_file(&errors, "exited with status 0");
    let mut client = Client::connect(address);
    client.method("GET", "/after", "Connection: close\r\n");
    client.end();
    let stopped = server.terminate(Signal::TERM);
    assert_eq!(stopped.status.code(), Some(0));
    let (before, after) = (
        std::fs::read_to_string(access.with_extension("old")).unwrap(),
        std::fs::read_to_string(&access).unwrap(),
    );
    assert!(before.contains("\"GET / HTTP/1.1\" 200 6") && !before.contains("/after"), "{before}");
    assert!(after.contains("\"GET /after HTTP/1.1\" 404 ") && !after.contains("GET / "), "{after}");
    let mode = std::fs::metadata(&access).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode, 0o640 & !umask());
}

/// What this process takes from the modes of new files, and what it starts too (proc_pid_status(5)).
/// As the process of this number says (proc_pid_status(5)): 2 is a filter, 0 none.
fn seccomp(pid: i32) -> String {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("Seccomp:"));
    line.unwrap().trim().to_owned()
}

#[test]
fn a_worker_process_is_bound_to_its_system_calls_unless_the_configuration_says_otherwise() {
    for (line, expected) in [("", "2"), ("seccomp = false", "0")] {
        let server = Setup::with_files().server(line).start();
        assert_eq!(server.connect().get("/a.txt").status, 200);
        // Where the tests themselves run under a filter, so does everything that they start.
        let own = seccomp(i32::try_from(std::process::id()).unwrap());
        assert_eq!(seccomp(server.worker()), if own == "0" { expected } else { "2" });
        server.stop();
    }
}

fn umask() -> u32 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let mask = status.lines().find_map(|line| line.strip_prefix("Umask:")).unwrap();
    u32::from_str_radix(mask.trim(), 8).unwrap()
}

/// The line of a file that contains `text`, once it is there.
fn wait_for_file(path: &Path, text: &str) -> String {
    let mut found = None;
    eventually(&format!("{text:?} in {}", path.display()), || {
        let content = std::fs::read_to_string(path).unwrap_or_default();
        found = content.lines().find(|line| line.contains(text)).map(str::to_owned);
        found.is_some()
    });
    found.unwrap()
}

#[test]
fn root_changes_to_the_account() {
    if !rustix::process::geteuid().is_root() {
        return crate::support::skip_here("only root can change to another account");
    }
    let server = site().server("user = \"nobody\"").start();
    get(server.address);
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
