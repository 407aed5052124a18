//! The same site over networks that are not as good as loopback (`maitred_udp`).

use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use maitred_udp::{Config, Counts, Faults, Rate, Rebind};

use super::clients::{Given, script};
use crate::Result;
use crate::step::step;
use crate::test_packages::has_program;

/// Cases of the scripts that are about the way, rather than about what is said.
const AIOQUIC: &[&str] = &["get", "download", "upload", "concurrent", "early_data"];
const GTLSCLIENT: &[&str] = &["files", "upload", "early_data"];
/// The same datagrams are lost each time, as far as the same ones are sent.
const SEED: u64 = 3;

/// A network: what it is called, what it does, and what of that has to have happened.
struct Network {
    name: &'static str,
    config: Config,
    seen: fn(&Counts) -> bool,
}

fn networks() -> [Network; 4] {
    let lossy = Faults {
        delay: Duration::from_millis(5),
        loss_per_mille: 3,
        reorder_per_mille: 5,
        duplicate_per_mille: 10,
        ..Faults::default()
    };
    // What QUIC has to get along with, and a little more (9000-14).
    let narrow = Faults { mtu_bytes: Some(1252), bleach_ecn: true, ..Faults::default() };
    let rate = Some(Rate { bytes_per_second: 5_000_000, queue_bytes: 100_000 });
    let slow = Faults { delay: Duration::from_millis(10), rate, ..Faults::default() };
    let rebind = Rebind { every: Some(300), address: true, ..Rebind::default() };
    [
        Network {
            name: "5 ms each way, of a thousand datagrams 3 lost, 5 late, 10 twice",
            config: Config::both(lossy),
            seen: |counts| counts.to_client.lost > 0 && counts.to_client.reordered > 0,
        },
        Network {
            name: "datagrams of 1,252 bytes, no ECN",
            config: Config::both(narrow),
            seen: |counts| counts.to_client.bleached > 0,
        },
        Network {
            name: "5 MB/s, 10 ms each way",
            config: Config::both(slow),
            seen: |counts| counts.to_client.sent > 0,
        },
        Network {
            name: "another address after each 300 datagrams",
            config: Config { rebind, ..Config::default() },
            seen: |counts| counts.rebound > 0,
        },
    ]
}

/// `python` has aioquic; without it, there is gtlsclient.
pub(super) fn run(given: &Given, python: Option<&Path>) -> Result<()> {
    let port = given.origin.rsplit_once(':').and_then(|(_, port)| port.parse().ok());
    let server = SocketAddr::from(([127, 0, 0, 1], port.ok_or("an origin without a port")?));
    let mut failures = Vec::new();
    for Network { name, config, seen } in networks() {
        let path = maitred_udp::Path::start(Config { seed: SEED, ..config }, server)?;
        let origin = format!("https://localhost:{}", path.address().port());
        let results = [aioquic(given, python, &origin, name), gtlsclient(&origin, name)];
        let counts = path.finish()?;
        println!("{name}: {counts:?}");
        failures.extend(results.into_iter().filter_map(|result| result.err().map(|error| error.to_string())));
        if !seen(&counts) {
            failures.push(format!("the network was not as bad as it should be: {name}"));
        }
    }
    if failures.is_empty() { Ok(()) } else { Err(failures.join("; ").into()) }
}

fn aioquic(given: &Given, python: Option<&Path>, origin: &str, name: &str) -> Result<()> {
    let Some(python) = python else { return Ok(()) };
    let mut client = script(python, "aioquic_client.py");
    step(&format!("aioquic: {name}"), client.args(["--ca", &given.authority, origin]).args(AIOQUIC))
}

fn gtlsclient(origin: &str, name: &str) -> Result<()> {
    if !has_program("gtlsclient") {
        return Ok(());
    }
    step(&format!("gtlsclient: {name}"), script("python3", "gtlsclient.py").arg(origin).args(GTLSCLIENT))
}
