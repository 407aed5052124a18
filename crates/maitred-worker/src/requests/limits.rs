//! The gate of limits by client.

use std::net::SocketAddr;

use maitred_http::request::Request;

use super::Requests;
use crate::connection::gated::{Denial, Leases, Verdict};
use crate::connection::remote::Remote;
use crate::keys::ConnKey;
use crate::limits::{Beyond, Counted};
use maitred_policy::access::limits::Limits;

impl Requests {
    /// Counts a request for each of the limits, up to the first that it is beyond.
    pub(super) fn ask_limits(
        &mut self,
        index: ConnKey,
        request: &Request<'_, '_>,
        limits: &'static Limits,
    ) -> Verdict {
        let client = self.origin(index, request).client;
        let counted = Counted { request, client, route: limits.route };
        let mut leases = Vec::new();
        for limit in &limits.indexes {
            let Some(limit) = self.shared.client_limits.get(*limit) else { continue };
            let beyond = match limit.ask(&counted, self.clock.now) {
                Ok(lease) => {
                    leases.extend(lease);
                    continue;
                }
                Err(beyond) => beyond,
            };
            let (name, status, dry_run) = (limit.name(), limit.status(), limit.is_dry_run());
            let peer = Remote::new(client.map(|client| SocketAddr::new(client, 0)));
            let peer = peer.text();
            let what = match beyond {
                Beyond::Rate(_) => "beyond its limit",
                Beyond::Concurrent => "beyond its limit of requests at a time",
            };
            self.log_limited(|| match dry_run {
                true => tracing::info!(peer, limit = name, "{what}, which is a dry run"),
                false => tracing::warn!(peer, limit = name, "{status}: {what}"),
            });
            if !dry_run {
                return Verdict::Refuse(Denial::with(status, limit.fields(beyond)));
            }
        }
        if !leases.is_empty() {
            self.gated(index).leases = Leases::of(leases);
        }
        Verdict::Pass
    }
}
