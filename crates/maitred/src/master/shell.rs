//! The loop around the machine: waits for events, hands them in, carries the actions out. Decides nothing.

mod carry_out;

use std::collections::{BTreeMap, VecDeque};
use std::io::IsTerminal;
use std::os::fd::OwnedFd;
use std::process::ExitCode;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use maitred_sys::inherit;
use maitred_sys::memfile::SharedMap;
use maitred_sys::signals::Signals;
use maitred_sys::spawn::{Child, Exit};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Resource, Rlimit};

use super::channel::{Channel, Received};
use super::prepare::{Prepared, Surroundings};
use super::sockets;
use super::state::Master;
use super::state::events::{Action, Event};
use crate::config::{Failure, Loaded};
use crate::control::SlotId;
use crate::status::scoreboard::Scoreboard;

/// Reads the configuration, at the start and again at each reload.
pub type Source<'a> = &'a dyn Fn() -> Result<Loaded, Failure>;

/// What the command line says about a run.
#[derive(Debug, Clone, Copy, Default)]
pub struct Options {
    /// Print the lines of [`Prepared::announcement`] on standard output when the server is ready. They go to the error log
    /// in any case.
    pub announce: bool,
}

/// A worker process.
struct Worker {
    child: Child,
    channel: Channel,
    plan: u64,
    board: SharedMap<Scoreboard>,
}

/// An application process.
struct App {
    child: Child,
    slot: SlotId,
}

struct Shell<'a> {
    machine: Master,
    source: Source<'a>,
    options: Options,
    signals: Signals,
    around: Surroundings,
    /// The limit on open files that this process was given, for application processes.
    open_files: Rlimit,
    /// Standard error as it was at the start.
    stderr: Option<OwnedFd>,
    started_at: u64,
    logs: bool,
    announced: bool,
    plans: BTreeMap<u64, Prepared>,
    plan_last: u64,
    /// The number of the configuration in force.
    plan_present: Option<u64>,
    workers: BTreeMap<u64, Worker>,
    apps: BTreeMap<u64, App>,
    events: VecDeque<Event>,
}

/// The whole life of a master process: 0 after a stop, 1 when the server could not be brought up, 2 when its first
/// configuration is wrong.
///
/// Call it before any other thread exists, and before this process has opened descriptors of its own that are not
/// close-on-exec.
pub fn run(source: Source<'_>, options: Options) -> ExitCode {
    match Shell::new(source, options) {
        Ok(mut shell) => ExitCode::from(shell.run()),
        Err(text) => {
            eprintln!("error: {text}");
            ExitCode::FAILURE
        }
    }
}

impl<'a> Shell<'a> {
    fn new(source: Source<'a>, options: Options) -> Result<Self, String> {
        let signals = Signals::block().map_err(|error| format!("blocking signals: {error}"))?;
        let passed =
            inherit::listen_fds().map_err(|error| format!("sockets of the service manager: {error}"))?;
        let (inherited, unix) = sockets::sort_inherited(passed)?;
        let started_at = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO).as_secs();
        Ok(Shell {
            machine: Master::new(),
            source,
            options,
            signals,
            around: Surroundings {
                reuseport: sockets::detect_reuseport(),
                inherited,
                inherited_admin: unix.into_iter().next(),
                terminal: std::io::stdout().is_terminal(),
            },
            open_files: raise_open_files(),
            stderr: rustix::io::fcntl_dupfd_cloexec(rustix::stdio::stderr(), 3).ok(),
            started_at,
            logs: false,
            announced: false,
            plans: BTreeMap::new(),
            plan_last: 0,
            plan_present: None,
            workers: BTreeMap::new(),
            apps: BTreeMap::new(),
            events: VecDeque::from([Event::Start]),
        })
    }

    fn run(&mut self) -> u8 {
        loop {
            while let Some(event) = self.events.pop_front() {
                for action in self.machine.handle(Instant::now(), event) {
                    if let Action::Exit(code) = action {
                        return code;
                    }
                    self.carry_out(action);
                }
            }
            self.show();
            self.wait();
            if self.machine.next_deadline().is_some_and(|deadline| deadline <= Instant::now()) {
                self.events.push_back(Event::Tick);
            }
            self.take_signals();
            self.take_messages();
            self.take_exits();
        }
    }

    fn wait(&self) {
        let mut descriptors = vec![PollFd::new(&self.signals, PollFlags::IN)];
        for worker in self.workers.values() {
            descriptors.push(PollFd::new(&worker.child, PollFlags::IN));
            if !worker.channel.is_ended() {
                let room = if worker.channel.is_full() { PollFlags::OUT } else { PollFlags::empty() };
                descriptors.push(PollFd::new(&worker.channel, PollFlags::IN | room));
            }
        }
        descriptors.extend(self.apps.values().map(|app| PollFd::new(&app.child, PollFlags::IN)));
        let patience = self.machine.next_deadline().map(|at| at.saturating_duration_since(Instant::now()));
        // A wait that is too long for the type is as good as none.
        let patience = patience.and_then(|patience| Timespec::try_from(patience).ok());
        // Whatever it says, everything is looked at next, without waiting.
        if let Err(error) = poll(&mut descriptors, patience.as_ref())
            && error != rustix::io::Errno::INTR
        {
            tracing::error!(%error, "poll");
        }
    }

    fn take_signals(&mut self) {
        loop {
            match self.signals.next() {
                Ok(Some(signal)) => self.events.push_back(Event::Signal(signal)),
                Ok(None) => return,
                Err(error) => return tracing::error!(%error, "reading signals"),
            }
        }
    }

    fn take_messages(&mut self) {
        for (generation, worker) in &mut self.workers {
            worker.channel.flush();
            while !worker.channel.is_ended() {
                match worker.channel.receive() {
                    Ok(Received::Message(message)) => {
                        self.events.push_back(Event::Worker(*generation, message));
                    }
                    Ok(Received::Empty) => break,
                    Ok(Received::End) => {}
                    Err(error) => {
                        tracing::error!(generation, %error, "the worker process sent nonsense, and is killed");
                        log_failure("kill", worker.child.kill());
                        break;
                    }
                }
            }
        }
    }

    /// After the messages: what a process said before its end is heard before it.
    fn take_exits(&mut self) {
        let events = &mut self.events;
        self.workers.retain(|generation, worker| {
            let Some((_, how)) = exited(&worker.child) else { return true };
            events.push_back(Event::WorkerExited { generation: *generation, how });
            false
        });
        self.apps.retain(|_, app| {
            let Some((clean, how)) = exited(&app.child) else { return true };
            events.push_back(Event::AppExited { slot: app.slot, clean, how });
            false
        });
    }

    /// Writes the master's row of every scoreboard.
    fn show(&self) {
        let counts = self.machine.counts();
        for worker in self.workers.values() {
            let row = &worker.board.master;
            row.started_at.set(self.started_at);
            row.generation.set(counts.generation);
            row.worker_crashes.set(counts.worker_crashes);
            row.reloads.set(counts.reloads);
            row.reloads_refused.set(counts.reloads_refused);
            row.slots_started.set(counts.slots_started);
            row.slot_crashes.set(counts.slot_crashes);
            row.slots_delayed.set(counts.slots_delayed);
        }
    }
}

/// Whether a process ended well, and how; `None` while it lives.
fn exited(child: &Child) -> Option<(bool, String)> {
    match child.try_wait() {
        Ok(None) => None,
        Ok(Some(exit)) => Some((exit == Exit::Status(0), exit.to_string())),
        // Somebody else has reaped it: it is gone all the same.
        Err(error) => Some((false, format!("cannot be waited for: {error}"))),
    }
}

fn log_failure(what: &str, result: std::io::Result<()>) {
    if let Err(error) = result {
        tracing::error!(%error, "{what}");
    }
}

/// Raises the limit on open files to what is allowed, and returns the one before.
fn raise_open_files() -> Rlimit {
    let before = rustix::process::getrlimit(Resource::Nofile);
    let raised = Rlimit { current: before.maximum, maximum: before.maximum };
    // Raising to the hard limit can only fail where that is above the system's; then the old one stays.
    let _ = rustix::process::setrlimit(Resource::Nofile, raised);
    before
}
