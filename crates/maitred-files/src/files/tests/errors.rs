//! Error pages, and what a broken site answers.

use maitred_http::request::{Known, List, Method};

use super::super::FileSet;
use super::super::testing::{Bench, INLINE_BYTES_MAX, files};
use super::tree;

#[test]
fn error_pages_keep_the_status_of_the_error() {
    let large = "x".repeat(INLINE_BYTES_MAX as usize + 1);
    let site = tree(&[("404.html", "<p>not here"), ("large.html", &large), ("a", "abc")]);
    let other = tree(&[]);
    let pages = vec![
        (404, "/404.html".to_owned()),
        (405, "/404.html".to_owned()),
        (412, "/large.html".to_owned()),
        (416, "/missing.html".to_owned()),
    ];
    let sets = |root| {
        vec![FileSet::open(files(root)).with_error_pages(1, pages.clone()), FileSet::open(files(site.path()))]
    };
    let mut bench = Bench::new(sets(other.path()));
    for _ in 0..2 {
        let answer = bench.get("/b");
        assert_eq!((answer.status, answer.text()), (404, "<p>not here"));
        assert_eq!(answer.field("Content-Type"), Some("text/html; charset=utf-8"));
        assert_eq!((answer.field("ETag"), answer.field("Last-Modified")), (None, None));
        bench.pass(std::time::Duration::from_secs(2));
    }
    bench.method = Method::Post;
    let answer = bench.get("/b");
    assert_eq!((answer.status, answer.field("Allow")), (405, Some("GET, HEAD, OPTIONS")));
    assert_eq!(answer.text(), "<p>not here");
    bench.method = Method::Head;
    assert_eq!(bench.get("/b").status, 404);

    let mut bench = Bench::new(sets(site.path()));
    let answer = bench.ask(b"/a", Known { if_match: List::of(b"\"x\""), ..Known::default() });
    assert_eq!((answer.status, answer.streamed, answer.text() == large), (412, true, true));
    let answer = bench.ask(b"/a", Known { range: Some(b"bytes=9-"), ..Known::default() });
    assert_eq!(
        (answer.status, answer.text()),
        (416, "416 Range Not Satisfiable\n"),
        "a missing page is no loop"
    );
    assert_eq!(answer.field("Content-Range"), Some("bytes */3"));
}

#[test]
fn a_root_that_is_not_there_is_the_servers_fault() {
    let root = tree(&[]);
    let mut bench = Bench::of(files(&root.path().join("missing")));
    assert_eq!(bench.get("/a").status, 500);
}

#[test]
fn an_unknown_set_is_an_error_and_no_panic() {
    assert_eq!(Bench::new(Vec::new()).get("/a").status, 500);
}
