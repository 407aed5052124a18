//! Django with gunicorn on a Unix socket, its static files and uploads.

use crate::setups::{answer, example, get, place, redirect};
use crate::support::upstream::Upstream;
use crate::support::{Server, Setup};

fn start() -> (Server, Upstream) {
    let setup = Setup::new()
        .outside("django/static/site.css", b"a{}\n")
        .outside("django/static/app.0123456789abcdef.js", b"let a;\n")
        .outside("django/static/app.0123456789abcdef.js.gz", b"packed")
        .outside("django/static/robots.txt", b"User-agent: *\n")
        .outside("django/media/a.txt", b"media\n")
        .outside("django/protected/secret.txt", b"secret\n")
        .outside("django/500.html", b"<h1>down</h1>\n");
    for name in ["django", "django/static", "django/media", "django/protected"] {
        place(&setup, name);
    }
    let socket = setup.directory.path().join("gunicorn.sock");
    let application = Upstream::unix(&socket, answer);
    let root = setup.directory.path().join("django");
    let places = [("/srv/django", root.to_str().unwrap()), ("/run/gunicorn.sock", socket.to_str().unwrap())];
    let server = example("django-site", setup, &places);
    (server, application)
}

#[test]
fn each_location_answers_as_in_nginx() {
    let (server, _application) = start();
    let host = "www.example.com";
    let told = get(&server, host, "/page/?a=1", "");
    assert_eq!(told.text(), "GET /page/?a=1 of www.example.com over http with 0");
    assert_eq!(redirect(&get(&server, "example.com", "/a?b=c", "")), (301, "https://www.example.com/a?b=c"));
    // `alias` and `expires 30d`; a digest in the name is for ever.
    let style = get(&server, host, "/static/site.css", "");
    assert_eq!((style.text(), style.need("cache-control")), ("a{}\n", "max-age=2592000"));
    let script = get(&server, host, "/static/app.0123456789abcdef.js", "");
    assert!(script.need("cache-control").contains("immutable"), "{script:?}");
    // `gzip_static`
    let packed = get(&server, host, "/static/app.0123456789abcdef.js", "Accept-Encoding: gzip\r\n");
    assert_eq!((packed.body.as_slice(), packed.need("content-encoding")), (b"packed".as_slice(), "gzip"));
    assert_eq!(get(&server, host, "/static/none.css", "").status, 404);
    let media = get(&server, host, "/media/a.txt", "");
    assert_eq!((media.text(), media.need("cache-control")), ("media\n", "max-age=3600"));
    assert_eq!(get(&server, host, "/robots.txt", "").text(), "User-agent: *\n");
    // `internal` and X-Accel-Redirect.
    assert_eq!(get(&server, host, "/named", "").text(), "secret\n");
    assert_eq!(
        get(&server, host, "/protected/secret.txt", "").text(),
        "GET /protected/secret.txt of www.example.com over http with 0"
    );
}

#[test]
fn bodies_have_the_limit_of_their_location() {
    let (server, _application) = start();
    let post = |target: &str, bytes: usize| {
        let head = format!(
            "POST {target} HTTP/1.1\r\nHost: www.example.com\r\nContent-Length: {bytes}\r\nExpect: 100-continue\r\n\r\n"
        );
        let mut client = server.connect();
        client.send(head);
        client.head().unwrap().status
    };
    // `client_max_body_size 20m`, and 200m in one location.
    assert_eq!(post("/upload", 30 << 20), 413);
    let large = server.connect().post("/admin/upload/x", &vec![b'a'; 21 << 20]);
    assert!(large.text().ends_with(&format!(" with {}", 21 << 20)), "{large:?}");
    assert_eq!(post("/admin/upload/x", 300 << 20), 413);
    let sent =
        server.connect().ask("POST /form HTTP/1.1\r\nHost: www.example.com\r\nContent-Length: 3\r\n\r\na=b");
    assert_eq!(sent.text(), "POST /form of www.example.com over http with 3");
}

/// `error_page 502 503 504 /500.html`
#[test]
fn errors_of_the_pool_have_their_page() {
    let (server, application) = start();
    drop(application);
    std::fs::remove_file(server.path("gunicorn.sock")).unwrap();
    let down = get(&server, "www.example.com", "/page", "");
    assert_eq!((down.status, down.text()), (502, "<h1>down</h1>\n"));
}

#[test]
fn files_are_not_in_the_access_log() {
    let (server, _application) = start();
    for target in ["/static/site.css", "/robots.txt", "/page"] {
        get(&server, "www.example.com", target, "");
    }
    let lines = server.stop().access;
    assert_eq!(lines.len(), 1, "{lines:?}");
    assert!(lines[0].contains("GET /page"), "{lines:?}");
}
