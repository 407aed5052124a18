//! JSON lines: one object a line, always valid JSON. The fields are listed in `docs/metrics.md`.

use super::custom::{self, Stamps};
use super::escape;
use super::line::{Line, RequestLine, UpstreamLine, decimal, version_text};
use maitred_config::LogPart;

/// Appends one line with further members. `room` is for their values.
pub(super) fn append_with(
    line: &Line<'_>,
    stamps: &Stamps,
    members: &[(String, Vec<LogPart>)],
    room: &mut Vec<u8>,
    out: &mut Vec<u8>,
) {
    append(line, &stamps.iso, out);
    // The end of the line goes: members follow.
    out.truncate(out.len().saturating_sub(2));
    for (name, parts) in members {
        out.push(b',');
        escape::json(name.as_bytes(), out);
        out.push(b':');
        room.clear();
        custom::append(line, parts, stamps, |value, room| room.extend_from_slice(value), room);
        escape::json(room, out);
    }
    out.extend_from_slice(b"}\n");
}

/// Appends one line. `stamp` is `1994-11-06T08:49:37`.
pub(super) fn append(line: &Line<'_>, stamp: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(b"{\"time\":\"");
    out.extend_from_slice(stamp);
    out.extend_from_slice(&micros(line.clock.unix_micros));
    out.extend_from_slice(b"Z\",\"remote\":");
    escape::json(line.remote, out);
    text(b",\"user\":", line.user.map(str::as_bytes), out);
    text(b",\"host\":", Some(line.host).filter(|host| !host.is_empty()), out);
    match line.request {
        RequestLine::Parsed { method, target, version } => {
            text(b",\"method\":", Some(method.as_bytes()), out);
            text(b",\"target\":", Some(target.as_bytes()), out);
            text(b",\"version\":", Some(version_text(version).as_bytes()), out);
        }
        RequestLine::Refused(bytes) => text(b",\"refused\":", Some(bytes), out),
    }
    number(b",\"status\":", u64::from(line.status), out);
    number(b",\"body_bytes\":", line.body_bytes, out);
    number(b",\"duration_us\":", line.duration_us, out);
    text(b",\"referer\":", line.referer, out);
    text(b",\"user_agent\":", line.user_agent, out);
    text(b",\"request_id\":", line.request_id, out);
    if let Some(pool) = line.pool {
        text(b",\"pool\":", Some(pool.as_bytes()), out);
        number(b",\"queue_us\":", line.queue_us, out);
    }
    if !line.cache.is_empty() {
        text(b",\"cache\":", Some(line.cache.as_bytes()), out);
    }
    if let Some(upstream) = &line.upstream {
        append_upstream(upstream, out);
    }
    out.extend_from_slice(b"}\n");
}

fn append_upstream(upstream: &UpstreamLine<'_>, out: &mut Vec<u8>) {
    text(b",\"upstream\":", Some(upstream.server.as_bytes()), out);
    number(b",\"upstream_attempts\":", u64::from(upstream.attempts), out);
    if let Some(status) = upstream.status {
        number(b",\"upstream_status\":", u64::from(status), out);
    }
    number(b",\"upstream_connect_us\":", u64::from(upstream.connect_us), out);
    if let Some(header_us) = upstream.header_us {
        number(b",\"upstream_header_us\":", u64::from(header_us), out);
    }
    if let Some(response_us) = upstream.response_us {
        number(b",\"upstream_response_us\":", u64::from(response_us), out);
    }
}

/// `.012345`
fn micros(micros: u32) -> [u8; 7] {
    let mut text = *b".000000";
    let mut rest = micros.min(999_999);
    for digit in text.iter_mut().skip(1).rev() {
        *digit = b'0' + (rest % 10) as u8;
        rest /= 10;
    }
    text
}

fn text(name: &[u8], value: Option<&[u8]>, out: &mut Vec<u8>) {
    if let Some(value) = value {
        out.extend_from_slice(name);
        escape::json(value, out);
    }
}

fn number(name: &[u8], value: u64, out: &mut Vec<u8>) {
    out.extend_from_slice(name);
    decimal(value, out);
}
