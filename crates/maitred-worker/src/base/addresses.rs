//! How many connections each address has, over all threads of the worker process; and how many handshakes it begins, and
//! streams it resets.
//!
//! A connection is counted when it is made and when it ends, under one of many locks that are held for a few instructions.
//! Nothing is looked up here in between. No more entries exist than open connections.

use std::net::SocketAddr;

use super::Base;
use crate::connection::remote::Remote;
use crate::entry::Entry;
use crate::limits::Limit;
use maitred_config::{HTTP2_RESETS, TLS_HANDSHAKES};

impl Base {
    /// Counts a connection that comes from this address. False if it is to be closed, because the address is at its limit.
    pub(crate) fn admit(&mut self, address: Option<SocketAddr>) -> bool {
        let fits = self.shared.addresses.enter(address);
        if !fits {
            self.row.refused_by_address.add(1);
            self.log_limited(|| {
                let peer = Remote::new(address);
                tracing::warn!(
                    peer = peer.text(),
                    "connection closed: it has connections_per_address_max already"
                );
            });
        }
        fits
    }

    /// Counts a TLS handshake that this address begins. False if its connection is to be closed, because there are too many.
    pub(crate) fn admit_handshake(&mut self, address: Option<SocketAddr>) -> bool {
        let shared = self.shared;
        let Some(limit) = Limit::named(&shared.client_limits, TLS_HANDSHAKES) else { return true };
        let admitted = limit.admits(address, self.clock.now);
        if !admitted {
            self.log_limited(|| {
                let peer = Remote::new(address);
                tracing::warn!(
                    peer = peer.text(),
                    "connection closed: tls_handshakes_per_address_per_second_max is reached"
                );
            });
        }
        admitted
    }

    /// The handshake has cost little: it has resumed a session.
    pub(crate) fn take_back_handshake(&self, address: Option<SocketAddr>) {
        let shared = self.shared;
        if let Some(limit) = Limit::named(&shared.client_limits, TLS_HANDSHAKES) {
            limit.take_back(address);
        }
    }

    /// Counts a stream that this address has reset. False if there are too many.
    pub(crate) fn admit_reset(&self, address: Option<SocketAddr>) -> bool {
        let shared = self.shared;
        let limit = Limit::named(&shared.client_limits, HTTP2_RESETS);
        limit.is_none_or(|limit| limit.admits(address, self.clock.now))
    }

    /// Counts a connection that was admitted before, by another thread or another worker process.
    pub(crate) fn readmit(&self, connection: &mut Entry) {
        if connection.is_client() && !connection.awaits_proxy {
            self.shared.addresses.enter_up_to(connection.remote.address, u32::MAX);
            connection.counted = true;
        }
    }

    /// A connection of this address, which was counted, is closed, or has left this thread.
    pub(crate) fn uncount(&self, address: Option<SocketAddr>) {
        self.shared.addresses.leave(address);
    }
}
