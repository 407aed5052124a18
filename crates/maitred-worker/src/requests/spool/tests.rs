use std::io::{Read as _, Seek as _};

use maitred_http::body::Decoder;
use maitred_http::request::Framing;

use super::*;
use crate::connection::incoming::{Coming, Incoming};
use crate::keys::ConnKey;
use crate::reactor::Reactor;
use crate::testing::{client, reactor, shared_with};
use maitred_base::budget::Budget;

/// A thread whose bodies have so much room: in memory, on the disk, and in descriptors. One body may have 100 bytes in memory.
fn thread(memory: u64, disk: u64, descriptors: u64) -> (Reactor, ConnKey) {
    let directory = std::env::temp_dir();
    let text = format!(
        "[server]\nspool = {directory:?}\n[limits]\nbody_inline_bytes_max = 10\nbody_memory_bytes_max = 100\n"
    );
    let shared = shared_with(&text, 1, |shared| {
        shared.bodies_in_memory = Budget::new(memory);
        shared.bodies_on_disk = Budget::new(disk);
        shared.descriptors = Budget::new(descriptors);
    });
    let mut thread = reactor(shared, 0);
    let (index, _) = client(&mut thread, "192.0.2.1:1");
    (thread, index)
}

/// Where a body of which this piece has come is kept; behind `before` bytes that are kept already.
fn place(thread: &mut Reactor, index: ConnKey, piece: u64, before: u64, expected: u64) -> &'static str {
    let exchange = thread.exchange(index);
    exchange.body.content = vec![b'x'; piece as usize];
    let framing = Framing::Length(expected);
    exchange.body.incoming = Incoming::Kept(Coming::new(Decoder::new(framing, u64::MAX), framing));
    match thread.make_room(index, before + piece) {
        Ok(()) if thread.exchange(index).body.spool.as_ref().unwrap().on_disk => "disk",
        Ok(()) => "memory",
        Err(Unkept::NoRoom(bound)) => bound,
        Err(Unkept::Failed(error)) => panic!("{error}"),
    }
}

#[test]
fn a_body_is_kept_in_memory_if_it_and_the_others_fit_there() {
    let (memory, disk) = ("memory", "disk");
    let (full, no_descriptor) = ("bodies_disk_bytes_max", "RLIMIT_NOFILE");
    for (budgets, piece, expected, found) in [
        ((1000, 1000, 9), 50, 0, memory),
        ((1000, 1000, 9), 100, 100, memory),
        ((1000, 1000, 9), 101, 0, disk),
        // The client has said how long the body will be.
        ((1000, 1000, 9), 50, 101, disk),
        ((49, 1000, 9), 50, 0, disk),
        ((50, 0, 9), 50, 0, memory),
        ((49, 49, 9), 50, 0, full),
        ((49, 50, 9), 50, 0, disk),
        // What will not fit to its end is refused at its beginning.
        ((49, 99, 9), 50, 100, full),
        ((1000, 1000, 0), 50, 0, no_descriptor),
        ((0, 1000, 0), 50, 0, no_descriptor),
    ] {
        let (memory, disk, descriptors) = budgets;
        let (mut thread, index) = thread(memory, disk, descriptors);
        assert_eq!(place(&mut thread, index, piece, 0, expected), found, "{budgets:?} {piece} {expected}");
        let used = |budget: &std::sync::Arc<Budget>| budget.used();
        let shared = thread.shared;
        let kept = (used(&shared.bodies_in_memory), used(&shared.bodies_on_disk));
        let taken = match found {
            "memory" => (piece, 0),
            "disk" => (0, piece),
            _ => (0, 0),
        };
        assert_eq!(kept, taken, "{budgets:?}");
        thread.close(index);
        let left = used(&shared.bodies_in_memory) + used(&shared.bodies_on_disk) + used(&shared.descriptors);
        assert_eq!(left, 0, "nothing is left of it");
    }
}

#[test]
fn a_body_that_outgrows_memory_goes_to_the_disk_whole() {
    let (mut thread, index) = thread(1000, 1000, 2);
    assert_eq!(place(&mut thread, index, 60, 0, 0), "memory");
    assert!(thread.append(index).is_ok_and(|written| written));
    assert_eq!(place(&mut thread, index, 40, 60, 0), "memory");
    assert!(thread.append(index).is_ok_and(|written| written));
    assert_eq!(place(&mut thread, index, 1, 100, 0), "disk");
    let shared = thread.shared;
    assert_eq!((shared.bodies_in_memory.used(), shared.bodies_on_disk.used()), (0, 101));
    assert_eq!(shared.descriptors.used(), 1, "that of the memory file has gone");
    let exchange = thread.exchange(index);
    assert_eq!(exchange.body.content.len(), 101, "what was in memory is written with the next piece");
    assert_eq!(exchange.body.spool.as_ref().unwrap().bytes, 0);
    exchange.body.spool.as_mut().unwrap().bytes = 101;
    assert_eq!(place(&mut thread, index, 899, 101, 0), "disk");
    assert_eq!(place(&mut thread, index, 1, 1000, 0), "bodies_disk_bytes_max");
    thread.close(index);
}

#[test]
fn what_is_written_to_a_memory_file_is_the_body() {
    let (mut thread, index) = thread(1000, 0, 1);
    let mut written = Vec::new();
    for (at, size) in [(0, 11), (11, 1), (12, 80)] {
        let piece: Vec<u8> = (at..at + size).map(|at| at as u8).collect();
        written.extend_from_slice(&piece);
        thread.exchange(index).body.content = piece;
        assert_eq!(thread.spool_body(index), None);
    }
    let mut spool = thread.exchange(index).body.spool.take().unwrap();
    let mut read = Vec::new();
    spool.file.rewind().unwrap();
    spool.file.read_to_end(&mut read).unwrap();
    assert_eq!((spool.bytes, read), (92, written));
    thread.close(index);
}

#[test]
fn a_short_body_needs_no_file() {
    let (mut thread, index) = thread(0, 0, 0);
    for (piece, spooled) in [(0, false), (1, false), (10, false)] {
        thread.exchange(index).body.content = vec![b'x'; piece];
        assert_eq!(thread.spool_body(index), None);
        assert_eq!(thread.exchange(index).body.spool.is_some(), spooled);
        assert_eq!(thread.exchange(index).body.content.len(), piece, "it is still there");
    }
    thread.close(index);
}
