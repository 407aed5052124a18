use super::*;

mod fields;
mod framing;
mod properties;
mod target;

const LIMITS: HeadLimits =
    HeadLimits { head_bytes_max: 1024, header_count_max: 8, target_bytes_max: 64, body_bytes_max: 1 << 20 };

/// 200 for a head that is accepted, 100 for one that is incomplete.
fn status(head: &[u8]) -> u16 {
    match parse(head, &mut field_room(), &LIMITS) {
        Ok(Some(_)) => 200,
        Ok(None) => 100,
        Err(reject) => reject.status,
    }
}

/// The status of a request with these field lines besides `Host`.
fn status_with(lines: &str) -> u16 {
    status(format!("POST / HTTP/1.1\r\nHost: a\r\n{lines}\r\n").as_bytes())
}

/// Looks at a request that is accepted.
fn inspect<T>(head: &str, look: impl FnOnce(&Request<'_, '_>) -> T) -> T {
    let mut room = field_room();
    match parse(head.as_bytes(), &mut room, &LIMITS) {
        Ok(Some((request, taken))) => {
            assert_eq!(taken, head.len());
            look(&request)
        }
        other => panic!("{head:?} gives {other:?}"),
    }
}

/// Looks at a request with these field lines besides `Host`.
fn inspect_with<T>(version: &str, lines: &str, look: impl FnOnce(&Request<'_, '_>) -> T) -> T {
    inspect(&format!("POST / {version}\r\nHost: a\r\n{lines}\r\n"), look)
}

#[test]
fn takes_a_plain_head_apart() {
    let head = b"GET /a/b?c=d HTTP/1.1\r\nHost: example.com:8080\r\nX-Y: \t z \t\r\n\r\nrest";
    let mut room = field_room();
    let (request, taken) = parse(head, &mut room, &LIMITS).unwrap().unwrap();
    assert_eq!(&head[taken..], b"rest");
    assert_eq!((request.method, request.method_text), (Method::Get, "GET"));
    assert_eq!((request.target, request.path, request.query), ("/a/b?c=d", "/a/b", Some("c=d")));
    assert_eq!((request.version, request.authority), (Version::Http11, "example.com:8080"));
    assert_eq!((request.fields[1].name, request.fields[1].value), ("X-Y", &b"z"[..]));
    assert_eq!(request.framing, Framing::None);
    assert!(request.keep_alive && !request.expects_continue && !request.upgrade);
}

#[test]
fn methods_are_case_sensitive_tokens() {
    let method =
        |text: &str| inspect(&format!("{text} / HTTP/1.1\r\nHost: a\r\n\r\n"), |request| request.method);
    assert_eq!(method("DELETE"), Method::Delete);
    assert_eq!(method("PATCH"), Method::Patch);
    assert_eq!(method("get"), Method::Other);
    assert_eq!(method("M-SEARCH"), Method::Other);
    assert_eq!(status(b"G(T / HTTP/1.1\r\nHost: a\r\n\r\n"), 400);
    assert_eq!(status(b" / HTTP/1.1\r\nHost: a\r\n\r\n"), 400);
}

#[test]
fn a_method_beyond_all_methods_is_not_implemented() {
    let head = |bytes: usize| format!("{} / HTTP/1.1\r\nHost: a\r\n\r\n", "M".repeat(bytes));
    assert_eq!(status(head(64).as_bytes()), 200);
    assert_eq!(status(head(65).as_bytes()), 501);
    assert_eq!(status(&head(65).as_bytes()[..64]), 100);
    assert_eq!(status(&head(65).as_bytes()[..65]), 501);
}

#[test]
fn versions() {
    let version = |text: &str| status(format!("GET / {text}\r\nHost: a\r\n\r\n").as_bytes());
    assert_eq!(version("HTTP/1.1"), 200);
    assert_eq!(version("HTTP/1.0"), 200);
    for unsupported in ["HTTP/2.0", "HTTP/2", "HTTP/3.0", "HTTP/9.9", "HTTP/1.2", "HTTP/1.9"] {
        assert_eq!(version(unsupported), 505, "{unsupported}");
    }
    for invalid in
        ["HTTP/0.9", "http/1.1", "HTTP/1", "HTTP/1.", "HTTP/1.10", "HTTP/1.1 ", "HTTP /1.1", "HTTPS/1.1", "x"]
    {
        assert_eq!(version(invalid), 400, "{invalid}");
    }
}

#[test]
fn the_preface_of_http2_is_an_unsupported_version() {
    assert_eq!(status(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"), 505);
}

#[test]
fn a_request_line_without_version_is_refused() {
    assert_eq!(status(b"GET /\r\n"), 400);
    assert_eq!(status(b"GET /\r\n\r\n"), 400);
}

#[test]
fn request_lines_have_two_single_spaces() {
    for bad in
        ["GET  / HTTP/1.1", "GET /  HTTP/1.1", "GET\t/ HTTP/1.1", "GET / a HTTP/1.1", " GET / HTTP/1.1"]
    {
        assert_eq!(status(format!("{bad}\r\nHost: a\r\n\r\n").as_bytes()), 400, "{bad:?}");
    }
}

#[test]
fn few_empty_lines_before_the_request_line_are_skipped() {
    let head = b"\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n";
    let taken = parse(head, &mut field_room(), &LIMITS).unwrap().unwrap().1;
    assert_eq!(taken, head.len());
    assert_eq!(status(b"\r\n\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n"), 200);
    assert_eq!(status(b"\r\n\r\n\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n"), 400);
    assert_eq!(status(b"\nGET / HTTP/1.1\r\nHost: a\r\n\r\n"), 400);
    assert_eq!(status(b"\rGET / HTTP/1.1\r\nHost: a\r\n\r\n"), 400);
    assert_eq!(status(b"\r"), 100);
    assert_eq!(status(b"\r\n\r\n\r"), 400);
}

#[test]
fn refuses_bare_line_feeds() {
    for bad in [
        "GET / HTTP/1.1\nHost: a\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: a\n\r\n",
        "GET / HTTP/1.1\r\nHost: a \t\n\r\n",
        "GET / HTTP/1.1\r\nHost: a\r\n\n",
        "GET / HTTP/1.1\r\nHost: a\n\n",
        "GET / HTTP/1.1\r\nHost: a\r\nX:\n\r\n",
        "GET / HTTP/1.1\r\nHost: a\r\nX: \n\r\n",
        "GET / HTTP/1.0\n\r\n",
        "GET / HTTP/1.0\r\n\n",
    ] {
        assert_eq!(status(bad.as_bytes()), 400, "{bad:?}");
    }
    assert_eq!(status(b"GET / HTTP/1.1\r\nHost: a \t\r\nX: \r\nY:\r\n\r\n"), 200);
}

#[test]
fn refuses_bare_carriage_returns() {
    for bad in ["X: a\rb\r\n", "X: a\r\r\n", "X\r: a\r\n", "X: \ra\r\n", "\rX: a\r\n"] {
        assert_eq!(status_with(bad), 400, "{bad:?}");
    }
    assert_eq!(status(b"GET / HTTP/1.1\r\r\nHost: a\r\n\r\n"), 400);
    assert_eq!(status(b"GET /\r HTTP/1.1\r\nHost: a\r\n\r\n"), 400);
}

#[test]
fn a_head_over_the_limit_is_refused_as_soon_as_it_must_be() {
    let head = |bytes: usize| {
        let start = "GET / HTTP/1.1\r\nHost: a\r\nX: ";
        format!("{start}{}\r\n\r\n", "x".repeat(bytes - start.len() - 4))
    };
    assert_eq!(status(head(1024).as_bytes()), 200);
    assert_eq!(status(&head(1024).as_bytes()[..1023]), 100);
    assert_eq!(status(head(1025).as_bytes()), 431);
    assert_eq!(status(&head(1025).as_bytes()[..1024]), 431);
    // Empty lines before it do not count.
    assert_eq!(status(format!("\r\n{}", head(1024)).as_bytes()), 200);
    assert_eq!(status(format!("\r\n{}", head(1025)).as_bytes()), 431);
}

#[test]
fn too_many_fields_are_refused() {
    assert_eq!(status_with(&"X: y\r\n".repeat(7)), 200);
    assert_eq!(status_with(&"X: y\r\n".repeat(8)), 431);
    let incomplete = format!("GET / HTTP/1.1\r\nHost: a\r\n{}", "X: y\r\n".repeat(8));
    assert_eq!(status(incomplete.as_bytes()), 431);
}

#[test]
fn limits_beyond_the_room_are_kept_to_it() {
    let limits = HeadLimits { header_count_max: 1000, ..LIMITS };
    let head = format!("GET / HTTP/1.1\r\nHost: a\r\n{}\r\n", "X:\r\n".repeat(FIELDS_MAX));
    assert_eq!(parse(head.as_bytes(), &mut field_room(), &limits).unwrap_err().status, 431);
}

#[test]
fn a_refusal_reads_well_in_a_log() {
    let reject = Reject { status: 400, reason: "no Host" };
    assert_eq!(reject.to_string(), "no Host (400)");
}
