//! Index files, the missing slash, listings, `try` and `strip_prefix`.

use std::os::unix::fs::symlink;

use super::super::testing::{Bench, files};
use super::tree;
use maitred_config::{Files, TryItem};

#[test]
fn a_directory_shows_its_first_index() {
    let root = tree(&[("index.html", "top"), ("a/home.htm", "home"), ("b/x", "x")]);
    let index = vec!["index.html".to_owned(), "home.htm".to_owned()];
    let mut bench = Bench::of(Files { index, ..files(root.path()) });
    assert_eq!(bench.get("/").text(), "top");
    assert_eq!(bench.get("/a/").text(), "home");
    assert_eq!(bench.get("/a/").field("Content-Type"), Some("text/html; charset=utf-8"));
    assert_eq!(bench.get("/b/").status, 404);
    assert_eq!(bench.get("/b").status, 404, "no redirect to a path that does not exist");
}

#[test]
fn a_missing_slash_is_a_redirect_that_stays_on_this_host() {
    let root = tree(&[("dir/index.html", ""), ("a b%/index.html", ""), ("\\evil.example/index.html", "")]);
    let mut bench = Bench::of(files(root.path()));
    bench.query = Some("q=1&r=%20");
    for (path, location) in [
        ("/dir", "/dir/?q=1&r=%20"),
        ("/a b%", "/a%20b%25/?q=1&r=%20"),
        ("/\\evil.example", "/%5Cevil.example/?q=1&r=%20"),
        // The path of a request never looks like this; if it did, the answer must not lead to another host.
        ("//dir", "/dir/?q=1&r=%20"),
    ] {
        let answer = bench.get(path);
        assert_eq!((answer.status, answer.field("Location")), (301, Some(location)), "{path}");
    }
}

#[test]
fn listings_show_what_could_be_fetched() {
    let outside = tree(&[("secret", "x")]);
    let root = tree(&[("d/<i>.txt", "12345"), ("d/.hidden", ""), ("d/sub/x", "")]);
    symlink(outside.path().join("secret"), root.path().join("d/out")).unwrap();
    symlink("sub/x", root.path().join("d/in")).unwrap();
    let mut bench = Bench::of(Files { listing: true, ..files(root.path()) });
    assert_eq!(bench.get("/d").field("Location"), Some("/d/"));
    let answer = bench.get("/d/");
    assert_eq!((answer.status, answer.blocked), (200, true), "directories are read by a helper thread first");
    assert_eq!(answer.field("Content-Type"), Some("text/html; charset=utf-8"));
    let links: Vec<_> =
        answer.text().split("href=\"").skip(1).filter_map(|rest| rest.split('"').next()).collect();
    assert_eq!(links, ["../", "./sub/", "./%3Ci%3E.txt", "./in"]);
    assert!(!bench.get("/d/").blocked, "the page is cached");
    assert!(!bench.get("/").text().contains("../"), "nothing is above the top");
}

#[test]
fn an_index_goes_before_a_listing() {
    let root = tree(&[("index.html", "top")]);
    let mut bench = Bench::of(Files { listing: true, ..files(root.path()) });
    assert_eq!(bench.get("/").text(), "top");
}

fn around(before: &str, after: &str) -> TryItem {
    TryItem::Around(before.to_owned(), after.to_owned())
}

#[test]
fn try_takes_the_first_that_is_there() {
    let root = tree(&[
        ("app.html", "app"),
        ("about.html", "about"),
        ("static/logo", "logo"),
        ("docs/index.html", "docs"),
        ("assets/x.css", "x"),
    ]);
    let fallback = TryItem::Fixed("/app.html".to_owned());
    let try_files = vec![around("", ""), around("", ".html"), around("/static", ""), fallback];
    let mut bench = Bench::of(Files { try_files, ..files(root.path()) });
    for (path, body) in [
        ("/about", "about"),
        ("/about.html", "about"),
        ("/logo", "logo"),
        ("/docs/", "docs"),
        ("/assets/x.css", "x"),
        ("/assets", "app"),
        ("/assets/", "app"),
        ("/any/route/of/the/app", "app"),
        ("/another", "app"),
    ] {
        for _ in 0..2 {
            let answer = bench.get(path);
            assert_eq!((answer.status, answer.text()), (200, body), "{path}");
        }
    }
    assert_eq!(bench.get("/docs").status, 301);
    assert_eq!(bench.get("/.env").status, 404, "hidden names do not fall back");
}

#[test]
fn try_can_end_in_a_status_or_in_nothing() {
    let root = tree(&[("a", "a"), ("d/index.html", "d")]);
    for (last, status) in [(TryItem::Status(410), 410), (TryItem::Fixed("/gone.html".to_owned()), 404)] {
        let try_files = vec![around("", ""), last];
        let mut bench = Bench::of(Files { try_files, ..files(root.path()) });
        assert_eq!((bench.get("/a").status, bench.get("/b").status), (200, status));
    }
    let mut bench = Bench::of(Files { try_files: vec![around("", "/")], ..files(root.path()) });
    assert_eq!((bench.get("/d").status, bench.get("/d/").text()), (301, "d"));
}

#[test]
fn a_prefix_is_taken_off() {
    let root = tree(&[("index.html", "top"), ("a/b", "b")]);
    let listing = true;
    let mut bench = Bench::of(Files { strip_prefix: "/static/".to_owned(), listing, ..files(root.path()) });
    assert_eq!(bench.get("/static/a/b").text(), "b");
    assert_eq!(bench.get("/static/").text(), "top");
    assert_eq!(bench.get("/static").field("Location"), Some("/static/"));
    assert!(bench.get("/static/a/").text().contains("Index of /static/a/"));
    for path in ["/", "/a/b", "/statics", "/staticx/a/b"] {
        assert_eq!(bench.get(path).status, 404, "{path}");
    }
}
