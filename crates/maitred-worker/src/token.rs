//! What an event of epoll is about.

use crate::keys::{
    ChannelKey, ConnId, ConnKey, FillId, FillKey, Id, LinkKey, QuestionId, QuestionKey, RelayKey, UpstreamId,
    UpstreamKey,
};
use rustix::event::epoll;

/// What an event is about: eight bits of kind, 24 of serial, 32 of index.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Token {
    Connection(ConnId),
    Listener(u32),
    Datagrams(u32),
    Channel { key: ChannelKey, epoch: u32 },
    Relay { key: RelayKey, channel: u32 },
    Upstream(UpstreamId),
    Link { key: LinkKey, epoch: u32 },
    Question(QuestionId),
    Fill(FillId),
    Inbox,
}

pub(super) const SERIAL_MASK: u32 = 0x00ff_ffff;

impl Token {
    pub(super) fn pack(self) -> epoll::EventData {
        let (kind, serial, index) = match self {
            Token::Connection(ConnId { key, serial }) => (0u64, serial & SERIAL_MASK, key.number()),
            Token::Listener(index) => (1, 0, index),
            Token::Channel { key, epoch } => (2, epoch & SERIAL_MASK, key.number()),
            Token::Inbox => (3, 0, 0),
            Token::Relay { key, channel } => (4, channel & SERIAL_MASK, key.number()),
            Token::Upstream(Id { key, serial }) => (5, serial & SERIAL_MASK, key.number()),
            Token::Link { key, epoch } => (6, epoch & SERIAL_MASK, key.number()),
            Token::Question(Id { key, serial }) => (7, serial & SERIAL_MASK, key.number()),
            Token::Fill(Id { key, serial }) => (8, serial & SERIAL_MASK, key.number()),
            Token::Datagrams(index) => (9, 0, index),
        };
        epoll::EventData::new_u64(kind << 56 | u64::from(serial) << 32 | u64::from(index))
    }

    pub(super) fn unpack(data: epoll::EventData) -> Token {
        let bits = data.u64();
        let (serial, index) = ((bits >> 32) as u32 & SERIAL_MASK, bits as u32);
        match bits >> 56 {
            0 => Token::Connection(ConnId { key: ConnKey::from_number(index), serial }),
            1 => Token::Listener(index),
            2 => Token::Channel { key: ChannelKey::from_number(index), epoch: serial },
            4 => Token::Relay { key: RelayKey::from_number(index), channel: serial },
            5 => Token::Upstream(Id { key: UpstreamKey::from_number(index), serial }),
            6 => Token::Link { key: LinkKey::from_number(index), epoch: serial },
            7 => Token::Question(Id { key: QuestionKey::from_number(index), serial }),
            8 => Token::Fill(Id { key: FillKey::from_number(index), serial }),
            9 => Token::Datagrams(index),
            _ => Token::Inbox,
        }
    }

    /// As much of a process's epoch as there is room for.
    pub(super) fn epoch(epoch: u64) -> u32 {
        epoch as u32 & SERIAL_MASK
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_survive_packing() {
        for token in [
            Token::Connection(ConnId::of(0, 0)),
            Token::Connection(ConnId::of(u32::MAX, SERIAL_MASK)),
            Token::Listener(3),
            Token::Channel { key: ChannelKey::from_number(9), epoch: 77 },
            Token::Relay { key: RelayKey::from_number(5), channel: 1 },
            Token::Upstream(Id { key: UpstreamKey::from_number(6), serial: 2 }),
            Token::Link { key: LinkKey::from_number(8), epoch: 5 },
            Token::Question(Id { key: QuestionKey::from_number(7), serial: 4 }),
            Token::Fill(Id { key: FillKey::from_number(9), serial: 6 }),
            Token::Datagrams(4),
            Token::Inbox,
        ] {
            assert_eq!(Token::unpack(token.pack()), token);
        }
    }

    proptest::proptest! {
        /// A serial number is cut to 24 bits, and nothing of it reaches the kind or the index.
        #[test]
        fn any_number_packs_without_touching_its_neighbours(index: u32, serial: u32) {
            let cut = serial & SERIAL_MASK;
            let (channel, link) = (ChannelKey::from_number(index), LinkKey::from_number(index));
            let relay = |channel| {
                Token::Relay { key: RelayKey::from_number(index), channel }
            };
            let upstream = |serial| Id { key: UpstreamKey::from_number(index), serial };
            let both = [
                (Token::Connection(ConnId::of(index, serial)), Token::Connection(ConnId::of(index, cut))),
                (Token::Channel { key: channel, epoch: serial }, Token::Channel { key: channel, epoch: cut }),
                (relay(serial), relay(cut)),
                (Token::Upstream(upstream(serial)), Token::Upstream(upstream(cut))),
                (Token::Link { key: link, epoch: serial }, Token::Link { key: link, epoch: cut }),
                (Token::Listener(index), Token::Listener(index)),
            ];
            for (token, expected) in both {
                proptest::prop_assert_eq!(Token::unpack(token.pack()), expected);
            }
            let distinct: std::collections::HashSet<u64> = both.iter().map(|(token, _)| token.pack().u64()).collect();
            proptest::prop_assert_eq!(distinct.len(), both.len());
            proptest::prop_assert_eq!(Token::epoch(u64::from(serial) | 7 << 32), cut);
        }
    }
}
