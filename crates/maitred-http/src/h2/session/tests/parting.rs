//! Responses that are complete before their requests are.

use super::*;

fn answer_of(id: u8) -> Vec<u8> {
    frame(kind::PING, flag::ACK, 0, &[b'p', b'a', b'r', b't', 0, 0, 0, id])
}

fn early(peer: &mut Peer, at: usize) {
    peer.respond(peer.key(at), 413, &[], true);
    peer.session.release(peer.key(at));
}

#[test]
fn the_stream_is_reset_when_the_response_was_read() {
    let mut peer = Peer::new();
    peer.say(&[post(1)]);
    early(&mut peer, 0);
    assert_eq!(peer.heard(), "HEADERS 1 :status=413 ended\nPING part\0\0\0\u{1}\n");
    // More frames than may be without meaning, which were on their way.
    let pieces: Vec<_> = std::iter::repeat_with(|| data(1, false, b"x")).take(30).collect();
    assert_eq!(peer.ask(&pieces), "");
    assert_eq!(peer.ask(&[answer_of(1)]), "RST_STREAM 1 NoError\n");
    assert_eq!(peer.ask(&[data(1, true, b"late"), answer_of(1), get(3)]), "request 3 ended\n");
}

#[test]
fn what_the_client_ends_is_not_reset() {
    for end in [data(1, true, b"x"), frame(kind::RST_STREAM, 0, 1, &8u32.to_be_bytes())] {
        let mut peer = Peer::new();
        peer.say(&[post(1)]);
        early(&mut peer, 0);
        peer.heard();
        assert_eq!(peer.ask(&[end, answer_of(1)]), "");
    }
}

#[test]
fn a_client_that_says_nothing_has_its_oldest_stream_reset() {
    let mut peer = Peer::new();
    for stream in 0..17 {
        let id = 2 * stream + 1;
        peer.say(&[post(id)]);
        early(&mut peer, stream as usize);
        let heard = peer.heard();
        assert_eq!(heard.contains("RST_STREAM 1 NoError\n"), stream == 16, "{heard}");
    }
    assert_eq!(peer.ask(&[answer_of(1)]), "", "it was, already");
}

/// Beyond the window of the stream, it is a flood.
#[test]
fn what_comes_is_bounded() {
    let granted = Settings { stream_window: 100, ..small() };
    let mut peer = Peer::with(&granted);
    peer.say(&[post(1)]);
    early(&mut peer, 0);
    peer.heard();
    assert_eq!(peer.ask(&[data(1, false, &[0; 100])]), "");
    let pieces: Vec<_> = std::iter::repeat_with(|| data(1, false, b"x")).take(30).collect();
    assert!(peer.ask(&pieces).starts_with("fatal EnhanceYourCalm"));
}

#[test]
fn other_answers_to_pings_mean_nothing() {
    let mut peer = Peer::new();
    peer.say(&[post(1)]);
    early(&mut peer, 0);
    peer.heard();
    assert_eq!(peer.ask(&[answer_of(3), answer_of(0)]), "");
}
