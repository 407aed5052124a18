//! How requests are spread over the servers of a pool.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::keys::{Default as Absent, Key, Kind, Table};

/// What a pool says about the choice among its servers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Balancing {
    /// `balance`
    pub balance: Balance,
    /// `hash_key`
    pub hash_key: HashKey,
    /// `slow_start`; zero for none.
    pub slow_start: Duration,
    /// `panic`: percent.
    pub panic_percent: u8,
    /// `outliers`
    pub outliers: Option<Outliers>,
    /// `sticky`
    pub sticky: Option<ServerCookie>,
    /// What the entries of `connect` say, in their order.
    pub servers: Vec<ServerSettings>,
}

impl Default for Balancing {
    fn default() -> Balancing {
        Balancing {
            balance: Balance::LeastRequests,
            hash_key: HashKey::Client,
            slow_start: Duration::ZERO,
            panic_percent: Balancing::PANIC_PERCENT,
            outliers: None,
            sticky: None,
            servers: Vec::new(),
        }
    }
}

impl Balancing {
    /// If more servers than half are out by judgement, the judgement is rather wrong: a check that asks for what is not there, or
    /// a database behind all of them.
    pub const PANIC_PERCENT: u8 = 50;
}

/// `balance`
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Balance {
    /// The server with the fewest requests under way.
    LeastRequests,
    /// Each in turn.
    RoundRobin,
    /// The one that is expected to answer first.
    LeastTime,
    /// By a hash of the request's key.
    Hash,
}

/// `hash_key`: what a request is hashed by.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum HashKey {
    /// `"client"`: its address.
    Client,
    /// `"uri"`: its path and query.
    Uri,
    /// `"header:NAME"`, in small letters.
    Header(String),
    /// `"cookie:NAME"`
    Cookie(String),
    /// `"query:NAME"`: a parameter.
    Query(String),
}

/// What an entry of `connect` says besides the address.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServerSettings {
    /// `weight`
    pub weight: u16,
    /// `backup`
    pub backup: bool,
    /// `max_connections`
    pub max_connections: Option<u32>,
}

impl Default for ServerSettings {
    fn default() -> ServerSettings {
        ServerSettings { weight: 1, backup: false, max_connections: None }
    }
}

/// `sticky` of a pool of servers: the cookie that names one.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServerCookie {
    /// `cookie`: its name.
    pub name: String,
    /// What servers are hashed with: made of `secret`, or of what the machine has.
    pub key: [u64; 2],
}

impl std::fmt::Debug for ServerCookie {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "ServerCookie({})", self.name)
    }
}

/// `outliers`: when a server is ejected for its responses.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Outliers {
    /// `errors`: bad responses in a row.
    pub errors: u32,
    /// `time`: for how long the first time; each time in a row that long more.
    pub time: Duration,
    /// `time_max`
    pub time_max: Duration,
}

const SECOND: Duration = Duration::from_secs(1);
const HOUR: Duration = Duration::from_secs(60 * 60);

/// A table in `connect`.
pub(super) const SERVER: Table = Table {
    title: "connect[]",
    doc: "A server of a pool, with what is said of it besides its address. See [balancing](balancing.md).",
    example: "[pool.app]\nconnect = [\"http://10.0.0.1:80\", { url = \"http://10.0.0.2:80\", weight = 3 }]\n",
    keys: &[
        Key::new("url", Kind::Text("as a string of `connect`"), Absent::Required, "Where it listens."),
        Key::new(
            "weight",
            Kind::Whole { min: 1, max: 1000 },
            Absent::Whole(1),
            "Its share of the requests, of the weights of all servers.",
        ),
        Key::new(
            "backup",
            Kind::Flag,
            Absent::Flag(false),
            "It gets requests only when all servers that are no backups are out.",
        ),
        Key::new(
            "max_connections",
            Kind::Whole { min: 1, max: 1_000_000 },
            Absent::Absent("any number"),
            "Requests that it may have at a time, over all threads. When all servers have as many as they may have, further \
             requests wait (`queue` of the pool).",
        ),
    ],
};

/// `balance`
pub(super) const BALANCE: Key = Key::new(
    "balance",
    Kind::Choice(&["least_requests", "round_robin", "least_time", "hash"]),
    Absent::Text("least_requests"),
    "Which of several servers gets a request. `\"least_requests\"`: the one with the fewest for its weight; of more than eight, the \
     better of two that are drawn. `\"round_robin\"`: each in turn. `\"least_time\"`: the one that is expected to answer first, by \
     its requests and their mean latency. `\"hash\"`: the one that `hash_key` leads to, unless it has a quarter more than its share.",
);

/// `hash_key`
pub(super) const HASH_KEY: Key = Key::new(
    "hash_key",
    Kind::Text("`\"client\"`, `\"uri\"`, `\"header:NAME\"`, `\"cookie:NAME\"` or `\"query:NAME\"`"),
    Absent::Text("client"),
    "With `balance = \"hash\"`: what a request is hashed by. `\"client\"`: the address (of IPv6: its network with 64 bits; behind a \
     proxy in `trusted_proxies`, the address that it names). A request without that field, cookie or parameter goes by the address.",
);

/// `slow_start`
pub(super) const SLOW_START: Key = Key::new(
    "slow_start",
    Kind::Time { min: Duration::ZERO, max: HOUR },
    Absent::Time(Duration::ZERO),
    "How long the share of a server rises that is added, or comes back, while others are there: from a tenth to all of it. It has \
     no meaning for `balance = \"hash\"`.",
);

/// `panic`
pub(super) const PANIC: Key = Key::new(
    "panic",
    Kind::Whole { min: 0, max: 100 },
    Absent::Whole(Balancing::PANIC_PERCENT as u64),
    "Percent of the servers: if `health` and `outliers` have more than so many out, that is not believed, and all get requests. 100: it \
     always is. A server that cannot be reached gets none in any case.",
);

/// `outliers`
pub(super) const OUTLIERS_KEY: Key = Key::new(
    "outliers",
    Kind::Section(&OUTLIERS),
    Absent::Absent("a server is out only when it cannot be reached, or aborts requests"),
    "When a server is out for what it answers.",
);

/// `outliers`
pub(super) const OUTLIERS: Table = Table {
    title: "outliers",
    doc: "A server of a pool whose responses are errors gets no requests for a while. See [balancing](balancing.md).",
    example: "[pool.app]\nconnect = [\"http://10.0.0.1:80\", \"http://10.0.0.2:80\"]\noutliers = { errors = 5 }\n",
    keys: &[
        Key::new(
            "errors",
            Kind::Whole { min: 1, max: 10_000 },
            Absent::Whole(5),
            "Responses in a row with a status of 500 and more, over all threads.",
        ),
        Key::new(
            "time",
            Kind::Time { min: SECOND, max: HOUR },
            Absent::Time(Duration::from_secs(30)),
            "For how long the first time; each time in a row that long more.",
        ),
        Key::new(
            "time_max",
            Kind::Time { min: SECOND, max: HOUR },
            Absent::Time(Duration::from_secs(300)),
            "The longest such time.",
        ),
    ],
};
