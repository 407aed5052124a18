//! Simulated worlds: the real threads of a worker process, without threads.
//!
//! A world controls everything: it makes the threads ([`super::reactor`]) and runs them turn by turn, in an order that a seed
//! chooses; it has the near ends of the clients' sockets, the far ends of the channels to application processes, the messages of
//! the master, and the time, which passes only when the world moves it. Nothing else takes part, so a seed plays the same world
//! again. `tests/processes/ownership` plays by the same model ([`maitred_testing::model`]) in the real binary, where the kernel
//! and other processes take part.
//!
//! | file | what |
//! |---|---|
//! | [`world`] | the world and its steps |
//! | [`application`] | what application processes do with requests |
//! | [`server`] | the same of HTTP servers and FastCGI applications |
//! | [`records`] | what FastCGI applications read and write |
//! | [`files`] | files, and helpers that read and write them when the world does |
//! | [`reload`] | two worker processes, of which one replaces the other |
//! | [`judge`] | what has to be true after a turn, when nothing can happen, and at the end |
//! | [`stage`] | configurations, threads, and what must be left of a world: nothing |
//! | [`http2`] | the same of clients that speak HTTP/2; each stream is a client of the model |
//! | [`client`], [`puppet`] | the two sides around the server |
//! | [`time`] | the clock, and when each client's socket was written to |
//!
//! `MAITRED_WORLD=7` plays the world of that seed alone, `MAITRED_WORLDS=200000` plays that many, and with
//! `MAITRED_WORLDS_OF=fastcgi` of these only those of that family (`stage::FAMILIES`).

mod application;
mod client;
mod files;
mod http2;
mod judge;
mod puppet;
mod records;
mod reload;
mod server;
mod stage;
mod time;
mod world;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use self::stage::{FAMILIES, KINDS, Stage, family};
use self::world::World;

/// Worlds that are played if the environment sets no other number.
const WORLDS: u64 = 11_500;

/// A number from the environment.
fn variable(name: &str) -> Option<u64> {
    std::env::var(name)
        .ok()
        .map(|value| value.parse().unwrap_or_else(|_| panic!("{name}={value} is no number")))
}

/// Stages of one thread of the test.
#[derive(Default)]
struct Stages(BTreeMap<u64, Stage>);

impl Stages {
    fn play(&mut self, seed: u64) -> u64 {
        let kind = seed % KINDS;
        let stage = self.0.entry(kind).or_insert_with(|| Stage::new(kind));
        World::new(stage, seed).play()
    }

    fn show(&mut self, seed: u64) {
        let kind = seed % KINDS;
        let stage = self.0.entry(kind).or_insert_with(|| Stage::new(kind));
        let mut world = World::new(stage, seed);
        world.play();
        println!("{}", world.trace());
    }
}

#[test]
fn whatever_happens_in_any_order_everybody_gets_what_is_theirs() {
    if let Some(seed) = variable("MAITRED_WORLD") {
        return Stages::default().show(seed);
    }
    let (next, worlds) = (AtomicU64::new(0), variable("MAITRED_WORLDS").unwrap_or(WORLDS));
    let only = std::env::var("MAITRED_WORLDS_OF").ok();
    let played = [const { AtomicU64::new(0) }; FAMILIES.len()];
    let threads = std::thread::available_parallelism().map_or(1, |threads| threads.get().min(8));
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                let mut stages = Stages::default();
                loop {
                    let seed = next.fetch_add(1, Relaxed);
                    if seed >= worlds {
                        break;
                    }
                    let family = family(seed % KINDS);
                    if only.as_ref().is_none_or(|only| only == FAMILIES[family].0) {
                        stages.play(seed);
                        played[family].fetch_add(1, Relaxed);
                    }
                }
            });
        }
    });
    for ((name, _), played) in FAMILIES.iter().zip(&played) {
        println!("{name}: {} worlds", played.load(Relaxed));
        assert!(
            played.load(Relaxed) > 0 || only.is_some() || worlds < KINDS,
            "no world of {name} was played"
        );
    }
}

#[test]
fn a_seed_plays_the_same_world_again() {
    for seed in 0..2 * KINDS {
        let [one, other] = [(); 2].map(|()| Stages::default().play(seed));
        assert_eq!(one, other, "world {seed}");
    }
}
