//! Servers and logs that are not as they should be: clear messages, correct counts, exit codes.

mod support;

use std::net::TcpListener;
use std::time::Duration;

use support::*;

/// Count of a kind of failure.
fn failed(report: &serde_json::Value, kind: &str) -> u64 {
    let mut rows = report["failed"].as_array().into_iter().flatten();
    rows.find(|row| row[0] == kind).and_then(|row| row[1].as_u64()).unwrap_or(0)
}

#[test]
fn an_unreachable_server_is_told_at_once() {
    let (_reserved, address) = reserved_address();
    let directory = tempfile::tempdir().unwrap();
    let log = log_of(directory.path(), 10);
    let (code, message) = failing(&["replay", &log, "--to", &format!("http://{address}")]);
    assert_eq!(code, 1);
    assert!(message.contains("no connection to") && message.contains("Is the server running?"), "{message}");
}

#[test]
fn a_server_that_does_not_accept_is_told() {
    // The queue has room for one connection, which is taken: others get no answer at all, as from a host that is not there.
    let socket =
        rustix::net::socket(rustix::net::AddressFamily::INET, rustix::net::SocketType::STREAM, None).unwrap();
    rustix::net::bind(&socket, &std::net::SocketAddr::from(([127, 0, 0, 1], 0))).unwrap();
    rustix::net::listen(&socket, 0).unwrap();
    let listener = TcpListener::from(socket);
    let address = listener.local_addr().unwrap();
    let short = Duration::from_millis(200);
    let taken: Vec<_> = (0..8).map(|_| std::net::TcpStream::connect_timeout(&address, short)).collect();
    assert!(taken.iter().any(Result::is_err), "the queue is full");
    let directory = tempfile::tempdir().unwrap();
    let log = log_of(directory.path(), 10);
    let (code, message) = failing(&["replay", &log, "--to", &format!("http://{address}")]);
    assert!(code == 1 && message.contains("timed out. Is the server running?"), "{message}");
}

#[test]
fn a_server_that_goes_away_is_counted() {
    // The server answers once, and then neither accepts nor refuses for long: its listener is gone.
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        use std::io::{Read, Write};
        let _probe = listener.accept();
        let (mut stream, _) = listener.accept().unwrap();
        let _ = stream.read(&mut [0; 4096]);
        let _ = stream.write_all(&response(200, "ok"));
    });
    let directory = tempfile::tempdir().unwrap();
    let log = log_of(directory.path(), 5);
    let (code, report) =
        json(&["replay", &log, "--to", &format!("http://{address}"), "-c", "1", "--timeout", "2s"]);
    assert_eq!(code, 0, "one response was measured");
    assert_eq!(report["responses"], 1);
    assert_eq!(report["failures"], 4, "{report}");
    assert!(failed(&report, "connect") >= 3, "{report}");
}

#[test]
fn resets_are_counted() {
    let server = Server::start(|_, number, _| match number {
        0 => Act::Send(response(200, "ok")),
        _ => Act::SendAndReset(b"HTTP/1.1 200 OK\r\n".to_vec()),
    });
    let directory = tempfile::tempdir().unwrap();
    let log = log_of(directory.path(), 10);
    let (code, report) = json(&["replay", &log, "--to", &server.url(), "-c", "1"]);
    assert_eq!(code, 0);
    assert_eq!(report["responses"], 5);
    assert_eq!(failed(&report, "reset") + failed(&report, "cut"), 5, "{report}");
}

#[test]
fn a_kept_connection_that_was_closed_is_no_failure() {
    // Each connection answers once and is then closed without notice, as a server's keep-alive limit does.
    let server = Server::start(|_, number, _| match number {
        0 => Act::Send(response(200, "ok")),
        _ => Act::SendAndClose(Vec::new()),
    });
    let directory = tempfile::tempdir().unwrap();
    let log = log_of(directory.path(), 10);
    let (_, report) = json(&["replay", &log, "--to", &server.url(), "-c", "1"]);
    assert_eq!((&report["responses"], &report["failures"]), (&10.into(), &0.into()));
    assert_eq!((&report["sent_again"], &report["connections"]), (&9.into(), &10.into()));
}

#[test]
fn methods_that_are_not_idempotent_are_not_sent_again() {
    let server = Server::start(|_, number, _| match number {
        0 => Act::Send(response(200, "ok")),
        _ => Act::SendAndClose(Vec::new()),
    });
    let directory = tempfile::tempdir().unwrap();
    let text: String = (0..4).map(|_| line("::1", 0, "POST / HTTP/1.1", 200, "2")).collect();
    let log = write(directory.path(), "access.log", text.as_bytes());
    let (_, report) = json(&["replay", &log, "--to", &server.url(), "-c", "1", "--all-methods"]);
    assert_eq!((&report["responses"], &report["sent_again"]), (&2.into(), &0.into()));
    assert_eq!(failed(&report, "closed"), 2);
}

#[test]
fn a_server_that_stops_in_the_middle_is_counted() {
    let server = Server::start(|connection, _, _| match connection {
        0 => Act::SendAndClose(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf".to_vec()),
        1 => Act::SendAndClose(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhal".to_vec()),
        2 => Act::SendAndClose(b"HTTP/1.1 200 OK\r\nContent-".to_vec()),
        3 => Act::SendAndClose(b"".to_vec()),
        4 => Act::SendAndClose(b"SSH-2.0-OpenSSH\r\n".to_vec()),
        _ => Act::Send(response(200, "ok")),
    });
    let directory = tempfile::tempdir().unwrap();
    let log = log_of(directory.path(), 10);
    let (_, report) = json(&["replay", &log, "--to", &server.url(), "-c", "1"]);
    assert_eq!((&report["responses"], &report["failures"]), (&5.into(), &5.into()));
    let counts = ["cut", "closed", "malformed"].map(|kind| failed(&report, kind));
    assert_eq!(counts, [3, 1, 1], "{report}");
}

#[test]
fn a_server_that_says_nothing_times_out() {
    let server = Server::start(|connection, _, _| match connection {
        0 => Act::Hang,
        _ => Act::Send(response(200, "ok")),
    });
    let directory = tempfile::tempdir().unwrap();
    let log = log_of(directory.path(), 3);
    let (_, report) = json(&["replay", &log, "--to", &server.url(), "-c", "1", "--timeout", "200ms"]);
    assert_eq!((&report["responses"], failed(&report, "timeout")), (&2.into(), 1));
}

#[test]
fn nothing_measured_is_an_error() {
    let server = Server::start(|_, _, _| Act::SendAndClose(Vec::new()));
    let directory = tempfile::tempdir().unwrap();
    let log = log_of(directory.path(), 3);
    let output = program(&["replay", &log, "--to", &server.url()]);
    assert_eq!(output.status.code(), Some(1));
    let (stdout, stderr) =
        (String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap());
    assert!(stderr.contains("nothing was measured"), "{stderr}");
    assert!(stdout.contains("3: 3 closed without a response"), "{stdout}");
}

#[test]
fn responses_may_come_in_any_form_and_pieces() {
    let server = Server::start(|_, number, _| match number {
        0 => {
            let text = b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello";
            Act::Pieces(text.iter().map(|byte| vec![*byte]).collect(), Duration::from_millis(1))
        }
        1 => {
            let text = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabc\r\n4;x=y\r\ndefg\r\n0\r\nA: b\r\n\r\n";
            Act::Pieces(text.chunks(7).map(<[u8]>::to_vec).collect(), Duration::from_millis(1))
        }
        2 => Act::Send(b"HTTP/1.1 204 No Content\r\n\r\n".to_vec()),
        3 => Act::Send(
            [b"HTTP/1.1 200 OK\r\nContent-Length: 3000000\r\n\r\n".to_vec(), vec![b'x'; 3_000_000]].concat(),
        ),
        _ => Act::SendAndClose(b"HTTP/1.0 200 OK\r\n\r\nuntil the end".to_vec()),
    });
    let directory = tempfile::tempdir().unwrap();
    let log = log_of(directory.path(), 5);
    let (_, report) = json(&["replay", &log, "--to", &server.url(), "-c", "1"]);
    assert_eq!((&report["responses"], &report["failures"]), (&5.into(), &0.into()), "{report}");
    assert_eq!(report["body_bytes"], 5 + 7 + 3_000_000 + 13);
    assert_eq!(report["connections"], 1);
}

#[test]
fn logs_that_are_none_are_told() {
    let server = Server::answering("ok");
    let directory = tempfile::tempdir().unwrap();
    let told = |name: &str, bytes: &[u8]| {
        let log = write(directory.path(), name, bytes);
        let (code, message) = failing(&["replay", &log, "--to", &server.url()]);
        assert_eq!(code, 2, "{message}");
        message
    };
    assert!(told("empty", b"").contains("is empty"));
    let binary: Vec<u8> =
        (0..200_000_u32).map(|number| (number.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
    assert!(told("binary", &binary).contains("none is a line of an access log"));
    let posts = line("::1", 0, "POST / HTTP/1.1", 200, "2");
    assert!(told("posts", posts.as_bytes()).contains("1 have other methods"));
    let (code, message) = failing(&["replay", "/nonexistent.log", "--to", &server.url()]);
    assert!(code == 2 && message.contains("No such file"), "{message}");
    let (code, message) = failing(&["replay", directory.path().to_str().unwrap(), "--to", &server.url()]);
    assert!(code == 2 && message.contains("is a directory"), "{message}");
}

#[test]
fn malformed_lines_are_shown_and_not_fatal() {
    let (server, directory) = (Server::answering("ok"), tempfile::tempdir().unwrap());
    let good = line("::1", 0, "GET / HTTP/1.1", 200, "2");
    let text = format!("{good}what is this\n{good}{{\"time\":3}}\n{good}");
    let log = write(directory.path(), "access.log", text.as_bytes());
    let (code, report) = json(&["replay", &log, "--to", &server.url()]);
    assert_eq!((code, &report["responses"], &report["log"]["malformed"]), (0, &3.into(), &2.into()));
    assert_eq!(report["log"]["examples"][0]["line"], 2);
    let output = program(&["replay", &log, "--to", &server.url()]);
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("line 2: no time such as") && text.contains("what is this"), "{text}");
}

#[test]
fn a_log_of_a_gigabyte_takes_no_memory() {
    // A gigabyte of lines that cannot be read, through a pipe, and one that can. The limit on the address space, most of
    // which is reserved by threads and never used, is well below what keeping the log would take.
    let server = Server::answering("ok");
    let line = line("::1", 0, "GET / HTTP/1.1", 200, "2");
    let script = format!(
        "(yes \"$(head -c 60000 /dev/zero | tr '\\0' x)\" | head -c 1000000000; echo; echo '{}') \
         | (ulimit -v 500000; \"$0\" replay - --to {} --json)",
        line.trim_end(),
        server.url()
    );
    let output = std::process::Command::new("sh")
        .args(["-c", &script, env!("CARGO_BIN_EXE_maitred-load")])
        .output()
        .unwrap();
    let report: serde_json::Value = serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(&output.stderr)));
    assert_eq!((&report["responses"], &report["log"]["malformed"]), (&1.into(), &16_667.into()));
}

/// What a run needs does not grow with the log: the most memory it had, with ten megabytes of log and with a hundred.
#[test]
fn memory_is_constant() {
    let server = Server::answering("ok");
    // One line in a hundred is sent; the others are read, and counted.
    let mut block: String = (0..99).map(|_| line("::1", 0, "POST /form HTTP/1.1", 200, "2")).collect();
    block.push_str(&line("::2", 0, "GET / HTTP/1.1", 200, "2"));
    let directory = tempfile::tempdir().unwrap();
    let block_file = write(directory.path(), "block", block.trim_end().as_bytes());
    let memory = |bytes: usize| {
        let blocks = bytes / block.len();
        let script = format!(
            "yes \"$(cat {block_file})\" | head -c {} | \"$0\" replay - --to {} --json",
            blocks * block.len(),
            server.url()
        );
        let program = env!("CARGO_BIN_EXE_maitred-load");
        let output = std::process::Command::new("sh").args(["-c", &script, program]).output().unwrap();
        let report: serde_json::Value = serde_json::from_slice(&output.stdout)
            .unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(&output.stderr)));
        assert_eq!(report["log"]["lines"], 100 * blocks);
        assert_eq!(report["responses"], blocks);
        report["memory_bytes"].as_u64().unwrap()
    };
    let (small, large) = (memory(10_000_000), memory(100_000_000));
    assert!(small > 1_000_000, "the kernel says how much: {small}");
    assert!(large < small + 4_000_000, "ten megabytes of log took {small} bytes, a hundred {large}");
}

/// Time is the monotonic clock's: a wall clock that steps back and forth by an hour changes nothing.
#[test]
fn clock_steps_do_not_matter() {
    let directory = tempfile::tempdir().unwrap();
    let library = directory.path().join("clock_steps.so");
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/support/clock_steps.c");
    let compiler =
        std::process::Command::new("cc").args(["-shared", "-fPIC", "-o"]).arg(&library).arg(source).status();
    assert!(compiler.unwrap().success());
    let seconds = |command: &mut std::process::Command| -> i64 {
        String::from_utf8(command.arg("+%s").output().unwrap().stdout).unwrap().trim().parse().unwrap()
    };
    let right = seconds(&mut std::process::Command::new("date"));
    let wrong = seconds(std::process::Command::new("date").env("LD_PRELOAD", &library));
    assert!((wrong - right).abs() > 3000, "the clock does step: {right} and {wrong}");

    let server = Server::answering("ok");
    // A hundred seconds of log in one, in a closed loop, and with the log's own times.
    let text: String = (0..100).map(|second| line("::1", second, "GET / HTTP/1.1", 200, "2")).collect();
    let log = write(directory.path(), "access.log", text.as_bytes());
    for (pace, least) in
        [(&["--speed", "100x"][..], 0.9), (&["-d", "1s", "--loop"], 0.9), (&["--no-keep-alive"], 0.0)]
    {
        let output = std::process::Command::new(env!("CARGO_BIN_EXE_maitred-load"))
            .args(["replay", &log, "--to", &server.url(), "--json"])
            .args(pace)
            .env("LD_PRELOAD", &library)
            .output()
            .unwrap();
        let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        let elapsed = report["elapsed"].as_f64().unwrap();
        assert!((least..60.0).contains(&elapsed), "{pace:?}: {elapsed}");
        assert!(report["latency_us"]["max"].as_f64().unwrap() < 60e6, "{pace:?}: {report}");
        assert!(report["responses"].as_u64().unwrap() >= 100, "{pace:?}: {report}");
        assert_eq!(report["failures"], 0, "{pace:?}");
    }
}

#[test]
fn a_server_that_stops_under_the_mix_is_counted() {
    // The server goes away in the middle: what comes after is no response, and the connections do not conform.
    let answered = std::sync::atomic::AtomicUsize::new(0);
    let server =
        Server::start(move |_, _, _| match answered.fetch_add(1, std::sync::atomic::Ordering::Relaxed) {
            ..20 => Act::Send(response(200, "ok")),
            20..30 => Act::SendAndClose(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf".to_vec()),
            _ => Act::SendAndReset(Vec::new()),
        });
    let (code, report) = json(&["specweb", "--to", &server.url(), "-c", "3", "-d", "1s"]);
    assert_eq!((code, &report["responses"]), (0, &20.into()));
    assert_eq!(report["specweb"]["conforming"], 0);
    assert!(failed(&report, "cut") >= 8 && failed(&report, "reset") > 0, "{report}");

    let (_reserved, address) = reserved_address();
    for more in [&[][..], &["--search"]] {
        let to = format!("http://{address}");
        let (code, message) = failing(&[&["specweb", "--to", &to][..], more].concat());
        assert!(code == 1 && message.contains("Is the server running?"), "{message}");
    }
}

#[test]
fn a_signal_ends_the_run_with_its_results() {
    use std::io::Read;
    let (server, directory) = (Server::answering("ok"), tempfile::tempdir().unwrap());
    let log = log_of(directory.path(), 10);
    let mut process = std::process::Command::new(env!("CARGO_BIN_EXE_maitred-load"))
        .args(["replay", &log, "--to", &server.url(), "--loop", "-d", "60s", "--json"])
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    // The load generator is at work, so that it handles signals.
    while server.seen().is_empty() {
        std::thread::yield_now();
    }
    let pid = rustix::process::Pid::from_child(&process);
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    let mut text = String::new();
    process.stdout.take().unwrap().read_to_string(&mut text).unwrap();
    assert_eq!(process.wait().unwrap().code(), Some(0));
    let report: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(report["was_interrupted"], true);
    assert!(report["responses"].as_u64().unwrap() > 0);
    assert!(report["elapsed"].as_f64().unwrap() < 50.0);
}

/// A report that cannot be written is reported before the run, a full disk after it; neither keeps the other result from
/// coming.
#[test]
fn results_that_cannot_be_written_are_told() {
    let (server, directory) = (Server::answering("ok"), tempfile::tempdir().unwrap());
    let log = log_of(directory.path(), 3);
    let nowhere = directory.path().join("nowhere/report.html").display().to_string();
    for args in [&["replay", &log, "--loop", "-d", "60s"][..], &["specweb", "-c", "1", "-d", "60s"]] {
        let before = server.seen().len();
        let (code, message) = failing(&[args, &["--to", &server.url(), "--report", &nowhere]].concat());
        assert!(code == 2 && message.contains("nowhere/report.html: No such file"), "{message}");
        assert_eq!(server.seen().len(), before, "nothing was sent");
    }

    let output = program(&["replay", &log, "--to", &server.url(), "--report", "/dev/full", "--json"]);
    let message = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.code() == Some(1) && message.contains("/dev/full: No space left"), "{message}");
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report["responses"], 3);

    let page = directory.path().join("report.html");
    let output = std::process::Command::new(env!("CARGO_BIN_EXE_maitred-load"))
        .args(["replay", &log, "--to", &server.url(), "--json", "--report"])
        .arg(&page)
        .stdout(std::fs::File::create("/dev/full").unwrap())
        .output()
        .unwrap();
    let message = String::from_utf8(output.stderr).unwrap();
    assert!(
        output.status.code() == Some(1) && message.contains("writing the results: No space"),
        "{message}"
    );
    assert!(std::fs::read_to_string(page).unwrap().contains("</html>"), "the page was written");
}

#[test]
fn a_public_address_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let log = log_of(directory.path(), 3);
    let (code, message) = failing(&["replay", &log, "--to", "http://192.0.2.1:80"]);
    assert!(code == 2 && message.contains("--i-own-this-host"), "{message}");
    let (code, message) = failing(&["replay", &log, "--to", "http://example.com"]);
    assert!(code == 2 && message.contains("is a name"), "{message}");
}
