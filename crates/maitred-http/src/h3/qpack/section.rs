//! From field sections to fields (9204-4.5).

use super::dynamic_table::DynamicTable;
use super::fault::Fault;
use super::static_table;
use super::{Bounds, Decoded};
use crate::compression::input::Input;
use crate::compression::strings::{List, Scratch, Text};

/// What a section says first (9204-4.5.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Prefix {
    /// The Required Insert Count: so many entries were inserted before the section can be decoded.
    pub(super) required: u64,
    /// What indexes are relative to.
    base: u64,
}

impl Prefix {
    pub(super) fn read(input: &mut Input<'_>, table: &DynamicTable) -> Result<Prefix, Fault> {
        let required = table.required(input.long_integer(8)?)?;
        let below = input.peek().ok_or(Fault::Truncated)? & 0x80 != 0;
        let delta = input.long_integer(7)?;
        let base = if below {
            // One more is subtracted than said: there is a second way to write 0 already.
            required.checked_sub(delta).and_then(|base| base.checked_sub(1)).ok_or(Fault::Base)?
        } else {
            required + delta
        };
        Ok(Prefix { required, base })
    }
}

/// The entries that a section may refer to.
#[derive(Clone, Copy)]
pub(super) struct Entries<'t> {
    pub(super) table: &'t DynamicTable,
    pub(super) prefix: Prefix,
}

type Field<'t> = (&'t [u8], &'t [u8]);

impl<'t> Entries<'t> {
    fn fixed(index: usize) -> Result<Field<'t>, Fault> {
        static_table::get(index).ok_or(Fault::StaticIndex)
    }

    /// An entry before the base: 0 is the last one before it (9204-3.2.5).
    fn relative(self, index: usize) -> Result<Field<'t>, Fault> {
        let absolute = self.prefix.base.checked_sub(index as u64 + 1);
        self.absolute(absolute.ok_or(Fault::DynamicIndex)?)
    }

    /// An entry from the base on (9204-3.2.6).
    fn post_base(self, index: usize) -> Result<Field<'t>, Fault> {
        self.absolute(self.prefix.base + index as u64)
    }

    fn absolute(self, absolute: u64) -> Result<Field<'t>, Fault> {
        if absolute >= self.prefix.required {
            return Err(Fault::Required);
        }
        self.table.get(absolute).ok_or(Fault::DynamicIndex)
    }

    fn chosen(self, fixed: bool, index: usize) -> Result<Field<'t>, Fault> {
        if fixed { Self::fixed(index) } else { self.relative(index) }
    }
}

/// Decodes what follows the prefix. What is beyond the bounds is checked, and not given to `field`.
pub(super) fn decode(
    entries: Entries<'_>,
    mut input: Input<'_>,
    bounds: Bounds,
    scratch: &mut Scratch,
    mut field: impl FnMut(&[u8], &[u8]),
) -> Result<Decoded, Fault> {
    let mut list = List::new(bounds);
    while let Some(first) = input.peek() {
        let known = match first {
            0x80.. => Some(entries.chosen(first & 0x40 != 0, input.integer(6)?)?),
            0x10..0x20 => Some(entries.post_base(input.integer(4)?)?),
            _ => None,
        };
        match known {
            Some((name, value)) => {
                if list.admits(name.len(), value.len()) {
                    field(name, value);
                }
            }
            None => literal(entries, &mut input, &mut list, scratch, &mut field)?,
        }
    }
    scratch.end_block();
    Ok(list.decoded())
}

/// A field whose value, and perhaps whose name, is in the section.
///
/// Whether it may be indexed by those that send it on does not matter: Maitred never sends one on.
fn literal(
    entries: Entries<'_>,
    input: &mut Input<'_>,
    list: &mut List,
    scratch: &mut Scratch,
    field: &mut impl FnMut(&[u8], &[u8]),
) -> Result<(), Fault> {
    scratch.begin_field();
    let kept_bytes_max = list.bytes_left();
    let first = input.peek().ok_or(Fault::Truncated)?;
    let name = match first {
        0x40.. => Text::Elsewhere(entries.chosen(first & 0x10 != 0, input.integer(4)?)?.0),
        0x20.. => Text::read(input.string(3)?, kept_bytes_max, scratch)?,
        _ => Text::Elsewhere(entries.post_base(input.integer(3)?)?.0),
    };
    let value = Text::read(input.string(7)?, kept_bytes_max, scratch)?;
    if list.admits(name.len(), value.len())
        && let Some((name, value)) = name.bytes(scratch).zip(value.bytes(scratch))
    {
        field(name, value);
    }
    Ok(())
}
