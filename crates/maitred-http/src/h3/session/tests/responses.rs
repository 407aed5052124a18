//! Responses, and what becomes of streams: rooms, holds, resets and releases.

use super::*;

#[test]
fn a_response_has_interim_heads_content_and_trailers() {
    let mut client = Client::new();
    client.get(0);
    let key = client.key(0);
    assert_eq!(client.session.room(key), 0, "its head is not out");
    let fields = lines(&[("link", "</a>")]);
    client.session.interim(key, &ResponseHead::own(103, fields.all()));
    client.respond(
        0,
        200,
        &[("Content-Type", "text/plain"), ("Connection", "close"), ("Upgrade", "x")],
        false,
    );
    client.session.interim(key, &ResponseHead::own(103, fields.all()));
    client.respond(0, 404, &[], true);
    client.write(0, b"abc", false);
    let size = client.session.fill(key, |bytes| bytes == 9, |out| out.extend_from_slice(b"de"));
    assert_eq!((size, client.session.fill(key, |_| true, |_| {})), (2, 0));
    client.session.trailers(key, lines(&[("Grpc-Status", "0")]).all());
    client.session.trailers(key, lines(&[("a", "b")]).all());
    client.session.end(key);
    client.session.data(key, 1, true).push(b'x');
    assert_eq!(client.session.fill(key, |_| true, |out| out.push(b'x')), 0);
    let heard = "HEADERS 0 :status=103 link=</a>\nHEADERS 0 :status=200 content-type=text/plain\n\
                 DATA 0 \"abc\"\nDATA 0 \"de\"\nHEADERS 0 grpc-status=0\nend 0\n";
    assert_eq!(client.heard(), heard);
    client.release(0);
    assert_eq!(client.session.streams(), 0);
}

#[test]
fn a_head_that_cannot_be_resets_the_stream() {
    for status in [99, 100, 101, 103, 199] {
        let mut client = Client::new();
        client.get(0);
        client.respond(0, status, &[], true);
        assert_eq!(client.heard(), "abort 0 InternalError\n", "{status}");
    }
    let wrong: [fn(&mut Client, StreamKey); 4] = [
        |client, key| client.session.interim(key, &ResponseHead::own(101, FieldsRef::default())),
        |client, key| client.session.interim(key, &ResponseHead::own(200, FieldsRef::default())),
        |client, key| client.session.end(key),
        |client, key| client.session.trailers(key, lines(&[("a", "b")]).all()),
    ];
    for wrong in wrong {
        let mut client = Client::new();
        client.post(0);
        let key = client.key(0);
        wrong(&mut client, key);
        assert_eq!(client.heard(), "stop 0 InternalError\nabort 0 InternalError\n");
        client.respond(0, 200, &[], true);
        assert_eq!(client.heard(), "");
        client.release(0);
        assert_eq!(client.session.streams(), 0);
    }
}

#[test]
fn a_stream_has_room_until_so_much_waits() {
    let mut client = Client::new();
    client.get(0);
    client.respond(0, 200, &[], false);
    let (key, mut bytes) = (client.key(0), 0);
    while client.session.room(key) > 0 {
        client.write(0, &[b'x'; 1000], false);
        bytes += 1000;
    }
    assert!((STREAM_AHEAD_BYTES - 1000..STREAM_AHEAD_BYTES + 1000).contains(&bytes), "{bytes}");
    assert!(client.session.is_waiting());
    assert_eq!(client.session.next_writable(), None, "there is no room yet");
    client.stuck.insert(0);
    client.heard();
    assert!(client.session.is_held(key) && client.session.queued() == 0);
    assert_eq!(
        (client.session.room(key), client.session.next_writable()),
        (0, None),
        "QUIC has not taken it"
    );
    client.unstick(0);
    assert_eq!(client.session.next_writable(), Some(key));
    assert!(!client.session.is_waiting(), "it was named");
    client.session.wait(key);
    assert_eq!(client.session.next_writable(), Some(key));
    assert!(client.session.room(key) > 0);
}

#[test]
fn all_streams_together_have_a_bound() {
    let mut client = Client::with(&Settings { streams_max: 100, ..small() });
    let mut written = 0;
    for id in (0..400).step_by(4) {
        client.get(id);
        client.respond(id, 200, &[], false);
        while client.session.room(client.key(id)) >= 5000 {
            client.write(id, &[b'x'; 5000], false);
            written += 5000;
        }
    }
    assert!(written < (256 << 10) + 10_000, "{written}");
    assert_eq!(client.session.next_writable(), None);
    client.heard();
    let waiting: Vec<_> = std::iter::from_fn(|| client.session.next_writable()).collect();
    assert_eq!(waiting.len(), 100);
}

#[test]
fn what_is_written_while_a_piece_is_held_comes_behind_it() {
    let mut client = Client::new();
    client.get(0);
    client.respond(0, 200, &[], false);
    client.stuck.insert(0);
    assert_eq!(client.heard(), "HEADERS 0 :status=200\n");
    client.session.data(client.key(0), 2, false).extend_from_slice(b"ab");
    client.session.end(client.key(0));
    client.release(0);
    assert_eq!((client.heard(), client.session.streams()), (String::new(), 1));
    client.stuck.insert(0);
    client.session.hold(client.key(0), false);
    assert_eq!(client.heard(), "DATA 0 \"ab\"\nend 0\n");
    assert_eq!((client.heard(), client.session.streams()), (String::new(), 1), "the last piece is held");
    client.unstick(0);
    assert_eq!((client.heard(), client.session.streams()), (String::new(), 0));
}

#[test]
fn keys_of_the_past_do_nothing() {
    let mut client = Client::new();
    client.get(0);
    let old = client.key(0);
    assert_eq!(client.session.user(old), 100);
    client.answer(0);
    client.heard();
    client.post(4);
    assert_eq!((old.slot(), old == client.key(4)), (client.key(4).slot(), false));
    let session = &mut client.session;
    session.mark(old, 9);
    assert_eq!((session.user(old), session.id(old), session.is_held(old)), (0, None, false));
    session.respond(
        old,
        &ResponseHead::own(404, FieldsRef::default()),
        FieldEdits::NONE,
        FieldsRef::default(),
        None,
        true,
    );
    session.interim(old, &ResponseHead::own(103, FieldsRef::default()));
    assert_eq!((session.room(old), session.fill(old, |_| true, |out| out.push(b'x'))), (0, 0));
    session.data(old, 3, true).extend_from_slice(b"abc");
    session.trailers(old, lines(&[("a", "b")]).all());
    session.end(old);
    session.wait(old);
    session.hold(old, true);
    session.reset(old, Code::InternalError);
    session.release(old);
    let mut at = 0;
    let came = session.receive(client.now, old, (b"\0\x01x", &mut at), true, &mut client.head);
    assert_eq!((came, at), (Ok(None), 3));
    assert_eq!(session.lose(client.now, old), Ok(None));
    assert_eq!((session.next_writable(), session.queued(), session.streams()), (None, 0, 1));
    assert_eq!((session.find(0), session.find(4)), (None, Some(client.keys[&4])));
    assert_eq!(client.heard(), "");
    client.answer(4);
    assert_eq!(client.heard(), "stop 4 NoError\nHEADERS 4 :status=200\nend 4\n");
}

const BOTH: &str = "stop 0 RequestCancelled\nabort 0 RequestCancelled\n";
const OWN: &str = "abort 0 RequestCancelled\n";

type State = (&'static str, fn(&mut Client), &'static str);

/// States of a stream, how it gets there, and what a reset says to the client then.
const STATES: [State; 9] = [
    ("a head is awaited", |client| client.open(0), BOTH),
    ("content is awaited", |client| client.post(0), BOTH),
    ("nothing was answered", |client| client.get(0), OWN),
    (
        "a part was answered",
        |client| {
            client.get(0);
            client.respond(0, 200, &[], false);
        },
        OWN,
    ),
    (
        "all was answered, and nothing taken",
        |client| {
            client.get(0);
            client.respond(0, 200, &[], true);
        },
        OWN,
    ),
    (
        "all was taken, and is held",
        |client| {
            client.get(0);
            client.respond(0, 200, &[], true);
            client.stuck.insert(0);
            client.heard();
        },
        OWN,
    ),
    (
        "all was taken",
        |client| {
            client.get(0);
            client.respond(0, 200, &[], true);
            client.heard();
        },
        "",
    ),
    (
        "all was taken, and content is awaited",
        |client| {
            client.post(0);
            client.respond(0, 200, &[], true);
            client.heard();
        },
        "stop 0 RequestCancelled\n",
    ),
    (
        "it was reset",
        |client| {
            client.post(0);
            client.reset(0, Code::InternalError);
            client.heard();
        },
        "",
    ),
];

/// A stream that is reset in each of its states: the client gets what it needs to know, once.
#[test]
fn a_reset_says_what_has_not_ended() {
    for (name, before, actions) in STATES {
        let mut client = Client::new();
        before(&mut client);
        client.reset(0, Code::RequestCancelled);
        assert_eq!(client.session.queued(), 0, "{name}");
        assert_eq!(client.heard(), actions, "{name}");
        client.reset(0, Code::RequestCancelled);
        client.session.hold(client.key(0), true);
        client.session.hold(client.key(0), false);
        assert_eq!((client.heard(), client.session.streams()), (String::new(), 1), "{name}");
        client.release(0);
        client.release(0);
        assert_eq!((client.heard(), client.session.streams()), (String::new(), 0), "{name}");
        // The client takes it back in the same state.
        let mut client = Client::new();
        before(&mut client);
        let event = client.lose(0);
        let reset = name != "it was reset";
        let named = name != "a head is awaited";
        assert_eq!(event, if reset && named { "reset 0 user 100\n" } else { "" }, "{name}");
        assert_eq!(client.heard(), actions, "{name}");
        assert_eq!(client.lose(0), "", "{name}");
        client.release(0);
        assert_eq!((client.heard(), client.session.streams()), (String::new(), 0), "{name}");
        assert_eq!((client.session.half_head(), client.session.fatal()), (None, None));
    }
}

/// The end of a response that was dropped is not that of a response.
#[test]
fn nothing_is_given_out_of_a_stream_that_was_reset() {
    let mut client = Client::new();
    client.get(0);
    client.respond(0, 200, &[], false);
    client.write(0, b"half", true);
    client.reset(0, Code::InternalError);
    assert_eq!(client.session.take_unsent(), None);
    client.session.hold(client.key(0), true);
    assert!(!client.session.is_held(client.key(0)), "what the caller had is gone with the stream");
    assert_eq!(client.heard(), "abort 0 InternalError\n");
}

#[test]
fn a_release_says_that_the_rest_of_a_request_is_not_needed() {
    let mut client = Client::new();
    client.post(0);
    client.stuck.insert(0);
    client.answer(0);
    assert_eq!(client.heard(), "stop 0 NoError\nHEADERS 0 :status=200\nend 0\n");
    client.release(0);
    assert_eq!(client.heard(), "", "once");
    // What was on its way means nothing, not even if it is malformed.
    assert_eq!(client.say(0, &[data(b"abc"), headers(&[(":path", "/")])], true), "");
    client.unstick(0);
    assert_eq!((client.heard(), client.session.streams()), (String::new(), 0));
    client.post(4);
    client.respond(4, 200, &[], false);
    client.write(4, b"half", false);
    client.release(4);
    assert_eq!(client.heard(), "stop 4 InternalError\nabort 4 InternalError\n");
    assert_eq!(client.session.streams(), 0);
}

/// What was the caller's mark may be that of another stream by now.
#[test]
fn a_stream_that_was_released_can_be_lost_without_an_event() {
    for (held, post) in [(true, false), (false, false), (true, true), (false, true)] {
        let mut client = Client::new();
        if post {
            client.post(0)
        } else {
            client.get(0)
        }
        client.respond(0, 200, &[], true);
        if held {
            client.stuck.insert(0);
            client.heard();
        }
        client.release(0);
        assert_eq!((client.session.streams(), client.session.user(client.key(0))), (1, 0));
        assert_eq!(client.lose(0), "");
        assert_eq!(client.session.streams(), 0, "its slot is free");
        let stop = if post { "stop 0 NoError\n" } else { "" };
        assert_eq!(client.heard(), format!("{stop}abort 0 RequestCancelled\n"));
    }
}

/// A client that wants no response may have more of its request on the way, which is stopped: QUIC would keep it.
#[test]
fn what_a_client_does_not_want_an_answer_to_is_not_read() {
    let mut client = Client::new();
    client.post(0);
    assert_eq!(client.lose(0), "reset 0 user 100\n");
    assert_eq!(client.heard(), "stop 0 RequestCancelled\nabort 0 RequestCancelled\n");
    assert_eq!(client.say(0, &[data(b"abc")], false), "");
}

#[test]
fn an_idle_session_gives_its_memory_back_and_goes_on() {
    let mut client = Client::with(&Settings { streams_max: 50, ..small() });
    for round in 0..3 {
        let ids = || (round * 160..(round + 1) * 160).step_by(4);
        ids().for_each(|id| client.get(id));
        ids().for_each(|id| client.answer(id));
        client.heard();
        assert_eq!(client.session.streams(), 0);
        client.session.shrink();
    }
}
