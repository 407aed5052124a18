//! What the status says of a pool.

use serde_json::Value;

use crate::support::{Gate, Server, Setup, eventually};

/// A pool of the application in `breathing.py`, and a route `/NAME/*` to it. `env` and `lines` are further TOML.
pub(crate) fn breathing(setup: Setup, name: &str, gate: Option<&Gate>, env: &str, lines: &str) -> Setup {
    let gate = gate.map(|gate| gate.address().to_string()).unwrap_or_default();
    setup
        .outside("breathing.py", include_bytes!("breathing.py"))
        .route(&format!("/{name}/*"), &format!("pool = \"{name}\""))
        .python(name, "breathing:application", &format!("GATE = \"{gate}\", {env}"), lines)
}

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

/// Application processes that the master has started so far, and those that have ended unasked.
pub(crate) fn starts_and_crashes(server: &Server) -> (u64, u64) {
    let status = server.status();
    let count = |key: &str| status["master"][key].as_u64().unwrap();
    (count("slots_started"), count("slot_crashes"))
}

/// The application processes that the master has for children, whatever it says of them; in no particular order.
pub(crate) fn processes_of(server: &Server) -> Vec<i32> {
    let parent = server.pid().as_raw_nonzero().get().to_string();
    let is_ours = |pid: &i32| {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        let mut fields = stat.rsplit(") ").next().unwrap_or_default().split(' ');
        let alive = fields.next().is_some_and(|state| state != "Z");
        let environment = std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        let mut variables = environment.split(|byte| *byte == 0);
        let application = variables.any(|variable| variable.starts_with(b"MAITRED_SLOT="));
        alive && fields.next() == Some(parent.as_str()) && application
    };
    let entries = std::fs::read_dir("/proc").unwrap().flatten();
    let numbers = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    numbers.filter(is_ours).collect()
}
