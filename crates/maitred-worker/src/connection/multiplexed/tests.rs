use crate::keys::conn;
use maitred_http::fields::{FieldEdits, FieldsRef};
use maitred_http::h2::Event;
use maitred_http::request::RequestHead;
use maitred_http::response::ResponseHead;

use super::*;
use crate::connection::rates::HeldBy;
use crate::connection::stream::FREE;
use crate::testing::config;
use maitred_base::budget::Budget;

const TIMEOUTS: Timeouts = Timeouts { idle: Duration::from_secs(60), write: Duration::from_secs(20) };

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// A connection whose client has sent its preface, and so many requests.
pub(crate) fn connection(now: Instant, requests: u32) -> (Multiplexed, Vec<StreamKey>) {
    let session = Session::Http2(maitred_http::h2::Session::new(&settings(&config("").limits), now));
    let mut connection = Multiplexed::new(session, conn(3), Budget::new(0).begin());
    connection.streams = vec![FREE; 8];
    let mut input = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec();
    input.extend_from_slice(&[0, 0, 0, 4, 0, 0, 0, 0, 0]);
    for number in 0..requests {
        // GET / over http, without a body.
        let [a, b, c, d] = (2 * number + 1).to_be_bytes();
        input.extend_from_slice(&[0, 0, 6, 1, 5, a, b, c, d, 0x82, 0x86, 0x84, 0x41, 1, b'a']);
    }
    let (mut at, mut head, mut keys) = (0, RequestHead::default(), Vec::new());
    while let Some(event) = connection.session.http2().unwrap().next(now, &input, &mut at, &mut head).unwrap()
    {
        if let Event::Request { stream, .. } = event {
            keys.push(stream);
        }
    }
    assert_eq!((at, keys.len()), (input.len(), requests as usize));
    (connection, keys)
}

#[test]
fn a_client_may_ask_for_what_the_configuration_says() {
    let text = "[limits]\nstreams_per_connection_max = 17\nheader_count_max = 33\nhead_bytes_max = 9999\n";
    let made = settings(&config(text).limits);
    assert_eq!((made.streams_max, made.header_count_max, made.header_list_bytes_max), (17, 33, 9999));
}

#[test]
fn an_idle_connection_has_its_time_since_the_last_stream_ended() {
    let start = Instant::now();
    let (mut idle, _) = connection(start, 0);
    let soon = start + SHRINK_AFTER;
    assert_eq!(idle.deadline(start, false, &TIMEOUTS), Some(soon), "its buffers go before it does");
    // Frames that ask for nothing change nothing.
    assert_eq!(idle.deadline(start + seconds(59), false, &TIMEOUTS), Some(start + seconds(60)));
    assert_eq!(idle.idle_until(), Some(start + seconds(60)));
    assert_eq!(idle.deadline(start + seconds(70), false, &TIMEOUTS), Some(start + seconds(60)));
}

#[test]
fn a_connection_with_streams_has_no_deadline_of_its_own() {
    let start = Instant::now();
    let (mut busy, keys) = connection(start, 1);
    busy.idle_until = Some(start);
    assert_eq!(busy.deadline(start, false, &TIMEOUTS), None);
    assert_eq!(busy.idle_until, None);
    busy.session.release(keys[0]);
    let later = start + seconds(500);
    assert_eq!(busy.deadline(later, false, &TIMEOUTS), Some(later + SHRINK_AFTER));
    assert_eq!(busy.idle_until(), Some(later + TIMEOUTS.idle));
}

#[test]
fn what_is_unsent_has_to_be_taken_within_its_time_which_begins_once() {
    let start = Instant::now();
    let (mut full, _) = connection(start, 0);
    full.deadline(start, false, &TIMEOUTS);
    let until = Some(start + TIMEOUTS.write);
    assert_eq!(full.deadline(start, true, &TIMEOUTS), until);
    assert!(full.is_unsent() && full.idle_until().is_none());
    assert_eq!(full.held(), Some((HeldBy::Socket, 0)));
    assert_eq!(full.deadline(start + seconds(5), true, &TIMEOUTS), until);
    full.deadline(start + seconds(6), false, &TIMEOUTS);
    assert!(!full.is_unsent() && full.held().is_none());
    let again = start + seconds(7);
    assert_eq!(full.deadline(again, true, &TIMEOUTS), Some(again + TIMEOUTS.write));
}

#[test]
fn a_frame_that_has_come_in_part_has_to_be_whole_before_anything_else() {
    let start = Instant::now();
    let (mut slow, _) = connection(start, 1);
    let partial = |until| Partial { half: Half::Block(1), since: start, bytes: 0, until };
    slow.half = Some(partial(start + seconds(3)));
    assert_eq!(slow.deadline(start, false, &TIMEOUTS), Some(start + seconds(3)));
    assert_eq!(slow.deadline(start, true, &TIMEOUTS), Some(start + seconds(3)));
    slow.half = Some(partial(start + seconds(30)));
    assert_eq!(slow.deadline(start, true, &TIMEOUTS), Some(start + TIMEOUTS.write), "the first of both");
    // The client cannot go on while nothing is read.
    slow.session.http2().unwrap().out().resize(4 << 20, 0);
    assert_eq!(slow.deadline(start, false, &TIMEOUTS), None);
    assert!(slow.half.is_none());
}

#[test]
fn overload_brings_deadlines_forward_and_never_back() {
    let start = Instant::now();
    let (mut idle, _) = connection(start, 0);
    idle.hurry(start, start);
    assert_eq!((idle.idle_until, idle.write_until), (None, None), "no deadline is made");
    (idle.idle_until, idle.write_until) = (Some(start + seconds(60)), Some(start + seconds(20)));
    idle.hurry(start + seconds(30), start + seconds(30));
    assert_eq!((idle.idle_until, idle.write_until), (Some(start + seconds(30)), Some(start + seconds(20))));
}

/// Streams of one urgency take turns: none writes more than its share at a time.
#[test]
fn a_stream_has_its_share_and_waits_then() {
    let (mut http2, keys) = connection(Instant::now(), 2);
    let head = ResponseHead::own(200, FieldsRef::default());
    for key in &keys {
        http2.session.respond(*key, &head, FieldEdits::NONE, FieldsRef::default(), None, false);
    }
    http2.share = 30_000;
    let mut written = 0;
    while let room @ 1.. = http2.room(keys[0]) {
        assert!(room <= http2.share);
        let bytes = room.min(5000);
        let out = http2.data(keys[0], bytes, false);
        out.resize(out.len() + bytes, b'x');
        written += bytes;
    }
    assert_eq!((http2.framed, http2.streams[keys[0].slot()].framed, written), (30_000, 30_000, 30_000));
    assert_eq!(http2.session.next_writable(), Some(keys[0]), "it goes on when others had their turn");
    assert_eq!(http2.held_stream(keys[0].0), None, "and does not wait for its client");
    http2.session.http2().unwrap().out().clear();
    http2.share = 10;
    assert_eq!(http2.fill(keys[1], |_| false, |_| ()), 0, "nothing is no frame");
    assert_eq!((http2.share, http2.streams[keys[1].slot()].framed), (10, 0));
    http2.share = 0;
    assert_eq!(http2.room(keys[1]), 0);
}
