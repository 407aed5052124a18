//! Flow control in both directions (9113-5.2, 9113-6.9).

use super::*;

/// A session with one request whose response has begun.
fn responding(granted: &Settings, first: &[Vec<u8>]) -> (Peer, StreamKey) {
    let mut peer = Peer::with(granted);
    peer.say(first);
    peer.say(&[get(1)]);
    let key = peer.key(0);
    peer.respond(key, 200, &[], false);
    peer.heard();
    (peer, key)
}

/// Writes as much as there is room for; the bytes of the frames.
fn write(peer: &mut Peer, key: StreamKey) -> Vec<usize> {
    let mut frames = Vec::new();
    loop {
        let room = peer.session.room(key);
        if room == 0 {
            return frames;
        }
        peer.session.data(key, room, false).extend(std::iter::repeat_n(b'x', room));
        frames.push(room);
    }
}

#[test]
fn content_stops_where_the_window_ends() {
    let (mut peer, key) = responding(&small(), &[]);
    assert_eq!(write(&mut peer, key), [16_384, 16_384, 16_384, 16_383]);
    assert_eq!(peer.session.next_writable(), None);
    assert_eq!(peer.say(&[window_update(1, 10)]), "", "the connection's window is used up, too");
    assert_eq!(peer.say(&[window_update(0, 7)]), "writable\n");
    assert_eq!(peer.session.next_writable(), Some(key));
    assert_eq!(peer.session.next_writable(), None, "it waits no more");
    assert_eq!(write(&mut peer, key), [7]);
    assert_eq!(peer.say(&[window_update(0, 7)]), "writable\n");
    assert_eq!(write(&mut peer, key), [3]);
}

#[test]
fn frames_are_no_larger_than_the_peer_takes() {
    let (mut peer, key) = responding(&small(), &[settings(&[(setting::MAX_FRAME_SIZE, 1 << 20)])]);
    assert_eq!(peer.session.room(key), DATA_BYTES_MAX, "larger ones would only keep others waiting");
}

#[test]
fn the_initial_window_applies_to_new_streams_and_changes_old_ones() {
    let (mut peer, key) = responding(&small(), &[settings(&[(setting::INITIAL_WINDOW_SIZE, 3)])]);
    assert_eq!(write(&mut peer, key), [3]);
    // 3 are used of 2 now.
    assert_eq!(peer.say(&[settings(&[(setting::INITIAL_WINDOW_SIZE, 2)])]), "writable\n");
    assert_eq!(peer.session.next_writable(), None);
    assert_eq!(peer.session.room(key), 0);
    peer.say(&[window_update(1, 1)]);
    assert_eq!((peer.session.next_writable(), peer.session.room(key)), (None, 0));
    peer.say(&[window_update(1, 1)]);
    assert_eq!((peer.session.next_writable(), peer.session.room(key)), (Some(key), 1));
    peer.say(&[settings(&[(setting::INITIAL_WINDOW_SIZE, 0), (setting::INITIAL_WINDOW_SIZE, 102)])]);
    assert_eq!(write(&mut peer, key), [101], "only the last value of a frame is to be seen");
}

#[test]
fn windows_do_not_overflow() {
    const MOST: u32 = frame::WINDOW_MAX - frame::INITIAL_WINDOW;
    let (mut peer, _) = responding(&small(), &[]);
    assert_eq!(peer.ask(&[window_update(1, MOST), window_update(0, MOST)]), "");
    assert_eq!(peer.ask(&[window_update(1, 1)]), "reset 1 user 0\nRST_STREAM 1 FlowControlError\n");
    assert_eq!(peer.ask(&[window_update(0, 1)]), "fatal FlowControlError\nGOAWAY 1 FlowControlError\n");
    let (mut peer, _) = responding(&small(), &[]);
    let grow = settings(&[(setting::INITIAL_WINDOW_SIZE, frame::INITIAL_WINDOW + 1)]);
    assert_eq!(peer.say(&[window_update(1, MOST), grow]), "fatal FlowControlError\n");
}

#[test]
fn a_window_opens_by_something() {
    let (mut peer, _) = responding(&small(), &[]);
    assert_eq!(peer.ask(&[window_update(1, 0)]), "reset 1 user 0\nRST_STREAM 1 ProtocolError\n");
    assert_eq!(peer.ask(&[window_update(0, 0)]), "fatal ProtocolError\nGOAWAY 1 ProtocolError\n");
    let (mut peer, key) = responding(&small(), &[]);
    write(&mut peer, key);
    let reserved = frame(kind::WINDOW_UPDATE, 0, 0, &(1_u32 << 31 | 5).to_be_bytes());
    assert_eq!(peer.say(&[reserved, window_update(1, 100)]), "writable\nwritable\n");
    assert_eq!(write(&mut peer, key), [5], "the reserved bit is ignored");
}

#[test]
fn a_stream_that_is_over_waits_no_more() {
    for over in [rst(1), window_update(1, 0)] {
        let (mut peer, key) = responding(&small(), &[]);
        write(&mut peer, key);
        peer.say(&[window_update(1, 100), over, window_update(0, 100)]);
        assert_eq!(peer.session.next_writable(), None);
    }
    let (mut peer, key) = responding(&small(), &[]);
    write(&mut peer, key);
    peer.session.reset(key, Code::Cancel);
    assert_eq!(peer.say(&[window_update(0, 100)]), "", "no stream waits");
}

#[test]
fn out_holds_no_more_content_than_was_agreed() {
    let wide = [settings(&[(setting::INITIAL_WINDOW_SIZE, 10 << 20)]), window_update(0, 10 << 20)];
    let (mut peer, key) = responding(&small(), &wide);
    let written: usize = write(&mut peer, key).iter().sum();
    assert!((SENT_AHEAD_BYTES - 100..SENT_AHEAD_BYTES + DATA_BYTES_MAX).contains(&written), "{written}");
    assert_eq!(peer.session.next_writable(), None);
    assert!(!peer.session.is_full(), "frames are still read, and answered");
    peer.session.out().drain(..DATA_BYTES_MAX);
    assert_eq!(peer.session.next_writable(), Some(key), "there is room without an event");
}

#[test]
fn nothing_is_read_while_out_is_full() {
    let mut peer =
        Peer::with(&Settings { floods: Floods { pings_max: u32::MAX, ..Floods::default() }, ..small() });
    let pings: Vec<_> = (0..30_000).map(|_| ping(b"12345678")).collect();
    assert_eq!(peer.say(&pings), "");
    assert!(peer.session.is_full());
    let held = peer.session.out().len();
    assert!(held < SENT_AHEAD_BYTES + CONTROL_BYTES_MAX + 17, "{held}");
    let unread = peer.unread.len();
    peer.heard();
    assert_eq!(peer.say(&[]), "");
    assert!(peer.unread.len() < unread, "it goes on when out is sent");
}

#[test]
fn the_peers_windows_open_when_half_is_consumed() {
    let mut peer = Peer::new();
    peer.say(&[post(1)]);
    let key = peer.key(0);
    for _ in 0..2 {
        assert_eq!(peer.ask(&[data(1, false, &[0; 16_000])]), "data 1 16000 bytes\n");
    }
    peer.session.consumed(key, 32_000);
    assert_eq!(peer.heard(), "");
    peer.say(&[data(1, false, &[0; 3000])]);
    peer.session.consumed(key, 2999);
    assert_eq!(peer.heard(), "");
    peer.session.consumed(key, 1);
    assert_eq!(peer.heard(), "WINDOW_UPDATE 1 35000\n");
    peer.session.consumed(key, usize::MAX);
    assert_eq!(peer.heard(), "", "no more is given back than has come");
    peer.say(&[data(1, true, &[0; 16_000])]);
    peer.session.consumed(key, 16_000);
    assert_eq!(peer.heard(), "WINDOW_UPDATE 0 51000\n", "an ended stream needs no window");
}

#[test]
fn padding_is_given_back_by_the_session() {
    let mut peer = Peer::new();
    peer.say(&[post(1)]);
    let mut payload = vec![255];
    payload.extend([0; 256]);
    let padded = frame(kind::DATA, flag::PADDED, 1, &payload);
    let mut heard = String::new();
    for _ in 0..200 {
        heard += &peer.ask(std::slice::from_ref(&padded)).replace("data 1 \"\\0\"\n", "");
    }
    // 256 of the 257 bytes of a frame.
    assert_eq!(heard, "WINDOW_UPDATE 1 35072\nWINDOW_UPDATE 0 50176\n");
}

#[test]
fn a_peer_keeps_to_the_windows() {
    // Streams from before the peer knows the settings have the initial window, or the larger one of the settings to come.
    let mut peer = Peer::new();
    peer.say(&[post(1)]);
    for _ in 0..4 {
        peer.say(&[data(1, false, &[0; 16_384])]);
    }
    peer.say(&[data(1, false, &[0; 70_000 - 4 * 16_384])]);
    assert_eq!(
        peer.ask(&[data(1, false, b"x")]),
        "reset 1 user 0\nRST_STREAM 1 FlowControlError\nWINDOW_UPDATE 0 70001\n"
    );
    let mut peer = Peer::new();
    peer.say(&[post(1), post(3)]);
    for id in [1, 1, 1, 3, 3, 3] {
        assert_eq!(peer.say(&[data(id, false, &[0; 16_384])]), format!("data {id} 16384 bytes\n"));
    }
    let beyond = 100_000 - 6 * 16_384 + 1;
    assert_eq!(peer.say(&[data(1, false, &vec![0; beyond])]), "fatal FlowControlError\n");
}

#[test]
fn before_the_settings_are_known_the_initial_window_holds() {
    let granted = Settings { stream_window: 100, ..small() };
    let mut peer = Peer::before_preface(&granted);
    peer.say(&[PREFACE.to_vec(), settings(&[]), post(1)]);
    assert_eq!(peer.say(&[data(1, false, &[0; 16_000])]), "data 1 16000 bytes\n");
    assert_eq!(peer.say(&[frame(kind::SETTINGS, flag::ACK, 0, &[]), post(3)]), "request 3\n");
    assert_eq!(peer.say(&[data(3, false, &[0; 101])]), "reset 3 user 0\n");
}

#[test]
fn what_nobody_consumes_is_given_back() {
    // A release with bytes in the caller's hands, in the middle of a frame.
    let mut peer = Peer::new();
    peer.say(&[post(1)]);
    let bytes = data(1, false, &[0; 16_000]);
    peer.say(&[bytes[..8009].to_vec()]);
    peer.respond(peer.key(0), 413, &[], true);
    peer.session.release(peer.key(0));
    assert_eq!(peer.heard(), "HEADERS 1 :status=413 ended\nPING part\0\0\0\u{1}\n");
    // The rest of the frame comes in two pieces.
    peer.say(&[bytes[8009..9000].to_vec()]);
    peer.say(&[bytes[9000..].to_vec(), data(1, false, &[0; 16_000]), data(1, false, &[0; 16_000])]);
    assert_eq!(peer.heard(), "");
    assert_eq!(peer.ask(&[data(1, true, &[0; 2000])]), "WINDOW_UPDATE 0 50000\n");
    // A request whose body has come as a whole, and was not read.
    let mut peer = Peer::new();
    peer.say(&[post(1)]);
    for last in [false, false, false, true] {
        peer.say(&[data(1, last, &[0; 13_000])]);
    }
    peer.answer(peer.key(0));
    assert_eq!(peer.heard(), "HEADERS 1 :status=200 ended\nWINDOW_UPDATE 0 52000\n");
}

#[test]
fn bytes_of_a_reset_stream_are_given_back() {
    let mut peer = Peer::new();
    peer.say(&[post(1)]);
    for _ in 0..4 {
        peer.say(&[data(1, false, &[0; 13_000])]);
    }
    assert_eq!(peer.ask(&[rst(1)]), "reset 1 user 0\nWINDOW_UPDATE 0 52000\n");
    peer.session.consumed(peer.key(0), 52_000);
    peer.session.release(peer.key(0));
    assert_eq!(peer.heard(), "", "once");
}
