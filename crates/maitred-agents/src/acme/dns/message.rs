//! Messages of the DNS (RFC 1035 section 4): questions about a zone or a text, updates (RFC 2136), and their answers. Pure.
//!
//! The code is Maitred's own because the crates for such messages bring some forty others along, for three messages.

/// Longest name in a message, in bytes (RFC 1035 section 2.3.4).
const NAME_BYTES_MAX: usize = 255;
/// Bytes of a header.
const HEADER_BYTES: usize = 12;
/// The class of the Internet.
const IN: u16 = 1;
/// In an update: a record that is to go (RFC 2136 section 2.5.4).
const NONE: u16 = 254;
/// An update (RFC 2136 section 1.3), where the operation code stands in the flags.
const UPDATE: u16 = 5 << 11;
/// The most of several records in an answer that are read: more than any name has texts.
const RECORDS_MAX: usize = 1000;

/// Types of records.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names of types")]
pub enum Kind {
    Soa = 6,
    Txt = 16,
}

/// What becomes of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Change {
    /// The record is added to those that the name has, for so many seconds.
    Add(u32),
    /// The record is removed; others of the name stay.
    Remove,
}

/// An answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// How it went; 0 is well.
    pub code: u8,
    /// The records of the answer, and those about the authority.
    pub records: Vec<Record>,
}

/// A record of an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    /// The record's name in lower case, without its last dot.
    pub name: String,
    /// What it says.
    pub data: Data,
}

/// What a record says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Data {
    /// A zone begins at its name.
    Soa,
    /// A text, its parts joined.
    Txt(Vec<u8>),
    /// Anything else.
    Other,
}

/// A question. `id` is any number.
///
/// # Errors
/// When the name is none.
pub fn question(id: u16, name: &str, kind: Kind) -> Result<Vec<u8>, String> {
    let mut message = header(id, 0, [1, 0, 0, 0]);
    put_name(&mut message, name)?;
    put(&mut message, &[kind as u16, IN]);
    Ok(message)
}

/// An update of one text of a zone (RFC 2136 sections 2.3 and 2.5).
///
/// # Errors
/// When a name is none, or the text too long for one part.
pub(crate) fn update(id: u16, zone: &str, name: &str, text: &str, change: Change) -> Result<Vec<u8>, String> {
    let mut message = header(id, UPDATE, [1, 0, 1, 0]);
    put_name(&mut message, zone)?;
    put(&mut message, &[Kind::Soa as u16, IN]);
    put_name(&mut message, name)?;
    let (class, ttl) = match change {
        Change::Add(ttl) => (IN, ttl),
        Change::Remove => (NONE, 0),
    };
    put(&mut message, &[Kind::Txt as u16, class]);
    message.extend(ttl.to_be_bytes());
    let length = u8::try_from(text.len()).map_err(|_| "the text of a record is too long".to_owned())?;
    put(&mut message, &[u16::from(length) + 1]);
    message.push(length);
    message.extend(text.as_bytes());
    Ok(message)
}

/// Reads the answer to the message of this number.
///
/// # Errors
/// A text, when it is none.
pub fn answer(bytes: &[u8], id: u16) -> Result<Answer, String> {
    let mut reader = Reader { bytes, at: 0 };
    let read = |reader: &mut Reader<'_>| {
        let (number, flags) = (reader.u16()?, reader.u16()?);
        let counts = [reader.u16()?, reader.u16()?, reader.u16()?, reader.u16()?];
        if number != id || flags & 0x8000 == 0 {
            return None;
        }
        for _ in 0..counts[0] {
            reader.name()?;
            reader.take(4)?;
        }
        let count = usize::from(counts[1]) + usize::from(counts[2]);
        let records = (0..count.min(RECORDS_MAX)).map(|_| reader.record().map(|(_, record)| record));
        Some(Answer { code: (flags & 15) as u8, records: records.collect::<Option<_>>()? })
    };
    read(&mut reader).ok_or_else(|| "the name server's answer cannot be read".to_owned())
}

/// What a code means (RFC 1035 section 4.1.1, RFC 2136 section 2.2).
pub(crate) fn meaning(code: u8) -> &'static str {
    match code {
        1 => "FORMERR: it cannot read the message",
        2 => "SERVFAIL: it failed",
        3 => "NXDOMAIN: there is no such name",
        4 => "NOTIMP: it takes no such messages",
        5 => "REFUSED: it does not do this for this client or key",
        9 => "NOTAUTH: it does not have the zone, or does not take the key",
        10 => "NOTZONE: the name is not in the zone",
        _ => "an error",
    }
}

/// Where the last record of a message begins, which is of this type, with what stands in it.
pub(super) fn last_record(bytes: &[u8], kind: u16) -> Option<(usize, &[u8])> {
    let mut reader = Reader { bytes, at: 4 };
    let counts = [reader.u16()?, reader.u16()?, reader.u16()?, reader.u16()?];
    for _ in 0..counts[0] {
        reader.name()?;
        reader.take(4)?;
    }
    let count: usize = counts[1..].iter().map(|count| usize::from(*count)).sum();
    let mut last = None;
    for _ in 0..count {
        let begin = reader.at;
        let (found, _) = reader.record()?;
        last = Some((begin, found)).filter(|(_, found)| found.0 == kind);
    }
    last.filter(|_| reader.at == bytes.len() && counts[3] > 0).map(|(begin, (_, data))| (begin, data))
}

fn header(id: u16, flags: u16, counts: [u16; 4]) -> Vec<u8> {
    let mut message = Vec::with_capacity(512);
    put(&mut message, &[id, flags]);
    put(&mut message, &counts);
    message
}

fn put(message: &mut Vec<u8>, numbers: &[u16]) {
    message.extend(numbers.iter().flat_map(|number| number.to_be_bytes()));
}

/// A name as a sequence of labels, in lower case, which is also its canonical form (RFC 4034 section 6.2).
pub(super) fn put_name(message: &mut Vec<u8>, name: &str) -> Result<(), String> {
    let begin = message.len();
    for label in name.split('.').filter(|_| !name.is_empty()) {
        match u8::try_from(label.len()) {
            Ok(length @ 1..=63) => message.push(length),
            _ => return Err(format!("{name} is no name")),
        }
        message.extend(label.bytes().map(|byte| byte.to_ascii_lowercase()));
    }
    message.push(0);
    match message.len() - begin <= NAME_BYTES_MAX {
        true => Ok(()),
        false => Err(format!("{name} is too long for a name")),
    }
}

/// The type of a record, and what stands in it.
type Found<'a> = (u16, &'a [u8]);

/// Reads from a message, from `at` on.
struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let taken = self.bytes.get(self.at..self.at.checked_add(count)?)?;
        self.at += count;
        Some(taken)
    }

    fn u8(&mut self) -> Option<u8> {
        self.take(1)?.first().copied()
    }

    fn u16(&mut self) -> Option<u16> {
        Some(u16::from_be_bytes(self.take(2)?.try_into().ok()?))
    }

    /// A name, which may go on at an earlier place (RFC 1035 section 4.1.4). Each jump leads further back than the one before,
    /// so that there is an end.
    fn name(&mut self) -> Option<String> {
        let (mut name, mut end) = (String::new(), None);
        let mut lowest = self.at;
        loop {
            let length = self.u8()?;
            match length {
                0 => break,
                1..=63 => {
                    let label = self.take(usize::from(length))?;
                    if !name.is_empty() {
                        name.push('.');
                    }
                    let plain = |byte: &u8| char::from(byte.to_ascii_lowercase());
                    name.extend(label.iter().map(plain));
                }
                0xc0.. => {
                    let to = usize::from(length & 63) << 8 | usize::from(self.u8()?);
                    end = end.or(Some(self.at));
                    if to >= lowest || to < HEADER_BYTES {
                        return None;
                    }
                    (self.at, lowest) = (to, to);
                }
                _ => return None,
            }
            if name.len() > NAME_BYTES_MAX * 2 {
                return None;
            }
        }
        self.at = end.unwrap_or(self.at);
        Some(name)
    }

    fn record(&mut self) -> Option<(Found<'a>, Record)> {
        let name = self.name()?;
        let kind = self.u16()?;
        self.take(6)?;
        let length = self.u16()?;
        let data = self.take(usize::from(length))?;
        let said = match kind {
            6 => Data::Soa,
            16 => {
                let (mut parts, mut text) = (Reader { bytes: data, at: 0 }, Vec::new());
                while parts.at < data.len() {
                    let length = parts.u8()?;
                    text.extend(parts.take(usize::from(length))?);
                }
                Data::Txt(text)
            }
            _ => Data::Other,
        };
        Some(((kind, data), Record { name, data: said }))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn questions_and_updates_stand_on_the_wire_as_the_rfcs_have_them() {
        let soa = question(0x0102, "A.example", Kind::Soa).unwrap();
        assert_eq!(soa, b"\x01\x02\0\0\0\x01\0\0\0\0\0\0\x01a\x07example\0\0\x06\0\x01");
        let add = update(7, "example", "a.example", "text", Change::Add(60)).unwrap();
        let zone = b"\0\x07\x28\0\0\x01\0\0\0\x01\0\0\x07example\0\0\x06\0\x01";
        assert_eq!(add, [&zone[..], b"\x01a\x07example\0\0\x10\0\x01\0\0\0\x3c\0\x05\x04text"].concat());
        let remove = update(7, "example", "a.example", "text", Change::Remove).unwrap();
        assert_eq!(remove, [&zone[..], b"\x01a\x07example\0\0\x10\0\xfe\0\0\0\0\0\x05\x04text"].concat());
        let long = ["a"; 200].join(".");
        for name in ["a..b", ".", &"a".repeat(64), &long] {
            assert!(question(1, name, Kind::Txt).is_err(), "{name}");
        }
        assert!(update(7, "example", "a.example", &"x".repeat(256), Change::Remove).is_err());
    }

    #[test]
    fn an_answer_is_read_with_compressed_names() {
        let bytes = b"\0\x07\x84\0\0\x01\0\x02\0\x01\0\0\x01a\x07Example\0\0\x10\0\x01\
                      \xc0\x0c\0\x10\0\x01\0\0\0\x3c\0\x05\x02te\x01x\
                      \x01b\xc0\x0e\0\x05\0\x01\0\0\0\x3c\0\x02\xc0\x0c\
                      \xc0\x0e\0\x06\0\x01\0\0\0\x3c\0\0";
        let found = answer(bytes, 7).unwrap();
        let record = |name: &str, data| Record { name: name.to_owned(), data };
        let text = Data::Txt(b"tex".to_vec());
        let records =
            vec![record("a.example", text), record("b.example", Data::Other), record("example", Data::Soa)];
        assert_eq!(found, Answer { code: 0, records });
        assert!(answer(bytes, 8).is_err(), "it answers another message");
        assert!(answer(&bytes[..bytes.len() - 1], 7).is_err(), "it is cut");
        // A name that leads to itself.
        let circle = b"\0\x07\x84\0\0\x01\0\0\0\0\0\0\xc0\x0c\0\x10\0\x01";
        assert!(answer(circle, 7).is_err());
    }

    proptest! {
        #[test]
        fn no_answer_is_too_odd(bytes in proptest::collection::vec(any::<u8>(), 0..300), tail in 0_usize..40) {
            let _ = answer(&bytes, 7);
            let _ = last_record(&bytes, 250);
            // A message whose header is right, so that what follows is read.
            let mut with_header = b"\0\x07\x84\0\0\x01\0\x02\0\x01\0\x01".to_vec();
            with_header.extend(&bytes);
            let _ = answer(&with_header, 7);
            let _ = last_record(&with_header, 250);
            let good = update(7, "example", "a.example", "text", Change::Add(1)).unwrap();
            let _ = last_record(&good[..good.len().saturating_sub(tail)], 250);
        }

        #[test]
        fn what_is_written_is_read(name in "[a-z0-9_-]{1,63}(\\.[a-z0-9-]{1,30}){0,5}", text in "[A-Za-z0-9_-]{0,255}") {
            let mut message = update(7, "", &name, &text, Change::Add(1)).unwrap();
            // The flags of an answer; the record counts as one about the authority.
            message[2] |= 0x80;
            let found = answer(&message, 7).unwrap();
            prop_assert_eq!(found.records, vec![Record { name, data: Data::Txt(text.into_bytes()) }]);
        }
    }
}
