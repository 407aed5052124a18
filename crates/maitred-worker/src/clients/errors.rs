//! Errors that the server itself answers with, for whatever reason: with the page that the site has for the status, or with a
//! line of text if it has none, or none that can be read.
//!
//! | the request | comes by |
//! |---|---|
//! | is at hand, nothing but its path and method was looked at | [`Clients::site_error`] |
//! | is at hand, and no process or server takes it | [`Clients::pool_error`] |
//! | is at hand, and its body turns out to be bad, or cannot be kept | `Requests::refuse_body` |
//! | was kept, and lost, or took too long | [`Clients::refuse_kept`] |
//! | could not be read, so that it is not known which site it was for | `Clients::answer_refused`: always text |
//!
//! A page that is not in memory is fetched by a disk helper like any other file. The request is kept meanwhile, with the error
//! that it is to be answered with ([`Refusal`]), so that it goes to no other process or server.

use std::net::IpAddr;

use maitred_http::grpc;
use maitred_http::request::Request;

use super::Clients;
use crate::agenda::Next;
use crate::connection::State;
use crate::connection::incoming::Incoming;
use crate::connection::refusal::{Refusal, fields_of};
use crate::keys::ConnKey;
use crate::origin::{self, Client};
use crate::step::{RequestInput, Step};
use maitred_files::exchange::Field;
use maitred_files::fixed::{Failure, respond};
use maitred_files::{RequestContext, Served};
use maitred_policy::plan::Plan;
use maitred_policy::rewrite::Filled;

/// Fields of what a proxy has passed on.
const PASSED_ON: [&str; 3] = ["Forwarded", "X-Forwarded-For", "Via"];

/// Whether a host, with its port or without, is this machine alone.
fn is_loopback(authority: &str) -> bool {
    let host = match authority.rsplit_once(':') {
        Some((host, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => host,
        _ => authority,
    };
    let address = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    host.eq_ignore_ascii_case("localhost")
        || address.parse().is_ok_and(|address: IpAddr| address.is_loopback())
}

impl Clients {
    /// An error of the site that the request is for.
    pub(crate) fn site_error(
        &mut self,
        index: ConnKey,
        request: &Request<'_, '_>,
        given: RequestInput<'_>,
        (status, fields): (u16, &[Field<'_>]),
    ) -> Step {
        let id = self.public_id(index, request);
        let failure = Failure { status, fields, request_id: id.as_deref() };
        // Nothing of a page would be in the answer to a call.
        let Some(set) = given.routed.plan.error_set.filter(|_| grpc::Form::of(request).is_none()) else {
            return self.text_error(index, request, given, &failure);
        };
        let clock = self.clock.clone();
        let context = RequestContext { request, path: b"/", clock: &clock, warmed: given.warmed };
        let behind = !self.buffers.tx.is_empty();
        let reply = self.reply_context(index, request, given);
        let (files, mut writer) = self.files_and_writer(index, reply);
        match files.error(set, &failure, &context, &mut writer) {
            Served::Blocked(_) if behind => Step::FlushFirst,
            Served::Blocked(job) => {
                if !self.submit(index, job) {
                    return self.text_error(index, request, given, &failure);
                }
                self.keep(index, request, given);
                self.exchange(index).refusal = Some(Refusal::new(status, fields));
                self.enter(index, State::Disk);
                self.wheel.disarm(index);
                Step::Waits
            }
            served => self.served(index, request, given, reply.persistence, served),
        }
    }

    /// Answers a request that its pool gives no answer to; its body is of no use any more.
    pub(crate) fn pool_error(
        &mut self,
        index: ConnKey,
        pool: usize,
        request: &Request<'_, '_>,
        given: RequestInput<'_>,
        status: u16,
    ) -> Step {
        self.name_for_pool(index, pool);
        // The connection may go on, and its next request must not find this one's body.
        self.exchange(index).body.spool = None;
        self.site_error(index, request, RequestInput { body: &[], ..given }, (status, fields_of(status)))
    }

    /// The same, with 503 and a text that only a person at this machine may see.
    pub(crate) fn pool_error_in_words(
        &mut self,
        index: ConnKey,
        pool: usize,
        request: &Request<'_, '_>,
        given: RequestInput<'_>,
        words: &str,
    ) -> Step {
        self.name_for_pool(index, pool);
        self.exchange(index).body.spool = None;
        let text = format!("503 Service Unavailable\n\n{words}\n");
        let given = RequestInput { body: &[], ..given };
        self.reply(index, request, given, |writer| respond(503, &text, "text/plain; charset=utf-8", writer))
    }

    /// What a process of a pool has said last that was never ready, if the request is from a person at this machine.
    pub(crate) fn last_words(
        &self,
        index: ConnKey,
        pool: usize,
        request: &Request<'_, '_>,
    ) -> Option<String> {
        self.shared.last_words(pool).filter(|_| self.is_at_this_machine(index, request))
    }

    /// Whether a request is from a person at this machine: over loopback, to a name of loopback (no site elsewhere can have a
    /// browser ask for that and read the answer), and not passed on by a proxy here.
    fn is_at_this_machine(&self, index: ConnKey, request: &Request<'_, '_>) -> bool {
        let address = self.connections[index].peer().remote.address;
        let is_passed_on = |name: &str| PASSED_ON.iter().any(|field| name.eq_ignore_ascii_case(field));
        address.is_some_and(|address| address.ip().to_canonical().is_loopback())
            && is_loopback(request.authority)
            && !request.fields.iter().any(|field| is_passed_on(field.name))
    }

    /// Notes pool and id of a request for the access log. The request has its id already if it was sent to a process or a
    /// server.
    pub(crate) fn name_for_pool(&mut self, index: ConnKey, pool: usize) {
        let new_id = self.forwarded.next_id();
        let exchange = self.exchange(index);
        let id = exchange.dispatch.across.as_deref().map_or(new_id, |across| across.request_id);
        exchange.dispatch.pool = Some(pool as u16);
        if exchange.dispatch.request_id().is_none() {
            exchange.dispatch.set_request_id(id);
        }
    }

    /// A response that has the id of its request in a field: the request has it from now on, wherever it goes.
    pub(super) fn settle_id(&mut self, index: ConnKey, plan: &Plan) {
        if plan.filled.iter().any(Filled::has_id) {
            let new_id = self.forwarded.next_id();
            let dispatch = &mut self.exchange(index).dispatch;
            if !std::mem::replace(&mut dispatch.keeps_id, true) {
                dispatch.set_request_id(new_id);
            }
        }
    }

    /// Logs why a pool takes no request.
    pub(crate) fn note_unavailable(
        &mut self,
        index: ConnKey,
        pool: usize,
        request: &Request<'_, '_>,
        why: &str,
    ) {
        self.name_for_pool(index, pool);
        let id = self.public_id(index, request).unwrap_or_default();
        let pool = self.shared.pool_name(pool as u16);
        self.log_limited(|| {
            let request_id = String::from_utf8_lossy(&id);
            tracing::warn!(pool, %request_id, "503: no process for a request: {why}");
        });
    }

    /// The id that the access log has of a request to a pool.
    pub(crate) fn public_id(&self, index: ConnKey, request: &Request<'_, '_>) -> Option<Vec<u8>> {
        let connection = &self.connections[index];
        let exchange = connection.exchange.as_deref().filter(|exchange| exchange.dispatch.pool.is_some())?;
        let id = exchange.dispatch.request_id().map(origin::hexadecimal)?;
        let proxies = &self.shared.start.config.server.trusted_proxies;
        let client = Client::of(request, &connection.peer(), proxies);
        Some(client.given_request_id(request).unwrap_or(&id).to_vec())
    }

    /// Has a request whose head was kept answered with an error, which is the last response of its connection.
    pub(crate) fn refuse_kept(&mut self, index: ConnKey, status: u16, fields: &[Field<'_>]) {
        self.note_refused(index, status, fields);
        self.follow_up(index, Next::Resume);
    }

    pub(crate) fn note_refused(&mut self, index: ConnKey, status: u16, fields: &[Field<'_>]) {
        let exchange = self.exchange(index);
        (exchange.body.incoming, exchange.body.spool) = (Incoming::Nothing, None);
        exchange.body.content.clear();
        // Of a response that the error takes the place of.
        exchange.outgoing.drop_returned();
        (exchange.refusal, exchange.last) = (Some(Refusal::new(status, fields)), true);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_this_machine_are_told_from_others() {
        for host in ["localhost", "LOCALHOST:8080", "127.0.0.1", "127.0.0.1:80", "[::1]", "[::1]:8443"] {
            assert!(is_loopback(host), "{host}");
        }
        for host in ["example.com", "localhost.example.com:80", "192.0.2.1", "[2001:db8::1]:80", ""] {
            assert!(!is_loopback(host), "{host}");
        }
    }
}
