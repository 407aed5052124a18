//! The word of a key with requests under way: how many each of up to three worker processes has (pure).
//!
//! Each has 21 bits: eight of the number of the process, and thirteen of its count.

/// Most requests of one key that can be counted.
pub const CONCURRENT_MAX: u16 = (1 << COUNT_BITS) - 1;
const COUNT_BITS: u32 = 13;
/// Number of the process, and count.
const LANE_BITS: u32 = 8 + COUNT_BITS;
const LANES: u32 = 3;

/// The process with a number, as its counts have it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Process(pub(super) u8);

/// A word: which processes there are, and the count of each.
fn lanes(word: u64) -> impl Iterator<Item = (Process, u16)> {
    (0..LANES).map(move |lane| {
        let lane = word >> (lane * LANE_BITS);
        (Process((lane >> COUNT_BITS) as u8), lane as u16 & CONCURRENT_MAX)
    })
}

fn word_of(lanes: impl Iterator<Item = (Process, u16)>) -> u64 {
    let of = |(process, count): (Process, u16)| match count {
        0 => 0,
        _ => u64::from(process.0) << COUNT_BITS | u64::from(count),
    };
    lanes.enumerate().fold(0, |word, (at, lane)| word | of(lane) << (at as u32 * LANE_BITS))
}

/// The word without these processes.
pub(super) fn without(word: u64, is_gone: impl Fn(Process) -> bool) -> u64 {
    word_of(lanes(word).map(|(process, count)| (process, if is_gone(process) { 0 } else { count })))
}

/// Requests of all of them.
pub(super) fn total(word: u64) -> u32 {
    lanes(word).map(|(_, count)| u32::from(count)).sum()
}

/// One more of a process. `None` if there is no room for that.
pub(super) fn with_one_more(word: u64, process: Process) -> Option<u64> {
    let own = |lane: &(Process, u16)| lane.1 > 0 && lane.0 == process;
    let at = lanes(word).position(|lane| own(&lane)).or_else(|| lanes(word).position(|lane| lane.1 == 0))?;
    let more = |(here, (other, count)): (usize, (Process, u16))| match here == at {
        true => (process, (count + 1).min(CONCURRENT_MAX)),
        false => (other, count),
    };
    Some(word_of(lanes(word).enumerate().map(more)))
}

/// One less of a process, if it has any.
pub(super) fn with_one_less(word: u64, process: Process) -> u64 {
    let less = |(other, count): (Process, u16)| (other, count.saturating_sub(u16::from(other == process)));
    word_of(lanes(word).map(less))
}
