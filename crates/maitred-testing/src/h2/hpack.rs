//! HPACK (RFC 7541) of the test's own: an encoder that says exactly what it is given, and a decoder that ends the test
//! where an encoder breaks a rule. Written without a look at Maitred's.

use std::collections::VecDeque;

/// A representation of a field (7541-6); each test may choose one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Literal {
    /// And into the dynamic table (6.2.1).
    Indexed,
    /// Without it (6.2.2).
    Plain,
}

/// Writes an integer with a prefix of so many bits (7541-5.1), into the low bits of `first`.
pub fn integer(first: u8, prefix: u32, value: usize, out: &mut Vec<u8>) {
    let most = (1usize << prefix) - 1;
    if value < most {
        return out.push(first | value as u8);
    }
    out.push(first | most as u8);
    let mut rest = value - most;
    while rest >= 128 {
        out.push(rest as u8 | 0x80);
        rest >>= 7;
    }
    out.push(rest as u8);
}

/// Writes a literal with a literal name, without Huffman coding.
pub fn literal(kind: Literal, name: &[u8], value: &[u8], out: &mut Vec<u8>) {
    out.push(if kind == Literal::Indexed { 0x40 } else { 0 });
    for text in [name, value] {
        integer(0, 7, text.len(), out);
        out.extend_from_slice(text);
    }
}

/// Writes a reference to an entry of the static or the dynamic table (7541-6.1).
pub fn indexed(index: usize, out: &mut Vec<u8>) {
    integer(0x80, 7, index, out);
}

/// A block of plain literals.
pub fn block(fields: &[(&str, &str)]) -> Vec<u8> {
    let mut out = Vec::new();
    for (name, value) in fields {
        literal(Literal::Plain, name.as_bytes(), value.as_bytes(), &mut out);
    }
    out
}

/// What the server's encoder refers to. Breaking RFC 7541 ends the test.
#[derive(Debug)]
pub struct Decoder {
    entries: VecDeque<(String, String)>,
    bytes: usize,
    /// What the encoder has chosen; at most `bytes_allowed`.
    bytes_max: usize,
    /// What this side's SETTINGS_HEADER_TABLE_SIZE says.
    bytes_allowed: usize,
}

impl Decoder {
    /// A table as large as this side's SETTINGS say.
    pub fn new(bytes_allowed: usize) -> Decoder {
        // Before it has acknowledged the settings, the encoder has 4096 bytes; no test here depends on the difference.
        Decoder { entries: VecDeque::new(), bytes: 0, bytes_max: 4096.max(bytes_allowed), bytes_allowed }
    }

    /// The fields of one whole block.
    #[track_caller]
    pub fn decode(&mut self, block: &[u8]) -> Vec<(String, String)> {
        let (mut rest, mut fields) = (block, Vec::new());
        while let Some(&first) = rest.first() {
            match first {
                0x80.. => fields.push(self.entry(take_integer(&mut rest, 7))),
                0x40.. => {
                    let field = self.literal(&mut rest, 6);
                    self.insert(field.clone());
                    fields.push(field);
                }
                0x20.. => {
                    assert!(fields.is_empty(), "a table size after a field (7541-4.2)");
                    let bytes = take_integer(&mut rest, 5);
                    assert!(bytes <= self.bytes_allowed.max(4096), "a table of {bytes} bytes");
                    self.bytes_max = bytes;
                    self.evict();
                }
                _ => fields.push(self.literal(&mut rest, 4)),
            }
        }
        fields
    }

    #[track_caller]
    fn literal(&self, rest: &mut &[u8], prefix: u32) -> (String, String) {
        let index = take_integer(rest, prefix);
        let name = if index == 0 { take_string(rest) } else { self.entry(index).0 };
        (name, take_string(rest))
    }

    #[track_caller]
    fn entry(&self, index: usize) -> (String, String) {
        if let Some((name, value)) = index.checked_sub(1).and_then(|at| STATIC.get(at)) {
            return ((*name).to_owned(), (*value).to_owned());
        }
        let dynamic = index.checked_sub(STATIC.len() + 1).and_then(|at| self.entries.get(at));
        dynamic.unwrap_or_else(|| panic!("no entry {index}")).clone()
    }

    fn insert(&mut self, field: (String, String)) {
        self.bytes += field.0.len() + field.1.len() + 32;
        self.entries.push_front(field);
        self.evict();
    }

    fn evict(&mut self) {
        while self.bytes > self.bytes_max {
            let (name, value) = self.entries.pop_back().expect("bytes are of entries");
            self.bytes -= name.len() + value.len() + 32;
        }
    }
}

#[track_caller]
fn take_byte(rest: &mut &[u8]) -> u8 {
    let (&byte, after) = rest.split_first().expect("a block that ends too early");
    *rest = after;
    byte
}

#[track_caller]
fn take_integer(rest: &mut &[u8], prefix: u32) -> usize {
    let most = (1usize << prefix) - 1;
    let mut value = usize::from(take_byte(rest)) & most;
    if value < most {
        return value;
    }
    for shift in (0..28).step_by(7) {
        let byte = take_byte(rest);
        value += usize::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return value;
        }
    }
    panic!("an integer without an end");
}

#[track_caller]
fn take_string(rest: &mut &[u8]) -> String {
    let huffman = rest.first().is_some_and(|byte| *byte >= 0x80);
    let bytes = take_integer(rest, 7);
    assert!(bytes <= rest.len(), "a string that is longer than its block");
    let (text, after) = rest.split_at(bytes);
    *rest = after;
    let text = if huffman { unfold(text) } else { text.to_vec() };
    String::from_utf8(text).expect("what Maitred sends is ASCII")
}

/// Decodes Huffman's code (7541-5.2 and appendix B).
#[track_caller]
fn unfold(coded: &[u8]) -> Vec<u8> {
    let (mut out, mut code, mut bits) = (Vec::new(), 0u32, 0);
    for byte in coded {
        for at in (0..8).rev() {
            code = code << 1 | u32::from(byte >> at & 1);
            bits += 1;
            if let Some(symbol) = symbol(code, bits) {
                out.push(symbol);
                (code, bits) = (0, 0);
            }
            assert!(bits < 30, "a code that nothing has, or EOS");
        }
    }
    assert!(bits < 8 && code + 1 == 1 << bits, "padding is less than a byte of ones");
    out
}

/// The symbol of a code. Within a length, codes are consecutive in the order of the symbols, and each length goes on where the
/// one before it ended (the code is canonical), so the lengths are enough.
fn symbol(code: u32, bits: u32) -> Option<u8> {
    let (mut first, mut length) = (0u32, 0);
    for (of_length, symbols) in CODE_LENGTHS {
        first <<= of_length - length;
        length = *of_length;
        if length == bits {
            return symbols.get(code.checked_sub(first)? as usize).copied();
        }
        first += symbols.len() as u32;
    }
    None
}

/// Appendix B of RFC 7541: bits of a code, and the symbols with codes of so many. EOS, the last one of 30, is left out.
const CODE_LENGTHS: &[(u32, &[u8])] = &[
    (5, b"012aceiost"),
    (6, b" %-./3456789=A_bdfghlmnpru"),
    (7, b":BCDEFGHIJKLMNOPQRSTUVWYjkqvwxyz"),
    (8, b"&*,;XZ"),
    (10, b"!\"()?"),
    (11, b"'+|"),
    (12, b"#>"),
    (13, b"\0$@[]~"),
    (14, b"^}"),
    (15, b"<`{"),
    (19, &[92, 195, 208]),
    (20, &[128, 130, 131, 162, 184, 194, 224, 226]),
    (21, &[153, 161, 167, 172, 176, 177, 179, 209, 216, 217, 227, 229, 230]),
    (
        22,
        &[
            129, 132, 133, 134, 136, 146, 154, 156, 160, 163, 164, 169, 170, 173, 178, 181, 185, 186, 187,
            189, 190, 196, 198, 228, 232, 233,
        ],
    ),
    (
        23,
        &[
            1, 135, 137, 138, 139, 140, 141, 143, 147, 149, 150, 151, 152, 155, 157, 158, 165, 166, 168, 174,
            175, 180, 182, 183, 188, 191, 197, 231, 239,
        ],
    ),
    (24, &[9, 142, 144, 145, 148, 159, 171, 206, 215, 225, 236, 237]),
    (25, &[199, 207, 234, 235]),
    (26, &[192, 193, 200, 201, 202, 205, 210, 213, 218, 219, 238, 240, 242, 243, 255]),
    (27, &[203, 204, 211, 212, 214, 221, 222, 223, 241, 244, 245, 246, 247, 248, 250, 251, 252, 253, 254]),
    (
        28,
        &[
            2, 3, 4, 5, 6, 7, 8, 11, 12, 14, 15, 16, 17, 18, 19, 20, 21, 23, 24, 25, 26, 27, 28, 29, 30, 31,
            127, 220, 249,
        ],
    ),
    (30, &[10, 13, 22]),
];

/// Appendix A of RFC 7541; the first one has index 1.
const STATIC: &[(&str, &str)] = &[
    (":authority", ""),
    (":method", "GET"),
    (":method", "POST"),
    (":path", "/"),
    (":path", "/index.html"),
    (":scheme", "http"),
    (":scheme", "https"),
    (":status", "200"),
    (":status", "204"),
    (":status", "206"),
    (":status", "304"),
    (":status", "400"),
    (":status", "404"),
    (":status", "500"),
    ("accept-charset", ""),
    ("accept-encoding", "gzip, deflate"),
    ("accept-language", ""),
    ("accept-ranges", ""),
    ("accept", ""),
    ("access-control-allow-origin", ""),
    ("age", ""),
    ("allow", ""),
    ("authorization", ""),
    ("cache-control", ""),
    ("content-disposition", ""),
    ("content-encoding", ""),
    ("content-language", ""),
    ("content-length", ""),
    ("content-location", ""),
    ("content-range", ""),
    ("content-type", ""),
    ("cookie", ""),
    ("date", ""),
    ("etag", ""),
    ("expect", ""),
    ("expires", ""),
    ("from", ""),
    ("host", ""),
    ("if-match", ""),
    ("if-modified-since", ""),
    ("if-none-match", ""),
    ("if-range", ""),
    ("if-unmodified-since", ""),
    ("last-modified", ""),
    ("link", ""),
    ("location", ""),
    ("max-forwards", ""),
    ("proxy-authenticate", ""),
    ("proxy-authorization", ""),
    ("range", ""),
    ("referer", ""),
    ("refresh", ""),
    ("retry-after", ""),
    ("server", ""),
    ("set-cookie", ""),
    ("strict-transport-security", ""),
    ("transfer-encoding", ""),
    ("user-agent", ""),
    ("vary", ""),
    ("via", ""),
    ("www-authenticate", ""),
];

/// Examples of RFC 7541, appendix C: what decodes here is not what an encoder of this project wrote.
#[test]
fn the_examples_of_the_specification_decode() {
    let bytes = |hex: &str| -> Vec<u8> {
        let digits: Vec<u8> = hex.bytes().filter(u8::is_ascii_hexdigit).collect();
        let pair = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap();
        digits.chunks(2).map(pair).collect()
    };
    // C.6: responses with Huffman's code, and a table of 256 bytes from which entries are evicted.
    let mut decoder = Decoder::new(256);
    decoder.bytes_max = 256;
    let mut first = decoder.decode(&bytes(
        "4882 6402 5885 aec3 771a 4b61 96d0 7abe 9410 54d4 44a8 2005 9504 0b81 66e0 82a6 2d1b ff6e 919d 29ad 1718 63c7 8f0b \
         97c8 e9ae 82ae 43d3",
    ));
    let location = ("location".to_owned(), "https://www.example.com".to_owned());
    assert_eq!(first.remove(0), (":status".to_owned(), "302".to_owned()));
    assert_eq!(first[1].1, "Mon, 21 Oct 2013 20:13:21 GMT");
    assert_eq!(first.pop(), Some(location.clone()));
    let second = decoder.decode(&bytes("4883 640e ffc1 c0bf"));
    assert_eq!(second[0].1, "307");
    assert_eq!(second.last(), Some(&location));
    let third = decoder.decode(&bytes(
        "88c1 6196 d07a be94 1054 d444 a820 0595 040b 8166 e084 a62d 1bff c05a 839b d9ab 77ad 94e7 821d d7f2 e6c7 b335 dfdf \
         cd5b 3960 d5af 2708 7f36 72c1 ab27 0fb5 291f 9587 3160 65c0 03ed 4ee5 b106 3d50 07",
    ));
    let cookie = "foo=ASDJKHQKBZXOQWEOPIUAXQWEOIU; max-age=3600; version=1";
    assert_eq!(third.last(), Some(&("set-cookie".to_owned(), cookie.to_owned())));
    assert_eq!(decoder.bytes, 215, "as the example says");
}

#[test]
fn an_integer_is_what_was_written() {
    for value in [0, 30, 31, 127, 128, 1337, 1 << 20] {
        let mut out = Vec::new();
        integer(0xe0, 5, value, &mut out);
        assert_eq!(take_integer(&mut out.as_slice(), 5), value);
    }
}
