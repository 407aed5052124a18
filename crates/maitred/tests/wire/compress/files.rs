//! Files are compressed once.

use crate::compress::{decoded, json};
use crate::support::h2::Connection;
use crate::support::{Client, Server, Setup, eventually};

fn start() -> Server {
    Setup::new()
        .file("small.json", json(300).as_bytes())
        .file("large.json", json(5000).as_bytes())
        .file("other/small.json", json(300).as_bytes())
        .site("compress = true")
        .route("/other/*", "root = \"root\"\ncompress = false")
        .start()
}

fn get(client: &mut Client, path: &str, codings: &str) -> (Option<String>, Vec<u8>) {
    let response = client.method("GET", path, &format!("Accept-Encoding: {codings}\r\n"));
    let coding = response.field("content-encoding").map(str::to_owned);
    if !path.starts_with("/other") {
        assert_eq!(response.need("vary"), "Accept-Encoding");
    }
    (coding, response.body)
}

#[test]
fn files_come_in_a_coding_once_it_is_made() {
    let server = start();
    let mut client = server.connect();
    for (path, content) in [("/small.json", json(300)), ("/large.json", json(5000))] {
        for (accepts, expected) in [("gzip, br, zstd", "br"), ("gzip, zstd", "zstd"), ("gzip", "gzip")] {
            // A file that has just been written may change again without a new time stamp: it is left alone for two seconds.
            eventually("the coding is there", || {
                let (coding, body) = get(&mut client, path, accepts);
                assert_eq!(decoded(coding.as_deref(), &body), content.as_bytes());
                assert!(coding.is_none() || coding.as_deref() == Some(expected), "{coding:?}");
                coding.is_some()
            });
        }
        assert_eq!(get(&mut client, path, "identity"), (None, content.into_bytes()));
    }
    for _ in 0..5 {
        assert_eq!(get(&mut client, "/other/small.json", "br, gzip").0, None, "not on this route");
    }
    let mut connection = Connection::new(server.address);
    eventually("the coding is there", || {
        let response = connection.method("GET", "/large.json", &[("accept-encoding", "br")]);
        let coding = response.field("content-encoding").map(str::to_owned);
        assert_eq!(decoded(coding.as_deref(), &response.body), json(5000).as_bytes());
        coding.is_some()
    });
    let range = client.method("GET", "/large.json", "Accept-Encoding: br\r\nRange: bytes=1-7\r\n");
    assert_eq!((range.status, range.text(), range.field("content-encoding")), (206, "{\"id\":0", None));
    let etag = client.method("HEAD", "/large.json", "Accept-Encoding: br\r\n").need("etag").to_owned();
    let fields = format!("Accept-Encoding: br\r\nIf-None-Match: {etag}\r\n");
    assert_eq!(client.method("GET", "/large.json", &fields).status, 304);
    std::fs::write(server.path("root/large.json"), json(20)).unwrap();
    eventually("the new file is there", || {
        let (coding, body) = get_any(&mut client, "/large.json");
        decoded(coding.as_deref(), &body) == json(20).as_bytes()
    });
    server.stop();
}

fn get_any(client: &mut Client, path: &str) -> (Option<String>, Vec<u8>) {
    let response = client.method("GET", path, "Accept-Encoding: br\r\n");
    (response.field("content-encoding").map(str::to_owned), response.body)
}
