//! What the server answers by itself is compressed, too: fixed responses, listings, error pages, files that are named. And the
//! numbers that show it all.

use crate::compress::{decoded, json};
use crate::support::h2::Connection;
use crate::support::upstream::{Peer, Upstream};
use crate::support::{Server, Setup, eventually};

const TEXT: &str = "the same words again, and again; ";

/// `application/json` of 300 items from a server, whatever is asked for; but `/slow` is announced, and does not come.
fn serve(peer: &mut Peer) -> std::io::Result<()> {
    loop {
        let asked = peer.request()?;
        let body = json(300);
        let length = body.len();
        peer.send(format!(
            "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\r\n"
        ))?;
        match asked.target() {
            "/app/slow" => peer.send(&body[..1000])?,
            _ => peer.send(&body)?,
        }
    }
}

fn start(upstream: &Upstream) -> Server {
    let body = TEXT.repeat(60);
    let setup = (0..60).fold(Setup::new(), |setup, at| setup.file(&format!("dir/a file {at}.txt"), b"x"));
    setup
        .file("404.html", body.as_bytes())
        .file("a.js.gz", b"as if")
        .file("a.js", body.as_bytes())
        .limit("compress_encoders_max = 1")
        .site("compress = true\nlisting = true\nprecompressed = [\"gzip\"]\nerror_pages = { 404 = \"/404.html\" }")
        .route("/fixed", &format!("respond = {{ status = 200, body = \"{body}\" }}"))
        .route("/gone", &format!("respond = {{ status = 410, body = \"{body}\", content_type = \"text/html\" }}"))
        .route("/short", "respond = { status = 200, body = \"short\" }")
        .route("/off", &format!("compress = false\nrespond = {{ status = 200, body = \"{body}\" }}"))
        .route("/old", "redirect = \"/new\"")
        .route("/app/*", "pool = \"app\"")
        .table(&format!("[pool.app]\nconnect = \"{}\"\n", upstream.name()))
        .start()
}

/// Status, coding, `Vary` and content of a response.
type Said = (u16, Option<String>, Option<String>, Vec<u8>);

fn over_both(server: &Server, target: &str, accepts: &str) -> [Said; 2] {
    let mut client = server.connect();
    let one = client.method("GET", target, &format!("Accept-Encoding: {accepts}\r\n"));
    let head = client.method("HEAD", target, &format!("Accept-Encoding: {accepts}\r\n"));
    if let Some(length) = one.field("content-length") {
        assert_eq!(length, one.body.len().to_string(), "{target}");
    }
    for name in ["content-encoding", "vary", "content-type"] {
        assert_eq!(head.field(name), one.field(name), "HEAD {target}: {name}");
    }
    let two = Connection::new(server.address).method("GET", target, &[("accept-encoding", accepts)]);
    let said = |status, field: &dyn Fn(&str) -> Option<String>, body: &[u8]| {
        let coding = field("content-encoding");
        let content = decoded(coding.as_deref(), body);
        (status, coding, field("vary"), content)
    };
    [
        said(one.status, &|name| one.field(name).map(str::to_owned), &one.body),
        said(two.status, &|name| two.field(name).map(str::to_owned), &two.body),
    ]
}

/// Waits until a file comes in Brotli. Whether it does may change between any two requests until then.
#[track_caller]
fn wait_for_coding(server: &Server, target: &str, (status, content): (u16, &[u8])) {
    eventually("it is compressed", || {
        let said = server.connect().method("GET", target, "Accept-Encoding: br\r\n");
        let coding = said.field("content-encoding");
        assert_eq!((said.status, &*decoded(coding, &said.body)), (status, content));
        coding == Some("br")
    });
}

#[test]
fn fixed_responses_listings_and_error_pages_are_compressed() {
    let upstream = Upstream::start(serve);
    let server = start(&upstream);
    let body = TEXT.repeat(60).into_bytes();
    let (vary, br) = (Some("Accept-Encoding".to_owned()), Some("br".to_owned()));
    for (target, status) in [("/fixed", 200), ("/gone", 410)] {
        for (accepts, coding) in [("gzip, br", br.clone()), ("gzip", Some("gzip".into())), ("identity", None)]
        {
            let expected = (status, coding, vary.clone(), body.clone());
            for said in over_both(&server, target, accepts) {
                assert_eq!(said, expected, "{target} {accepts}");
            }
        }
    }
    for (target, status) in [("/short", 200), ("/off", 200), ("/old", 302)] {
        for (got, coding, varies, _) in over_both(&server, target, "gzip, br") {
            assert_eq!((got, coding, varies), (status, None, None), "{target}");
        }
    }
    for (status, coding, varies, page) in over_both(&server, "/dir/", "zstd, br") {
        assert_eq!((status, coding.as_deref(), varies), (200, Some("zstd"), vary.clone()));
        assert!(String::from_utf8(page).unwrap().contains("a file 59.txt"));
    }
    // As with files: once it was asked for a few times, and is not just written.
    wait_for_coding(&server, "/none", (404, &body));
    for said in over_both(&server, "/none", "br") {
        assert_eq!(said, (404, br.clone(), vary.clone(), body.clone()));
    }
    server.stop();
}

#[test]
fn what_encoders_do_is_counted() {
    let upstream = Upstream::start(serve);
    let server = start(&upstream);
    let ask = |accepts| server.connect().method("GET", "/app/", &format!("Accept-Encoding: {accepts}\r\n"));
    assert_eq!(ask("gzip").need("content-encoding"), "gzip");
    assert_eq!(ask("zstd").need("content-encoding"), "zstd");
    eventually("it is shown", || server.total("compress_bytes_in") == 2 * json(300).len() as u64);
    let made = server.total("compress_bytes_out");
    assert!(made > 100 && made < json(300).len() as u64, "{made}");
    // The only encoder is kept by a response that does not come to its end.
    let mut slow = server.connect();
    slow.send("GET /app/slow HTTP/1.1\r\nHost: a\r\nAccept-Encoding: gzip\r\n\r\n");
    eventually("it has an encoder", || server.total("encoders") == 1);
    let plain = ask("gzip");
    assert_eq!((plain.field("content-encoding"), plain.text()), (None, &*json(300)));
    eventually("it is counted", || server.total("compress_refused") == 1);
    drop(slow);
    eventually("the encoder is free again", || server.total("encoders") == 0);
    let metrics = server.admin("GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n").text().to_owned();
    for line in [
        "maitred_thread_compressed_total{thread=\"0\",coding=\"gzip\"} 2",
        "maitred_thread_compressed_total{thread=\"0\",coding=\"zstd\"} 1",
    ] {
        assert!(metrics.contains(line), "{line}\n{metrics}");
    }
    server.stop();
}

#[test]
fn a_file_that_an_application_names_is_compressed_as_other_files() {
    let upstream = Upstream::start(|peer| {
        loop {
            let asked = peer.request()?;
            let (_, name) = asked.target().split_once('?').unwrap_or_default();
            peer.send(format!(
                "HTTP/1.1 200 OK\r\nX-Accel-Redirect: /p/{name}\r\nContent-Type: text/plain\r\nSet-Cookie: a=b\r\n\
                 Content-Length: 2\r\n\r\nno"
            ))?;
        }
    });
    let server = Setup::new()
        .outside("protected/report.txt", TEXT.repeat(60).as_bytes())
        .site("compress = true")
        .route("/*", "pool = \"app\"")
        .table(&format!(
            "[pool.app]\nconnect = \"{}\"\nnamed_files = {{ \"/p/\" = \"protected\" }}\n",
            upstream.name()
        ))
        .start();
    let body = TEXT.repeat(60).into_bytes();
    wait_for_coding(&server, "/?report.txt", (200, &body));
    for said in over_both(&server, "/?report.txt", "br, gzip") {
        assert_eq!(said, (200, Some("br".to_owned()), Some("Accept-Encoding".to_owned()), body.clone()));
    }
    let mut client = server.connect();
    let coded = client.method("GET", "/?report.txt", "Accept-Encoding: br\r\n");
    assert_eq!((coded.need("content-type"), coded.need("set-cookie")), ("text/plain", "a=b"));
    let known = format!("Accept-Encoding: br\r\nIf-None-Match: {}\r\n", coded.need("etag"));
    assert_eq!(client.method("GET", "/?report.txt", &known).status, 304);
    let part = client.method("GET", "/?report.txt", "Accept-Encoding: br\r\nRange: bytes=4-7\r\n");
    assert_eq!((part.status, part.text(), part.field("content-encoding")), (206, "same", None));
    assert_eq!(
        server.total("encoders") + server.total("compress_refused"),
        0,
        "the response that names it needs none"
    );
    server.stop();
}
