//! The application as one of FastCGI (version 1): `fastcgi_pass` has it.

use std::hash::{DefaultHasher, Hasher};
use std::io::{self, Write};
use std::sync::Mutex;

use super::{BODY_BYTES_MAX, FIELDS_MAX, HEAD_BYTES_MAX, Input, Received, State, note, page, wrong};

/// The version, which is the first byte of each record, and of no request of HTTP.
pub(super) const VERSION: u8 = 1;

const BEGIN_REQUEST: u8 = 1;
const ABORT_REQUEST: u8 = 2;
const END_REQUEST: u8 = 3;
const PARAMS: u8 = 4;
const STDIN: u8 = 5;
const STDOUT: u8 = 6;
const HEADER_BYTES: usize = 8;
const KEEP_CONN: u8 = 1;
/// Bytes of the content of one record that is sent.
const CONTENT_BYTES_MAX: usize = 65_528;

/// Answers the requests of one connection until it ends.
pub(super) fn serve(input: &mut Input, stream: &mut impl Write, state: &Mutex<State>) -> io::Result<()> {
    while let Some((id, received, keeps)) = request(input)? {
        let is_head = received.method == "HEAD";
        note(state, received);
        stream.write_all(&response(id, is_head))?;
        if !keeps {
            return Ok(());
        }
    }
    Ok(())
}

/// One request with its id, and whether the connection stays; nothing at the end.
fn request(input: &mut Input) -> io::Result<Option<(u16, Received, bool)>> {
    let (mut variables, mut hasher, mut body_bytes) = (Vec::new(), DefaultHasher::new(), 0);
    let (mut begun, mut has_variables) = (None, false);
    loop {
        if input.bytes.is_empty() && begun.is_none() && input.more().is_err() {
            return Ok(None);
        }
        let (kind, id, content) = record(input)?;
        match (kind, begun) {
            (BEGIN_REQUEST, None) => {
                begun = Some((id, content.get(2).is_some_and(|flags| flags & KEEP_CONN != 0)));
            }
            (PARAMS, Some(_)) if content.is_empty() => has_variables = true,
            (PARAMS, Some(_)) if variables.len() + content.len() <= HEAD_BYTES_MAX => {
                variables.extend(content);
            }
            (STDIN, Some((id, keeps))) if content.is_empty() && has_variables => {
                let received = received(&variables, body_bytes, hasher.finish())?;
                return Ok(Some((id, received, keeps)));
            }
            (STDIN, Some(_)) => {
                hasher.write(&content);
                body_bytes += content.len() as u64;
                if body_bytes > BODY_BYTES_MAX {
                    return Err(wrong("the body is too long"));
                }
            }
            (ABORT_REQUEST, _) => return Ok(None),
            _ => return Err(wrong("a record has no place here")),
        }
    }
}

/// The type, the id and the content of a record.
fn record(input: &mut Input) -> io::Result<(u8, u16, Vec<u8>)> {
    let header = loop {
        match input.bytes.first_chunk::<HEADER_BYTES>() {
            Some(header) => break *header,
            None => input.more()?,
        }
    };
    let [version, kind, id_high, id_low, high, low, padding, _] = header;
    if version != VERSION {
        return Err(wrong("no record"));
    }
    let length = usize::from(u16::from_be_bytes([high, low]));
    let end = HEADER_BYTES + length + usize::from(padding);
    while input.bytes.len() < end {
        input.more()?;
    }
    let content = input.bytes.get(HEADER_BYTES..HEADER_BYTES + length).unwrap_or_default().to_vec();
    input.bytes.drain(..end);
    Ok((kind, u16::from_be_bytes([id_high, id_low]), content))
}

/// Pairs of names and values, as a request: `HTTP_*` are its fields, and all others have a `$` in front.
fn received(variables: &[u8], body_bytes: u64, body_hash: u64) -> io::Result<Received> {
    let mut received =
        Received { method: String::new(), target: Vec::new(), fields: Vec::new(), body_bytes, body_hash };
    let mut rest = variables;
    while !rest.is_empty() {
        let lengths = length(&mut rest).zip(length(&mut rest));
        let pair = lengths.and_then(|(name, value)| {
            let (name, after) = rest.split_at_checked(name)?;
            let (value, after) = after.split_at_checked(value)?;
            rest = after;
            Some((String::from_utf8_lossy(name).to_ascii_lowercase(), value.to_vec()))
        });
        let (name, value) = pair.ok_or_else(|| wrong("the variables are wrong"))?;
        if received.fields.len() >= FIELDS_MAX {
            return Err(wrong("there are too many variables"));
        }
        match name.as_str() {
            "request_method" => received.method = String::from_utf8_lossy(&value).into_owned(),
            "request_uri" => received.target = value,
            // To an application, an empty variable is none.
            _ if value.is_empty() => {}
            _ => {
                let name = match name.strip_prefix("http_") {
                    Some(field) => field.replace('_', "-"),
                    None => format!("${name}"),
                };
                received.fields.push((name, value));
            }
        }
    }
    Ok(received)
}

/// A length in one byte, or in four of which the first bit is set.
fn length(rest: &mut &[u8]) -> Option<usize> {
    let (first, after) = rest.split_first()?;
    if first & 0x80 == 0 {
        *rest = after;
        return Some(usize::from(*first));
    }
    let (four, after) = rest.split_first_chunk::<4>()?;
    *rest = after;
    usize::try_from(u32::from_be_bytes(*four) & 0x7fff_ffff).ok()
}

fn response(id: u16, is_head: bool) -> Vec<u8> {
    let page = page();
    let body = if is_head { "" } else { &page };
    let content = format!("Content-Type: text/html; charset=utf-8\r\n\r\n{body}");
    let mut out = Vec::with_capacity(content.len() + 4 * HEADER_BYTES);
    for piece in content.as_bytes().chunks(CONTENT_BYTES_MAX).chain([&[][..]]) {
        append(&mut out, STDOUT, id, piece);
    }
    append(&mut out, END_REQUEST, id, &[0; 8]);
    out
}

fn append(out: &mut Vec<u8>, kind: u8, id: u16, content: &[u8]) {
    let ([id_high, id_low], [high, low]) = (id.to_be_bytes(), (content.len() as u16).to_be_bytes());
    out.extend([VERSION, kind, id_high, id_low, high, low, 0, 0]);
    out.extend(content);
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::net::{SocketAddr, TcpStream};

    use super::super::Echo;
    use super::*;

    fn asked(pairs: &[(&str, &str)], body: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        append(&mut out, BEGIN_REQUEST, 1, &[0, 1, 0, 0, 0, 0, 0, 0]);
        let mut variables = Vec::new();
        for (name, value) in pairs {
            variables.push(name.len() as u8);
            variables.extend((0x8000_0000 | value.len() as u32).to_be_bytes());
            variables.extend(name.bytes().chain(value.bytes()));
        }
        for piece in variables.chunks(5).chain([&[][..]]) {
            append(&mut out, PARAMS, 1, piece);
        }
        if !body.is_empty() {
            append(&mut out, STDIN, 1, body);
        }
        append(&mut out, STDIN, 1, &[]);
        out
    }

    fn ask(echo: &Echo, bytes: &[u8]) -> String {
        let mut stream = TcpStream::connect(echo.address()).unwrap();
        stream.write_all(bytes).unwrap();
        let mut got = Vec::new();
        let _ = stream.read_to_end(&mut got);
        String::from_utf8_lossy(&got).into_owned()
    }

    #[test]
    fn variables_are_noted_as_a_request() {
        let echo = Echo::start(SocketAddr::from(([127, 0, 0, 1], 0))).unwrap();
        let pairs = [
            ("REQUEST_METHOD", "POST"),
            ("REQUEST_URI", "/a%20?b"),
            ("HTTP_X_COMPARE", "7"),
            ("SCRIPT_FILENAME", "/srv/index.php"),
        ];
        let text = ask(&echo, &asked(&pairs, b"abc"));
        assert!(text.contains("Content-Type: text/html") && text.contains("An application"), "{text}");
        let [received] = &*echo.take(7) else { panic!("one request") };
        assert_eq!((received.method.as_str(), &*received.target), ("POST", &b"/a%20?b"[..]));
        assert_eq!(received.fields[1], ("$script_filename".to_owned(), b"/srv/index.php".to_vec()));
        assert_eq!(received.body_bytes, 3);
    }

    #[test]
    fn what_is_no_record_ends_the_connection() {
        let echo = Echo::start(SocketAddr::from(([127, 0, 0, 1], 0))).unwrap();
        let mut of_another_version = asked(&[], b"");
        of_another_version[16] = 2;
        let mut without_begin = Vec::new();
        append(&mut without_begin, PARAMS, 1, b"abc");
        let mut cut = Vec::new();
        append(&mut cut, BEGIN_REQUEST, 1, &[0; 8]);
        append(&mut cut, PARAMS, 1, &[200]);
        append(&mut cut, PARAMS, 1, &[]);
        append(&mut cut, STDIN, 1, &[]);
        for bytes in [of_another_version, without_begin, cut] {
            assert_eq!(ask(&echo, &bytes), "");
        }
    }
}
