//! What of a request's head is held while its response is on the way: no more than the access log will want, since a client
//! decides how large its heads are and how long it takes.

use maitred_http::request::{Request, Version};

use super::origin;

/// Writes a head of which the access log says the same as of the request's own. `proxied`: the peer is a trusted proxy, so that
/// what it tells of the request's past is wanted.
pub(super) fn write(request: &Request<'_, '_>, proxied: bool, out: &mut Vec<u8>) {
    let version = if request.version == Version::Http10 { "HTTP/1.0" } else { "HTTP/1.1" };
    for part in [request.method_text, " ", request.target, " ", version, "\r\n"] {
        out.extend_from_slice(part.as_bytes());
    }
    let mut field = |name: &str, value: &[u8]| {
        out.extend_from_slice(name.as_bytes());
        out.extend_from_slice(b": ");
        out.extend_from_slice(value);
        out.extend_from_slice(b"\r\n");
    };
    // HTTP/1.1 has to have one, if only an empty one (9112-3.2).
    if request.version != Version::Http10 || !request.authority.is_empty() {
        field("Host", request.authority.as_bytes());
    }
    if let Some(referer) = request.known.referer {
        field("Referer", referer);
    }
    if let Some(user_agent) = request.known.user_agent {
        field("User-Agent", user_agent);
    }
    if proxied {
        let told = request.fields.iter().filter(|told| origin::tells(told.name));
        told.for_each(|told| field(told.name, told.value));
    }
    out.extend_from_slice(b"\r\n");
}

#[cfg(test)]
mod tests {
    use maitred_http::request::{HeadLimits, field_room, parse};
    use proptest::prelude::*;

    use super::super::connection::Remote;
    use super::super::origin::{Client, Peer};
    use super::*;

    const LIMITS: HeadLimits = HeadLimits {
        head_bytes_max: 65_536,
        header_count_max: 100,
        target_bytes_max: 8192,
        body_bytes_max: 0,
    };

    /// What a line of the log has of a head.
    fn logged(head: &[u8]) -> String {
        let mut room = field_room();
        let (request, _) = parse(head, &mut room, &LIMITS).unwrap().unwrap();
        let peer = Peer { remote: Remote::new("192.0.2.1:9".parse().ok()), secure: false };
        let client = Client::of(&request, &peer, &[("192.0.2.0".parse().unwrap(), 24)]);
        let id = client.given_request_id(&request);
        let (referer, agent) = (request.known.referer, request.known.user_agent);
        let (method, target, version) = (request.method_text, request.target, request.version);
        let remote = client.remote.text();
        format!("{method} {target} {version:?} {} {referer:?} {agent:?} {remote} {id:?}", request.authority)
    }

    fn kept(head: &[u8]) -> Vec<u8> {
        let mut room = field_room();
        let (request, _) = parse(head, &mut room, &LIMITS).unwrap().unwrap();
        let mut out = Vec::new();
        write(&request, true, &mut out);
        out
    }

    #[test]
    fn what_the_log_does_not_want_is_left_out() {
        let large =
            format!("GET /a HTTP/1.1\r\nHost: b\r\nCookie: {}\r\nX-Other: c\r\n\r\n", "d".repeat(12_000));
        assert_eq!(kept(large.as_bytes()), b"GET /a HTTP/1.1\r\nHost: b\r\n\r\n");
        assert_eq!(kept(b"GET / HTTP/1.0\r\n\r\n"), b"GET / HTTP/1.0\r\n\r\n");
        assert_eq!(kept(b"GET / HTTP/1.1\r\nHost:\r\n\r\n"), b"GET / HTTP/1.1\r\nHost: \r\n\r\n");
    }

    proptest! {
        #[test]
        fn the_log_says_the_same(
            target in "(/[a-z?=%20]{0,9}|http://[a-z]{1,5}(:80)?/[a-z]{0,5})",
            old in any::<bool>(),
            fields in proptest::collection::vec((0_usize..9, "[!-~]{0,2}[ -~]{0,12}[!-~]"), 0..9),
        ) {
            const NAMES: [&str; 9] = ["Referer", "User-Agent", "Cookie", "X-Forwarded-For", "Forwarded", "X-Request-Id",
                "x_forwarded_for", "X-Real-IP", "X-Forwarded-Proto"];
            let version = if old { "HTTP/1.0" } else { "HTTP/1.1" };
            let target = target.replace("%20", "").replace('%', "");
            let mut head = format!("GET {target} {version}\r\nHost: example.org:81\r\n");
            for (name, value) in fields {
                head += &format!("{}: {value}\r\n", NAMES[name]);
            }
            head += "\r\n";
            prop_assert_eq!(logged(&kept(head.as_bytes())), logged(head.as_bytes()));
        }
    }
}
