//! Frames of requests to application processes.

use maitred_handoff::HeadPart;
use maitred_http::request::{Framing, Request};

use super::connection::spool::Spool;
use super::forward::content_length;

/// Bytes of one frame for an application process besides the body: head and meta lines.
const HEAD_ALLOWANCE: u32 = 256 * 1024;

/// Ends a head with the length of its body, and appends that, unless it is spooled. False if all of it is larger than
/// `payload_bytes_max`; then it is as if it had never been begun.
pub(super) fn append_body(
    head: HeadPart<'_>,
    request: &Request<'_, '_>,
    body: &[u8],
    spool: Option<&Spool>,
    payload_bytes_max: u32,
) -> bool {
    let length = match spool {
        Some(spool) => Some(spool.bytes),
        None => content_length(request, body),
    };
    let mut part = head.body(length);
    if spool.is_none() {
        part.extend(body);
    }
    part.finish(payload_bytes_max)
}

/// Ends a head whose body follows while it comes: with its length, if that is known. False if it is larger than
/// `payload_bytes_max`.
pub(super) fn append_no_body(head: HeadPart<'_>, request: &Request<'_, '_>, payload_bytes_max: u32) -> bool {
    let length = match request.framing {
        Framing::Length(length) => Some(length),
        Framing::Chunked | Framing::None => None,
    };
    head.body(length).finish(payload_bytes_max)
}

/// The largest frame, which is announced to applications.
pub(super) fn payload_bytes_max(body_inline_bytes_max: u32) -> u32 {
    body_inline_bytes_max.saturating_add(HEAD_ALLOWANCE)
}

#[cfg(test)]
mod tests;
