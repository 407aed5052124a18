//! Codings that are made here.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use maitred_http::request::{Known, List, Method};

use super::super::encoding::EncodingPlace;
use super::super::testing::{Answer, Bench, INLINE_BYTES_MAX, files, limits};
use super::super::{FileSet, Limits};
use super::{put, tree};
use maitred_config::{Coding, Compress, Files};
use maitred_policy::compress::Rules;

fn with(files: Files, limits: &Limits) -> Bench {
    let set = FileSet::open(files).with_compression(Some(Rules::new(Compress::default())));
    Bench::with_limits(limits, vec![set])
}

fn accepting(bench: &mut Bench, path: &str, codings: &str) -> Answer {
    let known = Known { accept_encoding: List::of(codings.as_bytes()), ..Known::default() };
    bench.ask(path.as_bytes(), known)
}

/// What helper threads would make. How many that are.
fn make(bench: &mut Bench) -> usize {
    let (taken, mut made) = (Arc::new(AtomicBool::new(false)), 0);
    while bench.server.has_due() {
        let place = EncodingPlace::take(&taken).expect("one at a time");
        let Some(encoding) = bench.server.next_due(place) else { continue };
        assert!(EncodingPlace::take(&taken).is_none() && !bench.server.has_due());
        encoding.run();
        bench.server.note_encoded(Some(&encoding));
        made += 1;
    }
    made
}

fn decoded(answer: &Answer) -> Vec<u8> {
    match answer.field("Content-Encoding") {
        Some("br") => {
            let (mut content, mut input) = (Vec::new(), &*answer.body);
            brotli::BrotliDecompress(&mut input, &mut content).unwrap();
            content
        }
        Some(other) => panic!("{other}"),
        None => answer.body.clone(),
    }
}

fn text(bytes: usize) -> String {
    let lines: String = (0..bytes / 20).map(|line| format!("let x{line} = {line};\n")).collect();
    lines[..bytes.min(lines.len())].to_owned()
}

#[test]
fn a_file_that_is_asked_for_three_times_is_sent_compressed() {
    let sizes = [2000, 3 * INLINE_BYTES_MAX as usize];
    let root = tree(&[("small.js", &text(sizes[0])), ("large.js", &text(sizes[1]))]);
    let mut bench = with(files(root.path()), &limits());
    for path in ["/small.js", "/large.js"] {
        let content = bench.get(path).body;
        let plain = bench.get(path);
        assert_eq!((plain.field("Content-Encoding"), plain.field("Vary")), (None, Some("Accept-Encoding")));
        for nth in 0..3 {
            assert_eq!(make(&mut bench), 0, "{path} {nth}");
            let answer = accepting(&mut bench, path, "gzip, br");
            assert_eq!((answer.field("Content-Encoding"), &answer.body), (None, &content), "{nth}");
        }
        assert_eq!(make(&mut bench), 1, "{path}");
        let answer = accepting(&mut bench, path, "gzip, br");
        assert_eq!((answer.status, answer.field("Content-Encoding")), (200, Some("br")));
        assert_eq!(answer.field("Content-Length"), Some(&*answer.body.len().to_string()));
        assert_eq!(answer.field("Content-Type"), Some("text/javascript; charset=utf-8"));
        assert_eq!((answer.field("Vary"), answer.field("Accept-Ranges")), (Some("Accept-Encoding"), None));
        assert_eq!(answer.field("Last-Modified"), plain.field("Last-Modified"));
        let etag = plain.field("ETag").unwrap();
        assert_eq!(answer.field("ETag"), Some(&*format!("{}-br\"", etag.trim_end_matches('"'))));
        assert_eq!(decoded(&answer), content);
        assert!(answer.body.len() < content.len() / 2);
        bench.method = Method::Head;
        let head = accepting(&mut bench, path, "br");
        assert_eq!(head.field("Content-Length"), answer.field("Content-Length"));
        bench.method = Method::Get;
        assert_eq!(bench.get(path).body, content, "for others it is what it was");
    }
}

#[test]
fn conditions_are_about_the_coding_and_ranges_about_the_plain_file() {
    let root = tree(&[("app.js", &text(2000))]);
    let mut bench = with(files(root.path()), &limits());
    (0..3).for_each(|_| drop(accepting(&mut bench, "/app.js", "br")));
    assert_eq!(make(&mut bench), 1);
    let br = accepting(&mut bench, "/app.js", "br").field("ETag").unwrap().to_owned();
    let known = Known { accept_encoding: List::of(b"br"), ..Known::default() };
    let same = bench.ask(b"/app.js", Known { if_none_match: List::of(br.as_bytes()), ..known });
    assert_eq!(
        (same.status, same.field("ETag"), same.field("Vary")),
        (304, Some(&*br), Some("Accept-Encoding"))
    );
    let part = bench.ask(b"/app.js", Known { range: Some(b"bytes=0-3"), ..known });
    assert_eq!((part.status, part.text(), part.field("Content-Encoding")), (206, "let ", None));
    let whole =
        bench.ask(b"/app.js", Known { range: Some(b"bytes=0-3"), if_range: Some(br.as_bytes()), ..known });
    assert_eq!(
        (whole.status, whole.body.len(), whole.field("Content-Encoding")),
        (200, text(2000).len(), None)
    );
}

#[test]
fn a_file_that_changes_is_compressed_anew() {
    let root = tree(&[("app.js", &text(2000))]);
    let mut bench = with(files(root.path()), &limits());
    (0..3).for_each(|_| drop(accepting(&mut bench, "/app.js", "br")));
    // What was asked for is gone before it is made.
    put(root.path(), "app.js", &text(3000));
    bench.pass(Duration::from_secs(2));
    assert_eq!(accepting(&mut bench, "/app.js", "br").body.len(), text(3000).len());
    make(&mut bench);
    (0..3).for_each(|_| drop(accepting(&mut bench, "/app.js", "br")));
    make(&mut bench);
    let answer = accepting(&mut bench, "/app.js", "br");
    assert_eq!((answer.field("Content-Encoding"), decoded(&answer)), (Some("br"), text(3000).into_bytes()));
    put(root.path(), "app.js", &text(4000));
    bench.pass(Duration::from_secs(2));
    let answer = accepting(&mut bench, "/app.js", "br");
    assert_eq!((answer.field("Content-Encoding"), answer.body.len()), (None, text(4000).len()));
}

#[test]
fn a_file_that_changes_while_it_is_read_is_not_kept() {
    let large = text(3 * INLINE_BYTES_MAX as usize);
    let root = tree(&[("app.js", &large)]);
    let mut bench = with(files(root.path()), &limits());
    (0..3).for_each(|_| drop(accepting(&mut bench, "/app.js", "br")));
    let place = EncodingPlace::take(&Arc::default()).unwrap();
    let encoding = bench.server.next_due(place).unwrap();
    std::fs::OpenOptions::new().append(true).open(root.path().join("app.js")).unwrap().set_len(100).unwrap();
    encoding.run();
    bench.server.note_encoded(Some(&encoding));
    // The entry is not looked at again before a second has passed.
    bench.method = Method::Head;
    let head = accepting(&mut bench, "/app.js", "br");
    let length = head.field("Content-Length").unwrap().to_owned();
    assert_eq!((head.field("Content-Encoding"), length), (None, large.len().to_string()));
}

#[test]
fn only_what_gains_from_it_is_compressed() {
    let big = text(1 << 17);
    let files_of = [
        ("short.js", "x"),
        ("image.png", &*text(2000)),
        ("big.js", &*big),
        ("a.js", &*text(2000)),
        ("a.js.gz", "z"),
    ];
    let root = tree(&files_of);
    let files = Files { precompressed: vec![Coding::Gzip], ..files(root.path()) };
    let mut bench = with(files, &limits());
    for (path, vary) in
        [("/short.js", None), ("/image.png", None), ("/big.js", None), ("/a.js", Some("Accept-Encoding"))]
    {
        for _ in 0..5 {
            let answer = accepting(&mut bench, path, "br");
            assert_eq!((answer.field("Content-Encoding"), answer.field("Vary")), (None, vary), "{path}");
        }
        assert_eq!(make(&mut bench), 0, "{path}");
    }
}

#[test]
fn what_saves_nothing_is_tried_once() {
    let mut seed = 1_u64;
    let mut noise = || {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (seed >> 56) as u8
    };
    let root = tree(&[("noise.txt", "")]);
    let content: Vec<u8> = std::iter::repeat_with(&mut noise).take(3000).collect();
    std::fs::write(root.path().join("noise.txt"), &content).unwrap();
    let mut bench = with(files(root.path()), &limits());
    for made in [1, 0] {
        (0..6).for_each(|_| assert_eq!(accepting(&mut bench, "/noise.txt", "br").body, content));
        assert_eq!(make(&mut bench), made);
    }
}

#[test]
fn what_was_made_counts_in_the_cache() {
    let root = tree(&[("a.js", &text(3000)), ("b.js", &text(3000))]);
    let limits = Limits { file_cache_bytes_max: 8500, ..limits() };
    let mut bench = with(files(root.path()), &limits);
    for path in ["/a.js", "/b.js"] {
        (0..3).for_each(|_| drop(accepting(&mut bench, path, "br")));
        let before = bench.server.cache_use();
        assert_eq!(make(&mut bench), 1);
        let after = bench.server.cache_use();
        assert!(after.bytes > before.bytes || after.entries < before.entries, "{before:?} {after:?}");
        assert!(after.bytes <= 8500, "{after:?}");
    }
}

#[test]
fn a_listing_comes_compressed_at_once() {
    let names: Vec<_> = (0..50).map(|at| format!("d/a file with a number {at}.txt")).collect();
    let root = tree(&names.iter().map(|name| (name.as_str(), "x")).collect::<Vec<_>>());
    let mut bench = with(Files { listing: true, ..files(root.path()) }, &limits());
    let plain = bench.get("/d/");
    assert_eq!((plain.field("Content-Encoding"), plain.field("Vary")), (None, Some("Accept-Encoding")));
    bench.pass(Duration::from_secs(2));
    let coded = accepting(&mut bench, "/d/", "br, zstd, gzip");
    assert_eq!(
        (coded.field("Content-Encoding"), coded.field("Vary")),
        (Some("zstd"), Some("Accept-Encoding"))
    );
    assert!(coded.body.len() < plain.body.len() / 2);
    assert_eq!(of_zstd(&coded.body), plain.body);
    // Clients that like another coding better have it made, as that of a file.
    for _ in 0..3 {
        assert_eq!(accepting(&mut bench, "/d/", "gzip").field("Content-Encoding"), None);
    }
    assert_eq!(make(&mut bench), 1);
    assert_eq!(accepting(&mut bench, "/d/", "gzip").field("Content-Encoding"), Some("gzip"));
    let small = Limits { compress_file_bytes_max: 100, ..limits() };
    let mut bench = with(Files { listing: true, ..files(root.path()) }, &small);
    let answer = accepting(&mut bench, "/d/", "zstd");
    assert_eq!((answer.field("Content-Encoding"), answer.field("Vary")), (None, None), "it is too long");
}

fn of_zstd(mut made: &[u8]) -> Vec<u8> {
    let mut content = Vec::new();
    let mut decoder = ruzstd::decoding::StreamingDecoder::new(&mut made).unwrap();
    std::io::Read::read_to_end(&mut decoder, &mut content).unwrap();
    content
}

#[test]
fn an_error_page_is_compressed_as_a_file_is() {
    let page = text(3000);
    let root = tree(&[("404.js", &page), ("405.js", &page), ("405.js.gz", "as if")]);
    let rules = || Some(Rules::new(Compress::default()));
    let files = Files { precompressed: vec![Coding::Gzip], ..files(root.path()) };
    let pages = vec![(404, "/404.js".to_owned()), (405, "/405.js".to_owned())];
    let set = FileSet::open(files).with_compression(rules()).with_error_pages(0, pages);
    let mut bench = Bench::with_limits(&limits(), vec![set]);
    for _ in 0..3 {
        let answer = accepting(&mut bench, "/none", "br");
        assert_eq!((answer.status, answer.field("Content-Encoding"), answer.text()), (404, None, &*page));
        assert_eq!(answer.field("Vary"), Some("Accept-Encoding"));
    }
    assert_eq!(make(&mut bench), 1);
    let answer = accepting(&mut bench, "/none", "br");
    assert_eq!(
        (answer.status, answer.field("Content-Encoding"), answer.field("ETag")),
        (404, Some("br"), None)
    );
    assert_eq!(decoded(&answer), page.as_bytes());
    assert_eq!(bench.get("/none").text(), page);
    bench.method = Method::Post;
    let answer = accepting(&mut bench, "/404.js", "gzip, br");
    assert_eq!(
        (answer.status, answer.field("Content-Encoding"), answer.text()),
        (405, Some("gzip"), "as if")
    );
    assert_eq!(
        (answer.field("Allow"), answer.field("Vary")),
        (Some("GET, HEAD, OPTIONS"), Some("Accept-Encoding"))
    );
}
