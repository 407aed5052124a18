//! A configuration with everything open that it needs: sockets, log files, pid file, and the plan of its threads.
//!
//! Preparing is all or nothing. Dropping a [`Prepared`] closes what no other one shares.

use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::rc::Rc;

use super::access_logs;
use super::admin::AdminListener;
use super::admin_token::AdminToken;
use super::cache_table;
use super::certificates::Certificates;
use super::config_file::{ConfigText, Staged};
use super::datagrams;
use super::own_files::Outsiders;
use super::pid_file::PidFile;
use super::pool_sockets::{self, PoolSockets};
use super::sockets::{self, Group};
use super::state::events::{ListenPlan, Plan, PoolKind, PoolPlan};
use super::surroundings::Surroundings;
use maitred_config::{AdminAddress, Config, Identity, Listen, Pool, Source};
use maitred_control::LogFile;
use maitred_control::affinity::plan as affinity;
use maitred_control::affinity::steering;
use maitred_control::affinity::topology::{self, Topology};
use maitred_control::{self as control, Descriptor, SlotId, Start};

/// See the module.
#[derive(Debug)]
pub(crate) struct Prepared {
    /// The configuration.
    pub config: Config,
    /// What it was made of; `None` if that is no file.
    pub text: Option<ConfigText>,
    /// The text in its staging file, if it is to take the place of the file.
    pub staged: Option<Staged>,
    /// What is open for it; `None` once another configuration is in force, for the processes that still run by this one.
    pub open: Option<Open>,
    /// Keys and certificates of TLS; `None` without TLS.
    pub tls: Option<Certificates>,
    /// Where the worker and application processes write errors; `None` is the master's standard error.
    pub error_log: Option<File>,
    threads: affinity::Plan,
}

/// What a configuration in force holds open.
#[derive(Debug)]
pub(crate) struct Open {
    /// Groups, one per listen entry.
    pub groups: Vec<Group>,
    /// Likewise: the UDP sockets of those with `http3`.
    pub datagrams: Vec<Option<Group>>,
    /// One entry per pool: the sockets of a listen pool.
    pub pools: Vec<PoolSockets>,
    /// The admin listener.
    pub admin: Option<Rc<AdminListener>>,
    access_logs: Vec<(Option<usize>, OwnedFd)>,
    key_logs: Vec<(usize, File)>,
    pid_file: Option<Rc<PidFile>>,
    admin_token: Option<Rc<AdminToken>>,
}

impl Open {
    /// What another image of this program has left open.
    pub(crate) fn left(
        groups: Vec<Group>,
        datagrams: Vec<Group>,
        pools: Vec<PoolSockets>,
        admin: Option<Rc<AdminListener>>,
        pid_file: Option<Rc<PidFile>>,
    ) -> Open {
        Open {
            groups,
            datagrams: datagrams.into_iter().map(Some).collect(),
            pools,
            admin,
            access_logs: Vec::new(),
            key_logs: Vec::new(),
            pid_file,
            admin_token: None,
        }
    }

    /// The UDP sockets, with what they are for a worker process.
    fn datagram_sockets(&self) -> impl Iterator<Item = (Descriptor, BorrowedFd<'_>)> {
        let groups = self.datagrams.iter().enumerate();
        let groups = groups.filter_map(|(listen, group)| Some((listen, group.as_ref()?)));
        groups.flat_map(|(listen, group)| {
            let sockets = u16::try_from(group.buckets.len()).unwrap_or(u16::MAX);
            (0..sockets).zip(&group.buckets).filter_map(move |(socket, fd)| {
                let local = group.local.inet()?;
                Some((Descriptor::Datagrams { listen, socket, sockets, local }, fd.as_fd()))
            })
        })
    }

    /// The file with the process id.
    pub(crate) fn pid_file(&self) -> Option<&PidFile> {
        self.pid_file.as_deref()
    }
}

impl Prepared {
    /// Opens what `config` needs, and shares with `present` what both need.
    ///
    /// # Errors
    /// A text for the operator.
    pub(crate) fn new(config: Config, around: &Surroundings, present: Option<&Open>) -> Result<Self, String> {
        let topology = Topology::read().map_err(|error| format!("reading the machine's CPUs: {error}"))?;
        let server = &config.server;
        let count = affinity::thread_count(&topology, &server.affinity, server.threads);
        let known: Vec<Group> = match present {
            Some(open) => {
                open.groups.iter().chain(missing(&around.inherited, &open.groups)).cloned().collect()
            }
            None => around.inherited.clone(),
        };
        let udp = present.map(|open| open.datagrams.as_slice()).unwrap_or_default();
        let (groups, datagrams) = bind(&config.listens, count, around, &known, udp)?;
        let buckets = groups.iter().map(|group| group.buckets.len()).max().unwrap_or(1);
        let buckets = u16::try_from(buckets).unwrap_or(u16::MAX);
        let threads = affinity::plan(&topology, &server.affinity, server.threads, buckets)
            .map_err(|error| error.to_string())?;
        let kept = present.map(|open| open.pools.as_slice()).unwrap_or_default();
        let pools = pool_sockets::bind(&config.pools, count, around, kept)?;
        let outsiders = Outsiders::of(&config).map_err(|error| format!("accounts: {error}"))?;
        let open = Open {
            groups,
            datagrams,
            pools,
            admin: admin(server.admin.as_ref(), around, present)?,
            access_logs: access_logs::open(&config, &outsiders)?,
            key_logs: key_logs(&config, &outsiders)?,
            pid_file: pid_file(server.pid_file.as_deref(), &outsiders, present)?,
            admin_token: admin_token(&config, &outsiders, present)?,
        };
        cache_table::make_directory(config.cache.as_ref(), config.server.user.as_ref())?;
        let tls = Certificates::load(&config, around)?;
        let error_log = log_file(config.log.error_file.as_deref(), &outsiders)?;
        Ok(Prepared { config, text: None, staged: None, open: Some(open), tls, error_log, threads })
    }

    /// Opens the files of its logs anew, for it and for the worker processes that run by it. Gives them, and why others could not
    /// be opened.
    pub(crate) fn reopen_logs(&mut self) -> (Vec<(LogFile, OwnedFd)>, Vec<String>) {
        let (mut files, mut wrong) = (Vec::new(), Vec::new());
        let outsiders = match Outsiders::of(&self.config) {
            Ok(outsiders) => outsiders,
            Err(error) => return (files, vec![format!("accounts: {error}")]),
        };
        for reopened in access_logs::reopen(&self.config, &outsiders) {
            match reopened.and_then(|(number, file)| Ok((number, duplicate(&file)?, file))) {
                Ok((number, copy, file)) => {
                    let mut logs = self.open.iter_mut().flat_map(|open| &mut open.access_logs);
                    if let Some((_, own)) = logs.find(|(other, _)| *other == number) {
                        *own = copy;
                    }
                    files.push((number.map_or(LogFile::Access, LogFile::Named), file));
                }
                Err(why) => wrong.push(why),
            }
        }
        match log_file(self.config.log.error_file.as_deref(), &outsiders) {
            Ok(None) => {}
            Ok(Some(file)) => match duplicate(&file) {
                Ok(copy) => {
                    self.error_log = Some(file);
                    files.push((LogFile::Errors, copy));
                }
                Err(why) => wrong.push(why),
            },
            Err(why) => wrong.push(why),
        }
        (files, wrong)
    }

    /// What the machine needs to know.
    pub(crate) fn plan(&self, number: u64) -> Plan {
        let pools = self.config.pools.iter().enumerate().map(|(index, pool)| PoolPlan {
            name: pool.name.clone(),
            kind: match pool.source {
                Source::Command(_) => PoolKind::Started,
                Source::Channel(_) => PoolKind::Connected,
                Source::Listen { .. } | Source::Http(_) | Source::FastCgi(_) => PoolKind::Absent,
            },
            workers: pool.workers,
            start_timeout: pool.start_timeout,
            exit_grace: pool.exit_grace,
            canary: pool.canary,
            request_timeout: pool.request_timeout,
            retired_time: self.config.server.grace_streams.map(|time| time.max(self.config.server.grace)),
            process: self.process_of(pool),
            listen: match &pool.source {
                Source::Listen { sharing, .. } => Some(ListenPlan {
                    buckets: self.pool_sockets(index).map_or(1, PoolSockets::buckets),
                    stop_signal: sharing.stop_signal,
                    start_grace: sharing.start_grace,
                }),
                _ => None,
            },
        });
        let server = &self.config.server;
        Plan {
            number,
            grace: server.grace,
            grace_streams: server.grace_streams,
            old_workers_max: usize::from(server.old_workers_max),
            pools: pools.collect(),
        }
    }

    /// The account of the processes of a pool, if one is named.
    pub(crate) fn user_of<'a>(&'a self, pool: &'a Pool) -> Option<&'a Identity> {
        pool.user.as_ref().or(self.config.server.user.as_ref())
    }

    /// All that the processes of a pool depend on, and that cannot be changed while they run.
    fn process_of(&self, pool: &Pool) -> String {
        let user = self.user_of(pool);
        let told = match pool.source {
            Source::Listen { .. } => 0,
            _ => self.config.limits.body_inline_bytes_max,
        };
        format!("{:?}", (&pool.source, &pool.cwd, &pool.env, &pool.env_inherit, user, pool.open_files, told))
    }

    /// The sockets of a pool, if this configuration is in force.
    pub(crate) fn pool_sockets(&self, pool: usize) -> Option<&PoolSockets> {
        self.open.as_ref()?.pools.get(pool)
    }

    /// The CPUs of a bucket of a pool: its share of those that threads run on, or else of all usable ones.
    pub(crate) fn cpus_of(&self, bucket: u16, buckets: u16) -> Vec<u16> {
        let homes: Vec<u16> = self.threads.cpus.iter().flatten().copied().collect();
        let all = if homes.is_empty() { &self.threads.usable } else { &homes };
        pool_sockets::share(all, usize::from(bucket), usize::from(buckets))
    }

    /// The row of a slot in the scoreboard of this configuration's worker process.
    pub(crate) fn slot_row(&self, id: SlotId) -> Option<usize> {
        control::slot_row(&self.config, id)
    }

    /// The start document of a worker process, and the descriptors that it lists, in its order. Nothing secret is among them.
    pub(crate) fn start<'a>(
        &'a self,
        open: &'a Open,
        around: &Surroundings,
        generation: u64,
        adopts: bool,
    ) -> (Start, Vec<BorrowedFd<'a>>) {
        let (mut descriptors, mut sources) = (Vec::new(), Vec::new());
        for (listen, group) in open.groups.iter().enumerate() {
            let buckets = u16::try_from(group.buckets.len()).unwrap_or(u16::MAX);
            for (bucket, socket) in (0..buckets).zip(&group.buckets) {
                descriptors.push(Descriptor::Bucket { listen, bucket, buckets, local: group.local.clone() });
                sources.push(socket.as_fd());
            }
        }
        for (descriptor, socket) in open.datagram_sockets() {
            descriptors.push(descriptor);
            sources.push(socket);
        }
        if let Some(admin) = &open.admin {
            descriptors.push(Descriptor::Admin);
            sources.push(admin.as_fd());
        }
        for (number, file) in &open.access_logs {
            descriptors.push(Descriptor::AccessLog { number: *number });
            sources.push(file.as_fd());
        }
        for (listen, file) in &open.key_logs {
            descriptors.push(Descriptor::KeyLog { listen: *listen });
            sources.push(file.as_fd());
        }
        let start = Start {
            generation,
            account: None,
            master_uid: rustix::process::geteuid().as_raw(),
            admin_token: open.admin_token.as_ref().map(|token| token.token().clone()),
            config: self.config.clone(),
            threads: self.threads.cpus.clone(),
            affinity_why: self.threads.why.clone(),
            usable_cpus: self.threads.usable.clone(),
            reuseport: around.reuseport,
            pool_addresses: open.pools.iter().map(PoolSockets::addresses).collect(),
            descriptors,
            terminal: around.terminal,
            ktls: self.tls.as_ref().map(|_| self.ktls()).unwrap_or_default(),
            adopts,
            challenges: Vec::new(),
            certificate_reports: Vec::new(),
            servers: Vec::new(),
            modules_off: Vec::new(),
        };
        (start, sources)
    }

    /// How messages call a module.
    pub(crate) fn module_name(&self, number: usize) -> Option<String> {
        self.config.modules().get(number).map(|module| module.name())
    }

    /// What the kernel says of TLS.
    fn ktls(&self) -> String {
        let mut listeners = self.config.listens.iter().filter_map(|listen| listen.tls.as_ref());
        maitred_tls::ktls::kernel::describe(listeners.any(|tls| tls.ktls))
    }

    /// Changes what this configuration says about sockets that were there before it.
    pub(crate) fn apply(&self) {
        let Some(open) = &self.open else { return };
        let online = topology::online();
        let complaints =
            Topology::read().map(|topology| steering::complaints(&self.config, &topology, &online));
        for complaint in complaints.unwrap_or_default() {
            tracing::warn!("{complaint}");
        }
        for (group, listen) in open.groups.iter().zip(&self.config.listens) {
            for failure in sockets::apply(group, listen, &self.threads.cpus, &online) {
                tracing::warn!("{failure}");
            }
        }
    }

    /// Closes the listening sockets; log files and pid file stay until the end.
    pub(crate) fn close_listeners(&mut self) {
        if let Some(open) = &mut self.open {
            open.groups.clear();
            open.datagrams.clear();
            open.pools.clear();
            open.admin = None;
        }
    }

    /// One line per listen entry, `http://127.0.0.1:8080  2 threads, 1 bucket`: the address by which a person reaches it with
    /// the port that is really bound, or `http+unix:/path`; two spaces, threads, buckets. Tests and scripts read the lines:
    /// they do not change.
    pub(crate) fn announcement(&self) -> Vec<String> {
        let groups = self.open.as_ref().map(|open| open.groups.as_slice()).unwrap_or_default();
        let line = |(group, listen): (&Group, &Listen)| {
            format!(
                "{}{}{}  {}, {}",
                if listen.tls.is_some() { "https" } else { "http" },
                if group.local.path().is_some() { "+" } else { "://" },
                sockets::reachable(&group.local),
                counted(self.threads.cpus.len(), "thread"),
                counted(group.buckets.len(), "bucket"),
            )
        };
        groups.iter().zip(&self.config.listens).map(line).collect()
    }

    /// Where the admin address is really bound, as text.
    pub(crate) fn admin_text(&self) -> Option<String> {
        let admin = self.open.as_ref()?.admin.as_ref()?;
        Some(match admin.local {
            Some(local) => AdminAddress::Tcp(local).to_string(),
            None => admin.asked.to_string(),
        })
    }

    /// Where the token is that commands take, if they do.
    pub(crate) fn admin_token(&self) -> Option<&Path> {
        self.open.as_ref()?.admin_token.as_ref().map(|token| token.path())
    }

    /// How the threads were placed, in one line.
    pub(crate) fn why(&self) -> &str {
        &self.threads.why
    }
}

fn counted(count: usize, one: &str) -> String {
    format!("{count} {one}{}", if count == 1 { "" } else { "s" })
}

/// How often sockets are bound anew when the kernel has chosen a TCP port whose UDP port is taken.
const PORT_TRIES: u32 = 8;

/// The sockets of all listen entries: those of TCP, and those of UDP at the same ports.
fn bind(
    listens: &[Listen],
    threads: u16,
    around: &Surroundings,
    known: &[Group],
    known_datagrams: &[Option<Group>],
) -> Result<(Vec<Group>, Vec<Option<Group>>), String> {
    let mask =
        around.datagrams.mask().map_err(|_| "the constants of connection ids cannot be made".to_owned())?;
    let any_port = listens.iter().any(|listen| listen.http3 && listen.address.is_any_port());
    let mut tries = if any_port { PORT_TRIES } else { 1 };
    loop {
        let groups = sockets::bind_all(listens, threads, around.reuseport, known)?;
        let present = known_datagrams.iter().flatten();
        let bound = datagrams::bind_all(listens, &groups, threads, (around.reuseport, mask), present);
        tries -= 1;
        if bound.is_ok() || tries == 0 {
            return Ok((groups, bound?));
        }
    }
}

/// Inherited groups that are not in use, so that a later configuration can still use them.
fn missing<'a>(inherited: &'a [Group], used: &'a [Group]) -> impl Iterator<Item = &'a Group> {
    inherited.iter().filter(move |group| !used.iter().any(|one| one.local == group.local))
}

fn admin(
    asked: Option<&AdminAddress>,
    around: &Surroundings,
    present: Option<&Open>,
) -> Result<Option<Rc<AdminListener>>, String> {
    let Some(asked) = asked else { return Ok(None) };
    if let Some(kept) = present.and_then(|open| open.admin.as_ref()).filter(|admin| admin.asked == *asked) {
        return Ok(Some(Rc::clone(kept)));
    }
    if let AdminAddress::Unix(path) = asked {
        let passed = around.inherited.iter().find(|group| group.local.path() == Some(path));
        if let Some(socket) = passed.and_then(|group| group.buckets.first()) {
            let socket = socket.try_clone().map_err(|error| format!("admin socket: {error}"))?;
            return Ok(Some(Rc::new(AdminListener::inherited(asked.clone(), socket))));
        }
    }
    AdminListener::bind(asked).map(|listener| Some(Rc::new(listener)))
}

fn pid_file(
    path: Option<&Path>,
    outsiders: &Outsiders,
    present: Option<&Open>,
) -> Result<Option<Rc<PidFile>>, String> {
    let Some(path) = path else { return Ok(None) };
    outsiders.check(path).map_err(|why| format!("pid file {why}"))?;
    match present.and_then(|open| open.pid_file.as_ref()).filter(|file| file.path() == path) {
        Some(kept) => Ok(Some(Rc::clone(kept))),
        None => PidFile::write(path).map(|file| Some(Rc::new(file))),
    }
}

fn admin_token(
    config: &Config,
    outsiders: &Outsiders,
    present: Option<&Open>,
) -> Result<Option<Rc<AdminToken>>, String> {
    let (Some(path), Some(AdminAddress::Tcp(_))) = (&config.server.admin_token, &config.server.admin) else {
        return Ok(None);
    };
    let path = outsiders.check(path).map_err(|why| format!("admin_token {why}"))?;
    match present.and_then(|open| open.admin_token.as_ref()).filter(|token| token.path() == path) {
        Some(kept) => Ok(Some(Rc::clone(kept))),
        None => AdminToken::make(&path).map(|token| Some(Rc::new(token))),
    }
}

/// Opened by the master, because the worker process may write nowhere.
fn key_logs(config: &Config, outsiders: &Outsiders) -> Result<Vec<(usize, File)>, String> {
    let wanted = config.listens.iter().enumerate();
    let wanted = wanted.filter_map(|(at, listen)| Some((at, listen.tls.as_ref()?.keylog.as_deref()?)));
    let open = |(at, path): (usize, &Path)| {
        let file = outsiders.append(path, 0o600).map_err(|why| format!("keylog {why}"))?;
        tracing::warn!("the secrets of all TLS sessions are written to {}", path.display());
        Ok((at, file))
    };
    wanted.map(open).collect()
}

/// Opened anew for each configuration, so that a reload finds a rotated file.
fn duplicate(file: impl AsFd) -> Result<OwnedFd, String> {
    file.as_fd().try_clone_to_owned().map_err(|error| error.to_string())
}

fn log_file(path: Option<&Path>, outsiders: &Outsiders) -> Result<Option<File>, String> {
    path.map(|path| outsiders.append(path, 0o640).map_err(|why| format!("log file {why}"))).transpose()
}
