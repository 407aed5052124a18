//! A dynamic table (7541-2.3.2 and 7541-4).

use std::collections::VecDeque;

use super::FIELD_OVERHEAD_BYTES;

/// Bytes that the strings of a table take from the allocator at first.
const ARENA_BYTES_MIN: usize = 512;

/// Fields in the order in which they came, the oldest being evicted first.
///
/// All strings are in one piece of memory, each field's in a row: new ones at its end, evicted ones at its beginning. When the
/// end is reached and a fifth of it is evicted ones, what is left moves to the beginning; otherwise it grows. So it is never
/// larger than the table's size and a quarter of that, and each byte is moved a few times at most.
#[derive(Debug)]
pub(crate) struct Table {
    arena: Vec<u8>,
    /// What `Entry::start` counts from: the place of the arena's first byte. Wraps around.
    arena_start: u32,
    /// The oldest first.
    entries: VecDeque<Entry>,
    /// Sum of what the entries count for.
    bytes: usize,
    bytes_max: usize,
    /// How many fields were ever inserted. Wraps around.
    inserted: u32,
}

#[derive(Debug, Clone, Copy)]
struct Entry {
    start: u32,
    name_bytes: u32,
    value_bytes: u32,
}

impl Entry {
    fn string_bytes(self) -> usize {
        self.name_bytes as usize + self.value_bytes as usize
    }
}

impl Table {
    /// A table for entries that count for at most `bytes_max` in all. Takes no memory until a field is inserted.
    pub(crate) fn new(bytes_max: usize) -> Table {
        let (arena, entries) = (Vec::new(), VecDeque::new());
        Table { arena, arena_start: 0, entries, bytes: 0, bytes_max, inserted: 0 }
    }

    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(crate) fn bytes_max(&self) -> usize {
        self.bytes_max
    }

    /// Memory for strings, in bytes.
    #[cfg(test)]
    pub(crate) fn arena_bytes(&self) -> usize {
        self.arena.capacity()
    }

    /// Changes the size; what has no room any more is evicted (7541-4.3).
    pub(crate) fn set_bytes_max(&mut self, bytes_max: usize) {
        self.bytes_max = bytes_max;
        self.evict(bytes_max);
    }

    /// The field at `index`, 1 being the newest.
    #[inline]
    pub(crate) fn get(&self, index: usize) -> Option<(&[u8], &[u8])> {
        let entry = self.entries.get(self.entries.len().checked_sub(index)?)?;
        let start = entry.start.wrapping_sub(self.arena_start) as usize;
        let strings = self.arena.get(start..start + entry.string_bytes())?;
        strings.split_at_checked(entry.name_bytes as usize)
    }

    /// How many fields were inserted before now: the number of the next one. Wraps around.
    pub(crate) fn next_number(&self) -> u32 {
        self.inserted
    }

    /// Where the field is that was inserted with this number, if it still is.
    #[inline]
    pub(crate) fn index_of(&self, number: u32) -> Option<usize> {
        let index = self.inserted.wrapping_sub(number) as usize;
        (index <= self.entries.len() && index > 0).then_some(index)
    }

    /// Adds a field. A field that is larger than the table empties it, and is not an error (7541-4.4).
    pub(crate) fn insert(&mut self, name: &[u8], value: &[u8]) {
        let strings = name.len() + value.len();
        let counted = strings + FIELD_OVERHEAD_BYTES;
        self.evict(self.bytes_max.saturating_sub(counted));
        let (Ok(name_bytes), Ok(value_bytes)) = (u32::try_from(name.len()), u32::try_from(value.len()))
        else {
            return;
        };
        if counted > self.bytes_max {
            return;
        }
        self.make_room(strings);
        let start = self.arena_start.wrapping_add(self.arena.len() as u32);
        self.arena.extend_from_slice(name);
        self.arena.extend_from_slice(value);
        self.entries.push_back(Entry { start, name_bytes, value_bytes });
        self.bytes += counted;
        self.inserted = self.inserted.wrapping_add(1);
    }

    /// Evicts all fields.
    pub(crate) fn clear(&mut self) {
        self.evict(0);
    }

    fn evict(&mut self, bytes_wanted: usize) {
        while self.bytes > bytes_wanted
            && let Some(entry) = self.entries.pop_front()
        {
            self.bytes -= entry.string_bytes() + FIELD_OVERHEAD_BYTES;
        }
        if self.entries.is_empty() {
            self.arena.clear();
        }
    }

    /// Makes the arena take so many bytes more. The table has evicted enough for them.
    fn make_room(&mut self, bytes: usize) {
        let wanted = self.arena.len() + bytes;
        if wanted <= self.arena.capacity() {
            return;
        }
        let oldest = self.entries.front().map_or(self.arena_start, |entry| entry.start);
        let evicted = oldest.wrapping_sub(self.arena_start) as usize;
        if evicted >= self.arena.len() / 5 {
            self.arena.drain(..evicted);
            self.arena_start = oldest;
        }
        if self.arena.len() + bytes > self.arena.capacity() {
            let most = self.bytes_max + self.bytes_max / 4;
            let capacity = (2 * wanted).max(ARENA_BYTES_MIN).min(most);
            self.arena.reserve_exact(capacity.saturating_sub(self.arena.len()).max(bytes));
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The same, written plainly.
    #[derive(Default)]
    struct Plain(VecDeque<(Vec<u8>, Vec<u8>)>);

    impl Plain {
        fn bytes(&self) -> usize {
            self.0.iter().map(|(name, value)| name.len() + value.len() + 32).sum()
        }

        fn shrink(&mut self, bytes_max: usize) {
            while self.bytes() > bytes_max {
                self.0.pop_back();
            }
        }
    }

    proptest! {
        #[test]
        fn a_table_is_what_is_left_of_its_fields_and_takes_a_quarter_more_at_most(
            steps in proptest::collection::vec((0..90_usize, 0..500_usize, 0..400_usize), 1..300),
        ) {
            const BYTES_MAX: usize = 1000;
            let (mut table, mut plain) = (Table::new(BYTES_MAX), Plain::default());
            for (number, (name_bytes, value_bytes, size)) in steps.into_iter().enumerate() {
                let byte = number as u8;
                let field = (vec![byte; name_bytes], vec![byte ^ 0xff; value_bytes]);
                plain.shrink(table.bytes_max().saturating_sub(name_bytes + value_bytes + 32));
                table.insert(&field.0, &field.1);
                let number = table.next_number().wrapping_sub(1);
                if name_bytes + value_bytes + 32 <= table.bytes_max() {
                    plain.0.push_front(field);
                    prop_assert_eq!(table.index_of(number), Some(1));
                }
                if size < 20 {
                    let bytes_max = if size < 10 { BYTES_MAX } else { size * 40 };
                    table.set_bytes_max(bytes_max);
                    plain.shrink(bytes_max);
                }
                prop_assert_eq!(table.bytes(), plain.bytes());
                for (index, (name, value)) in plain.0.iter().enumerate() {
                    prop_assert_eq!(table.get(index + 1), Some((name.as_slice(), value.as_slice())));
                }
                prop_assert_eq!(table.get(0), None);
                prop_assert_eq!(table.get(plain.0.len() + 1), None);
                prop_assert!(table.arena_bytes() <= BYTES_MAX + BYTES_MAX / 4);
            }
        }
    }

    #[test]
    fn a_table_without_fields_takes_no_memory() {
        let mut table = Table::new(4096);
        assert_eq!(table.arena_bytes(), 0);
        table.insert(b"name", b"value");
        assert_eq!(table.arena_bytes(), ARENA_BYTES_MIN);
    }
}
