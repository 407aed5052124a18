//! Where a request has come in: the one place where it is made out.

use super::Clients;
use crate::connection::tls::TlsLookup;
use crate::connection::wire::Wire;
use crate::keys::ConnKey;
use crate::shared::NO_LISTEN;
use maitred_config::{Listen, Misdirected};
use maitred_policy::arrival::Arrival;

impl Clients {
    /// Where the request of a connection, or of a stream, has come in. A connection of a predecessor has the listener that is
    /// bound to its own address.
    pub(crate) fn arrival(&self, index: ConnKey) -> Arrival<'static> {
        let (shared, connection) = (self.shared, &self.connections[index]);
        let listener = (connection.listen != NO_LISTEN).then_some(connection.listen);
        let arrival = Arrival::new(listener, shared.bound_at(connection.listen));
        if !connection.secure {
            return arrival;
        }
        let lookup = TlsLookup::new(&self.tls_sessions, &self.sessions, &self.connections);
        arrival.over_tls(lookup.has_certificate(connection.wire))
    }

    /// Whether a client has begun with HTTP where TLS is spoken: all that it gets is a refusal.
    pub(crate) fn is_plain_at_tls(&self, index: ConnKey) -> bool {
        let connection = &self.connections[index];
        let in_clear = connection.wire == Wire::Clear && !connection.secure && !connection.internal;
        in_clear && self.shared.tls.config(usize::from(connection.listen)).is_some()
    }

    /// What the configuration says of that listener.
    pub(crate) fn listener_of(&self, arrival: &Arrival<'_>) -> Option<&'static Listen> {
        let shared = self.shared;
        shared.start.config.listens.get(usize::from(arrival.listener()?))
    }

    /// Whether 421 is the answer to a request for a site that answers elsewhere only.
    pub(super) fn refuses_misdirected(&self, arrival: &Arrival<'_>) -> bool {
        let misdirected = self.listener_of(arrival).map_or(Misdirected::Refused, |listen| listen.misdirected);
        arrival.is_tls() && misdirected == Misdirected::Refused
    }
}
