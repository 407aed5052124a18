//! Requests, and how they end (9114-4.1, 9114-4.3, 9114-4.4, 9220).

use super::*;

#[test]
fn a_request_has_a_head_content_and_trailers() {
    let mut client = Client::new();
    client.open(0);
    assert_eq!(client.session.half_head(), Some(0));
    assert_eq!(client.say(0, &[headers(&POST), data(b"abc")], false), "request 0\ndata 0 \"abc\"\n");
    assert_eq!(client.session.half_head(), None);
    assert_eq!(client.say(0, &[data(b""), data(b"de")], false), "data 0 \"de\"\n");
    assert_eq!(client.say(0, &[headers(&[("a", "b")])], false), "trailers 0 a=b\n");
    assert_eq!(client.say(0, &[frame(0x21, b"reserved")], false), "", "unknown frames may come anywhere");
    assert_eq!(client.say(0, &[], true), "", "trailers have ended the content");
}

#[test]
fn content_ends_with_the_stream_in_the_same_piece_or_later() {
    let mut client = Client::new();
    assert_eq!(client.say(0, &[headers(&POST), data(b"abc")], true), "request 0\ndata 0 \"abc\" ended\n");
    assert_eq!(client.say(4, &[headers(&POST), data(b"abc")], false), "request 4\ndata 4 \"abc\"\n");
    assert_eq!(client.say(4, &[], true), "data 4 \"\" ended\n");
    assert_eq!(client.say(4, &[], true), "", "once");
    assert_eq!(client.say(8, &[headers(&GET), frame(0x21, b"x")], true), "request 8\ndata 8 \"\" ended\n");
    // Trailers of which nothing is left end the content all the same.
    let nothing = headers(&[("content-length", "3")]);
    assert_eq!(client.say(12, &[headers(&POST), nothing], true), "request 12\ndata 12 \"\" ended\n");
}

#[test]
fn frames_behind_trailers_end_the_connection() {
    for further in [data(b"x"), headers(&[("a", "b")])] {
        let mut client = Client::new();
        let events = client.say(0, &[headers(&POST), headers(&[("a", "b")]), further], false);
        assert_eq!(events, "request 0\ntrailers 0 a=b\nfatal FrameUnexpected\n");
        assert_eq!(client.say(0, &[], false), "fatal FrameUnexpected\n", "a dead session stays dead");
        assert_eq!(client.session.fatal().map(|error| error.code), Some(Code::FrameUnexpected));
        assert!(client.session.is_over());
        client.release(0);
        assert_eq!((client.session.streams(), client.heard()), (0, String::new()));
    }
}

#[test]
fn frames_that_may_not_be_on_a_request_stream_end_the_connection() {
    for kind in [2, 3, 4, 5, 6, 7, 8, 9, 0xd, kind::PRIORITY_UPDATE_REQUEST, kind::PRIORITY_UPDATE_PUSH] {
        let mut client = Client::new();
        let events = client.say(0, &[headers(&GET), number(kind, 0)], false);
        assert_eq!(events, "request 0\nfatal FrameUnexpected\n", "{kind}");
    }
    let mut client = Client::new();
    assert_eq!(client.say(0, &[data(b"x")], false), "fatal FrameUnexpected\n", "DATA before HEADERS");
}

/// 9114-4.1: so that the client knows that it was not processed.
#[test]
fn a_stream_that_ends_before_its_head_is_aborted() {
    let mut client = Client::new();
    let heard = "refused None stream without a request\nabort 0 RequestIncomplete\n";
    assert_eq!(client.ask(0, &[], true), heard);
    assert_eq!(client.session.streams(), 0);
    let heard = "refused None stream without a request\nabort 4 RequestIncomplete\n";
    assert_eq!(client.ask(4, &[frame(0x21, b"x")], true), heard);
    assert_eq!(client.session.half_head(), None);
}

/// 9114-7.1.
#[test]
fn a_stream_that_ends_within_a_frame_ends_the_connection() {
    let head = headers(&GET);
    for (bytes, events) in [
        (head[..1].to_vec(), ""),
        (head[..5].to_vec(), ""),
        ([&head[..], b"\0"].concat(), "request 0\n"),
        ([&head[..], b"\0\x03ab"].concat(), "request 0\ndata 0 \"ab\"\n"),
        ([&head[..], b"\x21\x03ab"].concat(), "request 0\n"),
    ] {
        let wanted = format!("{events}fatal FrameError\n");
        assert_eq!(Client::new().say(0, std::slice::from_ref(&bytes), true), wanted);
        let mut client = Client::new();
        assert_eq!(client.say(0, &[bytes], false) + &client.say(0, &[], true), wanted);
    }
}

#[test]
fn a_frame_that_ends_early_is_that_whatever_the_length_of_the_content() {
    for (content, ended) in [("10", true), ("10", false), ("2", true), ("2", false)] {
        let mut client = Client::new();
        client.say(0, &[with(&POST, "content-length", content)], false);
        let mut events = client.say(0, &[b"\0\x0aab".to_vec()], ended);
        if !ended {
            events += &client.say(0, &[], true);
        }
        assert_eq!(events, "data 0 \"ab\"\nfatal FrameError\n", "{content} {ended}");
    }
}

/// 9114-4.1.2, in every order in which it can be found.
#[test]
fn content_that_is_not_as_long_as_was_said_is_malformed() {
    let long = |length: &'static str| with(&POST, "content-length", length);
    let trailers = headers(&[("a", "b")]);
    let ended = "abort 0 MessageError\n";
    let open = "stop 0 MessageError\nabort 0 MessageError\n";
    let cases = [
        ("more in one frame", vec![long("2"), data(b"abc")], false, open),
        ("more in one frame, at the end", vec![long("2"), data(b"abc")], true, ended),
        ("more in a further frame", vec![long("2"), data(b"ab"), data(b"c")], false, open),
        ("less at the end", vec![long("3"), data(b"ab")], true, ended),
        ("nothing at the end", vec![long("3"), frame(0x21, b"")], true, ended),
        ("less before trailers", vec![long("3"), data(b"ab"), trailers.clone()], false, open),
        ("less before trailers and the end", vec![long("3"), data(b"ab"), trailers], true, ended),
        ("some of none", vec![long("0"), data(b"a")], false, open),
    ];
    for (name, frames, fin, actions) in cases {
        let mut client = Client::new();
        let events = client.say(0, &frames, fin);
        assert!(
            events.starts_with("request 0\n") && events.ends_with("reset 0 user 100\n"),
            "{name}: {events}"
        );
        assert_eq!(client.heard(), actions, "{name}");
        assert_eq!(client.say(0, &[data(b"more")], true), "", "{name}");
        assert_eq!((client.session.streams(), client.heard()), (1, String::new()), "{name}: not released");
        client.release(0);
        assert_eq!((client.session.streams(), client.heard()), (0, String::new()), "{name}");
    }
    // The end comes in a piece of its own.
    let mut client = Client::new();
    client.say(0, &[long("3"), data(b"ab")], false);
    assert_eq!(client.ask(0, &[], true), format!("reset 0 user 100\n{ended}"));
    // With the head it is known before the caller has the request.
    let events = client.ask(4, &[long("3")], true);
    assert_eq!(events, "refused None content is missing\nabort 4 MessageError\n");
}

#[test]
fn content_as_long_as_was_said_is_taken() {
    let mut client = Client::new();
    let head = with(&POST, "content-length", "3");
    let events = client.say(0, &[head.clone(), data(b"ab"), data(b"c"), headers(&[("a", "b")])], true);
    assert_eq!(events, "request 0\ndata 0 \"ab\"\ndata 0 \"c\"\ntrailers 0 a=b\n");
    let events = client.say(4, &[head, data(b"abc")], true);
    assert_eq!(events, "request 4\ndata 4 \"abc\" ended\n");
    assert_eq!(client.say(8, &[with(&GET, "content-length", "0")], true), "request 8 ended\n");
}

/// 9114-4.1.2, 9114-4.3: an error of the stream, and the connection goes on.
#[test]
fn malformed_requests_are_refused_and_others_go_on() {
    let mut client = Client::new();
    let malformed = [with(&GET, "connection", "close"), with(&GET, ":status", "200"), headers(&[])];
    for (at, head) in malformed.into_iter().enumerate() {
        let id = 8 * at as u64;
        let events = client.ask(id, std::slice::from_ref(&head), false);
        assert!(events.starts_with("refused None "), "{events}");
        let actions = format!("stop {id} MessageError\nabort {id} MessageError\n");
        assert!(events.ends_with(&actions), "{events}");
        let events = client.ask(id + 4, &[head], true);
        assert!(events.ends_with(&format!("\nabort {} MessageError\n", id + 4)), "{events}");
        assert!(!events.contains("stop"), "the client has ended it: {events}");
        assert_eq!(client.session.streams(), 0);
    }
    client.get(24);
    let events = client.ask(28, &[headers(&POST), headers(&[(":path", "/")])], false);
    assert!(events.ends_with("reset 28 user 128\nstop 28 MessageError\nabort 28 MessageError\n"), "{events}");
    client.answer(24);
    assert_eq!(client.heard(), "HEADERS 24 :status=200\nend 24\n");
}

#[test]
fn a_section_that_cannot_be_decoded_ends_the_connection() {
    // Behind the prefix an entry that is in no table, and a section that needs a dynamic table.
    for section in [&[0, 0, 0xff, 0xff, 0xff][..], &[2, 0, 0x80], &[0]] {
        let mut client = Client::new();
        let events = client.say(0, &[frame(kind::HEADERS, section)], true);
        assert_eq!(events, "fatal DecompressionFailed\n", "{section:?}");
        let mut client = Client::new();
        client.post(0);
        let events = client.say(0, &[frame(kind::HEADERS, section)], true);
        assert_eq!(events, "fatal DecompressionFailed\n", "{section:?}");
    }
}

/// 9114-4.2.2: the answer is sent, and nothing more is read.
#[test]
fn a_head_that_is_too_large_is_answered() {
    let many = headers(&[&GET[..], &[("a", "b"); 20]].concat());
    let wide = with(&GET, "x", &"y".repeat(1000));
    let long = frame(kind::HEADERS, &vec![0; SECTION_BYTES_MAX as usize + 1]);
    for (head, known) in [(many, true), (wide, true), (long, false)] {
        let mut client = Client::new();
        let refused = "refused Some(431) the head is too large\n";
        // What comes behind it, in the same piece or later, means nothing, were it trailers that are too large as well.
        let large = frame(kind::HEADERS, &vec![0; SECTION_BYTES_MAX as usize + 1]);
        let frames = [head, data(b"abc"), large, headers(&[("a", "b")])];
        assert_eq!(client.say(0, &frames, false), refused);
        assert_eq!(client.head.request_line().is_some(), known);
        assert_eq!(client.say(0, &[data(b"abc")], false), "");
        assert_eq!(client.session.half_head(), None);
        assert_eq!(client.session.streams(), 1);
        let heard = "stop 0 NoError\nHEADERS 0 :status=431 content-length=0\nend 0\n";
        assert_eq!(client.heard(), heard);
        assert_eq!((client.session.streams(), client.session.fatal()), (0, None));
    }
}

#[test]
fn the_answer_to_a_head_that_is_too_large_can_be_lost_and_held() {
    let many = headers(&[&GET[..], &[("a", "b"); 20]].concat());
    let mut client = Client::new();
    client.say(0, std::slice::from_ref(&many), true);
    assert_eq!(client.lose(0), "");
    assert_eq!(
        client.heard(),
        "abort 0 RequestCancelled\n",
        "it was not taken, and the client has ended its side"
    );
    assert_eq!(client.session.streams(), 0);
    client.stuck.insert(4);
    client.say(4, &[many], true);
    assert_eq!(client.heard(), "HEADERS 4 :status=431 content-length=0\nend 4\n");
    assert_eq!(client.session.streams(), 1, "QUIC has not taken it");
    client.unstick(4);
    assert_eq!(client.session.streams(), 0);
}

#[test]
fn trailers_that_are_too_large_reset_the_stream() {
    let mut client = Client::new();
    client.post(0);
    let heard = "reset 0 user 100\nstop 0 ExcessiveLoad\nabort 0 ExcessiveLoad\n";
    assert_eq!(client.ask(0, &[headers(&[("a", "b"); 30])], false), heard);
    client.post(4);
    let large = frame(kind::HEADERS, &vec![0; SECTION_BYTES_MAX as usize + 1]);
    let heard = "reset 4 user 104\nstop 4 ExcessiveLoad\nabort 4 ExcessiveLoad\n";
    assert_eq!(client.ask(4, &[large], false), heard);
}

#[test]
fn a_request_is_the_callers_before_it_is_marked() {
    let (now, mut head) = (Instant::now(), RequestHead::default());
    let mut session = Session::new(&small(), now);
    let stream = session.open(0).unwrap();
    let (input, mut at) = ([headers(&POST), headers(&[(":path", "/")])].concat(), 0);
    let event = session.receive(now, stream, (&input, &mut at), false, &mut head);
    assert_eq!(event, Ok(Some(Event::Request { stream, ended: false })));
    let event = session.receive(now, stream, (&input, &mut at), false, &mut head);
    assert_eq!(event, Ok(Some(Event::Reset { stream, user: 0 })), "it has to be released");
    assert_eq!(session.id(stream), Some(0));
    session.release(stream);
    assert_eq!(session.streams(), 0);
}

/// 9220-3, 9114-4.4.
#[test]
fn an_extended_connect_that_was_accepted_has_content_only() {
    let mut client = Client::new();
    assert_eq!(client.say(0, &[headers(&TUNNEL)], false), "request 0\n");
    client.respond(0, 101, &[("upgrade", "websocket"), ("sec-websocket-accept", "x")], false);
    assert_eq!(client.heard(), "HEADERS 0 :status=200\n");
    assert_eq!(client.say(0, &[data(b"abc"), frame(0x21, b"x")], false), "data 0 \"abc\"\n");
    assert_eq!(client.say(0, &[headers(&[("a", "b")])], false), "fatal FrameUnexpected\n");
    let mut client = Client::new();
    client.say(0, &[headers(&TUNNEL)], false);
    client.respond(0, 403, &[], false);
    assert_eq!(client.say(0, &[headers(&[("a", "b")])], true), "trailers 0 a=b\n", "it is no tunnel");
}

#[test]
fn extended_connect_is_refused_where_it_was_not_offered() {
    let mut client = Client::with(&Settings { connect_protocol: false, ..small() });
    let events = client.ask(0, &[headers(&TUNNEL)], false);
    assert!(events.ends_with("stop 0 MessageError\nabort 0 MessageError\n"), "{events}");
    assert_eq!(
        Session::new(&Settings { connect_protocol: false, ..small() }, client.now).take_control().len(),
        6
    );
}

/// The trailers have begun, or have come, when the tunnel begins: they stay trailers, and are no second request.
#[test]
fn trailers_before_the_answer_to_a_connect_are_no_second_request() {
    let (second, mut client) = (headers(&GET), Client::new());
    client.say(0, &[headers(&TUNNEL), second[..9].to_vec()], false);
    client.respond(0, 101, &[], false);
    let events = client.say(0, &[second[9..].to_vec()], false);
    assert_eq!(events, "reset 0 user 100\n", "pseudo-fields in trailers");
    for further in [data(b"x"), headers(&[("a", "b")])] {
        let mut client = Client::new();
        assert_eq!(
            client.say(0, &[headers(&TUNNEL), headers(&[("a", "b")])], false),
            "request 0\ntrailers 0 a=b\n"
        );
        client.respond(0, 101, &[], false);
        assert_eq!(client.say(0, &[further], false), "fatal FrameUnexpected\n");
    }
}
