//! The examples of RFC 7541 Appendix C, decoded.

use crate::h2::hpack::{Bounds, Decoded, Decoder};

const BOUNDS: Bounds = Bounds { list_bytes_max: 1 << 16, fields_max: 100 };

fn bytes(hex: &str) -> Vec<u8> {
    let digits: Vec<u8> = hex.bytes().filter(|byte| !byte.is_ascii_whitespace()).collect();
    let pairs = digits.chunks(2).map(|pair| std::str::from_utf8(pair).unwrap());
    pairs.map(|pair| u8::from_str_radix(pair, 16).unwrap()).collect()
}

/// Decodes a block; what comes out are lines "name: value", and the size of the table.
fn decode(decoder: &mut Decoder, hex: &str) -> (String, usize) {
    let mut lines = String::new();
    let decoded = decoder.decode(&bytes(hex), BOUNDS, |name, value| {
        let (name, value) = (String::from_utf8_lossy(name), String::from_utf8_lossy(value));
        lines += &format!("{name}: {value}\n");
    });
    assert_eq!(decoded, Ok(Decoded::Complete));
    (lines, decoder.table_bytes())
}

/// Blocks of one connection, in their order: bytes, lines, size of the table.
fn check(mut decoder: Decoder, blocks: &[(&str, &str, usize)]) {
    for (hex, lines, table_bytes) in blocks {
        assert_eq!(decode(&mut decoder, hex), ((*lines).to_owned(), *table_bytes), "{hex}");
    }
}

#[test]
fn fields_are_decoded_in_every_representation() {
    let literal = "400a 6375 7374 6f6d 2d6b 6579 0d63 7573 746f 6d2d 6865 6164 6572";
    check(Decoder::new(4096), &[(literal, "custom-key: custom-header\n", 55)]);
    check(Decoder::new(4096), &[("040c 2f73 616d 706c 652f 7061 7468", ":path: /sample/path\n", 0)]);
    check(Decoder::new(4096), &[("1008 7061 7373 776f 7264 0673 6563 7265 74", "password: secret\n", 0)]);
    check(Decoder::new(4096), &[("82", ":method: GET\n", 0)]);
}

const REQUESTS: [(&str, usize); 3] = [
    (":method: GET\n:scheme: http\n:path: /\n:authority: www.example.com\n", 57),
    (":method: GET\n:scheme: http\n:path: /\n:authority: www.example.com\ncache-control: no-cache\n", 110),
    (
        ":method: GET\n:scheme: https\n:path: /index.html\n:authority: www.example.com\ncustom-key: custom-value\n",
        164,
    ),
];

fn check_requests(blocks: [&str; 3]) {
    let wanted = REQUESTS.iter().zip(blocks).map(|((lines, size), hex)| (hex, *lines, *size));
    check(Decoder::new(4096), &wanted.collect::<Vec<_>>());
}

#[test]
fn requests_are_decoded_without_huffman() {
    check_requests([
        "8286 8441 0f77 7777 2e65 7861 6d70 6c65 2e63 6f6d",
        "8286 84be 5808 6e6f 2d63 6163 6865",
        "8287 85bf 400a 6375 7374 6f6d 2d6b 6579 0c63 7573 746f 6d2d 7661 6c75 65",
    ]);
}

#[test]
fn requests_are_decoded_with_huffman() {
    check_requests([
        "8286 8441 8cf1 e3c2 e5f2 3a6b a0ab 90f4 ff",
        "8286 84be 5886 a8eb 1064 9cbf",
        "8287 85bf 4088 25a8 49e9 5ba9 7d7f 8925 a849 e95b b8e8 b4bf",
    ]);
}

const RESPONSES: [(&str, usize); 3] = [
    (
        ":status: 302\ncache-control: private\ndate: Mon, 21 Oct 2013 20:13:21 GMT\n\
         location: https://www.example.com\n",
        222,
    ),
    (
        ":status: 307\ncache-control: private\ndate: Mon, 21 Oct 2013 20:13:21 GMT\n\
         location: https://www.example.com\n",
        222,
    ),
    (
        ":status: 200\ncache-control: private\ndate: Mon, 21 Oct 2013 20:13:22 GMT\n\
         location: https://www.example.com\ncontent-encoding: gzip\n\
         set-cookie: foo=ASDJKHQKBZXOQWEOPIUAXQWEOIU; max-age=3600; version=1\n",
        215,
    ),
];

/// The responses of the examples are for a table of 256 bytes, so that fields are evicted.
fn check_responses(blocks: [&str; 3]) {
    let mut decoder = Decoder::new(256);
    assert_eq!(decode(&mut decoder, "3fe101"), (String::new(), 0));
    let wanted = RESPONSES.iter().zip(blocks).map(|((lines, size), hex)| (hex, *lines, *size));
    check(decoder, &wanted.collect::<Vec<_>>());
}

#[test]
fn responses_are_decoded_without_huffman() {
    check_responses([
        "4803 3330 3258 0770 7269 7661 7465 611d 4d6f 6e2c 2032 3120 4f63 7420 3230 3133
         2032 303a 3133 3a32 3120 474d 546e 1768 7474 7073 3a2f 2f77 7777 2e65 7861 6d70
         6c65 2e63 6f6d",
        "4803 3330 37c1 c0bf",
        "88c1 611d 4d6f 6e2c 2032 3120 4f63 7420 3230 3133 2032 303a 3133 3a32 3220 474d
         54c0 5a04 677a 6970 7738 666f 6f3d 4153 444a 4b48 514b 425a 584f 5157 454f 5049
         5541 5851 5745 4f49 553b 206d 6178 2d61 6765 3d33 3630 303b 2076 6572 7369 6f6e
         3d31",
    ]);
}

#[test]
fn responses_are_decoded_with_huffman() {
    check_responses([
        "4882 6402 5885 aec3 771a 4b61 96d0 7abe 9410 54d4 44a8 2005 9504 0b81 66e0 82a6
         2d1b ff6e 919d 29ad 1718 63c7 8f0b 97c8 e9ae 82ae 43d3",
        "4883 640e ffc1 c0bf",
        "88c1 6196 d07a be94 1054 d444 a820 0595 040b 8166 e084 a62d 1bff c05a 839b d9ab
         77ad 94e7 821d d7f2 e6c7 b335 dfdf cd5b 3960 d5af 2708 7f36 72c1 ab27 0fb5 291f
         9587 3160 65c0 03ed 4ee5 b106 3d50 07",
    ]);
}
