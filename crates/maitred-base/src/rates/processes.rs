//! Which worker processes count in a table, so that what one leaves behind when it is killed counts no more.
//!
//! Each gets the next number of the table when it begins ([`Table::join`]), and the master notes that it has ended
//! ([`Table::process_ended`]). A count has the last eight bits of its process's number ([`word`]): it
//! counts while the process with that number is noted. So that a number is not mistaken for the one before with the same
//! bits, each 128th process clears what processes have left that are not noted any more: one is at the latest when 64 others
//! have begun after it, which is as many as `old_workers_max` ever allows.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::SeqCst;

use super::table::{Counter, PROCESSES, Table, WAYS};
use super::word::{self, Process};

/// After so many processes, what others have left is cleared.
const SWEEP_EVERY: u64 = 128;

impl Table {
    /// Begins to count for this process.
    pub fn join(&self, pid: u32) -> Process {
        // Not 0, which is no process.
        let number = self.count(Counter::Processes) + 1;
        if let Some(noted) = self.noted(number as usize % PROCESSES) {
            noted.store(u64::from(pid) << 32 | number & 0xffff_ffff, SeqCst);
        }
        if number.is_multiple_of(SWEEP_EVERY) {
            self.under_way().iter().flat_map(|set| &set.times).for_each(|word| self.sweep(word));
        }
        Process(number as u8)
    }

    /// What the process with this id has counted counts no more.
    pub fn process_ended(&self, pid: u32) {
        for noted in (0..PROCESSES).filter_map(|at| self.noted(at)) {
            let found = noted.load(SeqCst);
            if found >> 32 == u64::from(pid) {
                let _ = noted.compare_exchange(found, 0, SeqCst, SeqCst);
            }
        }
    }

    /// Whether counts of this process count.
    #[inline]
    pub(super) fn is_noted(&self, process: Process) -> bool {
        let noted = self.noted(usize::from(process.0) % PROCESSES).map_or(0, |noted| noted.load(SeqCst));
        noted != 0 && noted as u8 == process.0
    }

    fn noted(&self, at: usize) -> Option<&AtomicU64> {
        self.processes().get(at / WAYS)?.times.get(at % WAYS)
    }

    fn sweep(&self, word: &AtomicU64) {
        let live = |word| Some(word::without(word, |process| !self.is_noted(process)));
        let _ = word.fetch_update(SeqCst, SeqCst, |word| live(word).filter(|live| *live != word));
    }
}
