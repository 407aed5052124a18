//! The header of a CGI response (RFC 3875 section 6), with which the output of an application begins.

use crate::bytes::{ByteSet, byte_set};
use crate::limits::ResponseBounds;
use crate::response::Bad;
use crate::status::MAX;

/// The bytes of a field name: those of a token (9110-5.6.2).
const NAME: ByteSet = byte_set(&[(b'0', b'9'), (b'A', b'Z'), (b'a', b'z')], b"!#$%&'*+-.^_`|~");
/// The bytes of a field value (9110-5.5): what can be seen, spaces, and those above ASCII.
const VALUE: ByteSet = byte_set(&[(b' ', b'~'), (0x80, 0xff)], b"\t");

/// A response header. What is for the server only has been read, and is not among the [`fields`](Head::fields).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Head<'b> {
    /// 200 to 999: from `Status` (6.3.3); without it 302 if there is a `Location` for the client, otherwise 200.
    pub status: u16,
    /// The phrase behind the number in `Status`; empty if there is none. The phrase may stand in a status line.
    pub reason: &'b [u8],
    /// `Location` without `Status`, whose value begins with one slash: the server is to answer as if this path and query had been
    /// asked for (6.2.2), with GET (or HEAD) and no content, in a bounded number of steps. The value is visible ASCII, has no
    /// fragment, and is not judged otherwise. Status, fields and content of this response go nowhere then; a server that makes
    /// no local redirects passes all of them on, as nginx does.
    pub local_redirect: Option<&'b str>,
    /// `Content-Length`. Fewer bytes are no complete response; of more, the rest is dropped.
    pub content_length: Option<u64>,
    /// The lines of the fields, checked.
    lines: &'b [u8],
}

impl<'b> Head<'b> {
    /// Names and values of the fields that are for the client, in their order, `Content-Type` and `Location` included: names are
    /// tokens, values have only bytes that a field may have, and no space around them. Left out are `Status`, `Content-Length`
    /// ([`Head::content_length`]), fields of one hop (6.3.4, 9110-7.6.1), `X-CGI-*`, which are for the server (6.3.5), and an
    /// empty `Content-Type`, by which PHP says that there is none.
    pub fn fields(&self) -> impl Iterator<Item = (&'b str, &'b [u8])> + Clone + use<'b> {
        // Every line has been checked.
        let all = Lines { rest: self.lines }.filter_map(field);
        all.filter(|(name, value)| is_for_the_client(name.as_bytes(), value))
    }

    /// The first value of a field of this name, in any case, among [`Head::fields`].
    pub fn field(&self, name: &str) -> Option<&'b [u8]> {
        self.fields().find(|field| field.0.eq_ignore_ascii_case(name)).map(|field| field.1)
    }
}

/// The header that `bytes` start with, and how many bytes it has with its empty line; `None` while that is missing. What follows
/// is content. However the bytes arrive, the first answer other than `None` is the one that all at once would have had.
///
/// Lines end in CRLF or in LF (6.3, and 7.2 for Unix). A header without any field is let pass, as nginx does.
///
/// # Errors
/// [`Bad::HeadTooBig`], [`Bad::TooManyFields`], [`Bad::Syntax`], [`Bad::Status`], [`Bad::Framing`]: caused by the application.
pub fn parse<'b>(bytes: &'b [u8], bounds: &ResponseBounds) -> Result<Option<(Head<'b>, usize)>, Bad> {
    let most = bounds.head_bytes_max as usize;
    let window = bytes.get(..most).unwrap_or(bytes);
    match (Scan::default().end(window), bytes.len() < most) {
        (Some(end), _) => Ok(Some((judge(window.get(..end).unwrap_or_default(), bounds.fields_max)?, end))),
        (None, true) => Ok(None),
        (None, false) => Err(Bad::HeadTooBig(bounds.head_bytes_max)),
    }
}

/// A header that arrives in several records. Each byte is looked at once, while [`parse`] would start over with each part.
#[derive(Debug, Default)]
pub struct HeadBuffer {
    /// At most as many as its bounds allow.
    bytes: Vec<u8>,
    scan: Scan,
}

impl HeadBuffer {
    /// Takes output. Once the empty line is there, returns what follows it: content. [`HeadBuffer::head`] is to be parsed
    /// then, and nothing else to be fed.
    ///
    /// # Errors
    /// [`Bad::HeadTooBig`].
    pub fn feed<'b>(&mut self, output: &'b [u8], bounds: &ResponseBounds) -> Result<Option<&'b [u8]>, Bad> {
        let (before, most) = (self.bytes.len(), bounds.head_bytes_max as usize);
        let free = most.saturating_sub(before);
        self.bytes.extend_from_slice(output.get(..free).unwrap_or(output));
        match self.scan.end(&self.bytes) {
            Some(end) => {
                self.bytes.truncate(end);
                Ok(Some(output.get(end.saturating_sub(before)..).unwrap_or_default()))
            }
            None if self.bytes.len() < most => Ok(None),
            None => Err(Bad::HeadTooBig(bounds.head_bytes_max)),
        }
    }

    /// What has arrived of the header: all of it, after [`feed`](HeadBuffer::feed) returned content.
    pub fn head(&self) -> &[u8] {
        &self.bytes
    }

    /// What to say of an application whose output ends here, before its header did.
    pub fn incomplete(&self) -> Bad {
        if self.bytes.is_empty() { Bad::NoResponse } else { Bad::HeadIncomplete }
    }
}

/// How far bytes were searched for an empty line.
#[derive(Debug, Default)]
struct Scan {
    /// Where the last line begins.
    line: usize,
    /// Before this no line end is left.
    seen: usize,
}

impl Scan {
    /// Where the first empty line ends. `bytes` begin with those of the call before.
    fn end(&mut self, bytes: &[u8]) -> Option<usize> {
        while let Some(at) = memchr::memchr(b'\n', bytes.get(self.seen..).unwrap_or_default()) {
            let end = self.seen + at;
            let empty = matches!(bytes.get(self.line..end), Some(b"" | b"\r"));
            (self.line, self.seen) = (end + 1, end + 1);
            if empty {
                return Some(end + 1);
            }
        }
        self.seen = bytes.len();
        None
    }
}

/// Lines without their ends.
#[derive(Debug, Clone)]
struct Lines<'b> {
    rest: &'b [u8],
}

impl<'b> Iterator for Lines<'b> {
    type Item = &'b [u8];

    fn next(&mut self) -> Option<&'b [u8]> {
        let end = memchr::memchr(b'\n', self.rest)?;
        let (line, rest) = self.rest.split_at(end);
        self.rest = rest.get(1..).unwrap_or_default();
        Some(line.strip_suffix(b"\r").unwrap_or(line))
    }
}

/// Name and value of a line. `None` if it is not a field.
fn field(line: &[u8]) -> Option<(&str, &[u8])> {
    let (name, value) = line.split_at_checked(memchr::memchr(b':', line)?)?;
    let name = std::str::from_utf8(name).ok()?;
    Some((name, value.get(1..)?.trim_ascii()))
}

/// What the pass over the lines finds.
#[derive(Default)]
struct Seen<'b> {
    status: Option<&'b [u8]>,
    location: Option<&'b [u8]>,
    content_type: Option<&'b [u8]>,
    content_length: Option<&'b [u8]>,
}

/// Judges a header that is there as a whole, with its empty line.
fn judge(bytes: &[u8], fields_max: u16) -> Result<Head<'_>, Bad> {
    if bytes.starts_with(b"HTTP/") {
        return Err(Bad::Syntax("a status line where CGI has Status: (PHP: set cgi.rfc2616_headers = 0)"));
    }
    let lines = bytes.strip_suffix(b"\n").map_or(bytes, |bytes| bytes.strip_suffix(b"\r").unwrap_or(bytes));
    let mut seen = Seen::default();
    for (at, line) in (Lines { rest: lines }).enumerate() {
        if at == usize::from(fields_max) {
            return Err(Bad::TooManyFields(fields_max));
        }
        let (name, value) = check(line)?;
        let is = |expected: &str| name.eq_ignore_ascii_case(expected);
        let (slot, twice) = match name.len() {
            6 if is("status") => (&mut seen.status, "Status more than once"),
            8 if is("location") => (&mut seen.location, "Location more than once"),
            12 if is("content-type") => (&mut seen.content_type, "Content-Type more than once"),
            14 if is("content-length") => (&mut seen.content_length, "Content-Length more than once"),
            _ => continue,
        };
        match slot.replace(value) {
            None => {}
            // The same length again says nothing (9110-8.6).
            Some(before) if name.len() == 14 && before == value => {}
            // 6.3: no CGI field may come twice. The one that a client would use is not known.
            Some(_) => return Err(Bad::Syntax(twice)),
        }
    }
    let content_length = seen.content_length.map(number).transpose()?;
    let local_redirect = match (seen.status, seen.location) {
        (None, Some(location)) => local_redirect(location),
        _ => None,
    };
    let (status, reason) = match seen.status {
        Some(status) => parse_status(status)?,
        None if seen.location.is_some() => (302, &b""[..]),
        None => (200, &b""[..]),
    };
    Ok(Head { status, reason, local_redirect, content_length, lines })
}

/// Name and value of a line, if all of its bytes may be there.
fn check(line: &[u8]) -> Result<(&str, &[u8]), Bad> {
    const NAME_BAD: Bad = Bad::Syntax("invalid byte in a field name, or a folded line");
    let Some((name, value)) = field(line) else {
        return Err(Bad::Syntax("a line that is no field"));
    };
    let in_set = |set: &ByteSet, byte: u8| set.get(usize::from(byte)).is_some_and(|member| *member);
    if name.is_empty() || !name.bytes().all(|byte| in_set(&NAME, byte)) {
        return Err(NAME_BAD);
    }
    let rest = line.get(name.len() + 1..).unwrap_or_default();
    if !rest.iter().all(|byte| in_set(&VALUE, *byte)) {
        return Err(Bad::Syntax("invalid byte in a field value"));
    }
    Ok((name, value))
}

/// `404 Not Found`: three digits, and a phrase or nothing (6.3.3). CGI has no interim responses.
fn parse_status(value: &[u8]) -> Result<(u16, &[u8]), Bad> {
    const BAD: Bad = Bad::Syntax("Status is not a number of three digits");
    let (digits, rest) = value.split_first_chunk::<3>().ok_or(BAD)?;
    if !digits.iter().all(u8::is_ascii_digit)
        || rest.first().is_some_and(|byte| !matches!(byte, b' ' | b'\t'))
    {
        return Err(BAD);
    }
    let status = digits.iter().fold(0, |number, digit| number * 10 + u16::from(digit - b'0'));
    match status {
        200..=MAX => Ok((status, rest.trim_ascii())),
        _ => Err(Bad::Status(status)),
    }
}

/// The path and query of a local redirect (6.3.2). What begins with two slashes names another host (3986-4.2), a fragment means
/// something to clients only, and what is no target at all is left to them as well.
fn local_redirect(location: &[u8]) -> Option<&str> {
    let local = location.starts_with(b"/") && !location.starts_with(b"//");
    let plain = location.iter().all(|byte| byte.is_ascii_graphic() && *byte != b'#');
    std::str::from_utf8(location).ok().filter(|_| local && plain)
}

/// The value of `Content-Length`: digits only (9110-8.6).
fn number(value: &[u8]) -> Result<u64, Bad> {
    const BAD: Bad = Bad::Framing("Content-Length is not a number of 64 bits");
    if value.is_empty() || !value.iter().all(u8::is_ascii_digit) {
        return Err(BAD);
    }
    std::str::from_utf8(value).ok().and_then(|value| value.parse().ok()).ok_or(BAD)
}

fn is_for_the_client(name: &[u8], value: &[u8]) -> bool {
    const NOT: [&[u8]; 9] = [
        b"status",
        b"content-length",
        b"connection",
        b"keep-alive",
        b"proxy-connection",
        b"te",
        b"trailer",
        b"transfer-encoding",
        b"upgrade",
    ];
    let extension = name.get(..6).is_some_and(|start| start.eq_ignore_ascii_case(b"x-cgi-"));
    let says_nothing = value.is_empty() && name.eq_ignore_ascii_case(b"content-type");
    !extension && !says_nothing && !NOT.iter().any(|not| name.eq_ignore_ascii_case(not))
}
