//! The attacks that the limits are for, played to their end: after a bounded number of acts the connection is over.

use super::*;

/// Repeats an act until the session ends; how often it was accepted.
fn attack(client: &mut Client, mut act: impl FnMut(&mut Client, u64) -> String) -> u32 {
    for count in 0..1000 {
        let answer = act(client, u64::from(count));
        client.heard();
        assert!(client.session.streams() <= 4 && client.session.unidirectional.len() <= 12);
        if answer.contains("fatal") {
            assert!(answer.contains("fatal ExcessiveLoad"), "{answer}");
            assert_eq!(client.session.fatal().map(|error| error.code), Some(Code::ExcessiveLoad));
            return count;
        }
    }
    panic!("nothing ends the attack");
}

#[test]
fn rapid_reset() {
    let mut client = Client::new();
    let accepted = attack(&mut client, |client, count| {
        client.get(4 * count);
        let answer = client.lose(4 * count);
        client.release(4 * count);
        answer
    });
    assert_eq!(accepted, small().floods.resets_max);
    let mut client = Client::new();
    let accepted = attack(&mut client, |client, count| {
        client.open(4 * count);
        client.lose(4 * count)
    });
    assert_eq!(accepted, small().floods.resets_max, "before its head has come");
}

#[test]
fn answers_and_time_make_up_for_resets() {
    let mut client = Client::new();
    for count in 0..100 {
        client.get(8 * count);
        client.get(8 * count + 4);
        assert_eq!(client.lose(8 * count), format!("reset {} user {}\n", 8 * count, 100 + 8 * count));
        client.release(8 * count);
        client.answer(8 * count + 4);
        client.heard();
    }
    let mut client = Client::new();
    for count in 0..100 {
        client.pass(Duration::from_secs(1));
        client.open(4 * count);
        assert_eq!(client.lose(4 * count), "");
    }
}

/// CVE-2025-8671: each way in which a client makes the server reset a stream.
#[test]
fn made_you_reset() {
    type Way = fn() -> Vec<Vec<u8>>;
    let ways: [(&str, Way, bool); 7] = [
        ("no request", Vec::new, true),
        ("a malformed request", || vec![headers(&[])], false),
        ("content beyond its length", || vec![with(&POST, "content-length", "1"), data(b"xy")], false),
        ("content below its length", || vec![with(&POST, "content-length", "2"), data(b"x")], true),
        ("malformed trailers", || vec![headers(&POST), headers(&[(":path", "/")])], false),
        ("trailers that are too large", || vec![headers(&POST), headers(&[("a", "b"); 30])], false),
        ("a head that is too large", || vec![headers(&[&GET[..], &[("a", "b"); 20]].concat())], false),
    ];
    for (name, way, ended) in ways {
        let mut client = Client::new();
        let accepted = attack(&mut client, |client, count| {
            let answer = client.say(4 * count, &way(), ended);
            client.release(4 * count);
            answer
        });
        assert_eq!(accepted, small().floods.stream_errors_max, "{name}");
    }
}

#[test]
fn floods_of_priorities() {
    let mut client = Client::new();
    let accepted = attack(&mut client, |client, count| client.tell(&[urgent(4 * (count % 4), "u=1")]));
    assert_eq!(accepted, small().floods.priorities_max);
    // Requests make up for some.
    let mut client = Client::new();
    for count in 0..100 {
        let update = [urgent(4 * count, "u=1"), urgent(4 * count, "u=2"), urgent(4 * count, "i")];
        assert_eq!(client.tell(&update), "");
        client.get(4 * count);
        client.answer(4 * count);
        client.heard();
    }
}

#[test]
fn floods_of_what_means_nothing() {
    let most = small().floods.ignored_max;
    let mut client = Client::new();
    assert_eq!(attack(&mut client, |client, count| client.uni(6 + 4 * count, &[0x21], true)), most);
    let mut client = Client::new();
    assert_eq!(attack(&mut client, |client, count| client.uni(6 + 4 * count, &[0x21], false)), most);
    let mut client = Client::new();
    assert_eq!(attack(&mut client, |client, _| client.tell(&[number(kind::MAX_PUSH_ID, 7)])), most);
    let mut client = Client::new();
    assert_eq!(client.tell(&[number(kind::GOAWAY, 7)]), "");
    assert_eq!(attack(&mut client, |client, _| client.tell(&[number(kind::GOAWAY, 7)])), most);
    let mut client = Client::new();
    assert_eq!(attack(&mut client, |client, _| client.tell(&[number(0x21, 7)])), 64);
    let mut client = Client::new();
    client.post(0);
    assert_eq!(attack(&mut client, |client, _| client.say(0, &[data(b"")], false)), 64);
}

/// Streams of unknown types for a long time, each stopped, and never heard of again.
#[test]
fn streams_of_unknown_types_are_forgotten() {
    let mut client = Client::new();
    for count in 0..1000 {
        client.pass(Duration::from_secs(1));
        assert_eq!(client.uni(6 + 4 * count, &[0x21], false), "");
        assert_eq!(client.actions(), format!("stop {} StreamCreationError\n", 6 + 4 * count));
        assert!(client.session.unidirectional.len() <= 2 + UNIDIRECTIONAL_STREAMS_MAX as usize);
    }
    assert_eq!(client.tell(&[number(kind::GOAWAY, 7)]), "", "those that are needed are known");
}

/// A client that takes nothing costs what was agreed and not more.
#[test]
fn responses_that_are_not_taken() {
    let mut client = Client::with(&Settings { streams_max: 100, ..small() });
    for id in (0..400).step_by(4) {
        client.stuck.insert(id);
        client.get(id);
        client.respond(id, 200, &[], false);
    }
    client.heard();
    let mut taken = 0;
    for _ in 0..10 {
        for id in (0..400).step_by(4) {
            if client.session.room(client.key(id)) > 0 {
                client.write(id, &[b'x'; 60_000], false);
                taken += 60_000;
            }
        }
        client.heard();
    }
    assert_eq!(taken, 0, "QUIC has not taken the heads");
    assert_eq!((client.session.next_writable(), client.session.queued()), (None, 0));
}
