//! `[trace]`: distributed tracing.

use std::net::SocketAddr;

use serde::{Deserialize, Serialize};

use super::keys::{Default, Key, Kind, Table};

/// `[trace]`
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Trace {
    /// `sample`: one of so many traces that begin here is recorded; 1 is all.
    pub sample: u32,
    /// `parent`
    pub parent: Continued,
    /// `otlp`; `None`: nothing is reported.
    pub otlp: Option<Otlp>,
    /// `service`
    pub service: String,
}

/// `parent`: whose traces go on here.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Continued {
    /// `proxies`: those of `trusted_proxies`.
    Proxies,
    /// `any`: those of all clients.
    Any,
    /// `none`: every trace begins here.
    None,
}

/// `otlp`: where spans are sent, by HTTP.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Otlp {
    /// As it was given, for messages.
    pub url: String,
    /// Where the collector listens.
    pub address: SocketAddr,
    /// Host and port, for `Host`.
    pub host: String,
    /// The target of the requests.
    pub path: String,
}

/// Where collectors take spans (OTLP specification, "OTLP/HTTP Request").
pub(super) const OTLP_PATH: &str = "/v1/traces";
/// Where they listen if nothing else is said.
pub(super) const OTLP_PORT: u16 = 4318;

/// `[trace]`
pub(super) const TRACE: Table = Table {
    title: "[trace]",
    doc: "Distributed tracing: requests to pools carry `traceparent` (W3C Trace Context), and spans of requests can be sent to a \
          collector of OpenTelemetry. Off without this table. See [traces](traces.md).",
    example: "[trace]\nsample = 100\notlp = \"http://127.0.0.1:4318\"\n",
    keys: &[
        Key::new(
            "sample",
            Kind::Whole { min: 1, max: 1_000_000_000 },
            Default::Whole(1),
            "Of the traces that begin here, one of so many is recorded: 1 is all of them. `traceparent` tells applications.",
        ),
        Key::new(
            "parent",
            Kind::Choice(&["proxies", "any", "none"]),
            Default::Text("proxies"),
            "Whose traces go on here: those of `trusted_proxies`, which also decide whether they are recorded; those of any \
             client, where `sample` decides for all others; or none.",
        ),
        Key::new(
            "otlp",
            Kind::Text("a URL such as `\"http://127.0.0.1:4318\"`"),
            Default::Absent("no spans are sent"),
            "The collector that recorded spans are sent to, by OTLP over HTTP. Without a path, `/v1/traces` is meant; without a \
             port, 4318.",
        ),
        Key::new(
            "service",
            Kind::Text("a name"),
            Default::Text("maitred"),
            "What this server is called in traces (`service.name`).",
        ),
    ],
};
