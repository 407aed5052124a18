use super::*;
use crate::keys::{ChannelKey, ConnId, Key, LinkKey, RelayKey};
use crate::testing::{client, reactor, shared};

fn events(tokens: &[Token]) -> Vec<epoll::Event> {
    let event = |token: &Token| epoll::Event { flags: epoll::EventFlags::IN, data: token.pack() };
    tokens.iter().map(event).collect()
}

#[test]
fn a_slow_turn_names_its_events() {
    let mut thread = reactor(shared("", 1), 0);
    let (known, _one) = client(&mut thread, "192.0.2.1:80");
    let (unix, _two) = client(&mut thread, "unix");
    let current = |index| Token::Connection(thread.id(index));
    let gone = Token::Connection(ConnId { serial: thread.id(known).serial + 1, ..thread.id(known) });
    for (tokens, last, expected) in [
        (&[][..], false, ""),
        (&[], true, "what is done once per turn"),
        (&[current(known)], false, "connection of 192.0.2.1:80"),
        (&[current(unix), Token::Inbox], false, "connection on a Unix socket, messages of other threads"),
        (
            &[gone, Token::Listener(2)],
            true,
            "a connection that is gone, listener 2, and what is done once per turn",
        ),
        (&[Token::Inbox; 4], false, &["messages of other threads"; 4].join(", ")),
        (&[Token::Inbox; 6], false, &(["messages of other threads"; 4].join(", ") + " and 2 more")),
    ] {
        assert_eq!(thread.describe(&events(tokens), last), expected);
    }
    for token in [
        Token::Channel { key: ChannelKey::of(0), epoch: 0 },
        Token::Relay { key: RelayKey::of(1), channel: 0 },
        Token::Link { key: LinkKey::of(2), epoch: 0 },
        Token::Connection(ConnId::of(77, 0)),
    ] {
        assert!(
            thread.describe(&events(&[token]), false).contains("gone"),
            "{token:?} names what it cannot know"
        );
    }
    [known, unix].into_iter().for_each(|index| thread.close(index));
}
