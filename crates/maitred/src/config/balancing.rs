//! How requests are spread over the servers of a pool.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// What a pool says about the choice among its servers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Balancing {
    /// `balance`
    pub balance: Balance,
    /// `slow_start`; zero for none.
    pub slow_start: Duration,
    /// `panic`: percent.
    pub panic_percent: u8,
    /// `outliers`
    pub outliers: Option<Outliers>,
    /// What the entries of `connect` say, in their order.
    pub servers: Vec<ServerSettings>,
}

impl Default for Balancing {
    fn default() -> Balancing {
        Balancing {
            balance: Balance::LeastRequests,
            slow_start: Duration::ZERO,
            panic_percent: Balancing::PANIC_PERCENT,
            outliers: None,
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
