//! The servers of each pool as they are now. Pure: what is known goes in, complete lists come out.
//!
//! | from | what |
//! |---|---|
//! | the configuration | addresses in `connect`, as they were read |
//! | names | what names in `connect` lead to, as the names agent ([`maitred_agents::names`]) has said last |
//! | a file | `endpoints`, as it was last read |
//! | checks | which of them are unwell, as the checks agent ([`maitred_agents::checks`]) has said last |
//! | commands | servers that were added, drained, removed or given another weight, until a reset |
//!
//! An address stands once in a list, as the first source in this order says it. Commands are by pool name, and stay over reloads
//! and upgrades: a pool that is missing in a configuration and comes back in a later one has forgotten them.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use maitred_base::bounds::SERVERS_MAX;
use maitred_config::{Address, Config, Found, Name, Pool, Query};
use maitred_control::servers::{ServerEntry, ServerList, ServerState, UpstreamCommand};

/// The longest name of a host (RFC 1035 section 2.3.4).
const TARGET_BYTES_MAX: usize = 253;

/// See the module.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Endpoints {
    /// Of the last list that was sent.
    revision: u64,
    /// What was commanded, by the name of the pool.
    changes: BTreeMap<String, Changes>,
    /// What names lead to, if that was said.
    names: Vec<(Query, Vec<Found>)>,
    /// What stands in files.
    files: Vec<(PathBuf, Vec<ServerEntry>)>,
    /// Servers whose checks fail, by the name of the pool, and why. At most [`SERVERS_MAX`] of each.
    #[serde(default)]
    unwell: BTreeMap<String, Vec<(Address, String)>>,
}

/// What was commanded about one pool. Each of its lists has at most [`SERVERS_MAX`] entries.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Changes {
    added: Vec<ServerEntry>,
    drained: Vec<Address>,
    removed: Vec<Address>,
    weights: Vec<(Address, u16)>,
}

/// Where a server of a list is from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum From {
    /// The configuration.
    Configuration,
    /// A name that was resolved.
    Name,
    /// A file.
    File,
    /// A command.
    Command,
}

impl Endpoints {
    /// The servers of a pool of any configuration, each with where it is from. None for a pool without servers.
    pub fn servers(&self, pool: &Pool) -> Option<Vec<(ServerEntry, From)>> {
        let none = Changes::default();
        let changes = self.changes.get(&pool.name).unwrap_or(&none);
        let added = changes.added.iter().map(|one| (one.clone(), From::Command));
        let mut servers: Vec<(ServerEntry, From)> = Vec::new();
        for (mut server, from) in self.found(pool)?.into_iter().chain(added) {
            let known = |other: &(ServerEntry, From)| other.0.address == server.address;
            if servers.len() == SERVERS_MAX
                || servers.iter().any(known)
                || changes.removed.contains(&server.address)
            {
                continue;
            }
            if changes.drained.contains(&server.address) {
                server.state = ServerState::Draining;
            }
            if let Some((_, weight)) = changes.weights.iter().find(|(address, _)| *address == server.address)
            {
                server.weight = *weight;
            }
            server.unwell = self.why_unwell(pool, &server.address).is_some();
            servers.push((server, from));
        }
        Some(servers)
    }

    /// What there is without commands. An address may stand in it more than once.
    fn found(&self, pool: &Pool) -> Option<Vec<(ServerEntry, From)>> {
        let configured = ServerEntry::configured(pool)?.into_iter().map(|one| (one, From::Configuration));
        let named = pool.discovery.names.iter().flat_map(|name| {
            let found = self.names.iter().find(|(query, _)| *query == name.query);
            found.map_or(&name.first, |(_, found)| found).iter().map(|one| (server_of(name, one), From::Name))
        });
        let file = self.files.iter().filter(|(path, _)| pool.discovery.file.as_ref() == Some(path));
        let of_file = file.flat_map(|(_, servers)| servers.iter().map(|one| (one.clone(), From::File)));
        Some(configured.chain(named).chain(of_file).collect())
    }

    /// Why the checks of a server fail; `None` if they do not, or if there are none.
    fn why_unwell(&self, pool: &Pool, address: &Address) -> Option<&str> {
        pool.health.as_ref()?;
        let mut unwell = self.unwell.get(&pool.name)?.iter();
        unwell.find(|(other, _)| other == address).map(|(_, why)| why.as_str())
    }

    /// Checks have found that a server is well, or why it is not. Gives back whether that is news.
    pub fn checked(&mut self, pool: &Pool, address: &Address, why: Option<String>) -> bool {
        let servers = self.servers(pool).unwrap_or_default();
        let is_there = servers.iter().any(|(server, _)| server.address == *address);
        let unwell = self.unwell.entry(pool.name.clone()).or_default();
        let before = unwell.len();
        unwell.retain(|(other, _)| other != address);
        let was_unwell = unwell.len() < before;
        match why {
            Some(why) if is_there => {
                put(unwell, (address.clone(), why));
                !was_unwell
            }
            _ => was_unwell,
        }
    }

    /// What checks have found of servers that have gone is of no use: one that comes back is checked anew.
    pub fn forget_gone(&mut self, pool: &Pool) {
        if self.unwell.get(&pool.name).is_none_or(Vec::is_empty) {
            return;
        }
        let servers = self.servers(pool).unwrap_or_default();
        if let Some(unwell) = self.unwell.get_mut(&pool.name) {
            unwell.retain(|(address, _)| servers.iter().any(|(server, _)| server.address == *address));
        }
    }

    /// The present servers, to be sent; with a revision that no list had before.
    pub fn list(&mut self, pool: &Pool) -> Option<ServerList> {
        let servers = self.servers(pool)?.into_iter().map(|(server, _)| server).collect();
        self.revision += 1;
        Some(ServerList { pool: pool.name.clone(), revision: self.revision, servers })
    }

    /// The same, to be shown.
    pub fn shown(&self, pool: &Pool) -> Option<Value> {
        let servers = self.servers(pool)?.into_iter().map(|(server, from)| {
            let mut shown = json!(server);
            if let Value::Object(fields) = &mut shown {
                fields.insert("from".to_owned(), json!(from));
                fields.remove("unwell");
                if pool.health.is_some() {
                    let why = self.why_unwell(pool, &server.address);
                    fields.insert("health".to_owned(), json!(if why.is_some() { "unwell" } else { "well" }));
                    fields.extend(why.map(|why| ("why".to_owned(), json!(why))));
                }
            }
            shown
        });
        let servers: Vec<Value> = servers.collect();
        let changes = self.changes.get(&pool.name);
        let removed = changes.map(|changes| changes.removed.as_slice()).unwrap_or_default();
        Some(
            json!({ "pool": pool.name, "changed": changes.is_some(), "servers": servers, "removed": removed }),
        )
    }

    /// Carries a command out, and says what has become of it.
    ///
    /// # Errors
    /// Why it cannot be, for the operator.
    pub fn command(&mut self, pool: &Pool, command: UpstreamCommand) -> Result<String, String> {
        let name = &pool.name;
        let servers = self.servers(pool);
        let servers =
            servers.ok_or_else(|| format!("the requests of pool {name} are answered by processes"))?;
        let there = |address: &Address| servers.iter().find(|(server, _)| server.address == *address);
        let known = |address: &Address| match there(address) {
            Some(_) => Ok(()),
            None => Err(format!("pool {name} has no server {address}")),
        };
        let found = self.found(pool).unwrap_or_default();
        let is_found = |address: &Address| found.iter().any(|(server, _)| server.address == *address);
        let mut changes = self.changes.get(name).cloned().unwrap_or_default();
        let text = match command {
            UpstreamCommand::List => return Ok(String::new()),
            UpstreamCommand::Reset => {
                changes = Changes::default();
                format!("pool {name} has the servers that it has without commands")
            }
            UpstreamCommand::Add { address, weight, backup } => {
                if servers.len() >= SERVERS_MAX && there(&address).is_none() {
                    return Err(format!("pool {name} has {SERVERS_MAX} servers, which is the most"));
                }
                let text = format!("pool {name} has server {address}");
                changes.add(is_found(&address), address, weight, backup);
                text
            }
            UpstreamCommand::Drain(address) => {
                known(&address)?;
                let text = format!("server {address} of pool {name} gets no new requests");
                put(&mut changes.drained, address);
                text
            }
            UpstreamCommand::Remove(address) => {
                known(&address)?;
                let text = format!("pool {name} has server {address} no more");
                changes.remove(is_found(&address), address);
                text
            }
            UpstreamCommand::Weight(address, weight) => {
                known(&address)?;
                let text = format!("server {address} of pool {name} has weight {weight}");
                changes.weigh(address, weight);
                text
            }
        };
        match changes == Changes::default() {
            true => drop(self.changes.remove(name)),
            false => drop(self.changes.insert(name.clone(), changes)),
        }
        Ok(text)
    }

    /// A name leads there now. Gives back whether that is news.
    pub fn resolved(&mut self, query: &Query, mut found: Vec<Found>) -> bool {
        found.truncate(SERVERS_MAX);
        let is_sound =
            |one: &Found| (ServerEntry::WEIGHT_MIN..=ServerEntry::WEIGHT_MAX).contains(&one.weight);
        found.retain(|one| is_sound(one) && one.target.len() <= TARGET_BYTES_MAX);
        // What was there stays until there is something else.
        !found.is_empty() && replace(&mut self.names, query, found)
    }

    /// A file says this now. Gives back whether that is news.
    pub fn read(&mut self, path: &Path, servers: Vec<ServerEntry>) -> bool {
        replace(&mut self.files, &path.to_owned(), servers)
    }

    /// Forgets what is about none of these configurations.
    pub fn retain<'a>(&mut self, configs: impl Iterator<Item = &'a Config> + Clone) {
        let has =
            |name: &str| configs.clone().any(|config| config.pools.iter().any(|pool| pool.name == name));
        self.changes.retain(|name, _| has(name));
        let checks = |name: &str| {
            let mut pools = configs.clone().flat_map(|config| &config.pools);
            pools.any(|pool| pool.name == name && pool.health.is_some())
        };
        self.unwell.retain(|name, _| checks(name));
        let all = || configs.clone().flat_map(|config| &config.pools).map(|pool| &pool.discovery);
        self.names.retain(|(query, _)| all().any(|one| one.names.iter().any(|name| name.query == *query)));
        self.files.retain(|(path, _)| all().any(|one| one.file.as_ref() == Some(path)));
    }
}

impl Changes {
    /// Nothing was said about this server's state.
    fn again(&mut self, address: &Address) {
        self.removed.retain(|other| other != address);
        self.drained.retain(|other| other != address);
    }

    fn add(&mut self, is_found: bool, address: Address, weight: Option<u16>, backup: bool) {
        self.again(&address);
        if !is_found && !self.added.iter().any(|server| server.address == address) {
            let name = address.inet().map(|address| address.to_string()).unwrap_or_default();
            self.added.push(ServerEntry { backup, ..ServerEntry::plain(address.clone(), name) });
        }
        if let Some(weight) = weight {
            self.weigh(address, weight);
        }
    }

    fn remove(&mut self, is_found: bool, address: Address) {
        self.again(&address);
        self.weights.retain(|(other, _)| *other != address);
        self.added.retain(|server| server.address != address);
        if is_found {
            put(&mut self.removed, address);
        }
    }

    fn weigh(&mut self, address: Address, weight: u16) {
        self.weights.retain(|(other, _)| *other != address);
        put(&mut self.weights, (address, weight));
    }
}

/// A server that a name leads to.
fn server_of(name: &Name, found: &Found) -> ServerEntry {
    let address = found.address(name.port);
    let authority = match found.target.is_empty() {
        true => name.authority.clone(),
        false => format!("{}:{}", found.target, address.port()),
    };
    ServerEntry {
        weight: found.weight,
        backup: found.backup,
        ..ServerEntry::plain(Address::Inet(address), authority)
    }
}

/// Puts a value in the place of what was there for this key. Gives back whether it is another one.
fn replace<K: PartialEq + Clone, V: PartialEq>(list: &mut Vec<(K, V)>, key: &K, value: V) -> bool {
    match list.iter_mut().find(|(known, _)| known == key) {
        Some((_, known)) if *known == value => false,
        Some((_, known)) => {
            *known = value;
            true
        }
        None => {
            list.push((key.clone(), value));
            true
        }
    }
}

/// Adds what is not there; the oldest entry makes room: it is most likely about a server that has gone.
fn put<T: PartialEq>(list: &mut Vec<T>, item: T) {
    if list.contains(&item) {
        return;
    }
    if list.len() >= SERVERS_MAX {
        list.remove(0);
    }
    list.push(item);
}

#[cfg(test)]
mod tests;
