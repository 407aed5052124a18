//! Responses as a client reads them: the head by httparse, the body's framing by RFC 9112 section 6.3. Bodies are counted; who
//! wants their content takes it piece by piece.

use memchr::memchr;

/// Bytes of a head. Servers send a few hundred; a peer that sends more without end must not fill memory.
pub(crate) const HEAD_BYTES_MAX: usize = 64 * 1024;
/// Field lines of a head.
pub(crate) const FIELDS_MAX: usize = 100;
/// Bytes of a chunk's extension or of a trailer line.
const CHUNK_LINE_BYTES_MAX: u32 = 16 * 1024;

/// What a head says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Head {
    /// Bytes of the head itself.
    pub(crate) bytes: usize,
    pub(crate) status: u16,
    /// Whether the server keeps the connection.
    pub(crate) keeps: bool,
    pub(crate) body: Body,
}

/// What is still to come of a body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Body {
    /// So many bytes.
    Length(u64),
    Chunked(Chunks),
    /// All that comes until the server closes.
    UntilClose,
}

/// The bytes are no HTTP/1 response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Malformed;

/// Reads the head at the start of `bytes`; `None` while it is not complete.
pub(crate) fn head(bytes: &[u8], is_head_request: bool) -> Result<Option<Head>, Malformed> {
    let mut fields = [httparse::EMPTY_HEADER; FIELDS_MAX];
    let mut response = httparse::Response::new(&mut fields);
    let length = match response.parse(bytes) {
        Ok(httparse::Status::Complete(length)) => length,
        Ok(httparse::Status::Partial) if bytes.len() < HEAD_BYTES_MAX => return Ok(None),
        _ => return Err(Malformed),
    };
    let status = response.code.filter(|code| (100..1000).contains(code)).ok_or(Malformed)?;
    let mut keeps = response.version == Some(1);
    let (mut content_length, mut coding) = (None, Coding::None);
    for field in response.headers.iter() {
        let value = field.value;
        // The length decides first, since it is what nearly every name fails by.
        match field.name.len() {
            14 if field.name.eq_ignore_ascii_case("content-length") => {
                let length = decimal(value).ok_or(Malformed)?;
                if content_length.replace(length).is_some_and(|other| other != length) {
                    return Err(Malformed);
                }
            }
            17 if field.name.eq_ignore_ascii_case("transfer-encoding") => {
                let last = value.rsplit(|byte| *byte == b',').next().unwrap_or_default();
                coding = if last.trim_ascii().eq_ignore_ascii_case(b"chunked") {
                    Coding::Chunked
                } else {
                    Coding::Other
                };
            }
            10 if field.name.eq_ignore_ascii_case("connection") => {
                for option in value.split(|byte| *byte == b',').map(<[u8]>::trim_ascii) {
                    if option.eq_ignore_ascii_case(b"close") {
                        keeps = false;
                    } else if option.eq_ignore_ascii_case(b"keep-alive") && response.version == Some(0) {
                        keeps = true;
                    }
                }
            }
            _ => {}
        }
    }
    let body = match coding {
        _ if is_head_request || status < 200 || status == 204 || status == 304 => Body::Length(0),
        Coding::Chunked => Body::Chunked(Chunks::default()),
        Coding::Other => Body::UntilClose,
        Coding::None => content_length.map_or(Body::UntilClose, Body::Length),
    };
    keeps &= body != Body::UntilClose;
    Ok(Some(Head { bytes: length, status, keeps, body }))
}

enum Coding {
    None,
    Chunked,
    Other,
}

fn decimal(digits: &[u8]) -> Option<u64> {
    std::str::from_utf8(digits)
        .ok()
        .filter(|text| text.bytes().all(|byte| byte.is_ascii_digit()))?
        .parse()
        .ok()
}

/// What a piece of a body brought.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Taken {
    /// Bytes of the piece that belong to this response, framing included.
    pub(crate) bytes: usize,
    /// Bytes of content among them.
    pub(crate) content: u64,
    /// Whether the response is complete.
    pub(crate) is_complete: bool,
}

impl Body {
    /// Takes what belongs to the body from the start of `bytes`.
    pub(crate) fn take(&mut self, bytes: &[u8]) -> Result<Taken, Malformed> {
        self.take_into(bytes, |_| ())
    }

    /// The same, and gives the content to `content`, piece by piece.
    pub(crate) fn take_into(
        &mut self,
        bytes: &[u8],
        mut content: impl FnMut(&[u8]),
    ) -> Result<Taken, Malformed> {
        match self {
            Body::Length(left) => {
                let taken = usize::try_from(*left).unwrap_or(usize::MAX).min(bytes.len());
                *left -= taken as u64;
                content(bytes.get(..taken).unwrap_or_default());
                Ok(Taken { bytes: taken, content: taken as u64, is_complete: *left == 0 })
            }
            Body::UntilClose => {
                content(bytes);
                Ok(Taken { bytes: bytes.len(), content: bytes.len() as u64, is_complete: false })
            }
            Body::Chunked(chunks) => chunks.take(bytes, content),
        }
    }
}

/// Where in the chunked coding (RFC 9112 section 7.1) the next byte stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Chunks {
    place: Place,
    /// In `Size`: the size so far. In `Content`: bytes that are still to come.
    left: u64,
    /// Bytes of the present line.
    line: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Place {
    #[default]
    Size,
    Extension,
    SizeEnd,
    Content,
    ContentReturn,
    ContentEnd,
    Trailer,
    TrailerEnd,
}

impl Chunks {
    fn take(&mut self, bytes: &[u8], mut sink: impl FnMut(&[u8])) -> Result<Taken, Malformed> {
        let mut at = 0;
        let mut content = 0;
        while let Some(&byte) = bytes.get(at) {
            if self.place == Place::Content {
                let rest = (bytes.len() - at) as u64;
                let step = self.left.min(rest);
                self.left -= step;
                sink(bytes.get(at..at + step as usize).unwrap_or_default());
                content += step;
                at += step as usize;
                if self.left == 0 {
                    self.place = Place::ContentReturn;
                }
                continue;
            }
            at += 1;
            if self.line_byte(byte)? {
                return Ok(Taken { bytes: at, content, is_complete: true });
            }
        }
        Ok(Taken { bytes: at, content, is_complete: false })
    }

    /// A byte outside the content; whether it is the last one.
    fn line_byte(&mut self, byte: u8) -> Result<bool, Malformed> {
        self.line += 1;
        if self.line > CHUNK_LINE_BYTES_MAX {
            return Err(Malformed);
        }
        self.place = match (self.place, byte) {
            (Place::Size, b'0'..=b'9' | b'a'..=b'f' | b'A'..=b'F') => {
                let digit = char::from(byte).to_digit(16).ok_or(Malformed)?;
                self.left = self.left.checked_mul(16).ok_or(Malformed)? | u64::from(digit);
                Place::Size
            }
            (Place::Size, b'\r') if self.line > 1 => Place::SizeEnd,
            (Place::Size, b';' | b' ' | b'\t') if self.line > 1 => Place::Extension,
            (Place::Extension, b'\r') => Place::SizeEnd,
            (Place::Extension, byte) if byte != b'\n' => Place::Extension,
            (Place::SizeEnd, b'\n') => {
                self.line = 0;
                if self.left == 0 { Place::Trailer } else { Place::Content }
            }
            (Place::ContentReturn, b'\r') => Place::ContentEnd,
            (Place::ContentEnd, b'\n') => {
                self.line = 0;
                Place::Size
            }
            (Place::Trailer, b'\r') => Place::TrailerEnd,
            (Place::Trailer, byte) if byte != b'\n' => Place::Trailer,
            (Place::TrailerEnd, b'\n') if self.line == 2 => return Ok(true),
            (Place::TrailerEnd, b'\n') => {
                self.line = 0;
                Place::Trailer
            }
            _ => return Err(Malformed),
        };
        Ok(false)
    }
}

/// The first line of a request, for messages.
pub(crate) fn first_line(request: &[u8]) -> String {
    let line = request.get(..memchr(b'\r', request).unwrap_or(request.len())).unwrap_or_default();
    let line = line.strip_suffix(b" HTTP/1.1").unwrap_or(line);
    String::from_utf8_lossy(line).chars().flat_map(char::escape_debug).take(200).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn read(text: &str) -> Head {
        head(text.as_bytes(), false).unwrap().unwrap()
    }

    #[test]
    fn framing_is_as_the_rfc_says() {
        let body = |fields: &str| read(&format!("HTTP/1.1 200 OK\r\n{fields}\r\n")).body;
        assert_eq!(body("Content-Length: 12\r\n"), Body::Length(12));
        assert_eq!(body("CONTENT-LENGTH: 12\r\nContent-length: 12\r\n"), Body::Length(12));
        assert_eq!(
            body("Content-Length: 12\r\nTransfer-Encoding: gzip, Chunked\r\n"),
            Body::Chunked(Chunks::default())
        );
        assert_eq!(body("Transfer-Encoding: gzip\r\n"), Body::UntilClose);
        assert_eq!(body(""), Body::UntilClose);
        assert_eq!(read("HTTP/1.1 304 Not Modified\r\nContent-Length: 12\r\n\r\n").body, Body::Length(0));
        assert_eq!(read("HTTP/1.1 204 No Content\r\n\r\n").body, Body::Length(0));
        assert_eq!(
            head(b"HTTP/1.1 200 OK\r\nContent-Length: 12\r\n\r\n", true).unwrap().unwrap().body,
            Body::Length(0)
        );
    }

    #[test]
    fn connections_are_kept_as_the_head_says() {
        let keeps = |start: &str| read(&format!("{start}\r\nContent-Length: 0\r\n\r\n")).keeps;
        assert!(keeps("HTTP/1.1 200 OK"));
        assert!(!keeps("HTTP/1.1 200 OK\r\nConnection: x, Close"));
        assert!(!keeps("HTTP/1.0 200 OK"));
        assert!(keeps("HTTP/1.0 200 OK\r\nConnection: Keep-Alive"));
        assert!(!read("HTTP/1.1 200 OK\r\n\r\n").keeps);
    }

    #[test]
    fn what_is_no_response_is_refused() {
        for text in [
            "SSH-2.0-OpenSSH_9\r\n",
            "HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n",
            "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
            "HTTP/1.1 200 OK\r\nContent-Length: +1\r\n\r\n",
            "HTTP/2 200\r\n\r\n",
        ] {
            assert_eq!(head(text.as_bytes(), false), Err(Malformed), "{text}");
        }
        let endless = format!("HTTP/1.1 200 OK\r\nA: {}", "x".repeat(HEAD_BYTES_MAX));
        assert_eq!(head(endless.as_bytes(), false), Err(Malformed));
        assert_eq!(head(b"HTTP/1.1 200 OK\r\nA: b\r\n", false), Ok(None));
    }

    #[test]
    fn chunked_bodies_that_break_the_rules_are_refused() {
        for text in ["\r\n", "g\r\n", "1\n", "1\r\nab", "ffffffffffffffffff\r\n", "1;x\n"] {
            let mut chunks = Chunks::default();
            assert_eq!(chunks.take(text.as_bytes(), |_| ()), Err(Malformed), "{text:?}");
        }
        let mut chunks = Chunks::default();
        let endless = format!("1;{}", "x".repeat(CHUNK_LINE_BYTES_MAX as usize));
        assert_eq!(chunks.take(endless.as_bytes(), |_| ()), Err(Malformed));
    }

    proptest! {
        #[test]
        fn nothing_panics(bytes: Vec<u8>) {
            let _ = head(&bytes, false);
            let _ = Chunks::default().take(&bytes, |_| ());
        }

        #[test]
        fn a_chunked_body_may_come_in_any_pieces(
            sizes in prop::collection::vec(1_usize..40, 0..6), piece in 1_usize..20, trailer: bool
        ) {
            let mut text = String::new();
            for size in &sizes {
                text.push_str(&format!("{size:x};e=\"1\"\r\n{}\r\n", "z".repeat(*size)));
            }
            text.push_str(if trailer { "0\r\nA: b\r\n\r\n" } else { "0\r\n\r\n" });
            let whole = text.len();
            text.push_str("HTTP/1.1");
            let (mut body, mut used, mut content) = (Body::Chunked(Chunks::default()), 0, 0);
            for bytes in text.as_bytes().chunks(piece) {
                let taken = body.take(bytes).expect("it is sound");
                used += taken.bytes;
                content += taken.content;
                if taken.is_complete {
                    break;
                }
            }
            prop_assert_eq!(used, whole);
            prop_assert_eq!(content, sizes.iter().sum::<usize>() as u64);
        }
    }
}
