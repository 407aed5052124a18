//! The head of a response. Only what most applications say is understood here; `maitred.head` in Python knows the rest, and is
//! asked where [`Head::begin`] or [`Head::field`] says so.

use pyo3::prelude::*;
use pyo3::types::PyBytes;
use std::cell::RefCell;

use maitred_handoff::RequestFlags;
use rustix::time::{ClockId, clock_gettime};

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

/// What is to be decided in Python: a rare form, or a failure, which it words.
#[derive(Debug)]
pub(crate) struct Unusual;

/// What an application has said before the body.
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

    /// Whether the response has no body, whatever the application writes.
    pub(crate) fn is_bodiless(&self, flags: RequestFlags) -> bool {
        flags.head || matches!(self.status, 204 | 304)
    }

    /// The complete head, at the end of `out`.
    pub(crate) fn write(&self, out: &mut Vec<u8>, framing: Framing, flags: RequestFlags, anonymous: bool) {
        out.extend_from_slice(&self.lines);
        if !self.served && !anonymous {
            out.extend_from_slice(b"Server: maitred\r\n");
        }
        if !self.dated {
            append_date(out);
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

struct Date {
    second: i64,
    line: Vec<u8>,
}

thread_local! {
    static DATE: RefCell<Date> = const { RefCell::new(Date { second: 0, line: Vec::new() }) };
}

/// The field Date, formatted once in a second. Without Python: its code could come here again.
fn append_date(out: &mut Vec<u8>) {
    let second = clock_gettime(ClockId::RealtimeCoarse).tv_sec;
    DATE.with_borrow_mut(|date| {
        if date.second != second || date.line.is_empty() {
            date.second = second;
            date.line = format!("Date: {}\r\n", date_of(second)).into_bytes();
        }
        out.extend_from_slice(&date.line);
    });
}

/// A second since 1970 as RFC 9110, section 5.6.7, has it.
fn date_of(second: i64) -> String {
    const DAYS: [&str; 7] = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"];
    const MONTHS: [&str; 12] =
        ["Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec", "Jan", "Feb"];
    let (days, rest) = (second.div_euclid(86_400), second.rem_euclid(86_400));
    // Years that begin in March have their odd day at the end; 400 of them have 146097 days.
    let from_march = days + 719_468;
    let (cycle, day) = (from_march.div_euclid(146_097), from_march.rem_euclid(146_097));
    let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    let year = year + cycle * 400 + i64::from(month >= 10);
    let name = |names: &'static [&'static str], at: i64| {
        usize::try_from(at).ok().and_then(|at| names.get(at)).copied().unwrap_or_default()
    };
    let (week_day, month) = (name(&DAYS, days.rem_euclid(7)), name(&MONTHS, month));
    let (hour, minute, second) = (rest / 3_600, rest / 60 % 60, rest % 60);
    format!("{week_day}, {day:02} {month} {year:04} {hour:02}:{minute:02}:{second:02} GMT")
}

/// Text of an application, as ISO 8859-1. `None` for what is no text, or has other characters.
pub(crate) fn latin1<'py>(text: &Bound<'py, PyAny>) -> Option<Bound<'py, PyBytes>> {
    let text = text.cast::<pyo3::types::PyString>().ok()?;
    crate::raw::latin1(text)
}
