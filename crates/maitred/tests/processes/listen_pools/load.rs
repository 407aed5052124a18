//! Sizes.

use rustix::process::Signal;

use crate::listen_pools::world::{PREFORK, address, ask, letters, pids, pool, ready, start};
use crate::support::processes::send_signal;
use crate::support::{Client, Gate, Setup, eventually};

#[test]
fn load_makes_it_grow_and_quiet_lets_it_shrink() {
    let gate = Gate::new();
    let sizes = "workers = { start = 1, min_spare = 1, max_spare = 1, max = 8, retire_after = \"1s\" }";
    let server = start(&format!("{PREFORK}{sizes}\nstart_grace = \"100ms\""), Some(&gate));
    eventually("one process is ready", || ready(&server) == 1);
    assert_eq!(letters(&server).len(), 10, "a letter for each slot");
    let address = address(&server);
    // No process uses any CPU while all of them wait: only the queue tells.
    let mut clients = Vec::new();
    let mut waiting = Vec::new();
    for _ in 0..4 {
        let mut client = Client::connect(address);
        client.send("GET /wait HTTP/1.1\r\nHost: localhost\r\n\r\n");
        clients.push(client);
        waiting.push(gate.arrival());
    }
    let mut served: Vec<i32> = waiting.iter().map(|one| one.pid).collect();
    served.sort_unstable();
    served.dedup();
    assert_eq!(served.len(), 4, "each has one connection");
    waiting.into_iter().for_each(crate::support::Waiting::release);
    for client in &mut clients {
        assert_eq!(client.response("GET").status, 200);
    }
    eventually("it shrinks", || ready(&server) == 1 && !letters(&server).contains('D'));
    assert_eq!(ask(address, "/")[2], "1");
    let stopped = server.stop();
    let retired = stopped.said.iter().filter(|line| line.contains("is retired: it is not needed")).count();
    assert!(retired >= 3, "{:#?}", stopped.said);
}

#[test]
fn a_killed_process_costs_its_own_connection_only() {
    let gate = Gate::new();
    let server = start(&format!("{PREFORK}workers = 2"), Some(&gate));
    eventually("both are ready", || ready(&server) == 2);
    let address = address(&server);
    let wait = || {
        let mut client = Client::connect(address);
        client.send("GET /wait HTTP/1.1\r\nHost: localhost\r\n\r\n");
        (client, gate.arrival())
    };
    let ((mut lost, first), (mut kept, second)) = (wait(), wait());
    let mut queued = Client::connect(address);
    queued.send("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n");
    eventually("it is in the queue", || pool(&server)["buckets"][0]["queue"] == 1);
    send_signal(first.pid, Signal::KILL);
    assert!(lost.try_response("GET").is_err());
    // The process that takes its place takes what was queued.
    let answered = queued.response("GET");
    assert_eq!(answered.status, 200);
    second.release();
    assert_eq!(kept.response("GET").status, 200);
    eventually("there are two again", || ready(&server) == 2);
    assert!(!pids(&server).contains(&i64::from(first.pid)));
    let stopped = server.stop();
    assert!(stopped.said.iter().any(|line| line.contains("was killed by SIGKILL")), "{:#?}", stopped.said);
}

#[test]
fn both_buckets_are_served_and_their_processes_stay_on_their_cpus() {
    let server = start(&format!("{PREFORK}workers = 4\nbuckets = 2\naffinity = true"), None);
    eventually("all are ready", || ready(&server) == 4);
    assert_eq!(pool(&server)["buckets"].as_array().unwrap().len(), 2);
    let address = address(&server);
    let (mut cpus, mut seen) = ([None, None], [0, 0]);
    // The kernel chooses the bucket by the client's port: a few hundred of them reach both.
    for _ in 0..200 {
        let answer = ask(address, "/");
        let bucket: usize = answer[1].parse().unwrap();
        seen[bucket] += 1;
        assert_eq!(cpus[bucket].get_or_insert(answer[3].clone()), &answer[3], "always the same CPUs");
    }
    assert!(seen.iter().all(|count| *count > 0), "{seen:?}");
    // What the last look at the queues saw may be older than the last answer.
    eventually("both queues are shown, and empty", || {
        let metrics = server.admin("GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n").text().to_owned();
        (0..2).all(|bucket| {
            let line = format!("maitred_pool_accept_queue{{pool=\"plain\",bucket=\"{bucket}\"}} 0\n");
            metrics.contains(&line)
        })
    });
    server.stop();
}

#[test]
fn a_command_that_fails_is_said_and_does_not_spin() {
    for (command, said) in [
        ("[\"./is-not-there\"]", "No such file or directory"),
        ("[\"python3\", \"-c\", \"raise SystemExit(3)\"]", "exited with status 3"),
        ("[\"sh\", \"-c\", \"sleep 0 & exit 0\"]", "keep it in the foreground"),
    ] {
        // A machine may take longer than the usual second to get as far as the failure.
        let table =
            format!("[pool.plain]\nlisten = \"127.0.0.1:0\"\ncommand = {command}\nstart_grace = \"60s\"\n");
        let server = Setup::with_files().table(&table).start();
        server.wait_for_line(|line| line.contains(said));
        eventually("the status says so", || {
            let pool = pool(&server);
            pool["trouble"].as_str().is_some_and(|trouble| trouble.contains("pool \"plain\" cannot start"))
        });
        let started = server.status()["master"]["slots_started"].as_u64().unwrap();
        assert!(started < 20, "{started} processes were started");
        assert_eq!(server.connect().get("/a.txt").status, 200, "no other client is disturbed");
        assert!(server.stop().status.success());
    }
}
