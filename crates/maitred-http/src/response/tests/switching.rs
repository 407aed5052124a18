//! What concerns the application's own connection: other protocols, and whether it lasts.

use super::*;

const SWITCH: ResponsePolicy = ResponsePolicy { switch: Some("websocket"), ..GET };

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
    for bad in ["HTTP/1.1 101 x\r\n\r\n", "HTTP/1.0 101 x\r\nUpgrade: websocket\r\n\r\n"] {
        assert_eq!(refused(SWITCH, bad), Bad::SwitchingProtocols, "{bad}");
    }
    let passed = pass(SWITCH, "HTTP/1.1 200 OK\r\nUpgrade: a\r\nContent-Length: 2\r\n\r\nok");
    assert!(!passed.filter.switched() && passed.filter.keeps() && !passed.out.contains("Upgrade"));
}

#[test]
fn only_what_was_asked_for_may_be_switched_to() {
    for good in ["websocket", "WebSocket", "websocket, websocket"] {
        let passed = pass(SWITCH, &format!("HTTP/1.1 101 x\r\nUpgrade: {good}\r\n\r\n"));
        assert!(passed.filter.switched(), "{good}");
    }
    for bad in
        ["h2c", "websocket, h2c", "h2c, websocket", "websocket/2", "", ",", "websocket\r\nUpgrade: h2c"]
    {
        let response = format!("HTTP/1.1 101 x\r\nUpgrade: {bad}\r\n\r\n");
        assert_eq!(refused(SWITCH, &response), Bad::SwitchingProtocols, "{bad}");
    }
    assert_eq!(refused(GET, "HTTP/1.1 101 x\r\nUpgrade: websocket\r\n\r\n"), Bad::SwitchingProtocols);
}

/// The client would take any success for the other protocol (8441-5).
#[test]
fn an_extended_connect_succeeds_by_101_only() {
    let wanted = ResponsePolicy { framed: true, ..SWITCH };
    assert_eq!(refused(wanted, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"), Bad::NotSwitched);
    assert_eq!(refused(wanted, "HTTP/1.1 204 No Content\r\n\r\n"), Bad::NotSwitched);
    assert_eq!(pass(wanted, "HTTP/1.1 403 No\r\nContent-Length: 2\r\n\r\nno").filter.status(), Some(403));
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
