use std::collections::BTreeSet;
use std::net::SocketAddr;

use super::*;
use crate::testing::{config, shared, sockets};
use rustix::net::SocketType;

fn bucket(listen: usize, number: u16, of: u16) -> Bucket {
    let (socket, _) = sockets(SocketType::STREAM);
    Bucket { socket, listen, number, of, local: SocketAddr::from(([127, 0, 0, 1], 8000 + number)).into() }
}

/// Which buckets of one listen entry each thread accepts from, and with whom it shares the first of them.
fn plans(threads: usize, buckets: u16, admin: bool) -> Vec<Vec<(u16, Vec<u16>)>> {
    let shared = shared("", threads);
    // Numbered as if each were an entry of its own, so that they can be told apart.
    let all = (0..buckets).map(|number| bucket(usize::from(number), number, buckets)).collect();
    let admin = admin.then(|| sockets(SocketType::STREAM).0);
    let mut plans = listener_plans(shared, all, admin).unwrap();
    let of = |listeners: Vec<Listener>| {
        listeners.into_iter().map(|listener| (listener.listen, listener.peers)).collect()
    };
    (0..threads).map(|thread| plans.remove(&thread).map(of).unwrap_or_default()).collect()
}

#[test]
fn every_bucket_is_accepted_from_and_every_thread_accepts() {
    for threads in 1..7 {
        for buckets in 1..7 {
            let plans = plans(threads, buckets, false);
            let served: BTreeSet<u16> = plans.iter().flatten().map(|(bucket, _)| *bucket).collect();
            assert_eq!(served.len(), usize::from(buckets), "{threads} threads, {buckets} buckets");
            assert!(plans.iter().all(|plan| !plan.is_empty()) || usize::from(buckets) < threads);
            assert!(usize::from(buckets) > threads || plans.iter().all(|plan| plan.len() == 1));
        }
    }
}

#[test]
fn threads_of_one_bucket_know_one_another() {
    for (threads, buckets) in [(1, 1), (3, 1), (4, 2), (5, 2), (6, 3), (2, 5)] {
        let plans = plans(threads, buckets, false);
        for (thread, plan) in plans.iter().enumerate() {
            for (bucket, peers) in plan {
                let serves = |other: &usize| plans[*other].iter().any(|(served, _)| served == bucket);
                let others: Vec<u16> = (0..threads)
                    .filter(|other| *other != thread && serves(other))
                    .map(|other| other as u16)
                    .collect();
                assert_eq!(*peers, others, "bucket {bucket} of {buckets}, thread {thread} of {threads}");
            }
        }
    }
}

#[test]
fn one_thread_has_the_admin_address() {
    let plans = plans(3, 3, true);
    assert_eq!(plans[0], [(0, vec![]), (NO_LISTEN, vec![])]);
    assert!(plans[1..].iter().flatten().all(|(listen, _)| *listen != NO_LISTEN));
}

#[test]
fn a_listener_is_shown_where_it_is_really_bound() {
    let text = "[[listen]]\naddress = \"127.0.0.1:0\"\n[[listen]]\naddress = \"127.0.0.1:81\"\n";
    let start = Start { config: config(text), ..shared("", 1).start.clone() };
    let locals = locals(&start, &[bucket(0, 1, 2), bucket(0, 0, 2)]);
    let texts: Vec<&str> = locals.iter().map(|local| local.text.as_str()).collect();
    assert_eq!(texts, ["127.0.0.1:8001", ""], "the socket of the other one has not come along");
}

#[test]
fn processes_are_known_one_by_one_only_where_clients_stick_to_them() {
    let slots = |sticky: &str| {
        let pools = config(&format!("[pool.p]\ncommand = [\"a\"]\nworkers = 3\n{sticky}")).pools;
        sticky_slots(&pools[0])
    };
    // One more than there are workers, for the process that replaces another.
    assert_eq!((slots(""), slots("sticky = \"cookie\"\n"), slots("sticky = \"address\"\n")), (0, 4, 4));
}
