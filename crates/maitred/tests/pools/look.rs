//! What the status says of a pool.

use serde_json::Value;

use crate::support::{Server, eventually};

/// A pool's part of the status.
#[track_caller]
pub(crate) fn pool(status: &Value, name: &str) -> Value {
    let pools = status["pools"].as_array().unwrap();
    pools
        .iter()
        .find(|pool| pool["name"] == name)
        .unwrap_or_else(|| panic!("no pool {name} in {status}"))
        .clone()
}

/// The letters of its slots.
pub(crate) fn letters(server: &Server, name: &str) -> String {
    pool(&server.status(), name)["letters"].as_str().unwrap().to_owned()
}

/// How many processes are ready.
pub(crate) fn ready(letters: &str) -> usize {
    letters.chars().filter(|letter| "_W".contains(*letter)).count()
}

/// How many processes are there, in whatever state.
pub(crate) fn there(letters: &str) -> usize {
    letters.chars().filter(|letter| *letter != '.').count()
}

/// The process ids of a pool, in the order of their slots.
pub(crate) fn pids(server: &Server, name: &str) -> Vec<i32> {
    let pool = pool(&server.status(), name);
    let slots = pool["slots"].as_array().unwrap();
    let alive = slots.iter().filter(|slot| slot["state"] != "dead");
    alive.map(|slot| slot["pid"].as_i64().unwrap() as i32).collect()
}

/// Waits until so many processes are ready, and no other is there.
pub(crate) fn settled(server: &Server, name: &str, processes: usize) {
    eventually(&format!("pool {name} has {processes} processes"), || {
        let letters = letters(server, name);
        ready(&letters) == processes && there(&letters) == processes
    });
}
