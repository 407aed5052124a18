//! Trailers go on to clients whose connections have frames, and to nobody else.

use super::*;

const FRAMED: Wanted = Wanted { framed: true, keep: false, ..GET };

fn trailers(wanted: Wanted, response: &str, part_bytes: usize) -> (String, String) {
    let mut filter = Filter::new(wanted);
    let mut out = Vec::new();
    for part in response.as_bytes().chunks(part_bytes) {
        assert!(filter.trailers().is_empty(), "they are told when the response is complete");
        filter.feed(part, DATE, &mut out).unwrap();
    }
    assert!(filter.complete());
    (String::from_utf8(filter.trailers()).unwrap(), String::from_utf8(out).unwrap())
}

#[test]
fn fields_behind_the_content_are_kept_for_frames() {
    let response = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: grpc-status\r\n\r\n\
                    3\r\nabc\r\n0\r\ngrpc-status: 0\r\nContent-Length: 7\r\nSet-Cookie: a=b\r\nx-sum: 1\r\n\r\n";
    for part_bytes in [1, 7, response.len()] {
        let (lines, out) = trailers(FRAMED, response, part_bytes);
        assert_eq!(lines, "grpc-status: 0\r\nx-sum: 1\r\n");
        assert!(out.ends_with("\r\n\r\nabc"), "{out}");
        let (lines, out) = trailers(GET, response, part_bytes);
        assert_eq!(lines, "");
        assert!(out.ends_with("0\r\n\r\n") && !out.contains("grpc-status: 0"), "{out}");
    }
}
