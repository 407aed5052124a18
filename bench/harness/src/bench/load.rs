//! Scenarios in which wrk loads one server after the other, in interleaved rounds.

use std::collections::BTreeMap;
use std::process::Command;

use serde::{Deserialize, Serialize};

use super::h2load::{self, Length};
use super::peers::Kind;
use super::process;
use super::protocol::Protocol;
use super::secure;
use super::server::{Running, Setup};
use super::{Bench, Budget, Outcome, Row};
use crate::Result;

/// One load: what wrk asks for, and what the floor answers with.
pub(super) struct Load {
    pub(super) name: &'static str,
    pub(super) what: &'static str,
    pub(super) path: &'static str,
    pub(super) script: &'static str,
    pub(super) connections: u32,
    pub(super) close: bool,
    pub(super) protocol: Protocol,
    /// Streams on each connection, for HTTP/2.
    pub(super) streams: u32,
    pub(super) floor: &'static [&'static str],
    /// For large bodies the receiver pays for the copy, so its time is counted too.
    pub(super) count_client: bool,
    pub(super) budget: Budget,
}

const PLAIN: Load = Load {
    name: "hot-1k",
    what: "one file of 1 KB, keep-alive, 64 connections, access log on",
    path: "/1k.txt",
    script: "plain.lua",
    connections: 64,
    close: false,
    protocol: Protocol::Http1,
    streams: 1,
    floor: &[],
    count_client: false,
    budget: Budget::Floor(1.15),
};

/// HTTP/2 over TLS by h2load.
const HTTP2: Load = Load {
    name: "h2-1k",
    what: "one file of 1 KB over HTTP/2 and TLS 1.3, 16 connections × 32 streams",
    protocol: Protocol::Http2Tls,
    connections: 16,
    streams: 32,
    // "Level with H2O" leaves a tenth to noise. Encryption costs all of them the same on top, so a third of nginx is for
    // cleartext.
    budget: Budget::Peers(&[("h2o", 1.1)]),
    ..PLAIN
};

/// The loads; PERFORMANCE.md has their budgets.
pub(super) const LOADS: [Load; 14] = [
    PLAIN,
    Load {
        name: "files-1000",
        what: "1,000 files of 1 KB at random, keep-alive, 64 connections",
        path: "/",
        script: "files-1000.lua",
        budget: Budget::Floor(1.2),
        ..PLAIN
    },
    Load {
        name: "pipelined-16",
        what: "one file of 1 KB, 16 requests in each write, 64 connections",
        script: "pipelined-16.lua",
        budget: Budget::Floor(2.0),
        ..PLAIN
    },
    Load {
        name: "new-connection",
        what: "one file of 1 KB, a connection for each request",
        close: true,
        floor: &["-c"],
        budget: Budget::Nginx(0.95),
        ..PLAIN
    },
    Load {
        name: "file-100k",
        what: "one file of 100 KB, keep-alive, 64 connections",
        path: "/large/100k.bin",
        floor: &["-s", "102400"],
        budget: Budget::Nginx(1.0),
        ..PLAIN
    },
    Load {
        name: "file-10m",
        what: "one file of 10 MB, keep-alive, 8 connections; the client's CPU is counted too",
        path: "/large/10m.bin",
        connections: 8,
        floor: &["-s", "10485760"],
        count_client: true,
        budget: Budget::Nginx(1.0),
        ..PLAIN
    },
    Load {
        name: "dynamic-1k",
        what: "1 KB from a Python application, keep-alive, 64 connections; front and application together",
        path: "/app/kilobyte",
        budget: Budget::None,
        ..PLAIN
    },
    Load {
        name: "tls-1k",
        what: "one file of 1 KB over TLS 1.3, keep-alive, 64 connections",
        protocol: Protocol::Http1Tls,
        budget: Budget::Nginx(1.0),
        ..PLAIN
    },
    Load {
        name: "tls-handshake",
        what: "one file of 1 KB over TLS 1.3, a connection with a full handshake (ECDSA P-256, X25519) for each request",
        protocol: Protocol::Http1Tls,
        close: true,
        // Clients without TCP_NODELAY wait 40 ms in each connection, so it takes many to keep a server busy.
        connections: 256,
        floor: &["-c"],
        budget: Budget::Nginx(1.0),
        ..PLAIN
    },
    Load {
        name: "tls-100k",
        what: "one file of 100 KB over TLS 1.3, keep-alive, 64 connections",
        path: "/large/100k.bin",
        floor: &["-s", "102400"],
        protocol: Protocol::Http1Tls,
        budget: Budget::Nginx(1.0),
        ..PLAIN
    },
    HTTP2,
    Load {
        name: "h2c-1k",
        what: "one file of 1 KB over HTTP/2 in cleartext, 16 connections × 32 streams",
        protocol: Protocol::Http2,
        budget: Budget::Peers(&[("nginx", 0.333), ("h2o", 1.1)]),
        ..HTTP2
    },
    Load {
        name: "h2-100k",
        what: "one file of 100 KB over HTTP/2 and TLS 1.3, 16 connections × 32 streams",
        path: "/large/100k.bin",
        floor: &["-s", "102400"],
        budget: Budget::Peers(&[("nginx", 1.0), ("h2o", 1.0)]),
        ..HTTP2
    },
    Load {
        name: "h2c-100k",
        what: "one file of 100 KB over HTTP/2 in cleartext, 16 connections × 32 streams; the client's CPU is counted too",
        // nginx sends DATA by sendfile(2) there, and the receiver pays for the copy.
        count_client: true,
        path: "/large/100k.bin",
        floor: &["-s", "102400"],
        protocol: Protocol::Http2,
        budget: Budget::Peers(&[("nginx", 1.0), ("h2o", 1.0)]),
        ..HTTP2
    },
];

/// What wrk is to ask for, and how.
#[derive(Debug, Clone, Copy)]
pub(super) struct Asked<'a> {
    pub(super) path: &'a str,
    pub(super) script: &'a str,
    pub(super) connections: u32,
    pub(super) close: bool,
}

impl Load {
    /// Length of the body, as in the floor's arguments.
    fn body_bytes(&self) -> u64 {
        self.floor.last().and_then(|length| length.parse().ok()).unwrap_or(1 << 10)
    }

    fn asked(&self) -> Asked<'_> {
        Asked { path: self.path, script: self.script, connections: self.connections, close: self.close }
    }

    /// Lets the generator for the protocol load a server.
    fn generate(&self, bench: &Bench, server: &Running, seconds: u32) -> Result<Report> {
        let url = server.url(self.path);
        if self.protocol.is_http2() {
            h2load::run(bench, &url, self.connections, self.streams, Length::Seconds(seconds))
        } else {
            wrk(bench, server, self.asked(), seconds)
        }
    }
}

/// What `bench/wrk/report.lua` prints, or what h2load says in other words.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(super) struct Report {
    pub(super) requests: u64,
    pub(super) microseconds: u64,
    pub(super) bytes: u64,
    /// Where the generator has no percentiles.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) mean: Option<u64>,
    pub(super) p50: u64,
    pub(super) p99: u64,
    pub(super) max: u64,
    pub(super) connect_errors: u64,
    pub(super) read_errors: u64,
    pub(super) write_errors: u64,
    pub(super) timeouts: u64,
    pub(super) bad_statuses: u64,
}

impl Report {
    pub(super) fn errors(&self) -> u64 {
        self.connect_errors + self.read_errors + self.write_errors + self.timeouts + self.bad_statuses
    }

    /// Refuses what is not the response that all are to give: mostly errors, or bodies that are too short.
    pub(super) fn check(&self, server: &str, body_bytes: u64) -> Result<()> {
        if self.requests == 0 {
            return Err(format!("{server} answered nothing").into());
        }
        if self.errors() * 2 > self.requests {
            return Err(format!("{server}: {} errors in {} requests", self.errors(), self.requests).into());
        }
        let mean = self.bytes / self.requests;
        if mean < body_bytes {
            return Err(format!("{server} sends {mean} bytes for each request, not {body_bytes}").into());
        }
        Ok(())
    }
}

/// Milliseconds; none where wrk has no such figure: correcting for stalls, it loses some of the smallest latencies.
pub(super) fn milliseconds(microseconds: f64) -> String {
    if microseconds > 0.0 { format!("{:.2}", microseconds / 1e3) } else { "–".to_owned() }
}

/// Lets wrk load a server from the generator's CPUs, with a thread for each.
pub(super) fn wrk(bench: &Bench, server: &Running, asked: Asked<'_>, seconds: u32) -> Result<Report> {
    let mut command = Command::new("taskset");
    command.args(["-c", &bench.client_cpus, "wrk", "-s", asked.script]);
    command.current_dir(bench.directory.join("wrk"));
    command.arg(format!("-t{}", bench.client_threads.min(asked.connections)));
    command.arg(format!("-c{}", asked.connections)).arg(format!("-d{seconds}s"));
    if asked.close {
        command.args(["-H", "Connection: close"]);
    }
    let output = command.arg(server.url(asked.path)).output()?;
    let text = String::from_utf8_lossy(&output.stdout);
    let line = text.lines().rev().find(|line| line.starts_with('{'));
    let line = line.ok_or_else(|| format!("wrk: {text}{}", String::from_utf8_lossy(&output.stderr)))?;
    Ok(serde_json::from_str(line)?)
}

/// The hot file, for scenarios whose subject is something else than the load.
pub(super) fn hot() -> Asked<'static> {
    PLAIN.asked()
}

/// One round of one server, as it is kept in the raw results.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Round {
    pub(super) server_user_us: f64,
    pub(super) server_system_us: f64,
    pub(super) client_us: f64,
    pub(super) requests_per_second: f64,
    /// Whether the generator's time is a part of the cost: what sendfile(2) saves the server, the receiver pays.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(super) counts_client: bool,
    pub(super) wrk: Report,
}

impl Round {
    /// CPU time per request, in microseconds: the server's, and the generator's where that counts.
    pub(super) fn cost(&self) -> f64 {
        let client = if self.counts_client { self.client_us } else { 0.0 };
        self.server_user_us + self.server_system_us + client
    }
}

/// One round with any generator, which is a child of this process.
pub(super) fn round_with(server: &Running, generate: impl FnOnce() -> Result<Report>) -> Result<Round> {
    let (client_before, before) = (process::ended_children_cpu(), server.cpu());
    let wrk = generate()?;
    let used = server.cpu().since(before);
    let client = process::ended_children_cpu() - client_before;
    wrk.check(&server.name, 0)?;
    let per_request = |seconds: f64| seconds * 1e6 / wrk.requests as f64;
    Ok(Round {
        server_user_us: per_request(used.user()),
        server_system_us: per_request(used.total - used.user()),
        client_us: per_request(client),
        requests_per_second: wrk.requests as f64 * 1e6 / wrk.microseconds as f64,
        counts_client: false,
        wrk,
    })
}

/// One round of wrk.
pub(super) fn round(bench: &Bench, server: &Running, asked: Asked<'_>) -> Result<Round> {
    round_with(server, || wrk(bench, server, asked, bench.seconds))
}

/// Measures one load for all servers, in interleaved rounds.
pub(super) fn run(bench: &Bench, load: &Load) -> Result<Outcome> {
    let floor = load.floor.iter().map(|&argument| argument.to_owned()).collect();
    let dynamic = load.name == "dynamic-1k";
    let mut setup: Setup = bench.setup(floor);
    if dynamic {
        setup.maitred_more = python_application(bench, "kilobyte");
    }
    setup.protocol = load.protocol;
    let mut kinds = vec![Kind::Floor, Kind::Maitred];
    if !dynamic {
        kinds.extend(bench.peers.iter().copied().filter(|kind| kind.serves_files()));
    }
    let mut servers = Vec::new();
    let mut suites: BTreeMap<&str, String> = BTreeMap::new();
    for kind in kinds {
        if let Some(server) = bench.start(kind, &setup)? {
            if load.protocol.is_tls() && kind != Kind::Floor {
                let checked = secure::check(server.address, &bench.work);
                let suite =
                    checked.map_err(|error| format!("{} cannot be compared: {error}", kind.name()))?;
                suites.insert(kind.name(), suite);
            }
            load.generate(bench, &server, 1)?;
            servers.push((kind, server));
        }
    }
    let mut rounds: BTreeMap<&str, Vec<Round>> = BTreeMap::new();
    for _ in 0..bench.rounds {
        for (kind, server) in &servers {
            let round = round_with(server, || load.generate(bench, server, bench.seconds))?;
            round.wrk.check(&server.name, load.body_bytes())?;
            let round = Round { counts_client: load.count_client, ..round };
            rounds.entry(kind.name()).or_default().push(round);
        }
    }
    let mut rows: Vec<Row> = servers.iter().map(|(kind, _)| row(*kind, &rounds)).collect();
    for row in &mut rows {
        if let Some(suite) = suites.get(row.server) {
            row.note = format!("{}, {suite}", row.note);
        }
    }
    Ok(Outcome::new(
        load.name,
        load.what,
        load.budget,
        "CPU per request",
        rows,
        serde_json::to_value(&rounds)?,
    ))
}

/// The route `/app/*` and the pool of one of `bench/apps`.
pub(super) fn python_application(bench: &Bench, name: &str) -> String {
    let apps = bench.directory.join("apps");
    let adapter = bench.repository().join("adapters/python");
    format!(
        "[[site.route]]\npath = \"/app/*\"\npool = \"web\"\n\n[pool.web]\n\
         command = [\"python3\", \"-m\", \"maitred\", \"{name}:application\"]\nworkers = 2\ncwd = \"{apps}\"\n\
         env = {{ PYTHONPATH = \"{}:{apps}\" }}\n",
        adapter.display(),
        apps = apps.display(),
    )
}

fn row(kind: Kind, rounds: &BTreeMap<&str, Vec<Round>>) -> Row {
    let own = rounds.get(kind.name()).map(Vec::as_slice).unwrap_or_default();
    let cost = super::median(own.iter().map(Round::cost));
    // Noise that lasts longer than a round touches adjacent measurements alike: the spread is of ratios inside one round.
    let spread = |base: Kind| {
        let base = rounds.get(base.name()).map(Vec::as_slice).unwrap_or_default();
        let ratios = own.iter().zip(base).map(|(own, base)| own.cost() / base.cost());
        let (least, most) =
            ratios.fold((f64::MAX, f64::MIN), |(least, most), ratio| (least.min(ratio), most.max(ratio)));
        (least <= most).then(|| format!("{least:.2}–{most:.2}"))
    };
    let errors: u64 = own.iter().map(|round| round.wrk.errors()).sum();
    let rate = super::median(own.iter().map(|round| round.requests_per_second));
    let means: Option<Vec<f64>> = own.iter().map(|round| round.wrk.mean.map(|mean| mean as f64)).collect();
    let latency = match means {
        Some(means) => format!("mean {} ms", milliseconds(super::median(means.into_iter()))),
        None => {
            format!("p99 {} ms", milliseconds(super::median(own.iter().map(|round| round.wrk.p99 as f64))))
        }
    };
    let note = format!(
        "rounds {} × floor, {rate:.0} requests/s, {latency}, {errors} errors",
        spread(Kind::Floor).unwrap_or("–".to_owned()),
    );
    Row { server: kind.name(), cost, note, failures: errors }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_proper_response_is_refused() {
        let report = Report { requests: 100, bytes: 120_000, bad_statuses: 50, ..Report::default() };
        assert!(report.check("a", 1024).is_ok());
        let told = |report: Report| report.check("a", 1024).unwrap_err().to_string();
        assert_eq!(
            told(Report { bytes: 30_000, ..report.clone() }),
            "a sends 300 bytes for each request, not 1024"
        );
        assert_eq!(told(Report { bad_statuses: 51, ..report.clone() }), "a: 51 errors in 100 requests");
        assert_eq!(told(Report { requests: 0, ..report }), "a answered nothing");
    }

    #[test]
    fn loads_know_how_long_a_body_is() {
        let bytes = |name: &str| LOADS.iter().find(|load| load.name == name).map(Load::body_bytes);
        assert_eq!(
            ["hot-1k", "new-connection", "h2-100k"].map(bytes),
            [Some(1024), Some(1024), Some(102_400)]
        );
    }
}
