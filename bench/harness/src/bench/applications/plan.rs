//! What a file of `bench/apps` says: an application, what it is asked for, and the servers that it runs in.

use std::collections::BTreeMap;
use std::path::Path;

use serde::Deserialize;

use super::super::handoff::SIZES_OF_ADAPTERS;
use super::super::protocol::Protocol;
use crate::Result;

/// An application. Commands are lists of words, in which names in braces stand for what the machine has there
/// ([`super::start::Place::fill`]).
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Plan {
    #[serde(default)]
    pub(super) needs: Needs,
    /// Prints the version of the framework; the first one of the output counts.
    #[serde(default)]
    pub(super) version: Vec<String>,
    /// Of all processes.
    #[serde(default)]
    pub(super) environment: BTreeMap<String, String>,
    /// Runs to its end before each start of a process.
    #[serde(default)]
    pub(super) before: Vec<String>,
    /// A path that is asked for to see whether a server answers.
    pub(super) ready: String,
    /// A path with `{bytes}`, for a load of each size of the adapters.
    sizes: Option<String>,
    #[serde(default)]
    load: Vec<Load>,
    #[serde(default)]
    pub(super) server: Vec<Server>,
    #[serde(default)]
    pub(super) maitred: Vec<Pool>,
}

/// What has to be installed or built first.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Needs {
    #[default]
    Nothing,
    Python,
    Node,
    Go,
}

/// What clients ask for.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Load {
    pub(super) name: String,
    pub(super) path: String,
    /// The least that a response has.
    pub(super) bytes: u64,
    /// Whether this is asked for over HTTP/2, too.
    #[serde(default)]
    pub(super) http2: bool,
}

/// A server that listens by itself: alone, and behind fronts.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Server {
    pub(super) name: String,
    #[serde(default)]
    pub(super) version: Vec<String>,
    /// What a reader has to know of the command.
    #[serde(default)]
    pub(super) options: String,
    pub(super) command: Vec<String>,
    /// Further words, for a port of loopback.
    #[serde(default)]
    pub(super) port: Vec<String>,
    /// For a Unix socket; a server without any is reached at a port by fronts, too.
    #[serde(default)]
    pub(super) socket: Vec<String>,
    /// For a port with TLS and HTTP/2; a server without any does not speak that.
    #[serde(default)]
    pub(super) tls: Vec<String>,
    #[serde(default)]
    pub(super) fronts: Vec<Front>,
}

/// What stands in front of a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Front {
    Nginx,
    Caddy,
    /// As a proxy.
    Maitred,
}

/// A pool of Maitred, of one process.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Pool {
    pub(super) name: String,
    #[serde(default)]
    pub(super) version: Vec<String>,
    #[serde(default)]
    pub(super) options: String,
    pub(super) command: Vec<String>,
    #[serde(default = "automatic")]
    pub(super) transports: Vec<String>,
}

fn automatic() -> Vec<String> {
    vec![AUTO.to_owned()]
}

/// The transport that Maitred chooses, which is the only one where it ends TLS and HTTP/2.
const AUTO: &str = "auto";

/// One way of running the application.
#[derive(Debug, Clone, Copy)]
pub(super) enum Way<'p> {
    Alone(&'p Server),
    Behind(Front, &'p Server),
    /// In a pool of Maitred, by a transport.
    Pooled(&'p Pool, &'p str),
}

impl Plan {
    pub(super) fn read(directory: &Path, name: &str) -> Result<Plan> {
        let path = directory.join(format!("{name}.toml"));
        let text = std::fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        Ok(toml::from_str(&text).map_err(|error| format!("{}: {error}", path.display()))?)
    }

    /// Everything that is asked for over a protocol.
    pub(super) fn loads(&self, protocol: Protocol) -> Vec<Load> {
        let sized = |path: &String| {
            SIZES_OF_ADAPTERS.map(|(name, bytes)| Load {
                name: name.to_owned(),
                path: path.replace("{bytes}", &bytes.to_string()),
                bytes,
                http2: true,
            })
        };
        let all = self.sizes.iter().flat_map(sized).chain(self.load.iter().cloned());
        all.filter(|load| load.http2 || !protocol.is_http2()).collect()
    }

    /// All ways over a protocol, in the order in which they are shown.
    pub(super) fn ways(&self, protocol: Protocol) -> Vec<Way<'_>> {
        let http2 = protocol.is_http2();
        let alone = self.server.iter().filter(|server| !http2 || !server.tls.is_empty()).map(Way::Alone);
        let behind = |front: Front| {
            let servers = self.server.iter().filter(move |server| server.fronts.contains(&front));
            servers.map(move |server| Way::Behind(front, server))
        };
        let pooled = self.maitred.iter().flat_map(|pool| {
            let transports = pool.transports.iter().filter(|transport| !http2 || *transport == AUTO);
            transports.map(move |transport| Way::Pooled(pool, transport))
        });
        let fronts = [Front::Nginx, Front::Caddy, Front::Maitred];
        alone.chain(fronts.into_iter().flat_map(behind)).chain(pooled).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::applications::{APPLICATIONS, PROTOCOLS};

    fn apps() -> std::path::PathBuf {
        xtask::root().join("bench/apps")
    }

    #[test]
    fn every_file_is_read_and_has_something_to_compare() {
        for name in APPLICATIONS {
            let plan = Plan::read(&apps(), name).unwrap();
            let [ways, over_http2] = PROTOCOLS.map(|(protocol, ..)| plan.ways(protocol));
            assert!(ways.iter().any(|way| matches!(way, Way::Alone(_))), "{name}");
            for ways in [ways, over_http2] {
                assert!(ways.iter().any(|way| matches!(way, Way::Behind(Front::Nginx, _))), "{name}");
                let maitred =
                    |way: &&Way<'_>| matches!(way, Way::Pooled(..) | Way::Behind(Front::Maitred, _));
                assert!(ways.iter().any(|way| maitred(&way)), "{name}");
            }
            assert!(PROTOCOLS.iter().all(|(protocol, ..)| !plan.loads(*protocol).is_empty()), "{name}");
        }
    }

    #[test]
    fn every_file_is_named() {
        let mut found = Vec::new();
        for entry in std::fs::read_dir(apps()).unwrap() {
            let path = entry.unwrap().path();
            if path.extension().is_some_and(|ending| ending == "toml") {
                found.push(path.file_stem().unwrap().to_str().unwrap().to_owned());
            }
        }
        found.sort_unstable();
        let mut named = APPLICATIONS.map(str::to_owned);
        named.sort_unstable();
        assert_eq!(found, named);
    }

    #[test]
    fn over_http2_maitred_has_one_transport_and_servers_need_tls() {
        let text = r#"
            ready = "/"
            sizes = "/{bytes}"
            load = [{ name = "a", path = "/a", bytes = 1 }]
            [[server]]
            name = "cleartext only"
            command = ["a"]
            fronts = ["nginx"]
            [[maitred]]
            name = "pool"
            command = ["b"]
            transports = ["direct", "auto"]
        "#;
        let plan: Plan = toml::from_str(text).unwrap();
        let lengths = PROTOCOLS.map(|(protocol, ..)| (plan.ways(protocol).len(), plan.loads(protocol).len()));
        assert_eq!(lengths, [(4, 4), (2, 3)]);
        assert_eq!(plan.loads(Protocol::Http1)[1].path, "/102400");
    }
}
