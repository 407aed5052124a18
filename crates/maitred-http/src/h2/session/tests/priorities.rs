//! Which stream writes next (RFC 9218).

use super::*;
use crate::priority::Priority;

/// A session whose windows are shut, with requests of these priorities; the order in which they are named when it opens,
/// two rounds.
fn order(priorities: &[&str]) -> Vec<u32> {
    let mut peer = Peer::with(&Settings { streams_max: 100, ..small() });
    peer.say(&[settings(&[(setting::INITIAL_WINDOW_SIZE, 1 << 20)])]);
    let first = peer.keys.len();
    for (index, value) in priorities.iter().enumerate() {
        let fields = [&GET[..], &[("priority", *value)]].concat();
        peer.say(&[headers(2 * index as u32 + 1, true, &fields)]);
    }
    let keys = peer.keys[first..].to_vec();
    for key in &keys {
        peer.respond(*key, 200, &[], false);
    }
    // The first one uses up the connection's window.
    while peer.session.room(keys[0]) > 0 {
        let room = peer.session.room(keys[0]);
        peer.session.data(keys[0], room, false).extend(std::iter::repeat_n(0, room));
    }
    keys.iter().for_each(|key| assert_eq!(peer.session.room(*key), 0));
    peer.heard();
    assert_eq!(peer.say(&[window_update(0, 1000)]), "writable\n");
    let mut named = Vec::new();
    for _ in 0..2 * keys.len() {
        let Some(key) = peer.session.next_writable() else { break };
        named.push(peer.session.id(key));
        peer.session.data(key, 1, false).push(0);
        peer.session.wait(key);
    }
    named
}

#[test]
fn the_most_urgent_is_first() {
    assert_eq!(order(&["u=5", "u=0", "", "u=7"]), [3; 8]);
}

#[test]
fn one_after_the_other_unless_they_are_incremental() {
    assert_eq!(order(&["", "", ""]), [1; 6]);
    assert_eq!(order(&["i", "i", "i"]), [1, 3, 5, 1, 3, 5]);
    assert_eq!(order(&["i", "", "i"]), [3; 6], "the one that is only useful as a whole is done first");
    assert_eq!(order(&["u=2, i", "u=1, i", "u=1, i=?1"]), [3, 5, 3, 5, 3, 5]);
}

#[test]
fn the_field_is_a_dictionary() {
    let is = |value: &str, urgency, incremental| {
        assert_eq!(Priority::parse(value.as_bytes()), Priority { urgency, incremental }, "{value}");
    };
    is("", 3, false);
    is("u=0", 0, false);
    is("u=7,i", 7, true);
    is("i=?0, u=1", 1, false);
    is("u=8, i", 3, true);
    is("u=-1;x, foo=bar, i;y=1", 3, true);
    is("u=1, u=2", 2, false);
    is("\u{0}", 3, false);
}

fn priority_update(stream: u32, value: &str) -> Vec<u8> {
    frame(kind::PRIORITY_UPDATE, 0, 0, &[&stream.to_be_bytes()[..], value.as_bytes()].concat())
}

#[test]
fn a_priority_update_changes_a_stream() {
    let mut peer = Peer::new();
    peer.say(&[
        get(1),
        get(3),
        priority_update(3, "u=0"),
        priority_update(1, "u=6"),
        priority_update(9, "u=1"),
    ]);
    for key in [peer.key(0), peer.key(1)] {
        peer.respond(key, 200, &[], false);
        peer.session.wait(key);
    }
    assert_eq!(peer.session.next_writable(), Some(peer.key(1)));
    assert_eq!(peer.session.next_writable(), Some(peer.key(0)));
}

#[test]
fn a_priority_update_may_come_before_its_stream() {
    let mut peer = Peer::new();
    let fields = [&GET[..], &[("priority", "u=6")]].concat();
    peer.say(&[priority_update(3, "u=0"), get(1), headers(3, true, &fields)]);
    for key in [peer.key(0), peer.key(1)] {
        peer.respond(key, 200, &[], false);
        peer.session.wait(key);
    }
    assert_eq!(peer.session.next_writable(), Some(peer.key(1)), "the frame is newer than the field");
    assert_eq!(peer.session.early.room_bytes(), 0);
}

#[test]
fn few_priorities_are_kept_for_streams_to_come() {
    let mut peer = Peer::with(&Settings { streams_max: 100, ..small() });
    let ids: Vec<u32> = (0..=EARLY_PRIORITIES_MAX as u32).map(|count| 2 * count + 1).collect();
    for id in &ids {
        peer.say(&[priority_update(*id, "u=7"), priority_update(*id, "u=0")]);
        peer.pass(Duration::from_secs(1));
    }
    for id in &ids {
        peer.say(&[get(*id)]);
    }
    let urgencies: Vec<u8> =
        peer.keys.iter().map(|key| peer.session.streams.peek(*key).unwrap().priority.urgency).collect();
    assert_eq!(
        (urgencies[0], &urgencies[1..]),
        (3, &[0; EARLY_PRIORITIES_MAX][..]),
        "the oldest is forgotten"
    );
}

#[test]
fn a_priority_update_names_a_request() {
    for bytes in [priority_update(0, "u=1"), priority_update(2, "u=1")] {
        let mut peer = Peer::new();
        assert_eq!(peer.say(&[bytes]), "fatal ProtocolError\n");
    }
    let mut peer = Peer::new();
    peer.say(&[get(1)]);
    peer.answer(peer.key(0));
    assert_eq!(peer.say(&[priority_update(1, "u=1")]), "", "it may be under way when the stream ends");
}
