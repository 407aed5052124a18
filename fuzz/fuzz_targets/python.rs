//! The compiled part of the Python adapter: what it takes out of the head of a request, and what it makes of what an application
//! says. Both files are included, because the rest of that library needs an interpreter.
#![no_main]

#[allow(dead_code)]
#[path = "../../adapters/python/native/src/head.rs"]
mod head;
#[path = "../../adapters/python/native/src/parse.rs"]
mod parse;

use head::{Framing, Head};
use libfuzzer_sys::fuzz_target;
use maitred_handoff::RequestFlags;

fuzz_target!(|data: &[u8]| {
    request(data);
    response(data);
});

/// A reader that is written plainly sees the same.
fn request(data: &[u8]) {
    let (line, block) = parse::split_head(data);
    let bare = data.strip_suffix(b"\r\n\r\n").unwrap_or(data);
    let mut lines = lines_of(bare);
    assert_eq!(line, lines.remove(0));
    assert_eq!(block, bare.get(line.len() + 2..).unwrap_or_default());
    let words: Vec<&[u8]> = line.split(|byte| *byte == b' ').collect();
    assert_eq!(parse::split_line(line), if words.len() == 3 { Some((words[0], words[1])) } else { None });
    let mut fields = lines_of(block);
    if fields.last().is_some_and(|last| last.is_empty()) {
        fields.pop();
    }
    let found: Vec<(&[u8], &[u8])> = parse::Fields(block).collect();
    assert_eq!(found.len(), fields.len());
    for (line, (name, value)) in fields.iter().zip(found) {
        match line.windows(2).position(|pair| pair == b": ") {
            Some(at) => assert_eq!((&line[..at], &line[at + 2..]), (name, value)),
            None => assert_eq!((*line, b"".as_slice()), (name, value)),
        }
        let variable = parse::variable(name);
        assert!(!variable.iter().any(|byte| *byte == b'-' || byte.is_ascii_lowercase()));
    }
    assert_eq!(*parse::unquoted(data), *unquoted(data));
    assert_eq!(
        parse::is_anonymous(data),
        [b"\n", data, b"\n"].concat().windows(17).any(|w| w == b"\nserver_header=0\n")
    );
}

/// What stands between CRLFs.
fn lines_of(data: &[u8]) -> Vec<&[u8]> {
    let (mut lines, mut begin, mut at) = (Vec::new(), 0, 0);
    while at + 1 < data.len() {
        if &data[at..at + 2] == b"\r\n" {
            lines.push(&data[begin..at]);
            begin = at + 2;
            at = begin;
        } else {
            at += 1;
        }
    }
    lines.push(&data[begin..]);
    lines
}

fn unquoted(data: &[u8]) -> Vec<u8> {
    let (mut found, mut at) = (Vec::new(), 0);
    while at < data.len() {
        let digits = data.get(at + 1..at + 3).filter(|digits| digits.iter().all(u8::is_ascii_hexdigit));
        let byte = digits.and_then(|digits| u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok());
        match byte {
            Some(byte) if data[at] == b'%' => {
                found.push(byte);
                at += 3;
            }
            _ => {
                found.push(data[at]);
                at += 1;
            }
        }
    }
    found
}

/// The first byte says how; then come lines: the status, and fields. Whatever an application says, there is one head, with its
/// fields and no other ones.
fn response(data: &[u8]) {
    let Some((how, said)) = data.split_first() else { return };
    let bit = |number: u8| how & (1 << number) != 0;
    let mut said = said.split(|byte| *byte == b'\n');
    let Ok(mut head) = Head::begin(said.next().unwrap_or_default()) else { return };
    let (mut lines, mut dated, mut served) = (1, false, false);
    for field in said {
        let at = field.iter().position(|byte| *byte == b':').unwrap_or(field.len());
        let (name, value) = (&field[..at], field.get(at + 1..).unwrap_or_default());
        if head.field(name, value).is_ok() && !name.eq_ignore_ascii_case(b"content-length") {
            lines += 1;
        } else {
            continue;
        }
        dated |= name.eq_ignore_ascii_case(b"date");
        served |= name.eq_ignore_ascii_case(b"server");
    }
    let flags = RequestFlags { keep: bit(0), http10: bit(1), head: bit(2), ..RequestFlags::default() };
    let framing = if bit(3) { Framing::Chunks } else { Framing::Length(head.length.unwrap_or(7)) };
    let mut out = Vec::new();
    head.write(&mut out, framing, flags, bit(4), |out| out.extend_from_slice(b"Date: now\r\n"));
    lines +=
        usize::from(!dated) + usize::from(!served && !bit(4)) + 1 + usize::from(!flags.keep || flags.http10);
    let written = out.strip_suffix(b"\r\n\r\n").unwrap_or_else(|| panic!("a head without an end"));
    let written = lines_of(written);
    assert_eq!(written.len(), lines);
    assert!(written[0].starts_with(format!("HTTP/1.1 {} ", head.status).as_bytes()));
    for line in written {
        assert!(!line.is_empty() && !line.iter().any(|byte| matches!(byte, b'\r' | b'\n' | 0)));
    }
    assert!((200..1000).contains(&head.status));
    assert!(!flags.head || head.is_bodiless(flags));
}
