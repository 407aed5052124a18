//! Scripts beside files, and that their sources are never served.

use std::os::unix::fs::{PermissionsExt, symlink};

use maitred_http::fastcgi::script::Script;
use maitred_http::h1::Persistence;
use maitred_http::request::{Method, Request};
use tempfile::TempDir;

use super::super::FileSet;
use super::super::scripts::ScriptRules;
use super::super::testing::{Bench, files, read};
use super::tree;
use crate::testing::{Written, request};
use crate::{RequestContext, Served};
use maitred_config::{Coding, Files, TryItem};

const PHP: ScriptRules<'static> = ScriptRules { index: b"index.php", php: true, front: None };
const PLAIN: ScriptRules<'static> = ScriptRules { index: b"index.php", php: false, front: None };

fn application() -> TempDir {
    let root = tree(&[
        ("index.php", "<?php front"),
        ("a.php", "<?php secret"),
        ("dir/index.php", "<?php dir"),
        ("dir/image.png", "image"),
        ("static/index.html", "static"),
        ("empty/file.txt", "text"),
        ("upload/evil.jpg", "<?php evil"),
        ("b.PHP", "<?php secret"),
        ("a.php.gz", "secret"),
        (".env", "secret"),
        (".git/hook.php", "secret"),
        ("dir.php/file.txt", "text"),
    ]);
    std::fs::set_permissions(root.path().join("a.php"), std::fs::Permissions::from_mode(0o000)).unwrap();
    root
}

fn bench_of(files: Files) -> Bench {
    Bench::new(vec![FileSet::open(files).withholding_sources(true)])
}

fn shown(script: Script<'_>) -> String {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    format!("{}{}|{}", text(script.name), text(script.index), text(script.path_info))
}

/// The script that is run, or status and body (for a redirect where it leads).
fn ask(bench: &mut Bench, rules: ScriptRules<'_>, path: &str) -> String {
    for warmed in [false, true] {
        let request = Request { query: bench.query, ..request(bench.method) };
        let clock = bench.clock.clone();
        let context = RequestContext { request: &request, path: path.as_bytes(), clock: &clock, warmed };
        let head_only = bench.method == Method::Head;
        let mut written = Written { head_only, ..Written::new(Persistence::Implied) };
        match bench.server.script(0, rules, &context, &mut written.writer()) {
            Ok(script) => {
                assert!(written.out.is_empty());
                return shown(script);
            }
            Err(Served::Blocked(job)) => crate::disk::tests::run_here(&job),
            Err(served) => {
                let answer = read(served, &written.out, head_only, false);
                let place = answer.field("Location").map(str::to_owned);
                return format!("{} {}", answer.status, place.as_deref().unwrap_or(answer.text().trim_end()));
            }
        }
    }
    panic!("blocked twice")
}

#[test]
fn a_php_application_gets_what_is_no_file() {
    let root = application();
    let mut bench = bench_of(files(root.path()));
    for (path, expected) in [
        ("/a.php", "/a.php|"),
        ("/a.php/x/y.php", "/a.php|/x/y.php"),
        ("/a.php/", "/a.php|/"),
        ("/", "/index.php|"),
        ("/dir/", "/dir/index.php|"),
        ("/index.php/post", "/index.php|/post"),
        // Files, and directories of files.
        ("/dir/image.png", "200 image"),
        ("/static/", "200 static"),
        ("/static", "301 /static/"),
        ("/dir", "301 /dir/"),
        // The front controller.
        ("/2026/hello", "/index.php|"),
        ("/dir/none", "/index.php|"),
        ("/empty/", "/index.php|"),
        ("/empty", "/index.php|"),
        ("/none/", "/index.php|"),
        ("/dir/image.png/", "/index.php|"),
        // Neither.
        ("/none.php", "404 404 Not Found"),
        ("/none.php/x", "404 404 Not Found"),
        ("/upload/evil.jpg/x.php", "404 404 Not Found"),
        ("/b.PHP", "404 404 Not Found"),
        ("/A.php", "404 404 Not Found"),
        ("/a.php.gz", "404 404 Not Found"),
        ("/.env", "404 404 Not Found"),
        ("/.git/hook.php", "404 404 Not Found"),
        ("/.php", "404 404 Not Found"),
        ("/dir.php", "404 404 Not Found"),
        ("/dir.php/file.txt", "404 404 Not Found"),
        ("/a.php\0", "404 404 Not Found"),
        ("/../a.php", "404 404 Not Found"),
    ] {
        // What is cached changes nothing.
        for _ in 0..2 {
            assert_eq!(ask(&mut bench, PHP, path), expected, "{path:?}");
        }
    }
}

#[test]
fn only_get_and_head_get_files() {
    let root = application();
    let mut bench = bench_of(files(root.path()));
    bench.method = Method::Head;
    assert_eq!(ask(&mut bench, PHP, "/dir/image.png"), "200 ");
    for method in [Method::Post, Method::Put, Method::Delete, Method::Options, Method::Other] {
        bench.method = method;
        for (path, expected) in [
            ("/a.php", "/a.php|"),
            ("/dir/", "/dir/index.php|"),
            ("/dir/image.png", "/index.php|"),
            ("/dir", "/index.php|"),
            ("/none.php", "404 404 Not Found"),
        ] {
            assert_eq!(ask(&mut bench, PHP, path), expected, "{path}");
        }
    }
}

#[test]
fn an_application_that_is_not_phps_usual_one_has_only_scripts() {
    let root = application();
    let mut bench = bench_of(files(root.path()));
    for (path, expected) in [
        ("/a.php/x", "/a.php|/x"),
        ("/", "/index.php|"),
        ("/dir/", "/dir/index.php|"),
        ("/static/", "404 404 Not Found"),
        ("/dir", "404 404 Not Found"),
        ("/dir/image.png", "404 404 Not Found"),
        ("/none", "404 404 Not Found"),
    ] {
        assert_eq!(ask(&mut bench, PLAIN, path), expected, "{path}");
    }
}

#[test]
fn a_mounted_application_has_paths_of_its_own() {
    let root = application();
    let mut bench = bench_of(Files { strip_prefix: "/blog/".into(), ..files(root.path()) });
    for (path, expected) in [
        ("/blog/a.php/x", "/a.php|/x"),
        ("/blog/dir/image.png", "200 image"),
        ("/blog/post", "/index.php|"),
        ("/blog", "301 /blog/"),
        ("/blog/dir", "301 /blog/dir/"),
        ("/a.php", "404 404 Not Found"),
    ] {
        assert_eq!(ask(&mut bench, PHP, path), expected, "{path}");
    }
    bench.method = Method::Post;
    assert_eq!(ask(&mut bench, PHP, "/blog"), "/index.php|");
    assert_eq!(ask(&mut bench, PLAIN, "/blog"), "404 404 Not Found");
}

#[test]
fn to_a_front_controller_of_the_route_every_path_is_data() {
    let root = application();
    let mut bench = bench_of(Files { strip_prefix: "/blog/".into(), ..files(root.path()) });
    let front = ScriptRules { front: Some(b"/dir/index.php"), ..PHP };
    for path in [
        "/blog/a.php",
        "/blog/upload/evil.jpg/x.php",
        "/blog/upload/evil.jpg",
        "/blog/.env",
        "/wiki/.NET",
        "/wiki/Index.PHP/x",
        "/b.PHP",
        "/",
        "/blog",
    ] {
        assert_eq!(ask(&mut bench, front, path), "/dir/index.php|", "{path}");
    }
    let missing = ScriptRules { front: Some(b"/missing.php"), ..PHP };
    assert_eq!(ask(&mut bench, missing, "/blog/a.php"), "404 404 Not Found", "no other script is run");
    let directory = ScriptRules { front: Some(b"/dir.php"), ..PHP };
    assert_eq!(ask(&mut bench, directory, "/"), "404 404 Not Found");
}

#[test]
fn without_a_front_controller_the_rest_is_not_there() {
    let root = tree(&[("a.txt", "text"), ("app.php", "")]);
    let mut bench = bench_of(files(root.path()));
    assert_eq!(ask(&mut bench, PHP, "/a.txt"), "200 text");
    assert_eq!(ask(&mut bench, PHP, "/none"), "404 404 Not Found");
    let other = ScriptRules { index: b"app.php", php: true, front: None };
    assert_eq!(ask(&mut bench, other, "/none"), "/app.php|");
}

#[test]
fn scripts_are_bound_to_the_root_as_files_are() {
    let outside = tree(&[("out.php", "")]);
    let root = tree(&[("in.php", "")]);
    symlink(outside.path().join("out.php"), root.path().join("out.php")).unwrap();
    symlink(outside.path(), root.path().join("out")).unwrap();
    symlink("in.php", root.path().join("link.php")).unwrap();
    let ask_all = |files: Files| {
        let mut bench = bench_of(files);
        ["/out.php", "/out/out.php", "/link.php"].map(|path| ask(&mut bench, PHP, path))
    };
    let no = "404 404 Not Found";
    assert_eq!(ask_all(files(root.path())), [no, no, "/link.php|"]);
    let free = Files { symlinks_may_leave: true, ..files(root.path()) };
    assert_eq!(ask_all(free), ["/out.php|", "/out/out.php|", "/link.php|"]);
}

#[test]
fn a_script_that_came_or_went_is_seen_at_once() {
    let root = application();
    let mut bench = bench_of(files(root.path()));
    assert_eq!(ask(&mut bench, PHP, "/static/"), "200 static");
    std::fs::write(root.path().join("static/index.php"), "").unwrap();
    assert_eq!(ask(&mut bench, PHP, "/static/"), "/static/index.php|");
    std::fs::remove_file(root.path().join("static/index.php")).unwrap();
    assert_eq!(ask(&mut bench, PHP, "/static/"), "200 static");
}

#[test]
fn a_script_that_was_never_looked_up_is_looked_up_by_a_helper_thread() {
    // A directory on a disk, whose names are not in memory before.
    let root = tempfile::tempdir_in("/var/tmp").unwrap();
    let mut bench = bench_of(files(root.path()));
    let request = request(Method::Get);
    let clock = bench.clock.clone();
    let mut asked = |path: &str, warmed| {
        let context = RequestContext { request: &request, path: path.as_bytes(), clock: &clock, warmed };
        let mut written = Written::new(Persistence::Implied);
        bench.server.script(0, PHP, &context, &mut written.writer()).map(shown)
    };
    for path in ["/none.php", "/none", "/dir/"] {
        let Err(Served::Blocked(job)) = asked(path, false) else { panic!("{path} was not waited for") };
        crate::disk::tests::run_here(&job);
        assert!(matches!(asked(path, true), Err(Served::Whole(summary)) if summary.status == 404), "{path}");
    }
}

/// A directory whose first index is a script is left to the pool at the end of `try`, and the other way round it is a file.
#[test]
fn an_index_that_is_a_script_is_left_to_its_pool() {
    let root = application();
    super::put(root.path(), "both/index.php", "script");
    super::put(root.path(), "both/index.html", "page");
    super::put(root.path(), "page/index.html", "page");
    let around = TryItem::Around(String::new(), String::new());
    let served = |index: [&str; 2], last: Option<TryItem>| {
        let files = Files {
            index: index.map(str::to_owned).to_vec(),
            try_files: [around.clone()].into_iter().chain(last).collect(),
            ..files(root.path())
        };
        let mut bench = Bench::new(vec![FileSet::open(files).withholding_sources(true)]);
        ["/both/", "/both", "/page/"].map(|path| bench.get(path).status)
    };
    let pool = || Some(TryItem::Pool(0));
    assert_eq!(served(["index.php", "index.html"], pool()), [404, 404, 200]);
    assert_eq!(served(["index.html", "index.php"], pool()), [200, 301, 200]);
    assert_eq!(served(["index.php", "index.html"], None), [200, 301, 200]);
}

/// All that the file server could be made to give away of a site with scripts.
#[test]
fn sources_are_never_files() {
    let root = application();
    let put = |name: &str| super::put(root.path(), name, "secret");
    ["c.pHp.br", "d.php.GZ.zst", "404.php", "e.txt.php", "g.php~", "h.php.bak", "i.PHP.orig.gz", "j.php. ."]
        .into_iter()
        .for_each(put);
    super::put(root.path(), "page.phps", "shown");
    super::put(root.path(), "phpinfo", "shown");
    let around = |after: &str| TryItem::Around(String::new(), after.into());
    let files = Files {
        index: vec!["index.php".into(), "index.html".into()],
        precompressed: vec![Coding::Gzip, Coding::Brotli, Coding::Zstd],
        try_files: vec![around(""), around(".php"), TryItem::Fixed("/index.php".into())],
        listing: true,
        hidden: true,
        ..files(root.path())
    };
    let withheld = |files: &Files| {
        let set = FileSet::open(files.clone()).withholding_sources(true);
        Bench::new(vec![set.with_error_pages(0, vec![(404, "/404.php".into())])])
    };
    let mut bench = withheld(&files);
    for path in [
        "/a.php",
        "/a.PHP",
        "//a.php",
        "/a.php/",
        "/a.php ",
        "/a.php.",
        "/g.php~",
        "/h.php.bak",
        "/i.PHP.orig",
        "/i.PHP.orig.gz",
        "/j.php. .",
        "/b.PHP",
        "/a",
        "/e.txt",
        "/none",
        "/c.pHp.br",
        "/d.php.GZ.zst",
        "/d.php.GZ",
        "/a.php.gz",
        "/",
        "/dir/",
        "/dir",
        "/.git/hook.php",
        "/404.php",
        "/.git/hook",
    ] {
        let answer = bench.get(path);
        assert_eq!((answer.status, answer.text()), (404, "404 Not Found\n"), "{path}");
    }
    for path in ["/page.phps", "/phpinfo"] {
        assert_eq!(bench.get(path).text(), "shown", "{path}");
    }
    // Elsewhere they are files like any other.
    assert_eq!(Bench::of(files).get("/e.txt").text(), "secret");
}
