//! The head of a response as a value: what handlers make, decoders give, filters change, and encoders write.

use crate::fields::{FieldLines, FieldsRef, NameBits};
use crate::limits::{RESPONSE_FIELDS_MAX, RESPONSE_FIELDS_MOST};

/// The head of a response (9110-15, 9110-6.3).
#[derive(Debug, Clone, Copy)]
pub struct ResponseHead<'a> {
    /// The status.
    pub status: u16,
    /// What the application calls the status. HTTP/2 has no place for it (9113-8.3.2).
    pub reason: Option<&'a [u8]>,
    /// The fields, without those of the connection, and without `Transfer-Encoding`.
    pub fields: Fields<'a>,
}

/// The head of a response that came in frames, whose decoder has judged it: names are tokens in small letters, values have only
/// bytes that a field may have, and there is none of the connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FramedHead {
    /// 100 to 999, but not 101.
    pub status: u16,
    /// `content-length`, which is not among the fields.
    pub content_length: Option<u64>,
    /// The fields.
    pub fields: FieldLines,
    /// Nothing follows.
    pub ended: bool,
}

/// The fields of a response.
#[derive(Debug, Clone, Copy)]
pub enum Fields<'a> {
    /// Made here.
    Own(FieldsRef<'a>),
    /// Received.
    Received(Received<'a>),
}

/// Fields that were received and judged, in the bytes that they came in.
#[derive(Debug, Clone, Copy)]
pub struct Received<'a> {
    /// From the status line to the empty line, both included.
    pub(crate) bytes: &'a [u8],
    pub(crate) fields: &'a [httparse::Header<'a>],
    pub(crate) dropped: &'a Dropped,
    /// Names of all of them.
    pub(crate) names: NameBits,
}

#[cfg(test)]
impl<'a> Received<'a> {
    pub(crate) fn new(bytes: &'a [u8], fields: &'a [httparse::Header<'a>], dropped: &'a Dropped) -> Self {
        let mut names = NameBits::default();
        fields.iter().for_each(|field| names.add(field.name.as_bytes()));
        Received { bytes, fields, dropped, names }
    }
}

/// What the words of [`Dropped`] for hardly any response have no room for.
const FURTHER_WORDS: usize = RESPONSE_FIELDS_MOST.div_ceil(64) - RESPONSE_FIELDS_MAX.div_ceil(64);

/// Which of the received fields do not go on.
#[derive(Debug, Default, Clone)]
pub(crate) struct Dropped {
    any: bool,
    words: [u64; RESPONSE_FIELDS_MAX.div_ceil(64)],
    /// Bits of further fields, if one of them is dropped.
    further: Option<Box<[u64; FURTHER_WORDS]>>,
}

impl Dropped {
    #[inline]
    pub(crate) fn set(&mut self, at: usize) {
        self.any = true;
        match self.words.get_mut(at / 64) {
            Some(word) => *word |= 1 << (at % 64),
            None => self.set_further(at),
        }
    }

    #[cold]
    fn set_further(&mut self, at: usize) {
        let further = self.further.get_or_insert_with(|| Box::new([0; FURTHER_WORDS]));
        if let Some(word) = further.get_mut(at / 64 - self.words.len()) {
            *word |= 1 << (at % 64);
        }
    }

    #[inline]
    pub(crate) fn has(&self, at: usize) -> bool {
        match self.words.get(at / 64) {
            Some(word) => word & 1 << (at % 64) != 0,
            None => self.has_further(at),
        }
    }

    #[cold]
    fn has_further(&self, at: usize) -> bool {
        let further = self.further.as_ref();
        let word = further.and_then(|further| further.get(at / 64 - self.words.len()));
        word.is_some_and(|word| word & 1 << (at % 64) != 0)
    }

    /// Whether all of them go on.
    #[inline]
    pub(crate) fn is_none(&self) -> bool {
        !self.any
    }
}

impl<'a> ResponseHead<'a> {
    /// A head that was made here.
    pub fn own(status: u16, fields: FieldsRef<'a>) -> ResponseHead<'a> {
        ResponseHead { status, reason: None, fields: Fields::Own(fields) }
    }

    /// Gives each field, name and value, in their order.
    #[inline]
    pub fn for_each(&self, mut take: impl FnMut(&'a [u8], &'a [u8])) {
        match self.fields {
            Fields::Own(fields) => fields.iter().for_each(|(name, value)| take(name, value)),
            Fields::Received(received) => {
                let fields = received.fields.iter().enumerate();
                let kept = fields.filter(|(at, _)| !received.dropped.has(*at));
                kept.for_each(|(_, field)| take(field.name.as_bytes(), field.value));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(head: &ResponseHead<'_>) -> String {
        let mut text = String::new();
        head.for_each(|name, value| {
            text += &format!("{}={};", String::from_utf8_lossy(name), String::from_utf8_lossy(value));
        });
        text
    }

    #[test]
    fn a_head_of_ones_own_gives_its_fields() {
        let mut fields = FieldLines::default();
        assert_eq!(shown(&ResponseHead::own(200, fields.all())), "");
        fields.push(b"A", b"b");
        fields.push_number(b"Content-Length", 12);
        let head = ResponseHead::own(200, fields.all());
        assert_eq!((shown(&head).as_str(), head.status, head.reason), ("A=b;Content-Length=12;", 200, None));
    }

    #[test]
    fn a_received_head_gives_the_fields_that_go_on() {
        let bytes = b"HTTP/1.1 200 OK\r\nA: b\r\nX-Hop:c\r\nA:  d \r\n\r\n";
        let mut room = [httparse::EMPTY_HEADER; 4];
        let mut parsed = httparse::Response::new(&mut room);
        assert_eq!(parsed.parse(bytes), Ok(httparse::Status::Complete(bytes.len())));
        for (places, expected) in [(&[][..], "A=b;X-Hop=c;A=d;"), (&[1], "A=b;A=d;"), (&[0, 1, 2], "")] {
            let mut dropped = Dropped::default();
            places.iter().for_each(|at| dropped.set(*at));
            let received = Received::new(bytes, parsed.headers, &dropped);
            let head = ResponseHead { status: 200, reason: None, fields: Fields::Received(received) };
            assert_eq!(shown(&head), expected);
        }
    }

    #[test]
    fn any_field_of_a_head_can_be_dropped() {
        for at in (0..RESPONSE_FIELDS_MAX + 200).chain([RESPONSE_FIELDS_MOST - 1]) {
            let mut dropped = Dropped::default();
            dropped.set(at);
            assert_eq!(
                (0..RESPONSE_FIELDS_MOST + 64).filter(|other| dropped.has(*other)).collect::<Vec<_>>(),
                [at]
            );
        }
    }
}
