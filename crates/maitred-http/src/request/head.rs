//! A checked head that is kept beyond the bytes it was parsed from: of a request that waits, or that the access log needs
//! later.

use super::{
    Framing, HeadLimits, Known, List, Method, Reject, Request, Version, bad_request, early,
    encode_beyond_ascii, judge,
};
use crate::limits::FIELDS_MAX;

/// Fields of which a [`HeadRoom`] has the places on the stack; browsers send about 20.
const FEW: usize = 24;

/// Heads with so many bytes are looked at as a whole; of larger ones most are long values, cookies above all.
const AT_ONCE_BYTES_MAX: usize = 2048;

/// An owned request head: the bytes, and where in them everything is. [`RequestHead::view`] gives what [`parse`](super::parse)
/// gave, without looking at the bytes again.
///
/// Over HTTP/1 the bytes are those that were received. Over HTTP/2 they are the parts of the field section, one behind the other,
/// and [`RequestHead::judge`] applies the rules to them.
#[derive(Debug, Default, Clone)]
pub struct RequestHead {
    bytes: Vec<u8>,
    fields: Vec<Field>,
    facts: Facts,
    /// Whether the facts are those of the bytes.
    judged: bool,
    /// Of a head that came over HTTP/2.
    parts: Option<Parts>,
    /// A value was put in that no field may have, which the check refuses.
    invalid_value: bool,
}

/// Room for the fields of a head that is looked at.
#[derive(Debug)]
pub struct HeadRoom<'b> {
    few: [httparse::Header<'b>; FEW],
    many: Vec<httparse::Header<'b>>,
}

/// A part of the bytes.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Span {
    start: u32,
    end: u32,
}

/// The parts of a head that are text. To look at all of its bytes at once takes less time than to look at each part, unless
/// they are many, or a value is something else.
#[derive(Clone, Copy)]
struct Texts<'h> {
    bytes: &'h [u8],
    whole: Option<&'h str>,
}

impl<'h> Texts<'h> {
    #[inline]
    fn of(self, span: Span) -> &'h str {
        let part = span.start as usize..span.end as usize;
        let text = match self.whole {
            Some(whole) => whole.get(part),
            None => self.bytes.get(part).and_then(|part| std::str::from_utf8(part).ok()),
        };
        // What is no text was refused by the check.
        text.unwrap_or_default()
    }
}

#[derive(Debug, Clone, Copy)]
struct Field {
    name: Span,
    value: Span,
}

/// What the check found.
#[derive(Debug, Clone, Copy)]
struct Facts {
    method: Method,
    version: Version,
    framing: Framing,
    https: bool,
    keep_alive: bool,
    expects_continue: bool,
    upgrade: bool,
    method_text: Span,
    target: Span,
    path: Span,
    query: Option<Span>,
    authority: Span,
    known: KnownAt,
}

/// Numbers of the fields that [`Known`] names.
#[derive(Debug, Clone, Copy)]
struct KnownAt {
    /// The first line of each list, and the one from which on it may go on.
    accept_encoding: (At, At),
    if_match: (At, At),
    if_none_match: (At, At),
    if_modified_since: At,
    if_unmodified_since: At,
    if_range: At,
    range: At,
    referer: At,
    user_agent: At,
}

/// The number of a field; or that there is none; or that there is more than one, where that is invalid.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct At(u8);

impl At {
    const NONE: At = At(u8::MAX);
    const TWICE: At = At(u8::MAX - 1);
}

/// Each field stands where it stood.
static ALL: [At; FIELDS_MAX] = {
    let mut all = [At::NONE; FIELDS_MAX];
    let mut at = 0;
    while at < FIELDS_MAX {
        all[at] = At(at as u8);
        at += 1;
    }
    all
};

const _: () = assert!(FIELDS_MAX < At::TWICE.0 as usize);
const _: () = assert!(size_of::<Facts>() <= 104, "what a request in a queue takes besides its head");

/// Where the parts of a field section of HTTP/2 or HTTP/3 are that are no fields (9113-8.3.1, 9114-4.3.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Parts {
    pub(crate) method: Span,
    pub(crate) target: Span,
    /// The version that the request line names.
    pub(crate) version: Version,
    /// Whether the request has no content.
    pub(crate) ended: bool,
}

impl Default for HeadRoom<'_> {
    #[inline]
    fn default() -> Self {
        HeadRoom { few: [httparse::EMPTY_HEADER; FEW], many: Vec::new() }
    }
}

impl Default for Facts {
    fn default() -> Self {
        let none = (At::NONE, At::NONE);
        let span = Span::default();
        Facts {
            method: Method::Other,
            version: Version::Http11,
            framing: Framing::None,
            https: false,
            keep_alive: false,
            expects_continue: false,
            upgrade: false,
            method_text: span,
            target: span,
            path: span,
            query: None,
            authority: span,
            known: KnownAt {
                accept_encoding: none,
                if_match: none,
                if_none_match: none,
                if_modified_since: At::NONE,
                if_unmodified_since: At::NONE,
                if_range: At::NONE,
                range: At::NONE,
                referer: At::NONE,
                user_agent: At::NONE,
            },
        }
    }
}

impl KnownAt {
    /// Where the fields that the check has found stand now: `taken` says where those of the request went.
    fn of(known: &Known<'_>, fields: &[httparse::Header<'_>], taken: &[At]) -> KnownAt {
        let one = |value: Option<&[u8]>| match value {
            None => At::NONE,
            Some(value) => match fields.iter().position(|field| std::ptr::eq(field.value, value)) {
                Some(at) => taken.get(at).copied().unwrap_or(At::NONE),
                // An empty value that no field has.
                None => At::TWICE,
            },
        };
        let list = |list: &Option<List<'_>>| match list {
            None => (At::NONE, At::NONE),
            Some(list) => {
                let further = list.further().map_or(At::NONE, |fields_left| {
                    let at = fields.len().saturating_sub(fields_left);
                    taken.get(at).copied().unwrap_or(At::NONE)
                });
                (one(Some(list.first())), further)
            }
        };
        KnownAt {
            accept_encoding: list(&known.accept_encoding),
            if_match: list(&known.if_match),
            if_none_match: list(&known.if_none_match),
            if_modified_since: one(known.if_modified_since),
            if_unmodified_since: one(known.if_unmodified_since),
            if_range: one(known.if_range),
            range: one(known.range),
            referer: one(known.referer),
            user_agent: one(known.user_agent),
        }
    }

    #[inline]
    fn view<'h>(&self, fields: &'h [httparse::Header<'h>]) -> Known<'h> {
        let one = |at: At| match at {
            At::NONE => None,
            At::TWICE => Some(b"".as_slice()),
            At(at) => fields.get(usize::from(at)).map(|field| field.value),
        };
        let list = |(first, further): (At, At), name| {
            let further = if further == At::NONE { None } else { fields.get(usize::from(further.0)..) };
            one(first).map(|first| List::of_lines(first, further.unwrap_or_default(), name))
        };
        Known {
            accept_encoding: list(self.accept_encoding, "accept-encoding"),
            if_match: list(self.if_match, "if-match"),
            if_none_match: list(self.if_none_match, "if-none-match"),
            if_modified_since: one(self.if_modified_since),
            if_unmodified_since: one(self.if_unmodified_since),
            if_range: one(self.if_range),
            range: one(self.range),
            referer: one(self.referer),
            user_agent: one(self.user_agent),
        }
    }
}

impl RequestHead {
    /// A head that was parsed from `head`, with these bytes.
    pub fn of(request: &Request<'_, '_>, head: &[u8]) -> RequestHead {
        let mut own = RequestHead::default();
        own.take(request, head);
        own
    }

    /// The same in place of what this one was, whose memory is used again.
    pub fn take(&mut self, request: &Request<'_, '_>, head: &[u8]) {
        self.take_some(request, head, |_| true);
    }

    /// A copy of another one, whose memory is not asked for anew.
    pub fn copy_from(&mut self, other: &RequestHead) {
        self.bytes.clear();
        self.bytes.extend_from_slice(&other.bytes);
        self.fields.clear();
        self.fields.extend_from_slice(&other.fields);
        (self.facts, self.judged, self.parts) = (other.facts, other.judged, other.parts);
        self.invalid_value = other.invalid_value;
    }

    /// A head of HTTP/1 that another process has received, and judged by the same rules.
    ///
    /// # Errors
    ///
    /// As [`parse`](super::parse); 400 if it is not whole.
    pub fn received(head: &[u8], limits: &HeadLimits) -> Result<RequestHead, Reject> {
        let mut room = super::field_room();
        match super::parse(head, &mut room, limits)? {
            Some((request, _)) => Ok(RequestHead::of(&request, head)),
            None => Err(bad_request("a part of a head")),
        }
    }

    /// The same with no more than what the access log needs: the request line, the authority, two fields, and those that
    /// `wanted` names. A client decides how large its heads are, and how long it takes for a response.
    pub fn take_for_log(&mut self, request: &Request<'_, '_>, wanted: impl Fn(&str) -> bool) {
        // Nothing of the head itself is kept, so that each part that is wanted is copied.
        self.take_some(request, b"", |name| {
            wanted(name) || name.eq_ignore_ascii_case("referer") || name.eq_ignore_ascii_case("user-agent")
        });
    }

    /// Leaves no more of it than what the access log needs.
    pub fn trim_for_log(&mut self, wanted: impl Fn(&str) -> bool) {
        let mut trimmed = RequestHead::default();
        if let Some(request) = self.view(&mut HeadRoom::default()) {
            trimmed.take_for_log(&request, wanted);
        }
        *self = trimmed;
    }

    fn take_some(&mut self, request: &Request<'_, '_>, head: &[u8], wanted: impl Fn(&str) -> bool) {
        self.clear();
        self.bytes.extend_from_slice(head);
        // Where the fields that are taken stand among all.
        let mut taken = [At::NONE; FIELDS_MAX];
        for (field, place) in request.fields.iter().zip(&mut taken) {
            if wanted(field.name) {
                *place = At(self.fields.len() as u8);
                let (name, value) = (self.place(field.name.as_bytes(), head), self.place(field.value, head));
                self.fields.push(Field { name, value });
            }
        }
        let known = KnownAt::of(&request.known, request.fields, &taken);
        let text = |own: &mut Self, part: &str| own.place(part.as_bytes(), head);
        let facts = Facts {
            method: request.method,
            version: request.version,
            framing: request.framing,
            https: request.https,
            keep_alive: request.keep_alive,
            expects_continue: request.expects_continue,
            upgrade: request.upgrade,
            method_text: text(self, request.method_text),
            target: text(self, request.target),
            path: text(self, request.path),
            query: request.query.map(|query| text(self, query)),
            authority: text(self, request.authority),
            known,
        };
        (self.facts, self.judged) = (facts, true);
    }

    /// Where a part is: in the bytes if it is a part of what they begin with, otherwise it is appended.
    fn place(&mut self, part: &[u8], head: &[u8]) -> Span {
        let start = part.as_ptr().addr().wrapping_sub(head.as_ptr().addr());
        match head.get(start..start.saturating_add(part.len())) {
            Some(_) => Span { start: start as u32, end: (start + part.len()) as u32 },
            None => self.put(part),
        }
    }

    /// Appends a part.
    #[inline]
    pub(crate) fn put(&mut self, part: &[u8]) -> Span {
        let start = self.bytes.len() as u32;
        self.bytes.extend_from_slice(part);
        Span { start, end: self.bytes.len() as u32 }
    }

    /// Appends a part, with its text beyond ASCII encoded.
    #[cold]
    pub(crate) fn put_encoded(&mut self, part: &[u8]) -> Span {
        let start = self.bytes.len() as u32;
        encode_beyond_ascii(part, &mut self.bytes);
        Span { start, end: self.bytes.len() as u32 }
    }

    /// Appends a field.
    #[inline]
    pub(crate) fn put_field(&mut self, name: &[u8], value: &[u8]) {
        let (name, value) = (self.put(name), self.put(value));
        self.fields.push(Field { name, value });
    }

    /// Appends a field whose value is a part that is there already.
    #[inline]
    pub(crate) fn put_named(&mut self, name: &[u8], value: Span) {
        let name = self.put(name);
        self.fields.push(Field { name, value });
    }

    /// Appends to the value of the last field, which [`RequestHead::put_field`] has put there.
    #[inline]
    pub(crate) fn put_more(&mut self, parts: &[&[u8]]) {
        parts.iter().for_each(|part| self.bytes.extend_from_slice(part));
        if let Some(field) = self.fields.last_mut() {
            field.value.end = self.bytes.len() as u32;
        }
    }

    /// Says where the parts are that are no fields. From now on there is something to judge.
    #[inline]
    pub(crate) fn set_parts(&mut self, parts: Parts) {
        self.parts = Some(parts);
    }

    /// Notes that a value has a control character besides HTAB (9110-5.5). Over HTTP/1 the parser refuses it.
    #[cold]
    pub(crate) fn note_invalid_value(&mut self) {
        self.invalid_value = true;
    }

    /// The number of the next field.
    #[inline]
    pub(crate) fn fields(&self) -> usize {
        self.fields.len()
    }

    /// Gives a field another value.
    #[cold]
    pub(crate) fn replace_value(&mut self, field: usize, value: &[u8]) {
        let value = self.put(value);
        if let Some(field) = self.fields.get_mut(field) {
            field.value = value;
        }
    }

    /// The value of a field.
    pub(crate) fn value(&self, field: usize) -> &[u8] {
        self.fields.get(field).map_or(b"", |field| self.part(field.value))
    }

    /// Names and values of the fields in their order, whether they were judged or not.
    pub(crate) fn lines(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        self.fields.iter().map(|field| (self.part(field.name), self.part(field.value)))
    }

    /// A part of it.
    #[inline]
    pub(crate) fn part(&self, span: Span) -> &[u8] {
        self.bytes.get(span.start as usize..span.end as usize).unwrap_or_default()
    }

    #[inline]
    fn texts(&self) -> Texts<'_> {
        let few = self.bytes.len() <= AT_ONCE_BYTES_MAX;
        let whole = if few { std::str::from_utf8(&self.bytes).ok() } else { None };
        Texts { bytes: &self.bytes, whole }
    }

    /// Applies the rules to what HTTP/2 has put into it.
    ///
    /// # Errors
    ///
    /// As [`parse`](super::parse), but for what a text alone can break.
    pub fn judge(&mut self, limits: &HeadLimits) -> Result<(), Reject> {
        let Some(parts) = self.parts else { return Err(bad_request("no request line")) };
        self.judge_parts(parts, limits)?;
        let mut room = HeadRoom::default();
        let text = self.texts();
        let fields = self.headers(text, &mut room);
        let lines = judge::Lines {
            method: text.of(parts.method),
            target: text.of(parts.target),
            version: parts.version,
            fields,
            // Where no length is stated, the end of the stream ends the content.
            unknown_length: !parts.ended,
        };
        let request = judge::judge_lines(lines, limits)?;
        let known = KnownAt::of(&request.known, request.fields, &ALL);
        let within = |part: &str| self.span_of(part.as_bytes());
        // The asterisk is the whole target, and stands for the path.
        let path = if request.path == "*" { parts.target } else { within(request.path) };
        let facts = Facts {
            method: request.method,
            version: request.version,
            framing: request.framing,
            https: request.https,
            keep_alive: request.keep_alive,
            expects_continue: request.expects_continue,
            upgrade: request.upgrade,
            method_text: parts.method,
            target: parts.target,
            path,
            query: request.query.map(within),
            authority: within(request.authority),
            known,
        };
        (self.facts, self.judged) = (facts, true);
        Ok(())
    }

    /// The version that it came by.
    pub fn version(&self) -> Version {
        self.parts.map_or(self.facts.version, |parts| parts.version)
    }

    /// What the parser of HTTP/1 says first: what is too long is refused as that, whatever is wrong besides.
    #[inline]
    fn judge_parts(&self, parts: Parts, limits: &HeadLimits) -> Result<(), Reject> {
        judge::within_bounds(self.part(parts.method), self.part(parts.target), limits)?;
        if self.fields.len() > limits.header_count_max.min(FIELDS_MAX) {
            return Err(early::TOO_MANY_FIELDS);
        }
        if self.invalid_value {
            return Err(early::INVALID_VALUE);
        }
        Ok(())
    }

    /// Where a part of the bytes is in them.
    fn span_of(&self, part: &[u8]) -> Span {
        let start = part.as_ptr().addr().wrapping_sub(self.bytes.as_ptr().addr());
        match self.bytes.get(start..start.saturating_add(part.len())) {
            Some(_) => Span { start: start as u32, end: (start + part.len()) as u32 },
            None => Span::default(),
        }
    }

    /// The request. `None` if nothing was taken, or judged.
    #[inline]
    pub fn view<'h>(&'h self, room: &'h mut HeadRoom<'h>) -> Option<Request<'h, 'h>> {
        let facts = self.judged.then_some(&self.facts)?;
        let text = self.texts();
        let fields = self.headers(text, room);
        Some(Request {
            method: facts.method,
            method_text: text.of(facts.method_text),
            version: facts.version,
            target: text.of(facts.target),
            path: text.of(facts.path),
            query: facts.query.map(|query| text.of(query)),
            authority: text.of(facts.authority),
            https: facts.https,
            fields,
            framing: facts.framing,
            keep_alive: facts.keep_alive,
            expects_continue: facts.expects_continue,
            upgrade: facts.upgrade,
            known: facts.known.view(fields),
        })
    }

    #[inline]
    fn headers<'h>(&'h self, text: Texts<'h>, room: &'h mut HeadRoom<'h>) -> &'h [httparse::Header<'h>] {
        let header =
            |field: &Field| httparse::Header { name: text.of(field.name), value: self.part(field.value) };
        if self.fields.len() <= FEW {
            let places = room.few.iter_mut().zip(&self.fields);
            places.for_each(|(place, field)| *place = header(field));
            return room.few.get(..self.fields.len()).unwrap_or_default();
        }
        room.many.extend(self.fields.iter().map(header));
        &room.many
    }

    /// The bytes: over HTTP/1 those of the head as it was received, with others behind them.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Method and target as far as they are known; for a request that was refused.
    pub fn request_line_bytes(&self) -> Option<(&[u8], &[u8])> {
        let (method, target) = match self.parts {
            Some(parts) => (parts.method, parts.target),
            None => self.judged.then_some((self.facts.method_text, self.facts.target))?,
        };
        Some((self.part(method), self.part(target)))
    }

    /// The same, where both are text.
    pub fn request_line(&self) -> Option<(&str, &str)> {
        let (method, target) = self.request_line_bytes()?;
        Some((std::str::from_utf8(method).ok()?, std::str::from_utf8(target).ok()?))
    }

    /// Whether nothing is in it.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Takes everything out, and keeps the memory.
    #[inline]
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.fields.clear();
        (self.judged, self.parts, self.invalid_value) = (false, None, false);
    }

    /// Bytes of memory that it holds.
    pub fn capacity(&self) -> usize {
        self.bytes.capacity() + self.fields.capacity() * size_of::<Field>()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::{field_room, parse};
    use super::*;

    const LIMITS: HeadLimits = HeadLimits {
        head_bytes_max: 65_536,
        header_count_max: 100,
        target_bytes_max: 8192,
        body_bytes_max: u64::MAX,
    };

    fn shown(request: &Request<'_, '_>) -> String {
        format!("{request:?}")
    }

    /// What is left of a head once it was taken, and what it was.
    fn taken(head: &[u8]) -> (String, String) {
        let mut room = field_room();
        let (request, bytes) = parse(head, &mut room, &LIMITS).unwrap().unwrap();
        // The memory of an earlier one is used again.
        let mut own = RequestHead::of(&request, b"");
        own.take(&request, &head[..bytes]);
        let mut again = HeadRoom::default();
        (shown(&own.view(&mut again).unwrap()), shown(&request))
    }

    fn logged(head: &[u8], wanted: impl Fn(&str) -> bool) -> (RequestHead, String) {
        let mut room = field_room();
        let (request, _) = parse(head, &mut room, &LIMITS).unwrap().unwrap();
        let mut own = RequestHead::default();
        own.take_for_log(&request, &wanted);
        let line = |request: &Request<'_, '_>| {
            let fields = request.fields.iter().filter(|field| wanted(field.name));
            let fields: Vec<_> = fields.map(|field| (field.name, field.value)).collect();
            let (referer, agent) = (request.known.referer, request.known.user_agent);
            format!(
                "{} {} {:?} {} {referer:?} {agent:?} {fields:?}",
                request.method_text, request.target, request.version, request.authority
            )
        };
        let mut again = HeadRoom::default();
        assert_eq!(line(&own.view(&mut again).unwrap()), line(&request));
        let mut trimmed = RequestHead::of(&request, head);
        trimmed.trim_for_log(&wanted);
        assert_eq!(trimmed.bytes(), own.bytes());
        let text = String::from_utf8_lossy(own.bytes()).into_owned();
        (own, text)
    }

    #[test]
    fn a_list_that_goes_on_and_a_field_that_stands_twice_are_what_they_were() {
        let (own, was) = taken(
            b"GET /a?b HTTP/1.1\r\nHost: c\r\nAccept-Encoding: br\r\nRange: bytes=0-1\r\nA:\r\n\
              accept-encoding: gzip\r\nRange: bytes=2-3\r\nIf-Match: \r\nReferer: d\r\nReferer: e\r\n\r\n",
        );
        assert_eq!(own, was);
        assert!(was.contains("range: Some([])"), "{was}");
    }

    #[test]
    fn nothing_is_seen_where_nothing_was_taken() {
        let mut head = RequestHead::default();
        assert!(head.view(&mut HeadRoom::default()).is_none() && head.is_empty());
        assert!(head.request_line().is_none() && head.judge(&LIMITS).is_err());
        let mut room = field_room();
        let (request, _) = parse(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n", &mut room, &LIMITS).unwrap().unwrap();
        head.take(&request, b"");
        assert_eq!(head.request_line(), Some(("GET", "/")));
        head.clear();
        assert!(head.view(&mut HeadRoom::default()).is_none() && head.is_empty());
    }

    #[test]
    fn what_the_log_does_not_want_is_left_out() {
        let large =
            format!("GET /a HTTP/1.1\r\nHost: b\r\nCookie: {}\r\nX-Other: c\r\n\r\n", "d".repeat(12_000));
        let (own, text) = logged(large.as_bytes(), |_| false);
        assert_eq!(text, "GET/a/ab");
        assert!(own.capacity() < 1024, "{} bytes", own.capacity());
    }

    proptest! {
        #[test]
        fn a_head_that_was_taken_is_the_same(
            target in "(/[a-z?=%20]{0,9}|http://[a-z]{1,5}(:80)?(/[a-z]{0,5})?|\\*)",
            old in any::<bool>(),
            fields in proptest::collection::vec((0_usize..14, "([!-~]{0,2}[ -~]{0,12}[!-~])?"), 0..40),
        ) {
            const NAMES: [&str; 14] = ["Referer", "User-Agent", "Cookie", "X-Forwarded-For", "If-Match", "if-none-match",
                "Accept-Encoding", "If-Modified-Since", "If-Unmodified-Since", "If-Range", "Range", "Expect", "Upgrade", "X"];
            let version = if old { "HTTP/1.0" } else { "HTTP/1.1" };
            let target = target.replace("%20", "").replace('%', "");
            let method = if target == "*" { "OPTIONS" } else { "FETCH" };
            let mut head = format!("{method} {target} {version}\r\nHost: example.org:81\r\n");
            for (name, value) in fields {
                let value = if NAMES[name] == "Expect" { "100-continue" } else { &value };
                head += &format!("{}: {value}\r\n", NAMES[name]);
            }
            head += "\r\n";
            let (own, was) = taken(head.as_bytes());
            prop_assert_eq!(own, was);
            logged(head.as_bytes(), |name| name.starts_with("X-"));
        }
    }
}
