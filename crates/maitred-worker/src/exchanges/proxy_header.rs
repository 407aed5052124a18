//! `proxy_protocol` of a pool: what connections to its servers begin with. The header names one client, so that such a connection
//! has one request, and is neither taken from those that are idle nor kept with them.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use maitred_http::proxy_protocol::{Passed, write};
use maitred_http::request::Request;

use super::Exchanges;
use crate::connection::wire::Wire;
use crate::keys::ConnKey;
use crate::origin::Client;
use maitred_config::{Address, Pool};

impl Exchanges {
    /// The header for a request, if its pool wants one.
    pub(super) fn proxy_header(
        &self,
        index: ConnKey,
        settings: &Pool,
        request: &Request<'_, '_>,
    ) -> Option<Arc<[u8]>> {
        let version = settings.external.proxy_protocol?.version();
        let peer = self.connections[index].peer();
        let client = Client::of(request, &peer, &self.shared.start.config.server.trusted_proxies);
        let passed = match client.remote.address {
            Some(source) => {
                let nowhere = || SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0));
                Passed::Client(source, self.local_address(index).unwrap_or_else(nowhere))
            }
            None => Passed::Unknown,
        };
        let mut header = Vec::new();
        write(version, passed, &mut header);
        Some(header.into())
    }

    /// The address that the client of a request has connected to: of its own socket, or where its listener is bound.
    fn local_address(&self, index: ConnKey) -> Option<SocketAddr> {
        let mut connection = self.connections.get(index)?;
        let arrival = self.arrival(index);
        if let Wire::Stream { session, .. } = connection.wire {
            let carrier = self.sessions.get(session)?.index;
            connection = self.connections.get(carrier)?;
        }
        let own = connection.socket.as_ref().and_then(|socket| rustix::net::getsockname(socket).ok());
        let own = own.and_then(|own| SocketAddr::try_from(own).ok());
        own.or_else(|| arrival.local().and_then(Address::inet))
    }
}
