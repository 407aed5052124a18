//! HPACK against a decoder that is written plainly: bit by bit, with copies, and nothing bounded but what the RFC bounds.

use std::collections::{HashMap, VecDeque};
use std::sync::LazyLock;

use crate::compression::huffman::{CODE_BITS, EOS};
use crate::h2::hpack::{Bounds, Decoded, Decoder, Encoder, static_table};

/// Name and value.
pub(crate) type Field = (Vec<u8>, Vec<u8>);

/// How a field was represented (7541-6).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    Indexed,
    Inserted,
    Literal,
    NeverIndexed,
}

/// The plain decoder.
#[derive(Debug)]
pub(crate) struct Reference {
    /// The newest first.
    table: VecDeque<Field>,
    table_bytes_max: usize,
    /// What an update may ask for.
    update_bytes_max: usize,
    /// What the first update of the next block must not exceed, if there must be one.
    due: Option<usize>,
}

/// The block breaks the RFC.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Broken;

impl Reference {
    /// Has the default table; the peer may ask for up to `update_bytes_max`.
    pub(crate) fn new(update_bytes_max: usize) -> Reference {
        let (table, due) = (VecDeque::new(), None);
        Reference { table, table_bytes_max: 4096, update_bytes_max, due }
    }

    /// The encoder has got a new size.
    pub(crate) fn advertise(&mut self, bytes_max: usize) {
        self.update_bytes_max = bytes_max;
        if bytes_max < self.due.unwrap_or(self.table_bytes_max) {
            self.due = Some(bytes_max);
        }
    }

    pub(crate) fn table_bytes(&self) -> usize {
        self.table.iter().map(|(name, value)| name.len() + value.len() + 32).sum()
    }

    pub(crate) fn decode(&mut self, mut block: &[u8]) -> Result<Vec<(Form, Field)>, Broken> {
        let mut updates = 0;
        while block.first().is_some_and(|byte| byte >> 5 == 1) {
            let bytes_max = integer(&mut block, 5)?;
            updates += 1;
            if updates > 2 || bytes_max > self.update_bytes_max.min(self.due.unwrap_or(usize::MAX)) {
                return Err(Broken);
            }
            self.due = None;
            self.table_bytes_max = bytes_max;
            self.shrink(bytes_max);
        }
        if self.due.is_some() {
            return Err(Broken);
        }
        let mut fields = Vec::new();
        while let Some(first) = block.first() {
            let (form, prefix_bits) = match first.leading_zeros() {
                0 => (Form::Indexed, 7),
                1 => (Form::Inserted, 6),
                2 => return Err(Broken),
                3 => (Form::NeverIndexed, 4),
                _ => (Form::Literal, 4),
            };
            let index = integer(&mut block, prefix_bits)?;
            let field = match (form, index) {
                (Form::Indexed, _) => self.field(index)?,
                (_, 0) => (Self::string(&mut block)?, Self::string(&mut block)?),
                _ => (self.field(index)?.0, Self::string(&mut block)?),
            };
            if form == Form::Inserted {
                let bytes = field.0.len() + field.1.len() + 32;
                self.shrink(self.table_bytes_max.saturating_sub(bytes));
                if bytes <= self.table_bytes_max {
                    self.table.push_front(field.clone());
                }
            }
            fields.push((form, field));
        }
        Ok(fields)
    }

    fn shrink(&mut self, bytes_max: usize) {
        while self.table_bytes() > bytes_max && self.table.pop_back().is_some() {}
    }

    fn field(&self, index: usize) -> Result<Field, Broken> {
        let index = index.checked_sub(1).ok_or(Broken)?;
        match static_table::FIELDS.get(index) {
            Some((name, value)) => Ok(((*name).into(), (*value).into())),
            None => self.table.get(index - static_table::FIELDS.len()).cloned().ok_or(Broken),
        }
    }

    fn string(block: &mut &[u8]) -> Result<Vec<u8>, Broken> {
        let huffman = *block.first().ok_or(Broken)? >= 0x80;
        let length = integer(block, 7)?;
        let (coded, rest) = block.split_at_checked(length).ok_or(Broken)?;
        *block = rest;
        if huffman { Self::huffman(coded) } else { Ok(coded.to_vec()) }
    }

    /// A string in Huffman's code, bit by bit.
    pub(crate) fn huffman(coded: &[u8]) -> Result<Vec<u8>, Broken> {
        let (mut string, mut bits, mut code) = (Vec::new(), 0, 0);
        for byte in coded {
            for shift in (0..8).rev() {
                (bits, code) = (bits + 1, code << 1 | u32::from(byte >> shift & 1));
                if let Some(symbol) = CODES.get(&(bits, code)) {
                    string.push(u8::try_from(*symbol).map_err(|_| Broken)?);
                    (bits, code) = (0, 0);
                }
            }
        }
        if bits < 8 && code + 1 == 1 << bits { Ok(string) } else { Err(Broken) }
    }
}

/// Symbols by the number of bits and the number of their code: the canonical code of the lengths.
pub(crate) static CODES: LazyLock<HashMap<(u8, u32), usize>> = LazyLock::new(|| {
    let mut symbols: Vec<usize> = (0..=EOS).collect();
    symbols.sort_by_key(|symbol| (CODE_BITS[*symbol], *symbol));
    let mut code = 0_u64;
    let codes = symbols.into_iter().map(|symbol| {
        // `code` is left-aligned in 32 bits.
        let bits = CODE_BITS[symbol];
        let number = (code >> (32 - bits)) as u32;
        code += 1 << (32 - bits);
        ((bits, number), symbol)
    });
    codes.collect()
});

fn integer(block: &mut &[u8], prefix_bits: u32) -> Result<usize, Broken> {
    let mut next = || {
        let (byte, rest) = block.split_first().ok_or(Broken)?;
        *block = rest;
        Ok(usize::from(*byte))
    };
    let mask = (1 << prefix_bits) - 1;
    let mut value = next()? & mask;
    if value < mask {
        return Ok(value);
    }
    for number in 0..4 {
        let byte = next()?;
        value += (byte % 128) << (7 * number);
        if byte < 128 {
            return Ok(value);
        }
    }
    Err(Broken)
}

/// Field blocks of one connection: the decoder and one that is written plainly agree on what is an error, on the fields
/// within the bounds, and on the size of the table.
///
/// The input is the size of the table in 32 bytes, the bounds in 8 bytes and in fields, then blocks with a byte of length
/// each; one without bytes stands for the acknowledged settings.
pub fn hpack_decoder(data: &[u8]) {
    let [table, list, fields, rest @ ..] = data else { return };
    let table_bytes_max = usize::from(*table) * 32;
    let bounds = Bounds { list_bytes_max: usize::from(*list) * 8, fields_max: usize::from(*fields) };
    let (mut blocks, mut rest) = (Vec::new(), rest);
    while let Some((length, behind)) = rest.split_first() {
        let (block, behind) = behind.split_at(behind.len().min(usize::from(*length)));
        blocks.push((*length > 0).then_some(block));
        rest = behind;
    }
    check_decoder(table_bytes_max, bounds, &blocks);
}

/// What [`hpack_decoder`] says, of blocks. `None` stands for the acknowledged settings. Whether all blocks were right.
pub(crate) fn check_decoder(table_bytes_max: usize, bounds: Bounds, blocks: &[Option<&[u8]>]) -> bool {
    let mut decoder = Decoder::new(table_bytes_max);
    let mut reference = Reference::new(table_bytes_max.max(4096));
    for block in blocks {
        let Some(block) = block else {
            decoder.settings_acknowledged();
            reference.advertise(table_bytes_max);
            continue;
        };
        let mut seen: Vec<Field> = Vec::new();
        let decoded = decoder.decode(block, bounds, |name, value| seen.push((name.into(), value.into())));
        let Ok(all) = reference.decode(block) else {
            assert!(decoded.is_err(), "a broken block was taken");
            return false;
        };
        let wanted = within(all.into_iter().map(|(_, field)| field), bounds);
        assert_eq!((seen, decoded), (wanted.0, Ok(wanted.1)));
        assert_eq!(decoder.table_bytes(), reference.table_bytes());
    }
    true
}

/// The fields that bounds let through.
pub(crate) fn within(all: impl Iterator<Item = Field>, bounds: Bounds) -> (Vec<Field>, Decoded) {
    let (mut fields, mut bytes) = (Vec::new(), 0);
    for field in all {
        bytes += field.0.len() + field.1.len() + 32;
        if bytes > bounds.list_bytes_max || fields.len() == bounds.fields_max {
            return (fields, Decoded::TooLarge);
        }
        fields.push(field);
    }
    (fields, Decoded::Complete)
}

/// The operations of an encoder. Trailers have fields.
#[derive(Debug, Clone)]
pub(crate) enum Step {
    /// The peer advertises a table.
    Advertise(u32),
    /// A block: a response if there is a status, else trailers.
    Block(Option<u16>, Vec<Field>),
}

/// What the encoder writes is what it was given, in lower case, by two decoders that know the sizes; secrets are never indexed.
pub(crate) fn check_encoder(steps: &[Step]) {
    let (mut encoder, mut decoder) = (Encoder::new(), Decoder::new(4096));
    let mut reference = Reference::new(4096);
    for step in steps {
        let (status, fields) = match step {
            Step::Advertise(bytes) => {
                encoder.set_table_bytes_max(*bytes);
                reference.advertise(*bytes as usize);
                continue;
            }
            Step::Block(status, fields) => (status, fields),
        };
        if status.is_none() && fields.is_empty() {
            continue;
        }
        let (mut block, mut wanted) = (Vec::new(), Vec::new());
        if let Some(status) = status {
            encoder.status(*status, &mut block);
            wanted.push((b":status".to_vec(), status.to_string().into_bytes()));
        }
        for (name, value) in fields {
            encoder.field(name, value, &mut block);
            wanted.push((name.to_ascii_lowercase(), value.clone()));
        }
        let mut seen: Vec<Field> = Vec::new();
        let bounds = Bounds { list_bytes_max: usize::MAX, fields_max: usize::MAX };
        let decoded = decoder.decode(&block, bounds, |name, value| seen.push((name.into(), value.into())));
        assert_eq!((&seen, decoded), (&wanted, Ok(Decoded::Complete)));
        let read = reference.decode(&block);
        assert!(read.is_ok(), "a block breaks the RFC");
        let read = read.unwrap_or_default();
        for (form, (name, _)) in &read {
            let secret = matches!(name.as_slice(), b"set-cookie" | b"authorization");
            assert!(*form == Form::NeverIndexed || !secret, "a secret was {form:?}");
        }
        assert!(read.into_iter().map(|(_, field)| field).eq(wanted));
        assert_eq!(decoder.table_bytes(), reference.table_bytes());
    }
}

/// Responses of one connection, made of the input, come back from the encoder.
pub fn hpack_encoder(data: &[u8]) {
    const NAMES: [&[u8]; 10] = [
        b"Server",
        b"date",
        b"ETag",
        b"content-length",
        b"Set-Cookie",
        b"authorization",
        b"X-Own",
        b"vary",
        b"a",
        b"",
    ];
    let (mut steps, mut rest) = (Vec::new(), data);
    while let [kind, count, behind @ ..] = rest {
        rest = behind;
        if kind % 8 == 0 {
            steps.push(Step::Advertise(u32::from(*count) * 24));
            continue;
        }
        let mut fields = Vec::new();
        for _ in 0..count % 16 {
            let [name, length, behind @ ..] = rest else { break };
            let (value, behind) = behind.split_at(behind.len().min(usize::from(*length)));
            fields.push((NAMES[usize::from(*name) % NAMES.len()].to_vec(), value.to_vec()));
            rest = behind;
        }
        let status = (kind % 8 > 1).then_some(100 + u16::from(*kind) * 2);
        steps.push(Step::Block(status, fields));
    }
    check_encoder(&steps);
}
