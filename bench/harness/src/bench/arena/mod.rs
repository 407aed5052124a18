//! The profiles of HttpArena (github.com/MDA2AV/HttpArena) that one server can run alone on this machine: sums, JSON that is made
//! for each request, files, over HTTP/1.1, HTTP/2 and HTTP/3. What each asks is HttpArena's; data, servers' modules and
//! measuring are this project's own. `bench/README.md` says what is the same, and what is not.
//!
//! | module | what |
//! |---|---|
//! | `data` | the data set and the files |
//! | `build` | nginx's module, Caddy with its handler, where Maitred's module is |
//! | `servers` | configurations, and starting |
//! | `check` | whether the answers are right, before anything is measured |

mod build;
mod check;
mod data;
mod servers;

use super::grid::{self, Grid, Way};
use super::h2load::{self, Length};
use super::load::{self, Round};
use super::peers::Kind;
use super::protocol::Protocol;
use super::replay;
use super::server::Running;
use super::{Bench, Result};
pub(super) use build::{caddy, copy, run as logged};
use data::Data;
use servers::SERVERS;
pub(super) use servers::kept;

/// HttpArena's least number of connections, for 64 hardware threads, is divided by this.
const FACTOR: u32 = 8;
/// What clients of files accept.
const ACCEPTED: &str = "br;q=1, gzip;q=0.8";
/// The same for H2O, which passes a coding over that has a weight: its files would be the only plain ones.
const ACCEPTED_BY_ORDER: &str = "br, gzip";
/// Items and factors of JSON that are asked for in turn.
const PAIRS: [(usize, u64); 7] = [(1, 3), (5, 7), (10, 2), (15, 5), (25, 4), (40, 8), (50, 6)];

/// What clients want.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Asks {
    /// The sum of two numbers in the query, and over HTTP/1.1 of one in the body.
    Sum,
    /// The same on connections that end after ten requests.
    SumAndClose,
    /// Two bytes that are always the same.
    Fixed,
    /// Items of the data set.
    Json,
    /// Twenty files in turn.
    Files,
}

/// One profile.
struct Profile {
    /// HttpArena's name of it.
    name: &'static str,
    asks: Asks,
    protocol: Protocol,
    /// HttpArena's least number of connections.
    connections: u32,
    /// Requests at a time on each.
    streams: u32,
}

const fn profile(
    name: &'static str,
    asks: Asks,
    protocol: Protocol,
    connections: u32,
    streams: u32,
) -> Profile {
    Profile { name, asks, protocol, connections, streams }
}

const HTTP1: [Profile; 6] = [
    profile("baseline", Asks::Sum, Protocol::Http1, 512, 1),
    profile("pipelined", Asks::Fixed, Protocol::Http1, 512, 16),
    profile("limited-conn", Asks::SumAndClose, Protocol::Http1, 512, 1),
    profile("json", Asks::Json, Protocol::Http1, 4096, 1),
    profile("static", Asks::Files, Protocol::Http1, 1024, 1),
    profile("static-tls", Asks::Files, Protocol::Http1Tls, 1024, 1),
];
const HTTP2: [Profile; 2] = [
    profile("baseline-h2", Asks::Sum, Protocol::Http2Tls, 256, 100),
    profile("static-h2", Asks::Files, Protocol::Http2Tls, 256, 32),
];
const HTTP3: [Profile; 2] = [
    profile("baseline-h3", Asks::Sum, Protocol::Http3, 64, 64),
    profile("static-h3", Asks::Files, Protocol::Http3, 64, 64),
];

impl Profile {
    /// Whether the server's own program code makes the answers, and not a directive.
    fn is_dynamic(&self) -> bool {
        matches!(self.asks, Asks::Sum | Asks::SumAndClose | Asks::Json)
    }

    fn connections(&self) -> u32 {
        (self.connections / FACTOR).max(1)
    }

    /// wrk's script, and what it is given as the path.
    fn script(&self, accepted: &str) -> (&'static str, &'static str) {
        match self.asks {
            Asks::Sum => ("arena-baseline.lua", "/baseline11"),
            Asks::SumAndClose => ("arena-baseline.lua", "/baseline11?close"),
            Asks::Fixed => ("pipelined-16.lua", "/pipeline"),
            Asks::Json => ("arena-json.lua", "/json/1?m=3"),
            Asks::Files if accepted == ACCEPTED_BY_ORDER => ("arena-static.lua", "/static/about.json?order"),
            Asks::Files => ("arena-static.lua", "/static/about.json"),
        }
    }

    /// What is asked for in turn over HTTP/2 and HTTP/3.
    fn paths(&self) -> Vec<String> {
        match self.asks {
            Asks::Files => data::FILES.iter().map(|(name, _)| format!("/static/{name}")).collect(),
            _ => vec!["/baseline2?a=1&b=1".to_owned()],
        }
    }

    /// As the row is called: with the connections, and what is done on each.
    fn label(&self) -> String {
        let streams = match self.streams {
            1 => String::new(),
            streams => format!(" × {streams}"),
        };
        format!("{}, {}{streams}", self.name, self.connections())
    }
}

/// Over HTTP/1.1, in cleartext and with TLS.
pub(super) fn http1(bench: &Bench) -> Result<Grid> {
    table(bench, "arena-http1", "HTTP/1.1", &HTTP1)
}

/// Over HTTP/2 with TLS.
pub(super) fn http2(bench: &Bench) -> Result<Grid> {
    table(bench, "arena-http2", "HTTP/2 and TLS 1.3", &HTTP2)
}

/// Over HTTP/3.
pub(super) fn http3(bench: &Bench) -> Result<Grid> {
    table(bench, "arena-http3", "HTTP/3", &HTTP3)
}

fn table(bench: &Bench, name: &str, over: &str, profiles: &[Profile]) -> Result<Grid> {
    let data = data::make(&bench.work.join("arena/data"))?;
    let chosen = profiles.iter().filter(|profile| bench.wants(profile.name));
    let rows = chosen.map(|profile| row(bench, profile, &data)).collect();
    let what = format!(
        "HttpArena's profiles over {over} (`bench/README.md`), with 1/{FACTOR} of HttpArena's least number of connections, and \
         behind × the requests at a time on each. {}",
        servers::versions(bench)
    );
    // HTTP/3 is not a part of every nginx.
    let base = if over == "HTTP/3" && bench.nginx_root.is_none() { "caddy" } else { "nginx" };
    let [name, corner, base] = [name, "profile, connections", base].map(str::to_owned);
    let columns = SERVERS.map(|kind| kind.name().to_owned()).to_vec();
    Ok(Grid { name, what, corner, base, columns, rows })
}

fn row(bench: &Bench, profile: &Profile, data: &Data) -> grid::Line {
    let body_bytes = match profile.asks {
        // At the end of a round some have come in part.
        Asks::Files => data::mean_bytes(data) * 9 / 10,
        Asks::Json => 100,
        _ => 1,
    };
    let way = |kind: Kind| {
        let started = servers::start(bench, kind, profile, data);
        let accepted = if kind == Kind::H2o { ACCEPTED_BY_ORDER } else { ACCEPTED };
        let checked = |server: &Running| check::check(bench, server, profile, (data, accepted));
        let server = started.and_then(|server| checked(&server).map(|()| server));
        // What a server says of its configuration is kept as the reason.
        let server = server.map_err(|error| bench.without_places(&error.to_string()).into());
        Way { server, path: accepted.to_owned(), body_bytes }
    };
    let ways = SERVERS.map(way).into();
    grid::measure_with(bench, &profile.label(), None, ways, &|server, accepted| {
        generate(bench, server, profile, accepted)
    })
}

/// One round of the generator for the profile's protocol.
fn generate(bench: &Bench, server: &Running, profile: &Profile, accepted: &str) -> Result<Round> {
    let (connections, paths) = (profile.connections(), profile.paths());
    match profile.protocol {
        Protocol::Http1 | Protocol::Http1Tls => {
            let (script, path) = profile.script(accepted);
            load::round(bench, server, load::Asked { path, script, connections, close: false })
        }
        Protocol::Http2 | Protocol::Http2Tls => load::round_with(server, || {
            let (first, others) = paths.split_first().ok_or("no path")?;
            let mut further = vec!["-H".to_owned(), format!("accept-encoding: {accepted}")];
            further.extend(others.iter().map(|path| server.url(path)));
            let length = Length::Seconds(bench.seconds);
            h2load::run_with(bench, &server.url(first), (connections, profile.streams), length, &further)
        }),
        Protocol::Http3 => {
            let [connections, streams] = [connections, profile.streams].map(|number| number.to_string());
            let (duration, codings) = (format!("{}s", bench.seconds), format!("accept-encoding: {accepted}"));
            let mut words = vec!["repeat", "--http3", "--insecure", "-c", &connections, "-s", &streams];
            words.extend(["--duration", &duration, "-H", &codings]);
            words.extend(paths.iter().map(String::as_str));
            Ok(replay::load(bench, server, &words)?.0)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_generator_asks_for_all_pairs() {
        let script = include_str!("../../../../wrk/arena-json.lua");
        let pairs: Vec<String> =
            PAIRS.iter().map(|(count, factor)| format!("{{ {count}, {factor} }}")).collect();
        assert!(script.contains(&pairs.join(", ")), "{pairs:?}");
    }

    #[test]
    fn rows_say_how_many_connections_there_are() {
        let labels: Vec<String> = HTTP1.iter().chain(&HTTP2).chain(&HTTP3).map(Profile::label).collect();
        assert_eq!(labels[..3], ["baseline, 64", "pipelined, 64 × 16", "limited-conn, 64"]);
        assert_eq!(labels[7..9], ["static-h2, 32 × 32", "baseline-h3, 8 × 64"]);
    }
}
