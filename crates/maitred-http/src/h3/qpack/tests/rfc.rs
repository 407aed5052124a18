//! The examples of RFC 9204 Appendix B, decoded.

use super::{bytes, decode, said};
use crate::h3::qpack::{Decoded, Decoder, Outcome};

const COMPLETE: Outcome = Outcome::Decoded(Decoded::Complete);

const B2_INSTRUCTIONS: &str =
    "3fbd01 c00f 7777 772e 6578 616d 706c 652e 636f 6d c10c 2f73 616d 706c 652f 7061 7468";
const B3_INSTRUCTIONS: &str = "4a63 7573 746f 6d2d 6b65 790c 6375 7374 6f6d 2d76 616c 7565";
const B5_INSTRUCTIONS: &str = "810d 6375 7374 6f6d 2d76 616c 7565 32";

#[test]
fn a_literal_with_a_name_of_the_static_table() {
    let section = bytes("0000 510b 2f69 6e64 6578 2e68 746d 6c");
    let mut decoder = Decoder::new(0, 0);
    assert_eq!(decode(&mut decoder, 0, &section), Ok((COMPLETE, ":path: /index.html\n".to_owned())));
    assert_eq!(said(&mut decoder), []);
}

/// Appendix B.2 to B.5; the bytes of the encoder stream come in pieces of this size.
fn check_dynamic_table(piece_bytes: usize) {
    let mut decoder = Decoder::new(220, 1);
    let instruct = |decoder: &mut Decoder, hex: &str| {
        bytes(hex).chunks(piece_bytes).for_each(|piece| decoder.encoder_stream(piece).unwrap());
    };
    let section = bytes("0381 10 11");
    assert_eq!(decode(&mut decoder, 4, &section), Ok((Outcome::Blocked, String::new())));
    instruct(&mut decoder, B2_INSTRUCTIONS);
    let lines = ":authority: www.example.com\n:path: /sample/path\n".to_owned();
    assert_eq!(decode(&mut decoder, 4, &section), Ok((COMPLETE, lines)));
    assert_eq!((decoder.table_bytes(), decoder.blocked()), (106, 0));
    assert_eq!(said(&mut decoder), [0x84]);

    instruct(&mut decoder, B3_INSTRUCTIONS);
    assert_eq!((said(&mut decoder), decoder.table_bytes()), (vec![0x01], 160));

    let section = bytes("0500 80 c1 81");
    assert_eq!(decode(&mut decoder, 8, &section), Ok((Outcome::Blocked, String::new())));
    decoder.cancel(8);
    assert_eq!(said(&mut decoder), [0x48]);
    instruct(&mut decoder, "02");
    assert_eq!((decoder.table_bytes(), decoder.inserted()), (217, 4));
    let lines = ":authority: www.example.com\n:path: /\ncustom-key: custom-value\n".to_owned();
    assert_eq!(decode(&mut decoder, 12, &section), Ok((COMPLETE, lines)));
    assert_eq!(said(&mut decoder), [0x8c]);

    instruct(&mut decoder, B5_INSTRUCTIONS);
    assert_eq!((decoder.table_bytes(), decoder.inserted()), (215, 5));
    let lines = "custom-key: custom-value2\n".to_owned();
    assert_eq!(decode(&mut decoder, 16, &bytes("0600 80")), Ok((COMPLETE, lines)));
}

#[test]
fn the_dynamic_table_is_that_of_the_examples_however_its_bytes_come() {
    (1..60).for_each(check_dynamic_table);
}
