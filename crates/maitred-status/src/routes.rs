//! What each route has answered.
//!
//! Plans are numbered in the order of the configuration: 0 is what belongs to no site; then comes each site, once for what none
//! of its routes matches, and once for each route. The router numbers them in the same order, which its tests hold it to.

use serde_json::{Value, json};

use super::fields::Kind;
use super::latency::{Timing, TimingFacts, Took};
use super::scoreboard::Cell;
use maitred_config::{Config, PathPattern, Pool, Route, Site, Target};

/// Routes that are counted, and shown; those that the configuration has after them are not. Each that has answered is 24 series
/// of metrics, or 6144 in all, which stay below four megabytes, whatever routes are called (a test); a thread's rows are 48 KiB.
pub(crate) const ROUTES_SHOWN_MAX: usize = 256;

/// Characters of the name of a route that are shown: it may have any number of patterns.
const NAME_CHARS_MAX: usize = 120;

/// What one thread has answered for one plan; written by that thread.
#[derive(Debug, Default)]
#[repr(align(64))]
pub struct RouteRow {
    /// Responses, by class of status: index 0 is 1xx, 4 is 5xx.
    responses: [Cell; 5],
    /// Bytes of their bodies.
    body_bytes: Cell,
    /// How long they took.
    timing: Timing,
}

impl RouteRow {
    /// One request has ended.
    pub fn ended(&self, took: &Took) {
        self.timing.add(took);
    }

    /// One response more.
    pub fn answered(&self, status: u16) {
        if let Some(cell) = class_of(status).and_then(|class| self.responses.get(class)) {
            cell.add(1);
        }
    }

    /// So many bytes of a body more.
    pub fn sent(&self, body_bytes: u64) {
        self.body_bytes.add(body_bytes);
    }
}

/// The class by which a response is counted, 0 for 1xx. What is beyond 599 counts as 5xx, for which clients have to take it
/// (9110-15).
pub fn class_of(status: u16) -> Option<usize> {
    usize::from(status / 100).min(5).checked_sub(1)
}

/// The rows of all threads.
#[derive(Debug)]
pub struct RouteTable {
    names: Vec<RouteName>,
    threads: Vec<Box<[RouteRow]>>,
}

impl RouteTable {
    /// Rows of zeros for the routes of a configuration.
    pub fn new(config: &Config, threads: usize) -> RouteTable {
        let mut names = names(config);
        names.truncate(ROUTES_SHOWN_MAX);
        let rows = || names.iter().map(|_| RouteRow::default()).collect();
        RouteTable { threads: (0..threads).map(|_| rows()).collect(), names }
    }

    /// The rows of one thread, by the number of the plan.
    pub fn of(&self, thread: usize) -> &[RouteRow] {
        self.threads.get(thread).map_or(&[], |rows| rows)
    }

    /// How long the requests of each route took.
    pub fn timings(&self) -> Vec<TimingFacts> {
        let one = |number: usize| {
            let mut facts = TimingFacts::default();
            let rows = self.threads.iter().filter_map(|rows| rows.get(number));
            rows.for_each(|row| row.timing.add_to(&mut facts));
            facts
        };
        (0..self.names.len()).map(one).collect()
    }

    /// What all threads have answered.
    pub fn facts(&self) -> Vec<RouteFacts> {
        let one = |(number, name): (usize, &RouteName)| {
            let mut facts = RouteFacts { name: name.clone(), ..RouteFacts::default() };
            for row in self.threads.iter().filter_map(|rows| rows.get(number)) {
                for (sum, cell) in facts.responses.iter_mut().zip(&row.responses) {
                    *sum = sum.wrapping_add(cell.get());
                }
                facts.body_bytes = facts.body_bytes.wrapping_add(row.body_bytes.get());
                row.timing.add_to(&mut facts.timing);
            }
            facts
        };
        self.names.iter().enumerate().map(one).collect()
    }
}

/// How a route is called.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RouteName {
    /// The first host of its site, or `*`; `-` for what belongs to no site.
    pub site: String,
    /// The route's place among the routes of its site, counted from 1; 0 for what none of them matches.
    pub number: usize,
    /// The paths and methods of the route.
    pub route: String,
    /// What answers.
    pub target: String,
}

/// What a route has answered.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RouteFacts {
    /// Which route.
    pub name: RouteName,
    /// Responses by class of status.
    pub responses: [u64; 5],
    /// Bytes of their bodies.
    pub body_bytes: u64,
    /// How long they took.
    pub timing: TimingFacts,
}

impl RouteFacts {
    /// All its responses.
    pub(crate) fn all(&self) -> u64 {
        self.responses.iter().fold(0, |sum, count| sum.wrapping_add(*count))
    }
}

/// Name, kind, help, key in JSON, of what metrics say of routes.
pub(super) const METRICS: [(&str, Kind, &str, &str); 4] = [
    (
        "maitred_route_responses_total",
        Kind::Counter,
        "Responses of a route, by class of status.",
        "responses",
    ),
    (
        "maitred_route_body_bytes_total",
        Kind::Counter,
        "Bytes of bodies of a route's responses.",
        "body_bytes",
    ),
    (
        "maitred_route_queue_seconds_total",
        Kind::Counter,
        "Time that requests of a route have waited for a process or a server.",
        "recent.mean_queue_us",
    ),
    (
        "maitred_route_answer_seconds_total",
        Kind::Counter,
        "Time that processes and servers took for requests of a route.",
        "recent.mean_answer_us",
    ),
];

/// The histogram of how long requests of a route take: name and help.
pub(super) const TOOK: (&str, &str) = (
    "maitred_route_request_seconds",
    "Time from the first byte of a request of a route to the end of its response.",
);

/// Classes of status, as labels.
pub(super) const CLASSES: [&str; 5] = ["1xx", "2xx", "3xx", "4xx", "5xx"];

/// `recent`: the last minutes.
pub(super) fn json((facts, recent): (&RouteFacts, &TimingFacts)) -> Value {
    let responses =
        CLASSES.into_iter().zip(facts.responses).map(|(class, count)| (class.to_owned(), count.into()));
    json!({
        "site": facts.name.site,
        "number": facts.name.number,
        "route": facts.name.route,
        "target": facts.name.target,
        "responses": responses.collect::<serde_json::Map<_, Value>>(),
        "body_bytes": facts.body_bytes,
        "recent": recent.json(),
    })
}

/// The names of all plans, in the order of their numbers.
pub(crate) fn names(config: &Config) -> Vec<RouteName> {
    let mut names =
        vec![RouteName { site: "-".into(), number: 0, route: "no site".into(), target: "error".into() }];
    for site in &config.sites {
        let name = site_name(config, site);
        let nothing =
            RouteName { site: name.clone(), number: 0, route: "no route".into(), target: "error".into() };
        names.push(nothing);
        for (number, route) in (1..).zip(&site.routes) {
            let (route, target) = (route_name(route), target_name(&route.target, &config.pools));
            names.push(RouteName { site: name.clone(), number, route, target });
        }
    }
    names
}

/// The first name of a site. Several may have the same one, at different listeners, which tell them apart.
fn site_name(config: &Config, site: &Site) -> String {
    let name = site.hosts.first().map_or_else(|| "*".to_owned(), ToString::to_string);
    let first = site.listens.iter().flatten().next();
    match first.and_then(|index| config.listens.get(usize::from(*index))) {
        Some(listen) => {
            let place = listen.name.clone().unwrap_or_else(|| listen.address.to_string());
            format!("{name}@{place}")
        }
        None => name,
    }
}

fn route_name(route: &Route) -> String {
    let mut parts = route.methods.clone();
    match &route.path_regex {
        Some(regex) => parts.push(format!("~ {regex}")),
        None => parts.extend(route.patterns.iter().map(pattern)),
    }
    parts.join(" ").chars().take(NAME_CHARS_MAX).collect()
}

fn pattern(pattern: &PathPattern) -> String {
    match pattern {
        PathPattern::All => "*".to_owned(),
        PathPattern::Exact(path) => path.clone(),
        PathPattern::Prefix(start) => format!("{start}*"),
        PathPattern::Suffix(end) => format!("*{end}"),
        PathPattern::Glob(pieces) => pieces.join("*"),
    }
}

fn target_name(target: &Target, pools: &[Pool]) -> String {
    match target {
        Target::Files(_) => "files".to_owned(),
        Target::Redirect { status, .. } => format!("redirect {status}"),
        Target::Respond { status, .. } => format!("respond {status}"),
        Target::Pool(number) => {
            pools.get(*number).map_or_else(String::new, |pool| format!("pool {}", pool.name))
        }
        Target::Reroute(_) => "reroute".to_owned(),
        Target::Modules => "module".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use maitred_config::{Origin, System, read};

    const SITES: &str = r#"
[server]
share_user = true

[[listen]]
address = "127.0.0.1:0"

[[listen]]
name = "inside"
address = "127.0.0.1:0"

[[site]]
hosts = ["a.test", "b.test"]
[[site.route]]
path = ["/api/*", "/v1"]
methods = ["GET"]
respond = { status = 204 }
[[site.route]]
path = "*.php"
redirect = "/"
status = 301

[[site]]
hosts = ["*.c.test"]
[[site.route]]
path = "*"
respond = { status = 404 }

[[site]]
hosts = ["d.test"]
listen = "inside"
[[site.route]]
path = "*"
respond = { status = 404 }
"#;

    fn config() -> Config {
        let origin = Origin { name: "test.toml".into(), base: "/".into() };
        read(SITES, &origin, &System).unwrap().0
    }

    #[test]
    fn routes_are_named_in_the_order_of_the_configuration() {
        let table = RouteTable::new(&config(), 2);
        let said: Vec<_> = table
            .facts()
            .into_iter()
            .map(|one| format!("{} {}: {}", one.name.site, one.name.route, one.name.target))
            .collect();
        let expected = [
            "- no site: error",
            "a.test no route: error",
            "a.test GET /api/* /v1: respond 204",
            "a.test *.php: redirect 301",
            "*.c.test no route: error",
            "*.c.test *: respond 404",
            "d.test@inside no route: error",
            "d.test@inside *: respond 404",
        ];
        assert_eq!(said, expected);
    }

    #[test]
    fn threads_are_added_up() {
        let table = RouteTable::new(&config(), 2);
        for (thread, status) in [(0, 204), (1, 204), (1, 503), (1, 99), (7, 200)] {
            if let Some(row) = table.of(thread).get(2) {
                row.answered(status);
                row.sent(10);
            }
        }
        let facts = &table.facts()[2];
        assert_eq!((facts.responses, facts.body_bytes, facts.all()), ([0, 2, 0, 0, 1], 40, 3));
    }
}
