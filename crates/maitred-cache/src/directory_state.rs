//! What a directory keeps of itself: the key of the hashes that its files are named by, and which numbers were used.

use std::io;
use std::sync::Arc;

use rustix::rand::{GetRandomFlags, getrandom};

use super::disk::Directory;
use super::key::Seed;
use super::layout::{Reader, crc};

const NAME: &str = "state";
const MAGIC: &[u8; 8] = b"mtr-seed";
const VERSION: u32 = 1;
const BYTES: usize = 40;
/// Numbers that one table has: at a million a second, 200 days. The next one begins behind them, so that its numbers are greater
/// without a look at all files, and whatever the clock says.
const NUMBERS: u64 = 1 << 44;
/// What is greater was made up.
pub(super) const NUMBERS_MAX: u64 = 1 << 62;

/// See the module.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct DirectoryState {
    pub(super) seed: Seed,
    /// The first number of the next table.
    pub(super) next: u64,
}

impl DirectoryState {
    /// The state of a directory; a new one where there is none.
    ///
    /// # Errors
    /// What the system says about reading it, or about random numbers.
    pub(super) fn read(directory: &Directory) -> io::Result<DirectoryState> {
        let bytes = directory.read_small("", NAME, BYTES)?;
        if let Some(state) = bytes.as_deref().and_then(Self::decode) {
            return Ok(state);
        }
        let mut random = [0; 16];
        getrandom(&mut random, GetRandomFlags::empty())?;
        let mut reader = Reader(&random);
        let seed = Seed(reader.u64().unwrap_or_default(), reader.u64().unwrap_or_default());
        Ok(DirectoryState { seed, next: 1 })
    }

    /// Whether it was made just now: no file of the directory is named by it.
    pub(super) fn is_new(&self) -> bool {
        self.next == 1
    }

    /// The first number of a new table, which is not below `least`. The table after it begins behind that one's numbers.
    ///
    /// # Errors
    /// What the system says: the next table may have the same numbers, or, of a new directory, find nothing that this one stores.
    pub(super) fn take_numbers(mut self, directory: &Arc<Directory>, least: u64) -> (u64, io::Result<()>) {
        let first = self.next.max(least);
        self.next = first.saturating_add(NUMBERS);
        (first, directory.write_small("", NAME, &self.encode()))
    }

    /// A state that a test can repeat.
    #[cfg(test)]
    pub(super) fn plant(directory: &Arc<Directory>, seed: u64) {
        let state = DirectoryState { seed: Seed(seed, 1), next: 1 };
        directory.write_small("", NAME, &state.encode()).unwrap();
    }

    fn encode(self) -> Vec<u8> {
        let mut out = MAGIC.to_vec();
        out.extend_from_slice(&VERSION.to_le_bytes());
        for number in [self.seed.0, self.seed.1, self.next] {
            out.extend_from_slice(&number.to_le_bytes());
        }
        let sum = crc(&out);
        out.extend_from_slice(&sum.to_le_bytes());
        out
    }

    fn decode(bytes: &[u8]) -> Option<DirectoryState> {
        let (before, sum) = bytes.split_at_checked(BYTES - 4)?;
        let mut reader = Reader(before);
        if reader.take(8)? != MAGIC || reader.u32()? != VERSION || sum != crc(before).to_le_bytes() {
            return None;
        }
        let seed = Seed(reader.u64()?, reader.u64()?);
        reader.u64().filter(|next| *next < NUMBERS_MAX).map(|next| DirectoryState { seed, next })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_go_on_and_the_seed_stays() {
        let directory = tempfile::tempdir().unwrap();
        let directory = Directory::open(directory.path()).unwrap();
        let state = DirectoryState::read(&directory).unwrap();
        let (first, written) = state.take_numbers(&directory, 0);
        written.unwrap();
        let again = DirectoryState::read(&directory).unwrap();
        assert_eq!((again.seed, again.next), (state.seed, first + NUMBERS));
        let mut bytes = again.encode();
        assert_eq!(bytes.len(), BYTES);
        for at in 0..BYTES {
            bytes[at] ^= 1;
            assert_eq!(DirectoryState::decode(&bytes), None);
            bytes[at] ^= 1;
        }
        directory.write_small("", NAME, b"junk").unwrap();
        assert_ne!(DirectoryState::read(&directory).unwrap().seed, state.seed);
    }
}
