//! Field sections of requests, as HTTP/2 and HTTP/3 have them, put into a [`RequestHead`] (9113-8.2, 9113-8.3, 8441-4; 9114-4.2,
//! 9114-4.3, 9220-3, which say the same).
//!
//! Judged here is what these two have rules of their own for: pseudo-fields, names, line ends, fields of the connection, and the
//! length. Everything else (the syntax of `Host`, sizes, targets) is left to the judge that HTTP/1 has, too.

use crate::bytes::{ByteSet, byte_set};
use crate::fields::{self, FieldLines};
use crate::limits::{TRAILER_BYTES_MAX, TRAILERS_MAX};
use crate::priority::Priority;
use crate::request::{Parts, RequestHead, Span, Version, is_token_byte};

/// What was found besides the head.
#[derive(Debug, Default)]
pub(crate) struct Facts {
    /// The stated length of the content.
    pub(crate) content_length: Option<u64>,
    /// The value of a `priority` field.
    pub(crate) priority: Option<Priority>,
    /// An extended CONNECT.
    pub(crate) tunnel: bool,
}

/// Fills a head while the fields come.
pub(crate) struct Translator<'h> {
    head: &'h mut RequestHead,
    version: Version,
    /// Whether extended CONNECT was advertised.
    connect_protocol: bool,
    /// The stream ends with the head.
    ended: bool,
    pseudo: Pseudo,
    /// The request line is known: no pseudo-field may follow.
    started: bool,
    connect: bool,
    /// The method is one of those whose content means something.
    expects_content: bool,
    /// What an extended CONNECT asks for.
    protocol: Option<Span>,
    /// Number of the `host` field, if there is one.
    host: Option<usize>,
    /// Number of the `cookie` field.
    cookie: Option<usize>,
    /// Further parts of the cookie, which came when other fields stood behind it.
    crumbs: Vec<u8>,
    facts: Facts,
    fault: Option<&'static str>,
}

/// Places of the pseudo-fields' values in the head.
#[derive(Default)]
struct Pseudo {
    method: Option<Span>,
    scheme: Option<Span>,
    authority: Option<Span>,
    path: Option<Span>,
    protocol: Option<Span>,
}

pub(crate) type Judgement = Result<(), &'static str>;

impl<'h> Translator<'h> {
    /// Begins a head in place of what was in `head`.
    pub(crate) fn new(
        head: &'h mut RequestHead,
        version: Version,
        connect_protocol: bool,
        ended: bool,
    ) -> Self {
        head.clear();
        Self {
            head,
            version,
            connect_protocol,
            ended,
            pseudo: Pseudo::default(),
            started: false,
            connect: false,
            expects_content: false,
            protocol: None,
            host: None,
            cookie: None,
            crumbs: Vec::new(),
            facts: Facts::default(),
            fault: None,
        }
    }

    /// Takes the next field. After a fault nothing more is looked at; the decoder goes on for the sake of its table.
    #[inline]
    pub(crate) fn field(&mut self, name: &[u8], value: &[u8]) {
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
    pub(crate) fn finish(mut self) -> Result<Facts, &'static str> {
        match self.fault {
            Some(fault) => Err(fault),
            None => self.close().map(|()| self.facts),
        }
    }

    /// Drops a head that could not be taken as a whole. The request line is known if the fields behind it were too many.
    #[cold]
    pub(crate) fn abandon(mut self) {
        if !self.started && self.fault.is_none() {
            self.fault = self.start().err();
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
        self.judge_value(value)?;
        self.head.put_field(name, value);
        Ok(())
    }

    /// Values of the two kinds that are refused: some make the request malformed, others get 400 from the judge.
    #[inline]
    fn judge_value(&mut self, value: &[u8]) -> Judgement {
        if judge_value(value)? == Controls::Some {
            self.head.note_invalid_value();
        }
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
        // The one control character above it, DEL, is in no method, scheme or protocol; the judge refuses it elsewhere.
        if any_below(value, b' ' + 1) {
            return Err("white space or a control character in a pseudo-field");
        }
        let put = match name == b":path" && !value.is_ascii() && std::str::from_utf8(value).is_ok() {
            true => self.head.put_encoded(value),
            false => self.head.put(value),
        };
        match place.replace(put) {
            None => Ok(()),
            Some(_) => Err("pseudo-field more than once"),
        }
    }

    /// All pseudo-fields are there: says what the request line is, as far as it is one, and puts `host`.
    fn start(&mut self) -> Judgement {
        self.started = true;
        let Pseudo { method, scheme, authority, path, protocol } = std::mem::take(&mut self.pseudo);
        let method = method.ok_or("no :method")?;
        let method_text = self.head.part(method);
        if !matches!(method_text, b"GET" | b"POST") && !method_text.iter().all(is_token_byte) {
            return Err(":method is no token");
        }
        self.connect = method_text == b"CONNECT";
        self.expects_content = matches!(method_text, b"POST" | b"PUT" | b"PATCH");
        let options = method_text == b"OPTIONS";
        let plain_connect = self.connect && protocol.is_none();
        if let Some(target) = if plain_connect { authority } else { path } {
            self.set_parts(method, target, protocol.is_some());
        }
        if plain_connect {
            if scheme.is_some() || path.is_some() {
                return Err("CONNECT with :scheme or :path");
            }
            authority.ok_or("CONNECT without :authority")?;
        } else {
            if protocol.is_some() && !self.connect {
                return Err(":protocol without CONNECT");
            }
            judge_scheme(self.head.part(scheme.ok_or("no :scheme")?))?;
            match self.head.part(path.ok_or("no :path")?) {
                [b'/', ..] => {}
                b"*" if options => {}
                _ => return Err(":path is no path"),
            }
        }
        if let Some(protocol) = protocol {
            // The registry is that of `Upgrade` (8441-4), so that its syntax is, too (9110-7.8).
            if !self.head.part(protocol).iter().all(|byte| is_token_byte(byte) || *byte == b'/') {
                return Err(":protocol is no protocol");
            }
        }
        (self.protocol, self.facts.tunnel) = (protocol, protocol.is_some());
        if let Some(authority) = authority {
            self.host = Some(self.head.fields());
            self.head.put_named(b"host", authority);
        }
        Ok(())
    }

    /// The request line is known.
    fn set_parts(&mut self, method: Span, target: Span, protocol: bool) {
        // An extended CONNECT asks for what GET with `upgrade` asks for.
        let method = if self.connect && protocol { self.head.put(b"GET") } else { method };
        // What goes through a tunnel is no content.
        let ended = self.ended || self.connect;
        self.head.set_parts(Parts { method, target, version: self.version, ended });
    }

    /// Whether a field is put as it is. Length and first letter choose the only name that it can have here.
    #[inline]
    fn wanted(&mut self, name: &[u8], value: &[u8]) -> Result<bool, &'static str> {
        if is_of_connection(name, value) {
            return Err("field of the connection");
        }
        match (name.len(), name.first()) {
            (0, _) => return Err("field without a name"),
            (4, Some(b'h')) if name == b"host" => return self.take_host(value),
            (6, Some(b'c')) if name == b"cookie" => return self.take_cookie(value),
            (8, Some(b'p')) if name == b"priority" => {
                self.facts.priority = Some(self.facts.priority.unwrap_or_default().with(value));
            }
            (14, Some(b'c')) if name == b"content-length" => self.take_length(value)?,
            // HTTP/2 and HTTP/3 have none (8441-5): the server that passes the request on makes one.
            (17, Some(b's')) if name == b"sec-websocket-key" => return Ok(!self.facts.tunnel),
            _ => {}
        }
        Ok(true)
    }

    /// `host` besides `:authority` must say the same, and is not repeated (9113-8.3.1).
    #[cold]
    fn take_host(&mut self, value: &[u8]) -> Result<bool, &'static str> {
        let Some(known) = self.host else {
            if value.is_empty() {
                return Err("empty host");
            }
            self.host = Some(self.head.fields());
            return Ok(true);
        };
        if self.head.value(known).eq_ignore_ascii_case(value) {
            Ok(false)
        } else {
            Err("host is not :authority")
        }
    }

    /// Parts of one cookie string become one field (9113-8.2.3). The parts come one behind the other from all known clients;
    /// parts that come later wait for the end, so that each byte is moved once.
    fn take_cookie(&mut self, value: &[u8]) -> Result<bool, &'static str> {
        let Some(cookie) = self.cookie else {
            self.cookie = Some(self.head.fields());
            return Ok(true);
        };
        self.judge_value(value)?;
        if cookie + 1 == self.head.fields() {
            self.head.put_more(&[b"; ", value]);
        } else {
            self.crumbs.extend_from_slice(b"; ");
            self.crumbs.extend_from_slice(value);
        }
        Ok(false)
    }

    #[cold]
    fn join_crumbs(&mut self) {
        let Some(cookie) = self.cookie else { return };
        let whole = [self.head.value(cookie), &self.crumbs].concat();
        self.head.replace_value(cookie, &whole);
    }

    fn take_length(&mut self, value: &[u8]) -> Judgement {
        if self.connect {
            return Err("CONNECT with a content-length");
        }
        match self.facts.content_length.replace(length(value)?) {
            None => Ok(()),
            Some(_) => Err("content-length more than once"),
        }
    }

    #[inline]
    fn close(&mut self) -> Judgement {
        if !self.started {
            self.start()?;
        }
        if !self.crumbs.is_empty() {
            self.join_crumbs();
        }
        if let Some(protocol) = self.protocol {
            self.head.put_field(b"connection", b"upgrade");
            self.head.put_named(b"upgrade", protocol);
        } else if self.ended {
            match self.facts.content_length {
                Some(0) => {}
                Some(_) => return Err("content is missing"),
                // The end of the stream says that there is no content; to servers behind only a length does (9110-8.6).
                None if self.expects_content => self.head.put_field(b"content-length", b"0"),
                None => {}
            }
        }
        Ok(())
    }
}

/// The value of `content-length`.
pub(crate) fn length(value: &[u8]) -> Result<u64, &'static str> {
    const INVALID: &str = "invalid content-length";
    if value.is_empty() {
        return Err(INVALID);
    }
    let length = value.iter().try_fold(0_u64, |length, byte| {
        let digit = byte.is_ascii_digit().then(|| u64::from(byte - b'0'))?;
        length.checked_mul(10)?.checked_add(digit)
    });
    length.ok_or(INVALID)
}

/// Whether a field is about the connection, which HTTP/2 and HTTP/3 have other means for (9113-8.2.2, 9114-4.2).
#[inline]
pub(crate) fn is_of_connection(name: &[u8], value: &[u8]) -> bool {
    match (name.len(), name.first()) {
        (2, Some(b't')) => name == b"te" && !value.eq_ignore_ascii_case(b"trailers"),
        (7, Some(b'u')) => name == b"upgrade",
        (10, Some(b'c')) => name == b"connection",
        (10, Some(b'k')) => name == b"keep-alive",
        (16, Some(b'p')) => name == b"proxy-connection",
        (17, Some(b't')) => name == b"transfer-encoding",
        _ => false,
    }
}

/// The trailers of a request: judged like fields (9113-8.1), and given without those that mean nothing there.
#[derive(Default)]
pub(crate) struct Trailers {
    fields: FieldLines,
    /// As many as there would be over HTTP/1, of those that are dropped, too.
    bytes: usize,
    /// Number of fields, also of those that are dropped.
    count: usize,
    fault: Option<&'static str>,
}

impl Trailers {
    pub(crate) fn field(&mut self, name: &[u8], value: &[u8]) {
        if self.fault.is_none() {
            self.fault = self.take(name, value).err();
        }
    }

    fn take(&mut self, name: &[u8], value: &[u8]) -> Judgement {
        if name.is_empty() {
            return Err("field without a name");
        }
        // The colon is no byte of a name, so that pseudo-fields are refused here, too.
        judge_name(name)?;
        if is_of_connection(name, value) {
            return Err("field of the connection");
        }
        // No second check follows.
        if judge_value(value)? == Controls::Some {
            return Err("invalid byte in a trailer");
        }
        self.bytes += name.len() + value.len() + ": \r\n".len();
        if self.bytes > TRAILER_BYTES_MAX as usize {
            return Err("trailer section too big");
        }
        self.count += 1;
        if fields::is_for_trailers(name) {
            self.fields.push(name, value);
        }
        Ok(())
    }

    /// The fields that go on. Of more than [`TRAILERS_MAX`], none do, as over HTTP/1.
    pub(crate) fn finish(self) -> Result<FieldLines, &'static str> {
        match self.fault {
            Some(fault) => Err(fault),
            None if self.count > TRAILERS_MAX => Ok(FieldLines::default()),
            None => Ok(self.fields),
        }
    }
}

/// Bytes of names: those of tokens, but for capital letters (9113-8.2.1).
static NAME_BYTES: ByteSet = byte_set(&[(b'0', b'9'), (b'a', b'z')], b"!#$%&'*+-.^_`|~");

#[inline]
pub(crate) fn judge_name(name: &[u8]) -> Judgement {
    if name.iter().all(|byte| NAME_BYTES[usize::from(*byte)]) {
        Ok(())
    } else {
        Err("name is no token in small letters")
    }
}

// What is asked of eight bytes at a time: values are long.
const EACH: u64 = u64::from_ne_bytes([1; 8]);
const HIGH: u64 = EACH << 7;

/// Whether the condition holds for any of the bytes, in words of eight or one by one.
#[inline]
fn any(bytes: &[u8], in_word: impl Fn(u64) -> bool, is: impl Fn(u8) -> bool) -> bool {
    let (words, rest) = bytes.as_chunks::<8>();
    let in_word = |word: &[u8; 8]| in_word(u64::from_ne_bytes(*word));
    match (words, bytes.last_chunk::<8>()) {
        // The last word may have some bytes of the one before it.
        (words, Some(last)) => words.iter().any(in_word) || in_word(last),
        _ => rest.iter().any(|byte| is(*byte)),
    }
}

/// Bytes of a word that are less than `limit`, which is at most 128: the highest bit of a byte is set if the byte is less; or if
/// one below it in the word is.
#[inline]
fn below(word: u64, limit: u8) -> u64 {
    word.wrapping_sub(EACH * u64::from(limit)) & !word & HIGH
}

/// Whether a byte is less than `limit`, which is at most 128.
#[inline]
fn any_below(bytes: &[u8], limit: u8) -> bool {
    any(bytes, |word| below(word, limit) != 0, |byte| byte < limit)
}

/// Whether there is a control character: a byte below the space, or DEL. 127 plus one has the highest bit of its byte.
#[inline]
fn any_control(bytes: &[u8]) -> bool {
    let dels = |word: u64| ((word & !HIGH) + EACH) & !word & HIGH;
    any(bytes, |word| below(word, b' ') | dels(word) != 0, |byte| byte < b' ' || byte == 0x7f)
}

/// Whether a value has control characters that no value may have, and that end nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Controls {
    None,
    Some,
}

/// No NUL, CR or LF, no white space at the ends (9113-8.2.1). Only if there is a control character it is looked at which
/// one it is.
#[inline]
pub(crate) fn judge_value(value: &[u8]) -> Result<Controls, &'static str> {
    let controls = if any_control(value) { judge_controls(value)? } else { Controls::None };
    match value {
        [b' ' | b'\t', ..] | [.., b' ' | b'\t'] => Err("white space around a value"),
        _ => Ok(controls),
    }
}

#[cold]
fn judge_controls(value: &[u8]) -> Result<Controls, &'static str> {
    if value.iter().any(|byte| matches!(byte, 0 | b'\r' | b'\n')) {
        return Err("line end or NUL in a value");
    }
    let other = value.iter().any(|byte| byte.is_ascii_control() && *byte != b'\t');
    Ok(if other { Controls::Some } else { Controls::None })
}

/// The syntax of RFC 3986 section 3.1. The scheme itself does not matter: behind a proxy it may be another than that of
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
    fn bytes_are_found_anywhere() {
        for length in 0..30 {
            let plain: Vec<u8> = (0..length).map(|at| [b' ', b'!', 0x7e, 0x80, 0xff, 0xfe][at % 6]).collect();
            assert!(!any_below(&plain, b' ') && !any_control(&plain));
            for at in 0..length {
                for byte in [0, 9, 0x1f] {
                    let mut bytes = plain.clone();
                    bytes[at] = byte;
                    assert!(any_below(&bytes, b' ') && any_control(&bytes), "{bytes:?}");
                }
                let mut bytes = plain.clone();
                bytes[at] = 0x7f;
                assert!(any_control(&bytes) && !any_below(&bytes, b' '), "{bytes:?}");
            }
        }
    }
}
