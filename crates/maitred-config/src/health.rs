//! `health` of a pool: how its servers are checked.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::keys::{Default, Key, Kind, Table};

/// `health`: what a server is asked, how often, and what follows.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Health {
    /// What it is asked.
    pub question: Question,
    /// `port`: where it is asked, if not where requests go.
    pub port: Option<u16>,
    /// `interval`: from the beginning of a check to that of the next one.
    pub interval: Duration,
    /// `timeout`: how long a whole check may take.
    pub timeout: Duration,
    /// `healthy_after`: good checks in a row that an unwell server takes to be well.
    pub healthy_after: u32,
    /// `unhealthy_after`: failed ones in a row that a well server takes to be unwell.
    pub unhealthy_after: u32,
}

/// What a server is asked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Question {
    /// For a response of HTTP.
    Http {
        /// `method`
        method: String,
        /// `path`, with a query if there is one.
        path: String,
        /// `host`: what `Host` says; `None` is the server's own.
        host: Option<String>,
        /// `statuses`: ranges of good ones, with both ends.
        statuses: Vec<(u16, u16)>,
        /// `body_contains`: what is somewhere in the first [`Health::BODY_BYTES_MAX`] of the body; empty for any body.
        contains: String,
    },
    /// For a connection; over TLS for a handshake.
    Tcp,
    /// `grpc.health.v1.Health/Check`.
    Grpc {
        /// `service`: empty for the whole server.
        service: String,
    },
}

impl Health {
    /// Bytes of `path`: as much as any server takes.
    pub const PATH_BYTES_MAX: usize = 2048;
    /// What is read of a body.
    pub const BODY_BYTES_MAX: usize = 64 * 1024;
    /// Bytes of `body_contains`.
    pub const CONTAINS_BYTES_MAX: usize = 1024;
    /// Bytes of `service`: names of gRPC are not longer.
    pub const SERVICE_BYTES_MAX: usize = 255;
}

const HUNDRED_MS: Duration = Duration::from_millis(100);
const SECOND: Duration = Duration::from_secs(1);
const HOUR: Duration = Duration::from_secs(60 * 60);

/// `health`
pub(super) const HEALTH_KEY: Key = Key::new(
    "health",
    Kind::Section(&HEALTH),
    Default::Absent("servers are not checked"),
    "Checks of the servers, besides what requests show.",
);

/// `health`
pub(super) const HEALTH: Table = Table {
    title: "health",
    doc: "Checks of the servers of a pool, by a process of their own: one that fails them gets no requests. See \
          [balancing](balancing.md#checks).",
    example: "[pool.app]\nconnect = [\"http://10.0.0.1:80\", \"http://10.0.0.2:80\"]\nhealth = { path = \"/healthz\" }\n",
    keys: &[
        Key::new(
            "kind",
            Kind::Choice(&["http", "tcp", "grpc"]),
            Default::Absent("`\"http\"`; for FastCGI `\"tcp\"`"),
            "What a server is asked. `\"http\"`: for a response with one of `statuses`. `\"tcp\"`: for a connection, and with `https://` \
             for a handshake. `\"grpc\"`: by `grpc.health.v1.Health/Check` whether it serves; for servers of HTTP/2.",
        ),
        Key::new(
            "path",
            Kind::Text("a path, with a query if one is wanted"),
            Default::Text("/"),
            "What is asked for, with `kind = \"http\"`.",
        ),
        Key::new(
            "method",
            Kind::Choice(&["GET", "HEAD", "OPTIONS"]),
            Default::Text("GET"),
            "The method of that request.",
        ),
        Key::new(
            "host",
            Kind::Text("a host"),
            Default::Absent("host and port in `connect`"),
            "What `Host` says in it.",
        ),
        Key::new(
            "statuses",
            Kind::TextOrTexts("`\"200\"` or `\"200-299\"`"),
            Default::Texts(&["200-399"]),
            "The statuses of a good response.",
        ),
        Key::new(
            "body_contains",
            Kind::Text("text"),
            Default::Text(""),
            "What has to stand in the body of that response, within its first 64 KiB. Empty: any body is good.",
        ),
        Key::new(
            "port",
            Kind::Whole { min: 1, max: 65_535 },
            Default::Absent("that of the server"),
            "The port of the server's address where it is asked: for one that says elsewhere how it is. With `proxy_protocol`, such \
             a check begins without a header. Servers on Unix sockets are asked there.",
        ),
        Key::new(
            "service",
            Kind::Text("the name of a service"),
            Default::Text(""),
            "With `kind = \"grpc\"`: the service that is asked about; all of the server, if it is empty.",
        ),
        Key::new(
            "interval",
            Kind::Time { min: HUNDRED_MS, max: HOUR },
            Default::Time(SECOND.saturating_mul(5)),
            "From the beginning of a check to that of the next one. A check that takes longer delays the next one.",
        ),
        Key::new(
            "timeout",
            Kind::Time { min: Duration::from_millis(10), max: SECOND.saturating_mul(60) },
            Default::Time(SECOND.saturating_mul(2)),
            "How long a check may take, from the connection to the end of the response.",
        ),
        Key::new(
            "healthy_after",
            Kind::Whole { min: 1, max: 100 },
            Default::Whole(2),
            "Good checks in a row that it takes until a server that was out gets requests again.",
        ),
        Key::new(
            "unhealthy_after",
            Kind::Whole { min: 1, max: 100 },
            Default::Whole(3),
            "Failed checks in a row that it takes until a server gets no requests. Until its first check, a server is taken to be well.",
        ),
    ],
};
