use std::collections::VecDeque;

use super::outgoing::Outgoing;
use super::retry::RetryState;
use super::tunnel::Tunnel;
use super::*;
use crate::keys::{ChannelKey, Key, RelayKey};
use crate::testing::filter;
use crate::upstream::By;
use crate::upstream::relay::Handed;
use crate::upstream::server::{Call, Dialect, Ending, Written};
use maitred_base::budget::Budget;
use maitred_files::Segment;

#[test]
fn an_address_is_shown_in_its_shortest_form() {
    let text = |address: &str| Remote::new(address.parse().ok()).text().to_owned();
    assert_eq!(text("192.0.2.1:80"), "192.0.2.1");
    assert_eq!(text("[::ffff:192.0.2.1]:80"), "192.0.2.1");
    assert_eq!(text("[2001:db8:1111:2222:3333:4444:5555:6666]:80"), "2001:db8:1111:2222:3333:4444:5555:6666");
    assert_eq!(text("nowhere"), "unix:");
    // Neither the longest addresses, nor those that some programs write with an IPv4 address at the end.
    let longest = "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff";
    assert_eq!(text(&format!("[{longest}]:80")), longest);
    for address in ["::192.0.2.1", "64:ff9b::192.0.2.1", "::ffff:0:255.255.255.255", "fe80::5efe:192.0.2.1"] {
        let shown = text(&format!("[{address}]:80"));
        assert_eq!(shown.parse::<std::net::Ipv6Addr>(), address.parse(), "{shown}");
    }
}

fn connection() -> Connection {
    Connection::new(Wire::Clear, Remote::new("192.0.2.1:1".parse().ok()), false, Instant::now())
}

/// An exchange that has something in every buffer.
fn full() -> Exchange {
    Exchange {
        input: vec![b'i'; 100],
        body: RequestBody { content: vec![b'b'; 200], ..RequestBody::default() },
        outgoing: Outgoing {
            bytes: vec![b'o'; 300],
            sent: 5,
            segments: VecDeque::from([Segment::Bytes(Box::from(*b"segment"))]),
            unsent: Budget::new(100).take(50),
            ..Outgoing::default()
        }
        .into(),
        after: Some(After::Linger),
        dispatch: Dispatch { pool: Some(1), retry: RetryState::Once, overdue: true, ..Dispatch::default() },
        ..Exchange::default()
    }
}

#[test]
fn an_exchange_that_is_used_again_has_the_memory_of_the_last_request_and_nothing_else() {
    let budget = Budget::new(100);
    let mut exchange = full();
    exchange.outgoing.unsent = budget.take(50);
    let (capacity, place) = (exchange.capacity(), exchange.outgoing.bytes.as_ptr());
    exchange.reset();
    assert!(exchange.is_empty() && exchange.body.content.is_empty());
    assert_eq!((exchange.capacity(), exchange.outgoing.bytes.as_ptr()), (capacity, place));
    assert_eq!(budget.used(), 0, "what it held is given back");
    // Everything but the room is as in a new one, whatever fields are added.
    let empty = |exchange: &Exchange| format!("{exchange:?}");
    assert_eq!(empty(&exchange), empty(&Exchange::default()));
}

#[test]
fn a_connection_is_idle_only_if_nothing_of_a_request_is_there() {
    let mut connection = connection();
    assert!(connection.is_idle());
    connection.exchange().body.content = Vec::with_capacity(100);
    assert!(connection.is_idle(), "room is no request");
    connection.exchange().input.push(b'G');
    assert!(!connection.is_idle());
    connection.exchange().input.clear();
    connection.state = State::Head;
    assert!(!connection.is_idle());
}

#[test]
fn an_exchange_is_empty_only_without_anything_to_read_or_to_send() {
    let changes: [fn(&mut Exchange); 3] = [
        |exchange| exchange.input.push(1),
        |exchange| exchange.outgoing.bytes.push(1),
        |exchange| exchange.outgoing.segments.push_back(Segment::Bytes(Box::default())),
    ];
    for change in changes {
        let mut exchange = Exchange::default();
        assert!(exchange.is_empty());
        change(&mut exchange);
        assert!(!exchange.is_empty());
    }
}

fn sending(outgoing: Outgoing) -> Exchange {
    Exchange { outgoing: outgoing.into(), ..Exchange::default() }
}

#[test]
fn memory_that_a_client_has_yet_to_take_is_counted_where_it_is() {
    let with = |exchange: Exchange| Connection { exchange: Some(Box::new(exchange)), ..connection() };
    let empty = with(Exchange::default());
    assert!(!empty.holds_something());
    let counted = |connection: &Connection| connection.unsent_bytes() - empty.unsent_bytes();
    // A buffer counts with its room, sent or not.
    let sent = with(sending(Outgoing { bytes: Vec::with_capacity(1000), ..Outgoing::default() }));
    assert_eq!((counted(&sent) >= 1000, sent.holds_something()), (true, false));
    let bytes = Segment::Bytes(vec![0; 5000].into());
    let segment = size_of::<Segment>();
    let queued = with(sending(Outgoing { segments: VecDeque::from([bytes]), ..Outgoing::default() }));
    assert_eq!((counted(&queued), queued.holds_something()), (5000 + segment, true));
    let mut returned = Exchange::default();
    returned.outgoing.returned().push(Segment::Bytes(vec![0; 7].into())).unwrap();
    let returned = with(returned);
    assert_eq!((counted(&returned), returned.holds_something()), (7 + segment, true));
    let tunnel = |sent| Tunnel { out: vec![0; 64], sent, ..Tunnel::default() };
    for (sent, expected) in [(0, 64), (63, 64), (64, 0)] {
        let by = By::Process(Handed::new(RelayKey::of(0), (ChannelKey::of(0), 1), true));
        let mut attempt = Attempt::new(filter(), true, None, by, Instant::now());
        attempt.tunnel = Some(Box::new(tunnel(sent)));
        let found = Connection { state: State::Upstream(Box::new(attempt)), ..with(Exchange::default()) };
        assert_eq!((counted(&found), found.holds_something()), (expected, expected > 0), "{sent} sent");
    }
    let dialect = Dialect::Http1(Ending::default());
    let call =
        Call::new(0, Written { out: vec![0; 32], start: 0, dialect, host: None, handshake: None }, false);
    let attempt = Attempt::new(filter(), true, None, By::Server(call), Instant::now());
    let asking = Connection { state: State::Upstream(Box::new(attempt)), ..with(Exchange::default()) };
    assert_eq!((counted(&asking), asking.holds_something()), (32, true));
    assert_eq!(full().counted(), 50);
}

/// A request in the queue of a pool may take its head and 600 bytes besides the idle connection: this much of it is the exchange,
/// the rest is for the table of its fields and what the allocator adds.
#[test]
fn an_exchange_is_small() {
    assert!(size_of::<Exchange>() <= 496, "{} bytes", size_of::<Exchange>());
}
