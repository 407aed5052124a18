//! Content of requests.

use crate::fastcgi::site::{FRONT, json, on_both, setup};
use crate::support::Client;
use crate::support::h2;
use crate::support::php::{Kind, Php};

/// Bytes that tell their place.
fn bytes(count: usize) -> Vec<u8> {
    (0..count).map(|at| (at.wrapping_mul(2_654_435_761) >> 13) as u8).collect()
}

fn post(target: &str, fields: &str, content: &[u8]) -> Vec<u8> {
    let length = content.len();
    let head =
        format!("POST {target} HTTP/1.1\r\nHost: localhost\r\n{fields}Content-Length: {length}\r\n\r\n");
    [head.as_bytes(), content].concat()
}

#[test]
fn forms_are_read() {
    let Some(php) = Php::fpm(2) else { return };
    on_both(&php, |front| {
        let form = "Content-Type: application/x-www-form-urlencoded\r\n";
        let found = json(&front.connect().ask(post("/post.php", form, b"a=1&b%5Bx%5D=%C3%A9&c=+&a=2")));
        assert_eq!(
            found["post"],
            serde_json::json!({ "a": "2", "b": { "x": "\u{e9}" }, "c": " " }),
            "{}",
            front.name
        );
        assert_eq!(found["length"], "27");
    });
}

/// Over HTTP/1, HTTP/1 in chunks, and TLS.
#[test]
fn files_are_uploaded() {
    let Some(php) = Php::fpm(2) else { return };
    let file = bytes(5_000_000);
    let content = [
        b"--limit\r\nContent-Disposition: form-data; name=\"word\"\r\n\r\nhello\r\n--limit\r\n\
          Content-Disposition: form-data; name=\"file\"; filename=\"a b.bin\"\r\nContent-Type: application/x-a\r\n\r\n",
        &file[..],
        b"\r\n--limit--\r\n",
    ]
    .concat();
    let form = "Content-Type: multipart/form-data; boundary=limit\r\n";
    on_both(&php, |front| {
        let chunked =
            format!("POST /post.php HTTP/1.1\r\nHost: localhost\r\n{form}Transfer-Encoding: chunked\r\n\r\n");
        let chunked = [chunked.into_bytes(), chunks(&content)].concat();
        for (mut client, request) in [
            (front.connect(), post("/post.php", form, &content)),
            (front.connect(), chunked),
            (front.connect_tls(), post("/post.php", form, &content)),
        ] {
            let found = json(&client.ask(request));
            assert_eq!(found["post"], serde_json::json!({ "word": "hello" }), "{}", front.name);
            let uploaded = &found["files"]["file"];
            assert_eq!((&uploaded["name"], &uploaded["error"]), (&"a b.bin".into(), &0.into()));
            assert_eq!(
                (uploaded["size"].as_u64(), uploaded["crc"].as_u64()),
                (Some(5_000_000), Some(crc32(&file)))
            );
            // Content of unknown length is collected first: PHP reads none without its length.
            assert_eq!(found["length"], content.len().to_string());
        }
    });
}

#[test]
fn any_content_comes_as_it_is() {
    for kind in [Kind::FpmUnix, Kind::FpmTcp, Kind::CgiUnix, Kind::CgiTcp] {
        let Some(php) = Php::of(kind, 2) else { return };
        on_both(&php, |front| {
            // None, one byte, a record, a byte more, and what does not fit into the buffers of sockets.
            for count in [0, 1, 65_535, 65_536, 1_000_000, 20_000_000] {
                let content = bytes(count);
                for method in ["POST", "PUT", "PATCH", "DELETE"] {
                    // PHP reads the content of POST before it starts the script; of other methods, while the script writes.
                    // nginx 1.22 then reads no response before all of the content is sent, and both wait for each other.
                    if count > 100_000 && front.name == "nginx" && method != "POST" {
                        continue;
                    }
                    let request = post("/echo.php", "Content-Type: a/b\r\n", &content);
                    let response = front.connect().ask([method.as_bytes(), &request[4..]].concat());
                    let same = response.status == 200 && response.body == content;
                    assert!(same, "{} {kind:?} {method} {count}", front.name);
                }
            }
        });
    }
}

/// HTTP/2 needs no Content-Length; and several uploads at a time are not mixed up.
#[test]
fn uploads_over_http2_need_no_length() {
    let Some(php) = Php::fpm(2) else { return };
    let server = setup(&php, FRONT).start();
    let mut connection = h2::Connection::new(server.address);
    let contents: Vec<_> = [1, 70_000, 3_000_000].into_iter().map(bytes).collect();
    let fields = [("content-type", "a/b")];
    let streams: Vec<_> =
        contents.iter().map(|_| connection.request("POST", "/echo.php", &fields, false)).collect();
    for (id, content) in streams.iter().zip(&contents).rev() {
        connection.upload(*id, content, true);
    }
    for (id, content) in streams.into_iter().zip(&contents) {
        let response = connection.response(id);
        assert!(
            response.status == 200 && response.body == *content,
            "{}: {:?}",
            content.len(),
            response.fields
        );
        let length = response.fields.iter().find(|(name, _)| name == "x-length");
        assert_eq!(length.unwrap().1, content.len().to_string());
    }
    drop(connection);
    server.stop();
}

/// The client that waits for `100 Continue` gets it, and the limit on content holds.
#[test]
fn content_is_expected_and_bounded() {
    let Some(php) = Php::fpm(2) else { return };
    on_both(&php, |front| {
        let mut client = front.connect();
        client.send(
            "POST /echo.php HTTP/1.1\r\nHost: localhost\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\n",
        );
        assert_eq!(client.head().unwrap().status, 100, "{}", front.name);
        client.send("abc");
        assert_eq!(client.response("POST").text(), "abc");
        let mut client: Client = front.connect();
        let bytes = 65 << 20;
        client.send(format!("POST /echo.php HTTP/1.1\r\nHost: localhost\r\nContent-Length: {bytes}\r\n\r\n"));
        assert_eq!(client.response("POST").status, 413, "{}", front.name);
    });
}

fn chunks(content: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    for chunk in content.chunks(10_007) {
        out.extend_from_slice(format!("{:x}\r\n", chunk.len()).as_bytes());
        out.extend_from_slice(chunk);
        out.extend_from_slice(b"\r\n");
    }
    out.extend_from_slice(b"0\r\n\r\n");
    out
}

/// PHP's `crc32`: polynomial 0x04C11DB7, reflected.
fn crc32(bytes: &[u8]) -> u64 {
    let mut crc = !0_u32;
    for byte in bytes {
        crc ^= u32::from(*byte);
        for _ in 0..8 {
            crc = (crc >> 1) ^ (0xedb8_8320 & (crc & 1).wrapping_neg());
        }
    }
    u64::from(!crc)
}
