//! The form of messages (RFC 9112 sections 2 to 5; 9110 sections 5, 6, 15).

use std::time::{SystemTime, UNIX_EPOCH};

use crate::support::{Client, End, Response, Server, Setup};

/// A server with something of everything that Maitred answers with itself.
fn varied() -> Server {
    let site = "listing = true\nheaders = { set = { \"X-Frame-Options\" = \"DENY\", \"Cache-Control\" = \"max-age=60\" } }";
    Setup::with_files()
        .site(site)
        .file("list/one two.txt", b"1")
        .file("large.bin", &vec![b'x'; 100_000])
        .file("empty", b"")
        .route("/old/*", "redirect = \"https://example.com{uri}\"\nstatus = 301")
        .route("/fixed", "respond = { status = 200, body = \"fixed\\n\" }")
        .route("/none", "respond = { status = 204 }")
        .route("/gone", "respond = { status = 410, body = \"gone\\n\" }")
        .route("/only-get", "respond = { status = 200, body = \"got\\n\" }\nmethods = [\"GET\"]")
        .start()
}

/// Requests of all kinds that are answered and leave the connection open, with the status that each gets.
fn requests() -> Vec<(u16, &'static str, &'static str, &'static str)> {
    vec![
        (200, "GET", "/", ""),
        (200, "GET", "/a.txt", ""),
        (200, "HEAD", "/a.txt", ""),
        (200, "GET", "/large.bin", ""),
        (200, "GET", "/empty", ""),
        (200, "GET", "/list/", ""),
        (206, "GET", "/a.txt", "Range: bytes=0-1\r\n"),
        (206, "GET", "/large.bin", "Range: bytes=0-1,500-600,-5\r\n"),
        (416, "GET", "/a.txt", "Range: bytes=100-\r\n"),
        (304, "GET", "/a.txt", "If-None-Match: *\r\n"),
        (412, "GET", "/a.txt", "If-Match: \"no\"\r\n"),
        (301, "GET", "/list", ""),
        (301, "GET", "/old/x%20y?q=1", ""),
        (200, "GET", "/fixed", ""),
        (204, "GET", "/none", ""),
        (410, "GET", "/gone", ""),
        (410, "HEAD", "/gone", ""),
        (404, "GET", "/not-there", ""),
        (404, "HEAD", "/not-there", ""),
        (405, "POST", "/a.txt", ""),
        (405, "DELETE", "/only-get", ""),
        (204, "OPTIONS", "/a.txt", ""),
        (204, "OPTIONS", "*", ""),
        (405, "TRACE", "/", ""),
        (200, "HEAD", "/", ""),
        (200, "GET", "http://localhost/a.txt", ""),
    ]
}

/// Requests that are refused, with the status that each gets. None is taken in good faith far enough to be kept open.
fn refused() -> Vec<(u16, &'static [u8])> {
    vec![
        (400, b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03 and more of a TLS handshake\r\n\r\n"),
        (400, b"hello\r\n\r\n"),
        (400, b"GET\r\n\r\n"),
        (400, b"GET /\r\n\r\n"),
        (400, b"GET / HTTP/1.1 \r\nHost: a\r\n\r\n"),
        (400, b"GET / HTTP/1.1\nHost: a\n\n"),
        (400, b"GET / HTTP/1.1\r\nHost : a\r\n\r\n"),
        (400, b"GET / HTTP/1.1\r\nHost: a\r\n folded\r\n\r\n"),
        (400, b"GET / HTTP/1.1\r\nHost: a\r\nX: \x01\r\n\r\n"),
        (400, b"GET /a b HTTP/1.1\r\nHost: a\r\n\r\n"),
        (400, b"GET /%zz HTTP/1.1\r\nHost: a\r\n\r\n"),
        (400, b"GET a HTTP/1.1\r\nHost: a\r\n\r\n"),
        (400, b"GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 1, 2\r\n\r\n"),
        (501, b"GET / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip, chunked\r\n\r\n"),
        (505, b"GET / HTTP/2.0\r\nHost: a\r\n\r\n"),
    ]
}

#[track_caller]
fn refusal(client: &mut Client, request: &[u8]) -> Response {
    client.send(request);
    let response = client.response("GET");
    assert!(response.says_close(), "{response:?}");
    assert_eq!(client.end(), End::Closed);
    response
}

#[test]
fn response_heads_are_well_formed() {
    let server = varied();
    let mut client = server.connect();
    for (status, method, target, fields) in requests() {
        // The client's parser does the checking.
        let response = client.method(method, target, fields);
        assert_eq!(response.status, status, "{method} {target} {fields:?}: {response:?}");
        assert!(!response.reason.is_empty());
        assert!(!response.says_close(), "{method} {target}: {response:?}");
    }
    for (status, request) in refused() {
        let response = refusal(&mut server.connect(), request);
        assert_eq!(response.status, status, "{:?}", String::from_utf8_lossy(request));
    }
    server.stop();
}

#[test]
fn garbage_gets_400_and_a_close() {
    let server = varied();
    let refused = refused();
    for (_, request) in refused.iter().filter(|(status, _)| *status == 400) {
        let response = refusal(&mut server.connect(), request);
        assert_eq!(response.status, 400, "{:?}", String::from_utf8_lossy(request));
    }
    let said = server.stop().said;
    let reasons = said.iter().filter(|line| line.contains("request refused")).count();
    assert!(reasons > 0, "the error log says why: {said:#?}");
}

/// Noise of every length: never a hang, never a second response, never a status of success.
#[test]
fn random_bytes_get_one_refusal_or_a_close() {
    let server = Setup::with_files().start();
    let mut seed = 0x2545_f491_4f6c_dd1d_u64;
    for round in 0..200 {
        let mut noise = Vec::new();
        for _ in 0..round % 50 + 1 {
            seed ^= seed << 13;
            seed ^= seed >> 7;
            seed ^= seed << 17;
            noise.push((seed >> 32) as u8);
        }
        let mut client = server.connect();
        client.send(&noise);
        client.finish_sending();
        match client.try_response("GET") {
            Ok(response) => {
                assert!((400..600).contains(&response.status) && response.says_close(), "{response:?}");
                assert_eq!(client.end(), End::Closed);
            }
            Err(error) => assert_eq!(error.kind(), std::io::ErrorKind::UnexpectedEof, "{noise:?}"),
        }
    }
    assert_eq!(server.connect().get("/a.txt").text(), "file a\n");
    assert_eq!(server.total("panics"), 0);
    server.stop();
}

#[test]
fn responses_say_http_1_1() {
    let server = varied();
    for version in ["HTTP/1.0", "HTTP/1.1"] {
        for target in ["/a.txt", "/not-there", "/fixed", "/old/x", "/none"] {
            let mut client = server.connect();
            client.send(format!("GET {target} {version}\r\nHost: localhost\r\nConnection: close\r\n\r\n"));
            assert_eq!(client.exactly(9).unwrap(), b"HTTP/1.1 ", "{version} {target}");
        }
    }
    server.stop();
}

#[test]
fn no_response_repeats_a_field() {
    let server = varied();
    let mut client = server.connect();
    for (_, method, target, fields) in requests() {
        let response = client.method(method, target, fields);
        let mut names: Vec<_> = response.fields.iter().map(|(name, _)| name.to_ascii_lowercase()).collect();
        let count = names.len();
        names.sort();
        names.dedup();
        assert_eq!(names.len(), count, "{method} {target}: {response:?}");
    }
    server.stop();
}

/// Seconds since 1970 of an IMF-fixdate (9110-5.6.7), which has exactly one form.
#[track_caller]
fn seconds_of(date: &str) -> u64 {
    const MONTHS: [&str; 12] =
        ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    assert_eq!(date.len(), 29, "{date:?}");
    let number = |from: usize, to: usize| date[from..to].parse::<u64>().unwrap();
    let (day, year) = (number(5, 7), number(12, 16));
    let month = MONTHS.iter().position(|month| *month == &date[8..11]).unwrap() as u64;
    let (hour, minute, second) = (number(17, 19), number(20, 22), number(23, 25));
    // Days since 1 March of year 0, so that the leap day is the last of its year.
    let (shifted_year, shifted_month) = if month < 2 { (year - 1, month + 10) } else { (year, month - 2) };
    let days = 365 * shifted_year + shifted_year / 4 - shifted_year / 100 + shifted_year / 400;
    let days = days + (153 * shifted_month + 2) / 5 + day - 1 - 719_468;
    let weekday = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"][(days % 7) as usize];
    let form = format!(
        "{weekday}, {day:02} {} {year} {hour:02}:{minute:02}:{second:02} GMT",
        MONTHS[month as usize]
    );
    assert_eq!(date, form);
    ((days * 24 + hour) * 60 + minute) * 60 + second
}

#[track_caller]
fn assert_dated(response: &Response) {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
    let date = seconds_of(response.need("date"));
    assert!(date <= now && date + 60 > now, "{date} is not just before {now}");
}

#[test]
fn date_is_an_imf_fixdate_close_to_now() {
    assert_eq!(seconds_of("Sun, 06 Nov 1994 08:49:37 GMT"), 784_111_777);
    let server = varied();
    let mut client = server.connect();
    for (_, method, target, fields) in requests() {
        assert_dated(&client.method(method, target, fields));
    }
    server.stop();
}

#[test]
fn errors_have_a_date() {
    let server = varied();
    for (_, request) in refused() {
        assert_dated(&refusal(&mut server.connect(), request));
    }
    server.stop();
}

#[test]
fn errors_have_a_short_text() {
    let server = varied();
    let mut client = server.connect();
    for (status, method, target, fields) in requests() {
        if status < 400 || method == "HEAD" {
            continue;
        }
        let response = client.method(method, target, fields);
        assert!(!response.body.is_empty() && response.body.len() < 200, "{method} {target}: {response:?}");
        assert!(response.need("content-type").starts_with("text/"), "{response:?}");
    }
    for (_, request) in refused() {
        let response = refusal(&mut server.connect(), request);
        assert!(response.text().contains(&response.reason), "{response:?}");
    }
    server.stop();
}

#[test]
fn server_says_no_version() {
    let server = varied();
    assert_eq!(server.connect().get("/a.txt").need("server"), "maitred");
    assert_eq!(server.connect().get("/not-there").need("server"), "maitred");
    server.stop();

    let server = Setup::with_files().server("server_header = false").start();
    for target in ["/a.txt", "/not-there", "/dir"] {
        assert_eq!(server.connect().get(target).field("server"), None);
    }
    assert_eq!(refusal(&mut server.connect(), b"bad\r\n\r\n").field("server"), None);
    server.stop();
}

#[test]
fn a_redirect_has_location_and_a_short_text() {
    let server = varied();
    let mut client = server.connect();
    let response = client.get("/old/x%20y?q=1");
    assert_eq!((response.status, response.need("location")), (301, "https://example.com/old/x%20y?q=1"));
    assert!(!response.body.is_empty() && response.body.len() < 200);
    let response = client.get("/list?q");
    assert_eq!((response.status, response.need("location")), (301, "/list/?q"));
    assert!(!response.body.is_empty());
    server.stop();
}
