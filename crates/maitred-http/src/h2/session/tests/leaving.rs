//! GOAWAY in both directions (9113-6.8).

use super::*;

#[test]
fn leaving_is_announced_and_then_decided() {
    let mut peer = Peer::new();
    peer.say(&[get(1)]);
    assert!(!peer.session.is_leaving());
    peer.session.go_away();
    assert_eq!(peer.heard(), "GOAWAY 2147483647 NoError\nPING maitred!\n");
    assert!(peer.session.is_leaving() && !peer.session.is_over());
    assert_eq!(peer.ask(&[get(3)]), "request 3 ended\n", "it was on its way");
    let other = frame(kind::PING, flag::ACK, 0, b"12345678");
    assert_eq!(peer.ask(&[other]), "");
    let answer = frame(kind::PING, flag::ACK, 0, b"maitred!");
    assert_eq!(peer.ask(&[answer]), "GOAWAY 3 NoError\n");
    assert_eq!(peer.ask(&[get(5)]), "RST_STREAM 5 RefusedStream\n");
    peer.session.go_away();
    assert_eq!(peer.heard(), "", "there is nothing more to say");
    peer.answer(peer.key(0));
    assert!(!peer.session.is_over());
    peer.answer(peer.key(1));
    assert!(peer.session.is_over());
}

#[test]
fn a_peer_that_does_not_answer_is_told_all_the_same() {
    let mut peer = Peer::new();
    peer.session.go_away();
    peer.session.go_away();
    assert_eq!(peer.heard(), "GOAWAY 2147483647 NoError\nPING maitred!\nGOAWAY 0 NoError\n");
    assert!(peer.session.is_over());
    assert_eq!(peer.ask(&[get(1)]), "RST_STREAM 1 RefusedStream\n");
    // An error afterwards names no later stream than before.
    assert_eq!(peer.ask(&[frame(kind::PING, 0, 0, b"")]), "fatal FrameSizeError\nGOAWAY 0 FrameSizeError\n");
    peer.session.go_away();
    assert_eq!(peer.heard(), "");
}

#[test]
fn a_peer_that_leaves_is_served_to_the_end() {
    let mut peer = Peer::new();
    assert_eq!(peer.say(&[get(1), frame(kind::GOAWAY, 0, 0, &[0; 20])]), "request 1 ended\npeer leaves\n");
    assert!(!peer.session.is_over() && !peer.session.is_leaving());
    peer.answer(peer.key(0));
    assert_eq!(peer.heard(), "HEADERS 1 :status=200 ended\n");
    assert!(peer.session.is_over());
}
