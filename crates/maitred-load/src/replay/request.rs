//! A line of a log as the bytes of a request.

use std::borrow::Cow;
use std::hash::{DefaultHasher, Hasher};

use super::{Sessions, Settings};
use crate::client::Logged;
use crate::log::{Entry, RequestLine};

/// Why a line is not sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Skip {
    /// The server could not read a request.
    NoRequest,
    /// A method other than GET or HEAD, without `--all-methods`.
    Method,
    /// CONNECT, or a target with bytes that would break the request.
    Unsendable,
}

/// What a request is, beside its bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Kind {
    pub(super) client: u64,
    pub(super) is_head: bool,
    pub(super) is_idempotent: bool,
    pub(super) logged: Option<Logged>,
}

/// A range that starts behind the end of any file.
const RANGE_BEHIND_END: &[u8] = b"Range: bytes=9223372036854775806-\r\n";

/// Appends the request that a line stands for to `out`.
pub(super) fn write(entry: &Entry<'_>, settings: &Settings, out: &mut Vec<u8>) -> Result<Kind, Skip> {
    let RequestLine { method, target } = entry.request.as_ref().ok_or(Skip::NoRequest)?;
    let is_plain = matches!(&**method, b"GET" | b"HEAD");
    if !is_plain && !settings.all_methods {
        return Err(Skip::Method);
    }
    // A space or control character would end the target, and what follows would be a field of the request.
    let is_sendable = target.iter().all(|byte| *byte > b' ' && *byte != 0x7f);
    if !is_sendable || target.is_empty() || &**method == b"CONNECT" {
        return Err(Skip::Unsendable);
    }
    for part in [&**method, b" ", target, b" HTTP/1.1\r\n"] {
        out.extend_from_slice(part);
    }
    let logged_host = entry.host.as_deref().filter(|host| is_value(host));
    let host = settings.host.as_deref().or(logged_host).unwrap_or(&settings.default_host);
    field(b"Host", host, out);
    optional(b"User-Agent", entry.user_agent.as_ref(), out);
    optional(b"Referer", entry.referer.as_ref(), out);
    if settings.conditions && is_plain {
        condition(entry, out);
    }
    if !settings.keep_alive {
        field(b"Connection", b"close", out);
    }
    if !is_plain {
        field(b"Content-Length", b"0", out);
    }
    out.extend_from_slice(b"\r\n");
    let length = entry.body_bytes.filter(|_| (200..300).contains(&entry.status));
    Ok(Kind {
        client: match settings.sessions {
            Sessions::Address => number_of(&entry.client),
            Sessions::None => 0,
        },
        is_head: &**method == b"HEAD",
        // RFC 9110 section 9.2.2
        is_idempotent: matches!(&**method, b"GET" | b"HEAD" | b"OPTIONS" | b"TRACE" | b"PUT" | b"DELETE"),
        logged: settings.verify.then_some(Logged { status: entry.status, bytes: length }),
    })
}

/// A client's number.
fn number_of(client: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    hasher.write(client);
    hasher.finish()
}

fn field(name: &[u8], value: &[u8], out: &mut Vec<u8>) {
    for part in [name, b": ", value, b"\r\n"] {
        out.extend_from_slice(part);
    }
}

fn optional(name: &[u8], value: Option<&Cow<'_, [u8]>>, out: &mut Vec<u8>) {
    if let Some(value) = value.filter(|value| is_value(value)) {
        field(name, value, out);
    }
}

/// Whether it can be a field's value (RFC 9110 section 5.5).
fn is_value(value: &[u8]) -> bool {
    let is_sound = |byte: &u8| *byte >= b' ' && *byte != 0x7f;
    !value.is_empty() && value.iter().all(is_sound) && value.trim_ascii().len() == value.len()
}

/// What makes a server answer as it did then, if the file has not changed since.
fn condition(entry: &Entry<'_>, out: &mut Vec<u8>) {
    match (entry.status, entry.body_bytes) {
        (304, _) => {
            field(b"If-Modified-Since", &maitred_http::date::format(entry.time_us / 1_000_000), out);
        }
        (206, Some(bytes)) if bytes > 0 => {
            out.extend_from_slice(b"Range: bytes=0-");
            out.extend_from_slice(itoa::Buffer::new().format(bytes - 1).as_bytes());
            out.extend_from_slice(b"\r\n");
        }
        (416, _) => out.extend_from_slice(RANGE_BEHIND_END),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::Pace;
    use super::*;
    use crate::log::parse;

    fn settings() -> Settings {
        Settings {
            pace: Pace::Fast,
            ramp: 0,
            sessions: Sessions::Address,
            threads: 1,
            requests_max: None,
            reorder: super::super::REORDER_DEFAULT,
            is_repeated: false,
            all_methods: false,
            keep_alive: true,
            conditions: true,
            verify: true,
            host: None,
            default_host: b"localhost".to_vec(),
            end: u64::MAX,
        }
    }

    fn line(request: &str, status: u16, rest: &str) -> String {
        format!("192.0.2.1 - - [06/Nov/1994:08:49:37 +0000] \"{request}\" {status} {rest}")
    }

    fn written(line: &str, settings: &Settings) -> Result<(String, Kind), Skip> {
        let mut out = Vec::new();
        let kind = write(&parse(line.as_bytes()).unwrap(), settings, &mut out)?;
        Ok((String::from_utf8(out).unwrap(), kind))
    }

    #[test]
    fn a_line_becomes_the_request_it_was() {
        let line = line("GET /a?b HTTP/1.0", 200, "5 \"http://example.com/\" \"curl/8\"");
        let (text, kind) = written(&line, &settings()).unwrap();
        assert_eq!(
            text,
            "GET /a?b HTTP/1.1\r\nHost: localhost\r\nUser-Agent: curl/8\r\nReferer: http://example.com/\r\n\r\n"
        );
        assert_eq!(kind.logged, Some(Logged { status: 200, bytes: Some(5) }));
        let closing = Settings { keep_alive: false, host: Some(b"example.org".to_vec()), ..settings() };
        let (text, _) = written(&line, &closing).unwrap();
        assert!(text.contains("Host: example.org\r\n") && text.contains("Connection: close\r\n"), "{text}");
    }

    #[test]
    fn conditions_and_ranges_are_asked_for() {
        let asked = |status, rest| written(&line("GET /a HTTP/1.1", status, rest), &settings()).unwrap().0;
        assert!(asked(304, "-").contains("If-Modified-Since: Sun, 06 Nov 1994 08:49:37 GMT\r\n"));
        assert!(asked(206, "10").contains("Range: bytes=0-9\r\n"));
        assert!(asked(416, "-").contains("Range: bytes=9223372036854775806-\r\n"));
        let plain = Settings { conditions: false, ..settings() };
        assert!(!written(&line("GET /a HTTP/1.1", 304, "-"), &plain).unwrap().0.contains("If-"));
    }

    #[test]
    fn methods_that_change_things_need_leave() {
        let post = line("POST /a HTTP/1.1", 200, "5");
        assert_eq!(written(&post, &settings()).unwrap_err(), Skip::Method);
        let all = Settings { all_methods: true, ..settings() };
        let (text, kind) = written(&post, &all).unwrap();
        assert!(text.contains("Content-Length: 0\r\n") && !kind.is_idempotent);
        assert_eq!(written(&line("CONNECT a:443 HTTP/1.1", 200, "5"), &all).unwrap_err(), Skip::Unsendable);
        assert_eq!(written(&line("-", 408, "-"), &all).unwrap_err(), Skip::NoRequest);
    }

    #[test]
    fn clients_are_told_apart_unless_all_share() {
        let client = |address: &str, sessions| {
            let line = line("GET / HTTP/1.1", 200, "5").replace("192.0.2.1", address);
            written(&line, &Settings { sessions, ..settings() }).unwrap().1.client
        };
        assert_ne!(client("::1", Sessions::Address), client("::2", Sessions::Address));
        assert_eq!(client("::1", Sessions::Address), client("::1", Sessions::Address));
        assert_eq!(client("::1", Sessions::None), client("::2", Sessions::None));
    }

    proptest! {
        /// Whatever a log holds, one line is one request without a field that was not meant.
        #[test]
        fn no_line_breaks_out_of_its_request(target: Vec<u8>, agent: Vec<u8>, referer: Vec<u8>, host: Vec<u8>) {
            let entry = Entry {
                client: Cow::Borrowed(b"::1"),
                time_us: 0,
                is_precise: false,
                request: Some(RequestLine { method: Cow::Borrowed(b"GET"), target: Cow::Owned(target) }),
                status: 200,
                body_bytes: None,
                referer: Some(Cow::Owned(referer)),
                user_agent: Some(Cow::Owned(agent)),
                host: Some(Cow::Owned(host)),
            };
            let mut out = Vec::new();
            if write(&entry, &settings(), &mut out).is_ok() {
                let lines = out.split(|byte| *byte == b'\n').count();
                prop_assert!((4..=6).contains(&lines));
                prop_assert_eq!(out.iter().filter(|byte| **byte == b'\r').count(), lines - 1);
                prop_assert!(out.ends_with(b"\r\n\r\n"));
            } else {
                prop_assert!(out.is_empty());
            }
        }
    }
}
