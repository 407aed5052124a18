//! What a start would refuse, found out without it: `maitred check` says that a configuration is good if, and only if, a start
//! with the same account on this machine would succeed. Each part is judged by the code that carries it out, or beside it.
//! Nothing is bound, made or written.
//!
//! What cannot be known is left to the start: whether an address is in use, since it is by the server that is to be reloaded.

use std::cell::{OnceCell, RefCell};
use std::path::Path;

use super::access_logs;
use super::cache_table;
use super::certificates::Certificates;
use super::own_files::{Outsiders, may_make};
use super::pid_file::PidFile;
use super::pool_sockets;
use super::sockets;
use super::surroundings::Surroundings;
use super::unix_sockets;
use maitred_base::unix_time;
use maitred_config::{Address, AdminAddress, Config, UnixFile};
use maitred_control::affinity::plan as affinity;
use maitred_control::affinity::topology::Topology;
use maitred_tls::TlsServer;
use maitred_tls::quic::secrets::Secret;
use maitred_tls::tickets::Seed;

/// Whether addresses are judged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Addresses {
    /// The addresses would be bound by a start.
    Judge,
    /// The addresses are bound already, by a server that is to be upgraded.
    Leave,
}

/// What a start with this configuration would refuse; nothing if it would succeed.
pub fn judge(config: &Config, addresses: Addresses) -> Vec<String> {
    let mut wrong = Vec::new();
    let mut note = |result: Result<(), String>| wrong.extend(result.err());
    note(threads(config));
    if addresses == Addresses::Judge {
        listeners(config).into_iter().for_each(|why| note(Err(why)));
    }
    match Outsiders::of(config) {
        Ok(outsiders) => files(config, &outsiders).into_iter().for_each(|why| note(Err(why))),
        Err(error) => note(Err(format!("accounts: {error}"))),
    }
    note(cache_table::judge_directory(config.cache.as_ref(), config.server.user.as_ref()));
    note(tls(config));
    wrong
}

fn threads(config: &Config) -> Result<(), String> {
    let topology = Topology::read().map_err(|error| format!("reading the machine's CPUs: {error}"))?;
    let server = &config.server;
    let count = affinity::thread_count(&topology, &server.affinity, server.threads);
    let reuseport = sockets::detect_reuseport();
    let buckets =
        config.listens.iter().map(|listen| listen.buckets.count(count, reuseport)).max().unwrap_or(1);
    affinity::plan(&topology, &server.affinity, server.threads, buckets)
        .map(drop)
        .map_err(|error| error.to_string())
}

/// The addresses of listeners, of pools, and of commands.
fn listeners(config: &Config) -> Vec<String> {
    let listens = config.listens.iter().map(|listen| match &listen.address {
        Address::Inet(at) => sockets::judge(&listen.address, *at),
        Address::Unix(path) => unix_sockets::judge(path, &listen.unix_file)
            .map_err(|why| format!("address {}: {why}", listen.address)),
    });
    let pools = config
        .pools
        .iter()
        .flat_map(pool_sockets::addresses_of)
        .map(|at| sockets::judge(&at.into(), at).map_err(|text| format!("`listen` of a pool: {text}")));
    let admin = config.server.admin.iter().map(|admin| match admin {
        AdminAddress::Tcp(at) => {
            sockets::judge(&(*at).into(), *at).map_err(|why| why.replacen("address", "admin address", 1))
        }
        AdminAddress::Unix(path) => unix_sockets::judge(path, &UnixFile::default())
            .map_err(|why| format!("admin socket {}: {why}", path.display())),
    });
    listens.chain(pools).chain(admin).filter_map(Result::err).collect()
}

/// What the master writes.
fn files(config: &Config, outsiders: &Outsiders) -> Vec<String> {
    let mut wrong = access_logs::judge(config, outsiders);
    let key_logs = config.listens.iter().filter_map(|listen| listen.tls.as_ref()?.keylog.as_deref());
    let appended = key_logs.map(|path| ("keylog", path));
    let appended = appended.chain(config.log.error_file.as_deref().map(|path| ("log file", path)));
    for (what, path) in appended {
        wrong.extend(outsiders.judge_append(path).err().map(|why| format!("{what} {why}")));
    }
    if let Some(path) = &config.server.pid_file {
        let judged = outsiders.check(path).map_err(|why| format!("pid file {why}"));
        wrong.extend(judged.and_then(|_| PidFile::judge(path)).err());
    }
    if let (Some(path), Some(AdminAddress::Tcp(_))) = (&config.server.admin_token, &config.server.admin) {
        let judged = outsiders.check(path).and_then(|path| made(&path));
        wrong.extend(judged.err().map(|why| format!("admin_token {why}")));
    }
    wrong
}

fn made(path: &Path) -> Result<(), String> {
    may_make(path).map_err(|error| format!("{}: {error}", path.display()))
}

/// Keys and certificates, as the master reads them and a worker process uses them.
fn tls(config: &Config) -> Result<(), String> {
    let around = Surroundings {
        reuseport: true,
        inherited: Vec::new(),
        terminal: false,
        tickets: RefCell::new(
            Seed::new(unix_time::secs()).map_err(|_| "there are no random numbers".to_owned())?,
        ),
        datagrams: Secret::new().map_err(|error| format!("secret of connection ids: {error}"))?,
        self_signed: OnceCell::new(),
    };
    match Certificates::load(config, &around)? {
        Some(certificates) => TlsServer::new(config, &certificates.material, Vec::new())
            .map(drop)
            .map_err(|error| format!("keys of TLS: {error}")),
        None => Ok(()),
    }
}
