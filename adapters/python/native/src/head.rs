//! The head of a response. Only what most applications say is understood here; `maitred.head` in Python knows the rest, and is
//! asked where [`Head::begin`] or [`Head::field`] says so. There is no Python in this file, so that a fuzz target can include it.

use maitred_handoff::RequestFlags;

/// Fields that are not the application's, or that mean more than their text: Python decides about them.
const UNUSUAL: [&[u8]; 8] = [
    b"connection",
    b"keep-alive",
    b"proxy-connection",
    b"te",
    b"trailer",
    b"transfer-encoding",
    b"upgrade",
    b"x-sendfile",
];
/// Bytes up to which the places of a head are reserved at once.
const USUAL_BYTES: usize = 512;

/// A case that Python decides: a rare form, or a failure, which it words.
#[derive(Debug)]
pub(crate) struct Unusual;

/// The application's words before the body.
#[derive(Debug)]
pub(crate) struct Head {
    /// Status line and fields, without framing and without the empty line.
    lines: Vec<u8>,
    pub(crate) status: u16,
    /// The Content-Length, if one was stated.
    pub(crate) length: Option<u64>,
    dated: bool,
    served: bool,
}

impl Head {
    /// A head that begins with this status and reason, as `200 OK`.
    pub(crate) fn begin(status: &[u8]) -> Result<Self, Unusual> {
        let (digits, rest) = status.split_first_chunk::<3>().ok_or(Unusual)?;
        let [first @ b'2'..=b'9', second @ b'0'..=b'9', third @ b'0'..=b'9'] = digits else {
            return Err(Unusual);
        };
        let number = digit(*first) * 100 + digit(*second) * 10 + digit(*third);
        let is_reason = |byte: &u8| matches!(byte, b'\t' | b' '..=b'~');
        if !(rest.is_empty() || rest.first() == Some(&b' ') && rest.iter().all(is_reason)) {
            return Err(Unusual);
        }
        let mut head = Self {
            lines: Vec::with_capacity(USUAL_BYTES),
            status: number,
            length: None,
            dated: false,
            served: false,
        };
        head.lines.extend_from_slice(b"HTTP/1.1 ");
        head.lines.extend_from_slice(digits);
        head.lines.extend_from_slice(if rest.is_empty() { b" " } else { rest });
        head.lines.extend_from_slice(b"\r\n");
        Ok(head)
    }

    /// The same of a number, and the reason that belongs to it.
    pub(crate) fn begin_with(status: u16, reason: &str) -> Result<Self, Unusual> {
        let mut buffer = itoa::Buffer::new();
        let mut text = Vec::with_capacity(32);
        text.extend_from_slice(buffer.format(status).as_bytes());
        text.push(b' ');
        text.extend_from_slice(reason.as_bytes());
        Self::begin(&text)
    }

    /// Another field, in ISO 8859-1.
    pub(crate) fn field(&mut self, name: &[u8], value: &[u8]) -> Result<(), Unusual> {
        if name.is_empty()
            || !name.iter().all(|byte| is_token(*byte))
            || memchr::memchr3(b'\r', b'\n', 0, value).is_some()
        {
            return Err(Unusual);
        }
        let value = stripped(value);
        match name.len() {
            14 if name.eq_ignore_ascii_case(b"content-length") => return self.state_length(value),
            4 if name.eq_ignore_ascii_case(b"date") => self.dated = true,
            6 if name.eq_ignore_ascii_case(b"server") => self.served = true,
            _ if UNUSUAL.iter().any(|other| name.eq_ignore_ascii_case(other)) => return Err(Unusual),
            _ => {}
        }
        self.lines.extend_from_slice(name);
        self.lines.extend_from_slice(b": ");
        self.lines.extend_from_slice(value);
        self.lines.extend_from_slice(b"\r\n");
        Ok(())
    }

    /// Status and reason, as `200 OK`.
    pub(crate) fn status_line(&self) -> &[u8] {
        let (line, _) = self.split();
        line.get(b"HTTP/1.1 ".len()..).unwrap_or_default()
    }

    /// The fields but Content-Length, in the order in which they were said.
    pub(crate) fn fields(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        let (_, mut rest) = self.split();
        std::iter::from_fn(move || {
            let end = memchr::memmem::find(rest, b"\r\n")?;
            let (line, after) = rest.split_at_checked(end)?;
            rest = after.get(2..)?;
            let at = memchr::memmem::find(line, b": ")?;
            Some((line.get(..at)?, line.get(at + 2..)?))
        })
    }

    fn split(&self) -> (&[u8], &[u8]) {
        let end = memchr::memmem::find(&self.lines, b"\r\n").unwrap_or(self.lines.len());
        let (line, after) = self.lines.split_at_checked(end).unwrap_or((&self.lines, b""));
        (line, after.get(2..).unwrap_or_default())
    }

    /// A length that is repeated is one (RFC 9110, section 8.6).
    fn state_length(&mut self, value: &[u8]) -> Result<(), Unusual> {
        // No length of 19 digits is one of a body.
        if value.is_empty() || value.len() > 18 || !value.iter().all(u8::is_ascii_digit) {
            return Err(Unusual);
        }
        let length = value.iter().fold(0, |sum: u64, byte| sum * 10 + u64::from(byte - b'0'));
        if self.length.is_some_and(|stated| stated != length) {
            return Err(Unusual);
        }
        self.length = Some(length);
        Ok(())
    }

    /// True if the response has no body, whatever the application writes.
    pub(crate) fn is_bodiless(&self, flags: RequestFlags) -> bool {
        flags.head || matches!(self.status, 204 | 304)
    }

    /// The complete head, at the end of `out`; `date` appends the field Date.
    pub(crate) fn write(
        &self,
        out: &mut Vec<u8>,
        framing: Framing,
        flags: RequestFlags,
        anonymous: bool,
        date: impl FnOnce(&mut Vec<u8>),
    ) {
        out.extend_from_slice(&self.lines);
        if !self.served && !anonymous {
            out.extend_from_slice(b"Server: maitred\r\n");
        }
        if !self.dated {
            date(out);
        }
        match framing {
            Framing::Length(length) => {
                out.extend_from_slice(b"Content-Length: ");
                out.extend_from_slice(itoa::Buffer::new().format(length).as_bytes());
                out.extend_from_slice(b"\r\n");
            }
            Framing::Chunks => out.extend_from_slice(b"Transfer-Encoding: chunked\r\n"),
        }
        out.extend_from_slice(match (flags.keep, flags.http10) {
            (true, false) => b"\r\n".as_slice(),
            (true, true) => b"Connection: keep-alive\r\n\r\n",
            (false, _) => b"Connection: close\r\n\r\n",
        });
    }
}

/// How the end of a body is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Framing {
    Length(u64),
    Chunks,
}

fn digit(byte: u8) -> u16 {
    u16::from(byte - b'0')
}

fn is_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

/// White space around a value is no part of it (RFC 9110, section 5.5).
fn stripped(mut value: &[u8]) -> &[u8] {
    while let [b' ' | b'\t', rest @ ..] | [rest @ .., b' ' | b'\t'] = value {
        value = rest;
    }
    value
}
