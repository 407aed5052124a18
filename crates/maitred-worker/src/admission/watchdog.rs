//! How long the turns of an event loop take. Nothing in one may wait, so that a long one is a bug, a disk that was not expected,
//! or a thread that got no CPU; it is counted, and logged with what it was about.

use std::fmt::Write as _;

use rustix::event::epoll;

use super::Admission;
use crate::keys::ChannelKey;
use crate::token::Token;

/// Events of a slow turn that the log names.
const NAMED_MAX: usize = 4;

impl Admission {
    pub(crate) fn describe(&self, events: &[epoll::Event], last: bool) -> String {
        let mut text = String::new();
        for event in events.iter().take(NAMED_MAX) {
            let separator = if text.is_empty() { "" } else { ", " };
            let _ = write!(text, "{separator}{}", self.name_of(Token::unpack(event.data)));
        }
        if events.len() > NAMED_MAX {
            let _ = write!(text, " and {} more", events.len() - NAMED_MAX);
        }
        if last {
            text.push_str(if text.is_empty() {
                "what is done once per turn"
            } else {
                ", and what is done once per turn"
            });
        }
        text
    }

    /// What an event was about, if that is still there.
    fn name_of(&self, token: Token) -> String {
        let process = |key: ChannelKey| match self.pools.channels.get(key) {
            Some(channel) => {
                format!("application process {}/{}", self.shared.pool_name(channel.id.pool), channel.id.slot)
            }
            None => "an application process that is gone".to_owned(),
        };
        match token {
            Token::Connection(id) if self.is_current(id) => {
                let connection = &self.connections[id.key];
                match connection.remote.address {
                    Some(address) => format!("connection of {address}"),
                    None => "connection on a Unix socket".to_owned(),
                }
            }
            Token::Connection(_) => "a connection that is gone".to_owned(),
            Token::Listener(which) => format!("listener {which}"),
            Token::Datagrams(which) => format!("datagram socket {which}"),
            Token::Channel { key, .. } => format!("channel of {}", process(key)),
            Token::Link { key, .. } => match self.pools.links.get(key) {
                Some(link) => format!("link to another user of {}", process(link.channel)),
                None => "a link that is gone".to_owned(),
            },
            Token::Relay { key, .. } => match self.pools.relays.get(key) {
                Some(relay) => format!("relay of {}", process(relay.channel)),
                None => "a relay that is gone".to_owned(),
            },
            Token::Upstream(_) => "connection to a server".to_owned(),
            Token::Fill(_) => "fill of the cache".to_owned(),
            Token::Question(_) => "question of `forward_auth`".to_owned(),
            Token::Inbox => "messages of other threads".to_owned(),
        }
    }
}

#[cfg(test)]
mod tests;
