//! What concerns the application's own connection: other protocols, and whether it lasts.

use super::*;

const SWITCH: Wanted = Wanted { switch: true, ..GET };

#[test]
fn what_was_asked_for_may_be_switched_to() {
    let response = "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade, X-Hop\r\nX-Hop: 1\r\n\
                    Content-Length: 3\r\nX-Key: k\r\n\r\nHTTP/1.1 no more";
    for split in 1..response.len() {
        let (first, rest) = response.as_bytes().split_at(split);
        let passed = pass_parts(SWITCH, &[first, rest]);
        assert_eq!(
            passed.out,
            "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nX-Key: k\r\nConnection: Upgrade\r\n\r\n\
             HTTP/1.1 no more"
        );
        let filter = passed.filter;
        assert!(filter.switched() && !filter.keeps() && !filter.lasts());
        assert_eq!((passed.end, filter.status(), filter.body_bytes()), (Ok(()), Some(101), 16));
    }
}

#[test]
fn a_switch_needs_an_upgrade_field_and_version_11() {
    for bad in ["HTTP/1.1 101 x\r\n\r\n", "HTTP/1.0 101 x\r\nUpgrade: a\r\n\r\n"] {
        assert_eq!(refused(SWITCH, bad), Bad::SwitchingProtocols, "{bad}");
    }
    let passed = pass(SWITCH, "HTTP/1.1 200 OK\r\nUpgrade: a\r\nContent-Length: 2\r\n\r\nok");
    assert!(!passed.filter.switched() && passed.filter.keeps() && !passed.out.contains("Upgrade"));
}

#[test]
fn the_applications_connection_lasts_as_it_says() {
    for (lasts, response) in [
        (true, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"),
        (true, "HTTP/1.1 204 No Content\r\n\r\n"),
        (true, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"),
        (true, "HTTP/1.0 200 OK\r\nConnection: Keep-Alive\r\nContent-Length: 2\r\n\r\nok"),
        (false, "HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nok"),
        (false, "HTTP/1.1 200 OK\r\nConnection: x, Close\r\nContent-Length: 2\r\n\r\nok"),
        (
            false,
            "HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok",
        ),
        (false, "HTTP/1.1 200 OK\r\n\r\nup to the end"),
        (false, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok and more"),
        (false, "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nok"),
    ] {
        assert_eq!(pass(GET, response).filter.lasts(), lasts, "{response}");
    }
}
