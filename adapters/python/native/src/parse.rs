//! Readers of the bytes of a request: pure functions, without Python, so that a fuzz target can include this file
//! (`fuzz/fuzz_targets/python.rs`).

use std::borrow::Cow;

const REQUEST_ID: &[u8] = b"x-request-id: ";
/// The server writes that field, and one behind it; whatever else may come to stand there.
const OWN_LINES_MAX: usize = 4;

/// True if the meta part says that a response is to have no `Server` of the adapter.
pub(crate) fn is_anonymous(meta: &[u8]) -> bool {
    meta.split(|byte| *byte == b'\n').any(|line| line == b"server_header=0")
}

/// The lines of fields that repeat, without the end of the last one; and those that are each request's own: its number, and what
/// follows that.
pub(crate) fn split_own(block: &[u8]) -> (&[u8], &[u8]) {
    let mut end = block.len();
    for _ in 0..OWN_LINES_MAX {
        let Some(at) = memchr::memrchr(b'\n', block.get(..end).unwrap_or_default()) else { break };
        let own = block.get(at + 1..).unwrap_or_default();
        if own.starts_with(REQUEST_ID) {
            return (block.get(..at.saturating_sub(1)).unwrap_or_default(), own);
        }
        end = at;
    }
    (block, b"")
}

/// The lines of a meta part but the last one, if that says how long the request has waited: it differs each time.
pub(crate) fn without_queue_time(meta: &[u8]) -> &[u8] {
    let end = meta.len().saturating_sub(1);
    let at = memchr::memrchr(b'\n', meta.get(..end).unwrap_or_default()).map_or(0, |at| at + 1);
    match meta.split_at_checked(at) {
        Some((before, last)) if last.starts_with(b"queue_us=") => before,
        _ => meta,
    }
}

/// The request line, and the lines of the fields without the end of the last one.
pub(crate) fn split_head(head: &[u8]) -> (&[u8], &[u8]) {
    let head = head.strip_suffix(b"\r\n\r\n").unwrap_or(head);
    match memchr::memmem::find(head, b"\r\n").and_then(|at| Some((head.get(..at)?, head.get(at + 2..)?))) {
        Some(parts) => parts,
        None => (head, b""),
    }
}

/// Method and target; `None` if the line is not three words.
pub(crate) fn split_line(line: &[u8]) -> Option<(&[u8], &[u8])> {
    let mut words = line.split(|byte| *byte == b' ');
    let found = (words.next()?, words.next()?);
    words.next()?;
    if words.next().is_some() { None } else { Some(found) }
}

/// `%XX` as the byte that it stands for; what is none stays.
pub(crate) fn unquoted(path: &[u8]) -> Cow<'_, [u8]> {
    if memchr::memchr(b'%', path).is_none() {
        return Cow::Borrowed(path);
    }
    let mut found = Vec::with_capacity(path.len());
    let mut rest = path;
    while let Some((first, after)) = rest.split_first() {
        let digits = after.first_chunk::<2>().and_then(|[high, low]| Some(hex(*high)? * 16 + hex(*low)?));
        match digits {
            Some(byte) if *first == b'%' => {
                found.push(byte);
                rest = after.get(2..).unwrap_or_default();
            }
            _ => {
                found.push(*first);
                rest = after;
            }
        }
    }
    Cow::Owned(found)
}

fn hex(byte: u8) -> Option<u8> {
    char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok())
}

/// Names and values of lines `name: value`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Fields<'a>(pub(crate) &'a [u8]);

impl<'a> Iterator for Fields<'a> {
    type Item = (&'a [u8], &'a [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        let rest = self.0;
        if rest.is_empty() {
            return None;
        }
        let end = memchr::memmem::find(rest, b"\r\n").unwrap_or(rest.len());
        let (line, after) = rest.split_at_checked(end).unwrap_or((rest, b""));
        self.0 = after.get(2..).unwrap_or_default();
        let at = memchr::memmem::find(line, b": ").unwrap_or(line.len());
        let (name, value) = line.split_at_checked(at).unwrap_or((line, b""));
        Some((name, value.get(2..).unwrap_or_default()))
    }
}

/// The variable of a field.
pub(crate) fn variable(name: &[u8]) -> Vec<u8> {
    let mut key = Vec::with_capacity(name.len() + 5);
    if !matches!(name, b"content-type" | b"content-length") {
        key.extend_from_slice(b"HTTP_");
    }
    key.extend(name.iter().map(|byte| if *byte == b'-' { b'_' } else { byte.to_ascii_uppercase() }));
    key
}
