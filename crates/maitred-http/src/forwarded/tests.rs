use proptest::prelude::*;

use super::*;
use crate::fuzzing;

fn shown<'a>(hops: impl Iterator<Item = Option<Hop<'a>>>) -> Vec<String> {
    let show = |hop: Option<Hop<'_>>| match hop {
        Some(Hop { address, port: 0, .. }) => address.to_string(),
        Some(Hop { address, port, .. }) => format!("{address} {port}"),
        None => "-".into(),
    };
    hops.map(show).collect()
}

#[test]
fn x_forwarded_for_is_a_list_of_addresses() {
    let value = b"192.0.2.1, 2001:db8::1 ,[2001:db8::2],[2001:db8::3]:80,192.0.2.2:443,,::ffff:192.0.2.3";
    let hops = ["192.0.2.1", "2001:db8::1", "2001:db8::2", "2001:db8::3 80", "192.0.2.2 443", "192.0.2.3"];
    assert_eq!(shown(x_forwarded_for(value)), hops);
    for value in [
        "unknown",
        "_hidden",
        "192.0.2",
        "192.0.2.1:",
        "[::1",
        "[::1]80",
        "192.0.2.1:+1",
        "1:99999",
        "\u{e9}",
    ] {
        let hops = shown(x_forwarded_for(value.as_bytes()));
        assert!(hops == ["-"] || value == "{value}: {hops:?}");
    }
    assert!(shown(x_forwarded_for(b" , ")).is_empty());
}

#[test]
fn forwarded_is_a_list_of_elements() {
    let value =
        b"for=192.0.2.60;proto=http;by=203.0.113.43, For=\"[2001:db8:cafe::17]:4711\" , for=unknown, \
                  for=_hidden;by=x, by=203.0.113.43, FOR=\"192.0.2.1:_p\";host=\"a,b;c\"; Proto=https";
    let hops = ["192.0.2.60", "2001:db8:cafe::17 4711", "-", "-", "-", "192.0.2.1"];
    assert_eq!(shown(forwarded(value)), hops);
    let protos: Vec<_> = forwarded(value).flatten().map(|hop| hop.proto).collect();
    assert_eq!(protos, [Some(b"http".as_slice()), None, Some(b"https")]);
    // Without the quotes that section 6 asks for.
    assert_eq!(shown(forwarded(b"for=[2001:db8::1]:80, for=2001:db8::2")), ["2001:db8::1 80", "2001:db8::2"]);
}

#[test]
fn what_is_malformed_ends_the_list() {
    for rest in
        ["for=\"192.0.2.2", "for 192.0.2.2", "=x", "for=", "for=\"a\\\"b\", for=192.0.2.2", "for=\"a\"b"]
    {
        let value = format!("for=192.0.2.1, {rest}");
        assert_eq!(shown(forwarded(value.as_bytes())), ["192.0.2.1", "-"], "{rest}");
    }
    assert!(shown(forwarded(b"")).is_empty());
    assert_eq!(shown(forwarded(b"for=192.0.2.1;")), ["-"]);
}

#[test]
fn the_client_is_the_last_who_is_not_trusted() {
    let client = |value: &str| {
        let trusted = |address: IpAddr| address.to_string().starts_with("10.");
        walk(x_forwarded_for(value.as_bytes()), trusted).map(|hop| hop.address.to_string())
    };
    assert_eq!(client("192.0.2.1").as_deref(), Some("192.0.2.1"));
    // What a client claims stands before what is known of it.
    assert_eq!(client("198.51.100.1, 192.0.2.1, 10.0.0.2").as_deref(), Some("192.0.2.1"));
    assert_eq!(client("10.0.0.3, 10.0.0.2").as_deref(), Some("10.0.0.3"));
    assert_eq!(client("192.0.2.1, unknown, 10.0.0.2").as_deref(), Some("10.0.0.2"));
    assert_eq!(client("192.0.2.1, unknown"), None);
    assert_eq!(client(""), None);
}

#[test]
fn elements_are_written_as_the_standard_has_them() {
    let written = |address: &str, host: &str| {
        let mut out = Vec::new();
        append_element(&mut out, address.as_bytes(), host, "http");
        String::from_utf8(out).unwrap()
    };
    assert_eq!(written("192.0.2.1", "example.com"), "for=192.0.2.1;host=example.com;proto=http");
    assert_eq!(written("::1", "a:8080"), "for=\"[::1]\";host=\"a:8080\";proto=http");
    assert_eq!(written("::1", ""), "for=\"[::1]\";proto=http");
    assert_eq!(written("::1", "a\"\\"), "for=\"[::1]\";host=\"a\\\"\\\\\";proto=http");
}

/// Pieces of both fields.
fn pieces() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        Just("for=".to_owned()),
        Just("192.0.2.1".to_owned()),
        Just("\"[2001:db8::1]:80\"".to_owned()),
        Just("unknown".to_owned()),
        "[,; =\":._a]{1,2}",
        Just("proto=https".to_owned()),
    ];
    proptest::collection::vec(piece, 0..16).prop_map(|pieces| pieces.concat())
}

proptest! {
    #[test]
    fn any_lists_keep_the_invariants(text in pieces(), bytes in proptest::collection::vec(any::<u8>(), 0..40)) {
        fuzzing::forwarded_lists(text.as_bytes());
        fuzzing::forwarded_lists(&bytes);
    }

    /// One pass forwards finds the same as the search from the end that is meant.
    #[test]
    fn walking_is_from_the_end(list in proptest::collection::vec(proptest::option::of(0u8..6), 0..8), trusted in 0u8..6) {
        let hop = |last: u8| Hop { address: [10, 0, 0, last].into(), port: 0, proto: None };
        let is_trusted = |address: IpAddr| matches!(address, IpAddr::V4(v4) if v4.octets()[3] < trusted);
        let mut expected = None;
        for last in list.iter().rev() {
            let Some(last) = last else { break };
            expected = Some(hop(*last));
            if !is_trusted(hop(*last).address) {
                break;
            }
        }
        prop_assert_eq!(walk(list.iter().map(|last| last.map(hop)), is_trusted), expected);
    }
}
