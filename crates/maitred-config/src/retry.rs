//! `retry` of a pool: which requests are sent to another server.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::keys::{Default, Key, Kind, Table};

/// `retry`
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Retry {
    /// `on`: nothing of the request has reached the server.
    pub unreachable: bool,
    /// `on`: the connection ended without an answer.
    pub broken: bool,
    /// `on`: no answer came in time.
    pub timeout: bool,
    /// `on`: statuses of answers, 400 to 599.
    pub statuses: Vec<u16>,
    /// `methods` that may be sent twice.
    pub methods: Vec<String>,
    /// `attempts`: connections that one request may be sent over.
    pub attempts: u8,
    /// `budget`: retries in percent of the requests.
    pub budget_percent: u8,
    /// `per_try_timeout`: how long a server has to begin with its response.
    pub per_try_timeout: Option<Duration>,
}

impl std::default::Default for Retry {
    fn default() -> Retry {
        Retry {
            unreachable: true,
            broken: true,
            timeout: false,
            statuses: Vec::new(),
            methods: METHODS.iter().map(|method| (*method).to_owned()).collect(),
            attempts: ATTEMPTS as u8,
            budget_percent: BUDGET_PERCENT as u8,
            per_try_timeout: None,
        }
    }
}

/// The safe methods (9110-9.2.1) that have an answer worth a second attempt.
const METHODS: &[&str] = &["GET", "HEAD", "OPTIONS"];
/// One connection that was idle, and three servers.
const ATTEMPTS: u64 = 4;
/// What others take: it hides single servers that fail, and adds little to a pool that fails as a whole.
const BUDGET_PERCENT: u64 = 20;

/// `retry`
pub(super) const RETRY_KEY: Key = Key::new(
    "retry",
    Kind::Section(&RETRY),
    Default::Absent("all defaults"),
    "Which requests are sent to another server of the pool when one has failed.",
);

/// `retry`
pub(super) const RETRY: Table = Table {
    title: "retry",
    doc: "Requests to external servers that are sent to another server. A request of which the client has received something of the \
          response, or whose body is not kept here, is never retried. See [balancing](balancing.md#retries).",
    example: "[pool.app]\nconnect = [\"http://127.0.0.1:8000\", \"http://127.0.0.1:8001\"]\n\
              retry = { on = [\"unreachable\", \"broken\", \"timeout\", \"503\"], per_try_timeout = \"5s\", budget_percent = 10 }\n",
    keys: &[
        Key::new(
            "on",
            Kind::Texts(
                "`\"unreachable\"`, `\"broken\"`, `\"timeout\"`, or a status from `\"400\"` to `\"599\"`",
            ),
            Default::Texts(&["unreachable", "broken"]),
            "What a request is retried for. `\"unreachable\"`: nothing of it has reached the server, so that any method is retried. \
             `\"broken\"`: the connection ended without an answer. `\"timeout\"`: no answer came in time. A status: the server has \
             answered with it, and there is another one to try; otherwise the client gets that answer.",
        ),
        Key::new(
            "methods",
            Kind::Texts("methods"),
            Default::Texts(METHODS),
            "Methods that may be sent twice. With others a request that a server may have read is not retried.",
        ),
        Key::new(
            "attempts",
            Kind::Whole { min: 1, max: 16 },
            Default::Whole(ATTEMPTS),
            "Connections that one request may be sent over, or that are tried for it. One that the server has closed while it was idle \
             does not count.",
        ),
        Key::new(
            "budget_percent",
            Kind::Whole { min: 0, max: 100 },
            Default::Whole(BUDGET_PERCENT),
            "Retries of requests that a server may have read, in percent of the requests that a thread has sent to the pool in the last \
             10 seconds, besides 10 in any case. So servers that fail do not get many times the load. 0: none.",
        ),
        Key::new(
            "per_try_timeout",
            Kind::Time { min: Duration::from_millis(1), max: Duration::from_secs(60 * 60) },
            Default::Absent("`connect_timeout`, then `request_timeout`"),
            "How long a server has, from the choice of it to the beginning of its response, before that counts as `\"timeout\"`; \
             or as `\"unreachable\"`, if there is no connection yet.",
        ),
    ],
};
