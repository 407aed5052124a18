//! What a file consists of: a header of a fixed size, the body, and behind it one or more heads, of which the last whole one is
//! valid. All numbers are little-endian.
//!
//! The body stands at a place that is known before anything else is, so that it can be written as it comes and sent as it is. A
//! response that was revalidated gets another head behind the last one. What is torn there, by a process that was killed or a
//! disk that is full, ends the chain: what stands before it is valid.
//!
//! | header: bytes | what |
//! |---|---|
//! | 0..8 | [`MAGIC`] |
//! | 8..12 | [`VERSION`] |
//! | 12..16 | CRC-32 of the body |
//! | 16..24 | bytes of the body |
//! | 24..32 | number of the file |
//! | 32..40 | the system's start that it was written in |
//! | 40..60 | 0 |
//! | 60..64 | CRC-32 of the bytes before |
//!
//! | head: bytes | what |
//! |---|---|
//! | 0..4 | [`HEAD_MAGIC`] |
//! | 4..8 | bytes of this head |
//! | 8..12 | CRC-32 of all that follows |
//! | 12..20 | number of the file |
//! | 20..28 | number of the head |
//! | 28..36 | until when it is of use |
//! | 36..38 | status |
//! | 38 | kind |
//! | 39 | 1: soft purged |
//! | 40..104 | lifetime |
//! | 104..112 | epoch of a note of varying |
//! | 112.. | key, fields, tags, names of fields: see [`encode_head`] |
//!
//! What is read here may have been written by anything: every length is checked, and names and values of fields are as HTTP wants
//! them.

use flate2::Crc;
use maitred_http::fields::FieldLines;

use super::entry::{Head, Kind};
use super::key::KEY_BYTES_MAX;

/// Bytes of the header.
pub(super) const HEADER_BYTES: usize = 64;
/// What a file begins with.
const MAGIC: &[u8; 8] = b"mtr-stor";
/// The format that this code writes, and the only one that it reads.
const VERSION: u32 = 1;
const HEAD_MAGIC: &[u8; 4] = b"head";
/// What stands at a fixed place of a head.
const HEAD_FIXED: usize = 112;
/// Bytes of one head at most; a response with a larger one is not stored.
pub(super) const HEAD_BYTES_MAX: usize = 128 * 1024;
/// Heads of a file at most, and bytes of those before the last one: then it is written anew with the last one alone.
pub(super) const HEADS_MAX: usize = 16;
pub(super) const OLD_HEADS_BYTES_MAX: usize = 64 * 1024;
/// What can be behind a body.
pub(super) const TAIL_BYTES_MAX: usize = OLD_HEADS_BYTES_MAX + HEAD_BYTES_MAX;
/// Fields, tags and names at most.
const ITEMS_MAX: usize = 4096;

/// What the header says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Header {
    pub(super) body_bytes: u64,
    pub(super) body_crc: u32,
    pub(super) file: u64,
    pub(super) boot: u64,
}

/// A head as it stands in a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct StoredHead {
    pub(super) key: Box<[u8]>,
    pub(super) head: Head,
    pub(super) file: u64,
    pub(super) stamp: u64,
    pub(super) soft_purged: bool,
}

/// The last whole head of a file, and what is to be known to put another one behind it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Tail {
    pub(super) last: StoredHead,
    /// Whole heads.
    pub(super) heads: usize,
    /// Bytes of those heads. If there are more in the file, what follows is torn.
    pub(super) bytes: usize,
}

/// CRC-32 of some bytes.
pub(super) fn crc(bytes: &[u8]) -> u32 {
    let mut crc = Crc::new();
    crc.update(bytes);
    crc.sum()
}

pub(super) fn encode_header(header: &Header) -> [u8; HEADER_BYTES] {
    let mut out = Vec::with_capacity(HEADER_BYTES);
    out.extend_from_slice(MAGIC);
    out.extend_from_slice(&VERSION.to_le_bytes());
    out.extend_from_slice(&header.body_crc.to_le_bytes());
    for number in [header.body_bytes, header.file, header.boot] {
        out.extend_from_slice(&number.to_le_bytes());
    }
    out.resize(HEADER_BYTES - 4, 0);
    let sum = crc(&out);
    out.extend_from_slice(&sum.to_le_bytes());
    let mut bytes = [0; HEADER_BYTES];
    bytes.iter_mut().zip(&out).for_each(|(to, from)| *to = *from);
    bytes
}

/// `None` for anything else than a header of this version.
pub(super) fn decode_header(bytes: &[u8]) -> Option<Header> {
    let (before, sum) = bytes.get(..HEADER_BYTES)?.split_at(HEADER_BYTES - 4);
    let mut reader = Reader(before);
    if reader.take(8)? != MAGIC || reader.u32()? != VERSION || sum != crc(before).to_le_bytes() {
        return None;
    }
    let body_crc = reader.u32()?;
    let header = Header { body_crc, body_bytes: reader.u64()?, file: reader.u64()?, boot: reader.u64()? };
    reader.0.iter().all(|byte| *byte == 0).then_some(header)
}

/// `None` for a head that is too large.
///
/// Behind what is at fixed places: bytes of the key, the number of fields, of tags and of names (4 bytes each), the key, for each
/// field the bytes of its name and its value (4 each) and both, and for each tag and each name its bytes (4) and itself.
pub(super) fn encode_head(stored: &StoredHead) -> Option<Vec<u8>> {
    let head = &stored.head;
    let (kind, epoch, names) = match &head.kind {
        Kind::Response => (0, 0, &[][..]),
        Kind::Vary { names, epoch } => (1, *epoch, &names[..]),
    };
    let items = [head.fields.len(), head.tags.len(), names.len()];
    if stored.key.len() > KEY_BYTES_MAX || items.iter().any(|count| *count > ITEMS_MAX) {
        return None;
    }
    let mut out = Vec::with_capacity(512 + stored.key.len());
    out.extend_from_slice(HEAD_MAGIC);
    out.extend_from_slice(&[0; 8]);
    for number in [stored.file, stored.stamp, head.keep_until] {
        out.extend_from_slice(&number.to_le_bytes());
    }
    out.extend_from_slice(&head.status.to_le_bytes());
    out.extend_from_slice(&[kind, u8::from(stored.soft_purged)]);
    for number in head.lifetime.iter().chain([&epoch]) {
        out.extend_from_slice(&number.to_le_bytes());
    }
    for count in std::iter::once(stored.key.len()).chain(items) {
        push_length(&mut out, count);
    }
    out.extend_from_slice(&stored.key);
    for (name, value) in head.fields.all().iter() {
        push_length(&mut out, name.len());
        push_length(&mut out, value.len());
        out.extend_from_slice(name);
        out.extend_from_slice(value);
        if out.len() > HEAD_BYTES_MAX {
            return None;
        }
    }
    for item in head.tags.iter().chain(names) {
        push_length(&mut out, item.len());
        out.extend_from_slice(item);
    }
    if out.len() > HEAD_BYTES_MAX {
        return None;
    }
    let length = (out.len() as u32).to_le_bytes();
    let sum = crc(out.get(12..)?).to_le_bytes();
    out.get_mut(4..12)?.iter_mut().zip(length.iter().chain(&sum)).for_each(|(to, from)| *to = *from);
    Some(out)
}

/// A length that is below 2^32 because of bounds that are checked before the head is used.
fn push_length(out: &mut Vec<u8>, length: usize) {
    out.extend_from_slice(&u32::try_from(length).unwrap_or(u32::MAX).to_le_bytes());
}

/// What is behind a body: `None` if it does not begin with a whole head of this file.
pub(super) fn decode_tail(bytes: &[u8], file: u64) -> Option<Tail> {
    let mut rest = bytes;
    let mut found: Option<Tail> = None;
    while let Some((last, length)) = decode_head(rest).filter(|(head, _)| head.file == file) {
        let (heads, before) = found.map_or((0, 0), |tail| (tail.heads, tail.bytes));
        found = Some(Tail { last, heads: heads + 1, bytes: before + length });
        rest = rest.get(length..).unwrap_or_default();
    }
    found
}

/// The head that these bytes begin with, and its length.
fn decode_head(bytes: &[u8]) -> Option<(StoredHead, usize)> {
    let mut reader = Reader(bytes);
    if reader.take(4)? != HEAD_MAGIC {
        return None;
    }
    let length = reader.u32()? as usize;
    if !(HEAD_FIXED..=HEAD_BYTES_MAX).contains(&length) {
        return None;
    }
    let sum = reader.u32()?;
    let mut reader = Reader(bytes.get(12..length)?);
    if crc(reader.0) != sum {
        return None;
    }
    let (file, stamp, keep_until) = (reader.u64()?, reader.u64()?, reader.u64()?);
    let status = u16::from_le_bytes(reader.array()?);
    let [kind, soft] = reader.array()?;
    let mut lifetime = [0; 8];
    for number in &mut lifetime {
        *number = reader.u64()?;
    }
    let epoch = reader.u64()?;
    let (key_bytes, fields, tags, names) =
        (reader.u32()? as usize, reader.u32()?, reader.u32()?, reader.u32()?);
    if key_bytes > KEY_BYTES_MAX || [fields, tags, names].iter().any(|count| *count as usize > ITEMS_MAX) {
        return None;
    }
    let key = reader.take(key_bytes)?.into();
    let fields = decode_fields(&mut reader, fields)?;
    let tags = reader.list(tags)?;
    let names = reader.list(names)?;
    let kind = match (kind, names.is_empty() && epoch == 0) {
        (0, true) => Kind::Response,
        (1, _) => Kind::Vary { names, epoch },
        _ => return None,
    };
    let head = Head { kind, status, fields, lifetime, keep_until, tags };
    let is_valid = reader.0.is_empty() && soft <= 1 && (status <= 999);
    is_valid.then_some((StoredHead { key, head, file, stamp, soft_purged: soft == 1 }, length))
}

fn decode_fields(reader: &mut Reader<'_>, count: u32) -> Option<FieldLines> {
    let mut fields = FieldLines::default();
    for _ in 0..count {
        let (name, value) = (reader.u32()? as usize, reader.u32()? as usize);
        let (name, value) = (reader.take(name)?, reader.take(value)?);
        if !is_name(name) || !is_value(value) {
            return None;
        }
        fields.push(name, value);
    }
    Some(fields)
}

/// A token (9110-5.6.2).
fn is_name(name: &[u8]) -> bool {
    let is_token_byte = |byte: &u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(byte);
    !name.is_empty() && name.iter().all(is_token_byte)
}

/// Without bytes that would end a line, or a text.
fn is_value(value: &[u8]) -> bool {
    !value.iter().any(|byte| matches!(byte, 0 | 10 | 13))
}

/// Whether a head can be written and read again as it is.
pub(super) fn is_storable(head: &Head) -> bool {
    let is_line = |(name, value): (&[u8], &[u8])| is_name(name) && is_value(value);
    head.status <= 999 && head.fields.all().iter().all(is_line)
}

/// Bytes that are taken from the front.
#[derive(Debug)]
pub(super) struct Reader<'a>(pub(super) &'a [u8]);

impl<'a> Reader<'a> {
    pub(super) fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(taken)
    }

    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.take(N)?.try_into().ok()
    }

    pub(super) fn u32(&mut self) -> Option<u32> {
        Some(u32::from_le_bytes(self.array()?))
    }

    pub(super) fn u64(&mut self) -> Option<u64> {
        Some(u64::from_le_bytes(self.array()?))
    }

    fn list(&mut self, count: u32) -> Option<Vec<Box<[u8]>>> {
        (0..count)
            .map(|_| {
                let length = self.u32()? as usize;
                Some(self.take(length)?.into())
            })
            .collect()
    }
}

#[cfg(test)]
mod tests;
