//! Random sections, instructions and fields, against the decoder of `crate::fuzzing` that is written plainly.

use proptest::collection::vec;
use proptest::prelude::*;

use crate::compression::input::{write_integer, write_string};
use crate::fuzzing::qpack::{Step, check, check_encoder};
use crate::fuzzing::qpack_decoder;
use crate::h3::qpack::{BOUNDS, Bounds, static_table};

/// An instruction or a representation: its first byte, an index or nothing, and strings behind it.
fn write(pattern: u8, prefix_bits: u32, index: Option<usize>, strings: &[(u32, Vec<u8>)]) -> Vec<u8> {
    let mut out = Vec::new();
    if let Some(index) = index {
        write_integer(&mut out, pattern, prefix_bits, index);
    }
    for (number, (prefix_bits, string)) in strings.iter().enumerate() {
        let pattern = if number == 0 && index.is_none() { pattern } else { 0 };
        write_string(&mut out, pattern, *prefix_bits, string.iter().copied());
    }
    out
}

fn text() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![vec(any::<u8>(), 0..12), "[a-z]{0,20}".prop_map(String::into_bytes)]
}

fn instruction() -> impl Strategy<Value = Vec<u8>> {
    let indexes = (0..4_usize, 0..105_usize);
    prop_oneof![
        4 => (text(), text()).prop_map(|(name, value)| write(0x40, 5, None, &[(5, name), (7, value)])),
        2 => (indexes, any::<bool>(), text()).prop_map(|((dynamic, fixed), is_fixed, value)| match is_fixed {
            true => write(0xc0, 6, Some(fixed), &[(7, value)]),
            false => write(0x80, 6, Some(dynamic), &[(7, value)]),
        }),
        2 => (0..4_usize).prop_map(|index| write(0x00, 5, Some(index), &[])),
        1 => (60..410_usize).prop_map(|bytes| write(0x20, 5, Some(bytes), &[])),
    ]
}

fn representation() -> impl Strategy<Value = Vec<u8>> {
    let low = 0..4_usize;
    prop_oneof![
        (0..102_usize).prop_map(|index| write(0xc0, 6, Some(index), &[])),
        low.clone().prop_map(|index| write(0x80, 6, Some(index), &[])),
        low.clone().prop_map(|index| write(0x10, 4, Some(index), &[])),
        (0..102_usize, text()).prop_map(|(index, value)| write(0x50, 4, Some(index), &[(7, value)])),
        (low.clone(), text()).prop_map(|(index, value)| write(0x60, 4, Some(index), &[(7, value)])),
        (low, text()).prop_map(|(index, value)| write(0x08, 3, Some(index), &[(7, value)])),
        (text(), text()).prop_map(|(name, value)| write(0x20, 3, None, &[(3, name), (7, value)])),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    let section = (0..26_usize, any::<bool>(), 0..5_usize, vec(representation(), 0..5));
    prop_oneof![
        vec(instruction(), 1..4).prop_map(|all| Step::Instructions(all.concat())),
        (0..100_u64, section).prop_map(|(stream, (required, below, delta, fields))| {
            let mut bytes = Vec::new();
            write_integer(&mut bytes, 0, 8, required);
            write_integer(&mut bytes, if below { 0x80 } else { 0 }, 7, delta);
            Step::Section(stream, [bytes, fields.concat()].concat())
        }),
    ]
}

fn bounds() -> impl Strategy<Value = Bounds> {
    let some = (0..300_usize, 0..6_usize)
        .prop_map(|(list_bytes_max, fields_max)| Bounds { list_bytes_max, fields_max });
    prop_oneof![Just(BOUNDS), some]
}

proptest! {
    #[test]
    fn connections_are_decoded_as_by_one_that_is_written_plainly(
        advertised in prop_oneof![Just(0_usize), Just(400), 0..400_usize],
        bounds in bounds(),
        steps in vec(step(), 0..12),
    ) {
        let capacity = Step::Instructions(write(0x20, 5, Some(advertised), &[]));
        check(advertised, bounds, &[&[capacity], steps.as_slice()].concat());
    }

    #[test]
    fn fields_come_back_from_the_encoder(
        fields in vec((text(), text()), 0..8),
        known in vec((0..99_usize, any::<bool>()), 0..8),
    ) {
        let known = known.into_iter().map(|(index, same)| {
            let (name, value) = static_table::FIELDS[index];
            (name.to_ascii_uppercase().into_bytes(), if same { value.into() } else { b"other".to_vec() })
        });
        check_encoder(&fields.into_iter().chain(known).collect::<Vec<_>>());
    }

    #[test]
    fn arbitrary_bytes_keep_the_invariants(data in vec(any::<u8>(), 0..300)) {
        qpack_decoder(&data);
    }
}

/// Shows that the generator above is of use: most of what it makes is not an error at once.
#[test]
fn many_random_connections_are_right() {
    use proptest::strategy::ValueTree as _;
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    let steps = vec(step(), 3..4);
    let right = (0..300).filter(|_| {
        let steps = steps.new_tree(&mut runner).unwrap().current();
        let capacity = Step::Instructions(write(0x20, 5, Some(400), &[]));
        check(400, BOUNDS, &[&[capacity], steps.as_slice()].concat())
    });
    assert!(right.count() > 20);
}
