use proptest::prelude::*;

use super::*;

/// Ranges by the offsets of their first byte and of the one behind their last.
fn some(bounds: &[(u64, u64)]) -> Ranges {
    Ranges::Some(bounds.iter().map(|(start, end)| *start..*end).collect())
}

#[test]
fn single_ranges() {
    assert_eq!(parse(b"bytes=0-499", 10_000, 8), some(&[(0, 500)]));
    assert_eq!(parse(b"bytes=9500-", 10_000, 8), some(&[(9500, 10_000)]));
    assert_eq!(parse(b"bytes=-500", 10_000, 8), some(&[(9500, 10_000)]));
    assert_eq!(parse(b"bytes=-20000", 10_000, 8), some(&[(0, 10_000)]));
    assert_eq!(parse(b"bytes=0-99999", 10_000, 8), some(&[(0, 10_000)]));
    assert_eq!(parse(b"BYTES=9999-9999", 10_000, 8), some(&[(9999, 10_000)]));
    assert_eq!(parse(b"bytes=0-99999999999999999999999", 10, 8), some(&[(0, 10)]));
}

#[test]
fn several_ranges_keep_their_order() {
    assert_eq!(parse(b"bytes=500-600, 0-10", 10_000, 8), some(&[(500, 601), (0, 11)]));
    assert_eq!(parse(b"bytes=,0-0 ,,\t-1,", 10_000, 8), some(&[(0, 1), (9999, 10_000)]));
}

#[test]
fn overlapping_and_adjacent_ranges_are_merged() {
    assert_eq!(parse(b"bytes=0-4,2-8", 10, 8), some(&[(0, 9)]));
    assert_eq!(parse(b"bytes=0-4,5-8", 10, 8), some(&[(0, 9)]));
    assert_eq!(parse(b"bytes=8-8,0-1,4-5,1-4", 10, 8), some(&[(8, 9), (0, 6)]));
    assert_eq!(parse(b"bytes=0-0,2-2,0-9", 10, 8), some(&[(0, 10)]));
    // The union stands where the first of its parts stood.
    assert_eq!(parse(b"bytes=0-1,20-20,4-5,2-3", 30, 8), some(&[(0, 6), (20, 21)]));
}

#[test]
fn unsatisfiable_ranges() {
    assert_eq!(parse(b"bytes=10-", 10, 8), Ranges::Unsatisfiable);
    assert_eq!(parse(b"bytes=10-20", 10, 8), Ranges::Unsatisfiable);
    assert_eq!(parse(b"bytes=-0", 10, 8), Ranges::Unsatisfiable);
    assert_eq!(parse(b"bytes=0-", 0, 8), Ranges::Unsatisfiable);
    assert_eq!(parse(b"bytes=20-30, 0-1", 10, 8), some(&[(0, 2)]));
}

#[test]
fn malformed_ranges_are_ignored() {
    for bad in [
        "",
        "bytes",
        "bytes=",
        "bytes=,",
        "bytes=-",
        "bytes=a-b",
        "bytes=5-4",
        "bytes=1",
        "bytes=1-2-3",
        "bytes=1 -2",
        "bytes=+1-2",
        "bytes=0x1-2",
        "lines=1-2",
        "bytes =1-2",
        "bytes=0-1;2-3",
        "bytes=0-1,5-4",
        "bytes=--1",
    ] {
        assert_eq!(parse(bad.as_bytes(), 10, 8), Ranges::Ignore, "{bad}");
    }
    assert_eq!(parse(b"bytes=-5", 0, 8), Ranges::Ignore);
}

#[test]
fn too_many_ranges_are_ignored() {
    assert_eq!(parse(b"bytes=0-0,2-2,4-4", 10, 3), some(&[(0, 1), (2, 3), (4, 5)]));
    assert_eq!(parse(b"bytes=0-0,2-2,4-4,6-6", 10, 3), Ranges::Ignore);
    assert_eq!(parse(b"bytes=0-0", 10, 0), Ranges::Ignore);
}

/// A range as it is written, and the bytes that it names, one by one.
#[derive(Debug, Clone)]
enum Spec {
    Closed(u64, u64),
    Open(u64),
    Suffix(u64),
}

impl Spec {
    fn text(&self) -> String {
        match self {
            Self::Closed(first, last) => format!("{first}-{last}"),
            Self::Open(first) => format!("{first}-"),
            Self::Suffix(length) => format!("-{length}"),
        }
    }

    fn names(&self, byte: u64, size: u64) -> bool {
        match self {
            Self::Closed(first, last) => (*first..=*last).contains(&byte),
            Self::Open(first) => *first <= byte,
            Self::Suffix(length) => byte + length >= size,
        }
    }
}

fn spec() -> impl Strategy<Value = Spec> {
    prop_oneof![
        (0..40_u64, 0..20_u64).prop_map(|(first, more)| Spec::Closed(first, first + more)),
        (0..40_u64).prop_map(Spec::Open),
        (0..40_u64).prop_map(Spec::Suffix),
    ]
}

proptest! {
    #[test]
    fn agrees_with_a_model_of_single_bytes(specs in proptest::collection::vec(spec(), 1..7), size in 1..32_u64) {
        let texts: Vec<_> = specs.iter().map(Spec::text).collect();
        let value = format!("bytes={}", texts.join(", "));
        let wanted: Vec<bool> = (0..size).map(|byte| specs.iter().any(|spec| spec.names(byte, size))).collect();
        match parse(value.as_bytes(), size, 8) {
            Ranges::Ignore => prop_assert!(false, "{} is well formed", value),
            Ranges::Unsatisfiable => prop_assert!(!wanted.contains(&true)),
            Ranges::Some(ranges) => {
                let got: Vec<bool> = (0..size).map(|byte| ranges.iter().any(|range| range.contains(&byte))).collect();
                prop_assert_eq!(got, wanted);
                for (at, range) in ranges.iter().enumerate() {
                    prop_assert!(range.start < range.end && range.end <= size);
                    for other in ranges.iter().skip(at + 1) {
                        prop_assert!(range.end < other.start || other.end < range.start, "{:?} touch", ranges);
                    }
                }
            }
        }
    }

    #[test]
    fn never_panics(value in "bytes=[-0-9, a]{0,24}", size: u64, ranges_max in 0..9_usize) {
        let _ = parse(value.as_bytes(), size, ranges_max);
    }
}
