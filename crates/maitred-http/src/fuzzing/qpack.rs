//! QPACK against a decoder that is written plainly: with copies, all entries kept for ever, and nothing bounded but what the RFC
//! bounds.

use super::hpack::{Field, Reference as Strings};
use crate::h3::qpack::{Bounds, Decoder, Outcome, static_table};

/// Why the plain decoder stops.
#[derive(Debug, PartialEq, Eq)]
enum Stop {
    /// More bytes are needed.
    Truncated,
    /// The bytes break the RFC.
    Broken,
}

/// The plain decoder.
#[derive(Debug)]
struct Reference {
    advertised_bytes: usize,
    capacity: usize,
    /// All entries that were ever inserted.
    all: Vec<Field>,
    /// How many of them were evicted.
    evicted: usize,
    /// What the encoder stream has, from the first instruction on that was not carried out.
    stream: Vec<u8>,
}

impl Reference {
    fn bytes(&self) -> usize {
        self.all[self.evicted..].iter().map(|(name, value)| name.len() + value.len() + 32).sum()
    }

    fn shrink(&mut self, bytes_max: usize) {
        while self.bytes() > bytes_max {
            self.evicted += 1;
        }
    }

    fn encoder_stream(&mut self, bytes: &[u8]) -> Result<(), Stop> {
        self.stream.extend_from_slice(bytes);
        loop {
            let stream = self.stream.clone();
            let mut rest = &stream[..];
            match self.instruction(&mut rest) {
                Ok(()) => self.stream = rest.to_vec(),
                Err(Stop::Truncated) => return Ok(()),
                Err(Stop::Broken) => return Err(Stop::Broken),
            }
        }
    }

    fn instruction(&mut self, bytes: &mut &[u8]) -> Result<(), Stop> {
        let first = *bytes.first().ok_or(Stop::Truncated)?;
        let field = match first.leading_zeros() {
            0 => {
                let index = integer(bytes, 6, 4)?;
                let name = if first & 0x40 != 0 { fixed(index)?.0 } else { self.newest(index)?.0 };
                (name, string(bytes, 7)?)
            }
            1 => (string(bytes, 5)?, string(bytes, 7)?),
            2 => {
                self.capacity = integer(bytes, 5, 4)? as usize;
                self.shrink(self.capacity);
                let allowed = self.capacity <= self.advertised_bytes;
                return if allowed { Ok(()) } else { Err(Stop::Broken) };
            }
            _ => {
                let index = integer(bytes, 5, 4)?;
                self.newest(index)?
            }
        };
        let counted = field.0.len() + field.1.len() + 32;
        self.shrink(self.capacity.checked_sub(counted).ok_or(Stop::Broken)?);
        self.all.push(field);
        Ok(())
    }

    fn newest(&self, index: u64) -> Result<Field, Stop> {
        let absolute = (self.all.len() as u64).checked_sub(index + 1).ok_or(Stop::Broken)?;
        self.absolute(absolute)
    }

    fn absolute(&self, absolute: u64) -> Result<Field, Stop> {
        let kept = absolute >= self.evicted as u64;
        self.all.get(absolute as usize).filter(|_| kept).cloned().ok_or(Stop::Broken)
    }

    /// The Required Insert Count that has this encoded form, and is nearest to what was inserted (9204-4.5.1.1).
    fn required(&self, encoded: u64) -> Result<u64, Stop> {
        let entries_max = self.advertised_bytes as u64 / 32;
        if encoded == 0 {
            return Ok(0);
        }
        let inserted = self.all.len() as u64;
        let mut near = (inserted + 1).saturating_sub(entries_max)..=inserted + entries_max;
        near.find(|count| *count > 0 && count % (2 * entries_max) + 1 == encoded).ok_or(Stop::Broken)
    }

    /// The fields of a section; `None` if it waits for entries.
    fn section(&self, mut bytes: &[u8]) -> Result<Option<(u64, Vec<Field>)>, Stop> {
        let required = self.required(integer(&mut bytes, 8, 9)?)?;
        let sign = *bytes.first().ok_or(Stop::Broken)? >= 0x80;
        let delta = integer(&mut bytes, 7, 9)?;
        let base = if sign { required.checked_sub(delta + 1).ok_or(Stop::Broken)? } else { required + delta };
        if required > self.all.len() as u64 {
            return Ok(None);
        }
        let entry = |absolute: Option<u64>| match absolute {
            Some(absolute) if absolute < required => self.absolute(absolute),
            _ => Err(Stop::Broken),
        };
        let before = |index: u64| entry(base.checked_sub(index + 1));
        let mut fields = Vec::new();
        while let Some(first) = bytes.first() {
            let first = *first;
            fields.push(match first.leading_zeros() {
                0 => {
                    let index = integer(&mut bytes, 6, 4)?;
                    if first & 0x40 != 0 { fixed(index)? } else { before(index)? }
                }
                1 => {
                    let index = integer(&mut bytes, 4, 4)?;
                    let name = if first & 0x10 != 0 { fixed(index)? } else { before(index)? }.0;
                    (name, string(&mut bytes, 7)?)
                }
                2 => (string(&mut bytes, 3)?, string(&mut bytes, 7)?),
                3 => entry(Some(base + integer(&mut bytes, 4, 4)?))?,
                _ => {
                    let name = entry(Some(base + integer(&mut bytes, 3, 4)?))?.0;
                    (name, string(&mut bytes, 7)?)
                }
            });
        }
        Ok(Some((required, fields)))
    }
}

fn fixed(index: u64) -> Result<Field, Stop> {
    let entry = static_table::FIELDS.get(index as usize).ok_or(Stop::Broken)?;
    Ok((entry.0.into(), entry.1.into()))
}

fn integer(bytes: &mut &[u8], prefix_bits: u32, continuations_max: u32) -> Result<u64, Stop> {
    let mut next = || {
        let (byte, rest) = bytes.split_first().ok_or(Stop::Truncated)?;
        *bytes = rest;
        Ok(u64::from(*byte))
    };
    let mask = (1 << prefix_bits) - 1;
    let mut value = next()? & mask;
    if value < mask {
        return Ok(value);
    }
    for number in 0..continuations_max {
        let byte = next()?;
        value += (byte % 128) << (7 * number);
        if byte < 128 {
            return if value < 1 << 62 { Ok(value) } else { Err(Stop::Broken) };
        }
    }
    Err(Stop::Broken)
}

fn string(bytes: &mut &[u8], prefix_bits: u32) -> Result<Vec<u8>, Stop> {
    let huffman = *bytes.first().ok_or(Stop::Truncated)? >> prefix_bits & 1 == 1;
    let length = integer(bytes, prefix_bits, 4)?;
    let (coded, rest) = bytes.split_at_checked(length as usize).ok_or(Stop::Truncated)?;
    *bytes = rest;
    if huffman { Strings::huffman(coded).map_err(|_| Stop::Broken) } else { Ok(coded.to_vec()) }
}

/// What happens on a connection.
#[derive(Debug, Clone)]
pub(crate) enum Step {
    /// Bytes of the encoder stream.
    Instructions(Vec<u8>),
    /// A section on a stream.
    Section(u64, Vec<u8>),
}

/// Sections and instructions of one connection: the decoder and one that is written plainly agree on what is an error, on the
/// fields within the bounds, on what is acknowledged and on the table, and so does a decoder whose bytes come one by one.
///
/// The input is the size of the table in 8 bytes, the bounds in 8 bytes and in fields, then steps: a byte that says which, and a
/// byte of length.
pub fn qpack_decoder(data: &[u8]) {
    let [table, list, fields, rest @ ..] = data else { return };
    let bounds = Bounds { list_bytes_max: usize::from(*list) * 8, fields_max: usize::from(*fields) };
    let (mut steps, mut rest) = (Vec::new(), rest);
    while let [kind, length, behind @ ..] = rest {
        let (bytes, behind) = behind.split_at(behind.len().min(usize::from(*length)));
        steps.push(match kind % 2 {
            0 => Step::Instructions(bytes.to_vec()),
            _ => Step::Section(u64::from(kind / 2), bytes.to_vec()),
        });
        rest = behind;
    }
    check(usize::from(*table) * 8, bounds, &steps);
}

/// What [`qpack_decoder`] says, of steps. Whether all of them were right.
pub(crate) fn check(advertised_bytes: usize, bounds: Bounds, steps: &[Step]) -> bool {
    let (evicted, capacity, all, stream) = (0, 0, Vec::new(), Vec::new());
    let mut reference = Reference { advertised_bytes, capacity, all, evicted, stream };
    let mut decoders = [Decoder::new(advertised_bytes, 1000), Decoder::new(advertised_bytes, 1000)];
    for step in steps {
        let (stream, section) = match step {
            Step::Instructions(bytes) => {
                if !check_instructions(&mut reference, &mut decoders, bytes) {
                    return false;
                }
                continue;
            }
            Step::Section(stream, section) => (*stream, section),
        };
        let mut seen: Vec<Field> = Vec::new();
        let [decoder, _] = &mut decoders;
        let decoded =
            decoder.decode(stream, section, bounds, |name, value| seen.push((name.into(), value.into())));
        let Ok(wanted) = reference.section(section) else {
            assert!(decoded.is_err(), "a broken section was taken");
            return false;
        };
        let mut said = Vec::new();
        decoder.take_out(&mut said);
        let mut wanted_said = Vec::new();
        let Some((required, fields)) = wanted else {
            assert_eq!((seen.len(), decoded), (0, Ok(Outcome::Blocked)));
            continue;
        };
        if required > 0 {
            assert!(stream < 127);
            wanted_said.push(0x80 | stream as u8);
        }
        let wanted = super::hpack::within(fields.into_iter(), bounds);
        assert_eq!((seen, decoded), (wanted.0, Ok(Outcome::Decoded(wanted.1))));
        assert!(said.starts_with(&wanted_said), "a section was not acknowledged");
    }
    true
}

/// Bytes of the encoder stream, as a whole to the first decoder and one by one to the second one.
fn check_instructions(reference: &mut Reference, decoders: &mut [Decoder; 2], bytes: &[u8]) -> bool {
    let [whole, single] = decoders;
    let taken = whole.encoder_stream(bytes);
    let one_by_one = bytes.iter().try_for_each(|byte| single.encoder_stream(&[*byte]));
    assert_eq!(taken, one_by_one, "the way the bytes arrive changes the answer");
    let wanted = reference.encoder_stream(bytes);
    if taken.is_err() {
        // What is too large for the table is known from its length.
        assert!(wanted.is_err() || !reference.stream.is_empty(), "right instructions were refused");
        return false;
    }
    assert_eq!(wanted, Ok(()), "a broken instruction was carried out");
    for decoder in decoders {
        assert_eq!(decoder.inserted(), reference.all.len() as u64);
        assert_eq!(decoder.table_bytes(), reference.bytes());
    }
    true
}

/// Fields of a section come back from the encoder, in lower case.
#[cfg(test)]
pub(crate) fn check_encoder(fields: &[Field]) {
    use crate::h3::qpack::{Decoded, Encoder};
    let (mut section, mut seen) = (Vec::new(), Vec::<Field>::new());
    Encoder::begin(&mut section);
    fields.iter().for_each(|(name, value)| Encoder::field(name, value, &mut section));
    let bounds = Bounds { list_bytes_max: usize::MAX, fields_max: usize::MAX };
    let decoded =
        Decoder::new(0, 0).decode(0, &section, bounds, |name, value| seen.push((name.into(), value.into())));
    assert_eq!(decoded, Ok(Outcome::Decoded(Decoded::Complete)));
    let lower = fields.iter().map(|(name, value)| (name.to_ascii_lowercase(), value.clone()));
    assert!(lower.eq(seen), "the encoder has changed a field");
}
