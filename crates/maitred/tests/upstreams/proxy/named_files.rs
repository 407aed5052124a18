//! Files that an application names instead of sending them: `X-Accel-Redirect` and `X-Sendfile`.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::support::upstream::Upstream;
use crate::support::{Server, Setup};

/// A server whose answer is in the query of the request: header fields with `&` between them.
fn naming() -> Upstream {
    Upstream::start(|peer| {
        loop {
            let asked = peer.request()?;
            let (_, fields) = asked.target().split_once('?').unwrap_or_default();
            let lines: String =
                fields.split('&').map(|field| format!("{}\r\n", field.replace('+', " "))).collect();
            peer.send(format!("HTTP/1.1 200 OK\r\n{lines}Content-Length: 0\r\n\r\n"))?;
        }
    })
}

fn start(upstream: &Upstream) -> Server {
    let setup = Setup::new()
        .outside("protected/report.txt", b"the whole report\n")
        .outside("protected/my file.txt", b"spaces\n")
        .outside("protected/deep/x.bin", &vec![b'x'; 1 << 20])
        .outside("other/o.txt", b"other\n")
        .outside("secret.txt", b"secret\n")
        .file("500.html", b"page of an error")
        .site("error_pages = { 502 = \"/500.html\" }")
        .site("response_headers = { set = { X-Site = \"yes\" } }");
    setup
        .route("/*", "pool = \"app\"")
        .table(&format!(
            "[pool.app]\nconnect = \"{}\"\nnamed_files = {{ \"/p/\" = \"protected\", \"/p/o/\" = \"other\" }}\n",
            upstream.name()
        ))
        .start()
}

#[test]
fn the_client_gets_the_file_with_what_the_application_says_of_it() {
    let upstream = naming();
    let server = start(&upstream);
    let mut client = server.connect();
    let said = client.get("/?X-Accel-Redirect:/p/report.txt&Content-Type:a/b&Content-Disposition:attachment&Set-Cookie:a=1&Set-Cookie:b=2&X-Other:1&ETag:own");
    assert_eq!((said.status, said.text()), (200, "the whole report\n"));
    assert_eq!(said.field("content-type"), Some("a/b"));
    assert_eq!(said.field("content-disposition"), Some("attachment"));
    assert_eq!(said.field("x-site"), Some("yes"), "fields of the route");
    assert!(said.field("x-other").is_none() && said.field("x-accel-redirect").is_none());
    assert_ne!(said.need("etag"), "own", "that of the file");
    let cookies = said.fields.iter().filter(|(name, _)| name.eq_ignore_ascii_case("set-cookie")).count();
    assert_eq!(cookies, 2);
    // Conditions and ranges are about the file.
    let etag = said.need("etag").to_owned();
    let path = "/?X-Accel-Redirect:/p/report.txt";
    assert_eq!(client.method("GET", path, &format!("If-None-Match: {etag}\r\n")).status, 304);
    let part = client.method("GET", path, "Range: bytes=4-8\r\n");
    assert_eq!((part.status, part.text()), (206, "whole"));
    let several = client.method("GET", &format!("{path}&Content-Type:a/b"), "Range: bytes=0-1,3-4\r\n");
    assert_eq!((several.status, several.field("content-type")), (200, Some("a/b")));
    let head = client.method("HEAD", path, "");
    assert_eq!((head.status, head.field("content-length")), (200, Some("17")));
    assert_eq!(client.post(path, b"form=1").text(), "the whole report\n");
    assert_eq!(client.get("/?X-Accel-Redirect:/p/my%20file.txt").text(), "spaces\n");
    assert_eq!(client.get("/?X-Accel-Redirect:/p/deep/x.bin").body.len(), 1 << 20);
    assert_eq!(client.get("/?X-Accel-Redirect:/p/o/o.txt?a=b").text(), "other\n", "the longest prefix");
    let path = server.path("protected/report.txt").display().to_string();
    assert_eq!(client.get(&format!("/?X-Sendfile:{path}")).text(), "the whole report\n");
    assert_eq!(upstream.connections(), 1, "a response without content leaves the connection as it was");
    let log = server.stop().access;
    assert!(log.iter().any(|line| line.contains("\"POST /?X-Accel-Redirect")), "{log:?}");
}

#[test]
fn what_is_named_elsewhere_is_not_sent() {
    let upstream = naming();
    let server = start(&upstream);
    let outside = server.path("secret.txt").display().to_string();
    let above = server.path("protected/../secret.txt").display().to_string();
    for (fields, status) in [
        ("X-Accel-Redirect:/p/none.txt", 404),
        ("X-Accel-Redirect:/p/", 404),
        ("X-Accel-Redirect:/elsewhere/report.txt", 502),
        ("X-Accel-Redirect:/p/../secret.txt", 502),
        ("X-Accel-Redirect:/p/%2e%2e/secret.txt", 502),
        ("X-Accel-Redirect:p/report.txt", 502),
        ("X-Accel-Redirect:", 502),
        (format!("X-Sendfile:{outside}").as_str(), 502),
        (format!("X-Sendfile:{above}").as_str(), 502),
    ] {
        let said = server.connect().get(&format!("/?{fields}"));
        assert_eq!(said.status, status, "{fields}");
        assert!(!said.text().contains("secret"), "{fields}");
        if status == 502 {
            assert_eq!(said.text(), "page of an error", "{fields}");
        }
    }
    server.wait_for("X-Accel-Redirect that is below none");
    server.stop();
}

#[test]
fn content_beside_a_name_is_left() {
    let answers = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&answers);
    // The body never ends.
    let upstream = Upstream::start(move |peer| {
        peer.request()?;
        counted.fetch_add(1, Ordering::Relaxed);
        peer.send(
            "HTTP/1.1 200 OK\r\nX-Accel-Redirect: /p/report.txt\r\nContent-Length: 1000000\r\n\r\nbegun",
        )?;
        peer.wait_for_end()
    });
    let server = start(&upstream);
    let mut client = server.connect();
    for _ in 0..3 {
        assert_eq!(client.get("/").text(), "the whole report\n");
    }
    assert_eq!(answers.load(Ordering::Relaxed), 3);
    server.stop();
}

#[test]
fn processes_and_streams_have_it_as_well() {
    let application = "def application(environ, start_response):\n\
                       \x20   start_response('200 OK', [('X-Accel-Redirect', '/p/report.txt'), ('Content-Type', 'a/b')])\n\
                       \x20   return [b'not this']\n";
    let server = Setup::new()
        .server("threads = 2")
        .outside("protected/report.txt", b"the whole report\n")
        .python(
            "named",
            "naming:application",
            "UNUSED = \"\"",
            "workers = 1\nnamed_files = { \"/p/\" = \"protected\" }",
        )
        .outside("naming.py", application.as_bytes())
        .route("/named/*", "pool = \"named\"")
        .start();
    for _ in 0..8 {
        let said = server.connect().get("/named/x");
        assert_eq!(
            (said.status, said.text(), said.field("content-type")),
            (200, "the whole report\n", Some("a/b"))
        );
    }
    server.stop();
}
