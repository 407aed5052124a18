//! Random blocks and responses, against the decoder of `crate::fuzzing` that is written plainly.

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::Index;

use crate::compression::huffman;
use crate::compression::input::write_integer;
use crate::fuzzing::hpack::{Reference, Step, check_decoder, check_encoder};
use crate::fuzzing::{hpack_decoder, hpack_encoder};
use crate::h2::hpack::Bounds;
use crate::h2::hpack::tests::{huffman::decode, huffman_coded};

/// A block that is mostly right: size updates, then fields. The tables are small, so that fields are evicted and
/// indexes go wrong now and then.
fn block() -> impl Strategy<Value = Vec<u8>> {
    let updates = vec(0..600_usize, 0..2).prop_map(|sizes| {
        let mut block = Vec::new();
        sizes.into_iter().for_each(|size| write_integer(&mut block, 0x20, 5, size));
        block
    });
    let fields = vec(field(), 0..12).prop_map(|fields| fields.concat());
    (updates, fields).prop_map(|(updates, fields)| [updates, fields].concat())
}

fn field() -> impl Strategy<Value = Vec<u8>> {
    let index = prop_oneof![1..62_usize, 62..64_usize, 62..68_usize];
    let indexed = index.clone().prop_map(|index| {
        let mut field = Vec::new();
        write_integer(&mut field, 0x80, 7, index);
        field
    });
    let form = prop_oneof![Just((0x40, 6)), Just((0x00, 4)), Just((0x10, 4))];
    let named = (form.clone(), index, string()).prop_map(|((pattern, prefix_bits), index, value)| {
        let mut field = Vec::new();
        write_integer(&mut field, pattern, prefix_bits, index);
        [field, value].concat()
    });
    let new = (form, string(), string())
        .prop_map(|((pattern, _), name, value)| [vec![pattern], name, value].concat());
    prop_oneof![1 => indexed, 1 => named, 2 => new]
}

fn string() -> impl Strategy<Value = Vec<u8>> {
    let text = prop_oneof![vec(any::<u8>(), 0..20), vec(32..127_u8, 0..60)];
    (text, any::<bool>()).prop_map(|(text, coded)| {
        let (pattern, bytes) = if coded { (0x80, huffman_coded(&text)) } else { (0, text) };
        let mut string = Vec::new();
        write_integer(&mut string, pattern, 7, bytes.len());
        [string, bytes].concat()
    })
}

fn bounds() -> impl Strategy<Value = Bounds> {
    let list = prop_oneof![0..1000_usize, Just(1 << 16)];
    (list, 0..20_usize).prop_map(|(list_bytes_max, fields_max)| Bounds { list_bytes_max, fields_max })
}

fn step() -> impl Strategy<Value = Step> {
    let name =
        prop_oneof!["[a-d]", "(Server|DATE|etag|Vary|set-cookie|authorization|X-Own)", "[a-zA-Z-]{0,20}"];
    let long = (600..2200_usize).prop_map(|length| "x".repeat(length));
    let value = prop_oneof!["[01]", "[01]", "[a-c]{0,40}", long];
    let fields =
        || vec((name.clone().prop_map(String::into_bytes), value.clone().prop_map(String::into_bytes)), 0..9);
    prop_oneof![
        prop_oneof![0..200_u32, 0..10_000_u32, Just(4096)].prop_map(Step::Advertise),
        (100..1000_u16, fields()).prop_map(|(status, fields)| Step::Block(Some(status), fields)),
        (Just(200), fields()).prop_map(|(status, fields)| Step::Block(Some(status), fields)),
        fields().prop_map(|fields| Step::Block(None, fields)),
    ]
}

proptest! {
    #[test]
    fn strings_come_back_from_huffmans_code(string in vec(any::<u8>(), 0..100), text in "[ -~]{0,100}") {
        for string in [string, text.into_bytes()] {
            let mut coded = Vec::new();
            huffman::encode(string.iter().copied(), &mut coded);
            prop_assert_eq!(coded.len(), huffman::coded_bytes(string.iter().copied()));
            prop_assert_eq!(&coded, &huffman_coded(&string));
            prop_assert_eq!(decode(&coded), Ok(string));
        }
    }

    #[test]
    fn any_bytes_are_decoded_as_bit_by_bit(coded in vec(prop_oneof![any::<u8>(), Just(0xff)], 0..40)) {
        prop_assert_eq!(decode(&coded).ok(), Reference::huffman(&coded).ok());
    }

    #[test]
    fn blocks_are_decoded_as_by_one_that_is_written_plainly(
        advertised in prop_oneof![0..600_usize, Just(4096)],
        bounds in bounds(),
        blocks in vec(prop_oneof![9 => block().prop_map(Some), 1 => Just(None)], 0..8),
        change in any::<Option<(Index, Index, u8)>>(),
    ) {
        let mut blocks = blocks;
        if let Some((block, byte, value)) = change
            && !blocks.is_empty()
            && let Some(block) = block.get_mut(&mut blocks)
            && !block.is_empty()
        {
            *byte.get_mut(block) = value;
        }
        let blocks: Vec<_> = blocks.iter().map(|block| block.as_deref()).collect();
        check_decoder(advertised, bounds, &blocks);
    }

    #[test]
    fn responses_come_back_from_the_encoder(steps in vec(step(), 0..20)) {
        check_encoder(&steps);
    }

    #[test]
    fn arbitrary_bytes_keep_the_invariants(data in vec(any::<u8>(), 0..300)) {
        hpack_decoder(&data);
        hpack_encoder(&data);
    }
}
