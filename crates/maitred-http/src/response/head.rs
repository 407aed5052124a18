//! Response heads: one pass over the fields judges them, and says which go on to the client.

use std::mem::MaybeUninit;

use super::{
    Bad, Dropped, Encode, Ending, Fields, FramedHead, Persistence, Received, ResponseHead, ResponsePolicy,
};
use crate::bytes::is_name;
use crate::fastcgi;
use crate::fields::{FieldLines, NameBits};
use crate::limits::{CONNECTION_OPTIONS_MAX, INTERIM_HEAD_BYTES_MAX, RESPONSE_FIELDS_MANY};
use crate::status;
use crate::websocket::Handshake;

/// How the body that follows a head is delimited.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Framing {
    /// No body.
    None,
    /// So many bytes; not 0.
    Length(u64),
    /// Chunked.
    Chunked,
    /// By the end of the stream.
    UntilEnd,
}

/// What a head was.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Head {
    /// An interim response (1xx).
    Interim {
        /// Whether it goes on to the client.
        passed: bool,
    },
    /// The head of the final response.
    Final {
        status: u16,
        /// Of what the application sends behind it.
        framing: Framing,
        /// Whether the client gets the content in chunks.
        chunks: bool,
        /// Whether nothing that the application sends can reach the client.
        discard: bool,
        /// Whether the content gets a coding on its way.
        coded: bool,
        /// Whether the response head announces to the client that its connection is kept.
        keep: bool,
        /// Whether the application keeps its own connection.
        lasts: bool,
    },
}

/// What a response may be.
#[derive(Debug, Clone, Copy)]
pub(super) struct Wanted<'h> {
    pub(super) policy: ResponsePolicy,
    /// What a 101 has to say besides.
    pub(super) handshake: Option<&'h Handshake>,
}

/// Gives to `out` what the client gets of the head that `bytes` start with. Returns what it was and how many bytes it took,
/// `None` if it is incomplete. After an error nothing was given.
#[inline]
pub(super) fn take(
    bytes: &[u8],
    wanted: Wanted<'_>,
    out: &mut impl Encode,
) -> Result<Option<(Head, usize)>, Bad> {
    if bytes.first().is_some_and(|byte| *byte != b'H') {
        // The parser would skip empty lines.
        return Err(Bad::Syntax("no status line"));
    }
    let bounds = wanted.policy.bounds;
    let window = bytes.get(..bounds.head_bytes_max as usize).unwrap_or(bytes);
    let most = usize::from(bounds.fields_max);
    let mut room = [const { MaybeUninit::<httparse::Header<'_>>::uninit() }; RESPONSE_FIELDS_MANY];
    match take_within(window, wanted, room.get_mut(..most.min(RESPONSE_FIELDS_MANY)).unwrap_or_default(), out)
    {
        Err(Bad::TooManyFields(_)) if most > RESPONSE_FIELDS_MANY => take_many(window, wanted, out),
        Err(Bad::Syntax(VERSION)) if is_later_minor(window) => take_later_minor(window, wanted, out),
        taken => taken,
    }
}

/// What is said of a version that is not spoken.
const VERSION: &str = "HTTP version other than 1.0 and 1.1";

/// Whether a head is of a version 1 that is later than 1.1.
#[cold]
fn is_later_minor(window: &[u8]) -> bool {
    match window {
        [b'H', b'T', b'T', b'P', b'/', b'1', b'.', b'2'..=b'9', rest @ ..] => matches!(rest, [] | [b' ', ..]),
        _ => false,
    }
}

/// Takes a head whose version is a later one of HTTP/1 for one of HTTP/1.1: what is not known there is no field of the framing
/// (9110-2.5). No such version exists, and servers say it all the same.
#[cold]
#[inline(never)]
fn take_later_minor(
    window: &[u8],
    wanted: Wanted<'_>,
    out: &mut impl Encode,
) -> Result<Option<(Head, usize)>, Bad> {
    let mut copy = window.to_vec();
    if let Some(minor) = copy.get_mut(b"HTTP/1.".len()) {
        *minor = b'1';
    }
    take_many(&copy, wanted, out)
}

#[cold]
#[inline(never)]
fn take_many(window: &[u8], wanted: Wanted<'_>, out: &mut impl Encode) -> Result<Option<(Head, usize)>, Bad> {
    let mut room = vec![const { MaybeUninit::uninit() }; usize::from(wanted.policy.bounds.fields_max)];
    take_within(window, wanted, &mut room, out)
}

/// The same, if there are no more fields than there is room for.
#[inline(always)]
fn take_within<'b>(
    window: &'b [u8],
    wanted: Wanted<'_>,
    room: &mut [MaybeUninit<httparse::Header<'b>>],
    out: &mut impl Encode,
) -> Result<Option<(Head, usize)>, Bad> {
    let bounds = wanted.policy.bounds;
    let mut parsed = httparse::Response::new(&mut []);
    let mut parser = httparse::ParserConfig::default();
    parser.allow_multiple_spaces_in_response_status_delimiters(true);
    match parser.parse_response_with_uninit_headers(&mut parsed, window, room) {
        Ok(httparse::Status::Complete(head_bytes)) => {
            let bytes = window.get(..head_bytes).unwrap_or_default();
            let (Some(status), Some(minor)) = (parsed.code, parsed.version) else {
                return Err(Bad::Syntax("no status line"));
            };
            let (http10, trailers) = (minor == 0, wanted.policy.trailers);
            let source = Source { bytes, status, http10, trailers, fields: parsed.headers };
            Ok(Some((source.pass(parsed.reason, wanted, out)?, head_bytes)))
        }
        Ok(httparse::Status::Partial) if window.len() >= bounds.head_bytes_max as usize => {
            Err(Bad::HeadTooBig(bounds.head_bytes_max))
        }
        Ok(httparse::Status::Partial) => Ok(None),
        Err(error) => Err(refusal(error, bounds.fields_max)),
    }
}

#[cold]
fn refusal(error: httparse::Error, fields_max: u16) -> Bad {
    match error {
        httparse::Error::TooManyHeaders => Bad::TooManyFields(fields_max),
        httparse::Error::Version => Bad::Syntax(VERSION),
        httparse::Error::HeaderName => Bad::Syntax("invalid byte in a field name, or a folded line"),
        httparse::Error::HeaderValue => Bad::Syntax("invalid byte in a field value"),
        httparse::Error::NewLine => Bad::Syntax("invalid line end"),
        httparse::Error::Status | httparse::Error::Token => Bad::Syntax("invalid status line"),
    }
}

/// A parsed head.
struct Source<'h, 'b> {
    /// From the status line to the empty line, both included.
    bytes: &'b [u8],
    status: u16,
    http10: bool,
    /// Trailers go on to the client.
    trailers: bool,
    fields: &'h [httparse::Header<'b>],
}

/// What the pass over the fields finds.
#[derive(Default)]
struct Seen {
    /// Names of all fields.
    names: NameBits,
    length: Option<u64>,
    chunked: bool,
    /// Whether a field `Date` goes on to the client.
    date: bool,
    /// Whether a field `Upgrade` goes on to the client.
    upgrade: bool,
    /// Whether `Connection` names a field that would go on if it did not.
    named: bool,
    /// Options of `Connection`.
    options: u32,
    /// Whether `Connection` says `close`.
    close: bool,
    /// Whether `Connection` says `keep-alive`.
    keep_alive: bool,
    /// A line ends in a bare LF, so that the head is written anew.
    bare_lf: bool,
}

impl Source<'_, '_> {
    #[inline]
    fn pass(&self, reason: Option<&str>, wanted: Wanted<'_>, out: &mut impl Encode) -> Result<Head, Bad> {
        let Wanted { policy: wanted, handshake } = wanted;
        match self.status {
            101 if !self.switches_to(wanted.switch) || self.http10 => return Err(Bad::SwitchingProtocols),
            200..300 if wanted.framed && wanted.switch.is_some() => return Err(Bad::NotSwitched),
            100..=status::MAX => {}
            status => return Err(Bad::Status(status)),
        }
        if self.status == 101
            && let Some(handshake) = handshake
        {
            handshake.judge(self.fields).map_err(Bad::Handshake)?;
        }
        let mut dropped = Dropped::default();
        let seen = self.judge(&mut dropped)?;
        let framing = self.framing(&seen, wanted);
        let received =
            Received { bytes: self.bytes, fields: self.fields, dropped: &dropped, names: seen.names };
        let mut lines = FieldLines::default();
        let fields = match seen.bare_lf || !self.is_plainly_begun() {
            false => Fields::Received(received),
            true => {
                // The bytes that came cannot be copied.
                let head =
                    ResponseHead { status: self.status, reason: None, fields: Fields::Received(received) };
                head.for_each(|name, value| lines.push(name, value));
                Fields::Own(lines.all())
            }
        };
        let head = ResponseHead { status: self.status, reason: reason.map(str::as_bytes), fields };
        if self.status == 101 {
            let ending = Ending { dated: true, ..Ending::of(Persistence::Switched) };
            out.head(&head, &ending);
            return Ok(SWITCHED);
        }
        if self.status < 200 {
            return self.interim(&head, wanted, out);
        }
        let lasts = !seen.close && (seen.keep_alive || !self.http10);
        let told = Told { dated: seen.date, upgrade: seen.upgrade, lasts, over: false };
        Ok(pass_final(&head, framing, told, wanted, out))
    }

    /// Whether the status stands where it is expected, behind one space.
    #[inline]
    fn is_plainly_begun(&self) -> bool {
        self.bytes.get(b"HTTP/1.1 ".len()).is_some_and(u8::is_ascii_digit)
    }

    /// Passes an interim response on, or not. Mostly a 100 was not asked for: the application gets the request as a whole, and no
    /// `Expect` (9110-15.2).
    #[cold]
    fn interim(
        &self,
        head: &ResponseHead<'_>,
        wanted: ResponsePolicy,
        out: &mut impl Encode,
    ) -> Result<Head, Bad> {
        if self.bytes.len() > INTERIM_HEAD_BYTES_MAX {
            return Err(Bad::InterimTooBig);
        }
        let may = if self.status == 100 { wanted.continues } else { wanted.informational };
        let passed = may && !wanted.http10;
        if passed {
            out.interim(head);
        }
        Ok(Head::Interim { passed })
    }

    /// Judges all fields, and notes those that do not go on.
    #[inline]
    fn judge(&self, dropped: &mut Dropped) -> Result<Seen, Bad> {
        let bytes = self.bytes;
        let mut seen = Seen::default();
        for (at, field) in self.fields.iter().enumerate() {
            let start = field.name.as_ptr().addr().wrapping_sub(bytes.as_ptr().addr());
            seen.bare_lf |= !is_line_end(bytes, start);
            if !self.goes_on(field, &mut seen)? {
                dropped.set(at);
            }
        }
        // Where the empty line starts, unless it is a bare LF; then no line ends here.
        seen.bare_lf |= !is_line_end(bytes, bytes.len().saturating_sub(2));
        if seen.named {
            self.drop_named(dropped, &mut seen);
        }
        if seen.chunked && (seen.length.is_some() || self.http10) {
            self.drop_length(dropped, &mut seen);
        }
        Ok(seen)
    }

    /// `Transfer-Encoding` says where the body ends, and what is said besides is dropped, be it a length or a version that has no
    /// such field (9112-6.1, 9112-6.3). Whether the server means the same is not known, so that its connection is not used again:
    /// what it sends behind this response is no client's.
    #[cold]
    fn drop_length(&self, dropped: &mut Dropped, seen: &mut Seen) {
        for (at, field) in self.fields.iter().enumerate() {
            if field.name.eq_ignore_ascii_case("content-length") {
                dropped.set(at);
            }
        }
        (seen.length, seen.close) = (None, true);
    }

    /// Notes the fields that `Connection` names.
    #[cold]
    fn drop_named(&self, dropped: &mut Dropped, seen: &mut Seen) {
        for (at, field) in self.fields.iter().enumerate() {
            if self.is_named(field.name) {
                dropped.set(at);
            }
        }
        seen.date &= !self.is_named("date");
    }

    /// Judges one field and says whether it goes on to the client. Length and first letter choose the only
    /// name that a field can have here.
    #[inline]
    fn goes_on(&self, field: &httparse::Header<'_>, seen: &mut Seen) -> Result<bool, Bad> {
        let (name, value) = (field.name.as_bytes(), field.value);
        let first = name.first().map_or(0, |byte| byte | 0x20);
        seen.names.add(name);
        let is = |expected: &[u8]| is_name(name, expected);
        match (name.len(), first) {
            (4, b'd') if is(b"date") => seen.date = true,
            (7, b'u') if is(b"upgrade") => {
                // What the server could switch to is the only sense of a 426 (9110-15.5.22), and of a 101.
                seen.upgrade = matches!(self.status, 101 | 426);
                return Ok(seen.upgrade);
            }
            (10, b'c') if is(b"connection") => {
                for option in value.split(|byte| *byte == b',').map(<[u8]>::trim_ascii) {
                    seen.options += 1;
                    if seen.options > CONNECTION_OPTIONS_MAX {
                        return Err(Bad::TooManyOptions);
                    }
                    seen.close |= option.eq_ignore_ascii_case(b"close");
                    seen.keep_alive |= option.eq_ignore_ascii_case(b"keep-alive");
                    seen.named |= names_field(option);
                }
                return Ok(false);
            }
            // An empty one says nothing (9110-8.3), and clients do not guess beside it. PHP sends it for `default_mimetype = ""`.
            (12, b'c') if is(b"content-type") => return Ok(!value.is_empty()),
            (14, b'c') if is(b"content-length") => {
                let length = number(value)?;
                match seen.length.replace(length) {
                    // The same again says nothing, and the client gets it once (9110-8.6).
                    Some(before) if before == length => return Ok(false),
                    Some(_) => {
                        return Err(Bad::Framing("Content-Length more than once, with different values"));
                    }
                    None => {}
                }
                // 9110-8.6; that of a 205 is written anew.
                return Ok(self.status >= 200 && !matches!(self.status, 204 | 205));
            }
            (17, b't') if is(b"transfer-encoding") => {
                if seen.chunked || !value.eq_ignore_ascii_case(b"chunked") {
                    return Err(Bad::Framing("Transfer-Encoding other than chunked"));
                }
                seen.chunked = true;
                return Ok(false);
            }
            // What it announces comes only to clients that take trailers.
            (7, b't') if is(b"trailer") => return Ok(self.trailers),
            _ => return Ok(!is_hop_by_hop(name)),
        }
        Ok(true)
    }

    /// Whether `Connection` names this field, and that takes it out. The client's framing needs `Content-Length`;
    /// about `Upgrade` was decided before.
    #[cold]
    fn is_named(&self, name: &str) -> bool {
        let connection = |field: &&httparse::Header<'_>| field.name.eq_ignore_ascii_case("connection");
        let mut options =
            self.fields.iter().filter(connection).flat_map(|field| field.value.split(|byte| *byte == b','));
        let stays = name.eq_ignore_ascii_case("content-length") || name.eq_ignore_ascii_case("upgrade");
        !stays && options.any(|option| option.trim_ascii().eq_ignore_ascii_case(name.as_bytes()))
    }

    /// Whether `Upgrade` names this protocol, and nothing else (9110-15.2.2). What was not asked for would be spoken behind the
    /// back of everything that judges requests.
    #[cold]
    fn switches_to(&self, asked: Option<&str>) -> bool {
        let upgrade = |field: &&httparse::Header<'_>| field.name.eq_ignore_ascii_case("upgrade");
        let fields = self.fields.iter().filter(upgrade);
        let mut named = fields.flat_map(|field| field.value.split(|byte| *byte == b',')).peekable();
        let is_asked = |protocol: &[u8]| {
            asked.is_some_and(|asked| protocol.trim_ascii().eq_ignore_ascii_case(asked.as_bytes()))
        };
        named.peek().is_some() && named.all(is_asked)
    }

    /// How the body is delimited, once all fields were seen (9112-6.3).
    #[inline]
    fn framing(&self, seen: &Seen, wanted: ResponsePolicy) -> Framing {
        if wanted.head_request || matches!(self.status, 100..200 | 204 | 304) {
            return Framing::None;
        }
        match seen.length {
            Some(0) => Framing::None,
            Some(length) => Framing::Length(length),
            None if seen.chunked => Framing::Chunked,
            None => Framing::UntilEnd,
        }
    }
}

/// What else a final head says.
#[derive(Debug, Clone, Copy)]
struct Told {
    /// Whether the response has a `Date` that goes on.
    dated: bool,
    /// Whether the response has an `Upgrade` that goes on.
    upgrade: bool,
    /// The application keeps its own connection.
    lasts: bool,
    /// The application has ended its response with the head.
    over: bool,
}

/// Gives the head of a final response to `out`, with what goes for content that is framed like this.
#[inline]
fn pass_final(
    head: &ResponseHead<'_>,
    framing: Framing,
    told: Told,
    wanted: ResponsePolicy,
    out: &mut impl Encode,
) -> Head {
    let status = head.status;
    let discard = framing == Framing::None || status == 205;
    let coded = out.takes_coding(head, !discard, wanted.framed || !wanted.http10) && !discard;
    let delimited = matches!(framing, Framing::None | Framing::Length(_)) && !coded;
    let chunks = !delimited && !discard && !wanted.http10 && !wanted.framed;
    let keep = wanted.keep && (delimited || discard || chunks);
    let persistence = match (keep, wanted.http10) {
        (false, _) => Persistence::Close,
        (true, true) => Persistence::Stated,
        (true, false) => Persistence::Implied,
    };
    let ending = Ending {
        dated: told.dated,
        persistence,
        upgrade: told.upgrade,
        chunked: chunks,
        ended: discard,
        no_length: status == 205,
        over: told.over,
    };
    out.head(head, &ending);
    Head::Final { status, framing, chunks, discard, coded, keep, lasts: told.lasts }
}

/// Gives to `out` what the client gets of the head of a CGI response.
pub(super) fn take_cgi(
    cgi: &fastcgi::head::Head<'_>,
    wanted: ResponsePolicy,
    out: &mut impl Encode,
) -> Result<Head, Bad> {
    let status = cgi.status;
    if matches!(status, 200..300) && wanted.framed && wanted.switch.is_some() {
        return Err(Bad::NotSwitched);
    }
    let mut lines = FieldLines::default();
    let mut dated = false;
    for (name, value) in cgi.fields() {
        dated |= name.eq_ignore_ascii_case("date");
        lines.push(name.as_bytes(), value);
    }
    if let Some(length) = cgi.content_length.filter(|_| !matches!(status, 204 | 205)) {
        lines.push_number(b"Content-Length", length);
    }
    let framing = match cgi.content_length {
        _ if wanted.head_request || matches!(status, 204 | 304) => Framing::None,
        Some(0) => Framing::None,
        Some(length) => Framing::Length(length),
        None => Framing::UntilEnd,
    };
    let reason = Some(cgi.reason).filter(|reason| !reason.is_empty());
    let head = ResponseHead { status, reason, fields: Fields::Own(lines.all()) };
    // The caller, which sends the output, knows whether the connection lasts.
    Ok(pass_final(&head, framing, Told { dated, upgrade: false, lasts: false, over: false }, wanted, out))
}

/// Gives to `out` what the client gets of a head that came in frames.
pub(super) fn take_framed(
    framed: &FramedHead,
    wanted: ResponsePolicy,
    out: &mut impl Encode,
) -> Result<Head, Bad> {
    let status = framed.status;
    match status {
        200..300 if wanted.framed && wanted.switch.is_some() => return Err(Bad::NotSwitched),
        101 => return Err(Bad::SwitchingProtocols),
        100..=status::MAX => {}
        status => return Err(Bad::Status(status)),
    }
    let mut lines = FieldLines::default();
    let mut dated = false;
    for (name, value) in framed.fields.all().iter() {
        dated |= name == b"date";
        let passes = match name {
            b"trailer" => wanted.trailers,
            b"content-type" => !value.is_empty(),
            b"te" => false,
            _ => true,
        };
        if passes {
            lines.push(name, value);
        }
    }
    if status < 200 {
        let may = if status == 100 { wanted.continues } else { wanted.informational };
        let passed = may && !wanted.http10;
        if passed {
            out.interim(&ResponseHead::own(status, lines.all()));
        }
        return Ok(Head::Interim { passed });
    }
    let empty = wanted.head_request || matches!(status, 204 | 304);
    let framing = match framed.content_length {
        _ if empty || framed.ended => Framing::None,
        // Trailers may follow.
        Some(0) if !wanted.framed => Framing::None,
        Some(0) | None => Framing::UntilEnd,
        Some(length) => Framing::Length(length),
    };
    // The end of the stream says it here; over HTTP/1.1 only a length does.
    let silent = framed.ended && !empty && !wanted.framed;
    let length = framed.content_length.or(silent.then_some(0));
    if let Some(length) = length.filter(|_| !matches!(status, 204 | 205)) {
        lines.push_number(b"content-length", length);
    }
    let head = ResponseHead::own(status, lines.all());
    Ok(pass_final(
        &head,
        framing,
        Told { dated, upgrade: false, lasts: true, over: framed.ended },
        wanted,
        out,
    ))
}

const LINE_END: &[u8] = b"\r\n";

/// Whether the line before `end` ends in CRLF, and not in a bare LF, which `httparse` lets pass, as other proxies do in the heads
/// of servers (9112-2.2). The parser leaves nothing between one field and the next but a line end.
#[inline]
fn is_line_end(bytes: &[u8], end: usize) -> bool {
    end.checked_sub(LINE_END.len()).and_then(|start| bytes.get(start..end)) == Some(LINE_END)
}

/// Whether an option of `Connection` may be the name of a field that would go on without it.
fn names_field(option: &[u8]) -> bool {
    !(option.is_empty()
        || option.eq_ignore_ascii_case(b"close")
        || option.eq_ignore_ascii_case(b"upgrade")
        || is_hop_by_hop(option))
}

/// The fields of 9110-7.6.1 that are for the next hop only, also if `Connection` does not name them. Fields that mean something
/// here are looked at before.
#[inline]
fn is_hop_by_hop(name: &[u8]) -> bool {
    let is = |expected: &[u8]| is_name(name, expected);
    match name.len() {
        2 => is(b"te"),
        10 => is(b"keep-alive"),
        16 => is(b"proxy-connection"),
        _ => false,
    }
}

/// The value of `Content-Length`: digits only (9110-8.6).
#[inline]
fn number(value: &[u8]) -> Result<u64, Bad> {
    const BAD: Bad = Bad::Framing("Content-Length is not a number of 64 bits");
    if value.is_empty() {
        return Err(BAD);
    }
    value.iter().try_fold(0_u64, |number, digit| {
        let digit = digit.checked_sub(b'0').filter(|digit| *digit <= 9).ok_or(BAD)?;
        number.checked_mul(10).and_then(|number| number.checked_add(digit.into())).ok_or(BAD)
    })
}

/// Behind a 101 the other protocol begins.
const SWITCHED: Head = Head::Final {
    status: 101,
    framing: Framing::UntilEnd,
    chunks: false,
    discard: false,
    coded: false,
    keep: false,
    lasts: false,
};
