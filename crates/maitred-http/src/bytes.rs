//! Sets of bytes, asked for one byte after the other on the hot path.

/// Which of the 256 bytes are in the set.
pub(crate) type ByteSet = [bool; 256];

/// The bytes of `ranges`, ends included, and those of `others`.
pub(crate) const fn byte_set(ranges: &[(u8, u8)], others: &[u8]) -> ByteSet {
    let mut set = [false; 256];
    let mut at = 0;
    while at < ranges.len() {
        let (mut byte, last) = (ranges[at].0 as usize, ranges[at].1 as usize);
        while byte <= last {
            set[byte] = true;
            byte += 1;
        }
        at += 1;
    }
    let mut at = 0;
    while at < others.len() {
        set[others[at] as usize] = true;
        at += 1;
    }
    set
}
