use super::*;
use crate::reactor::Reactor;
use crate::shared::Shared;
use crate::testing::{client, reactor, shared, with_request};

const SLOTS: u16 = 6;

/// A thread with a pool whose clients stick by cookie (0), and one by address (1); all processes live.
fn thread() -> (&'static Shared, Reactor) {
    let pool = |name: &str, sticky: &str| {
        format!("[pool.{name}]\ncommand = [\"a\"]\nworkers = {SLOTS}\nsticky = {sticky}\n")
    };
    let text =
        pool("a", "{ cookie = \"sid\" }") + &pool("b", "\"address\"") + "[pool.c]\ncommand = [\"a\"]\n";
    let shared = shared(&text, 2);
    shared.pools.iter().flat_map(|pool| &pool.slots).for_each(|slot| slot.store(1, Relaxed));
    (shared, reactor(shared, 0))
}

/// The slot that a request with this cookie is led to.
fn by_cookie(thread: &mut Reactor, cookie: &str) -> Option<u16> {
    let (index, _) = client(thread, "192.0.2.1:1");
    let pinned = with_request("GET / HTTP/1.1", &[&format!("Cookie: {cookie}")], |request| {
        thread.pinned(index, 0, request)
    });
    thread.close(index);
    pinned.map(|(slot, _)| slot)
}

fn by_address(thread: &mut Reactor, address: &str) -> Option<(u16, usize)> {
    let (index, _) = client(thread, address);
    let pinned = with_request("GET / HTTP/1.1", &[], |request| thread.pinned(index, 1, request));
    thread.close(index);
    pinned
}

#[test]
fn a_cookie_leads_to_its_slot_as_long_as_that_lives() {
    let (shared, mut thread) = thread();
    for slot in 0..SLOTS {
        assert_eq!(by_cookie(&mut thread, &format!("a=b; sid={slot}.00000000000000ff")), Some(slot));
    }
    shared.pools[0].slots[3].store(0, Relaxed);
    let instead = by_cookie(&mut thread, "sid=3.00000000000000ff").unwrap();
    assert_ne!(instead, 3);
    assert_eq!(by_cookie(&mut thread, "sid=3.00000000000000ff"), Some(instead), "and to no third one then");
    assert_eq!(by_cookie(&mut thread, "sid=65000.00000000000000ff"), Some(instead), "a pool that has shrunk");
    shared.pools[0].slots.iter().for_each(|slot| slot.store(0, Relaxed));
    assert_eq!(by_cookie(&mut thread, "sid=3.00000000000000ff"), None, "it waits for any");
}

#[test]
fn what_is_no_ticket_leads_nowhere() {
    let (_, mut thread) = thread();
    for cookie in
        ["other=1.ff", "sid=", "sid=1", "sid=x.ff", "sid=70000.ff", "sid=1.", "SID=1.ff", "sid=-1.ff"]
    {
        assert_eq!(by_cookie(&mut thread, cookie), None, "{cookie}");
    }
}

#[test]
fn when_a_process_goes_only_its_own_clients_move() {
    let (shared, mut thread) = thread();
    let clients: Vec<String> = (0..120).map(|host| format!("192.0.2.{host}:{}", 1000 + host)).collect();
    let led = |thread: &mut Reactor| -> Vec<u16> {
        clients.iter().map(|client| by_address(thread, client).unwrap().0).collect()
    };
    let before = led(&mut thread);
    for slot in 0..SLOTS {
        assert!(before.contains(&slot), "all of them have some: {before:?}");
        shared.pools[1].slots[usize::from(slot)].store(0, Relaxed);
        for (was, is) in before.iter().zip(led(&mut thread)) {
            assert!(if *was == slot { is != slot } else { is == *was }, "slot {slot}: {was} becomes {is}");
        }
        shared.pools[1].slots[usize::from(slot)].store(1, Relaxed);
        assert_eq!(led(&mut thread), before, "and they come back");
    }
}

#[test]
fn a_client_goes_to_the_thread_that_has_its_process() {
    let (shared, mut thread) = thread();
    for host in 0..20 {
        let (slot, home) = by_address(&mut thread, &format!("198.51.100.{host}:1")).unwrap();
        assert_eq!(home, shared.home_of(SlotId { pool: 1, slot, epoch: 0 }));
        let other_port = by_address(&mut thread, &format!("198.51.100.{host}:2")).unwrap();
        assert_eq!(other_port.0, slot, "another connection of the same client");
    }
    assert_eq!(by_address(&mut thread, "nowhere"), None, "a Unix socket has no address");
    let (index, _far_end) = client(&mut thread, "192.0.2.1:1");
    let unbound =
        with_request("GET / HTTP/1.1", &["Cookie: sid=1.ff"], |request| thread.pinned(index, 2, request));
    assert_eq!(unbound, None, "a pool without `sticky`");
    thread.close(index);
}
