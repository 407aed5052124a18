//! One server with puppets, from its start to its end.

use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixListener;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::time::{Duration, Instant};

use maitred_testing::random::Random;
use rustix::process::Signal;

use crate::ownership::episode::{self, Mood, is_quiet, wait_until};
use crate::ownership::stage::{Pace, Stage};
use crate::support::{Server, Setup};

/// Worlds that are played if the environment does not say otherwise, and how many at the same time.
const WORLDS: u64 = 6;
const WORLDS_AT_A_TIME: usize = 4;
/// Parts of a world, and events in each.
const EPISODES: usize = 5;
const EVENTS: usize = 90;
/// Processes of each pool, in worlds where a reload gives back one process after the other.
pub(crate) const SEVERAL: usize = 2;
/// The same where a reload hands the only one over with what is under way, which goes on over links.
const ONE: usize = 1;

/// A number from the environment.
fn variable(name: &str) -> Option<u64> {
    std::env::var(name)
        .ok()
        .map(|value| value.parse().unwrap_or_else(|_| panic!("{name}={value} is no number")))
}

/// What differs from server to server.
#[derive(Debug)]
pub(crate) struct Kind {
    pub(crate) threads: usize,
    /// Processes of each pool.
    pub(crate) slots: usize,
    pub(crate) defer_accept: bool,
    /// Length of each pool's queue.
    pub(crate) queue: usize,
    pub(crate) request_timeout: Duration,
}

/// A server with a pool for each transport, and where its processes report.
pub(crate) fn start(kind: &Kind) -> (Server, UnixListener) {
    let Kind { threads, slots, defer_accept, queue, request_timeout } = kind;
    let pool = |name: &str| {
        format!(
            "[pool.{name}]\ncommand = [\"python3\", \"-S\", \"-E\", \"puppet.py\"]\nworkers = {slots}\n\
             transport = \"{name}\"\nrequest_timeout = \"{}ms\"\nqueue = {{ max = {queue}, timeout = \"5m\" }}\n\
             health_interval = \"1m\"\nupgrade = [\"puppet\"]\n",
            request_timeout.as_millis()
        )
    };
    let setup = Setup::new()
        .outside("puppet.py", include_bytes!("puppet.py"))
        .server(&format!("threads = {threads}\ngrace = \"5m\""))
        .listen(&format!("defer_accept = {defer_accept}"))
        .limit("body_inline_bytes_max = \"8KiB\"\nbody_memory_bytes_max = \"64KiB\"\nwrite_timeout = \"15s\"")
        .log("access = \"json\"")
        .route("/direct/*", "pool = \"direct\"")
        .route("/relay/*", "pool = \"relay\"")
        .table(&pool("direct"))
        .table(&pool("relay"));
    let socket = setup.directory.path().join("puppets.sock");
    let listener = UnixListener::bind(&socket).unwrap();
    std::fs::set_permissions(&socket, std::fs::Permissions::from_mode(0o777)).unwrap();
    (setup.start(), listener)
}

/// A stage whose server is of a kind that the seed chooses.
fn stage(seed: u64, slots: usize, refusals: bool) -> Stage {
    let mut random = Random::new(seed);
    let threads = random.weighted(&[(2, 2), (1, 1), (1, 3)]);
    let (defer_accept, queue) = (random.percent(50), if refusals { 2 } else { 1000 });
    let pace = if slots == ONE { Pace::ACROSS_RELOADS } else { Pace::QUICK };
    let request_timeout = pace.request_timeout;
    let (server, listener) = start(&Kind { threads, slots, defer_accept, queue, request_timeout });
    Stage::new(server, listener, random, pace)
}

/// Whether all processes are there and welcome.
fn is_staffed(stage: &mut Stage, slots: usize) -> Result<(), String> {
    let welcomed = stage.puppets.iter().filter(|puppet| puppet.welcomed).count();
    let delayed = stage.server.status()["master"]["slots_delayed"].clone();
    match welcomed == 2 * slots && delayed == 0 {
        true => Ok(()),
        false => Err(format!("{welcomed} of {} puppets are welcome, {delayed} delayed", 2 * slots)),
    }
}

/// Open descriptors of the master and of the worker process.
fn descriptors(stage: &Stage) -> [usize; 2] {
    let master = stage.server.pid().as_raw_nonzero().get();
    let worker = episode::workers(stage).first().copied().unwrap_or_default();
    let folder = |pid: i32| Path::new("/proc").join(pid.to_string()).join("fd");
    // A process that has just ended has none.
    [master, worker].map(|pid| std::fs::read_dir(folder(pid)).map_or(0, Iterator::count))
}

fn play(seed: u64, slots: usize) -> usize {
    let began = Instant::now();
    let refusals = seed.is_multiple_of(4);
    let kills = seed.is_multiple_of(5);
    let links = slots == ONE;
    let restless = seed.is_multiple_of(3) || links;
    let mut stage = stage(seed, slots, refusals);
    wait_until(&mut stage, "the processes start", |stage| is_staffed(stage, slots));
    // What opens its descriptors on first use has opened them after a first client.
    episode::run(&mut stage, Mood { events: 1, wild: false, kills: false, refusals, restless, links });
    // A process that was refused then is started again after a delay, and the master has a descriptor less until it is.
    wait_until(&mut stage, "the processes are there again", |stage| {
        is_quiet(stage).and_then(|()| is_staffed(stage, slots))
    });
    let before = descriptors(&stage);
    for part in 0..EPISODES {
        let wild = part % 2 == 1;
        episode::run(
            &mut stage,
            Mood { events: EVENTS, wild, kills: kills && part == 3, refusals, restless, links },
        );
    }
    // A fresh worker process has none of the relays that the last one kept to use again.
    let reloads = |stage: &Stage| stage.server.status()["master"]["reloads"].as_u64();
    let earlier = reloads(&stage);
    rustix::process::kill_process(stage.server.pid(), Signal::HUP).unwrap();
    wait_until(&mut stage, "the reload begins", |stage| match reloads(stage) > earlier {
        true => Ok(()),
        false => Err(format!("{earlier:?} reloads")),
    });
    wait_until(&mut stage, "the reload ends", |stage| {
        is_quiet(stage).and_then(|()| is_staffed(stage, slots))
    });
    wait_until(&mut stage, "descriptors are left over", |stage| {
        let now = descriptors(stage);
        if now.iter().zip(before).all(|(now, before)| (1..=before).contains(now)) {
            Ok(())
        } else {
            Err(format!("{before:?} {now:?}"))
        }
    });
    let Stage { server, ledger, puppets, listener, .. } = stage;
    drop((puppets, listener));
    let stopped = if kills { server.terminate(Signal::TERM) } else { server.stop() };
    assert!(!stopped.said.iter().any(|line| line.contains("panic")), "{:#?}", stopped.said);
    if let Err(why) = ledger.check(&stopped.json_lines()) {
        panic!("{why}");
    }
    println!("world {seed}, pools of {slots}: {} requests in {:?}", ledger.len(), began.elapsed());
    ledger.len()
}

/// Plays the worlds of several seeds at the same time.
fn play_all(slots: usize) {
    let seeds: Vec<u64> = match variable("MAITRED_OWNERSHIP_SEED") {
        Some(seed) => vec![seed],
        None => (1..=variable("MAITRED_OWNERSHIP_WORLDS").unwrap_or(WORLDS)).collect(),
    };
    let seeds = std::sync::Mutex::new(seeds.into_iter());
    let failed = std::sync::Mutex::new(Vec::new());
    let requests = std::sync::atomic::AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..WORLDS_AT_A_TIME {
            scope.spawn(|| {
                while let Some(seed) = { seeds.lock().unwrap().next() } {
                    match catch_unwind(AssertUnwindSafe(|| play(seed, slots))) {
                        Ok(played) => _ = requests.fetch_add(played, std::sync::atomic::Ordering::Relaxed),
                        Err(_) => failed.lock().unwrap().push(seed),
                    }
                }
            });
        }
    });
    println!("{requests:?} requests");
    let failed = failed.into_inner().unwrap();
    assert!(failed.is_empty(), "failed for MAITRED_OWNERSHIP_SEED={failed:?}");
}

#[test]
fn a_connection_has_one_owner_whatever_happens() {
    play_all(SEVERAL);
}

#[test]
fn a_connection_has_one_owner_whatever_happens_while_the_only_process_is_handed_on() {
    play_all(ONE);
}
