//! Fields of responses as values (9110-6.3): names and values in their order, and what is changed in them on their way to the
//! client. Names are tokens, values hold no CR, LF or NUL: the code that makes one has checked it, be it from a configuration
//! or from a message.

use std::ops::Range;

/// Fields that are owned. The fields are kept in the form that HTTP/1 sends, so that its encoder copies them at once; where each
/// name and value is stands beside them, so that nothing has to be looked for.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct FieldLines {
    text: Vec<u8>,
    lines: Vec<Line>,
}

/// Where one field is in the text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Line {
    start: u32,
    name_bytes: u32,
    end: u32,
}

/// Some fields, one behind the other, borrowed.
#[derive(Debug, Clone, Copy, Default)]
pub struct FieldsRef<'a> {
    /// What the lines count from the start of.
    text: &'a [u8],
    lines: &'a [Line],
}

/// What stands between a name and its value, and behind the value.
const SEPARATOR: &[u8] = b": ";
const LINE_END: &[u8] = b"\r\n";

impl Line {
    #[inline]
    fn name(self, text: &[u8]) -> &[u8] {
        let start = self.start as usize;
        text.get(start..start + self.name_bytes as usize).unwrap_or_default()
    }

    #[inline]
    fn value(self, text: &[u8]) -> &[u8] {
        let start = self.start as usize + self.name_bytes as usize + SEPARATOR.len();
        text.get(start..self.end as usize - LINE_END.len()).unwrap_or_default()
    }
}

impl FieldLines {
    /// No fields, whose text begins behind so many bytes of something else.
    pub fn behind(prefix: Vec<u8>) -> FieldLines {
        FieldLines { text: prefix, lines: Vec::new() }
    }

    /// Appends a field.
    pub fn push(&mut self, name: &[u8], value: &[u8]) {
        let start = self.text.len() as u32;
        self.text.reserve(name.len() + value.len() + SEPARATOR.len() + LINE_END.len());
        for part in [name, SEPARATOR, value, LINE_END] {
            self.text.extend_from_slice(part);
        }
        self.lines.push(Line { start, name_bytes: name.len() as u32, end: self.text.len() as u32 });
    }

    /// Appends a field whose value is a number.
    pub fn push_number(&mut self, name: &[u8], value: u64) {
        self.push(name, itoa::Buffer::new().format(value).as_bytes());
    }

    /// Takes all of them out, and keeps the memory.
    pub fn clear(&mut self) {
        self.text.clear();
        self.lines.clear();
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.lines.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.lines.is_empty()
    }

    /// All of them.
    #[inline]
    pub fn all(&self) -> FieldsRef<'_> {
        FieldsRef { text: &self.text, lines: &self.lines }
    }

    /// Appends those of another list.
    pub fn extend(&mut self, others: FieldsRef<'_>) {
        others.iter().for_each(|(name, value)| self.push(name, value));
    }

    /// The text with what it began behind, and the places of the fields in it.
    pub fn into_parts(self) -> (Vec<u8>, Box<[Line]>) {
        (self.text, self.lines.into())
    }
}

impl<'a> FieldsRef<'a> {
    /// Fields that were taken apart by [`FieldLines::into_parts`]; `text` begins with that text.
    #[inline]
    pub fn of_parts(text: &'a [u8], lines: &'a [Line]) -> FieldsRef<'a> {
        FieldsRef { text, lines }
    }

    /// How many there are.
    #[inline]
    pub fn len(self) -> usize {
        self.lines.len()
    }

    /// Whether there are none.
    #[inline]
    pub fn is_empty(self) -> bool {
        self.lines.is_empty()
    }

    /// The fields at these places.
    #[inline]
    pub fn part(self, places: Range<usize>) -> FieldsRef<'a> {
        FieldsRef { text: self.text, lines: self.lines.get(places).unwrap_or_default() }
    }

    /// Names and values, in their order.
    #[inline]
    pub fn iter(self) -> impl Iterator<Item = (&'a [u8], &'a [u8])> + Clone + use<'a> {
        self.lines.iter().map(move |line| (line.name(self.text), line.value(self.text)))
    }

    /// The value of the first field of this name.
    pub fn get(self, name: &[u8]) -> Option<&'a [u8]> {
        self.iter().find(|(other, _)| other.eq_ignore_ascii_case(name)).map(|(_, value)| value)
    }

    /// As HTTP/1 sends them: for its encoder.
    #[inline]
    pub(crate) fn text(self) -> &'a [u8] {
        let (Some(first), Some(last)) = (self.lines.first(), self.lines.last()) else { return b"" };
        self.text.get(first.start as usize..last.end as usize).unwrap_or_default()
    }
}

/// Whether this is a token (9110-5.6.2): a method, or the name of a field.
pub fn is_token(bytes: &[u8]) -> bool {
    !bytes.is_empty() && bytes.iter().all(crate::request::is_token_byte)
}

/// Whether this can be the value of a field (9110-5.5): no control characters but tabs, no white space at the ends.
pub fn is_value(bytes: &[u8]) -> bool {
    let is_space = |byte: &u8| matches!(byte, b' ' | b'\t');
    let padded = bytes.first().is_some_and(is_space) || bytes.last().is_some_and(is_space);
    !padded && bytes.iter().all(|byte| *byte == b'\t' || (*byte >= 0x20 && *byte != 0x7f))
}

/// Names of fields that [`FieldEdits`] cannot touch: the framing of a message, and what is about one connection, are facts.
pub const FRAMING_FIELDS: [&str; 7] =
    ["connection", "content-length", "keep-alive", "te", "trailer", "transfer-encoding", "upgrade"];

/// Names of fields that mean something else, or nothing, behind the content (9110-6.5.1): they frame or route a message, modify
/// a request, authenticate, control a response, or say how content is to be read. Where trailers come in they are dropped, so
/// that a recipient that merges trailers with the other fields does not act on them. `etag` and the digests of RFC 9530 are made
/// for trailers.
pub const NOT_IN_TRAILERS: [&str; 45] = [
    // Framing, routing, and the connection.
    "connection",
    "content-length",
    "host",
    "keep-alive",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
    // Who the peer is, or says that it is.
    "authentication-info",
    "authorization",
    "cookie",
    "forwarded",
    "proxy-authenticate",
    "proxy-authentication-info",
    "proxy-authorization",
    "set-cookie",
    "www-authenticate",
    "x-forwarded-for",
    "x-forwarded-host",
    "x-forwarded-proto",
    // Modifiers of a request.
    "cache-control",
    "expect",
    "if-match",
    "if-modified-since",
    "if-none-match",
    "if-range",
    "if-unmodified-since",
    "max-forwards",
    "pragma",
    "priority",
    "range",
    // Control of a response.
    "age",
    "date",
    "expires",
    "location",
    "retry-after",
    "vary",
    "warning",
    // How content is to be read.
    "content-disposition",
    "content-encoding",
    "content-language",
    "content-location",
    "content-range",
    "content-type",
];

/// Whether a field may stand behind the content: all but [`NOT_IN_TRAILERS`].
pub fn is_for_trailers(name: &[u8]) -> bool {
    !NOT_IN_TRAILERS.iter().any(|other| other.as_bytes().eq_ignore_ascii_case(name))
}

/// Most fields that one list of edits adds where they are absent.
pub const IF_ABSENT_MAX: usize = 64;

/// Changes of the fields of responses: compiled once, carried out by the encoders while they write.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct FieldEdits {
    /// Fields of responses that something is done about.
    watched: Vec<Watched>,
    /// The names of the watched fields.
    names: NameBits,
    /// What is added in any case.
    added: FieldLines,
    /// What is added where the response has no field of that name.
    if_absent: FieldLines,
}

/// A field of a response that something is done about.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Watched {
    /// In lower case.
    name: Box<[u8]>,
    /// The first byte of the name: most fields differ in that, or in their length.
    first: u8,
    /// The field goes on, and this one of [`FieldEdits::if_absent`] does not come; `None` if the field does not go on.
    absent: Option<u8>,
}

/// Names that may be in a list: a bit for a length and a first letter, which several names share. Most responses have none of the
/// fields that something is done about, and this says so at once.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) struct NameBits(u64);

impl NameBits {
    #[inline]
    fn of(name: &[u8]) -> NameBits {
        let first = name.first().map_or(0, |byte| byte | 0x20);
        NameBits(1 << ((usize::from(first) ^ name.len()) % 64))
    }

    /// Notes a name, in any case.
    #[inline]
    pub(crate) fn add(&mut self, name: &[u8]) {
        self.0 |= Self::of(name).0;
    }

    /// Whether a name may be in both lists.
    #[inline]
    fn meets(self, other: NameBits) -> bool {
        self.0 & other.0 != 0
    }
}

/// Which fields of one response are there: what [`FieldEdits::keeps`] has seen.
#[derive(Debug, Default, Clone, Copy)]
pub struct Present(u64);

impl FieldEdits {
    /// No edits.
    pub const NONE: &'static FieldEdits = &FieldEdits {
        watched: Vec::new(),
        names: NameBits(0),
        added: FieldLines { text: Vec::new(), lines: Vec::new() },
        if_absent: FieldLines { text: Vec::new(), lines: Vec::new() },
    };

    /// Whether nothing is changed.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.watched.is_empty() && self.added.is_empty()
    }

    /// Fields of this name do not go on.
    pub fn remove(&mut self, name: &str) {
        let name = name.to_ascii_lowercase().into_bytes();
        self.added = without(&self.added, &name);
        self.leave_out_name(&name);
        if !self.is_dropped(&name) {
            self.watch(&name, None);
        }
    }

    /// A field takes the place of all of its name.
    pub fn set(&mut self, name: &str, value: &[u8]) {
        self.remove(name);
        self.added.push(name.as_bytes(), value);
    }

    /// A field comes beside others of its name.
    pub fn add(&mut self, name: &str, value: &[u8]) {
        self.leave_out(name);
        self.added.push(name.as_bytes(), value);
    }

    /// A field comes where there is none of its name, unless it was removed or set by then. Of more than [`IF_ABSENT_MAX`] the
    /// rest is left out; the configuration refuses so many.
    pub fn add_if_absent(&mut self, name: &str, value: &[u8]) {
        let lower = name.to_ascii_lowercase().into_bytes();
        let decided = |fields: &FieldLines| fields.all().get(&lower).is_some();
        let at = self.if_absent.len();
        if !self.is_dropped(&lower)
            && !decided(&self.added)
            && !decided(&self.if_absent)
            && at < IF_ABSENT_MAX
        {
            self.if_absent.push(name.as_bytes(), value);
            self.watch(&lower, Some(at as u8));
        }
    }

    /// Whether fields of this name are removed, set or added.
    pub fn settles(&self, name: &str) -> bool {
        let lower = name.to_ascii_lowercase();
        self.is_dropped(lower.as_bytes()) || self.added.all().get(lower.as_bytes()).is_some()
    }

    /// What is filled in where there is no field of this name.
    pub fn filled_in(&self, name: &str) -> Option<&[u8]> {
        self.if_absent.all().get(name.to_ascii_lowercase().as_bytes())
    }

    /// Whether fields of this name, in lower case, do not go on.
    pub fn drops(&self, name: &str) -> bool {
        self.is_dropped(name.as_bytes())
    }

    fn is_dropped(&self, name: &[u8]) -> bool {
        self.watched.iter().any(|watched| watched.absent.is_none() && *watched.name == *name)
    }

    fn watch(&mut self, name: &[u8], absent: Option<u8>) {
        let first = name.first().copied().unwrap_or_default();
        self.names.add(name);
        self.watched.push(Watched { name: name.into(), first, absent });
    }

    /// The edits of another list come behind these.
    pub fn append(&mut self, later: &FieldEdits) {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let dropped = later.watched.iter().filter(|watched| watched.absent.is_none());
        dropped.for_each(|watched| self.remove(&text(&watched.name)));
        later.added.all().iter().for_each(|(name, value)| self.add(&text(name), value));
        later.if_absent.all().iter().for_each(|(name, value)| self.add_if_absent(&text(name), value));
    }

    /// A field of this name is not filled in.
    pub fn leave_out(&mut self, name: &str) {
        self.leave_out_name(name.to_ascii_lowercase().as_bytes());
    }

    /// What another list removes is not filled in.
    pub fn leave_out_dropped(&mut self, other: &FieldEdits) {
        let dropped = other.watched.iter().filter(|watched| watched.absent.is_none());
        dropped.for_each(|watched| self.leave_out_name(&watched.name));
    }

    fn leave_out_name(&mut self, name: &[u8]) {
        let left = without(&self.if_absent, name);
        if left.len() == self.if_absent.len() {
            return;
        }
        self.watched.retain(|watched| watched.absent.is_none());
        self.names = NameBits::default();
        self.watched.iter().for_each(|watched| self.names.add(&watched.name));
        for (at, (name, _)) in left.all().iter().enumerate() {
            self.watch(&name.to_ascii_lowercase(), Some(at as u8));
        }
        self.if_absent = left;
    }

    /// Whether something may be done about fields of these names.
    #[inline]
    pub(crate) fn watches(&self, names: NameBits) -> bool {
        self.names.meets(names)
    }

    /// Whether a field of the response goes on; noted as present if it does.
    #[inline]
    pub fn keeps(&self, name: &[u8], present: &mut Present) -> bool {
        if !self.watches(NameBits::of(name)) {
            return true;
        }
        let first = name.first().map_or(0, u8::to_ascii_lowercase);
        for watched in &self.watched {
            if watched.first == first
                && watched.name.len() == name.len()
                && watched.name.eq_ignore_ascii_case(name)
            {
                match watched.absent {
                    Some(at) => present.0 |= 1 << at,
                    None => return false,
                }
            }
        }
        true
    }

    /// The same as text of HTTP/1, appended to `out`.
    #[inline]
    pub(crate) fn put_further(&self, present: Present, out: &mut Vec<u8>) {
        out.extend_from_slice(self.added.all().text());
        let all = self.if_absent.all();
        if present.0 == 0 {
            return out.extend_from_slice(all.text());
        }
        for at in (0..all.len()).filter(|at| present.0 & 1 << at == 0) {
            out.extend_from_slice(all.part(at..at + 1).text());
        }
    }

    /// What comes behind those fields of the response that go on.
    #[inline]
    pub fn further(&self, present: Present) -> impl Iterator<Item = (&[u8], &[u8])> {
        let absent = self.if_absent.all().iter().enumerate().filter(move |(at, _)| present.0 & 1 << at == 0);
        self.added.all().iter().chain(absent.map(|(_, field)| field))
    }

    /// The fields as they are once the edits are carried out.
    pub fn apply(&self, fields: FieldsRef<'_>, out: &mut FieldLines) {
        let mut present = Present::default();
        for (name, value) in fields.iter() {
            if self.keeps(name, &mut present) {
                out.push(name, value);
            }
        }
        self.further(present).for_each(|(name, value)| out.push(name, value));
    }
}

fn without(fields: &FieldLines, name: &[u8]) -> FieldLines {
    let mut left = FieldLines::default();
    let kept = fields.all().iter().filter(|(other, _)| !other.eq_ignore_ascii_case(name));
    kept.for_each(|(name, value)| left.push(name, value));
    left
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(fields: &[(&str, &str)]) -> FieldLines {
        let mut lines = FieldLines::default();
        fields.iter().for_each(|(name, value)| lines.push(name.as_bytes(), value.as_bytes()));
        lines
    }

    fn edited(edits: &FieldEdits, fields: &[(&str, &str)]) -> String {
        let mut out = FieldLines::default();
        edits.apply(lines(fields).all(), &mut out);
        let text = out.all().iter().map(|(name, value)| {
            format!("{}={};", String::from_utf8_lossy(name), String::from_utf8_lossy(value))
        });
        text.collect()
    }

    #[test]
    fn names_and_values_are_found_again_in_the_text() {
        let fields = lines(&[("A", "b"), ("Content-Type", "text/html"), ("X", "")]);
        assert_eq!(fields.all().text(), b"A: b\r\nContent-Type: text/html\r\nX: \r\n");
        assert_eq!(fields.all().get(b"content-type"), Some(b"text/html".as_slice()));
        assert_eq!(fields.all().part(1..2).text(), b"Content-Type: text/html\r\n");
        assert_eq!(fields.all().part(1..1).text(), b"");
        assert_eq!(fields.all().iter().last(), Some((b"X".as_slice(), b"".as_slice())));
        let (mut text, places) = fields.into_parts();
        text.extend_from_slice(b"a body");
        let again = FieldsRef::of_parts(&text, &places);
        assert_eq!((again.len(), again.get(b"a")), (3, Some(b"b".as_slice())));
    }

    #[test]
    fn fields_behind_something_else_are_found_there() {
        let mut fields = FieldLines::behind(b"HTTP/1.1 200 OK\r\n".to_vec());
        fields.push_number(b"Content-Length", 12);
        assert_eq!(fields.all().text(), b"Content-Length: 12\r\n");
        assert_eq!(fields.into_parts().0, b"HTTP/1.1 200 OK\r\nContent-Length: 12\r\n");
    }

    #[test]
    fn what_frames_routes_or_authenticates_is_not_for_trailers() {
        for name in [
            "content-length",
            "Transfer-Encoding",
            "HOST",
            "te",
            "authorization",
            "Cookie",
            "content-type",
            "priority",
        ] {
            assert!(!is_for_trailers(name.as_bytes()), "{name}");
        }
        for name in ["grpc-status", "ETag", "content-digest", "server-timing", "x-checksum", "hos", "hosts"] {
            assert!(is_for_trailers(name.as_bytes()), "{name}");
        }
        assert!(FRAMING_FIELDS.iter().all(|name| !is_for_trailers(name.as_bytes())));
    }

    #[test]
    fn edits_set_add_remove_and_fill_in() {
        let mut edits = FieldEdits::default();
        edits.set("X-Frame-Options", b"DENY");
        edits.add("Link", b"</b>");
        edits.remove("X-Powered-By");
        edits.add_if_absent("Server", b"maitred");
        edits.add_if_absent("Cache-Control", b"no-cache");
        assert_eq!(
            edited(&edits, &[("x-frame-options", "SAMEORIGIN"), ("link", "</a>"), ("SERVER", "mine")]),
            "link=</a>;SERVER=mine;X-Frame-Options=DENY;Link=</b>;Cache-Control=no-cache;"
        );
        assert_eq!(
            edited(&edits, &[("X-powered-by", "PHP"), ("A", "b")]),
            "A=b;X-Frame-Options=DENY;Link=</b>;Server=maitred;Cache-Control=no-cache;"
        );
    }

    #[test]
    fn the_last_word_about_a_field_counts() {
        let mut edits = FieldEdits::default();
        edits.add_if_absent("Server", b"maitred");
        edits.set("server", b"mine");
        edits.add_if_absent("Server", b"not said");
        assert_eq!(edited(&edits, &[("Server", "theirs")]), "server=mine;");
        let mut filled = FieldEdits::default();
        filled.add_if_absent("Cache-Control", b"no-cache");
        filled.add("cache-control", b"max-age=60");
        assert_eq!(edited(&filled, &[]), "cache-control=max-age=60;");
        let mut late = FieldEdits::default();
        late.add_if_absent("Server", b"late");
        late.leave_out_dropped(&edits);
        assert_eq!(edited(&late, &[]), "");
        edits.remove("Server");
        edits.add_if_absent("Server", b"not said");
        assert_eq!(edited(&edits, &[("Server", "theirs"), ("A", "b")]), "A=b;");
        assert!(FieldEdits::NONE.is_empty() && !edits.is_empty());
    }

    #[test]
    fn no_more_fields_are_filled_in_than_can_be_remembered() {
        let mut edits = FieldEdits::default();
        (0..IF_ABSENT_MAX + 1).for_each(|at| edits.add_if_absent(&format!("x-{at}"), b"y"));
        let all = edited(&edits, &[("X-63", "own")]);
        assert_eq!(all.matches('=').count(), IF_ABSENT_MAX);
        assert!(all.contains("X-63=own;") && !all.contains("x-63=y;") && !all.contains("x-64"));
    }
}
