//! Formats of the operator's own: a text with placeholders.

use std::io::Write as _;

use super::line::{Line, RequestLine, UpstreamLine, decimal, version_text};
use maitred_config::{LogField, LogPart};

/// The texts of the present second.
#[derive(Debug, Default)]
pub(super) struct Stamps {
    /// `06/Nov/1994:08:49:37 +0000`
    pub(super) common: Vec<u8>,
    /// `1994-11-06T08:49:37`
    pub(super) iso: Vec<u8>,
}

/// Appends the parts. What came from outside goes through `escape`; what is unknown is `-`.
pub(super) fn append(
    line: &Line<'_>,
    parts: &[LogPart],
    stamps: &Stamps,
    escape: impl Fn(&[u8], &mut Vec<u8>),
    out: &mut Vec<u8>,
) {
    for part in parts {
        match part {
            LogPart::Text(text) => out.extend_from_slice(text.as_bytes()),
            LogPart::Field(field) => match known(line, field) {
                Some(value) => escape(value, out),
                None => made(line, field, stamps, &escape, out),
            },
        }
    }
}

/// A value that came from outside, or the pool's name. `None` for one that is made here.
fn known<'l>(line: &'l Line<'_>, field: &LogField) -> Option<&'l [u8]> {
    const UNKNOWN: &[u8] = b"-";
    let (method, target) = match line.request {
        RequestLine::Parsed { method, target, .. } => (method.as_bytes(), target.as_bytes()),
        RequestLine::Refused(_) => (UNKNOWN, UNKNOWN),
    };
    let query = memchr::memchr(b'?', target);
    let value = match field {
        LogField::Remote => Some(line.remote),
        LogField::Host => Some(line.host),
        LogField::Method => Some(method),
        LogField::Target => Some(target),
        LogField::Path => target.get(..query.unwrap_or(target.len())),
        LogField::Query => query.and_then(|at| target.get(at + 1..)),
        LogField::User => line.user.map(str::as_bytes),
        LogField::Referer => line.referer,
        LogField::UserAgent => line.user_agent,
        LogField::RequestId => line.request_id,
        LogField::Pool => line.pool.map(str::as_bytes),
        LogField::Cache => Some(line.cache.as_bytes()),
        LogField::Upstream => line.upstream.as_ref().map(|upstream| upstream.server.as_bytes()),
        LogField::Header(name) => line.head.and_then(|head| {
            let field = head.fields.iter().find(|field| field.name.eq_ignore_ascii_case(name));
            field.map(|field| field.value)
        }),
        _ => return None,
    };
    Some(value.filter(|value| !value.is_empty()).unwrap_or(UNKNOWN))
}

/// Seconds with three decimals.
fn seconds(us: Option<u64>, out: &mut Vec<u8>) {
    match us {
        None => out.push(b'-'),
        Some(us) => {
            // Writing to memory does not fail.
            let _ = write!(out, "{}.{:03}", us / 1_000_000, us / 1000 % 1000);
        }
    }
}

/// Numbers, times, and the request line.
fn made(
    line: &Line<'_>,
    field: &LogField,
    stamps: &Stamps,
    escape: &impl Fn(&[u8], &mut Vec<u8>),
    out: &mut Vec<u8>,
) {
    match field {
        LogField::Status => decimal(u64::from(line.status), out),
        LogField::BodyBytes => decimal(line.body_bytes, out),
        LogField::DurationUs => decimal(line.duration_us, out),
        LogField::QueueUs => decimal(line.queue_us, out),
        LogField::Duration => seconds(Some(line.duration_us), out),
        LogField::UpstreamStatus | LogField::UpstreamAttempts => {
            let status = |upstream: &UpstreamLine<'_>| upstream.status.map(u64::from);
            let number = line.upstream.as_ref().and_then(|upstream| match field {
                LogField::UpstreamStatus => status(upstream),
                _ => Some(u64::from(upstream.attempts)),
            });
            match number {
                Some(number) => decimal(number, out),
                None => out.push(b'-'),
            }
        }
        LogField::UpstreamConnect | LogField::UpstreamHeader | LogField::UpstreamResponse => {
            let us = line.upstream.as_ref().and_then(|upstream| match field {
                LogField::UpstreamConnect => Some(upstream.connect_us),
                LogField::UpstreamHeader => upstream.header_us,
                _ => upstream.response_us,
            });
            seconds(us.map(u64::from), out);
        }
        LogField::Time => out.extend_from_slice(&stamps.common),
        LogField::TimeIso => {
            out.extend_from_slice(&stamps.iso);
            let _ = write!(out, ".{:06}Z", line.clock.unix_micros.min(999_999));
        }
        LogField::Version => match line.request {
            RequestLine::Parsed { version, .. } => out.extend_from_slice(version_text(version).as_bytes()),
            RequestLine::Refused(_) => out.push(b'-'),
        },
        _ => match line.request {
            RequestLine::Parsed { method, target, version } => {
                escape(method.as_bytes(), out);
                out.push(b' ');
                escape(target.as_bytes(), out);
                out.push(b' ');
                out.extend_from_slice(version_text(version).as_bytes());
            }
            RequestLine::Refused(b"") => out.push(b'-'),
            RequestLine::Refused(bytes) => escape(bytes, out),
        },
    }
}
