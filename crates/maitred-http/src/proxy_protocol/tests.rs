use proptest::prelude::*;

use super::*;
use crate::fuzzing;

fn client(bytes: &[u8]) -> Option<String> {
    let (header, used) = parse(bytes).unwrap().unwrap();
    assert_eq!(used, bytes.len());
    header.client.map(|address| address.to_string())
}

fn v2(command: u8, family: u8, payload: &[u8]) -> Vec<u8> {
    let mut bytes = V2_SIGNATURE.to_vec();
    bytes.extend([command, family]);
    bytes.extend((payload.len() as u16).to_be_bytes());
    bytes.extend(payload);
    bytes
}

const INET: [u8; 12] = [192, 0, 2, 1, 198, 51, 100, 1, 0xdc, 0x04, 0x01, 0xbb];

fn inet6(source: &str) -> Vec<u8> {
    let source: Ipv6Addr = source.parse().unwrap();
    let mut block = source.octets().to_vec();
    block.extend(Ipv6Addr::LOCALHOST.octets());
    block.extend([0xdc, 0x04, 0x01, 0xbb]);
    block
}

#[test]
fn version_1_gives_the_source() {
    assert_eq!(client(b"PROXY TCP4 192.0.2.1 198.51.100.1 56324 443\r\n").unwrap(), "192.0.2.1:56324");
    assert_eq!(client(b"PROXY TCP6 2001:db8::1 ::1 1 65535\r\n").unwrap(), "[2001:db8::1]:1");
    assert_eq!(client(b"PROXY TCP6 ::ffff:192.0.2.1 ::1 1 2\r\n").unwrap(), "192.0.2.1:1");
    assert_eq!(client(b"PROXY UNKNOWN\r\n"), None);
    assert_eq!(client(b"PROXY UNKNOWN whatever it says 1 2\r\n"), None);
    let longest = format!("PROXY TCP6 {0} {0} 65535 65535\r\n", "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff");
    assert!(longest.len() <= V1_BYTES_MAX && client(longest.as_bytes()).is_some());
}

#[test]
fn version_1_is_taken_by_the_letter() {
    for line in [
        "PROXY TCP4 192.0.2.1 198.51.100.1 56324 443\n",
        "PROXY  TCP4 192.0.2.1 198.51.100.1 56324 443\r\n",
        "PROXY TCP4 192.0.2.1 198.51.100.1 56324 443 \r\n",
        "PROXY TCP4 192.0.2.1 198.51.100.1 56324\r\n",
        "PROXY TCP4 192.0.2.1 198.51.100.1 56324 443 9\r\n",
        "PROXY TCP4 192.0.2.1 198.51.100.1 056324 443\r\n",
        "PROXY TCP4 192.0.2.1 198.51.100.1 +1 443\r\n",
        "PROXY TCP4 192.0.2.1 198.51.100.1 65536 443\r\n",
        "PROXY TCP4 192.0.2.1 198.51.100.1 1 \r\n",
        "PROXY TCP4 192.0.2.01 198.51.100.1 1 1\r\n",
        "PROXY TCP4 ::1 ::1 1 1\r\n",
        "PROXY TCP6 192.0.2.1 ::1 1 1\r\n",
        "PROXY TCP6 ::1 x 1 1\r\n",
        "PROXY UDP4 192.0.2.1 198.51.100.1 1 1\r\n",
        "PROXY UNKNOWNX\r\n",
        "PROXY \r\n",
    ] {
        assert!(parse(line.as_bytes()).is_err(), "{line:?}");
    }
    assert!(parse(b"PROXY UNKNOWN \xff\r\n").is_err());
    let long = format!("PROXY UNKNOWN {}\r\n", "x".repeat(V1_BYTES_MAX));
    assert_eq!(parse(long.as_bytes()), Err(Bad("a PROXY header of version 1 that is too long")));
}

#[test]
fn what_is_another_protocol_is_seen_at_its_first_bytes() {
    for start in ["G", "PO", "PROXYX", "PUT / HTTP/1.1\r\n", "\r\nG", "\x16\x03\x01"] {
        assert_eq!(parse(start.as_bytes()), Err(Bad("no PROXY header")), "{start:?}");
    }
}

#[test]
fn version_2_gives_the_source() {
    assert_eq!(client(&v2(0x21, 0x11, &INET)).unwrap(), "192.0.2.1:56324");
    assert_eq!(client(&v2(0x21, 0x21, &inet6("2001:db8::1"))).unwrap(), "[2001:db8::1]:56324");
    assert_eq!(client(&v2(0x21, 0x21, &inet6("::ffff:192.0.2.1"))).unwrap(), "192.0.2.1:56324");
    let mut with_tlvs = INET.to_vec();
    with_tlvs.extend([0x02, 0, 3, b'a', b'b', b'c', 0xff]);
    assert_eq!(client(&v2(0x21, 0x11, &with_tlvs)).unwrap(), "192.0.2.1:56324");
}

#[test]
fn version_2_without_an_address_leaves_the_peer() {
    assert_eq!(client(&v2(0x20, 0x00, b"")), None);
    // LOCAL ignores whatever is said of the family.
    assert_eq!(client(&v2(0x20, 0x11, &INET)), None);
    assert_eq!(client(&v2(0x20, 0xff, b"")), None);
    assert_eq!(client(&v2(0x21, 0x00, b"anything")), None);
    assert_eq!(client(&v2(0x21, 0x31, &[b'a'; 216])), None);
}

#[test]
fn version_2_is_bounded_and_known() {
    for (command, family, payload) in [
        (0x21, 0x11, &INET[..11]),
        (0x21, 0x21, &inet6("::1")[..35]),
        (0x21, 0x31, &[0; 215][..]),
        (0x21, 0x41, &INET[..]),
        (0x21, 0x13, &INET[..]),
        (0x22, 0x11, &INET[..]),
        (0x11, 0x11, &INET[..]),
    ] {
        assert!(parse(&v2(command, family, payload)).is_err(), "{command:x} {family:x}");
    }
    assert!(parse(&v2(0x21, 0x11, &[0; V2_PAYLOAD_BYTES_MAX])).unwrap().is_some());
    // Refused before so much of it has come.
    let long = v2(0x21, 0x11, &[0; V2_PAYLOAD_BYTES_MAX + 1]);
    assert!(parse(&long[..V2_FIXED_BYTES]).is_err());
}

fn written(version: Version, passed: Passed) -> Vec<u8> {
    let mut out = Vec::new();
    write(version, passed, &mut out);
    out
}

#[test]
fn headers_for_servers_are_those_of_the_document() {
    let passed = |source: &str, destination: &str| {
        Passed::Client(source.parse().unwrap(), destination.parse().unwrap())
    };
    let ours = passed("192.0.2.1:56324", "198.51.100.1:443");
    assert_eq!(written(Version::V1, ours), b"PROXY TCP4 192.0.2.1 198.51.100.1 56324 443\r\n");
    assert_eq!(written(Version::V2, ours), v2(0x21, 0x11, &INET));
    let mapped = passed("[::ffff:192.0.2.1]:56324", "198.51.100.1:443");
    assert_eq!(written(Version::V2, mapped), v2(0x21, 0x11, &INET), "one that a listener of both has seen");
    let six = passed("[2001:db8::1]:56324", "[::1]:443");
    assert_eq!(written(Version::V1, six), b"PROXY TCP6 2001:db8::1 ::1 56324 443\r\n");
    assert_eq!(written(Version::V2, six), v2(0x21, 0x21, &inet6("2001:db8::1")));
    let mixed = passed("192.0.2.1:1", "[::1]:2");
    assert_eq!(written(Version::V1, mixed), b"PROXY TCP6 ::ffff:192.0.2.1 ::1 1 2\r\n");
    for none in [Passed::Unknown, Passed::Local] {
        assert_eq!(written(Version::V1, none), b"PROXY UNKNOWN\r\n");
    }
    assert_eq!(written(Version::V2, Passed::Local), v2(0x20, 0, b""));
    assert_eq!(written(Version::V2, Passed::Unknown), v2(0x21, 0, b""));
}

fn any_address() -> impl Strategy<Value = SocketAddr> {
    let ip = prop_oneof![any::<Ipv4Addr>().prop_map(IpAddr::V4), any::<Ipv6Addr>().prop_map(IpAddr::V6)];
    (ip, any::<u16>()).prop_map(SocketAddr::from)
}

proptest! {
    #[test]
    fn what_is_written_is_read_back(source in any_address(), destination in any_address(), behind in any::<[u8; 3]>()) {
        for version in [Version::V1, Version::V2] {
            let mut bytes = written(version, Passed::Client(source, destination));
            let header = bytes.len();
            bytes.extend(behind);
            let client = Some(SocketAddr::new(source.ip().to_canonical(), source.port()));
            prop_assert_eq!(parse(&bytes), Ok(Some((Header { client }, header))));
            prop_assert!(header <= V1_BYTES_MAX);
        }
    }

    #[test]
    fn any_bytes_have_one_answer(bytes in proptest::collection::vec(any::<u8>(), 0..64)) {
        fuzzing::proxy_protocol(&bytes);
        fuzzing::proxy_protocol(&v2(0x21, 0x11, &bytes));
    }

    #[test]
    fn any_addresses_come_back(source: [u8; 4], port: u16, source6: [u8; 16], tail in "[ -~]{0,20}") {
        let (v4, v6) = (Ipv4Addr::from(source), Ipv6Addr::from(source6));
        for (text, address) in [
            (format!("PROXY TCP4 {v4} 192.0.2.1 {port} 80\r\n"), IpAddr::V4(v4)),
            (format!("PROXY TCP6 {v6} ::1 {port} 80\r\n"), v6.to_canonical()),
        ] {
            let expected = Header { client: Some((address, port).into()) };
            let bytes = format!("{text}{tail}");
            prop_assert_eq!(parse(bytes.as_bytes()), Ok(Some((expected, text.len()))));
            fuzzing::proxy_protocol(bytes.as_bytes());
        }
    }

    #[test]
    fn mutated_headers_have_one_answer(at in 0usize..60, byte: u8) {
        for mut header in [
            b"PROXY TCP4 192.0.2.1 198.51.100.1 56324 443\r\nGET / HTTP".to_vec(),
            v2(0x21, 0x21, &inet6("2001:db8::1")),
        ] {
            if let Some(place) = header.get_mut(at) {
                *place = byte;
            }
            fuzzing::proxy_protocol(&header);
        }
    }
}
