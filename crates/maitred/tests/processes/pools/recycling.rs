//! Processes that are replaced because of their requests, their age or their memory, before they go, and without a failed
//! request.

use crate::pools::load::{Found, under_load};
use crate::pools::look::{breathing, letters, pids, pool, ready, starts_and_crashes};
use crate::support::{Server, Setup, eventually};

/// With room for those that replace others: `max` is more than are ever needed.
fn start(limit: &str) -> Server {
    let lines = format!(
        "workers = {{ start = 2, min_spare = 2, max_spare = 8, max = 8, {limit} }}\nqueue = {{ timeout = \"60s\" }}"
    );
    let server = breathing(Setup::new(), "app", None, "", &lines).start();
    server.wait_for_processes();
    server
}

fn recycled(server: Server, why: &str, act: impl FnOnce(&Server, &Found)) {
    under_load(&server, 2, "/app/hello?x", |found| {
        act(&server, found);
        found.more(20);
    });
    assert_eq!(starts_and_crashes(&server).1, 0, "no process has died");
    let stopped = server.stop();
    assert!(stopped.said.iter().any(|line| line.contains(why)), "{:#?}", stopped.said);
}

#[test]
fn after_a_number_of_requests() {
    recycled(start("max_requests = 60"), "it has had its number of requests", |server, _| {
        // So few that a machine under load gets to them.
        eventually("none has many more than its number", || {
            let letters = letters(server, "app");
            assert!(ready(&letters) >= 2, "short of processes: {letters}");
            let pool = pool(&server.status(), "app");
            let slots = pool["slots"].as_array().unwrap();
            // Replacing takes a start-up time, in which the old one goes on.
            slots.iter().filter(|slot| slot["starts"].as_u64() >= Some(2)).count() >= 2
        });
    });
}

#[test]
fn after_a_time() {
    let server = start("max_age = \"2s\"");
    // Without a load, when there is none too many: a process that went before its successor is ready would be missing.
    let before = pids(&server, "app");
    eventually("those of the beginning are gone", || {
        let letters = letters(&server, "app");
        assert!(ready(&letters) >= 2, "short of processes: {letters}");
        let now = pids(&server, "app");
        before.iter().all(|pid| !now.contains(pid))
    });
    recycled(server, "it is old enough", |server, found| {
        let before = pids(server, "app");
        eventually("and the next", || pids(server, "app").iter().all(|pid| !before.contains(pid)));
        found.more(20);
    });
}

#[test]
fn when_it_takes_too_much_memory() {
    recycled(start("max_memory = \"100 MB\""), "it takes too much memory", |server, found| {
        let grown: i32 = server.connect().get("/app/grow?150").text().parse().unwrap();
        eventually("it is replaced", || {
            let letters = letters(server, "app");
            assert!(ready(&letters) >= 2, "short of processes: {letters}");
            !pids(server, "app").contains(&grown)
        });
        found.more(20);
        assert!(starts_and_crashes(server).0 >= 3, "another one took its place");
    });
}
