//! `front_controller` of a route, `request_uri` and `params` of a pool.

use serde_json::Value;

use crate::fastcgi::site::{FRONT, files, json};
use crate::support::php::Php;
use crate::support::{Server, Setup};

/// A site with these routes, each with its lines, in front of everything else.
fn start(php: &Php, lines: &str, routes: &[(&str, &str)]) -> Server {
    let setup = routes.iter().fold(files(), |setup: Setup, (path, lines)| setup.route(path, lines));
    setup
        .route("/*", "pool = \"php\"")
        .table(&format!("[pool.php]\nconnect = \"{}\"\n{FRONT}\n{lines}\n", php.url()))
        .table("[cache]\ndirectory = \"store\"\n")
        .start()
}

fn variable<'v>(found: &'v Value, name: &str) -> Option<&'v str> {
    found["server"][name].as_str()
}

const WIKI: &str = "pool = \"php\"\nfront_controller = \"sub/index.php\"";

#[test]
fn every_path_below_a_front_controller_is_data() {
    let Some(php) = Php::fpm(2) else { return };
    let server =
        start(&php, "", &[("/wiki/*", WIKI), ("/gone/*", "pool = \"php\"\nfront_controller = \"gone.php\"")]);
    let mut client = server.connect();
    for path in [
        "/wiki/",
        "/wiki/.NET",
        "/wiki/Index.php",
        "/wiki/index.PHP/x",
        "/wiki/vars.php",
        "/wiki/a.php/b.php?c=%20d",
        "/wiki//double//slash",
        "/wiki/%7euser%2Fx",
        "/wiki/C%2B%2B?x=1&y=%26",
        "/wiki/upload/evil.jpg/x.php",
        "/wiki/..%2e",
    ] {
        let response = client.get(path);
        assert_eq!(
            (response.status, response.text()),
            (200, &*format!("index.php of sub: GET {path}")),
            "{path}"
        );
    }
    assert_eq!(client.post("/wiki/.x", b"a=b").text(), "index.php of sub: POST /wiki/.x");
    // A path with dot segments is the one that the route was chosen by.
    for (sent, expected) in
        [("/wiki/a/../b?c", "/wiki/b?c"), ("/x/%2e%2e/wiki/.a", "/wiki/.a"), ("/wiki/./a", "/wiki/a")]
    {
        assert_eq!(client.get(sent).text(), format!("index.php of sub: GET {expected}"), "{sent}");
    }
    let absolute = client.ask("GET http://localhost/wiki//a?b HTTP/1.1\r\nHost: localhost\r\n\r\n");
    assert_eq!(absolute.text(), "index.php of sub: GET /wiki//a?b");
    // What holds elsewhere holds as before: names of scripts, sources, uploaded code.
    for path in ["/upload/evil.jpg/x.php", "/wiki", "/.env", "/INDEX.PHP", "/gone/index.php", "/gone/"] {
        let response = client.get(path);
        let shows = |what: &str| response.body.windows(what.len()).any(|part| part == what.as_bytes());
        assert!(!shows("<?php") && !shows("IT HAS RUN"), "{path}");
        assert_eq!(response.status, if path == "/wiki" { 200 } else { 404 }, "{path}");
    }
    let found = json(&client.get("/wiki/x.php/y?vars&z=1"));
    let root = variable(&found, "DOCUMENT_ROOT").unwrap().to_owned();
    for (name, value) in [
        ("SCRIPT_FILENAME", Some(&*format!("{root}/sub/index.php"))),
        ("SCRIPT_NAME", Some("/sub/index.php")),
        ("REQUEST_URI", Some("/wiki/x.php/y?vars&z=1")),
        ("QUERY_STRING", Some("vars&z=1")),
        ("PATH_INFO", Some("")),
        ("PATH_TRANSLATED", None),
    ] {
        assert_eq!(
            variable(&found, name).filter(|found| !found.is_empty()),
            value.filter(|value| !value.is_empty()),
            "{name}"
        );
    }
    server.stop();
}

#[test]
fn files_come_before_the_scripts_of_a_pool() {
    let Some(php) = Php::fpm(2) else { return };
    let files = "root = \"root\"\ntry = [\"{path}\", \"pool:php\"]\nheaders = { set = { X-File = \"1\" } }";
    let front = format!("{files}\nfront_controller = \"sub/index.php\"");
    let server = start(&php, "", &[("/shop/*", files), ("/upload/*", files), ("/sub/*", &front)]);
    let mut client = server.connect();
    let is_file = |response: &crate::support::Response| response.field("x-file").is_some();
    let image = client.get("/upload/evil.jpg");
    assert!(image.status == 200 && is_file(&image), "{image:?}");
    let script = client.get("/shop/app.php/item");
    assert!(!is_file(&script));
    let found = json(&script);
    assert_eq!(variable(&found, "SCRIPT_NAME"), Some("/shop/app.php"));
    assert_eq!(variable(&found, "PATH_INFO"), Some("/item"));
    for (path, expected) in [
        ("/shop/nothing", "index.php of root: GET /shop/nothing"),
        ("/sub/", "index.php of sub: GET /sub/"),
        ("/sub/.x/index.php/y", "index.php of sub: GET /sub/.x/index.php/y"),
        ("/sub//z?a", "index.php of sub: GET /sub//z?a"),
    ] {
        let response = client.get(path);
        assert_eq!((response.status, response.text(), is_file(&response)), (200, expected, false), "{path}");
    }
    assert_eq!(client.post("/shop/nothing", b"a=b").text(), "index.php of root: POST /shop/nothing");
    assert_eq!(client.get("/upload/evil.jpg/x.php").status, 404);
    server.stop();
}

#[test]
fn request_uri_can_be_what_was_sent_whatever_a_route_makes_of_it() {
    let Some(php) = Php::fpm(1) else { return };
    let rewritten = "path_regex = '^/r/(.*)$'\nrewrite = \"/vars.php?title={capture.1}\"\npool = \"php\"";
    for (lines, uri) in [("", "/vars.php?title=C%2B%2B%3B"), ("request_uri = \"sent\"", "/r/C%2B%2B;?x=1")] {
        let server = start(&php, lines, &[("/r/*", rewritten)]);
        let found = json(&server.connect().get("/r/C%2B%2B;?x=1"));
        assert_eq!(variable(&found, "REQUEST_URI"), Some(uri));
        assert_eq!(variable(&found, "QUERY_STRING"), Some("title=C%2B%2B%3B"));
        assert_eq!(
            (found["get"]["title"].as_str(), variable(&found, "SCRIPT_NAME")),
            (Some("C++;"), Some("/vars.php"))
        );
        server.stop();
    }
}

#[test]
fn what_is_kept_for_one_spelling_is_for_no_other() {
    let Some(php) = Php::fpm(1) else { return };
    let server = start(&php, "", &[("/wiki/*", &format!("{WIKI}\ncache = {{ ttl = \"1h\" }}"))]);
    let mut client = server.connect();
    for path in ["/wiki//a", "/wiki/a", "/wiki/%61", "/wiki/a", "/wiki//a"] {
        assert_eq!(client.get(path).text(), format!("index.php of sub: GET {path}"));
    }
    assert_eq!(server.total("response_cache_hits"), 2);
    server.stop();
}

#[test]
fn an_application_has_variables_of_the_operators() {
    let Some(php) = Php::fpm(1) else { return };
    let params = "params = { APP_MODE = \"a {host} {uri}\", modHeadersAvailable = \"true\", EMPTY = \"\", JSON = '{{\"a\":1}}', \
                  USER_NAME = \"<{user}>\", PHP_VALUE = \"precision=5\\nserialize_precision=6\" }";
    let server = start(&php, params, &[]);
    let fields = "App-Mode: forged\r\nApp_Mode: forged\r\n";
    let response = server.connect().method("GET", "/vars.php?x=1", fields);
    let found = json(&response);
    for (name, value) in [
        ("APP_MODE", "a localhost /vars.php?x=1"),
        ("modHeadersAvailable", "true"),
        ("EMPTY", ""),
        ("JSON", "{\"a\":1}"),
        ("USER_NAME", "<>"),
        ("HTTP_APP_MODE", "forged"),
    ] {
        assert_eq!(variable(&found, name), Some(value), "{name}");
    }
    server.stop();
}
