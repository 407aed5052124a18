//! The processes of a server: which there are, what the kernel tells of them (proc(5)), and signals to them.

use std::fs;
use std::path::{Path, PathBuf};

use rustix::process::{Pid, Signal, kill_process};

use super::server::Server;
use super::wait::eventually;

impl Server {
    /// Sends a signal to the master.
    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(self.pid(), signal).unwrap();
    }

    /// The child processes of the master; none if it has ended.
    pub(crate) fn children(&self) -> Vec<i32> {
        let pid = self.pid().as_raw_nonzero();
        let text = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
        text.split_whitespace().map(|number| number.parse().unwrap()).collect()
    }

    /// The worker processes: children that were started by this name. What the master has forked and what has not yet
    /// become another program has the master's.
    pub(crate) fn workers(&self) -> Vec<i32> {
        let is_worker = |child: &i32| {
            fs::read(folder(*child).join("cmdline")).is_ok_and(|line| line.starts_with(b"maitred: worker"))
        };
        self.children().into_iter().filter(is_worker).collect()
    }

    /// The agent of this name, such as `names`, once it is there.
    #[track_caller]
    pub(crate) fn agent(&self, name: &str) -> i32 {
        let line = format!("maitred: {name}");
        let is_agent = |child: &i32| {
            fs::read(folder(*child).join("cmdline")).is_ok_and(|found| found.starts_with(line.as_bytes()))
        };
        let mut found = None;
        eventually("the agent is there", || {
            found = self.children().into_iter().find(is_agent);
            found.is_some()
        });
        found.unwrap()
    }

    /// The application processes: children that run another program.
    pub(crate) fn applications(&self) -> Vec<i32> {
        let program = |pid: i32| fs::read_link(folder(pid).join("exe")).ok();
        let own = program(self.pid().as_raw_nonzero().get());
        self.children()
            .into_iter()
            .filter(|child| program(*child).is_some_and(|other| Some(other) != own))
            .collect()
    }

    /// The only worker process.
    #[track_caller]
    pub(crate) fn worker(&self) -> i32 {
        let workers = self.workers();
        assert_eq!(workers.len(), 1, "{workers:?}");
        workers[0]
    }

    /// Whether another worker process than `old` is the only one.
    pub(crate) fn worker_is_not(&self, old: i32) -> bool {
        matches!(self.workers()[..], [worker] if worker != old)
    }

    /// Whether a process holds the socket that listens.
    pub(crate) fn listens(&self, pid: i32) -> bool {
        let table = fs::read_to_string("/proc/net/tcp").unwrap();
        let port = format!(":{:04X}", self.address.port());
        let rows = table.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
        let row = rows.into_iter().find(|row| row[1].ends_with(&port) && row[3] == "0A").unwrap();
        let wanted = format!("socket:[{}]", row[9]);
        let Ok(entries) = fs::read_dir(folder(pid).join("fd")) else { return false };
        let mut links = entries.filter_map(|entry| fs::read_link(entry.ok()?.path()).ok());
        links.any(|link| link.to_string_lossy() == wanted)
    }

    /// Stops the worker process for as long as `body` takes: it finds all that happens meanwhile at once.
    pub(crate) fn while_worker_sleeps<T>(&self, body: impl FnOnce() -> T) -> T {
        let worker = self.worker();
        send_signal(worker, Signal::STOP);
        eventually("the worker process stops", || has_stopped(worker));
        let result = body();
        send_signal(worker, Signal::CONT);
        result
    }
}

/// Sends a signal to a process that is there.
#[track_caller]
pub(crate) fn send_signal(pid: i32, signal: Signal) {
    kill_process(Pid::from_raw(pid).unwrap(), signal).unwrap();
}

/// CPU time that a process has taken, user and system, in ticks of 10 ms.
pub(crate) fn cpu_ticks(pid: i32) -> u64 {
    let fields = fields_of_stat(pid).unwrap();
    fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap()
}

/// Open descriptors of a process; none if it has ended.
pub(crate) fn descriptors(pid: i32) -> usize {
    fs::read_dir(folder(pid).join("fd")).map_or(0, Iterator::count)
}

/// Whether a process runs; one that has ended and was not reaped does not.
pub(crate) fn runs(pid: i32) -> bool {
    fields_of_stat(pid).is_some_and(|fields| fields[0] != "Z")
}

/// Whether all threads of a process have stopped: each does so by itself.
fn has_stopped(pid: i32) -> bool {
    let threads = fs::read_dir(folder(pid).join("task")).unwrap();
    let mut states = threads.map(|thread| fields_of(&thread.unwrap().path().join("stat")));
    states.all(|fields| fields.is_none_or(|fields| fields[0] == "T"))
}

fn fields_of_stat(pid: i32) -> Option<Vec<String>> {
    fields_of(&folder(pid).join("stat"))
}

/// The fields of proc_pid_stat(5) from the third one on, which is the state; `None` if there is no such process.
fn fields_of(stat: &Path) -> Option<Vec<String>> {
    let text = fs::read_to_string(stat).ok()?;
    // The second field is a name in parentheses, in which anything may stand.
    Some(text.rsplit_once(") ")?.1.split(' ').map(str::to_owned).collect())
}

fn folder(pid: i32) -> PathBuf {
    Path::new("/proc").join(pid.to_string())
}
