//! The dynamic table of a decoder (9204-3.2).

use super::FIELD_OVERHEAD_BYTES;
use super::fault::Fault;
use crate::compression::table::Table;

/// Offsets in a table have 32 bits, and each connection pays for the memory.
const TABLE_BYTES_MOST: usize = 1 << 20;

/// Entries by their absolute index, the first one that was ever inserted being 0 (9204-3.2.4).
#[derive(Debug)]
pub(super) struct DynamicTable {
    table: Table,
    /// What was advertised: no capacity is larger.
    advertised_bytes: usize,
    /// Entries that were ever inserted.
    inserted: u64,
}

impl DynamicTable {
    /// A table without capacity, which the peer may set up to `advertised_bytes` (9204-3.2.3).
    pub(super) fn new(advertised_bytes: usize) -> DynamicTable {
        let advertised_bytes = advertised_bytes.min(TABLE_BYTES_MOST);
        DynamicTable { table: Table::new(0), advertised_bytes, inserted: 0 }
    }

    pub(super) fn advertised_bytes(&self) -> usize {
        self.advertised_bytes
    }

    /// What the entries may count for at the moment.
    pub(super) fn capacity(&self) -> usize {
        self.table.bytes_max()
    }

    /// What the entries count for.
    pub(super) fn bytes(&self) -> usize {
        self.table.bytes()
    }

    /// The Insert Count.
    pub(super) fn inserted(&self) -> u64 {
        self.inserted
    }

    /// Changes the capacity; what has no room any more is evicted.
    pub(super) fn set_capacity(&mut self, bytes: usize) -> Result<(), Fault> {
        if bytes > self.advertised_bytes {
            return Err(Fault::Capacity);
        }
        self.table.set_bytes_max(bytes);
        Ok(())
    }

    /// The entry with an absolute index, if it was inserted and not evicted.
    #[inline]
    pub(super) fn get(&self, absolute: u64) -> Option<(&[u8], &[u8])> {
        let index = self.inserted.checked_sub(absolute)?;
        self.table.get(usize::try_from(index).ok()?)
    }

    /// The entry with an index as the encoder stream has them: 0 is the newest (9204-3.2.5).
    pub(super) fn newest(&self, index: usize) -> Result<(&[u8], &[u8]), Fault> {
        self.table.get(index.saturating_add(1)).ok_or(Fault::DynamicIndex)
    }

    /// Inserts an entry. Unlike in HPACK, one that is larger than the table is an error (9204-3.2.2).
    pub(super) fn insert(&mut self, name: &[u8], value: &[u8]) -> Result<(), Fault> {
        if name.len() + value.len() + FIELD_OVERHEAD_BYTES > self.capacity() {
            return Err(Fault::EntryTooLarge);
        }
        self.table.insert(name, value);
        self.inserted += 1;
        Ok(())
    }

    /// The Required Insert Count that is meant by its encoded form (9204-4.5.1.1).
    pub(super) fn required(&self, encoded: u64) -> Result<u64, Fault> {
        let entries_max = (self.advertised_bytes / FIELD_OVERHEAD_BYTES) as u64;
        let full_range = 2 * entries_max;
        if encoded == 0 {
            return Ok(0);
        }
        if encoded > full_range {
            return Err(Fault::Required);
        }
        let value_max = self.inserted + entries_max;
        let value = value_max / full_range * full_range + encoded - 1;
        let value =
            if value <= value_max { value } else { value.checked_sub(full_range).ok_or(Fault::Required)? };
        if value == 0 { Err(Fault::Required) } else { Ok(value) }
    }
}
