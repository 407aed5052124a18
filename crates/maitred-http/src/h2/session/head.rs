//! A request's field section, translated to the text of an HTTP/1.1 head (9113-8.2, 9113-8.3, 8441-4).
//!
//! Judged here is what a translation could hide or change: pseudo-fields, names, line ends, fields of the connection, and
//! the length. Everything else (the syntax of `Host`, sizes, methods) is left to the judge of HTTP/1, which reads the text.

use std::ops::Range;

use super::priority::Priority;
use crate::bytes::{ByteSet, byte_set};
use crate::request::is_token_byte;

/// A key of the right form (RFC 6455 section 4.1); HTTP/2 has none, and the answer to it goes nowhere.
const WEBSOCKET_KEY: &[u8] = b"sec-websocket-key: bWFpdHJlZC1odHRwLTIuMA==\r\n";

/// What was found besides the text.
#[derive(Debug, Default)]
pub(super) struct Facts {
    /// The stated length of the content.
    pub(super) content_length: Option<u64>,
    /// The wish of a `priority` field.
    pub(super) priority: Option<Priority>,
    /// The text says that chunks follow.
    pub(super) chunked: bool,
    /// An extended CONNECT.
    pub(super) tunnel: bool,
}

/// Writes the text while the fields come.
pub(super) struct Translator<'h> {
    head: &'h mut Vec<u8>,
    base: usize,
    /// Whether extended CONNECT was advertised.
    connect_protocol: bool,
    pseudo: Pseudo,
    /// The request line is written: no pseudo-field may follow.
    started: bool,
    connect: bool,
    /// What an extended CONNECT asks for; otherwise empty.
    protocol: Vec<u8>,
    /// Where the value of the `host` line is, if there is one.
    host: Option<Range<usize>>,
    /// Where the line end of the `cookie` line is.
    cookie_end: Option<usize>,
    /// Further parts of the cookie, which came when other lines stood behind it.
    crumbs: Vec<u8>,
    facts: Facts,
    fault: Option<&'static str>,
}

/// Places of the pseudo-fields' values in the head, where they lie until the request line is written.
#[derive(Default)]
struct Pseudo {
    method: Option<Range<usize>>,
    scheme: Option<Range<usize>>,
    authority: Option<Range<usize>>,
    path: Option<Range<usize>>,
    protocol: Option<Range<usize>>,
}

type Judgement = Result<(), &'static str>;

impl<'h> Translator<'h> {
    pub(super) fn new(head: &'h mut Vec<u8>, connect_protocol: bool) -> Self {
        let base = head.len();
        Self {
            head,
            base,
            connect_protocol,
            pseudo: Pseudo::default(),
            started: false,
            connect: false,
            protocol: Vec::new(),
            host: None,
            cookie_end: None,
            crumbs: Vec::new(),
            facts: Facts::default(),
            fault: None,
        }
    }

    /// Takes the next field. After a fault nothing more is looked at; the decoder goes on for the sake of its table.
    #[inline]
    pub(super) fn field(&mut self, name: &[u8], value: &[u8]) {
        if self.fault.is_none() {
            self.fault = self.take(name, value).err();
        }
    }

    /// Ends the head.
    ///
    /// # Errors
    ///
    /// Why the request is malformed.
    #[inline]
    pub(super) fn finish(mut self, ended: bool) -> Result<Facts, &'static str> {
        match self.fault {
            Some(fault) => Err(fault),
            None => self.close(ended).map(|()| self.facts),
        }
    }

    #[inline]
    fn take(&mut self, name: &[u8], value: &[u8]) -> Judgement {
        if let [b':', ..] = name {
            return self.take_pseudo(name, value);
        }
        if !self.started {
            self.start()?;
        }
        if !self.wanted(name, value)? {
            return Ok(());
        }
        judge_name(name)?;
        judge_value(value)?;
        self.put_line(name, value);
        Ok(())
    }

    fn take_pseudo(&mut self, name: &[u8], value: &[u8]) -> Judgement {
        if self.started {
            return Err("pseudo-field behind a field");
        }
        let place = match name {
            b":method" => &mut self.pseudo.method,
            b":scheme" => &mut self.pseudo.scheme,
            b":authority" => &mut self.pseudo.authority,
            b":path" => &mut self.pseudo.path,
            b":protocol" if self.connect_protocol => &mut self.pseudo.protocol,
            _ => return Err("unknown pseudo-field"),
        };
        if value.is_empty() {
            return Err("empty pseudo-field");
        }
        // The one control character above it, DEL, ends nothing; the judge of HTTP/1 refuses it.
        if any_below(value, b' ' + 1) {
            return Err("white space or a control character in a pseudo-field");
        }
        let start = self.head.len();
        self.head.extend_from_slice(value);
        match place.replace(start..self.head.len()) {
            None => Ok(()),
            Some(_) => Err("pseudo-field more than once"),
        }
    }

    /// All pseudo-fields are there: writes the request line and `host`.
    fn start(&mut self) -> Judgement {
        self.started = true;
        let Pseudo { method, scheme, authority, path, protocol } = std::mem::take(&mut self.pseudo);
        let method = method.ok_or("no :method")?;
        let text = |range: &Range<usize>| self.head.get(range.clone()).unwrap_or_default();
        if !matches!(text(&method), b"GET" | b"POST") && !text(&method).iter().all(is_token_byte) {
            return Err(":method is no token");
        }
        self.connect = text(&method) == b"CONNECT";
        let target = if self.connect && protocol.is_none() {
            if scheme.is_some() || path.is_some() {
                return Err("CONNECT with :scheme or :path");
            }
            authority.clone().ok_or("CONNECT without :authority")?
        } else {
            if protocol.is_some() && !self.connect {
                return Err(":protocol without CONNECT");
            }
            judge_scheme(text(&scheme.ok_or("no :scheme")?))?;
            let path = path.ok_or("no :path")?;
            match text(&path) {
                [b'/', ..] => {}
                b"*" if text(&method) == b"OPTIONS" => {}
                _ => return Err(":path is no path"),
            }
            path
        };
        self.facts.tunnel = protocol.is_some();
        if let Some(protocol) = protocol {
            self.protocol = text(&protocol).to_vec();
            // The registry is that of `Upgrade` (8441-4), so that its syntax is, too (9110-7.8).
            if !self.protocol.iter().all(|byte| is_token_byte(byte) || *byte == b'/') {
                return Err(":protocol is no protocol");
            }
        }
        let method = if self.facts.tunnel { None } else { Some(method) };
        self.put_request_line(method, target, authority);
        Ok(())
    }

    /// Writes the line behind the values, which are then taken away: a copy of some fifty bytes spares a buffer.
    fn put_request_line(
        &mut self,
        method: Option<Range<usize>>,
        target: Range<usize>,
        authority: Option<Range<usize>>,
    ) {
        let values_end = self.head.len();
        let head = &mut *self.head;
        head.reserve(2 * (values_end - self.base) + 64);
        match method {
            Some(method) => head.extend_from_within(method),
            // An extended CONNECT asks for what GET with `upgrade` asks for.
            None => head.extend_from_slice(b"GET"),
        }
        head.push(b' ');
        head.extend_from_within(target);
        head.extend_from_slice(b" HTTP/1.1\r\n");
        if let Some(authority) = authority {
            head.extend_from_slice(b"host: ");
            let start = head.len() - (values_end - self.base);
            let bytes = authority.len();
            head.extend_from_within(authority);
            head.extend_from_slice(b"\r\n");
            self.host = Some(start..start + bytes);
        }
        head.copy_within(values_end.., self.base);
        head.truncate(head.len() - (values_end - self.base));
    }

    /// Whether a field becomes a line of its own. Length and first letter choose the only name that it can have here.
    #[inline]
    fn wanted(&mut self, name: &[u8], value: &[u8]) -> Result<bool, &'static str> {
        const OF_CONNECTION: &str = "field of the connection";
        match (name.len(), name.first()) {
            (0, _) => return Err("field without a name"),
            (2, Some(b't')) if name == b"te" && !value.eq_ignore_ascii_case(b"trailers") => {
                return Err(OF_CONNECTION);
            }
            (4, Some(b'h')) if name == b"host" => return self.take_host(value),
            (6, Some(b'c')) if name == b"cookie" => return self.take_cookie(value),
            (7, Some(b'u')) if name == b"upgrade" => return Err(OF_CONNECTION),
            (8, Some(b'p')) if name == b"priority" => {
                self.facts.priority = Some(self.facts.priority.unwrap_or_default().with(value));
            }
            (10, Some(b'c')) if name == b"connection" => return Err(OF_CONNECTION),
            (10, Some(b'k')) if name == b"keep-alive" => return Err(OF_CONNECTION),
            (14, Some(b'c')) if name == b"content-length" => self.take_length(value)?,
            (16, Some(b'p')) if name == b"proxy-connection" => return Err(OF_CONNECTION),
            (17, Some(b't')) if name == b"transfer-encoding" => return Err(OF_CONNECTION),
            (17, Some(b's')) if name == b"sec-websocket-key" => return Ok(!self.facts.tunnel),
            _ => {}
        }
        Ok(true)
    }

    /// `host` besides `:authority` must say the same, and is not repeated (9113-8.3.1).
    #[cold]
    fn take_host(&mut self, value: &[u8]) -> Result<bool, &'static str> {
        let Some(known) = self.host.clone() else {
            if value.is_empty() {
                return Err("empty host");
            }
            let start = self.head.len() + b"host: ".len();
            self.host = Some(start..start + value.len());
            return Ok(true);
        };
        let known = self.head.get(known).unwrap_or_default();
        if known.eq_ignore_ascii_case(value) { Ok(false) } else { Err("host is not :authority") }
    }

    /// Parts of one cookie string become one line (9113-8.2.3). They come one behind the other from all known clients;
    /// others wait for the end, so that each byte is moved once.
    fn take_cookie(&mut self, value: &[u8]) -> Result<bool, &'static str> {
        let Some(end) = self.cookie_end else {
            self.cookie_end = Some(self.head.len() + b"cookie: ".len() + value.len());
            return Ok(true);
        };
        judge_value(value)?;
        if self.head.len() == end + 2 {
            self.head.truncate(end);
            self.head.extend_from_slice(b"; ");
            self.head.extend_from_slice(value);
            self.cookie_end = Some(self.head.len());
            self.head.extend_from_slice(b"\r\n");
        } else {
            self.crumbs.extend_from_slice(b"; ");
            self.crumbs.extend_from_slice(value);
        }
        Ok(false)
    }

    #[cold]
    fn join_crumbs(&mut self) {
        let Some(end) = self.cookie_end else { return };
        self.head.extend_from_slice(&self.crumbs);
        self.head.get_mut(end..).unwrap_or_default().rotate_right(self.crumbs.len());
    }

    fn take_length(&mut self, value: &[u8]) -> Judgement {
        const INVALID: &str = "invalid content-length";
        if self.connect {
            return Err("CONNECT with a content-length");
        }
        if value.is_empty() {
            return Err(INVALID);
        }
        let length = value.iter().try_fold(0_u64, |length, byte| {
            let digit = byte.is_ascii_digit().then(|| u64::from(byte - b'0'))?;
            length.checked_mul(10)?.checked_add(digit)
        });
        match self.facts.content_length.replace(length.ok_or(INVALID)?) {
            None => Ok(()),
            Some(_) => Err("content-length more than once"),
        }
    }

    #[inline]
    fn put_line(&mut self, name: &[u8], value: &[u8]) {
        let head = &mut *self.head;
        head.reserve(name.len() + value.len() + 4);
        head.extend_from_slice(name);
        head.extend_from_slice(b": ");
        head.extend_from_slice(value);
        head.extend_from_slice(b"\r\n");
    }

    /// Whether the method is one of those whose content means something.
    fn expects_content(&self) -> bool {
        let text = self.head.get(self.base..).unwrap_or_default();
        [&b"POST "[..], b"PUT ", b"PATCH "].iter().any(|method| text.starts_with(method))
    }

    #[inline]
    fn close(&mut self, ended: bool) -> Judgement {
        if !self.started {
            self.start()?;
        }
        if !self.crumbs.is_empty() {
            self.join_crumbs();
        }
        if self.facts.tunnel {
            self.head.extend_from_slice(b"connection: upgrade\r\nupgrade: ");
            self.head.extend_from_slice(&self.protocol);
            self.head.extend_from_slice(b"\r\n");
            if self.protocol.eq_ignore_ascii_case(b"websocket") {
                self.head.extend_from_slice(WEBSOCKET_KEY);
            }
        } else if ended {
            match self.facts.content_length {
                Some(0) => {}
                Some(_) => return Err("content is missing"),
                // Here the end of the stream says it; in the text, and to servers behind, only a length does (9110-8.6).
                None if self.expects_content() => self.head.extend_from_slice(b"content-length: 0\r\n"),
                None => {}
            }
        } else if self.facts.content_length.is_none() && !self.connect {
            self.facts.chunked = true;
            self.head.extend_from_slice(b"transfer-encoding: chunked\r\n");
        }
        self.head.extend_from_slice(b"\r\n");
        Ok(())
    }
}

/// The trailers of a request: judged like fields, and dropped (9113-8.1).
#[derive(Default)]
pub(super) struct Trailers {
    fault: Option<&'static str>,
}

impl Trailers {
    pub(super) fn field(&mut self, name: &[u8], value: &[u8]) {
        let judgement = match name {
            [] => Err("field without a name"),
            // Not a byte of a name, so that pseudo-fields are refused here, too.
            name => judge_name(name).and_then(|()| judge_value(value)),
        };
        self.fault = self.fault.or(judgement.err());
    }

    pub(super) fn finish(self) -> Judgement {
        self.fault.map_or(Ok(()), Err)
    }
}

/// Bytes of names: those of tokens, but for capital letters (9113-8.2.1).
static NAME_BYTES: ByteSet = byte_set(&[(b'0', b'9'), (b'a', b'z')], b"!#$%&'*+-.^_`|~");

#[inline]
fn judge_name(name: &[u8]) -> Judgement {
    if name.iter().all(|byte| NAME_BYTES[usize::from(*byte)]) {
        Ok(())
    } else {
        Err("name is no token in small letters")
    }
}

/// Whether a byte is less than `limit`, which is at most 128. Eight bytes at a time: values are long.
#[inline]
fn any_below(bytes: &[u8], limit: u8) -> bool {
    const EACH: u64 = u64::from_ne_bytes([1; 8]);
    const HIGH: u64 = EACH << 7;
    let limits = EACH * u64::from(limit);
    // The highest bit of a byte that is left is set if the byte is less; or if one below it in the word is.
    let below = |word: &[u8; 8]| {
        let word = u64::from_ne_bytes(*word);
        word.wrapping_sub(limits) & !word & HIGH != 0
    };
    let (words, rest) = bytes.as_chunks::<8>();
    match (words, bytes.last_chunk::<8>()) {
        // The last word may have some bytes of the one before it.
        (words, Some(last)) => words.iter().any(below) || below(last),
        _ => rest.iter().any(|byte| *byte < limit),
    }
}

/// No NUL, CR or LF, no white space at the ends (9113-8.2.1). Only if there is a control character it is looked at which
/// one it is.
#[inline]
fn judge_value(value: &[u8]) -> Judgement {
    if any_below(value, b' ') && value.iter().any(|byte| matches!(byte, 0 | b'\r' | b'\n')) {
        return Err("line end or NUL in a value");
    }
    match value {
        [b' ' | b'\t', ..] | [.., b' ' | b'\t'] => Err("white space around a value"),
        _ => Ok(()),
    }
}

/// The syntax of RFC 3986 section 3.1. Which scheme it is does not matter: behind a proxy it may be another than that of
/// this connection.
fn judge_scheme(scheme: &[u8]) -> Judgement {
    let valid = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'-' | b'.');
    if scheme.first().is_some_and(u8::is_ascii_alphabetic) && scheme.iter().all(valid) {
        Ok(())
    } else {
        Err("invalid :scheme")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_below_a_limit_are_found_anywhere() {
        for length in 0..30 {
            let plain: Vec<u8> = (0..length).map(|at| [b' ', b'!', 0x7f, 0x80, 0xff][at % 5]).collect();
            assert!(!any_below(&plain, b' '));
            for at in 0..length {
                for byte in [0, 9, 0x1f] {
                    let mut bytes = plain.clone();
                    bytes[at] = byte;
                    assert!(any_below(&bytes, b' '), "{bytes:?}");
                }
            }
        }
    }
}
