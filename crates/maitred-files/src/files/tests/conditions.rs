//! Conditions and ranges (RFC 9110 sections 13 and 14), byte by byte.

use maitred_http::request::{Known, List};
use proptest::prelude::*;

use super::super::testing::{Answer, Bench, INLINE_BYTES_MAX, files};
use super::tree;

/// Sixteen characters that differ, so that a wrong offset shows; and a file that is too large for memory.
fn bench() -> (tempfile::TempDir, Bench) {
    let large: String = (0..2 * INLINE_BYTES_MAX).map(|at| char::from(b'a' + (at % 26) as u8)).collect();
    let root = tree(&[("small.txt", "0123456789abcdef"), ("large.txt", &large), ("empty.txt", "")]);
    let bench = Bench::of(files(root.path()));
    (root, bench)
}

fn range(bench: &mut Bench, path: &str, range: &str) -> Answer {
    bench.ask(path.as_bytes(), Known { range: Some(range.as_bytes()), ..Known::default() })
}

#[test]
fn single_ranges_are_exact() {
    let (_root, mut bench) = bench();
    for (wanted, content_range, body) in [
        ("bytes=0-3", "bytes 0-3/16", "0123"),
        ("bytes=4-", "bytes 4-15/16", "456789abcdef"),
        ("bytes=-3", "bytes 13-15/16", "def"),
        ("bytes=0-999", "bytes 0-15/16", "0123456789abcdef"),
        ("bytes=-999", "bytes 0-15/16", "0123456789abcdef"),
        ("bytes=2-3,3-5", "bytes 2-5/16", "2345"),
    ] {
        let answer = range(&mut bench, "/small.txt", wanted);
        assert_eq!(
            (answer.status, answer.field("Content-Range"), answer.text()),
            (206, Some(content_range), body)
        );
        assert_eq!(answer.field("Content-Type"), Some("text/plain; charset=utf-8"));
        assert!(answer.field("ETag").is_some());
    }
    let answer = range(&mut bench, "/large.txt", "bytes=5000-5003");
    assert_eq!((answer.status, answer.text(), answer.streamed), (206, "ijkl", true));
    assert_eq!(answer.field("Content-Range"), Some("bytes 5000-5003/8192"));
}

#[test]
fn what_cannot_be_satisfied_says_how_large_the_file_is() {
    let (_root, mut bench) = bench();
    for (path, wanted, content_range) in [
        ("/small.txt", "bytes=16-", "bytes */16"),
        ("/small.txt", "bytes=-0", "bytes */16"),
        ("/empty.txt", "bytes=0-", "bytes */0"),
    ] {
        let answer = range(&mut bench, path, wanted);
        assert_eq!((answer.status, answer.field("Content-Range")), (416, Some(content_range)), "{wanted}");
    }
}

#[test]
fn what_is_no_range_or_too_many_is_ignored() {
    let (_root, mut bench) = bench();
    for wanted in ["lines=1-2", "bytes=5-2", "bytes=x", "bytes=0-0,2-2,4-4,6-6,8-8"] {
        let answer = range(&mut bench, "/small.txt", wanted);
        assert_eq!((answer.status, answer.text()), (200, "0123456789abcdef"), "{wanted}");
    }
}

#[test]
fn several_ranges_are_a_multipart_body() {
    let (_root, mut bench) = bench();
    let mut boundaries = Vec::new();
    for (path, streamed, size, parts) in [
        ("/small.txt", false, 16, [("0-1", "01"), ("14-15", "ef")]),
        ("/large.txt", true, 8192, [("0-1", "ab"), ("8190-8191", "ab")]),
    ] {
        let wanted = format!("bytes={},{}", parts[0].0, parts[1].0);
        let answer = range(&mut bench, path, &wanted);
        let content_type = answer.field("Content-Type").unwrap();
        let boundary = content_type.strip_prefix("multipart/byteranges; boundary=").unwrap();
        let mut expected = String::new();
        for (range, body) in parts {
            expected += &format!("--{boundary}\r\nContent-Type: text/plain; charset=utf-8\r\n");
            expected += &format!("Content-Range: bytes {range}/{size}\r\n\r\n{body}\r\n");
        }
        expected += &format!("--{boundary}--\r\n");
        assert_eq!((answer.status, answer.text(), answer.streamed), (206, &*expected, streamed));
        assert_eq!(answer.field("Content-Range"), None);
        boundaries.push(boundary.to_owned());
    }
    assert_ne!(boundaries[0], boundaries[1]);
}

#[test]
fn if_range_guards_against_mixing_two_versions() {
    let (_root, mut bench) = bench();
    let whole = bench.get("/small.txt");
    let (etag, date) = (whole.field("ETag").unwrap(), whole.field("Last-Modified").unwrap());
    for (condition, status) in [
        (etag, 206),
        (date, 206),
        ("\"other\"", 200),
        (&*format!("W/{etag}"), 200),
        ("Sun, 06 Nov 1994 08:49:37 GMT", 200),
    ] {
        let known =
            Known { range: Some(b"bytes=0-3"), if_range: Some(condition.as_bytes()), ..Known::default() };
        assert_eq!(bench.ask(b"/small.txt", known).status, status, "{condition}");
    }
}

#[test]
fn conditions_follow_the_precedence_of_the_standard() {
    let (_root, mut bench) = bench();
    let whole = bench.get("/small.txt");
    let etag = whole.field("ETag").unwrap().as_bytes();
    let date = whole.field("Last-Modified").unwrap().as_bytes();
    let old: &[u8] = b"Sun, 06 Nov 1994 08:49:37 GMT";
    let none = Known::default();
    for (known, status) in [
        (Known { if_none_match: List::of(etag), ..none }, 304),
        (Known { if_none_match: List::of(b"*"), ..none }, 304),
        (Known { if_none_match: List::of(b"\"other\""), ..none }, 200),
        (Known { if_none_match: List::of(b"\"other\""), if_modified_since: Some(date), ..none }, 200),
        (Known { if_modified_since: Some(date), ..none }, 304),
        (Known { if_modified_since: Some(old), ..none }, 200),
        (Known { if_match: List::of(etag), ..none }, 200),
        (Known { if_match: List::of(b"\"other\""), ..none }, 412),
        (Known { if_unmodified_since: Some(old), ..none }, 412),
        (Known { if_unmodified_since: Some(date), if_none_match: List::of(etag), ..none }, 304),
        (Known { if_none_match: List::of(etag), range: Some(b"bytes=0-1"), ..none }, 304),
    ] {
        let answer = bench.ask(b"/small.txt", known);
        assert_eq!(answer.status, status, "{known:?}");
        if status == 304 {
            assert_eq!(answer.field("ETag").map(str::as_bytes), Some(etag));
            assert_eq!(answer.field("Content-Type"), None);
        }
    }
}

/// Ranges of a multipart body with their bytes, read as a client does.
fn parts(answer: &Answer) -> Vec<(usize, usize, String)> {
    let boundary = answer.field("Content-Type").unwrap().split_once("boundary=").unwrap().1;
    let body = answer.text().strip_suffix(&format!("\r\n--{boundary}--\r\n")).unwrap();
    let pieces = format!("\r\n{body}");
    let delimiter = format!("\r\n--{boundary}\r\n");
    pieces
        .split(&delimiter)
        .skip(1)
        .map(|piece| {
            let (head, bytes) = piece.split_once("\r\n\r\n").unwrap();
            let range = head.split_once("Content-Range: bytes ").unwrap().1.split_once('/').unwrap().0;
            let (first, last) = range.split_once('-').unwrap();
            (first.parse().unwrap(), last.parse().unwrap(), bytes.to_owned())
        })
        .collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn every_part_is_the_bytes_that_it_says(
        ranges in prop::collection::vec((0_usize..9000, 0_usize..9000), 1..5),
        small in any::<bool>(),
    ) {
        let (root, mut bench) = bench();
        let path = if small { "small.txt" } else { "large.txt" };
        let content = std::fs::read_to_string(root.path().join(path)).unwrap();
        let ranges: Vec<_> = ranges.iter().map(|(a, b)| format!("{}-{}", a.min(b), a.max(b))).collect();
        let answer = range(&mut bench, &format!("/{path}"), &format!("bytes={}", ranges.join(",")));
        let is_multipart = answer.field("Content-Type").is_some_and(|media| media.starts_with("multipart/"));
        let parts = match answer.status {
            206 if is_multipart => parts(&answer),
            206 => {
                let range = answer.field("Content-Range").unwrap().strip_prefix("bytes ").unwrap();
                let (first, last) = range.split_once('/').unwrap().0.split_once('-').unwrap();
                vec![(first.parse().unwrap(), last.parse().unwrap(), answer.text().to_owned())]
            }
            status => {
                prop_assert_eq!(status, 416);
                vec![]
            }
        };
        for (first, last, bytes) in parts {
            prop_assert_eq!(content.get(first..=last), Some(bytes.as_str()));
        }
    }
}
