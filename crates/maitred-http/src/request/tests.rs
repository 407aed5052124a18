use super::*;

const LIMITS: HeadLimits = HeadLimits {
    head_bytes_max: 8192,
    header_count_max: 100,
    target_bytes_max: 4096,
    body_bytes_max: 1 << 20,
};

fn status(head: &str) -> u16 {
    match parse(head.as_bytes(), &mut field_room(), &LIMITS) {
        Ok(Some(_)) => 200,
        Ok(None) => 100,
        Err(reject) => reject.status,
    }
}

#[test]
fn accepts_a_plain_head() {
    let head = b"GET /a/b?c=d HTTP/1.1\r\nHost: example.com:8080\r\n\r\nrest";
    let mut room = field_room();
    let (request, taken) = parse(head, &mut room, &LIMITS).unwrap().unwrap();
    assert_eq!(taken, head.len() - 4);
    assert_eq!((request.path, request.query), ("/a/b", Some("c=d")));
    assert_eq!(request.authority, "example.com:8080");
    assert!(request.keep_alive && request.framing == Framing::None);
}

#[test]
fn refuses_bare_line_feeds() {
    assert_eq!(status("GET / HTTP/1.1\nHost: a\r\n\r\n"), 400);
    assert_eq!(status("GET / HTTP/1.1\r\nHost: a\n\r\n"), 400);
    assert_eq!(status("GET / HTTP/1.1\r\nHost: a \t\n\r\n"), 400);
    assert_eq!(status("GET / HTTP/1.1\r\nHost: a\r\n\n"), 400);
    assert_eq!(status("GET / HTTP/1.1\r\nHost: a\r\nX:\n\r\n"), 400);
    assert_eq!(status("GET / HTTP/1.1\r\nHost: a \t\r\nX: \r\nY:\r\n\r\n"), 200);
}
