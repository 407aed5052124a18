//! The file server as its callers see it, on real files.

mod changes;
mod codings;
mod cold;
mod conditions;
mod confinement;
mod directories;
mod errors;
mod made;
mod manual;
mod scripts;

use std::fs;
use std::path::Path;

use maitred_http::fields::FieldEdits;
use maitred_http::request::Method;
use tempfile::TempDir;

use super::FileSet;
use super::testing::{Bench, INLINE_BYTES_MAX, files};
use maitred_config::{Coding, HeaderRules};

/// A directory with these files in it.
fn tree(content: &[(&str, &str)]) -> TempDir {
    let root = tempfile::tempdir().unwrap();
    for (path, text) in content {
        put(root.path(), path, text);
    }
    root
}

fn put(root: &Path, path: &str, text: &str) {
    let path = root.join(path);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

#[test]
fn a_small_file_is_sent_whole() {
    let root = tree(&[("a.txt", "hello")]);
    let mut bench = Bench::of(files(root.path()));
    for _ in 0..2 {
        let answer = bench.get("/a.txt");
        assert_eq!((answer.status, answer.text(), answer.streamed), (200, "hello", false));
        assert_eq!(answer.field("Content-Type"), Some("text/plain; charset=utf-8"));
        assert_eq!(answer.field("Accept-Ranges"), Some("bytes"));
        assert!(answer.field("ETag").unwrap().starts_with("\"5-"));
    }
    let missing = bench.get("/b.txt");
    assert_eq!((missing.status, missing.text()), (404, "404 Not Found\n"));
}

#[test]
fn sizes_around_the_inline_limit_are_all_whole() {
    let max = INLINE_BYTES_MAX as usize;
    for (size, streamed) in [(0, false), (1, false), (max, false), (max + 1, true), (10 * max, true)] {
        let text = "x".repeat(size);
        let root = tree(&[("file", &text)]);
        let answer = Bench::of(files(root.path())).get("/file");
        assert_eq!((answer.text() == text, answer.streamed), (true, streamed), "{size}");
    }
}

#[test]
fn head_has_the_fields_of_get_and_no_body() {
    let large = "x".repeat(INLINE_BYTES_MAX as usize + 1);
    let root = tree(&[("small", "hello"), ("large", &large)]);
    let mut bench = Bench::of(files(root.path()));
    for path in ["/small", "/large", "/missing"] {
        bench.method = Method::Get;
        let get = bench.get(path);
        bench.method = Method::Head;
        let head = bench.get(path);
        assert_eq!((head.head, head.body.len(), head.streamed), (get.head, 0, false));
    }
}

#[test]
fn options_and_other_methods_name_what_is_allowed() {
    let root = tree(&[("a", "hello")]);
    let mut bench = Bench::of(files(root.path()));
    for (method, status) in
        [(Method::Options, 204), (Method::Post, 405), (Method::Trace, 405), (Method::Other, 405)]
    {
        bench.method = method;
        let answer = bench.get("/a");
        assert_eq!((answer.status, answer.field("Allow")), (status, Some("GET, HEAD, OPTIONS")));
    }
}

#[test]
fn edits_of_the_route_are_in_heads_of_files() {
    let root = tree(&[("a.txt", "0123456789"), ("a.txt.gz", "")]);
    let mut edits = FieldEdits::default();
    edits.set("Content-Type", b"text/other");
    edits.set("Vary", b"Origin");
    edits.remove("ETag");
    let files = maitred_config::Files { precompressed: vec![Coding::Gzip], ..files(root.path()) };
    let mut bench = Bench::new(vec![FileSet::open(files).with_edits(edits)]);
    let ranges = |range| maitred_http::request::Known { range, ..Default::default() };
    let count = |head: &str, name: &str| head.matches(&format!("\r\n{name}: ")).count();
    let whole = bench.get("/a.txt");
    assert_eq!((whole.field("Content-Type"), whole.field("ETag")), (Some("text/other"), None));
    assert_eq!(count(&whole.head, "Vary"), 2, "what a response varies by is a fact: {}", whole.head);
    let several = bench.ask(b"/a.txt", ranges(Some(b"bytes=0-0,5-5")));
    assert_eq!((several.status, count(&several.head, "Content-Type")), (206, 1), "{}", several.head);
    assert!(several.field("Content-Type").unwrap().starts_with("multipart/byteranges"));
    assert_eq!(several.text().matches("Content-Type: text/other\r\n").count(), 2);
}

#[test]
fn header_rules_are_in_every_answer_that_speaks_of_the_file() {
    let root = tree(&[("a.txt", "hello"), ("d/index.html", "")]);
    let rules = HeaderRules {
        set: vec![("Cache-Control".to_owned(), "max-age=60".to_owned())],
        remove: vec!["etag".to_owned(), "accept-ranges".to_owned()],
    };
    let mut bench = Bench::of(maitred_config::Files { headers: rules, ..files(root.path()) });
    let known = |range, modified| maitred_http::request::Known {
        range,
        if_modified_since: modified,
        ..Default::default()
    };
    let whole = bench.ask(b"/a.txt", known(Some(b"bytes=0-1"), None));
    assert_eq!((whole.status, whole.field("ETag")), (200, None), "no ranges without Accept-Ranges");
    assert_eq!(whole.field("Cache-Control"), Some("max-age=60"));
    let date = whole.field("Last-Modified").unwrap().to_owned();
    let unchanged = bench.ask(b"/a.txt", known(None, Some(date.as_bytes())));
    assert_eq!((unchanged.status, unchanged.field("Cache-Control")), (304, Some("max-age=60")));
    assert_eq!(bench.get("/d").field("Cache-Control"), Some("max-age=60"));
    assert_eq!(
        bench.get("/missing").field("Cache-Control"),
        None,
        "an error is not to be cached like a file"
    );
}
