use std::collections::HashSet;
use std::net::{TcpListener, TcpStream};

use super::*;
use crate::testing::{shared, shared_with};

const POOLS: &str = "[pool.a]\ncommand = [\"a\"]\nworkers = 2\n[pool.b]\ncommand = [\"b\"]\nworkers = 3\n";

#[test]
fn a_thread_has_no_more_places_than_there_are_however_many_ask_at_a_time() {
    let shared = shared("[limits]\nconnections_per_thread_max = 100\n", 2);
    assert_eq!(shared.connections_max, 100);
    let claimed: usize = std::thread::scope(|scope| {
        let claims = || (0..60).filter(|_| shared.claim(1)).count();
        let threads: Vec<_> = (0..4).map(|_| scope.spawn(claims)).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).sum()
    });
    assert_eq!(claimed, 100);
    assert!(!shared.claim(1) && shared.claim(0), "each thread has its own");
    // What is there already is counted beyond the bound, and has to go before there is room again.
    shared.force_claim(1);
    shared.yield_place(1);
    assert!(!shared.claim(1));
    shared.yield_place(1);
    assert!(shared.claim(1));
}

/// Another thread that is full would close an idle connection otherwise, instead of leaving a new one to the thread with room.
#[test]
fn a_thread_that_tries_to_accept_keeps_its_last_place_but_is_not_full_for_others() {
    let shared = shared("[limits]\nconnections_per_thread_max = 2\n", 2);
    assert!(shared.claim(0) && shared.begin_accept(0));
    assert_eq!((shared.load(0), shared.has_room(0), shared.claim(0)), (2, true, false));
    // A connection was there, which is counted by itself, and now waits for its first response.
    shared.force_claim(0);
    assert_eq!((shared.load(0), shared.has_room(0)), (3, false));
    shared.end_accept(0);
    assert_eq!((shared.load(0), shared.has_room(0), shared.begin_accept(0)), (2, false, false));
    shared.force_accept(0);
    assert_eq!((shared.load(0), shared.has_room(0)), (3, false));
    shared.end_accept(0);
    shared.yield_place(0);
    assert_eq!((shared.load(0), shared.has_room(0)), (1, true));
}

#[test]
fn a_queue_has_one_bound_for_all_threads() {
    let shared = shared(POOLS, 2);
    assert_eq!(
        (0..4).map(|_| shared.join_queue(0, 3)).collect::<Vec<_>>(),
        [Some(0), Some(1), Some(2), None]
    );
    assert_eq!((shared.queued(0), shared.queued(1)), (3, 0));
    shared.quit_queue(0);
    assert_eq!(shared.join_queue(0, 3), Some(2));
    // A request that is counted once too often does not make the next ones wait for ever.
    (0..10).for_each(|_| shared.quit_queue(0));
    assert_eq!(shared.queued(0), 0);
    assert_eq!(shared.join_queue(usize::MAX, 3), None, "there is no such pool");
    assert_eq!(shared.join_queue(1, 0), None, "nothing waits where nothing may");
}

#[test]
fn descriptors_of_requests_have_a_bound() {
    let shared = shared_with(POOLS, 1, |shared| shared.descriptors = Budget::new(2));
    let (first, _second) = (shared.descriptor().unwrap(), shared.descriptor().unwrap());
    let error = shared.descriptor().unwrap_err();
    assert_eq!(error.raw_os_error(), Some(Errno::MFILE.raw_os_error()));
    drop(first);
    assert!(shared.descriptor().is_ok());
}

#[test]
fn slots_are_spread_over_the_threads_and_have_rows_of_their_own() {
    let id = |pool, slot| SlotId { pool, slot, epoch: 0 };
    for threads in 1..6 {
        let shared = shared(POOLS, threads);
        for pool in 0..3 {
            let homes: Vec<usize> = (0..12).map(|slot| shared.home_of(id(pool, slot))).collect();
            let of = |thread: usize| homes.iter().filter(|home| **home == thread).count();
            let counts: Vec<usize> = (0..threads).map(of).collect();
            assert_eq!(counts.iter().sum::<usize>(), 12, "all are threads that there are");
            assert!(counts.iter().max().unwrap() - counts.iter().min().unwrap() <= 1, "{counts:?}");
            let later = SlotId { epoch: 7, ..id(pool, 3) };
            assert_eq!(shared.home_of(later), homes[3], "the next process of a slot stays there");
        }
    }
    let shared = shared(POOLS, 2);
    let rows = [id(0, 0), id(0, 1), id(1, 0), id(1, 1), id(1, 2)].map(|id| shared.slot_row(id).unwrap());
    assert_eq!(rows.iter().collect::<HashSet<_>>().len(), rows.len());
    assert_eq!(shared.slot_row(id(0, u16::MAX)), None, "the file is not that long");
}

#[test]
fn the_listener_of_a_connection_is_found_by_its_own_address() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let _client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (accepted, _) = listener.accept().unwrap();
    let found = |connection: BorrowedFd<'_>, bound: &[Option<String>]| {
        let local = |address: &Option<String>| Local {
            address: address.as_ref().map(|address| address.parse().unwrap()),
            text: String::new(),
        };
        let shared = shared_with("", 1, |shared| shared.locals = bound.iter().map(local).collect());
        shared.listen_of(connection)
    };
    let at = |ip: &str| Some(format!("{ip}:{port}"));
    let other = Some(format!("127.0.0.1:{}", port ^ 1));
    for (bound, expected) in [
        (vec![at("127.0.0.1")], 0),
        (vec![other.clone(), None, at("127.0.0.1")], 2),
        (vec![at("0.0.0.0")], 0),
        // The two addresses are bound: the kernel gives the connection to the one that says the address.
        (vec![at("0.0.0.0"), at("127.0.0.1")], 1),
        (vec![at("127.0.0.2"), at("[::1]")], NO_LISTEN),
        (vec![at("[::]")], NO_LISTEN),
        (vec![other.clone(), None], NO_LISTEN),
        (vec![], NO_LISTEN),
    ] {
        assert_eq!(found(accepted.as_fd(), &bound), expected, "{bound:?}");
    }
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("x.sock");
    let listener = std::os::unix::net::UnixListener::bind(&path).unwrap();
    let _client = std::os::unix::net::UnixStream::connect(&path).unwrap();
    let (accepted, _) = listener.accept().unwrap();
    let bound = [other, Some(format!("unix:{}.", path.display())), Some(format!("unix:{}", path.display()))];
    assert_eq!((found(accepted.as_fd(), &bound), found(accepted.as_fd(), &bound[..2])), (2, NO_LISTEN));
    let (unix, _far_end) = std::os::unix::net::UnixStream::pair().unwrap();
    assert_eq!(shared("", 1).listen_of(unix.as_fd()), NO_LISTEN);
}

#[test]
fn what_threads_have_handed_off_is_summed_up() {
    let shared = shared(POOLS, 3);
    for (thread, requests, wait_us) in [(0, 5, 100), (1, 0, 0), (2, u64::MAX, 7)] {
        shared.pools[1].handed[thread].requests.set(requests);
        shared.pools[1].handed[thread].wait_us.set(wait_us);
    }
    let PoolSample { requests, wait_us } = shared.pools[1].sample();
    assert_eq!((requests, wait_us), (4, 107), "rates are differences, which survive that a counter wraps");
    assert_eq!(shared.pools[0].sample().requests, 0);
}

#[test]
fn names_of_pools_that_are_gone_are_no_names() {
    let shared = shared(POOLS, 1);
    assert_eq!([0, 1, 2, u16::MAX].map(|pool| shared.pool_name(pool)), ["a", "b", "?", "?"]);
}
