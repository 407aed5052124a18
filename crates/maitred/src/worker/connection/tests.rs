use super::*;
use crate::budget::Budget;
use crate::worker::testing::filter;
use crate::worker::upstream::By;
use crate::worker::upstream::server::{Call, Dialect};

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
        body: vec![b'b'; 200],
        outgoing: Outgoing {
            bytes: vec![b'o'; 300],
            sent: 5,
            segments: VecDeque::from([Segment::Bytes(Box::from(*b"segment"))]),
            ..Outgoing::default()
        },
        after: Some(After::Linger),
        pool: Some(1),
        pin: Some(2),
        retry: RetryState::Once,
        overdue: true,
        unsent: Budget::new(100).take(50),
        ..Exchange::default()
    }
}

#[test]
fn an_exchange_that_is_used_again_has_the_memory_of_the_last_request_and_nothing_else() {
    let budget = Budget::new(100);
    let mut exchange = Exchange { unsent: budget.take(50), ..full() };
    let (capacity, place) = (exchange.capacity(), exchange.outgoing.bytes.as_ptr());
    exchange.reset();
    assert!(exchange.is_empty() && exchange.body.is_empty());
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
    connection.exchange().body = Vec::with_capacity(100);
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
    Exchange { outgoing, ..Exchange::default() }
}

#[test]
fn memory_that_a_client_has_yet_to_take_is_counted_where_it_is() {
    let own = Exchange::default().unsent_bytes();
    let counted = |exchange: &Exchange| exchange.unsent_bytes() - own;
    assert!(!Exchange::default().holds_something());
    // A buffer counts with its room, sent or not.
    let sent = sending(Outgoing { bytes: Vec::with_capacity(1000), ..Outgoing::default() });
    assert_eq!((counted(&sent) >= 1000, sent.holds_something()), (true, false));
    let bytes = Segment::Bytes(vec![0; 5000].into());
    let segment = size_of::<Segment>();
    let queued = sending(Outgoing { segments: VecDeque::from([bytes]), ..Outgoing::default() });
    assert_eq!((counted(&queued), queued.holds_something()), (5000 + segment, true));
    let tail = VecDeque::from([Segment::Bytes(vec![0; 7].into())]);
    let returned = Exchange { tail, tail_bytes: 7, ..Exchange::default() };
    assert_eq!((counted(&returned), returned.holds_something()), (7 + segment, true));
    let tunnel = |sent| Tunnel { out: vec![0; 64], sent, ..Tunnel::default() };
    for (sent, expected) in [(0, 64), (63, 64), (64, 0)] {
        let exchange = Exchange { tunnel: Some(Box::new(tunnel(sent))), ..Exchange::default() };
        assert_eq!((counted(&exchange), exchange.holds_something()), (expected, expected > 0), "{sent} sent");
    }
    let call = Call::new(0, Dialect::Http1, (vec![0; 32], 0), false);
    let attempt = Attempt::new(filter(), true, None, By::Server(call), Instant::now());
    let asking = Exchange { attempt: Some(Box::new(attempt)), ..Exchange::default() };
    assert_eq!((counted(&asking), asking.holds_something()), (32, true));
    assert_eq!(asking.answered_so_far(), Some((false, 0)));
    assert_eq!((Exchange::default().answered_so_far(), full().counted()), (None, 50));
}
