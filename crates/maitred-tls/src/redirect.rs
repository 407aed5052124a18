//! `redirect_http`: where a cleartext listener sends its clients.

use maitred_config::Listen;
use maitred_http::uri;

/// Below this path, a listener with `redirect_http` answers as ever: certificate authorities come there in cleartext
/// (RFC 8555 section 8.3).
pub const CHALLENGES: &[u8] = b"/.well-known/acme-challenge/";

/// The port that clients are sent to: where the first listener with TLS is bound. `bound` gives that port by the number of the
/// listener. Where all of these are Unix sockets, the proxy before them is taken to have the usual one.
pub fn port(listens: &[Listen], bound: impl Fn(usize) -> Option<u16>) -> Option<u16> {
    let mut secure = listens.iter().enumerate().filter(|(_, listen)| listen.tls.is_some()).peekable();
    secure.peek()?;
    match secure.find(|(_, listen)| listen.address.inet().is_some()) {
        Some((at, _)) => bound(at),
        None => Some(443),
    }
}

/// The value of `Location`. `authority` is the request's host, with or without a port, already judged to be one; `target` is
/// path and query, and begins with `/`. Bytes that no URI has are encoded, and everything else stays as it was sent. `None` if
/// there is no host, or the target is no path: the client did not say where it is.
pub fn location(authority: &str, target: &str, port: u16) -> Option<String> {
    let end = match authority.rfind(']') {
        Some(bracket) => bracket + 1,
        None => authority.find(':').unwrap_or(authority.len()),
    };
    let host = authority.get(..end).filter(|host| !host.is_empty())?;
    if !target.starts_with('/') {
        return None;
    }
    let target = uri::encode_rest(target);
    Some(match port {
        443 => format!("https://{host}{target}"),
        _ => format!("https://{host}:{port}{target}"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_host_stays_and_the_port_is_that_of_tls() {
        for (authority, port, expected) in [
            ("example.com", 443, "https://example.com/a?b"),
            ("example.com:80", 443, "https://example.com/a?b"),
            ("example.com:8080", 8443, "https://example.com:8443/a?b"),
            ("[::1]", 443, "https://[::1]/a?b"),
            ("[::1]:80", 8443, "https://[::1]:8443/a?b"),
        ] {
            assert_eq!(location(authority, "/a?b", port).as_deref(), Some(expected), "{authority}");
        }
        assert_eq!(
            location("a.example", "/%7e|{x}/..?a=\"<b>\"|%zz", 443).as_deref(),
            Some("https://a.example/%7e%7C%7Bx%7D/..?a=%22%3Cb%3E%22%7C%zz")
        );
        for (authority, target) in [("", "/"), (":80", "/"), ("a.example", "*"), ("a.example", "")] {
            assert_eq!(location(authority, target, 443), None, "{authority} {target}");
        }
    }
}
