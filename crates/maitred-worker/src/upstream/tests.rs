use crate::keys::{ChannelKey, Key, RelayKey};
use maitred_http::fastcgi::record::kind;
use maitred_http::fields::{FieldEdits, FieldLines};
use maitred_http::h1::Persistence;

use super::server::{Ending, Written};
use super::*;
use crate::testing::filter;
use maitred_base::budget::Budget;
use maitred_files::exchange::ReplyContext;

const FINAL: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
const HINTS: &[u8] = b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n";

fn call(dialect: Dialect) -> Call {
    Call::new(
        0,
        Written { out: b"GET / HTTP/1.1\r\n\r\n".to_vec(), start: 0, dialect, host: None, handshake: None },
        false,
    )
}

fn changed(change: impl FnOnce(&mut Call)) -> By {
    let mut call = call(Dialect::Http1(Ending::default()));
    change(&mut call);
    By::Server(call)
}

fn process() -> By {
    By::Process(Handed::new(RelayKey::of(0), (ChannelKey::of(0), 1), false))
}

/// Every kind of upstream, with the bytes of one whole response.
fn kinds(now: Instant) -> [(&'static str, By, Vec<u8>); 4] {
    let cgi = b"Status: 200 OK\r\nContent-Length: 2\r\n\r\nok";
    let record = |kind: u8, content: &[u8]| {
        let [high, low] = (content.len() as u16).to_be_bytes();
        [&[1, kind, 0, 1, high, low, 0, 0], content].concat()
    };
    let fastcgi = [record(kind::STDOUT, cgi), record(kind::END_REQUEST, &[0; 8])].concat();
    let heard = remote_thread::Heard::default();
    [
        ("process", process(), FINAL.to_vec()),
        ("server", By::Server(call(Dialect::Http1(Ending::default()))), FINAL.to_vec()),
        ("fastcgi", By::Server(call(Dialect::FastCgi(Box::default()))), fastcgi),
        ("thread", By::Thread(Remote::new(heard, now)), FINAL.to_vec()),
    ]
}

fn attempt(by: By) -> Attempt {
    Attempt::new(filter(), true, None, by, Instant::now())
}

/// What the client gets of the bytes of an upstream.
fn feed(attempt: &mut Attempt, input: &[u8]) -> Result<Vec<u8>, (Cause, String)> {
    with_writer(|writer| attempt.feed(input, writer, &mut |_| ()))
}

fn end(attempt: &mut Attempt) -> Result<Vec<u8>, (Cause, String)> {
    with_writer(|writer| attempt.end(writer, &mut |_| ()))
}

fn with_writer<E>(act: impl FnOnce(&mut ResponseWriter<'_>) -> Result<(), E>) -> Result<Vec<u8>, E> {
    let (mut out, mut lines) = (Vec::new(), FieldLines::default());
    let context = ReplyContext {
        date: [b'd'; 29],
        persistence: Persistence::Implied,
        head_only: false,
        edits: FieldEdits::NONE,
        late_edits: FieldEdits::NONE,
        expiry: None,
        further: false,
        altered: false,
        may_name_file: false,
        call: None,
    };
    act(&mut ResponseWriter::new(&mut out, None, &mut lines, context))?;
    Ok(out)
}

#[test]
fn a_client_gets_the_same_whoever_answers_and_however_the_bytes_come() {
    let now = Instant::now();
    for pieces in [1, 2, 7, 1000] {
        for (name, by, input) in kinds(now) {
            let mut attempt = attempt(by);
            let fed: Vec<Vec<u8>> =
                input.chunks(pieces).map(|piece| feed(&mut attempt, piece).unwrap()).collect();
            attempt.drained = true;
            assert!(attempt.is_answered(), "{name}");
            let text = String::from_utf8(fed.concat()).unwrap();
            assert!(
                text.starts_with("HTTP/1.1 200 OK\r\n") && text.ends_with("\r\n\r\nok"),
                "{name}: {text}"
            );
            assert_eq!(end(&mut attempt), Ok(Vec::new()), "{name}: it may end then");
        }
    }
}

#[test]
fn a_response_is_not_over_before_its_last_byte() {
    for (name, by, input) in kinds(Instant::now()) {
        let mut attempt = attempt(by);
        attempt.drained = true;
        let (last, before) = input.split_last().unwrap();
        feed(&mut attempt, before).unwrap();
        assert!(!attempt.is_answered(), "{name}");
        feed(&mut attempt, &[*last]).unwrap();
        assert!(attempt.is_answered(), "{name}");
    }
}

/// The process may have written more than it has announced, and its relay is used again.
#[test]
fn the_relay_of_a_process_has_to_be_read_to_its_end() {
    let mut attempt = attempt(process());
    feed(&mut attempt, FINAL).unwrap();
    assert!(!attempt.is_answered());
    attempt.drained = true;
    assert!(attempt.is_answered() && !attempt.is_done());
    attempt.handed_mut().unwrap().done = true;
    assert!(attempt.is_done());
    for (name, by, _) in kinds(Instant::now()).into_iter().skip(1) {
        assert!(super::tests::attempt(by).is_done(), "{name} has nothing more to say");
    }
}

#[test]
fn an_upstream_that_ends_too_early_is_told_from_one_that_breaks_the_rules() {
    for (name, by, input) in kinds(Instant::now()) {
        let fastcgi = name == "fastcgi";
        let mut silent = attempt(by);
        let (cause, _) = end(&mut silent).unwrap_err();
        assert_eq!(cause, if fastcgi { Cause::Lost } else { Cause::Bad }, "{name}");
        let mut short = attempt(kinds(Instant::now()).into_iter().find(|kind| kind.0 == name).unwrap().1);
        feed(&mut short, &input[..20]).unwrap();
        assert!(end(&mut short).is_err(), "{name}");
    }
    for (name, by, _) in kinds(Instant::now()) {
        let mut attempt = attempt(by);
        let (cause, why) = feed(&mut attempt, b"SSH-2.0-OpenSSH_9.6\r\n\r\n").unwrap_err();
        assert_eq!(cause, Cause::Bad, "{name}: {why}");
        assert!(!why.is_empty() && feed(&mut attempt, FINAL).is_err(), "{name}: it stays bad");
    }
}

#[test]
fn an_application_that_has_too_much_to_do_is_not_a_broken_one() {
    let mut refusing = attempt(By::Server(call(Dialect::FastCgi(Box::default()))));
    let overloaded = [1, kind::END_REQUEST, 0, 1, 0, 8, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0];
    assert_eq!(feed(&mut refusing, &overloaded).unwrap_err().0, Cause::Overloaded);
}

#[test]
fn how_far_an_attempt_has_come_decides_what_may_follow() {
    let now = Instant::now();
    let reached = |by, retry, input: &[u8]| {
        let mut attempt = attempt(by);
        feed(&mut attempt, input).unwrap();
        attempt.begun = !input.is_empty();
        attempt.reached(retry)
    };
    let nothing = Reached { seen: true, safe: false, begun: false, head_written: false, spent: false };
    for (retry, safe) in [(RetryState::Never, false), (RetryState::Once, true), (RetryState::Done, false)] {
        assert_eq!(reached(process(), retry, b""), Reached { safe, ..nothing }, "{retry:?}");
    }
    let begun = Reached { begun: true, ..nothing };
    assert_eq!(reached(process(), RetryState::Never, HINTS), begun);
    // The client has received nothing: another process may begin anew. A server has begun to work on the request.
    assert_eq!(reached(process(), RetryState::Never, &FINAL[..20]), nothing);
    let unseen = Reached { seen: false, ..nothing };
    assert_eq!(
        reached(By::Server(call(Dialect::Http1(Ending::default()))), RetryState::Once, b""),
        unseen,
        "its own method counts"
    );
    let safe = changed(|call| (call.any_sent, call.safe) = (true, true));
    let sent = reached(safe, RetryState::Never, &FINAL[..20]);
    assert_eq!(sent, Reached { safe: true, begun: true, ..nothing });
    let thread = By::Thread(Remote::new(remote_thread::Heard::default(), now));
    let written = reached(thread, RetryState::Done, FINAL);
    assert_eq!(written, Reached { begun: true, head_written: true, ..nothing });
}

#[test]
fn a_half_closed_client_gives_a_silent_server_no_more_time() {
    let start = Instant::now();
    let later = start + Duration::from_secs(3);
    let heard = |by, begun| {
        let mut attempt = Attempt { begun, ..Attempt::new(filter(), true, None, by, start) };
        attempt.note_heard(later);
        attempt.heard_at
    };
    let half_closed = || changed(|call| call.half_closed = true);
    assert_eq!(heard(half_closed(), false), start, "its time began when the client stopped sending");
    assert_eq!(heard(half_closed(), true), later);
    assert_eq!(heard(By::Server(call(Dialect::Http1(Ending::default()))), false), later);
    assert_eq!(heard(process(), false), later);
}

#[test]
fn the_thread_that_has_the_process_hears_of_each_byte() {
    let began = Instant::now();
    let heard = remote_thread::Heard::default();
    let mut attempt = attempt(By::Thread(Remote::new(heard.clone(), began)));
    let request = remote_thread::RemoteRequest {
        secure: false,
        request_id: 1,
        began,
        heard,
        may_be_informed: false,
        fields: Vec::new(),
    };
    assert_eq!(request.last_heard(), None);
    // A byte in the first millisecond, or from a clock that is late, counts all the same.
    for (after_us, expected_ms) in [(0, 1), (999, 1), (1000, 1), (2500, 2), (90_000_000, 90_000)] {
        attempt.note_heard(began + Duration::from_micros(after_us));
        assert_eq!(request.last_heard(), Some(began + Duration::from_millis(expected_ms)), "{after_us} µs");
    }
    let early = remote_thread::Remote::new(request.heard.clone(), began + Duration::from_secs(9));
    early.note_heard(began);
    assert_eq!(request.last_heard(), Some(began + Duration::from_millis(1)));
}

#[test]
fn a_spooled_body_is_there_when_all_of_it_has_been_sent() {
    let spool = Spool {
        file: tempfile::tempfile().unwrap(),
        bytes: 10,
        on_disk: false,
        kept: Budget::new(10).take(10).unwrap(),
        held: Budget::new(1).take(1).unwrap(),
    };
    let mut attempt = attempt(process());
    assert!(attempt.is_fed(), "there is none");
    attempt.feed = Some(Feed { spool: Box::new(spool), sent: 9 });
    assert!(!attempt.is_fed());
    attempt.feed.as_mut().unwrap().sent = 10;
    assert!(attempt.is_fed());
}
