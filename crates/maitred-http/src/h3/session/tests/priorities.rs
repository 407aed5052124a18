//! The order of responses (RFC 9218).

use super::*;

/// Requests with these `priority` fields; the order in which they are named as those that should write, each `rounds` times.
fn order(priorities: &[&str], rounds: usize) -> Vec<u64> {
    let mut client = Client::with(&Settings { streams_max: 100, ..small() });
    for (at, priority) in priorities.iter().enumerate() {
        client.say(4 * at as u64, &[with(&GET, "priority", priority)], true);
        client.session.wait(client.key(4 * at as u64));
    }
    let mut order = Vec::new();
    for _ in 0..rounds * priorities.len() {
        let key = client.session.next_writable().unwrap();
        let id = client.of(key);
        order.push(id / 4);
        if order.iter().filter(|known| **known == id / 4).count() < rounds {
            client.session.wait(key);
        }
    }
    assert!(!client.session.is_waiting());
    order
}

/// 9218-10.
#[test]
fn the_most_urgent_is_next_and_incremental_ones_take_turns() {
    assert_eq!(order(&["u=5", "u=1", "", "u=0"], 2), [3, 3, 1, 1, 2, 2, 0, 0]);
    assert_eq!(order(&["", "u=3", "u=3"], 2), [0, 0, 1, 1, 2, 2]);
    assert_eq!(order(&["i", "i", "i"], 2), [0, 1, 2, 0, 1, 2]);
    assert_eq!(order(&["i", "", "i"], 2), [1, 1, 0, 2, 0, 2]);
}

/// The numbers that QUIC gets: a larger one is sent first. Streams that say nothing are as urgent as 3.
#[test]
fn quic_is_told_the_same_order() {
    let mut client = Client::with(&Settings { streams_max: 100, ..small() });
    let priorities = ["u=0", "u=0, i", "u=2", "", "u=3", "u=3, i", "u=4", "u=7", "u=7, i"];
    for (at, priority) in priorities.iter().enumerate() {
        let id = 4 * at as u64;
        let head = if priority.is_empty() { headers(&GET) } else { with(&GET, "priority", priority) };
        client.say(id, &[head], true);
        client.respond(id, 200, &[], false);
    }
    let mut told = Vec::new();
    while let Some(unsent) = client.session.take_unsent() {
        told.push(unsent.priority.expect("it was not said before"));
        client.session.hold(unsent.stream, false);
    }
    assert!(told.is_sorted_by(|one, next| one > next), "{told:?}");
    client.write(0, b"x", true);
    assert_eq!(client.session.take_unsent().and_then(|unsent| unsent.priority), None, "it has not changed");
}

/// 9218-7.2: a frame counts before the field of the request, whichever comes first.
#[test]
fn a_priority_comes_in_a_frame_before_or_behind_its_request() {
    let mut client = Client::new();
    assert_eq!(client.tell(&[urgent(0, "u=7"), urgent(4, "u=7"), urgent(4, "u=0"), urgent(8, "i")]), "");
    for id in [0, 4, 8, 12] {
        client.say(id, &[with(&GET, "priority", "u=2")], true);
        client.session.wait(client.key(id));
    }
    assert_eq!(client.tell(&[urgent(8, "u=1, i")]), "");
    let mut next = Vec::new();
    while let Some(key) = client.session.next_writable() {
        next.push(client.of(key));
    }
    assert_eq!(next, [4, 8, 12, 0]);
    let mut changed = BTreeMap::new();
    while let Some(unsent) = client.session.take_unsent() {
        assert!(unsent.bytes.is_empty() && !unsent.ended);
        changed.insert(unsent.id, unsent.priority);
        client.session.hold(unsent.stream, false);
    }
    assert_eq!(changed, BTreeMap::from([(8, Some(6 << 27))]), "it is said at once");
}

#[test]
fn a_priority_that_changes_while_a_piece_is_held_is_said_later() {
    for ended in [false, true] {
        let mut client = Client::new();
        client.get(0);
        client.respond(0, 200, &[], ended);
        client.stuck.insert(0);
        client.heard();
        client.tell(&[urgent(0, "u=0, i")]);
        assert_eq!(client.session.take_unsent(), None, "what is held goes first");
        client.unstick(0);
        let unsent =
            client.session.take_unsent().map(|unsent| (unsent.bytes.len(), unsent.ended, unsent.priority));
        assert_eq!(unsent, Some((0, false, Some(7 << 27))));
    }
}

#[test]
fn a_priority_of_a_stream_that_is_over_means_nothing() {
    let mut client = Client::new();
    client.get(0);
    client.answer(0);
    client.heard();
    client.get(4);
    client.reset(4, Code::InternalError);
    client.heard();
    assert_eq!(client.tell(&[urgent(0, "u=0"), urgent(4, "u=0")]), "");
    assert_eq!(client.session.take_unsent(), None);
}

/// 9218-7.2: what cannot have been allowed by QUIC.
#[test]
fn a_priority_of_a_stream_beyond_the_limit_ends_the_connection() {
    for (opened, last) in [(None, 12), (Some(0), 16), (Some(8), 24)] {
        let mut client = Client::new();
        opened.iter().for_each(|id| client.open(*id));
        assert_eq!(client.tell(&[urgent(last, "u=1")]), "");
        assert_eq!(client.tell(&[urgent(last + 4, "u=1")]), "fatal IdError");
    }
    for id in [1, 2, 3, varint::VALUE_MAX, varint::VALUE_MAX & !3] {
        assert_eq!(Client::new().tell(&[urgent(id, "u=1")]), "fatal IdError", "no request stream");
    }
}
