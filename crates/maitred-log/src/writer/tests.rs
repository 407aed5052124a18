use std::io::Read as _;
use std::os::fd::AsFd;

use maitred_http::request::Version;

use super::*;
use crate::access::RequestLine;
use maitred_base::clock::Clock;

/// Long enough for any machine; a test that works never waits for it.
const TIMEOUT: Duration = Duration::from_secs(30);

fn clock(now: Instant) -> Clock {
    Clock {
        now,
        unix_secs: 784_111_777,
        unix_micros: 0,
        steady_us: 0,
        http_date: *b"Sun, 06 Nov 1994 08:49:37 GMT",
    }
}

fn push(log: &mut ThreadLog, now: Instant, target: &str) {
    log.push(&Line {
        clock: &clock(now),
        remote: b"192.0.2.7",
        user: None,
        request: RequestLine::Parsed { method: "GET", target, version: Version::Http11 },
        host: b"",
        status: 200,
        body_bytes: 1,
        head: None,
        referer: None,
        user_agent: None,
        request_id: None,
        duration_us: 1,
        pool: None,
        queue_us: 0,
        cache: "",
        upstream: None,
    });
}

fn settings(format: AccessFormat, buffer_bytes_max: usize) -> Settings {
    Settings { format: format.into(), colour: false, threads: 2, buffer_bytes_max, sample: 1 }
}

#[test]
fn everything_is_written_in_order_before_stop_returns() {
    let (mut reader, pipe) = std::io::pipe().expect("pipe");
    let reading = std::thread::spawn(move || {
        let mut text = String::new();
        reader.read_to_string(&mut text).map(|_| text)
    });
    let writer =
        Writer::start(pipe.into(), Framing::Lines, settings(AccessFormat::Combined, 1 << 20)).expect("start");
    let (mut one, mut two) = (writer.thread_log(), writer.thread_log());
    let now = Instant::now();
    let mut lost = 0;
    for number in 0..5_000 {
        push(&mut one, now, &format!("/one/{number:04}"));
        push(&mut two, now, &format!("/two/{number:04}"));
        lost += one.tick(now) + two.tick(now);
    }
    drop((one, two));
    writer.stop(TIMEOUT).expect("all is written");
    let text = reading.join().expect("no panic").expect("read");
    let seen = |thread: &str| -> Vec<String> {
        text.lines()
            .filter_map(|line| line.split_once(thread))
            .map(|(_, rest)| rest[..4].to_owned())
            .collect()
    };
    assert_eq!(text.lines().count() as u64 + lost, 10_000);
    for thread in ["/one/", "/two/"] {
        assert!(seen(thread).is_sorted(), "lines of one thread keep their order");
    }
}

#[test]
fn a_buffer_is_handed_over_when_it_is_old_or_full() {
    let (mut reader, pipe) = std::io::pipe().expect("pipe");
    let writer =
        Writer::start(pipe.into(), Framing::Lines, settings(AccessFormat::Combined, 1 << 20)).expect("start");
    let mut log = writer.thread_log();
    let now = Instant::now();
    assert_eq!(log.flush_due(), None);
    push(&mut log, now, "/old");
    assert_eq!(log.flush_due(), Some(now + FLUSH_AFTER));
    log.tick(now + FLUSH_AFTER - Duration::from_millis(1));
    assert!(!log.buffer.is_empty());
    log.tick(now + FLUSH_AFTER);
    assert!(log.buffer.is_empty());
    assert_eq!(log.flush_due(), None);
    let mut first = [0; 9];
    reader.read_exact(&mut first).expect("the line came without stop");
    assert_eq!(&first, b"192.0.2.7");

    push(&mut log, now, "/full");
    let line = log.buffer.len();
    for _ in 1..FLUSH_BYTES.div_ceil(line) {
        assert!(!log.buffer.is_empty());
        push(&mut log, now, "/full");
    }
    assert_eq!((log.buffer.len(), log.flush_due()), (0, None));
}

#[test]
fn lines_for_a_person_do_not_wait() {
    let (mut reader, pipe) = std::io::pipe().expect("pipe");
    let writer =
        Writer::start(pipe.into(), Framing::Lines, settings(AccessFormat::Human, 1 << 20)).expect("start");
    let mut log = writer.thread_log();
    let now = Instant::now();
    push(&mut log, now, "/");
    log.tick(now);
    let mut text = [0; 8];
    reader.read_exact(&mut text).expect("it is there at once");
    assert_eq!(&text, b"08:49:37");
}

#[test]
fn a_stuck_reader_costs_lines_and_nothing_else() {
    let (reader, pipe) = std::io::pipe().expect("pipe");
    let bytes_max = 256 * 1024;
    let writer = Writer::start(pipe.into(), Framing::Lines, settings(AccessFormat::Combined, bytes_max))
        .expect("start");
    let mut log = writer.thread_log();
    let now = Instant::now();
    let mut dropped = 0;
    let mut pushed = 0;
    // Nothing is read: pipe (64 KiB) and buffers fill up, and a pusher that blocked would never come to the end.
    loop {
        push(&mut log, now, "/stuck");
        pushed += 1;
        let link = log.link.as_ref().expect("on");
        assert!(log.buffer.len() + link.in_flight_bytes <= bytes_max);
        let due = log.flush_due();
        dropped += log.tick(due.unwrap_or(now));
        // A full writer is not tried again at once.
        if dropped > 10_000 && due.is_some() && log.flush_due() > due {
            break;
        }
    }

    // The pipe is read at last: what was taken comes out whole, to the last line.
    let reading = std::thread::spawn(move || std::io::read_to_string(reader));
    drop(log);
    writer.stop(TIMEOUT).expect("all is written");
    let text = reading.join().expect("no panic").expect("read");
    assert_eq!(text.lines().count() as u64 + dropped, pushed);
    assert!(text.lines().all(|line| line.ends_with("\"GET /stuck HTTP/1.1\" 200 1 \"-\" \"-\"")));
}

#[test]
fn stop_gives_up_on_a_pipe_that_nobody_reads() {
    let (reader, pipe) = std::io::pipe().expect("pipe");
    let writer =
        Writer::start(pipe.into(), Framing::Lines, settings(AccessFormat::Combined, 1 << 20)).expect("start");
    let mut log = writer.thread_log();
    let now = Instant::now();
    for _ in 0..5_000 {
        push(&mut log, now, "/stuck");
    }
    drop(log);
    assert!(writer.stop(Duration::ZERO).is_err());
    drop(reader);
}

#[test]
fn a_full_disk_is_counted_and_survived() {
    let full = std::fs::File::options().write(true).open("/dev/full").expect("/dev/full");
    let writer =
        Writer::start(full.into(), Framing::Lines, settings(AccessFormat::Combined, 1 << 20)).expect("start");
    let mut log = writer.thread_log();
    let mut now = Instant::now();
    push(&mut log, now, "/lost");
    push(&mut log, now, "/lost");
    let mut lost = 0;
    while lost < 2 {
        now += FLUSH_AFTER;
        push(&mut log, now, "/more");
        lost += log.tick(now);
    }
    drop(log);
    writer.stop(TIMEOUT).expect("the thread went on, and ended");
}

#[test]
fn a_torn_line_is_ended_before_the_next() {
    let (mut reader, pipe) = std::io::pipe().expect("pipe");
    let mut sink = Sink::new(pipe.into(), Framing::Lines);
    sink.tear();
    assert_eq!(sink.write(b"next\n"), 0);
    drop(sink);
    let mut text = String::new();
    reader.read_to_string(&mut text).expect("read");
    assert_eq!(text, "\nnext\n");
}

#[test]
fn a_non_blocking_pipe_is_waited_for() {
    let (mut reader, pipe) = std::io::pipe().expect("pipe");
    rustix::io::ioctl_fionbio(pipe.as_fd(), true).expect("non-blocking");
    let mut sink = Sink::new(pipe.into(), Framing::Lines);
    let lines = "a line\n".repeat(100_000);
    let writing = std::thread::spawn(move || sink.write(lines.as_bytes()));
    let mut text = String::new();
    reader.read_to_string(&mut text).expect("read");
    assert_eq!(writing.join().expect("no panic"), 0);
    assert_eq!(text.len(), 700_000);
}

#[test]
fn off_takes_nothing_and_starts_nothing() {
    let null = std::fs::File::options().write(true).open("/dev/null").expect("/dev/null");
    let writer =
        Writer::start(null.into(), Framing::Lines, settings(AccessFormat::Off, 1 << 20)).expect("start");
    let mut log = writer.thread_log();
    assert!(!log.is_on() && writer.running.is_none());
    push(&mut log, Instant::now(), "/");
    assert_eq!((log.buffer.capacity(), log.flush_due()), (0, None));
    writer.stop(Duration::ZERO).expect("nothing to wait for");
}
