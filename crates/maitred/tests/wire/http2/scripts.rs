//! Sources of scripts in a site with a FastCGI pool are never files, whatever the routes say; what stands beside them is. No
//! request here gets as far as the application, which is not there.

use crate::support::h2::Connection;
use crate::support::{Server, Setup};

const SECRET: &[u8] = b"<?php $password = 'secret';\n";

/// A site whose files are those of the application, with everything on that could give a source away.
fn site(connect: &str) -> Server {
    let sources = [
        "a.php",
        "a.php.gz",
        "b.PHP",
        "c.php.br",
        "404.php",
        "d/index.php",
        "e/page.css.php",
        ".x/y.php",
        "f.php ",
    ];
    let setup = sources.iter().fold(Setup::with_files(), |setup, name| setup.file(name, SECRET));
    setup
        .file("image.png", b"0123456789")
        .file("only/index.html", b"only")
        .file("upload/evil.jpg", SECRET)
        .site("index = [\"index.php\", \"index.html\"]")
        .site("try = [\"{path}\", \"{path}.php\", \"/404.php\"]")
        .site("precompressed = [\"gzip\", \"br\", \"zstd\"]")
        .site("error_pages = { 404 = \"/404.php\" }")
        .site("hidden = true\nlisting = true")
        .route("/app/*", "pool = \"php\"")
        .route("/down/*", "root = \"root\"\nstrip_prefix = \"/down/\"\ntry = [\"{path}\", \"/a.php\"]")
        .route("*.php", "root = \"root\"")
        .table(&format!("[pool.php]\n{connect}mount = \"/app\"\n"))
        .start()
}

fn fastcgi() -> Server {
    site("connect = \"fastcgi://127.0.0.1:1\"\nroot = \"root\"\nphp = true\n")
}

/// Status and body, by both versions.
#[track_caller]
fn get(server: &Server, by_2: &mut Connection, path: &str, field: Option<(&str, &str)>) -> (u16, Vec<u8>) {
    let line = field.map(|(name, value)| format!("{name}: {value}\r\n")).unwrap_or_default();
    let first = server.connect().method("GET", path, &line);
    let second = by_2.method("GET", path, field.as_slice());
    assert_eq!((first.status, &first.body), (second.status, &second.body), "{path}");
    (first.status, first.body)
}

#[test]
fn sources_are_never_files() {
    let server = fastcgi();
    let mut by_2 = Connection::new(server.address);
    let below = ["", "/down", "/app"];
    let odd = [
        "/a.PHP",
        "/a.php.",
        "/a.php;x",
        "/a.php.gz",
        "/c.php.br",
        "/b.PHP",
        "/b.PHP?x",
        "/.x/y.PHP",
        "/upload/evil.jpg/x.php",
        "/none.php",
        "/none.php/x",
        "/f.php%20.php",
    ];
    let plain = [
        "/a.php",
        "/a.php/",
        "//a.php",
        "/a%2ephp",
        "/%61.ph%70",
        "/x/../a.php",
        "/./a.php",
        "/a.php?a.txt",
        "/d/",
        "/d",
        "/a",
        "/e/page.css",
        "/.x/y.php",
        "/none",
        "/404",
        "/404.php",
    ];
    let all = below.iter().flat_map(|below| odd.iter().map(move |path| format!("{below}{path}")));
    // Below /app these run.
    let files = below[..2].iter().flat_map(|below| plain.iter().map(move |path| format!("{below}{path}")));
    for path in all.chain(files) {
        for field in [None, Some(("accept-encoding", "gzip, br, zstd"))] {
            let (status, body) = get(&server, &mut by_2, &path, field);
            let text = String::from_utf8_lossy(&body);
            assert_eq!((status, &*text), (404, "404 Not Found\n"), "{path}");
        }
    }
    // There are file systems for which such a name is that of the script; and a NUL never gets as far.
    assert_ne!(get(&server, &mut by_2, "/f.php%20", None).1, SECRET);
    assert_eq!(get(&server, &mut by_2, "/a.php%00", None).0, 400);
}

#[test]
fn in_other_sites_they_are_files_like_any_other() {
    let server = site("connect = \"http://127.0.0.1:1\"\n");
    let mut by_2 = Connection::new(server.address);
    for path in ["/a.php", "//a.php", "/a%2ephp", "/b.PHP", "/d/", "/a", "/e/page.css", "/c.php.br", "/none"]
    {
        assert_eq!(get(&server, &mut by_2, path, None), (200, SECRET.to_vec()), "{path}");
    }
}

#[test]
fn what_stands_beside_scripts_is_served() {
    let server = fastcgi();
    let mut by_2 = Connection::new(server.address);
    for round in 0..2 {
        for (path, expected) in
            [("/app/image.png", "0123456789"), ("/app/a.txt", "file a\n"), ("/app/only/", "only")]
        {
            let (status, body) = get(&server, &mut by_2, path, None);
            assert_eq!((status, &*String::from_utf8_lossy(&body)), (200, expected), "{path}, round {round}");
        }
    }
    let image = server.connect().get("/app/image.png");
    assert_eq!(image.need("content-type"), "image/png");
    let etag = image.need("etag").to_owned();
    assert_eq!(get(&server, &mut by_2, "/app/image.png", Some(("if-none-match", &etag))).0, 304);
    let range = get(&server, &mut by_2, "/app/image.png", Some(("range", "bytes=2-4")));
    assert_eq!(range, (206, b"234".to_vec()));
    let slash = server.connect().get("/app/only?x=1");
    assert_eq!((slash.status, slash.need("location")), (301, "/app/only/?x=1"));
    // With content that is not needed, on a connection that goes on.
    let mut client = server.connect();
    let get = "GET /app/a.txt HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\n\r\nhello";
    for _ in 0..3 {
        client.send(get);
        assert_eq!(client.response("GET").text(), "file a\n");
    }
}
