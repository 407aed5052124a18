use maitred_handoff::{FromServer, PAYLOAD_BYTES_MAX, RequestFlags};
use maitred_http::request::{self, HeadLimits};
use proptest::prelude::*;

use super::*;
use maitred_config::Network;

const LIMITS: HeadLimits =
    HeadLimits { head_bytes_max: 8192, header_count_max: 64, target_bytes_max: 1024, body_bytes_max: 0 };

const PROXY: &str = "10.0.0.1:5000";
const STRANGER: &str = "203.0.113.9:6000";

fn proxies(field: Option<&str>) -> TrustedProxies {
    let networks = vec![("10.0.0.0".parse().unwrap(), 8), ("2001:db8::".parse().unwrap(), 32)];
    TrustedProxies { networks, unix: false, field: field.map(str::to_owned) }
}

/// The client that is found for a request with these fields, and the fields that the application gets.
fn told_to_application(peer: &str, fields: &[&str]) -> (String, Vec<String>) {
    told_of_client_in(None, peer, fields)
}

/// The same where this field has the client's address.
fn told_of_client_in(field: Option<&str>, peer: &str, fields: &[&str]) -> (String, Vec<String>) {
    told_by(&proxies(field), peer, fields)
}

/// The same where routes say this of fields.
fn told_with(rules: &FieldEdits, peer: &str, fields: &[&str]) -> Vec<String> {
    told_by_rules(rules, &proxies(None), peer, fields).1
}

/// The same where these are trusted; a peer that is no address is one on a Unix socket.
fn told_by(proxies: &TrustedProxies, peer: &str, fields: &[&str]) -> (String, Vec<String>) {
    told_by_rules(FieldEdits::NONE, proxies, peer, fields)
}

fn told_by_rules(
    rules: &FieldEdits,
    proxies: &TrustedProxies,
    peer: &str,
    fields: &[&str],
) -> (String, Vec<String>) {
    let head = format!("GET / HTTP/1.1\r\nHost: example.com:8080\r\n{}\r\n", lines(fields));
    let mut room = request::field_room();
    let (request, _) = request::parse(head.as_bytes(), &mut room, &LIMITS).unwrap().unwrap();
    let peer = Peer { remote: Remote::new(peer.parse().ok()), secure: false };
    let client = Client::of(&request, &peer, proxies);
    let mut out = Vec::new();
    let flags = RequestFlags::default();
    let mut written = maitred_handoff::begin_request(&mut out, 1, 1, flags, 0).head("GET", "/");
    let began_unix_us = 1_512_379_167_005_999;
    let arrival = Arrival { peer: &peer, client: &client, id: 0xabc, began_unix_us, rules };
    ForwardedHeaders::default().tell(&mut written, &request, arrival);
    assert!(written.body(None).finish(PAYLOAD_BYTES_MAX));
    let Ok(Some((FromServer::Request(frame), _))) = FromServer::decode(&out, PAYLOAD_BYTES_MAX) else {
        panic!("no request in {out:?}")
    };
    let text = std::str::from_utf8(frame.head).unwrap().trim_end();
    let port = client.remote.address.map_or(0, |address| address.port());
    let shown = format!("{}://{} {port}", client.scheme(), client.remote.text());
    (shown, text.split("\r\n").skip(1).map(str::to_owned).collect())
}

fn lines(fields: &[&str]) -> String {
    fields.iter().map(|field| format!("{field}\r\n")).collect()
}

#[test]
fn what_a_route_sets_does_not_come_from_a_proxy_as_well() {
    let mut rules = FieldEdits::default();
    rules.set("X-Real-IP", b"192.0.2.7");
    let sent = ["X-Real-IP: 192.0.2.1", "x-real-ip: 192.0.2.2", "X-Forwarded-Port: 443"];
    let told = told_with(&rules, PROXY, &sent).join("\n").to_ascii_lowercase();
    assert!(!told.contains("x-real-ip") && told.contains("x-forwarded-port: 443"), "{told}");
    let told = told_with(FieldEdits::NONE, PROXY, &sent).join("\n").to_ascii_lowercase();
    assert_eq!(told.matches("x-real-ip").count(), 2, "{told}");
}

#[test]
fn a_stranger_is_told_of_and_not_listened_to() {
    let (client, fields) = told_to_application(
        STRANGER,
        &[
            "X-Forwarded-For: 192.0.2.1",
            "X-Forwarded-Proto: https",
            "X-Forwarded-Host: bank.example",
            "X-Forwarded-Port: 443",
            "Forwarded: for=192.0.2.1",
            "X-Real-IP: 192.0.2.1",
            "X-Request-Id: mine",
            "X-Request-Start: t=1",
            "X-Queue-Start: t=1",
            "X_Forwarded_For: 192.0.2.1",
            "Early-Data: 0",
            "Early_Data: 0",
            "X_SSL_Client_Verify: SUCCESS",
        ],
    );
    assert_eq!(client, "http://203.0.113.9 6000");
    assert_eq!(
        fields,
        [
            "x-forwarded-proto: http",
            "x-forwarded-host: example.com:8080",
            "x-forwarded-for: 203.0.113.9",
            "forwarded: for=203.0.113.9;host=\"example.com:8080\";proto=http",
            "x-request-id: 00000000000000000000000000000abc",
            "x-request-start: t=1512379167.005",
        ]
    );
}

#[test]
fn a_trusted_proxy_without_an_address_is_believed_and_not_added() {
    let fields = ["X-Forwarded-For: 192.0.2.1, 10.0.0.2", "X-Request-Id: a"];
    let seen = |unix| {
        let (client, mut told) = told_by(&TrustedProxies { unix, ..proxies(None) }, "unix:", &fields);
        told.retain(|field| field.starts_with("forwarded:") || field.starts_with("x-forwarded-for:"));
        (client, told)
    };
    let named = ["x-forwarded-for: 192.0.2.1, 10.0.0.2", "forwarded: for=192.0.2.1, for=10.0.0.2"];
    assert_eq!(seen(true), ("http://192.0.2.1 0".to_owned(), named.map(str::to_owned).to_vec()));
    assert_eq!(seen(false), ("http://unix: 0".to_owned(), Vec::new()));
}

#[test]
fn a_trusted_proxy_is_believed_and_added_to() {
    let (client, fields) = told_to_application(
        PROXY,
        &[
            "X-Forwarded-For: 198.51.100.1, 192.0.2.1",
            "X-Forwarded-For: 10.0.0.2",
            "X-Forwarded-Proto: http, https",
            "X-Forwarded-Host: shop.example",
            "X-Forwarded-Prefix: /shop",
            "X-Request-Id: from-the-proxy",
            "X-Request-Start: t=1512379166.000",
            "Forwarded: for=198.51.100.1, for=192.0.2.1;proto=https, for=10.0.0.2",
            "X_Forwarded_For: 127.0.0.1",
        ],
    );
    assert_eq!(client, "https://192.0.2.1 0");
    assert_eq!(
        fields,
        [
            "x-forwarded-proto: http, https",
            "x-forwarded-host: shop.example",
            "x-forwarded-prefix: /shop",
            "x-forwarded-for: 198.51.100.1, 192.0.2.1, 10.0.0.2, 10.0.0.1",
            "forwarded: for=198.51.100.1, for=192.0.2.1;proto=https, for=10.0.0.2, \
             for=10.0.0.1;host=\"example.com:8080\";proto=http",
            "x-request-id: from-the-proxy",
            "x-request-start: t=1512379166.000",
        ]
    );
}

#[test]
fn each_list_is_made_from_the_other_if_need_be() {
    let of = |fields: &[&str], name: &str| {
        let (client, told) = told_to_application(PROXY, fields);
        (client, told.into_iter().find(|field| field.starts_with(name)).unwrap())
    };
    let (client, forwarded) = of(&["X-Forwarded-For: 192.0.2.1, who, 2001:db8::5"], "forwarded:");
    assert_eq!(client, "http://2001:db8::5 0");
    assert_eq!(
        forwarded,
        "forwarded: for=192.0.2.1, for=unknown, for=\"[2001:db8::5]\", for=10.0.0.1;host=\"example.com:8080\";\
         proto=http"
    );
    let (client, list) =
        of(&["Forwarded: for=\"[2001:db9::1]:77\";proto=HTTPS, for=_x, for=192.0.2.1"], "x-forwarded-for:");
    assert_eq!(client, "http://192.0.2.1 0");
    assert_eq!(list, "x-forwarded-for: 2001:db9::1, unknown, 192.0.2.1, 10.0.0.1");
    let (client, _) = of(&["Forwarded: for=\"[2001:db9::1]:77\";proto=HTTPS"], "forwarded:");
    assert_eq!(client, "https://2001:db9::1 77");
}

#[test]
fn a_proxy_that_says_nothing_is_the_client() {
    let (client, fields) = told_to_application(PROXY, &["X-Request-Id: ", "Connection: x-forwarded-for"]);
    assert_eq!(client, "http://10.0.0.1 5000");
    assert_eq!(fields[2], "x-forwarded-for: 10.0.0.1");
    assert_eq!(fields[4], "x-request-id: 00000000000000000000000000000abc");
    for id in ["a b", "\u{e9}", &"x".repeat(REQUEST_ID_BYTES_MAX + 1)] {
        let (_, fields) = told_to_application(PROXY, &[&format!("X-Request-Id: {id}")]);
        assert_eq!(fields[4], "x-request-id: 00000000000000000000000000000abc", "{id}");
    }
}

#[test]
fn fields_that_tell_are_known_however_they_are_written() {
    for (name, expected) in [
        ("X-Forwarded-For", Some(Told::For)),
        ("x-forwarded-PROTO", Some(Told::Proto)),
        ("FORWARDED", Some(Told::Forwarded)),
        ("x-forwarded-", Some(Told::Other)),
        ("X-Forwarded-For-Original", Some(Told::Other)),
        ("x-real-ip", Some(Told::Other)),
        ("X-Forwarded_For", Some(Told::Disguised)),
        ("x_request_id", Some(Told::Disguised)),
        ("X-Forwarded", None),
        ("Forwarded-For", None),
        ("X-Requested-With", None),
        ("traceparent", None),
        ("tracestate", None),
        ("", None),
    ] {
        assert_eq!(told(name), expected, "{name}");
    }
}

#[test]
fn networks_are_compared_by_their_bits() {
    let networks: Vec<Network> = [("10.1.0.0", 16), ("192.0.2.7", 32), ("2001:db8::", 33)]
        .map(|(address, bits)| (address.parse().unwrap(), bits))
        .into();
    let within = |address: &str| is_within(address.parse().unwrap(), &networks);
    for address in ["10.1.255.255", "192.0.2.7", "::ffff:10.1.2.3", "2001:db8:7fff::1"] {
        assert!(within(address), "{address}");
    }
    for address in ["10.2.0.0", "192.0.2.6", "2001:db8:8000::", "::1", "127.0.0.1"] {
        assert!(!within(address), "{address}");
    }
    assert!(is_within("127.0.0.1".parse().unwrap(), &[("0.0.0.0".parse().unwrap(), 0)]));
}

#[test]
fn ids_are_unlike_each_other() {
    let (mut one, mut other) = (ForwardedHeaders::default(), ForwardedHeaders::default());
    let mut ids: Vec<u128> = (0..1000).flat_map(|_| [one.next_id(), other.next_id()]).collect();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), 2000);
    // Each bit is set in about half of them; a stuck one would be seen.
    for bit in 0..128 {
        let set = ids.iter().filter(|id| *id >> bit & 1 == 1).count();
        assert!((800..1200).contains(&set), "bit {bit} is set in {set} of 2000");
    }
    assert_eq!(&hexadecimal(0x0123_4567_89ab_cdef_0f1e_2d3c_4b5a_6978), b"0123456789abcdef0f1e2d3c4b5a6978");
}

proptest! {
    /// The fields of a peer that is not trusted do not change what the application gets.
    #[test]
    fn nothing_that_a_stranger_writes_is_told(
        fields in proptest::collection::vec(
            ("(X|x)[-_](Forwarded|Real|Request|Queue)[-_](For|Proto|Host|Id|IP|Start)|Forwarded", "[!-~]([ -~]{0,20}[!-~])?"),
            0..6,
        ),
    ) {
        let fields: Vec<String> = fields.iter().map(|(name, value)| format!("{name}: {value}")).collect();
        let fields: Vec<&str> = fields.iter().map(String::as_str).collect();
        prop_assert_eq!(told_to_application(STRANGER, &fields), told_to_application(STRANGER, &[]));
    }

    /// With a trusted proxy, the last item of each list is always the address that was observed here, once.
    #[test]
    fn the_last_hop_is_our_own_word(lists in proptest::collection::vec("[ -~]{0,30}", 0..3)) {
        let fields: Vec<String> = lists.iter().flat_map(|list| {
            [format!("X-Forwarded-For: {list}"), format!("Forwarded: {list}")]
        }).collect();
        let fields: Vec<&str> = fields.iter().map(String::as_str).collect();
        let (_, told) = told_to_application(PROXY, &fields);
        let find = |name: &str| told.iter().filter(|field| field.starts_with(name)).collect::<Vec<_>>();
        let (list, forwarded) = (find("x-forwarded-for:"), find("forwarded:"));
        prop_assert_eq!((list.len(), forwarded.len()), (1, 1));
        prop_assert!(list[0].ends_with(" 10.0.0.1"));
        prop_assert!(forwarded[0].ends_with(" for=10.0.0.1;host=\"example.com:8080\";proto=http"));
    }
}

#[test]
fn another_field_can_have_the_clients_address() {
    let forged = ["X-Forwarded-For: 198.51.100.7", "Forwarded: for=198.51.100.8;proto=https"];
    let hops = |field: &'static str, peer: &str, sent: &[&str]| {
        let sent: Vec<_> = forged.iter().chain(sent).copied().collect();
        let (client, fields) = told_of_client_in(Some(field), peer, &sent);
        let of = |name: &str| {
            let field = fields.iter().find_map(|line| line.strip_prefix(name)).unwrap();
            field.split(";host=").next().unwrap().to_owned()
        };
        (client, of("x-forwarded-for: "), of("forwarded: "))
    };
    let told =
        |client: &str, list: &str, elements: &str| (client.to_owned(), list.to_owned(), elements.to_owned());
    let cloudflare = "cf-connecting-ip";
    assert_eq!(
        hops(cloudflare, PROXY, &["CF-Connecting-IP: 192.0.2.1"]),
        told("http://192.0.2.1 0", "192.0.2.1, 10.0.0.1", "for=192.0.2.1, for=10.0.0.1")
    );
    assert_eq!(
        hops(cloudflare, PROXY, &["cf-connecting-ip: 2001:db9::1"]),
        told("http://2001:db9::1 0", "2001:db9::1, 10.0.0.1", "for=\"[2001:db9::1]\", for=10.0.0.1")
    );
    // A list, as nginx's realip module reads it with `real_ip_recursive on`.
    assert_eq!(
        hops("x-hops", PROXY, &["X-Hops: 192.0.2.6, 192.0.2.1", "X-Hops: 10.0.0.9"]),
        told("http://192.0.2.1 0", "192.0.2.1, 10.0.0.1", "for=192.0.2.1, for=10.0.0.1")
    );
    for absent in [&[][..], &["CF-Connecting-IP: unknown"], &["CF_Connecting_IP: 192.0.2.1"]] {
        let peer = told("http://10.0.0.1 5000", "10.0.0.1", "for=10.0.0.1");
        assert_eq!(hops(cloudflare, PROXY, absent), peer, "{absent:?}");
    }
    let stranger = told("http://203.0.113.9 6000", "203.0.113.9", "for=203.0.113.9");
    assert_eq!(hops(cloudflare, STRANGER, &["CF-Connecting-IP: 192.0.2.1"]), stranger);
    // Either of the two, and not the other.
    assert_eq!(
        hops("forwarded", PROXY, &[]),
        told(
            "https://198.51.100.8 0",
            "198.51.100.8, 10.0.0.1",
            "for=198.51.100.8;proto=https, for=10.0.0.1"
        )
    );
    assert_eq!(
        hops("x-forwarded-for", PROXY, &[]),
        told("http://198.51.100.7 0", "198.51.100.7, 10.0.0.1", "for=198.51.100.7, for=10.0.0.1")
    );
}
