//! What an operator meets before and around a running server: exit codes and their messages, `check`, the service manager,
//! the admin socket, and the documents that are made from the code.

mod documents;
mod installed;
mod progress;

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixDatagram, UnixStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::LazyLock;

use maitred_config::{self as config, Identity, Lookup, Origin};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::support::{TIMEOUT, eventually, skip_here, skip_missing};

/// The account that owns nothing.
const NOBODY: u32 = 65534;

fn maitred(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_maitred"));
    command.args(arguments).env_remove("XDG_RUNTIME_DIR").env_remove("NOTIFY_SOCKET").stdin(Stdio::null());
    command
}

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// A site with a configuration: `server` goes into its `[server]` table.
fn site(address: &str, server: &str) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    std::fs::set_permissions(dir.path(), PermissionsExt::from_mode(0o755)).unwrap();
    std::fs::write(dir.path().join("index.html"), "hello\n").unwrap();
    let config = format!(
        "[server]\nthreads = 1\nshare_user = true\n{server}\n[[listen]]\naddress = \"{address}\"\n[[site]]\nroot = \".\"\n"
    );
    std::fs::write(dir.path().join("maitred.toml"), config).unwrap();
    dir
}

/// A running server.
struct Server(Child);

impl Server {
    /// Starts it, and waits until its error log says where it listens.
    fn start(mut command: Command) -> Server {
        let mut server = Server(command.stderr(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap());
        let mut lines = BufReader::new(server.0.stderr.take().unwrap()).lines();
        assert!(lines.any(|line| line.unwrap().contains("http://")), "it did not start");
        // Read on, so that it never meets a closed pipe.
        std::thread::spawn(move || lines.for_each(drop));
        server
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.0), signal).unwrap();
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if matches!(self.0.try_wait(), Ok(None)) {
            self.signal(Signal::INT);
        }
        self.0.wait().unwrap();
    }
}

#[test]
fn what_the_operator_did_wrong_exits_with_2_and_says_what_to_do() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("file");
    std::fs::write(&file, "").unwrap();
    let file = file.to_str().unwrap();
    for (arguments, message) in [
        (&["run"][..], "`maitred serve DIR` needs none"),
        (&["check", "-c", "none.toml"], "name one with `-c FILE`"),
        (&["check", "-c", file], "there is no [[site]]"),
        (&["serve", "none"], "cannot serve none: No such file"),
        (&["serve", file], "this is not a directory"),
        (&["serve", ".", "--listen", "nonsense"], "write an address and a port"),
        (&["serve", ".", "--listen", "localhost:80"], "names are not looked up"),
        (&["status"], "give -c FILE or --admin ADDR"),
        (&["reload", "--admin", "192.0.2.1:1"], "only loopback"),
        (&["stop", "-c", file], "set admin ="),
    ] {
        let output = maitred(arguments).current_dir(dir.path()).output().unwrap();
        let said = text(&output);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {said}");
        assert!(said.contains(message), "{arguments:?}: {said}");
    }
}

#[test]
fn what_cannot_be_done_exits_with_1() {
    let dir = site("192.0.2.1:0", "admin = \"unix:admin\"");
    for (arguments, message) in [
        (&["run"][..], "this machine does not have it"),
        (&["serve", ".", "-l", "192.0.2.1:0"], "this machine does not have it"),
        (&["status"], "there is no such socket"),
        (&["reload"], "there is no such socket"),
        (&["stop", "--admin", "unix:maitred.toml"], "nothing listens there"),
    ] {
        let output = maitred(arguments).current_dir(dir.path()).output().unwrap();
        let said = text(&output);
        assert_eq!(output.status.code(), Some(1), "{arguments:?}: {said}");
        assert!(said.contains(message), "{arguments:?}: {said}");
    }
}

#[test]
fn an_ordinary_user_is_told_what_takes_privileges() {
    use std::os::unix::process::CommandExt;
    if !rustix::process::geteuid().is_root() {
        return skip_here("it takes root to become an ordinary user");
    }
    let dir = tempfile::tempdir().unwrap();
    // Where the tests were built may be closed to others. Not copied by this process: a child that another test starts
    // meanwhile would inherit the file open for writing, and it could not be executed (ETXTBSY).
    let binary = dir.path().join("maitred");
    assert!(Command::new("cp").arg(env!("CARGO_BIN_EXE_maitred")).arg(&binary).status().unwrap().success());
    for path in [dir.path(), &binary] {
        std::fs::set_permissions(path, PermissionsExt::from_mode(0o755)).unwrap();
    }
    std::fs::create_dir(dir.path().join("closed")).unwrap();
    std::fs::set_permissions(dir.path().join("closed"), PermissionsExt::from_mode(0o700)).unwrap();
    let ordinary = |arguments: &[&str]| {
        let mut command = Command::new(&binary);
        command.args(arguments).current_dir(dir.path()).env_remove("XDG_RUNTIME_DIR");
        let output = command.uid(NOBODY).gid(NOBODY).output().unwrap();
        (output.status.code(), text(&output))
    };
    let (code, said) = ordinary(&["serve", "closed", "-l", "127.0.0.1:0"]);
    assert!(code == Some(2) && said.contains("cannot serve closed: Permission denied"), "{code:?} {said}");
    let unprivileged = std::fs::read_to_string("/proc/sys/net/ipv4/ip_unprivileged_port_start");
    if unprivileged.is_ok_and(|first| first.trim() == "1024") {
        let (code, said) = ordinary(&["serve", ".", "-l", "127.0.0.1:1"]);
        assert!(code == Some(1) && said.contains("ports below 1024 need root"), "{code:?} {said}");
    }
}

#[test]
fn a_check_binds_nothing_and_makes_nothing() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let dir = site(&address, "admin = \"unix:admin\"\npid_file = \"pid\"");
    let output = maitred(&["check"]).current_dir(dir.path()).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert_eq!(said, "maitred.toml: ok: 1 address, 1 site, 0 pools\n");
    // Root gets a warning about `share_user`.
    let warned = String::from_utf8_lossy(&output.stderr).matches("warning: ").count();
    assert_eq!(warned, usize::from(rustix::process::geteuid().is_root()));
    assert_eq!(output.status.code(), Some(0));
    let mut names: Vec<_> =
        std::fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    names.sort();
    assert_eq!(names, ["index.html", "maitred.toml"]);
}

#[test]
fn a_check_warns_of_users_in_the_memory_of_several_processes() {
    let dir = site("127.0.0.1:0", "");
    let config = dir.path().join("maitred.toml");
    let before = std::fs::read_to_string(&config).unwrap();
    std::fs::write(dir.path().join("app.py"), "from nicegui import ui\n").unwrap();
    for (lines, warned) in [("", true), ("workers = 1", false), ("sticky = \"cookie\"", false)] {
        let command = "command = [\"python3\", \"-m\", \"maitred.uvicorn\", \"app:app\"]";
        std::fs::write(&config, format!("{before}\n[pool.ui]\n{command}\n{lines}\n")).unwrap();
        let output = maitred(&["check"]).current_dir(dir.path()).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(
            said.contains("[pool.ui] has up to 32 processes, and app.py names nicegui"),
            warned,
            "{said}"
        );
    }
}

#[test]
fn the_service_manager_is_told_of_start_reload_and_stop() {
    let dir = site("127.0.0.1:0", "");
    let path = dir.path().join("notify");
    let manager = UnixDatagram::bind(&path).unwrap();
    manager.set_read_timeout(Some(TIMEOUT)).unwrap();
    let heard = || {
        let mut bytes = [0; 1024];
        let length = manager.recv(&mut bytes).unwrap();
        String::from_utf8_lossy(&bytes[..length]).into_owned()
    };
    let mut command = maitred(&["run"]);
    command.current_dir(dir.path()).env("NOTIFY_SOCKET", &path);
    let mut server = Server::start(command);
    assert!(heard().starts_with("READY=1\n"));
    server.signal(Signal::HUP);
    let reloading = heard();
    assert!(reloading.starts_with("RELOADING=1\nMONOTONIC_USEC="), "{reloading}");
    assert!(heard().starts_with("READY=1\n"));
    // Another executable, in the same process.
    server.signal(Signal::USR2);
    assert!(heard().starts_with("RELOADING=1\nMONOTONIC_USEC="));
    assert!(heard().starts_with("READY=1\n"));
    // A reload that is refused is over as well.
    let config = dir.path().join("maitred.toml");
    std::fs::write(&config, "[server]\nthread = 1\n").unwrap();
    server.signal(Signal::HUP);
    assert!(heard().starts_with("RELOADING=1\n"));
    let refused = heard();
    assert!(refused.starts_with("READY=1\nSTATUS=serving; reload refused: "), "{refused}");
    assert!(
        refused.contains("unknown key `thread` in [server]") && refused.trim_end().lines().count() == 2,
        "{refused}"
    );
    server.signal(Signal::TERM);
    assert!(heard().starts_with("STOPPING=1\n"));
    assert_eq!(server.0.wait().unwrap().code(), Some(0));
}

/// Standard error as systemd connects it: what reads it, the server's end, and the `JOURNAL_STREAM` that says so.
fn journal() -> (UnixStream, std::os::fd::OwnedFd, String) {
    let (journal, stderr) = UnixStream::pair().unwrap();
    journal.set_read_timeout(Some(TIMEOUT)).unwrap();
    let stderr = std::os::fd::OwnedFd::from(stderr);
    let stat = rustix::fs::fstat(&stderr).unwrap();
    (journal, stderr, format!("{}:{}", stat.st_dev, stat.st_ino))
}

/// sd-daemon(3): a priority before each line, and no time, which the journal has by itself.
#[test]
fn in_the_journal_lines_have_a_priority_and_no_time() {
    let dir = site("127.0.0.1:0", "");
    let (journal, stderr, stream) = journal();
    let run = |stderr: std::os::fd::OwnedFd| {
        let mut command = maitred(&["run"]);
        command.current_dir(dir.path()).env("JOURNAL_STREAM", &stream).stdout(Stdio::null());
        command.stderr(stderr).spawn().unwrap()
    };
    let mut server = run(stderr.try_clone().unwrap());
    let mut lines = BufReader::new(&journal).lines().map(Result::unwrap);
    let line = lines.find(|line| line.contains("http://")).unwrap();
    assert!(line.starts_with("<6>master: http://"), "{line}");
    kill_process(Pid::from_child(&server), Signal::USR1).unwrap();
    let line = lines.find(|line| line.contains("anew")).unwrap();
    assert_eq!(line, "<6>master: log files are opened anew");
    kill_process(Pid::from_child(&server), Signal::TERM).unwrap();
    assert!(server.wait().unwrap().success());
    // What is said before there is a log, each line of it.
    std::fs::write(dir.path().join("maitred.toml"), "[server]\nthread = 1\n").unwrap();
    assert_eq!(run(stderr).wait().unwrap().code(), Some(2));
    let rest: Vec<String> = lines.collect();
    assert!(rest.iter().any(|line| line.starts_with("<3>error: ")), "{rest:?}");
    assert!(rest.iter().all(|line| line.starts_with('<')), "{rest:?}");
    // Another stream than the one that is named is not the journal.
    let other = maitred(&["run"]).current_dir(dir.path()).env("JOURNAL_STREAM", &stream).output().unwrap();
    assert!(text(&other).starts_with("error: "), "{}", text(&other));
}

/// What application processes write has a priority as well, whatever it begins with, and so has each piece of a long line.
#[test]
fn in_the_journal_lines_of_applications_have_a_priority() {
    let dir = site("127.0.0.1:0", "");
    let config = dir.path().join("maitred.toml");
    let program = "echo out; echo '<0>err' >&2; printf '%020000d\\n' 0; echo '<2>'; exec sleep 1000";
    let pool = format!(
        "[[site.route]]\npath = \"/app/*\"\npool = \"app\"\n\
         [pool.app]\ncommand = [\"sh\", \"-c\", \"{program}\"]\nworkers = 1\n"
    );
    let text = std::fs::read_to_string(&config).unwrap();
    std::fs::write(&config, text + &pool).unwrap();
    let (journal, stderr, stream) = journal();
    let mut command = maitred(&["run"]);
    command.current_dir(dir.path()).env("JOURNAL_STREAM", &stream).stdout(Stdio::null()).stderr(stderr);
    let mut server = command.spawn().unwrap();
    drop(command);
    let mut all = Vec::new();
    for line in BufReader::new(&journal).lines().map(Result::unwrap) {
        let last = line.ends_with(": <2>");
        all.push(line);
        if last {
            break;
        }
    }
    kill_process(Pid::from_child(&server), Signal::INT).unwrap();
    server.wait().unwrap();
    let said: Vec<&str> = all.iter().filter_map(|line| line.strip_prefix("<6>app/0: ")).collect();
    let [out, err, zeros @ .., last] = said.as_slice() else { panic!("{all:?}") };
    assert_eq!((*out, *err, *last), ("out", "<0>err", "<2>"));
    assert!(zeros.len() > 1 && zeros.concat() == "0".repeat(20_000), "{} pieces", zeros.len());
    assert!(all.iter().all(|line| line.starts_with('<')), "{all:?}");
}

/// A service manager without `KillMode=mixed` signals all processes of the service.
#[test]
fn processes_have_names_and_a_worker_process_leaves_the_end_to_its_master() {
    let dir = site("127.0.0.1:0", "admin = \"unix:admin\"");
    let mut command = maitred(&["run"]);
    command.current_dir(dir.path());
    let mut server = Server::start(command);
    let document = status(dir.path());
    let worker = document["pid"].as_i64().unwrap() as i32;
    let name = |pid: i64| std::fs::read_to_string(format!("/proc/{pid}/comm")).unwrap();
    assert_eq!(name(worker.into()), "maitred-worker\n");
    assert_eq!(name(document["master_pid"].as_i64().unwrap()), "maitred\n");
    let worker = Pid::from_raw(worker).unwrap();
    for signal in [Signal::TERM, Signal::HUP, Signal::INT] {
        kill_process(worker, signal).unwrap();
    }
    let address = document["listens"][0]["address"].as_str().unwrap();
    assert!(get(address).starts_with("HTTP/1.1 200 "));
    assert_eq!(status(dir.path())["master"]["worker_crashes"], 0);
    assert_eq!(status(dir.path())["pid"], document["pid"]);
    server.signal(Signal::TERM);
    assert_eq!(server.0.wait().unwrap().code(), Some(0));
}

#[test]
fn a_second_server_leaves_the_first_ones_socket_and_pid_file_alone() {
    let dir = site("127.0.0.1:0", "admin = \"unix:admin\"\npid_file = \"pid\"");
    let command = |arguments: &[&str]| {
        let mut command = maitred(arguments);
        command.current_dir(dir.path());
        command
    };
    let mut server = Server::start(command(&["run"]));
    let second = command(&["run"]).output().unwrap();
    assert_eq!(second.status.code(), Some(1));
    assert!(text(&second).contains("is this server running already?"), "{}", text(&second));
    let pid = std::fs::read_to_string(dir.path().join("pid")).unwrap();
    assert_eq!(pid, format!("{}\n", server.0.id()));

    let status = command(&["status"]).output().unwrap();
    assert!(text(&status).contains(&format!("master {}\n", server.0.id())), "{}", text(&status));
    let status: Value =
        serde_json::from_slice(&command(&["status", "--json"]).output().unwrap().stdout).unwrap();
    assert_eq!(status["master_pid"], server.0.id());
    for known in [
        "/affinity/why",
        "/affinity/usable_cpus",
        "/listens/0/buckets/0",
        "/threads/0/home_cpu",
        "/reuseport",
    ] {
        assert!(status.pointer(known).is_some(), "{known} in {status}");
    }
    assert_eq!(text(&command(&["reload"]).output().unwrap()), "reloaded\n");
    assert_eq!(text(&command(&["stop"]).output().unwrap()), "stopped\n");
    let ended = server.0.try_wait().unwrap();
    assert_eq!(ended.and_then(|status| status.code()), Some(0), "it has ended when stop returns");
    assert!(!dir.path().join("admin").exists() && !dir.path().join("pid").exists());
}

#[test]
fn what_a_killed_server_left_behind_is_in_nobodys_way() {
    let dir = site("127.0.0.1:0", "admin = \"unix:admin\"\npid_file = \"pid\"");
    let start = || {
        let mut command = maitred(&["run"]);
        command.current_dir(dir.path());
        Server::start(command)
    };
    let mut killed = start();
    killed.0.kill().unwrap();
    killed.0.wait().unwrap();
    assert!(dir.path().join("admin").exists());
    // The worker process of the killed master has the admin socket too, and notices by itself that its master is gone.
    let admin = dir.path().join("admin");
    eventually("the orphaned worker process goes", || {
        std::os::unix::net::UnixStream::connect(&admin).is_err()
    });
    let next = start();
    assert_eq!(std::fs::read_to_string(dir.path().join("pid")).unwrap(), format!("{}\n", next.0.id()));
}

/// An application that writes without an end, and a log that is not read.
#[test]
fn a_log_that_nobody_reads_does_not_hold_the_master_up() {
    let dir = site("127.0.0.1:0", "admin = \"unix:admin\"");
    let pool =
        "[[site.route]]\npath = \"/app\"\npool = \"loud\"\n[pool.loud]\ncommand = [\"yes\"]\nworkers = 1\n";
    let config = dir.path().join("maitred.toml");
    let text = std::fs::read_to_string(&config).unwrap() + pool;
    std::fs::write(&config, text).unwrap();
    let mut command = maitred(&["run"]);
    command.current_dir(dir.path()).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut server = Server(command.spawn().unwrap());
    let log = server.0.stderr.take().unwrap();
    // A pipe takes 64 KiB, and no line of the application is half as long as the rest.
    eventually("the log is full", || rustix::io::ioctl_fionread(&log).unwrap() > 50 * 1024);
    let mut reload = maitred(&["reload"]).current_dir(dir.path()).spawn().unwrap();
    eventually("the master carries out the command", || reload.try_wait().unwrap().is_some());
    assert!(reload.wait().unwrap().success());
}

/// The answer to a request on a connection of its own.
fn get(address: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(TIMEOUT)).unwrap();
    stream.write_all(b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

fn status(dir: &Path) -> Value {
    let output = maitred(&["status", "--json"]).current_dir(dir).output().unwrap();
    serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{}", text(&output)))
}

#[test]
fn every_bucket_is_served_whatever_their_number() {
    for (threads, buckets, expected) in [
        (3, "\"auto\"", 1),
        (3, "\"per-thread\"", 3),
        (2, "5", 5),
        (3, "2", 2),
        (2, "\"per-thread\"\nsteer_by_cpu = true", 2),
    ] {
        let dir = site("127.0.0.1:0", "admin = \"unix:admin\"");
        let config = dir.path().join("maitred.toml");
        let text =
            std::fs::read_to_string(&config).unwrap().replace("threads = 1", &format!("threads = {threads}"));
        std::fs::write(&config, text.replace("[[site]]", &format!("buckets = {buckets}\n[[site]]"))).unwrap();
        let mut command = maitred(&["run"]);
        command.current_dir(dir.path());
        let _server = Server::start(command);
        let listen = &status(dir.path())["listens"][0];
        assert_eq!(listen["buckets"].as_array().unwrap().len(), expected, "{buckets}: {listen}");
        // The kernel spreads them by a hash: with so many, each bucket gets some.
        for _ in 0..64 {
            assert!(get(listen["address"].as_str().unwrap()).starts_with("HTTP/1.1 200 "), "{buckets}");
        }
    }
}

#[test]
fn buckets_of_no_use_are_warned_of_by_check_and_at_the_start() {
    let dir = site("127.0.0.1:0", "affinity = \"off\"");
    let config = dir.path().join("maitred.toml");
    let text_with = |buckets: &str| {
        let text = std::fs::read_to_string(&config).unwrap();
        let text = text.split("buckets").next().unwrap().split("[[site]]").next().unwrap().to_owned();
        std::fs::write(&config, format!("{text}{buckets}\n[[site]]\nroot = \".\"\n")).unwrap();
    };
    let check = || text(&maitred(&["check"]).current_dir(dir.path()).output().unwrap());
    assert!(!check().contains("buckets"), "{}", check());
    text_with("buckets = 3");
    let warning =
        "address 127.0.0.1:0: more buckets (3) than threads (1): one for each thread is all that is of use";
    assert!(check().contains(&format!("warning: {warning}")), "{}", check());
    let mut server = maitred(&["run"])
        .current_dir(dir.path())
        .stderr(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let lines = BufReader::new(server.stderr.take().unwrap()).lines().map(Result::unwrap);
    let said: Vec<String> = lines.take_while(|line| !line.contains("http://")).collect();
    kill_process(Pid::from_child(&server), Signal::INT).unwrap();
    server.wait().unwrap();
    assert!(said.iter().any(|line| line.contains("WARN") && line.contains(warning)), "{said:?}");
    // More than any machine has CPUs that could be read.
    text_with("buckets = 256\nsteer_by_cpu = true");
    let said = check();
    assert!(said.contains("of 256 buckets") || said.contains("more buckets (256)"), "{said}");
}

#[test]
fn threads_are_where_the_status_says() {
    for (affinity, pinned) in [("auto", true), ("off", false)] {
        let dir = site("127.0.0.1:0", &format!("admin = \"unix:admin\"\naffinity = \"{affinity}\""));
        let mut command = maitred(&["run"]);
        command.current_dir(dir.path());
        let _server = Server::start(command);
        let status = status(dir.path());
        assert!(status["affinity"]["why"].as_str().unwrap().starts_with(affinity), "{status}");
        let thread = &status["threads"][0];
        assert_eq!((thread["home_cpu"].is_u64(), thread["cpu"].is_u64()), (pinned, pinned), "{thread}");
        let tasks = std::fs::read_dir(format!("/proc/{}/task", status["pid"])).unwrap();
        let event_loop = tasks
            .map(|task| std::fs::read_to_string(task.unwrap().path().join("status")).unwrap_or_default())
            .find(|task| task.contains("loop-0"))
            .unwrap();
        let allowed =
            event_loop.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:")).unwrap().trim();
        if pinned {
            assert_eq!(allowed, thread["cpu"].to_string());
        } else {
            let mine = std::fs::read_to_string("/proc/self/status").unwrap();
            assert!(mine.contains(&format!("Cpus_allowed_list:\t{allowed}\n")), "{allowed}");
        }
    }
}

/// A machine that has every directory, every account, and every certificate.
struct Roomy;

/// A certificate and its key, in PEM.
static PAIR: LazyLock<(String, String)> = LazyLock::new(|| {
    let made = rcgen::generate_simple_self_signed(["example.com".to_owned()]).unwrap();
    (made.cert.pem(), made.signing_key.serialize_pem())
});

impl Lookup for Roomy {
    fn user(&self, name: &str) -> std::io::Result<Option<Identity>> {
        // Each user has another number.
        let uid = NOBODY + name.bytes().map(u32::from).sum::<u32>();
        Ok(Some(Identity::new(name, uid, uid)))
    }

    fn group(&self, name: &str) -> std::io::Result<Option<u32>> {
        Ok(Some(name.bytes().map(u32::from).sum()))
    }

    fn is_root(&self) -> bool {
        true
    }

    fn directory(&self, _: &Path) -> std::io::Result<()> {
        Ok(())
    }

    fn read(&self, path: &Path) -> std::io::Result<Vec<u8>> {
        let text = if path.to_string_lossy().contains("key") { &PAIR.1 } else { &PAIR.0 };
        Ok(text.as_bytes().to_vec())
    }
}

/// Every complete configuration of the repository: its place and its text.
fn configurations() -> Vec<(String, String)> {
    let read = |name: &str| std::fs::read_to_string(repository().join(name)).unwrap();
    let inside = |directory: &str| {
        let entries = std::fs::read_dir(repository().join(directory)).unwrap();
        let mut names: Vec<String> = entries
            .map(|entry| format!("{directory}/{}", entry.unwrap().file_name().into_string().unwrap()))
            .collect();
        names.sort();
        names
    };
    let files = inside("examples").into_iter().map(|example| format!("{example}/maitred.toml"));
    let files = files.filter(|name| repository().join(name).exists());
    let mut found: Vec<_> = files.map(|name| (name.clone(), read(&name))).collect();
    let documents = inside("docs").into_iter().filter(|name| name.ends_with(".md"));
    for name in documents.chain(["README.md".to_owned()]) {
        for (number, example) in (1..).zip(read(&name).split("```toml\n").skip(1)) {
            let example = example.split("```").next().unwrap();
            if example.contains("[[site]]") && example.contains("[[listen]]") {
                found.push((format!("{name}, example {number}"), example.to_owned()));
            }
        }
    }
    assert!(found.len() >= 20, "where have the examples gone? {found:?}");
    found
}

#[test]
fn whole_configurations_in_documents_are_good_and_keep_to_the_schema() {
    let schema = std::fs::read(repository().join("docs/maitred.schema.json")).unwrap();
    let schema: Value = serde_json::from_slice(&schema).unwrap();
    for (place, text) in configurations() {
        let origin = Origin { name: place.clone(), base: "/".into() };
        if let Err(errors) = config::read(&text, &origin, &Roomy) {
            panic!("{place}: {errors}");
        }
        let document: Value = toml::from_str(&text).unwrap();
        let errors = violations(&schema, &document);
        assert!(errors.is_empty(), "{place}: {errors:?}");
    }
}

#[test]
fn the_schema_refuses_what_is_wrong() {
    let schema = std::fs::read(repository().join("docs/maitred.schema.json")).unwrap();
    let schema: Value = serde_json::from_slice(&schema).unwrap();
    let good = "[[listen]]\naddress = \":1\"\n[[site]]\nroot = \"a\"\n";
    assert!(violations(&schema, &toml::from_str(good).unwrap()).is_empty());
    let sizes =
        "[limits]\nbody_bytes_max = \"100m\"\nhead_bytes_max = \"1.5 KiB\"\nhead_timeout = \"${TIME:-5}\"\n";
    assert_eq!(violations(&schema, &toml::from_str(&format!("{good}{sizes}")).unwrap()), [""; 0]);
    for bad in [
        "[server]\nthread = 1\n",
        "[server]\nthreads = \"many\"\n",
        "[server]\nthreads = 0\n",
        "[server]\ngrace = \"5 weeks\"\n",
        "[pool.web]\ncommand = [\"a\"]\nworkers = \"many\"\n",
        "[pool.web]\ncommand = \"python3\"\n",
        "[log]\naccess = \"xml\"\n",
        "[limits]\nbody_bytes_max = \"5mb\"\n",
        "[limits]\nhead_timeout = \"${TIME\"\n",
    ] {
        let document = toml::from_str(&format!("{good}{bad}")).unwrap();
        assert!(!violations(&schema, &document).is_empty(), "{bad}");
    }
}

/// What a document does that a JSON Schema forbids. Knows the keywords that the published schema uses, and fails on any other.
fn violations(schema: &Value, document: &Value) -> Vec<String> {
    let mut found = Vec::new();
    let mut refuse = |is_wrong: bool, keyword: &str| {
        if is_wrong {
            found.push(format!("{keyword}: {document}"));
        }
    };
    let mut inner = Vec::new();
    for (keyword, value) in schema.as_object().unwrap() {
        match keyword.as_str() {
            "$schema" | "title" | "description" | "default" => {}
            "type" => {
                let types = value.as_array().map_or(std::slice::from_ref(value), Vec::as_slice);
                refuse(!types.iter().any(|one| has_type(document, one.as_str().unwrap())), "type");
            }
            "enum" => refuse(!value.as_array().unwrap().contains(document), "enum"),
            "minimum" => refuse(document.as_u64() < value.as_u64(), "minimum"),
            "maximum" => refuse(document.as_u64() > value.as_u64(), "maximum"),
            "minItems" => refuse(document.as_array().is_none_or(Vec::is_empty), "minItems"),
            "uniqueItems" => {
                let items = document.as_array().unwrap();
                refuse((1..items.len()).any(|at| items[..at].contains(&items[at])), "uniqueItems");
            }
            "pattern" => {
                let text = document.as_str().unwrap_or_default();
                refuse(!is_number_with_unit(text, value.as_str().unwrap()), "pattern");
            }
            "required" => {
                let missing = |name: &Value| document.get(name.as_str().unwrap()).is_none();
                refuse(value.as_array().unwrap().iter().any(missing), "required");
            }
            "anyOf" => {
                refuse(
                    value.as_array().unwrap().iter().all(|one| !violations(one, document).is_empty()),
                    "anyOf",
                );
            }
            "items" => {
                inner.extend(
                    document.as_array().into_iter().flatten().flat_map(|item| violations(value, item)),
                );
            }
            "properties" | "additionalProperties" => {}
            other => panic!("the schema uses {other}, which this test does not know"),
        }
    }
    for (name, member) in document.as_object().into_iter().flatten() {
        match (schema.get("properties").and_then(|known| known.get(name)), schema.get("additionalProperties"))
        {
            (Some(known), _) => inner.extend(violations(known, member)),
            (None, Some(Value::Bool(false))) => found.push(format!("unknown {name}")),
            (None, Some(others)) => inner.extend(violations(others, member)),
            (None, None) => {}
        }
    }
    found.extend(inner);
    found
}

fn has_type(document: &Value, wanted: &str) -> bool {
    match wanted {
        "object" => document.is_object(),
        "array" => document.is_array(),
        "string" => document.is_string(),
        "boolean" => document.is_boolean(),
        "integer" => document.is_u64() || document.is_i64(),
        other => panic!("the schema uses the type {other}"),
    }
}

/// The forms of pattern in the schema: a placeholder, and `^[0-9]+ ?(UNIT|UNIT)$`, with `?` before the `$` where the unit can be
/// left out, a fraction before the unit where there can be one, and `[AB]` for units of one letter.
fn is_number_with_unit(text: &str, pattern: &str) -> bool {
    if pattern == r"\$\{.+\}" {
        return text.split_once("${").is_some_and(|(_, rest)| rest.contains('}'));
    }
    let (number, units) = pattern.split_once(" ?(").unwrap();
    let (units, end) = units.split_once(')').unwrap();
    let digits = |text: &str| text.trim_start_matches(|char: char| char.is_ascii_digit()).len();
    let mut rest = &text[text.len() - digits(text)..];
    match (number, rest.strip_prefix('.')) {
        (r"^[0-9]+(\.[0-9]{1,9})?", Some(fraction)) => rest = &fraction[fraction.len() - digits(fraction)..],
        ("^[0-9]+" | r"^[0-9]+(\.[0-9]{1,9})?", _) => {}
        _ => panic!("the schema uses {pattern}"),
    }
    let unit = rest.strip_prefix(' ').unwrap_or(rest);
    let is = |known: &str| match known.strip_prefix('[') {
        Some(letters) => unit.len() == 1 && letters.contains(unit),
        None => known == unit,
    };
    rest.len() < text.len() && (units.split('|').any(is) || (unit.is_empty() && end == "?$"))
}

#[test]
fn the_manual_page_renders_without_a_warning() {
    let page = repository().join("docs/maitred.1");
    let mut man = Command::new("man");
    man.args(["--warnings", "-l"]).arg(&page).envs([
        ("MANPAGER", "cat"),
        ("MANWIDTH", "80"),
        ("LC_ALL", "C"),
    ]);
    let rendered = man.output();
    let Ok(rendered) = rendered else {
        return skip_missing("there is no man(1) here");
    };
    let warnings = String::from_utf8_lossy(&rendered.stderr);
    assert!(rendered.status.success() && warnings.is_empty(), "{warnings}");
    let shown = String::from_utf8_lossy(&rendered.stdout);
    for expected in ["maitred serve [OPTIONS] <DIR>", "EXIT STATUS", "SIGHUP"] {
        assert!(shown.contains(expected), "{expected} in {shown}");
    }
}

#[test]
fn completions_work_in_bash() {
    let script = "source \"$1\" && COMP_WORDS=(maitred re) COMP_CWORD=1 && _maitred maitred re maitred && echo \"${COMPREPLY[@]}\" \
                  && COMP_WORDS=(maitred serve --no) COMP_CWORD=2 && _maitred maitred --no serve && echo \"${COMPREPLY[@]}\"";
    let completed = Command::new("bash")
        .args(["--norc", "-c", script, "bash"])
        .arg(repository().join("docs/completions/maitred.bash"))
        // bash warns of a locale that is not installed.
        .env("LC_ALL", "C")
        .output();
    let Ok(completed) = completed else {
        return skip_missing("there is no bash here");
    };
    assert_eq!(text(&completed), "reload\n--no-listing\n");
}
