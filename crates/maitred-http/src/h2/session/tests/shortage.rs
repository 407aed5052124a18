//! A caller that is short of something serves fewer streams, which is no error of its peer (9113-5.1.2, 9113-8.7).

use super::*;

#[test]
fn fewer_streams_are_announced_and_more_are_refused() {
    let mut peer = Peer::new();
    peer.say(&[get(1), get(3), get(5)]);
    peer.session.limit_streams(2);
    assert_eq!(peer.heard(), "SETTINGS 3=2\n");
    assert_eq!(peer.ask(&[get(7)]), "RST_STREAM 7 RefusedStream\n", "those that are there go on");
    assert_eq!(peer.ask(&[frame(kind::SETTINGS, flag::ACK, 0, &[])]), "");
    peer.answer(peer.key(0));
    peer.answer(peer.key(1));
    peer.heard();
    assert_eq!(peer.ask(&[get(9), get(11)]), "request 9 ended\nRST_STREAM 11 RefusedStream\n");
    assert_eq!((peer.session.take_refused(), peer.session.take_refused()), (2, 0));
    peer.session.limit_streams(2);
    assert_eq!(peer.heard(), "", "that is known");
    peer.session.limit_streams(100);
    assert_eq!(peer.heard(), "SETTINGS 3=4\n", "no more than the settings say");
    assert_eq!(peer.ask(&[get(13)]), "request 13 ended\n");
    peer.session.limit_streams(0);
    assert_eq!(peer.heard(), "SETTINGS 3=1\n", "and no less than one");
}

#[test]
fn refusals_for_want_of_room_are_not_held_against_the_peer() {
    let mut peer = Peer::new();
    peer.say(&[get(1)]);
    peer.session.refuse_streams(true);
    for number in 1..100 {
        let id = 2 * number + 1;
        assert_eq!(peer.ask(&[get(id)]), format!("RST_STREAM {id} RefusedStream\n"));
    }
    assert_eq!(peer.session.take_refused(), 99);
    peer.answer(peer.key(0));
    peer.heard();
    assert_eq!(peer.ask(&[get(301)]), "request 301 ended\n", "one stream alone is served");
    peer.session.refuse_streams(false);
    assert_eq!(peer.ask(&[get(303)]), "request 303 ended\n");
}
