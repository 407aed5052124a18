//! The opening handshake of WebSocket (RFC 6455 section 4), for requests that came over HTTP/2 or HTTP/3. The handshake
//! has no key there (8441-5), so that this server, which passes it on to one of HTTP/1.1, is that server's client, and has
//! to make a key and to check the answer (6455-4.1).

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

/// Extensions of one response that are looked at: more is no handshake. Two are registered.
const EXTENSIONS_MAX: usize = 16;

/// What a server has to have read of a key before it can answer (6455-1.3).
const GUID: &[u8] = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11";

/// The value of `Sec-WebSocket-Key`: 16 random bytes in Base64.
pub fn key(nonce: u128) -> String {
    STANDARD.encode(nonce.to_be_bytes())
}

/// What the SHA-1 of is the answer to a key.
pub fn challenge(key: &str) -> Vec<u8> {
    [key.as_bytes(), GUID].concat()
}

/// What the answer to a handshake has to be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Handshake {
    accept: String,
    /// Protocols that the client takes.
    protocols: Vec<u8>,
    /// Extensions that the client offers.
    extensions: Vec<u8>,
}

/// Elements of all fields of a name.
fn elements<'a>(fields: &'a [httparse::Header<'_>], name: &'a str) -> impl Iterator<Item = &'a [u8]> {
    let fields = fields.iter().filter(move |field| field.name.eq_ignore_ascii_case(name));
    let elements = fields.flat_map(|field| field.value.split(|byte| *byte == b','));
    elements.map(<[u8]>::trim_ascii).filter(|element| !element.is_empty())
}

/// The name of an extension, without its parameters.
fn name_of(extension: &[u8]) -> &[u8] {
    extension.split(|byte| *byte == b';').next().unwrap_or_default().trim_ascii()
}

impl Handshake {
    /// Of a request with these fields; `digest` is the SHA-1 of the [`challenge`].
    pub fn new(digest: &[u8], fields: &[httparse::Header<'_>]) -> Handshake {
        let all = |name| elements(fields, name).collect::<Vec<_>>().join(&b","[..]);
        Handshake {
            accept: STANDARD.encode(digest),
            protocols: all("sec-websocket-protocol"),
            extensions: all("sec-websocket-extensions"),
        }
    }

    /// Judges the fields of a 101 (6455-4.1).
    ///
    /// # Errors
    ///
    /// What is wrong with them, in words.
    pub(crate) fn judge(&self, fields: &[httparse::Header<'_>]) -> Result<(), &'static str> {
        let mut accepts = elements(fields, "sec-websocket-accept");
        match (accepts.next(), accepts.next()) {
            (Some(accept), None) if accept == self.accept.as_bytes() => {}
            (None, _) => return Err("101 to a WebSocket without Sec-WebSocket-Accept"),
            _ => return Err("101 to a WebSocket with a wrong Sec-WebSocket-Accept"),
        }
        let offered = |list: &[u8], one: &[u8]| list.split(|byte| *byte == b',').any(|other| other == one);
        let mut protocols = elements(fields, "sec-websocket-protocol");
        match (protocols.next(), protocols.next()) {
            (None, _) => {}
            (Some(protocol), None) if offered(&self.protocols, protocol) => {}
            _ => return Err("101 to a WebSocket with a Sec-WebSocket-Protocol that was not asked for"),
        }
        let asked = |extension: &[u8]| {
            self.extensions.split(|byte| *byte == b',').any(|other| name_of(other) == name_of(extension))
        };
        let mut extensions = elements(fields, "sec-websocket-extensions");
        if !extensions.by_ref().take(EXTENSIONS_MAX).all(asked) || extensions.next().is_some() {
            return Err("101 to a WebSocket with Sec-WebSocket-Extensions that were not asked for");
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fields<'a>(lines: &'a [(&'a str, &'a str)]) -> Vec<httparse::Header<'a>> {
        lines.iter().map(|(name, value)| httparse::Header { name, value: value.as_bytes() }).collect()
    }

    /// Section 1.3 of RFC 6455 has these values.
    #[test]
    fn keys_and_challenges_are_those_of_the_rfc() {
        let nonce = u128::from_be_bytes(*b"the sample nonce");
        assert_eq!(key(nonce), "dGhlIHNhbXBsZSBub25jZQ==");
        assert_eq!(
            challenge("dGhlIHNhbXBsZSBub25jZQ=="),
            b"dGhlIHNhbXBsZSBub25jZQ==258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
        );
    }

    #[test]
    fn an_answer_has_what_was_asked_for() {
        let digest = [
            0xb3, 0x7a, 0x4f, 0x2c, 0xc0, 0x62, 0x4f, 0x16, 0x90, 0xf6, 0x46, 0x06, 0xcf, 0x38, 0x59, 0x45,
            0xb2, 0xbe, 0xc4, 0xea,
        ];
        let good = ("Sec-WebSocket-Accept", "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
        let asked = fields(&[
            ("sec-websocket-protocol", "chat, superchat"),
            ("sec-websocket-protocol", "x"),
            ("sec-websocket-extensions", "permessage-deflate; client_max_window_bits, foo"),
        ]);
        let handshake = Handshake::new(&digest, &asked);
        let many = vec!["foo"; EXTENSIONS_MAX + 1].join(", ");
        let cases: &[(&[(&str, &str)], bool)] = &[
            (&[good], true),
            (&[good, ("sec-websocket-protocol", "superchat")], true),
            (&[good, ("Sec-WebSocket-Protocol", "x"), ("Sec-WebSocket-Extensions", "foo; a=b")], true),
            (&[good, ("Sec-WebSocket-Extensions", "permessage-deflate;server_no_context_takeover")], true),
            (&[], false),
            (&[("Sec-WebSocket-Accept", "")], false),
            (&[("Sec-WebSocket-Accept", "S3pPLMBiTxaQ9kYGzzhZRbK+xOo=")], false),
            (&[good, good], false),
            (&[good, ("Sec-WebSocket-Protocol", "Chat")], false),
            (&[good, ("Sec-WebSocket-Protocol", "chat"), ("Sec-WebSocket-Protocol", "x")], false),
            (&[good, ("Sec-WebSocket-Extensions", "bar")], false),
            (&[good, ("Sec-WebSocket-Extensions", "foo, bar")], false),
            (&[good, ("Sec-WebSocket-Extensions", &many)], false),
        ];
        for (answer, right) in cases {
            assert_eq!(handshake.judge(&fields(answer)).is_ok(), *right, "{answer:?}");
        }
        let plain = Handshake::new(&digest, &[]);
        assert!(plain.judge(&fields(&[good])).is_ok());
        assert!(plain.judge(&fields(&[good, ("Sec-WebSocket-Protocol", "chat")])).is_err());
        assert!(plain.judge(&fields(&[good, ("Sec-WebSocket-Extensions", "foo")])).is_err());
    }
}
