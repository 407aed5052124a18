//! Requests that end without the whole answer that they were due, because the client, or all patience, has gone. Each that was
//! begun is in the access log all the same, with a status that no client ever sees. So are those that HTTP/2 refuses before
//! there is anything that could be answered.

use maitred_http::request::{Reject, RequestHead, Version};

use super::agenda::Next;
use super::answer::line;
use super::connection::{Exchange, State};
use super::layers::Clients;
use super::upstream::Attempt;
use crate::log::access::{Line, RequestLine};
use crate::serve::Summary;

/// Status in the access log for what was cut off, after nginx's custom.
pub(super) const ABORTED: u16 = 499;
/// Status in the access log for what was cut off because a process, or an HTTP server, was silent for too long, or took too
/// long: what proxies use that find it in their own logs.
pub(super) const TIMED_OUT: u16 = 598;
/// Status in the access log for what was cut off because the process that answered has ended: the client has a part of the
/// response, whose status it was not.
const LOST: u16 = 502;
/// Status in the access log for a request that was reset as malformed.
const MALFORMED: u16 = 400;

impl Clients {
    /// Ends a connection whose request was read and will have no answer, or none to its end.
    pub(super) fn abort_unanswered(&mut self, index: u32) {
        self.abort_unanswered_after(index, 0);
    }

    /// The same behind so many bytes of its response.
    pub(super) fn abort_unanswered_after(&mut self, index: u32, body_bytes: u64) {
        let exchange = self.exchange(index);
        exchange.summary = Some(Summary { status: aborted_status(exchange), body_bytes });
        self.log_kept(index, 0);
        self.follow_up(index, Next::Close);
    }

    /// Says in the access log that the client went before it had an answer: of a request whose head is there, or at least its
    /// first line. The caller closes.
    pub(super) fn log_unanswered(&mut self, index: u32) {
        let connection = &mut self.connections[index as usize];
        if !matches!(connection.state, State::Head | State::Body | State::Spooling | State::Disk) {
            return;
        }
        let Some(exchange) = connection.exchange.as_deref_mut() else { return };
        if exchange.answered {
            return;
        }
        let summary = Summary { status: ABORTED, body_bytes: 0 };
        if !exchange.head.is_empty() {
            exchange.summary = Some(summary);
            return self.log_kept(index, 0);
        }
        let input = std::mem::take(&mut exchange.input);
        let Some(first) = first_line(&input) else { return };
        self.count_aborted(index, ABORTED);
        let connection = &self.connections[index as usize];
        if self.log.is_on() && !connection.admin && !connection.internal {
            self.log.push(&line(self.shared, &self.base.clock, connection, first, summary));
        }
    }

    /// Says in the access log that a request over HTTP/2 got no stream. One that was reset as malformed is logged with the
    /// status that it has over HTTP/1.
    pub(super) fn log_refused_stream(
        &mut self,
        index: u32,
        answered: Option<u16>,
        reason: &'static str,
        head: &RequestHead,
    ) {
        let status = answered.unwrap_or(MALFORMED);
        self.note_refusal(index, Reject { status, reason });
        if answered.is_some() {
            self.count(index, status);
        }
        if !self.log.is_on() {
            return;
        }
        let request = line_of(head);
        let summary = Summary { status, body_bytes: 0 };
        let connection = &self.connections[index as usize];
        // Of the connection it is known when it began, which is not when this request did.
        let line =
            Line { duration_us: 0, ..line(self.shared, &self.base.clock, connection, request, summary) };
        self.log.push(&line);
    }

    /// Counts a request that is in the access log as cut off, by its status there.
    pub(super) fn count_aborted(&mut self, index: u32, status: u16) {
        let connection = &self.connections[index as usize];
        match status {
            _ if connection.admin || connection.internal => {}
            ABORTED => self.row.aborted.add(1),
            TIMED_OUT => self.row.timed_out_in_response.add(1),
            _ => {}
        }
    }
}

/// What the access log says of a request over HTTP/2 that was refused.
pub(super) fn line_of(head: &RequestHead) -> RequestLine<'_> {
    match (head.request_line(), head.request_line_bytes()) {
        (Some((method, target)), _) => RequestLine::Parsed { method, target, version: Version::Http2 },
        (None, Some((_, target))) => RequestLine::Refused(target),
        (None, None) => RequestLine::Refused(b""),
    }
}

/// What the access log says of a response that ends in its middle: who is to blame.
pub(super) fn aborted_status(exchange: &Exchange) -> u16 {
    let lost = exchange.lost
        || exchange.attempt.as_deref().and_then(Attempt::handed).is_some_and(|handed| handed.lost);
    // A client that had gone before was the first.
    match (exchange.overdue, lost && !exchange.cancelled) {
        (true, _) => TIMED_OUT,
        (false, true) => LOST,
        (false, false) => ABORTED,
    }
}

/// The request line (9112-3) of a head of which more may be missing; `None` if it is not whole itself.
fn first_line(head: &[u8]) -> Option<RequestLine<'_>> {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_known_by_its_whole_first_line() {
        let parsed = |head: &str| match first_line(head.as_bytes()) {
            Some(RequestLine::Parsed { method, target, version }) => format!("{method} {target} {version:?}"),
            Some(RequestLine::Refused(bytes)) => format!("refused {}", String::from_utf8_lossy(bytes)),
            None => "nothing".to_owned(),
        };
        assert_eq!(parsed("GET /a?b HTTP/1.1\r\nHost: lo"), "GET /a?b Http11");
        assert_eq!(parsed("\r\nGET / HTTP/1.0\r\n"), "GET / Http10");
        assert_eq!(parsed("GET /\r\n"), "refused GET /");
        ["", "\r\n", "GET / HTTP/1.1", "GET / HTTP/1.1\r"]
            .into_iter()
            .for_each(|head| assert_eq!(parsed(head), "nothing"));
    }
}
