//! Requests under way, as the status shows them: looked for when it is asked for, in what is kept of each connection anyway.

use std::time::Instant;

use maitred_http::request::HeadRoom;
use maitred_http::uri::Slashes;
use maitred_policy::target::Target;
use maitred_status::under_way::{LEAST, RequestUnderWay, UNDER_WAY_MAX, Where};

use super::Clients;
use crate::connection::State;
use crate::entry::Entry;
use crate::inbox::Message;
use crate::keys::ConnKey;
use crate::origin::{self, Client};

impl Clients {
    /// `/status.json`. Has the other threads note which requests they have, for the next time that it is asked for.
    pub(crate) fn status_json(&self) -> String {
        self.note_under_way();
        let others = self.shared.inboxes.iter().zip(&self.shared.under_way).enumerate();
        for (_, (inbox, found)) in others.filter(|(number, _)| *number != self.number) {
            if found.is_stale(self.clock.now) {
                inbox.send(Message::Look);
            }
        }
        self.shared.status_json(self.clock.unix_secs)
    }

    /// Notes those of this thread that have been there longest.
    pub(crate) fn note_under_way(&self) {
        let Some(found) = self.shared.under_way.get(self.number) else { return };
        let now = self.clock.now;
        let mut oldest: Vec<(Instant, ConnKey, Where)> = Vec::with_capacity(UNDER_WAY_MAX + 1);
        for (index, connection) in self.connections.iter() {
            let is_old = now.saturating_duration_since(connection.began) >= LEAST;
            if let Some(place) = place_of(connection).filter(|_| is_old) {
                let at = oldest.partition_point(|(began, ..)| *began <= connection.began);
                if at < UNDER_WAY_MAX {
                    oldest.insert(at, (connection.began, index, place));
                    oldest.truncate(UNDER_WAY_MAX);
                }
            }
        }
        let requests = oldest.into_iter().filter_map(|(_, index, place)| self.under_way(index, place));
        found.note(now, requests.collect());
    }

    fn under_way(&self, index: ConnKey, place: Where) -> Option<RequestUnderWay> {
        let connection = &self.connections[index];
        let exchange = connection.exchange.as_deref()?;
        let mut room = HeadRoom::default();
        let request = exchange.head.view(&mut room)?;
        let proxies = &self.shared.start.config.server.trusted_proxies;
        let client = Client::of(&request, &connection.peer(), proxies);
        let id = exchange.dispatch.request_id().map(origin::hexadecimal);
        let id = client.given_request_id(&request).or(id.as_ref().map(<[u8; 32]>::as_slice));
        Some(RequestUnderWay {
            began: connection.began,
            method: request.method_text.to_owned(),
            path: Target::asked(&request, Slashes::Keep).canonical_path().into_owned(),
            route: exchange.routed.map_or(0, |routed| routed.plan.number),
            place,
            request_id: String::from_utf8_lossy(id.unwrap_or_default()).into_owned(),
        })
    }
}

/// Where the request of a connection is, if the connection is a client's and has one. A tunnel is none: it may last for days.
fn place_of(connection: &Entry) -> Option<Where> {
    if connection.is_admin() || connection.internal {
        return None;
    }
    match &connection.state {
        State::Body | State::Spooling => Some(Where::Receiving),
        State::Gate => Some(Where::Gate),
        State::Queued { .. } => Some(Where::Queue),
        State::HandedOff { .. } => Some(Where::Application),
        State::Upstream(attempt) if attempt.tunnel.is_some() => None,
        State::Upstream(attempt) if attempt.begun => Some(Where::Sending),
        State::Upstream(_) => Some(Where::Application),
        State::Disk => Some(Where::Disk),
        State::Writing => Some(Where::Sending),
        State::Idle | State::Handshake | State::Head | State::Command | State::Watching => None,
        State::Multiplexed { .. } | State::Linger => None,
    }
}
