//! `tls` of a pool: how its servers are spoken to over TLS.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::keys::{Default, Key, Kind, Table};

/// `tls` of a pool with `connect = "https://…"`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct UpstreamTls {
    /// `ca`: the authorities that its certificate has to lead to; `None`: those of the system.
    pub ca: Option<PathBuf>,
    /// `server_name`: the name that the certificate has to have, and that is asked for (SNI, RFC 6066 section 3). `None`: the
    /// host of its address.
    pub server_name: Option<String>,
    /// `verify`: whether the certificate has to be good for the name.
    pub verify: bool,
    /// `pins`: SHA-256 of the public key (SubjectPublicKeyInfo) of its certificate; one of these, unless there are none.
    pub pins: Vec<[u8; 32]>,
    /// `certificate` and `key`: what this server shows.
    pub identity: Option<(PathBuf, PathBuf)>,
    /// `http2`: whether HTTP/2 is asked for by ALPN, and nothing else is spoken.
    pub http2: bool,
}

impl std::default::Default for UpstreamTls {
    fn default() -> UpstreamTls {
        UpstreamTls {
            ca: None,
            server_name: None,
            verify: true,
            pins: Vec::new(),
            identity: None,
            http2: false,
        }
    }
}

/// `tls`
pub(super) const UPSTREAM_TLS_KEY: Key = Key::new(
    "tls",
    Kind::Section(&UPSTREAM_TLS),
    Default::Absent("all defaults"),
    "With `connect = \"https://…\"`: whose certificate is taken, and which one is shown.",
);

/// `tls` of a pool
pub(super) const UPSTREAM_TLS: Table = Table {
    title: "pool.tls",
    doc: "TLS towards the servers of a pool, as a client. See [proxies](proxies.md#tls).",
    example: "[pool.api]\nconnect = [\"https://10.0.0.5:8443\", \"https://10.0.0.6:8443\"]\n\
              tls = { server_name = \"api.internal\", ca = \"ca.pem\" }\n",
    keys: &[
        Key::new(
            "ca",
            Kind::Text("a file"),
            Default::Absent("the authorities of the system"),
            "The certificates, in PEM, of the authorities that the server's certificate has to lead to.",
        ),
        Key::new(
            "server_name",
            Kind::Text("a name, or an address"),
            Default::Absent("the host in `connect`"),
            "The name that the server is asked for (SNI), and that its certificate has to be good for.",
        ),
        Key::new(
            "verify",
            Kind::Flag,
            Default::Flag(true),
            "Whether the server's certificate is verified. Without it, everything that can get between can read and change what is \
             sent; `pins` are compared all the same.",
        ),
        Key::new(
            "pins",
            Kind::Texts("SHA-256 of a public key: `sha256/` and base64"),
            Default::Absent("any key"),
            "The public key of the server's certificate has to be one of these, besides what `verify` says. `openssl x509 -in FILE \
             -pubkey -noout | openssl pkey -pubin -outform der | openssl dgst -sha256 -binary | base64` makes one.",
        ),
        Key::new(
            "certificate",
            Kind::Text("a file"),
            Default::Absent("none"),
            "A certificate, and those that lead to its authority, in PEM, for servers that want one from their clients.",
        ),
        Key::new(
            "http2",
            Kind::Flag,
            Default::Flag(false),
            "Whether the servers are spoken to by HTTP/2, which the handshake asks for (ALPN): many requests share few connections. A \
             server that does not choose it is not used. Without TLS: `connect = \"h2://…\"`.",
        ),
        Key::new("key", Kind::Text("a file"), Default::Absent("none"), "The key of `certificate`, in PEM."),
    ],
};
