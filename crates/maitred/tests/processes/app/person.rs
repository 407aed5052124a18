//! What a person sees who starts an application by one line: how it starts, how it fails, and how it ends.

use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::process::Signal;

use crate::app::{Running, WSGI, command, directory, node_directory, output};
use crate::support::{Client, eventually, skip_here};

const APPLICATION: &[&str] = &["app", "site_of_mine:application"];

#[test]
fn it_says_that_it_starts_and_that_it_is_ready_and_no_more() {
    let dir = directory(&[("site_of_mine.py", WSGI)]);
    let server = Running::start(dir.path(), APPLICATION);
    assert_eq!(server.get("/"), (200, "wsgi".to_owned()));
    let address = server.address;
    eventually("it is ready", || server.has_told("ready: "));
    let told = server.told.lock().unwrap().clone();
    let lines: Vec<&str> = told.lines().take(2).collect();
    assert_eq!(lines, ["starting site_of_mine:application", &format!("ready: http://{address}")]);
    assert_eq!(told.matches(&address.to_string()).count(), 1, "{told}");
    assert_eq!(*server.said.lock().unwrap(), "");
}

#[test]
fn the_log_of_the_server_can_be_had() {
    let dir = directory(&[("site_of_mine.py", WSGI)]);
    let server = Running::start(dir.path(), &[APPLICATION, &["--verbose"]].concat());
    assert_eq!(server.get("/").0, 200);
    assert!(server.has_said(" INFO  master: "));
}

#[test]
fn the_first_requests_wait_for_an_application_that_takes_its_time() {
    let slow = format!("import os, time\nwhile not os.path.exists('go'):\n    time.sleep(0.01)\n{WSGI}");
    let dir = directory(&[("site_of_mine.py", &slow)]);
    let printed = output(dir.path(), &[APPLICATION, &["--print-config"]].concat());
    let text = String::from_utf8(printed.stdout).unwrap();
    assert!(text.contains("queue = { timeout = \"30s\" }"), "{text}");
    // The address is said when the application is ready: until then, the test has to know it.
    let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let text = address.to_string();
    let arguments = [APPLICATION, &["--listen", &text]].concat();
    let response = std::thread::scope(|scope| {
        let asked = scope.spawn(|| {
            eventually("it listens", || TcpStream::connect(address).is_ok());
            let mut client = Client::connect(address);
            client.send("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n");
            std::fs::write(dir.path().join("go"), "").unwrap();
            client.response("GET")
        });
        let _server = Running::of(command(dir.path(), &arguments));
        asked.join().unwrap()
    });
    assert_eq!((response.status, response.text()), (200, "wsgi"));
}

#[test]
fn an_error_is_shown_once_and_to_whom_is_at_this_machine() {
    let broken = "import json\njson.loads('{')\n";
    let dir = directory(&[("site_of_mine.py", "import other\n"), ("other.py", broken)]);
    let server = Running::start(dir.path(), APPLICATION);
    eventually("503", || server.get("/").0 == 503);
    let (_, page) = server.get("/");
    for part in [
        "503 Service Unavailable",
        "other.py\", line 2",
        "JSONDecodeError",
        "importing 'site_of_mine' failed",
    ] {
        assert!(page.contains(part), "{part}: {page}");
    }
    assert!(!page.contains("importlib") && !page.contains("decoder.py"), "{page}");
    let (status, page) = server.get_from("shop.example.com");
    assert_eq!((status, page.contains("JSONDecodeError")), (503, false), "{page}");
    assert!(server.has_told(&format!(
        "not ready: the application does not start; http://{} shows why",
        server.address
    )));
    // Two processes have failed before there is a page.
    let said = server.said.lock().unwrap().clone();
    assert_eq!(said.matches("JSONDecodeError").count(), 1, "{said}");
    assert_eq!(said.matches("before it was ready").count(), 1, "{said}");
}

#[test]
fn an_error_of_node_is_shortened_too() {
    let files = [("server.js", "require('./other')"), ("other.js", "undefined.word")];
    let Some(dir) = node_directory(&files) else { return };
    for (arguments, whole) in [(&["app", "server.js"][..], false), (&["app", "server.js", "--verbose"], true)]
    {
        let server = Running::start(dir.path(), arguments);
        eventually("503", || server.get("/").0 == 503);
        let (_, page) = server.get("/");
        assert!(page.contains("TypeError") && page.contains("other.js:1"), "{page}");
        assert_eq!(page.contains("node:internal"), whole, "{page}");
        assert_eq!(server.has_said("node:internal"), whole);
    }
}

#[test]
fn the_end_of_the_terminal_is_that_of_the_server() {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:")).unwrap().trim();
    if u64::from_str_radix(ignored, 16).unwrap() & 1 == 1 {
        return skip_here("SIGHUP is ignored here, as by nohup, and so by the server");
    }
    let dir = directory(&[("site_of_mine.py", WSGI), ("public/index.html", "hello")]);
    for arguments in [APPLICATION, &["serve", "public"]] {
        let mut server = Running::start(dir.path(), arguments);
        assert_eq!(server.get("/").0, 200);
        server.signal(Signal::HUP);
        assert!(server.child.wait().unwrap().success(), "{arguments:?}");
    }
}

#[test]
fn nohup_keeps_the_server() {
    let dir = directory(&[("index.html", "hello")]);
    let mut shell = std::process::Command::new("sh");
    let run = "trap '' HUP; exec \"$0\" serve . --listen 127.0.0.1:0";
    shell.args(["-c", run]).arg(crate::support::binary()).current_dir(dir.path());
    let mut server = Running::of(shell);
    let worker = || {
        let pid = server.child.id();
        std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap()
    };
    let before = worker();
    server.signal(Signal::HUP);
    eventually("it is a reload, as ever", || !worker().is_empty() && worker() != before);
    assert_eq!(server.get("/"), (200, "hello".to_owned()));
    server.signal(Signal::TERM);
    assert!(server.child.wait().unwrap().success());
}

#[test]
fn what_may_not_be_executed_is_named_with_the_account() {
    if !rustix::process::geteuid().is_root() {
        return skip_here("only root can change to another account");
    }
    let dir = directory(&[("inner/run", "#!/bin/sh\n")]);
    let allow = |path: &Path, mode: u32| {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
    };
    allow(dir.path(), 0o755);
    allow(&dir.path().join("inner"), 0o700);
    allow(&dir.path().join("inner/run"), 0o755);
    let server = Running::start(dir.path(), &["app", "inner/run", "--user", "nobody"]);
    let inner = dir.path().join("inner").display().to_string();
    let why = format!("the account nobody may not enter the directory {inner} (mode 700");
    eventually("it is said", || server.has_said(&why));
    eventually("and shown", || server.get("/").1.contains(&why));
}

/// Ends a server as Ctrl-C does, up to five times: a busy machine may take longer once.
fn ends_within(dir: &Path, application: &str, limit: Duration) -> bool {
    (0..5).any(|_| {
        let mut server = Running::start(dir, &["app", application]);
        assert_eq!(server.get("/").0, 200);
        let asked = Instant::now();
        server.signal(Signal::INT);
        assert!(server.child.wait().unwrap().success());
        asked.elapsed() < limit
    })
}

#[test]
fn ctrl_c_is_no_wait() {
    let stays = format!("import threading\nthreading.Thread(target=threading.Event().wait).start()\n{WSGI}");
    let dir = directory(&[("site_of_mine.py", WSGI), ("stays.py", &stays)]);
    assert!(ends_within(dir.path(), "site_of_mine:application", Duration::from_millis(300)));
    // A process that does not end is killed.
    assert!(ends_within(dir.path(), "stays:application", Duration::from_millis(900)));
}
