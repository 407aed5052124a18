//! The attacks that the limits are for, played to their end: after a bounded number of acts the connection is over, and
//! never holds more than was agreed.

use super::*;

/// Repeats an act until the session ends; how often it was accepted.
fn attack(peer: &mut Peer, mut act: impl FnMut(&mut Peer, u32) -> Vec<Vec<u8>>) -> u32 {
    for count in 0..1000 {
        let frames = act(peer, count);
        let events = peer.say(&frames);
        assert!(heap_bytes(&peer.session) < 64 << 10, "{} bytes", heap_bytes(&peer.session));
        if events.contains("fatal") {
            assert!(events.ends_with("fatal EnhanceYourCalm\n"), "{events}");
            assert!(peer.heard().ends_with(" EnhanceYourCalm\n"));
            return count;
        }
    }
    panic!("nothing ends the attack");
}

/// The identifier of the so-manieth stream.
fn id(count: u32) -> u32 {
    2 * count + 1
}

#[test]
fn rapid_reset() {
    let mut peer = Peer::new();
    let accepted = attack(&mut peer, |peer, count| {
        for key in std::mem::take(&mut peer.keys) {
            peer.session.release(key);
        }
        vec![get(id(count)), rst(id(count))]
    });
    assert_eq!(accepted, small().floods.resets_max);
}

#[test]
fn requests_that_are_answered_make_up_for_resets() {
    let mut peer = Peer::new();
    for count in 0..100 {
        peer.say(&[get(id(2 * count)), get(id(2 * count + 1)), rst(id(2 * count))]);
        for key in std::mem::take(&mut peer.keys) {
            peer.answer(key);
        }
        assert!(!peer.heard().contains("GOAWAY"), "{count}");
    }
    // What was answered before it was reset was no attack.
    for count in 300..400 {
        peer.say(&[post(id(count))]);
        peer.respond(peer.key(0), 200, &[], true);
        assert_eq!(peer.say(&[rst(id(count))]), format!("reset {} user 0\n", id(count)));
        peer.session.release(peer.keys.remove(0));
    }
}

#[test]
fn time_makes_up_for_resets() {
    let mut peer = Peer::new();
    for count in 0..100 {
        peer.pass(Duration::from_secs(1));
        assert!(!peer.ask(&[get(id(count)), rst(id(count))]).contains("GOAWAY"), "{count}");
        peer.session.release(peer.keys.remove(0));
    }
}

#[test]
fn a_second_makes_up_for_a_tenth() {
    let mut peer = Peer::new();
    for _ in 0..10 {
        assert_eq!(peer.say(&[ping(b"12345678")]), "");
    }
    peer.pass(Duration::from_millis(2500));
    assert_eq!(attack(&mut peer, |_, _| vec![ping(b"12345678")]), 2);
    let mut peer = Peer::new();
    peer.pass(Duration::from_secs(3600));
    assert_eq!(attack(&mut peer, |_, _| vec![ping(b"12345678")]), 10, "peace is not saved up");
}

/// CVE-2025-8671: each way in which a peer makes the server reset a stream.
#[test]
fn made_you_reset() {
    type Way = fn(u32) -> Vec<Vec<u8>>;
    let ways: [(&str, Way); 8] = [
        ("a window by nothing", |id| vec![get(id), window_update(id, 0)]),
        ("a window beyond its size", |id| vec![get(id), window_update(id, frame::WINDOW_MAX)]),
        ("DATA behind the end", |id| vec![get(id), data(id, false, b"x")]),
        ("HEADERS behind the end", |id| vec![get(id), get(id)]),
        ("content beyond its length", |id| {
            vec![
                headers(id, false, &[&POST[..], &[("content-length", "1")]].concat()),
                data(id, false, b"xy"),
            ]
        }),
        ("trailers that end nothing", |id| vec![post(id), headers(id, false, &[])]),
        ("a malformed request", |id| vec![headers(id, true, &[(":method", "GET")])]),
        ("a head that is too large", |id| vec![headers(id, true, &[&GET[..], &[("a", "b"); 20]].concat())]),
    ];
    for (name, way) in ways {
        let mut peer = Peer::new();
        let accepted = attack(&mut peer, |peer, count| {
            for key in std::mem::take(&mut peer.keys) {
                peer.session.release(key);
            }
            way(id(count))
        });
        assert_eq!(accepted, small().floods.stream_errors_max, "{name}");
    }
}

#[test]
fn streams_beyond_the_limit() {
    let mut peer = Peer::new();
    let accepted = attack(&mut peer, |_, count| vec![get(id(count))]);
    assert_eq!(accepted, small().streams_max + small().floods.stream_errors_max);
}

#[test]
fn continuation_flood_by_count() {
    let mut peer = Peer::new();
    peer.say(&[frame(kind::HEADERS, 0, 1, &block(&GET))]);
    let accepted = attack(&mut peer, |_, _| vec![frame(kind::CONTINUATION, 0, 1, b"\0\x01a\x01b")]);
    assert_eq!(accepted, small().continuations_max);
}

#[test]
fn continuation_flood_by_size() {
    let mut peer = Peer::with(&Settings { continuations_max: u32::MAX, ..small() });
    peer.say(&[frame(kind::HEADERS, 0, 1, &block(&GET))]);
    let accepted = attack(&mut peer, |_, _| vec![frame(kind::CONTINUATION, 0, 1, &[b'\0'; 500])]);
    assert_eq!(accepted, 3);
    assert_eq!(heap_bytes(&peer.session), 0, "the block is gone");
}

/// Many fields of one byte each, which name an entry of four thousand (a "HPACK bomb").
#[test]
fn header_bomb() {
    let mut peer = Peer::new();
    let mut bomb = block(&GET);
    bomb.extend(b"\x40\x01x\x7f\xa1\x1e");
    bomb.extend([b'y'; 4000]);
    peer.say(&[frame(kind::HEADERS, flag::END_HEADERS | flag::END_STREAM, 1, &bomb)]);
    assert_eq!(peer.heard(), "HEADERS 1 :status=431 content-length=0 ended\n");
    let accepted = attack(&mut peer, |_, count| {
        let mut many = block(&GET);
        many.extend([0x80 | 62; 1000]);
        vec![frame(kind::HEADERS, flag::END_HEADERS | flag::END_STREAM, id(count + 1), &many)]
    });
    assert_eq!(accepted + 1, small().floods.stream_errors_max);
}

#[test]
fn floods_of_frames_that_are_answered() {
    let floods = small().floods;
    let mut peer = Peer::new();
    assert_eq!(attack(&mut peer, |_, _| vec![ping(b"12345678")]), floods.pings_max);
    let mut peer = Peer::new();
    // One SETTINGS frame was part of the handshake.
    assert_eq!(attack(&mut peer, |_, _| vec![settings(&[])]), floods.settings_max - 1);
}

#[test]
fn floods_of_empty_frames() {
    let most = small().floods.empty_frames_max;
    let mut peer = Peer::new();
    peer.say(&[post(1)]);
    assert_eq!(attack(&mut peer, |_, _| vec![data(1, false, b"")]), most);
    let mut peer = Peer::new();
    peer.say(&[post(1)]);
    let padded = frame(kind::DATA, flag::PADDED, 1, &[3, 0, 0, 0]);
    assert_eq!(attack(&mut peer, |_, _| vec![padded.clone()]), most, "padding is no content");
    let mut peer = Peer::with(&Settings { continuations_max: u32::MAX, ..small() });
    peer.say(&[frame(kind::HEADERS, 0, 1, b"")]);
    assert_eq!(attack(&mut peer, |_, _| vec![frame(kind::CONTINUATION, 0, 1, b"")]), most - 1);
}

#[test]
fn floods_of_window_updates_and_priorities() {
    let floods = small().floods;
    let mut peer = Peer::new();
    assert_eq!(attack(&mut peer, |_, _| vec![window_update(0, 1)]), floods.window_updates_max);
    let mut peer = Peer::new();
    peer.say(&[get(1)]);
    peer.answer(peer.key(0));
    assert_eq!(
        attack(&mut peer, |_, _| vec![window_update(1, 1)]),
        floods.window_updates_max,
        "of a closed stream"
    );
    let mut peer = Peer::new();
    let priority = frame(kind::PRIORITY, 0, 9, &[0, 0, 0, 0, 1]);
    assert_eq!(attack(&mut peer, |_, _| vec![priority.clone()]), floods.priorities_max);
    let mut peer = Peer::new();
    let accepted = attack(&mut peer, |peer, count| {
        assert!(peer.session.early.room_bytes() <= 2 * 16 * EARLY_PRIORITIES_MAX);
        let payload = [&id(count).to_be_bytes()[..], b"u=1"].concat();
        vec![frame(kind::PRIORITY_UPDATE, 0, 0, &payload)]
    });
    assert_eq!(accepted, floods.priorities_max);
}

#[test]
fn floods_of_frames_without_meaning() {
    let most = small().floods.ignored_max;
    let mut peer = Peer::new();
    assert_eq!(attack(&mut peer, |_, _| vec![frame(0x77, 0, 0, b"x")]), most);
    let mut peer = Peer::new();
    assert_eq!(attack(&mut peer, |_, _| vec![frame(kind::PING, flag::ACK, 0, &[0; 8])]), most);
    let mut peer = Peer::new();
    assert_eq!(attack(&mut peer, |_, _| vec![frame(kind::SETTINGS, flag::ACK, 0, &[])]), most);
    let mut peer = Peer::new();
    peer.say(&[frame(kind::GOAWAY, 0, 0, &[0; 8])]);
    assert_eq!(attack(&mut peer, |_, _| vec![frame(kind::GOAWAY, 0, 0, &[0; 8])]), most);
    for late in [data(1, false, b"x"), rst(1), headers(1, true, &[])] {
        let mut peer = Peer::new();
        peer.say(&[post(1)]);
        // The request's body has not ended, so that the answer resets the stream, once the response was read.
        peer.answer(peer.key(0));
        peer.say(&[frame(kind::PING, flag::ACK, 0, b"part\0\0\0\x01")]);
        assert_eq!(attack(&mut peer, |_, _| vec![late.clone()]), most);
    }
}

/// A client that takes nothing, and opens no window, costs what was agreed and not more.
#[test]
fn stalled_windows() {
    let mut peer = Peer::with(&Settings { streams_max: 100, ..small() });
    peer.say(&[settings(&[(setting::INITIAL_WINDOW_SIZE, 1 << 30)]), window_update(0, 1 << 30)]);
    peer.say(&(0..100).map(|count| get(id(count))).collect::<Vec<_>>());
    for key in peer.keys.clone() {
        peer.respond(key, 200, &[("Content-Type", "text/plain")], false);
        while peer.session.room(key) > 0 {
            peer.session.data(key, 16_384, false).extend([b'x'; 16_384]);
        }
    }
    assert!(peer.session.out().len() < SENT_AHEAD_BYTES + DATA_BYTES_MAX + 100 * 100);
    assert_eq!(peer.session.next_writable(), None);
}

/// A download is answered with window updates, and with PINGs that measure it, for as long as it takes.
#[test]
fn a_long_download_is_no_attack() {
    let mut peer = Peer::new();
    peer.say(&[get(1)]);
    let key = peer.key(0);
    peer.respond(key, 200, &[], false);
    for count in 0..1000 {
        assert!(peer.session.room(key) >= 1000);
        peer.session.data(key, 1000, false).extend([b'x'; 1000]);
        let answers =
            [window_update(0, 500), window_update(0, 500), window_update(1, 1000), ping(b"12345678")];
        assert!(!peer.ask(&answers).contains("GOAWAY"), "{count}");
    }
}

/// What well-behaved clients do at their busiest is far from the default limits.
#[test]
fn honest_traffic_is_no_attack() {
    let mut peer = Peer::with(&Settings::default());
    let answer = [b'x'; 1000];
    for round in 0..200 {
        let first = 32 * round;
        let mut frames: Vec<_> = (first..first + 32).map(|count| get(id(count))).collect();
        // Each response is answered with two window updates, and each tenth request is taken back.
        frames.extend(
            (first..first + 32).flat_map(|count| [window_update(0, 1000), window_update(id(count), 1000)]),
        );
        frames.push(ping(b"12345678"));
        frames.extend((first..first + 3).map(|count| rst(id(count))));
        peer.pass(Duration::from_millis(1));
        let events = peer.say(&frames);
        assert!(!events.contains("fatal"), "{events}");
        for key in std::mem::take(&mut peer.keys) {
            peer.respond(key, 200, &[], false);
            if peer.session.room(key) >= answer.len() {
                peer.session.data(key, answer.len(), true).extend(answer);
            }
            peer.session.release(key);
        }
        peer.heard();
    }
}
