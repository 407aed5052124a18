//! Precompressed siblings.

use maitred_http::request::{Known, List};

use super::super::testing::{Answer, Bench, INLINE_BYTES_MAX, files};
use super::{put, tree};
use maitred_config::{Coding, Files};

fn accepting(bench: &mut Bench, coding: &str) -> Answer {
    bench.ask(b"/app.js", Known { accept_encoding: List::of(coding.as_bytes()), ..Known::default() })
}

fn with_codings(root: &tempfile::TempDir) -> Files {
    let precompressed = vec![Coding::Brotli, Coding::Zstd, Coding::Gzip];
    Files { precompressed, ..files(root.path()) }
}

#[test]
fn the_client_gets_the_coding_that_it_likes_best_and_the_server_prefers() {
    let root = tree(&[("app.js", "plain"), ("app.js.br", "brotli"), ("app.js.gz", "gzip")]);
    let mut bench = Bench::of(with_codings(&root));
    for (accept, coding, body) in [
        ("gzip, deflate, br, zstd", Some("br"), "brotli"),
        ("gzip", Some("gzip"), "gzip"),
        ("br;q=0.5, gzip", Some("gzip"), "gzip"),
        ("zstd", None, "plain"),
        ("identity", None, "plain"),
        ("br;q=0, gzip;q=0", None, "plain"),
        ("identity;q=0, zstd", None, "plain"),
    ] {
        let answer = accepting(&mut bench, accept);
        assert_eq!(
            (answer.status, answer.field("Content-Encoding"), answer.text()),
            (200, coding, body),
            "{accept}"
        );
        assert_eq!(answer.field("Content-Type"), Some("text/javascript; charset=utf-8"));
        assert_eq!(answer.field("Vary"), Some("Accept-Encoding"));
    }
    assert_eq!(bench.get("/app.js").text(), "plain");
}

#[test]
fn each_coding_has_its_own_tag_and_ranges_are_of_the_encoded_bytes() {
    let root = tree(&[("app.js", "0123456789"), ("app.js.gz", "abcdef")]);
    let mut bench = Bench::of(with_codings(&root));
    let plain = accepting(&mut bench, "identity").field("ETag").unwrap().to_owned();
    let gzip = accepting(&mut bench, "gzip").field("ETag").unwrap().to_owned();
    assert!(gzip.ends_with("-gzip\"") && plain != gzip, "{plain} {gzip}");
    let known = Known {
        accept_encoding: List::of(b"gzip"),
        range: Some(b"bytes=1-2"),
        if_range: Some(gzip.as_bytes()),
        ..Known::default()
    };
    let part = bench.ask(b"/app.js", known);
    assert_eq!((part.status, part.text(), part.field("Content-Range")), (206, "bc", Some("bytes 1-2/6")));
    assert_eq!(part.field("Content-Encoding"), Some("gzip"));
    let stale = bench.ask(b"/app.js", Known { if_range: Some(plain.as_bytes()), ..known });
    assert_eq!((stale.status, stale.text()), (200, "abcdef"));
}

#[test]
fn without_siblings_nothing_varies() {
    let root = tree(&[("app.js", "plain")]);
    let mut bench = Bench::of(with_codings(&root));
    let answer = accepting(&mut bench, "br");
    assert_eq!((answer.text(), answer.field("Vary")), ("plain", None));
    // A sibling that appears is found at the next look, with the tag of the plain file unchanged.
    put(root.path(), "app.js.br", "brotli");
    bench.pass(std::time::Duration::from_secs(2));
    assert_eq!(accepting(&mut bench, "br").text(), "brotli");
    let plain = bench.get("/app.js");
    assert_eq!((plain.field("ETag"), plain.field("Vary")), (answer.field("ETag"), Some("Accept-Encoding")));
}

#[test]
fn a_sibling_alone_and_a_sibling_unasked_for_are_not_looked_at() {
    let root = tree(&[("app.js.br", "brotli")]);
    assert_eq!(accepting(&mut Bench::of(with_codings(&root)), "br").status, 404);
    put(root.path(), "app.js", "plain");
    assert_eq!(accepting(&mut Bench::of(files(root.path())), "br").text(), "plain");
}

#[test]
fn large_siblings_are_streamed() {
    let large = "z".repeat(INLINE_BYTES_MAX as usize + 1);
    let root = tree(&[("app.js", "plain"), ("app.js.zst", &large)]);
    let answer = accepting(&mut Bench::of(with_codings(&root)), "zstd");
    assert_eq!((answer.field("Content-Encoding"), answer.streamed), (Some("zstd"), true));
    assert_eq!(answer.text(), large);
}
