//! The line of a request in the access log, also of a request that ends without a whole response: its status there is one that no
//! client ever gets.

use maitred_http::request::{RequestHead, Version};

use super::connection::dispatch::Dispatch;
use super::connection::{Connection, Exchange};
use super::origin;
use super::shared::Shared;
use super::upstream::Attempt;
use crate::entry::Entry;
use maitred_base::clock::Clock;
use maitred_config::{LogChoice, TrustedProxies};
use maitred_files::Summary;
use maitred_log::access::{Line, RequestLine, UpstreamLine};
use maitred_log::thread_logs::ThreadLogs;
use maitred_log::trace::context::TRACEPARENT;

/// Status in the access log for an aborted request, as in nginx.
pub(super) const ABORTED: u16 = 499;

/// Status in the access log for a request that was aborted because a process, or an HTTP server, was silent for too long, or took
/// too long: the status that some proxies log for a read timeout.
pub(super) const TIMED_OUT: u16 = 598;

/// Status in the access log for a request that was aborted because the process that answered has ended: the client has a part of
/// the response, which had another status.
const LOST: u16 = 502;

/// Which fields of a request its line in the access log needs.
pub(super) struct LoggedFields<'l> {
    pub(super) logs: &'l ThreadLogs,
    pub(super) log: Option<LogChoice>,
    pub(super) proxies: &'l TrustedProxies,
    /// Whether spans are made of requests.
    pub(super) traced: bool,
}

impl LoggedFields<'_> {
    /// Whether it needs this one; `proxied` is whether the peer may name the client.
    pub(super) fn is_wanted(&self, name: &str, proxied: bool) -> bool {
        (self.traced && name.eq_ignore_ascii_case(TRACEPARENT))
            || (proxied && (origin::tells(name) || self.proxies.names(name)))
            || self.logs.wants(self.log, name)
    }
}

/// The request line, for the access log, of a refused request over HTTP/2 or HTTP/3.
pub(super) fn line_of(head: &RequestHead) -> RequestLine<'_> {
    match (head.request_line(), head.request_line_bytes()) {
        (Some((method, target)), _) => RequestLine::Parsed { method, target, version: head.version() },
        (None, Some((_, target))) => RequestLine::Refused(target),
        (None, None) => RequestLine::Refused(b""),
    }
}

/// The status in the access log of a response that ends in its middle. The status depends on the cause: client, timeout, or
/// lost process.
pub(super) fn aborted_status(connection: &Connection) -> u16 {
    let Some(Exchange { dispatch, .. }) = connection.exchange.as_deref() else { return ABORTED };
    let relayed = connection.attempt().and_then(Attempt::handed);
    let lost = dispatch.lost || relayed.is_some_and(|handed| handed.lost);
    // If the client had gone before the process, the client is the cause.
    match (dispatch.overdue, lost && !dispatch.cancelled) {
        (true, _) => TIMED_OUT,
        (false, true) => LOST,
        (false, false) => ABORTED,
    }
}

/// The request line (9112-3) of a head of which more may be missing; `None` if it is not whole itself.
pub(crate) fn first_line(head: &[u8]) -> Option<RequestLine<'_>> {
    let start = head.iter().position(|byte| !matches!(byte, b'\r' | b'\n'))?;
    let head = head.get(start..)?;
    let whole = head.get(..memchr::memchr(b'\n', head)?)?;
    let whole = whole.strip_suffix(b"\r").unwrap_or(whole);
    let mut parts = std::str::from_utf8(whole).unwrap_or_default().splitn(3, ' ');
    Some(match (parts.next(), parts.next(), parts.next()) {
        (Some(method), Some(target), Some("HTTP/1.1")) => {
            RequestLine::Parsed { method, target, version: Version::Http11 }
        }
        (Some(method), Some(target), Some("HTTP/1.0")) => {
            RequestLine::Parsed { method, target, version: Version::Http10 }
        }
        _ => RequestLine::Refused(whole),
    })
}

/// The parts of a log line that are known from the connection.
pub(super) fn line<'a>(
    shared: &'a Shared,
    clock: &'a Clock,
    connection: &'a Entry,
    request: RequestLine<'a>,
    summary: Summary,
) -> Line<'a> {
    let exchange = connection.exchange.as_deref();
    let pool = exchange.and_then(|exchange| exchange.dispatch.pool);
    Line {
        clock,
        remote: connection.remote.bytes(),
        user: exchange.and_then(|exchange| Some(exchange.dispatch.user()?.name())),
        request,
        host: b"",
        status: summary.status,
        body_bytes: summary.body_bytes,
        head: None,
        referer: None,
        user_agent: None,
        request_id: None,
        duration_us: clock.now.saturating_duration_since(connection.began).as_micros() as u64,
        pool: pool
            .and_then(|pool| shared.start.config.pools.get(usize::from(pool)))
            .map(|pool| pool.name.as_str()),
        queue_us: exchange.map_or(0, |exchange| u64::from(exchange.dispatch.queue_us)),
        cache: connection.cached.word(),
        upstream: exchange.and_then(|exchange| upstream(shared, &exchange.dispatch)),
    }
}

/// What is known of the server that a request was passed on to.
fn upstream<'a>(shared: &'a Shared, dispatch: &Dispatch) -> Option<UpstreamLine<'a>> {
    let served = dispatch.served;
    let known = |us: u32| (us > 0).then_some(us);
    let servers = shared.servers(dispatch.pool?)?;
    (served.attempts > 0).then(|| UpstreamLine {
        server: servers.name(served.server),
        status: (served.status > 0).then_some(served.status),
        attempts: u16::from(served.attempts),
        connect_us: served.connected_us,
        header_us: known(served.began_us),
        response_us: known(served.ended_us),
    })
}

#[cfg(test)]
mod tests;
