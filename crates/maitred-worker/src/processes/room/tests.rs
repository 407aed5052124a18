use super::*;
use crate::keys::ConnKey;
use crate::testing::{client, reactor, shared};
use crate::{reactor::Reactor, shared::Shared};

/// Thread 1 of three, of a pool with so many processes.
fn thread(workers: u16) -> (&'static Shared, Reactor) {
    let shared = shared(&format!("[pool.p]\ncommand = [\"a\"]\nworkers = {workers}\n"), 3);
    (shared, reactor(shared, 1))
}

#[test]
fn a_request_goes_where_there_is_most_room_and_takes_it() {
    let (shared, thread) = thread(3);
    let room = &shared.pools[0].room;
    [2, 9, 3].into_iter().zip(room).for_each(|(free, room)| room.store(free, Relaxed));
    let chosen: Vec<Option<usize>> = (0..6).map(|_| thread.roomy_thread(0)).collect();
    let expected = [Some(2), Some(2), Some(0), Some(2), Some(0), None];
    assert_eq!(chosen, expected, "its own room does not count, nor does what it has given away");
    assert_eq!([0, 1, 2].map(|thread| room[thread].load(Relaxed)), [0, 9, 0]);
}

#[test]
fn without_room_anywhere_a_request_waits_where_processes_are() {
    let (shared, thread) = thread(3);
    let live = &shared.pools[0].live;
    assert_eq!(thread.better_home(0), None, "it will have a process itself");
    live[2].store(1, Relaxed);
    assert_eq!(thread.better_home(0), Some(2));
    live[1].store(1, Relaxed);
    assert_eq!(thread.better_home(0), None);
    shared.pools[0].room[0].store(1, Relaxed);
    assert_eq!(thread.better_home(0), Some(0), "room is better than a process of its own");
    // A worker, and the one that replaces it: the slots of threads 0 and 1.
    let last = reactor(super::tests::thread(1).0, 2);
    assert_eq!(last.better_home(0), Some(0), "no process will ever be here");
}

#[test]
fn waiting_is_in_vain_only_if_nothing_lives_and_nothing_can_be_started() {
    let (shared, thread) = thread(1);
    for (live, trouble, unavailable) in [
        (0, None, false),
        (0, Some("no such file"), true),
        (1, Some("no such file"), false),
        (1, None, false),
    ] {
        shared.pools[0].live[2].store(live, Relaxed);
        shared.set_trouble(0, trouble.map(str::to_owned));
        assert_eq!(thread.is_unavailable(0), unavailable, "{live} processes, {trouble:?}");
    }
}

#[test]
fn a_request_that_leaves_a_queue_is_counted_out_once_and_from_its_place() {
    let (shared, mut thread) = thread(1);
    let indices: Vec<ConnKey> = (0..3)
        .map(|pin| {
            let (index, _) = client(&mut thread, "192.0.2.1:1");
            shared.join_queue(0, 10).unwrap();
            thread.enter(index, State::Queued { pool: 0, pin: (pin == 1).then_some(7) });
            thread.note_waiting(index);
            let local = &mut thread.pools.pools[0];
            local.queue.push_back(index);
            local.pinned += usize::from(pin == 1);
            index
        })
        .collect();
    thread.leave_queue(indices[1]);
    thread.leave_queue(indices[1]);
    let local = &thread.pools.pools[0];
    assert_eq!(
        (Vec::from_iter(local.queue.iter().copied()), local.pinned),
        (vec![indices[0], indices[2]], 0)
    );
    assert_eq!((shared.queued(0), shared.pools[0].waiting[1].load(Relaxed)), (2, 2));
    thread.leave_queue(indices[0]);
    thread.leave_queue(indices[2]);
    assert_eq!((shared.queued(0), shared.pools[0].waiting[1].load(Relaxed)), (0, 0));
    assert_eq!(thread.row.queued.get(), 0);
    indices.into_iter().for_each(|index| thread.close(index));
}

/// How long a request has waited is counted from the first time on, however often it is looked at, and wherever.
#[test]
fn waiting_begins_once() {
    let (_, mut thread) = thread(1);
    let (index, _far_end) = client(&mut thread, "192.0.2.1:1");
    let began = thread.clock.now;
    thread.note_waiting(index);
    thread.clock.now += std::time::Duration::from_secs(1);
    thread.note_waiting(index);
    assert_eq!(thread.exchange(index).dispatch.waits_since, Some(began));
    thread.close(index);
}
