//! Which script answers, and that scripts are never files.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use crate::fastcgi::nginx::Nginx;
use crate::fastcgi::site::{FRONT, files, on_both, setup, start};
use crate::support::h2;
use crate::support::php::{BACKLOG, Kind, Php};
use crate::support::stage::Authority;
use crate::support::{Client, Setup, eventually};

/// What only a script has, whose source would be a file.
const SOURCE: &[u8] = b"<?php";

fn shows_source(body: &[u8]) -> bool {
    body.windows(SOURCE.len()).any(|window| window == SOURCE)
}

#[test]
fn the_front_controller_has_what_is_no_file() {
    let Some(php) = Php::fpm(2) else { return };
    on_both(&php, |front| {
        for (target, expected) in [
            ("/", "index.php of root: GET /"),
            ("/?a=b", "index.php of root: GET /?a=b"),
            ("/no/such/page", "index.php of root: GET /no/such/page"),
            ("/no/such/page?a=%2F&b", "index.php of root: GET /no/such/page?a=%2F&b"),
            ("/no%20such/", "index.php of root: GET /no%20such/"),
            ("/index.php", "index.php of root: GET /index.php"),
            ("/index.php/path/info", "index.php of root: GET /index.php/path/info"),
            ("/sub/", "index.php of sub: GET /sub/"),
            ("/sub/index.php?x", "index.php of sub: GET /sub/index.php?x"),
        ] {
            let response = front.get(target);
            assert_eq!((response.status, response.text()), (200, expected), "{}: {target}", front.name);
        }
        let response = front.get("/sub");
        assert!(
            response.status == 301 && response.need("location").ends_with("/sub/"),
            "{}: {response:?}",
            front.name
        );
        let posted = front.connect().post("/no/such/page", b"a=b");
        assert_eq!(posted.text(), "index.php of root: POST /no/such/page", "{}", front.name);
    });
}

/// Files are files, with what a file server does with them.
#[test]
fn files_are_served_as_files() {
    let Some(php) = Php::fpm(2) else { return };
    on_both(&php, |front| {
        let mut client = front.connect();
        let response = client.get("/a.txt");
        assert_eq!((response.status, response.text()), (200, "file a\n"), "{}", front.name);
        let etag = response.need("etag").to_owned();
        let again = client.method("GET", "/a.txt", &format!("If-None-Match: {etag}\r\n"));
        assert_eq!(again.status, 304);
        let part = client.method("GET", "/a.txt", "Range: bytes=5-5\r\n");
        assert_eq!((part.status, part.text()), (206, "a"));
        assert_eq!(client.get("/upload/evil.jpg").need("content-type"), "image/jpeg");
        assert_eq!(client.get("/dir/index.html").text(), "<p>dir</p>\n");
    });
}

#[test]
fn scripts_that_are_not_there_are_not_found() {
    let Some(php) = Php::fpm(2) else { return };
    on_both(&php, |front| {
        let mut client = front.connect();
        for target in ["/none.php", "/none.php/info", "/sub/none.php?x", "/none/index.php"] {
            assert_eq!(client.get(target).status, 404, "{}: {target}", front.name);
        }
    });
}

/// An image with code inside is not run by the name of a script behind it. nginx runs it if its configuration does not look for
/// the script, and PHP is php-cgi.
#[test]
fn uploads_are_not_run() {
    let target = "/upload/evil.jpg/x.php";
    for kind in [Kind::FpmUnix, Kind::FpmTcp, Kind::CgiUnix, Kind::CgiTcp] {
        let Some(php) = Php::of(kind, 2) else { return };
        on_both(&php, |front| {
            for target in
                [target, "/upload/evil.jpg/.php", "/upload/evil.jpg%2Fx.php", "/upload/evil.jpg/x.php/y"]
            {
                let response = front.get(target);
                assert!(
                    !response.body.windows(10).any(|window| window == b"IT HAS RUN"),
                    "{}: {target}",
                    front.name
                );
                assert!(
                    response.status == 404 || target.contains("/.php"),
                    "{}: {target}: {response:?}",
                    front.name
                );
            }
        });
        let setup = setup(&php, FRONT);
        let root = setup.directory.path().join("root");
        let Some(nginx) = Nginx::careless(&root, &php, &Authority::new()) else { continue };
        let response = Client::connect(nginx.address).get(target);
        let ran = String::from_utf8_lossy(&response.body).contains("IT HAS RUN");
        assert_eq!(
            ran,
            matches!(kind, Kind::CgiUnix | Kind::CgiTcp),
            "{kind:?}: the danger is there: {response:?}"
        );
    }
}

/// Whatever the routes say, and however the path is written.
#[test]
fn scripts_are_never_files() {
    let Some(php) = Php::fpm(2) else { return };
    let setup = setup(&php, FRONT);
    let root = setup.directory.path().join("root");
    for name in ["a.PHP", "b.php.gz", "c.Php"] {
        fs::write(root.join(name), b"<?php echo 'secret';").unwrap();
    }
    let server = setup
        .table("[[site]]\nhosts = [\"files.test\"]\n[[site.route]]\npath = \"/*\"\nroot = \"root\"\n")
        .start();
    for target in [
        "/vars.php",
        "/vars.php/",
        "/vars.php/x",
        "/a.PHP",
        "/c.Php",
        "/vars.php%20",
        "/vars.php.",
        "//vars.php",
        "/vars%2ephp",
        "/vars.ph%70",
        "/./vars.php",
        "/x/../vars.php",
        "/vars.php?x=.txt",
        "/vars.php;a",
        "/vars.php%00.txt",
        "/vars.php%00",
        "/vars.php::$DATA",
        "/sub/index.php",
        "/sub/../vars.php",
        "/vars.php/../a.txt",
        "/vars.php#x",
        "/.php",
    ] {
        for method in ["GET", "HEAD", "POST"] {
            let response = server.connect().method(method, target, "");
            assert!(!shows_source(&response.body), "{method} {target}: {response:?}");
        }
        // A site of its own that has the same files.
        let mut client = server.connect();
        client.send(format!("GET {target} HTTP/1.1\r\nHost: files.test\r\n\r\n"));
        let response = client.response("GET");
        assert!(!shows_source(&response.body), "{target} of the other site: {response:?}");
        let mut connection = h2::Connection::new(server.address);
        if !target.contains('#') {
            let response = connection.get(target);
            assert!(!shows_source(&response.body), "{target} over HTTP/2: {response:?}");
        }
    }
    server.stop();
}

/// Nor by another name of the same directory, in a site that runs none.
#[test]
fn links_to_scripts_show_no_source() {
    let setup = files().route("/*", "pool = \"php\"").table(&format!(
        "[pool.php]\nconnect = \"fastcgi://127.0.0.1:1\"\n{FRONT}\n\
         [[site]]\nhosts = [\"linked.test\"]\nroot = \"current\"\n\
         [[site]]\nhosts = [\"outer.test\"]\nroot = \"outer\"\nsymlinks = \"anywhere\"\n"
    ));
    let directory = setup.directory.path();
    symlink("root", directory.join("current")).unwrap();
    fs::create_dir(directory.join("outer")).unwrap();
    symlink("../root", directory.join("outer/app")).unwrap();
    let server = setup.start();
    let mut client = server.connect();
    for (host, below) in [("linked.test", ""), ("outer.test", "/app")] {
        for (name, status) in [("vars.php", 404), ("a.txt", 200)] {
            client.send(format!("GET {below}/{name} HTTP/1.1\r\nHost: {host}\r\n\r\n"));
            let response = client.response("GET");
            assert_eq!(response.status, status, "{host} {name}: {response:?}");
        }
    }
    server.stop();
}

/// The connection of a client is kept, whatever PHP does with its own.
#[test]
fn connections_of_clients_are_kept() {
    for kind in [Kind::FpmUnix, Kind::FpmTcp, Kind::CgiUnix] {
        let Some(php) = Php::of(kind, 2) else { return };
        on_both(&php, |front| {
            let mut client = front.connect();
            for number in 0..50 {
                let expected = format!("index.php of root: GET /{number}");
                assert_eq!(client.get(&format!("/{number}")).text(), expected, "{}", front.name);
                assert_eq!(client.get("/a.txt").text(), "file a\n");
            }
        });
        let server = start(&php, "");
        let mut connection = h2::Connection::new(server.address);
        // No more than can wait.
        let streams: Vec<_> =
            (0..BACKLOG).map(|number| connection.request("GET", &format!("/{number}"), &[], true)).collect();
        for (number, id) in streams.into_iter().enumerate() {
            let expected = format!("index.php of root: GET /{number}");
            assert_eq!(String::from_utf8(connection.response(id).body).unwrap(), expected);
        }
        drop(connection);
        server.stop();
    }
}

/// A script that is changed, made or removed is what is there now.
#[test]
fn scripts_come_and_go() {
    let Some(php) = Php::fpm(2) else { return };
    on_both(&php, |front| {
        let root = front.root;
        let (script, mut client) = (root.join("new.php"), front.connect());
        assert_eq!(client.get("/new.php").status, 404, "{}", front.name);
        fs::write(&script, b"<?php echo 'new';").unwrap();
        eventually("the script is there", || client.get("/new.php").status == 200);
        fs::remove_file(&script).unwrap();
        eventually("the script is not there", || client.get("/new.php").status == 404);
    });
}

/// A route of files before the others: what is below it is no script, whatever its name.
#[test]
fn a_route_of_files_runs_no_script() {
    let Some(php) = Php::fpm(2) else { return };
    let server = files()
        .route("/upload/*", "root = \"root\"")
        .route("/*", "pool = \"php\"")
        .table(&format!("[pool.php]\nconnect = \"{}\"\n{FRONT}\n", php.url()))
        .start();
    let mut client = server.connect();
    assert_eq!(client.get("/upload/evil.jpg").status, 200);
    for target in ["/upload/script.php", "/upload/script.php/x", "/upload/evil.jpg/x.php"] {
        assert_eq!(client.get(target).status, 404, "{target}");
    }
    assert_eq!(client.get("/page").text(), "index.php of root: GET /page");
    server.stop();
}

/// Without `php` a path that is no script is not found; other routes have the files.
#[test]
fn scripts_alone_leave_files_to_routes() {
    let Some(php) = Php::fpm(2) else { return };
    let server = setup(&php, "root = \"root\"").start();
    let mut client = server.connect();
    for target in ["/a.txt", "/page", "/upload/evil.jpg", "/none.php", "/dir/"] {
        assert_eq!(client.get(target).status, 404, "{target}");
    }
    assert_eq!(client.get("/sub/").text(), "index.php of sub: GET /sub/");
    assert_eq!(client.get("/index.php?x").text(), "index.php of root: GET /index.php?x");
    server.stop();
}

/// Links that lead out of the root are followed where the site says so, for scripts as for files.
#[test]
fn links_lead_out_where_they_may() {
    let Some(php) = Php::fpm(2) else { return };
    for symlinks in ["inside", "anywhere"] {
        let outside = setup(&php, FRONT).site(&format!("symlinks = \"{symlinks}\""));
        let directory = outside.directory.path();
        fs::create_dir(directory.join("elsewhere")).unwrap();
        fs::write(directory.join("elsewhere/a.php"), b"<?php echo 'script';").unwrap();
        fs::write(directory.join("elsewhere/a.css"), b"style").unwrap();
        symlink(directory.join("elsewhere"), directory.join("root/linked")).unwrap();
        let server = outside.start();
        let mut client = server.connect();
        let (script, style) = (client.get("/linked/a.php"), client.get("/linked/a.css"));
        if symlinks == "anywhere" {
            assert_eq!((script.text(), style.text()), ("script", "style"));
        } else {
            assert_eq!(script.status, 404);
            assert_ne!(style.text(), "style");
        }
        server.stop();
    }
}

#[test]
fn the_example_answers() {
    let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/php-fpm");
    let mut setup = Setup::new();
    for name in ["fpm.conf", "public/index.php", "public/style.css", "public/notes/todo.txt"] {
        setup = setup.outside(name, &fs::read(example.join(name)).unwrap());
    }
    let Some(_php) = Php::example(setup.directory.path()) else { return };
    let text = fs::read_to_string(example.join("maitred.toml")).unwrap();
    let server = setup.start_as(&text.replace("\":8080\"", "\"127.0.0.1:0\""));
    let mut client = server.connect();
    assert!(client.get("/").text().contains("<h1>PHP "));
    let style = client.get("/style.css");
    assert_eq!((style.status, style.need("content-type")), (200, "text/css; charset=utf-8"));
    assert_eq!(client.get("/notes/todo.txt").status, 403);
    assert_eq!(client.get("/none").status, 404);
    let form = "POST /hello HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/x-www-form-urlencoded\r\n\
                Content-Length: 10\r\n\r\nname=%3Ca%3E";
    let form = form.replace("10", &"name=%3Ca%3E".len().to_string());
    assert!(client.ask(form).text().contains("Hello, &lt;a&gt;!"));
    drop(client);
    server.stop();
}
