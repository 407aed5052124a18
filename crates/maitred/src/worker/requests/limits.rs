//! The gate of limits by client.

use std::net::SocketAddr;

use maitred_http::request::Request;

use super::Requests;
use crate::access::limits::Limits;
use crate::worker::connection::gated::{Denial, Verdict};
use crate::worker::connection::remote::Remote;
use crate::worker::limits::Counted;

impl Requests {
    /// Counts a request for each of the limits, up to the first that it is beyond.
    pub(super) fn ask_limits(
        &mut self,
        index: u32,
        request: &Request<'_, '_>,
        limits: &'static Limits,
    ) -> Verdict {
        let client = self.origin(index, request).client;
        let counted = Counted { request, client, route: limits.route };
        for limit in &limits.indexes {
            let Some(limit) = self.shared.client_limits.get(*limit) else { continue };
            let Some(wait) = limit.ask(&counted, self.clock.now) else { continue };
            let (name, dry_run) = (limit.name(), limit.is_dry_run());
            let peer = Remote::new(client.map(|client| SocketAddr::new(client, 0)));
            let peer = peer.text();
            self.log_limited(|| match dry_run {
                true => tracing::info!(peer, limit = name, "beyond its limit, which is a dry run"),
                false => tracing::warn!(peer, limit = name, "429: beyond its limit"),
            });
            if !dry_run {
                return Verdict::Refuse(Denial::with(429, limit.fields(wait)));
            }
        }
        Verdict::Pass
    }
}
