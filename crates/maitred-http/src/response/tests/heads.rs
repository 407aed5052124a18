//! What becomes of the fields.

use super::*;
use crate::limits::{
    CONNECTION_OPTIONS_MAX, INTERIM_HEAD_BYTES_MAX, RESPONSE_FIELDS_MAX, RESPONSE_HEAD_BYTES_MAX,
    ResponseBounds,
};

/// Of a complete response: its head's lines, without the `Date` that was added.
fn lines(wanted: ResponsePolicy, response: &str) -> Vec<String> {
    let passed = pass(wanted, response);
    assert_eq!(passed.end, Ok(()), "{response:?}");
    let (head, _) = passed.out.split_once("\r\n\r\n").unwrap();
    let added = format!("Date: {}", String::from_utf8_lossy(DATE));
    head.split("\r\n").filter(|line| *line != added).map(str::to_owned).collect()
}

fn status_line(start: &str) -> String {
    pass(GET, &format!("{start}\r\nContent-Length: 0\r\n\r\n")).out.split_once("\r\n").unwrap().0.to_owned()
}

#[test]
fn a_plain_response_goes_on_as_it_is() {
    let response = "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 2\r\nDate: x\r\n\r\nhi";
    let passed = pass(GET, response);
    assert_eq!((passed.out.as_str(), passed.end), (response, Ok(())));
    let filter = passed.filter;
    assert_eq!((filter.status(), filter.body_bytes(), filter.keeps()), (Some(200), 2, true));
    assert!(!filter.excess() && filter.buffered.capacity() == 0);
}

#[test]
fn date_is_added_unless_it_is_there() {
    let passed = pass(GET, "HTTP/1.1 500 Oops\r\nContent-Length: 0\r\n\r\n");
    let expected = "HTTP/1.1 500 Oops\r\nContent-Length: 0\r\nDate: Sun, 06 Nov 1994 08:49:37 GMT\r\n\r\n";
    assert_eq!(passed.out, expected);
}

/// What a client gets with `Server` filled in.
fn edited(response: &str) -> String {
    let mut edits = FieldEdits::default();
    edits.add_if_absent("Server", b"maitred");
    let mut out = Vec::new();
    let mut encoder = h1::Encoder { edits: &edits, ..encoder(&mut out) };
    Filter::new(GET).feed(response.as_bytes(), &mut encoder).unwrap();
    String::from_utf8(out).unwrap()
}

#[test]
fn server_is_added_if_wanted_and_unless_it_is_there() {
    let date = "Date: Sun, 06 Nov 1994 08:49:37 GMT";
    let named = edited("HTTP/1.1 204 x\r\nSERVER: app\r\n\r\n");
    assert_eq!(named, format!("HTTP/1.1 204 x\r\nSERVER: app\r\n{date}\r\n\r\n"));
    let unnamed = edited("HTTP/1.1 204 x\r\n\r\n");
    assert_eq!(unnamed, format!("HTTP/1.1 204 x\r\nServer: maitred\r\n{date}\r\n\r\n"));
    assert_eq!(lines(GET, "HTTP/1.1 204 x\r\n\r\n"), ["HTTP/1.1 204 x"]);
}

#[test]
fn the_status_line_says_1_1_and_has_its_space() {
    assert_eq!(status_line("HTTP/1.1 299 A  b\t"), "HTTP/1.1 299 A  b\t");
    assert_eq!(status_line("HTTP/1.0 200 OK"), "HTTP/1.1 200 OK");
    assert_eq!(status_line("HTTP/1.0 200"), "HTTP/1.1 200 ");
    assert_eq!(status_line("HTTP/1.1 404 "), "HTTP/1.1 404 ");
    assert_eq!(status_line("HTTP/1.1 404"), "HTTP/1.1 404 ");
}

#[test]
fn fields_for_one_hop_are_taken_out() {
    let response = "HTTP/1.1 200 OK\r\nConnection: close\r\nA: 1\r\nKeep-Alive: timeout=5\r\nTE: x\r\nB:2 \r\n\
                    Trailer: C\r\nTransfer-Encoding: Chunked\r\nUpgrade: h2c\r\nC:\r\nProxy-Connection: x\r\n\r\n\
                    0\r\nC: 3\r\n\r\n";
    let expected = ["HTTP/1.1 200 OK", "A: 1", "B:2 ", "C:", "Transfer-Encoding: chunked"];
    assert_eq!(lines(GET, response), expected);
}

#[test]
fn fields_that_connection_names_are_taken_out() {
    let response = "HTTP/1.1 200 OK\r\nA: 1\r\nServer: app\r\nConnection: ,close, a\r\nB: 2\r\nDate: x\r\n\
                    Content-Length: 0\r\nconnection:Date ,C,server,content-length\r\nC: 3\r\n\r\n";
    let expected = "HTTP/1.1 200 OK\r\nB: 2\r\nContent-Length: 0\r\nServer: maitred\r\n\
                    Date: Sun, 06 Nov 1994 08:49:37 GMT\r\n\r\n";
    assert_eq!(edited(response), expected);
}

#[test]
fn a_426_says_what_to_upgrade_to() {
    let response =
        "HTTP/1.1 426 x\r\nUpgrade: h2c\r\nConnection: upgrade, a\r\nA: 1\r\nContent-Length: 0\r\n\r\n";
    let expected = ["HTTP/1.1 426 x", "Upgrade: h2c", "Content-Length: 0", "Connection: upgrade"];
    assert_eq!(lines(GET, response), expected);
    let closing = lines(ResponsePolicy { keep: false, ..GET }, response);
    assert_eq!(closing.last().map(String::as_str), Some("Connection: close, upgrade"));
    let other = lines(GET, &response.replace("426", "400"));
    assert_eq!(other, ["HTTP/1.1 400 x", "Content-Length: 0"]);
}

#[test]
fn connection_is_what_the_client_shall_do() {
    let connection = |wanted, response: &str| {
        let lines = lines(wanted, response);
        let mut named = lines.iter().filter(|line| line.starts_with("Connection: "));
        let first = named.next().cloned().unwrap_or_default();
        assert_eq!(named.next(), None);
        first
    };
    let with_length = "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 0\r\n\r\n";
    let without = "HTTP/1.1 200 OK\r\nConnection: keep-alive\r\n\r\n";
    let empty = "HTTP/1.1 204 No Content\r\n\r\n";
    for response in [with_length, without, empty] {
        assert_eq!(connection(GET, response), "");
        assert_eq!(connection(ResponsePolicy { keep: false, ..GET }, response), "Connection: close");
        assert_eq!(connection(ResponsePolicy { keep: false, ..GET_10 }, response), "Connection: close");
    }
    assert_eq!(connection(GET_10, with_length), "Connection: keep-alive");
    assert_eq!(connection(GET_10, empty), "Connection: keep-alive");
    assert_eq!(connection(GET_10, without), "Connection: close");
}

#[test]
fn interim_responses_go_on_to_clients_of_version_1_1() {
    let response = "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\nConnection: x\r\nX: 1\r\nContent-Length: 5\r\n\r\n\
                    HTTP/1.1 102\r\n\r\nHTTP/1.1 204 x\r\nDate: y\r\n\r\n";
    let expected = "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\nHTTP/1.1 102 \r\n\r\n";
    let last = "HTTP/1.1 204 x\r\nDate: y\r\n";
    let passed = pass(GET, response);
    assert_eq!((passed.out, passed.end), (format!("{expected}{last}\r\n"), Ok(())));
    assert_eq!(passed.filter.status(), Some(204));
    assert_eq!(pass(GET_10, response).out, format!("{last}Connection: keep-alive\r\n\r\n"));
}

#[test]
fn an_interim_response_alone_is_none() {
    let passed = pass(GET, "HTTP/1.1 103 Early Hints\r\n\r\n");
    assert_eq!(passed.out, "HTTP/1.1 103 Early Hints\r\n\r\n");
    assert_eq!((passed.end, passed.filter.informed()), (Err(Bad::NoResponse), true));
    assert!(!passed.filter.head_written());
}

#[test]
fn a_100_and_what_the_client_may_not_have_is_dropped() {
    let last = "HTTP/1.1 204 x\r\nDate: y\r\n\r\n";
    let passed = pass(GET, &format!("HTTP/1.1 100 Continue\r\nA: b\r\n\r\n{last}"));
    assert_eq!((passed.out.as_str(), passed.filter.informed()), (last, false));
    let plain = ResponsePolicy { informational: false, ..GET };
    let hints = "HTTP/1.1 103 x\r\nLink: </a>\r\nConnection: b\r\nB: c\r\n\r\n";
    let passed = pass(plain, &format!("{hints}{hints}{last}"));
    assert_eq!((passed.out.as_str(), passed.end, passed.filter.informed()), (last, Ok(()), false));
}

#[test]
fn a_client_that_waits_for_a_100_gets_it() {
    let both = "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 204 x\r\nDate: y\r\n\r\n";
    for informational in [false, true] {
        let waits = ResponsePolicy { informational, continues: true, ..GET };
        let passed = pass(waits, both);
        assert_eq!((passed.out.as_str(), passed.filter.informed()), (both, true));
        assert!(!pass(ResponsePolicy { http10: true, ..waits }, both).out.contains("100"));
    }
}

#[test]
fn interim_responses_are_bounded_whether_they_go_on_or_not() {
    for wanted in [GET, GET_10, ResponsePolicy { informational: false, ..GET }] {
        for status in [100, 103] {
            let one = format!("HTTP/1.1 {status} x\r\n\r\n");
            let interim = one.repeat(INTERIM_RESPONSES_MAX.into());
            assert_eq!(pass(wanted, &format!("{interim}HTTP/1.1 204 x\r\n\r\n")).end, Ok(()));
            assert_eq!(pass(wanted, &format!("{interim}{one}")).end, Err(Bad::TooManyInterim));
            let (start, end) = (format!("HTTP/1.1 {status} x\r\nA: "), "\r\n\r\n");
            let value = "a".repeat(INTERIM_HEAD_BYTES_MAX - start.len() - end.len());
            let behind = "HTTP/1.1 204 x\r\n\r\n";
            for (value, expected) in [(value.clone(), Ok(())), (format!("{value}a"), Err(Bad::InterimTooBig))]
            {
                let response = format!("{start}{value}{end}{behind}");
                assert_eq!(pass(wanted, &response).end, expected);
                let (first, second) = response.as_bytes().split_at(1000);
                assert_eq!(pass_parts(wanted, &[first, second]).end, expected);
            }
        }
    }
}

#[test]
fn heads_are_well_formed() {
    for bad in [
        "\r\nHTTP/1.1 200 OK\r\n\r\n",
        "\nHTTP/1.1 200 OK\r\n\r\n",
        " HTTP/1.1 200 OK\r\n\r\n",
        "HTTP/1.x 200 OK\r\n\r\n",
        "HTTP/1.22 200 OK\r\n\r\n",
        "HTTP/2 200 OK\r\n\r\n",
        "http/1.1 200 OK\r\n\r\n",
        "HTTP/1.1 20 OK\r\n\r\n",
        "HTTP/1.1 2000 OK\r\n\r\n",
        "HTTP/1.1 200 O\x01K\r\n\r\n",
        "HTTP/1.1 200 O\rK\r\n\r\n",
        "HTTP/1.1 200 OK\r\nA: b\r\r\n\r\n",
        "HTTP/1.1 200 OK\r\nA: b\n\r c\r\n\r\n",
        "HTTP/1.1 200 OK\r\nA: b\rC: d\r\n\r\n",
        "HTTP/1.1 200 OK\r\nA: b\r\n c\r\n\r\n",
        "HTTP/1.1 200 OK\r\n A: b\r\n\r\n",
        "HTTP/1.1 200 OK\r\nA : b\r\n\r\n",
        "HTTP/1.1 200 OK\r\nA(: b\r\n\r\n",
        "HTTP/1.1 200 OK\r\n: b\r\n\r\n",
        "HTTP/1.1 200 OK\r\nA\r\n\r\n",
        "HTTP/1.1 200 OK\r\nA: b\0\r\n\r\n",
        "HTTP/1.1 200 OK\r\nA: b\x7f\r\n\r\n",
    ] {
        let found = refused(GET, bad);
        assert!(matches!(found, Bad::Syntax(_)), "{bad:?}: {found:?}");
    }
}

/// What other proxies let pass goes on in the one form that there is.
#[test]
fn heads_that_are_written_otherwise_are_written_anew() {
    for (response, expected) in [
        ("HTTP/1.1 200 OK\nA: b\nContent-Length: 2\n\nhi", "200 OK|A: b|Content-Length: 2"),
        ("HTTP/1.1 200 OK\r\nA: b\nContent-Length: 2\r\n\r\nhi", "200 OK|A: b|Content-Length: 2"),
        ("HTTP/1.1 200 OK\r\nA:\nC: d\r\nContent-Length: 2\r\n\nhi", "200 OK|A: |C: d|Content-Length: 2"),
        ("HTTP/1.1 200\nTE: x\nA: b \nContent-Length: 2\n\r\nhi", "200 |A: b|Content-Length: 2"),
        ("HTTP/1.0 200 OK\nContent-Length: 2\n\nhi", "200 OK|Content-Length: 2"),
        ("HTTP/1.1   200  OK\r\nA: b\r\nContent-Length: 2\r\n\r\nhi", "200 OK|A: b|Content-Length: 2"),
        ("HTTP/1.2 200 OK\r\nA:b\r\nContent-Length: 2\r\n\r\nhi", "200 OK|A:b|Content-Length: 2"),
        ("HTTP/1.9 200 OK\nA:b\nContent-Length: 2\n\nhi", "200 OK|A: b|Content-Length: 2"),
    ] {
        assert_eq!(lines(GET, response).join("|"), format!("HTTP/1.1 {expected}"), "{response:?}");
        let single: Vec<&[u8]> = response.as_bytes().chunks(1).collect();
        assert_eq!(pass_parts(GET, &single).out, pass(GET, response).out, "{response:?}");
    }
    let interim = pass(GET, "HTTP/1.1 103 x\nLink: a\n\nHTTP/1.1 204 x\nDate: y\n\n");
    assert_eq!(interim.out, "HTTP/1.1 103 x\r\nLink: a\r\n\r\nHTTP/1.1 204 x\r\nDate: y\r\n\r\n");
}

#[test]
fn a_status_has_a_meaning() {
    assert_eq!(refused(GET, "HTTP/1.1 000 x\r\n\r\n"), Bad::Status(0));
    assert_eq!(refused(GET, "HTTP/1.1 099 x\r\n\r\n"), Bad::Status(99));
    assert_eq!(refused(GET, "HTTP/1.1 101 x\r\nUpgrade: a\r\n\r\n"), Bad::SwitchingProtocols);
    for status in [200, 299, 599, 600, 999] {
        assert_eq!(pass(GET, &format!("HTTP/1.1 {status} x\r\n\r\n")).filter.status(), Some(status));
    }
}

#[test]
fn framing_is_unambiguous() {
    for bad in [
        "Content-Length: 5\r\nContent-Length: 6",
        "Content-Length: 5\r\nContent-Length: 5\r\nContent-Length: 6",
        "Content-Length: 5, 5",
        "Content-Length: +5",
        "Content-Length: -5",
        "Content-Length: 0x5",
        "Content-Length:",
        "Content-Length: 18446744073709551616",
        "Content-Length: x\r\nTransfer-Encoding: chunked",
        "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked",
        "Transfer-Encoding: gzip, chunked",
        "Transfer-Encoding: chunked, chunked",
        "Transfer-Encoding: identity",
        "Transfer-Encoding: chunked;a=b",
        "Transfer-Encoding:",
    ] {
        for (wanted, status) in [(GET, 200), (HEAD, 200), (GET, 204), (GET, 304), (GET, 103), (GET_10, 205)] {
            let found = refused(wanted, &format!("HTTP/1.1 {status} x\r\n{bad}\r\n\r\n"));
            assert!(matches!(found, Bad::Framing(_)), "{bad:?}: {found:?}");
        }
    }
}

/// 9112-6.1, 9112-6.3, 9110-8.6: what is said once too often goes on once, and chunks count more than a length.
#[test]
fn framing_that_is_said_twice_goes_on_once() {
    let twice = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nA: b\r\nContent-Length: 2\r\n\r\nhi";
    assert_eq!(lines(GET, twice), ["HTTP/1.1 200 OK", "Content-Length: 2", "A: b"]);
    assert!(pass(GET, twice).filter.lasts());
    for fields in [
        "Content-Length: 5\r\nTransfer-Encoding: chunked",
        "Transfer-Encoding: chunked\r\nContent-Length: 2\r\nContent-Length: 2",
        "Content-Length: 0\r\nTransfer-Encoding: chunked\r\nConnection: keep-alive",
    ] {
        let response = format!("HTTP/1.1 200 OK\r\n{fields}\r\n\r\n2\r\nhi\r\n0\r\n\r\n");
        assert_eq!(lines(GET, &response), ["HTTP/1.1 200 OK", "Transfer-Encoding: chunked"], "{fields}");
        let passed = pass(GET, &response);
        assert!(passed.out.ends_with("\r\n\r\n2\r\nhi\r\n0\r\n\r\n"), "{fields}");
        assert_eq!((passed.filter.lasts(), passed.filter.keeps()), (false, true), "{fields}");
        let old = pass(GET_10, &response.replace("HTTP/1.1", "HTTP/1.0"));
        assert!(old.out.ends_with("\r\n\r\nhi") && !old.out.contains("ontent-Length"), "{fields}");
        assert!(!old.filter.lasts(), "{fields}");
        let head = pass(HEAD, &format!("HTTP/1.1 200 OK\r\n{fields}\r\n\r\n"));
        assert!(!head.out.contains("ontent-Length") && !head.filter.lasts(), "{fields}");
    }
}

#[test]
fn heads_are_bounded() {
    let fields = |count| format!("HTTP/1.1 204 x\r\n{}\r\n", "A: b\r\n".repeat(count));
    assert_eq!(pass(GET, &fields(RESPONSE_FIELDS_MAX)).end, Ok(()));
    assert_eq!(
        refused(GET, &fields(RESPONSE_FIELDS_MAX + 1)),
        Bad::TooManyFields(RESPONSE_FIELDS_MAX as u16)
    );

    let (start, end) = ("HTTP/1.1 204 x\r\nA: ", "\r\n\r\n");
    let value = "a".repeat(RESPONSE_HEAD_BYTES_MAX - start.len() - end.len());
    for (value, expected) in
        [(value.clone(), Ok(())), (format!("{value}a"), Err(Bad::HeadTooBig(RESPONSE_HEAD_BYTES_MAX as u32)))]
    {
        let head = format!("{start}{value}{end}");
        assert_eq!(pass(GET, &head).end, expected);
        let (first, second) = head.as_bytes().split_at(1000);
        assert_eq!(pass_parts(GET, &[first, second]).end, expected);
        let single: Vec<&[u8]> = head.as_bytes().chunks(1).collect();
        assert_eq!(pass_parts(GET, &single).end, expected);
    }
    let without_end = pass(GET, &format!("{start}{value}aaaa"));
    assert_eq!(without_end.end, Err(Bad::HeadTooBig(RESPONSE_HEAD_BYTES_MAX as u32)));
}

#[test]
fn heads_are_bounded_as_the_configuration_says() {
    for (head_bytes_max, fields_max) in [(1024, 16), (4096, 128), (4096, 129), (1 << 20, 4096)] {
        let wanted = ResponsePolicy { bounds: ResponseBounds { head_bytes_max, fields_max }, ..GET };
        let fields = |count: u16| format!("HTTP/1.1 204 x\r\n{}\r\n", "A: b\r\n".repeat(count.into()));
        assert_eq!(pass(wanted, &fields(fields_max)).end, Ok(()));
        assert_eq!(refused(wanted, &fields(fields_max + 1)), Bad::TooManyFields(fields_max));
        let (start, end) = ("HTTP/1.1 204 x\r\nA: ", "\r\n\r\n");
        let value = "a".repeat(head_bytes_max as usize - start.len() - end.len());
        for (value, expected) in
            [(value.clone(), Ok(())), (format!("{value}a"), Err(Bad::HeadTooBig(head_bytes_max)))]
        {
            let head = format!("{start}{value}{end}");
            assert_eq!(pass(wanted, &head).end, expected);
            let parts: Vec<&[u8]> = head.as_bytes().chunks(999).collect();
            assert_eq!(pass_parts(wanted, &parts).end, expected);
        }
    }
    let wanted =
        ResponsePolicy { bounds: ResponseBounds { head_bytes_max: 1 << 20, fields_max: 4096 }, ..GET };
    let named = format!("HTTP/1.1 204 x\r\nConnection: b\r\n{}B: c\r\n\r\n", "A: b\r\n".repeat(3000));
    let passed = pass(wanted, &named);
    assert!(
        !passed.out.contains("B: c") && passed.out.contains("A: b"),
        "one far behind is named by Connection"
    );
}

#[test]
fn a_head_may_come_in_pieces() {
    let response = b"HTTP/1.1 103 x\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 3\r\nA: b\r\n\r\nabc";
    let whole = pass_parts(GET, &[response]);
    for first in 0..response.len() {
        for second in first..response.len() {
            let parts = [&response[..first], &response[first..second], &response[second..]];
            let passed = pass_parts(GET, &parts);
            assert_eq!((passed.out.as_str(), passed.end), (whole.out.as_str(), Ok(())));
            assert_eq!((passed.filter.keeps(), passed.filter.buffered.capacity()), (true, 0));
        }
    }
    assert_eq!(refused(GET, "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n"), Bad::HeadIncomplete);
    assert_eq!(refused(GET, ""), Bad::NoResponse);
}

#[test]
fn options_of_connection_are_bounded() {
    let response = |fields: &[usize]| {
        let line = |options: &usize| format!("Connection: {}\r\n", vec!["b"; *options].join(","));
        let lines: String = fields.iter().map(line).collect();
        format!("HTTP/1.1 200 OK\r\nA: 1\r\nB: 2\r\n{lines}Content-Length: 0\r\n\r\n")
    };
    let most = CONNECTION_OPTIONS_MAX as usize;
    for good in [vec![most], vec![most - 1, 1]] {
        let passed = pass(GET, &response(&good));
        assert_eq!(passed.end, Ok(()));
        assert!(passed.out.contains("A: 1\r\n") && !passed.out.contains("B: 2"), "{}", passed.out);
    }
    for bad in [vec![most + 1], vec![most, 1], vec![1; most + 1]] {
        assert_eq!(refused(GET, &response(&bad)), Bad::TooManyOptions);
    }
    // Nothing between two commas counts, too: it has to be looked at.
    let commas = format!("HTTP/1.1 200 OK\r\nConnection: {}\r\n\r\n", ",".repeat(most));
    assert_eq!(refused(GET, &commas), Bad::TooManyOptions);
}
