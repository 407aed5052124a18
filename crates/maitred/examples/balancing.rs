//! The choice of a server for a request, over and over: for counting its instructions.
//!
//! `balancing POLICY SERVERS TIMES`; `cargo xtask bench choices` runs it under callgrind with two numbers of times, for
//! one server and for many.

use std::hint::black_box;
use std::time::{Duration, Instant};

use maitred_config::{Balance, Upstream};
use maitred_worker::proxy::{Balancer, Choice, Listed, Policy, ServerTable, Wish, key_of};

type Result<T, E = Box<dyn std::error::Error>> = std::result::Result<T, E>;

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [policy, servers, times] = arguments.as_slice() else { return Err("POLICY SERVERS TIMES".into()) };
    let balance = match policy.as_str() {
        "least-requests" => Balance::LeastRequests,
        "round-robin" => Balance::RoundRobin,
        "hash" => Balance::Hash,
        other => return Err(format!("no policy {other:?}").into()),
    };
    let listed = (0..servers.parse()?)
        .map(|number: u32| Listed::plain(Upstream::Unix(format!("/run/servers/{number}.sock").into())));
    let policy =
        Policy { balance, slow_start: Duration::ZERO, panic_percent: 50, outliers: None, cookie_key: None };
    let table = ServerTable::new(listed.collect(), 0, policy);
    let (mut balancer, now) = (Balancer::new(&table, 0), Instant::now());
    for number in 0..times.parse::<u64>()? {
        let wish = Wish { key: Some(key_of(&number.to_ne_bytes())), ..Wish::default() };
        balancer.refresh(&table);
        let Choice::Server(slot) = balancer.choose(&table, now, black_box(&wish)) else {
            return Err("no server".into());
        };
        let row = balancer.list().row(slot).ok_or("no row")?;
        table.leave(black_box(&row.server));
    }
    Ok(())
}
