//! The rules for a head that `httparse` accepted.

use super::{
    Framing, HeadLimits, Method, Reject, Request, Version, bad_request, early, fields, host, target,
};
use crate::limits::METHOD_BYTES_MAX;

/// Applies the rules to a head that `httparse` accepted.
pub(super) fn judge<'h, 'b>(
    parsed: httparse::Request<'h, 'b>,
    head: &'b [u8],
    limits: &HeadLimits,
) -> Result<Request<'h, 'b>, Reject> {
    let (Some(method), Some(target), Some(minor)) = (parsed.method, parsed.path, parsed.version) else {
        return Err(bad_request("invalid request line"));
    };
    let version = if minor == 0 { Version::Http10 } else { Version::Http11 };
    let lines = Lines { method, target, version, fields: parsed.headers, unknown_length: false };
    // What is too long is refused as that, whatever stands behind it.
    within_bounds(method.as_bytes(), target.as_bytes(), limits)?;
    judge_line_ends(head, target, lines.fields)?;
    judge_lines(lines, limits)
}

/// A head that was taken apart.
pub(super) struct Lines<'h, 'b> {
    pub(super) method: &'b str,
    pub(super) target: &'b str,
    pub(super) version: Version,
    pub(super) fields: &'h [httparse::Header<'b>],
    /// Content follows even if no field states its length.
    pub(super) unknown_length: bool,
}

#[inline]
pub(super) fn within_bounds(method: &[u8], target: &[u8], limits: &HeadLimits) -> Result<(), Reject> {
    if method.len() > METHOD_BYTES_MAX {
        return Err(early::METHOD_TOO_LONG);
    }
    if target.len() > limits.target_bytes_max {
        return Err(early::TARGET_TOO_LONG);
    }
    Ok(())
}

/// Applies the rules that do not depend on how a head was written. The head's method and target are [`within_bounds`].
#[inline]
pub(super) fn judge_lines<'h, 'b>(
    lines: Lines<'h, 'b>,
    limits: &HeadLimits,
) -> Result<Request<'h, 'b>, Reject> {
    let Lines { method: method_text, target, version, fields, unknown_length } = lines;
    let method = Method::from_token(method_text);
    let taken_apart = target::judge(method, target)?;
    let facts = fields::facts(fields)?;

    let host = match facts.host {
        Some(host) => {
            host::judge(host)?;
            // Only ASCII passes the check.
            std::str::from_utf8(host).unwrap_or_default()
        }
        None if version != Version::Http10 => return Err(bad_request("no Host")),
        None => "",
    };
    let framing = facts.framing.judge(version, unknown_length, limits)?;
    if facts.other_expectation && version != Version::Http10 {
        return Err(Reject { status: 417, reason: "expectation other than 100-continue" });
    }
    Ok(Request {
        method,
        method_text,
        version,
        target,
        path: taken_apart.path,
        query: taken_apart.query,
        authority: taken_apart.authority.unwrap_or(host),
        https: taken_apart.https,
        fields,
        framing,
        keep_alive: !facts.close && (version != Version::Http10 || facts.keep_alive),
        // A client of version 1.0 cannot mean it (9110-10.1.1), and without a body there is nothing to wait
        // for.
        expects_continue: facts.expects_continue && version != Version::Http10 && framing != Framing::None,
        // `Upgrade` of a 1.0 client is ignored (9110-7.8).
        upgrade: facts.upgrade && facts.connection_upgrade && version != Version::Http10,
        known: facts.known,
    })
}

/// Refuses lines that end in a bare LF, which `httparse` lets pass. The parser leaves no other place for a CR or LF
/// than the line ends, so that one look behind each part decides.
#[inline]
fn judge_line_ends(head: &[u8], target: &str, fields: &[httparse::Header<'_>]) -> Result<(), Reject> {
    const BARE_LF: Reject = bad_request("line ends in a bare LF");
    let offset_behind =
        |part: &[u8]| part.as_ptr().addr().wrapping_sub(head.as_ptr().addr()).wrapping_add(part.len());
    let version_end = offset_behind(target.as_bytes()) + " HTTP/1.1".len();
    if head.get(version_end) != Some(&b'\r') || !head.ends_with(b"\r\n") {
        return Err(BARE_LF);
    }
    for field in fields {
        let behind = offset_behind(field.value);
        match head.get(behind) {
            Some(b'\r') => {}
            Some(b' ' | b'\t') if ends_in_cr(head.get(behind..).unwrap_or_default()) => {}
            _ => return Err(BARE_LF),
        }
    }
    Ok(())
}

/// Whether CR follows the white space that `bytes` start with.
#[cold]
fn ends_in_cr(bytes: &[u8]) -> bool {
    bytes.iter().find(|byte| !matches!(byte, b' ' | b'\t')) == Some(&b'\r')
}
