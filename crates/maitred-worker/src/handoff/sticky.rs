//! `sticky`: which process a client's requests go to, for applications that keep state in memory.
//!
//! Pure: names of clients and weights of slots go in, a slot comes out. A cookie names the slot that has answered its client
//! first, so that no client moves when a pool grows. Where that slot has no process, or no cookie is there to name one, it is
//! weighted rendezvous (highest random weight) that decides: each client ranks all slots by a number of its own, and takes the
//! first one that lives. So when a process goes, its clients are spread over the others, and no other client moves; when one
//! comes, it takes its share of each.

use std::net::IpAddr;

use maitred_http::request::Request;
use maitred_http::uri;

/// Of an IPv6 address this belongs to one client: a network gives each of its hosts 64 bits to choose from.
const IPV6_NETWORK: u128 = !0 << 64;

/// What a sticky cookie holds: `SLOT.CLIENT`, the slot in decimal, the client in 16 hexadecimal digits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ticket {
    /// The slot whose process has answered last.
    pub slot: u16,
    /// A number that tells clients apart.
    pub client: u64,
}

impl Ticket {
    /// What a request's cookies say. A value that this server has not made is no ticket: it is another application's, or was
    /// forged, and the client is treated as a new one.
    pub fn of(request: &Request<'_, '_>, name: &str) -> Option<Ticket> {
        let cookies = request.fields.iter().filter(|field| field.name.eq_ignore_ascii_case("cookie"));
        let mut pairs = cookies.flat_map(|field| field.value.split(|byte| *byte == b';'));
        pairs.find_map(|pair| {
            let (key, value) = std::str::from_utf8(pair).ok()?.trim().split_once('=')?;
            if key == name { Ticket::parse(value) } else { None }
        })
    }

    fn parse(text: &str) -> Option<Ticket> {
        let (slot, client) = text.split_once('.')?;
        let digits =
            |text: &str, bytes| text.len() <= bytes && text.bytes().all(|byte| byte.is_ascii_hexdigit());
        if !digits(slot, 5) || !digits(client, 16) {
            return None;
        }
        Some(Ticket { slot: slot.parse().ok()?, client: u64::from_str_radix(client, 16).ok()? })
    }

    /// The value of `Set-Cookie` that gives it to a client. Scripts have no use for it; over TLS it stays there.
    pub fn cookie(self, name: &str, mount: &str, secure: bool) -> String {
        // The mount is decoded; clients compare the path with targets as they stand, and `;` would end it.
        let mut path = Vec::new();
        uri::encode_path(if mount.is_empty() { b"/" } else { mount.as_bytes() }, &mut path);
        let path = String::from_utf8_lossy(&path);
        let secure = if secure { "; Secure" } else { "" };
        format!("{name}={}.{:016x}; Path={path}; HttpOnly{secure}", self.slot, self.client)
    }
}

/// The number that tells the client of an address from others.
pub fn client_of(address: IpAddr) -> u64 {
    match address.to_canonical() {
        IpAddr::V4(address) => mix(u64::from(address.to_bits())),
        IpAddr::V6(address) => {
            let network = address.to_bits() & IPV6_NETWORK;
            mix((network >> 64) as u64 ^ 0x7636)
        }
    }
}

/// The slot of a client among those that live, given with their weights; one without weight is not there. `None` if none is.
pub fn rendezvous(client: u64, slots: impl Iterator<Item = (u16, u32)>) -> Option<u16> {
    let scored =
        slots.filter(|(_, weight)| *weight > 0).map(|(slot, weight)| (score(client, slot, weight), slot));
    scored.max_by(|one, other| one.0.total_cmp(&other.0)).map(|(_, slot)| slot)
}

/// `-weight / ln(u)` for `u` evenly spread between 0 and 1: of several slots each is the greatest with the probability of its
/// share of all weights.
fn score(client: u64, slot: u16, weight: u32) -> f64 {
    let hash = mix(client ^ mix(u64::from(slot) + 1));
    // 52 bits of it, and never 0 or 1, whose logarithms are of no use here.
    let even = ((hash >> 12) as f64 + 0.5) / (1u64 << 52) as f64;
    -f64::from(weight) / even.ln()
}

/// Spreads numbers evenly over 64 bits; the same on every machine and in every version, so that an upgrade moves no client.
/// Constants of SplitMix64 (Steele, Lea, Flood 2014).
fn mix(number: u64) -> u64 {
    let number = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let number = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let number = (number ^ (number >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ (number >> 31)
}

#[cfg(test)]
mod tests {
    use maitred_http::request::HeadLimits;

    use super::*;

    fn ticket(cookies: &[&str]) -> Option<Ticket> {
        let mut head = "GET / HTTP/1.1\r\nHost: a\r\n".to_owned();
        cookies.iter().for_each(|cookie| head.push_str(&format!("Cookie: {cookie}\r\n")));
        head.push_str("\r\n");
        let mut room = maitred_http::request::field_room();
        let limits = HeadLimits {
            head_bytes_max: 4096,
            header_count_max: 16,
            target_bytes_max: 64,
            body_bytes_max: 0,
        };
        let (request, _) =
            maitred_http::request::parse(head.as_bytes(), &mut room, &limits).unwrap().unwrap();
        Ticket::of(&request, "m")
    }

    #[test]
    fn a_cookie_is_read_as_it_was_written() {
        for (slot, client) in [(0, 0), (7, 0xabc), (u16::MAX, u64::MAX)] {
            let given = Ticket { slot, client };
            let cookie = given.cookie("m", "", false);
            let pair = cookie.split(';').next().unwrap();
            assert_eq!(ticket(&[pair]), Some(given));
            assert_eq!(ticket(&["other=1.2", &format!("a=b; {pair} ;c=d")]), Some(given), "among others");
        }
        let cookie = Ticket { slot: 1, client: 2 }.cookie("m", "/app", true);
        assert_eq!(cookie, "m=1.0000000000000002; Path=/app; HttpOnly; Secure");
        let cookie = Ticket { slot: 1, client: 2 }.cookie("m", "/a;b\n\u{e9}", false);
        assert_eq!(cookie, "m=1.0000000000000002; Path=/a%3Bb%0A%C3%A9; HttpOnly");
    }

    #[test]
    fn what_is_not_of_our_making_is_no_cookie() {
        for value in [
            "",
            "1",
            ".",
            "1.",
            ".1",
            "x.1",
            "70000.1",
            "1.x",
            "+1.1",
            "1.+1",
            "1.11111111111111111",
            "\u{e9}.1",
        ] {
            let found = ticket(&[&format!("m={value}")]);
            assert!(found.is_none(), "{value}: {found:?}");
        }
        assert_eq!(ticket(&["M=1.1", "mm=1.1", "m"]), None);
    }

    fn all(count: u16) -> impl Iterator<Item = (u16, u32)> {
        (0..count).map(|slot| (slot, 1))
    }

    #[test]
    fn only_the_clients_of_the_process_that_went_move() {
        let mut moved_to = [0; 5];
        for client in 0..10_000 {
            let client = mix(client);
            let before = rendezvous(client, all(5)).unwrap();
            let after = rendezvous(client, all(5).filter(|(slot, _)| *slot != 2)).unwrap();
            match before {
                2 => moved_to[usize::from(after)] += 1,
                _ => assert_eq!(before, after),
            }
        }
        // About 500 each.
        assert_eq!(moved_to[2], 0);
        let fair = |count: &i32| (350..650).contains(count);
        assert!(moved_to.iter().filter(|count| **count > 0).all(fair), "{moved_to:?}");
    }

    #[test]
    fn each_has_the_share_of_its_weight() {
        let mut clients = [0; 3];
        for client in 0..12_000 {
            let slots = [(0, 1), (1, 3), (2, 0)].into_iter();
            clients[usize::from(rendezvous(client, slots).unwrap())] += 1;
        }
        assert!((2600..3400).contains(&clients[0]) && clients[2] == 0, "{clients:?}");
        assert_eq!(rendezvous(1, [(0, 0)].into_iter()), None);
        assert_eq!(rendezvous(1, all(0)), None);
    }

    #[test]
    fn a_network_of_ipv6_is_one_client() {
        let client = |text: &str| client_of(text.parse().unwrap());
        assert_eq!(client("2001:db8::1"), client("2001:db8::ffff:2"));
        assert_ne!(client("2001:db8::1"), client("2001:db8:0:1::1"));
        assert_ne!(client("192.0.2.1"), client("192.0.2.2"));
        assert_eq!(client("192.0.2.1"), client("::ffff:192.0.2.1"));
    }
}
