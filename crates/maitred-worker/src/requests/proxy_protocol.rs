//! Connections that come through a proxy which sends a PROXY header first: the PROXY protocol on a listener.

use std::net::SocketAddr;

use maitred_http::proxy_protocol;

use super::Requests;
use crate::connection::State;
use crate::connection::remote::Remote;
use crate::keys::ConnKey;
use crate::origin;
use crate::step::Stop;

/// A peer that may not connect to a listener with `proxy_protocol`. The refusal was logged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct NotAProxy;

impl Requests {
    /// Whether a new connection has to start with a PROXY header. Who may connect to a Unix socket, its file says.
    ///
    /// # Errors
    /// For a peer that is not in `proxy_protocol_from`: any address in its header would be believed.
    pub(crate) fn may_connect(&mut self, listen: u16, remote: Option<SocketAddr>) -> Result<bool, NotAProxy> {
        let listens = &self.shared.start.config.listens;
        let Some(listen) = listens.get(usize::from(listen)) else { return Ok(false) };
        let Some(from) = listen.proxy_protocol_from.as_deref() else { return Ok(false) };
        let is_unix = listen.address.path().is_some();
        if remote.map_or(is_unix, |remote| origin::is_within(remote.ip(), from)) {
            return Ok(true);
        }
        self.log_unproxied(&Remote::new(remote), "it is not in `proxy_protocol_from`");
        Err(NotAProxy)
    }

    /// Takes the PROXY header that `rest` starts with. `None` to go on with what follows.
    pub(crate) fn take_proxy_header(&mut self, index: ConnKey, rest: &[u8], at: &mut usize) -> Option<Stop> {
        match proxy_protocol::parse(rest) {
            Ok(None) => Some(self.wait_for_head(index, rest.len())),
            Err(bad) => {
                self.refuse_unproxied(index, bad.0);
                Some(Stop::Gone)
            }
            Ok(Some((header, used))) => {
                *at += used;
                let connection = &mut self.connections[index];
                connection.awaits_proxy = false;
                if header.client.is_some() {
                    connection.remote = Remote::new(header.client);
                    // The proxy is not counted, and its health checks are not.
                    if !self.admit(header.client) {
                        self.close(index);
                        return Some(Stop::Gone);
                    }
                    self.connections[index].counted = true;
                }
                // The time for the header does not count for the request, which has not begun.
                self.enter(index, State::Idle);
                let timeout = self.limits().head_timeout;
                self.arm_in(index, timeout);
                None
            }
        }
    }

    /// Closes a connection that should have started with a PROXY header. The peer gets no answer: its protocol may not be HTTP.
    pub(crate) fn refuse_unproxied(&mut self, index: ConnKey, why: &'static str) {
        let remote = self.connections[index].remote;
        self.log_unproxied(&remote, why);
        self.close(index);
    }

    fn log_unproxied(&mut self, peer: &Remote, why: &'static str) {
        self.row.malformed.add(1);
        self.log_limited(|| {
            tracing::warn!(peer = peer.text(), "connection closed: {why}");
        });
    }
}

#[cfg(test)]
mod tests;
