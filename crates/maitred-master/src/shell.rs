//! The loop around the machine: waits for events, hands them in, carries the actions out. Decides nothing.
//!
//! Signals are read from a signalfd(2): those that are blocked stay pending over exec(2), and those that were read and not acted
//! on are sent again before it ([`upgrade`]).

mod acme;
mod carry_out;
mod certificates;
mod checks;
mod configuration;
mod endpoints;
mod hooks;
mod keys;
mod listening;
mod names;
mod source_files;
mod upgrade;

use std::cell::{OnceCell, RefCell};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io::IsTerminal;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use maitred_sys::inherit;
use maitred_sys::memfile::SharedMap;
use maitred_sys::module::calls::Call;
use maitred_sys::signals::{Signal, Signals};
use maitred_sys::spawn::{self, Child, Exit, Orphans};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Resource, Rlimit};

use self::upgrade::Check;
use super::agent::Agent;
use super::cache_table::CacheTable;
use super::channel::{Channel, MESSAGES_PER_TURN_MAX, Received};
use super::checks::Checks;
use super::config_file::Proposed;
use super::console::Console;
use super::cpu_time::CpuTime;
use super::endpoint_files::EndpointFiles;
use super::endpoints::Endpoints;
use super::history::History;
use super::hook::Running;
use super::key_files::KeyFiles;
use super::limit_tables::LimitTables;
use super::modules::Crashes;
use super::output::{LINE_BYTES_MAX, Output};
use super::prepare::{Open, Prepared};
use super::sockets;
use super::source_files::SourceFiles;
use super::state::Master;
use super::state::events::{Action, Event, Seen};
use super::surroundings::Surroundings;
use super::upgrade_state::{PackedUnix, Unpacker, UpgradeState};
use maitred_agents::acme::supervise::Supervisor;
use maitred_agents::agents::life::Life;
use maitred_agents::key_agent;
use maitred_agents::names::messages::Start as NamesStart;
use maitred_base::passed::Passed;
use maitred_base::pki::Pair;
use maitred_base::pool::canary::Work;
use maitred_base::unix_time;
use maitred_config::{Failure, Loaded};
use maitred_control::servers::ServerEntry;
use maitred_control::{Command, FromWorker, SlotId};
use maitred_status::scoreboard::{Cell, Scoreboard, ThreadRow};
use maitred_tls::quic::secrets::Secret;
use maitred_tls::tickets::Seed;

/// Reads the configuration, at the start and again at each reload.
pub(crate) type Source<'a> = &'a dyn Fn() -> Result<Loaded, Failure>;

/// What the command line says about a run.
#[derive(Debug, Clone, Copy, Default)]
pub struct Options {
    /// Replace the processes of all pools when files below the present directory change.
    pub watch: bool,
    /// Print the lines of [`Prepared::announcement`] on standard output when the server is ready. The lines go to the error log
    /// in any case.
    pub announce: bool,
    /// A person has started an application by one line: it is said when that is ready, or that it fails, once.
    pub console: bool,
    /// What a process said that was never ready is shown to clients at this machine.
    pub shows_last_words: bool,
    /// SIGHUP is that of a terminal that is closed, and ends the server.
    pub ends_on_hangup: bool,
}

/// A worker process.
struct Worker {
    child: Child,
    channel: Channel,
    plan: u64,
    board: SharedMap<Scoreboard>,
    /// The certificates that it answers challenges with; `None` until it may be given keys ([`FromWorker::Private`]).
    challenges: Option<Vec<(String, Pair)>>,
    /// The servers of its pools, where they were sent, by the name of the pool.
    servers: BTreeMap<String, Vec<ServerEntry>>,
    /// The ports that it may connect to.
    ports: BTreeSet<u16>,
    /// Whether servers exist with other ports, which the worker process does not know.
    is_confined: bool,
    /// The text of a configuration, as far as it has come; longer than it may be if it was cut.
    pieces: String,
}

impl Worker {
    /// Takes what it has said, up to so many messages.
    fn hear(&mut self, generation: u64, most: usize, mut take: impl FnMut(FromWorker)) {
        for _ in 0..most {
            if self.channel.is_ended() {
                return;
            }
            match self.channel.receive() {
                Ok(Received::Message(message)) => take(message),
                Ok(Received::Empty) => return,
                Ok(Received::End) => {}
                Err(error) => {
                    tracing::error!(generation, %error, "invalid control message from the worker process; killing it");
                    return log_failure("kill", self.child.kill());
                }
            }
        }
    }
}

/// What is at the other end of a channel.
enum Process {
    /// A process that was started here.
    Own(Child),
    /// A process of an external server, by its process id. The process is gone when its channel is, which the machine says.
    Foreign(u32),
}

impl Process {
    fn pid(&self) -> u32 {
        match self {
            Process::Own(child) => child.pid(),
            Process::Foreign(pid) => *pid,
        }
    }
}

/// An application process.
struct App {
    process: Process,
    /// The process's name at the worker process that has its channel.
    slot: SlotId,
    /// The generation of that worker process.
    generation: u64,
    /// Our hold on the channel's end, to give it to another worker process. Nothing is ever read from or written to it here.
    /// If it is the last one, closing it closes the descriptors that the process has passed and that were not received,
    /// which may take any time.
    channel: Option<Passed>,
    /// The end of a link for the next worker process, while the present one hands its channel over.
    link: Option<OwnedFd>,
    /// Where it gets another one from, if it was started by this image.
    recovery: Option<OwnedFd>,
    /// What it writes to standard output and standard error.
    output: Option<Output>,
    /// The process's resident memory, in bytes, when that was last looked at.
    memory: u64,
    /// What the process uses of a CPU, if it accepts connections by itself.
    cpu: CpuTime,
}

/// What is left of an application process that has exited while its channel was handed on: what it said last.
struct Leaving {
    pid: u32,
    /// The generation that was to hand it on.
    generation: u64,
    channel: Passed,
    link: OwnedFd,
}

/// How often the memory of application processes is looked at, where it has a bound.
const WEIGH_EVERY: Duration = Duration::from_secs(1);

/// How often what worker processes do that were replaced is brought up to date.
const SHOW_OLD_EVERY: Duration = Duration::from_secs(1);

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
    console: Console,
    plans: BTreeMap<u64, Prepared>,
    plan_last: u64,
    /// The number of the configuration in force.
    plan_present: Option<u64>,
    workers: BTreeMap<u64, Worker>,
    apps: BTreeMap<u64, App>,
    leaving: BTreeMap<u64, Leaving>,
    events: VecDeque<Event>,
    /// Where the kernel writes what application processes have said.
    output_room: Box<[u8; LINE_BYTES_MAX]>,
    /// When the memory of application processes was last looked at.
    weighed_at: Option<Instant>,
    /// Decides about the process that gets certificates.
    supervisor: Supervisor,
    agent: Option<Agent>,
    /// Decides about the process that fetches keys.
    key_supervisor: key_agent::supervise::Supervisor,
    key_agent: Option<Agent>,
    /// Files with keys of tokens.
    key_files: KeyFiles,
    /// Decides about the servers of pools.
    endpoints: Endpoints,
    /// Files with servers.
    endpoint_files: EndpointFiles,
    /// Files of the application, if they are watched.
    source_files: Option<SourceFiles>,
    /// When the process is started that resolves names.
    names: Life<NamesStart>,
    names_agent: Option<Agent>,
    /// The process that checks servers.
    checks: Checks,
    /// The worker process that was to be replaced because of a server's port.
    replaced: Option<u64>,
    hooks: Vec<Running>,
    /// Children with a request to end, until they have.
    ended_children: Vec<Child>,
    /// Whether children may have ended that were not started here; at first, those of an image before.
    orphans: Orphans,
    /// Where the executable is found when it is to be replaced.
    executable: Option<PathBuf>,
    /// The check of a new executable.
    check: Option<Check>,
    /// Leads to the worker process that is to stay when this image goes.
    new_end: Option<OwnedFd>,
    /// Leads to the worker process of the image before, until that was asked to go.
    old_end: Option<OwnedFd>,
    /// What the image before has left open, until a configuration is in force.
    left_open: Option<Open>,
    /// The configuration that a client has sent last, until that has its answer.
    proposed: Option<Proposed>,
    /// The tables of limits by client.
    limit_tables: LimitTables,
    cache_table: CacheTable,
    history: History,
    /// Crashes of worker processes in modules.
    module_crashes: Crashes,
    /// Worker processes of images before.
    old_workers: BTreeMap<u64, Child>,
    /// The version of the image before, until that has been said.
    upgraded_from: Option<String>,
}

/// A worker process has crashed in a module: says in which.
fn note_module_crash(crashes: &mut Crashes, plan: u64, (number, module): (usize, &str), how: &str) {
    tracing::error!(module, "the worker process {how} in a module");
    if crashes.note(plan, number, Instant::now()) {
        tracing::error!(
            module,
            "the module is turned off, after three crashes in a minute: its routes answer 503 until the configuration is read again"
        );
    }
}

/// The whole life of a master process: 0 after a stop, 1 when the server could not be brought up, 2 when its first
/// configuration is wrong.
///
/// Call it before any other thread exists, and before this process has opened descriptors of its own that are not
/// close-on-exec.
pub fn run(source: Source<'_>, options: Options) -> ExitCode {
    // After an upgrade, ps(1) would show the number of a descriptor.
    let _ = rustix::thread::set_name(c"maitred");
    match Shell::new(source, options) {
        Ok(mut shell) => ExitCode::from(shell.run()),
        Err(text) => {
            maitred_log::error::say(&format!("error: {text}"));
            ExitCode::FAILURE
        }
    }
}

/// What the image before has left of them goes on; without one, the service manager is asked.
fn surroundings(
    upgrade_state: &mut Option<UpgradeState>,
    unpacker: &mut Unpacker,
) -> Result<Surroundings, String> {
    let inherited = match upgrade_state {
        Some(upgrade_state) => {
            let groups = unpacker.groups(std::mem::take(&mut upgrade_state.inherited))?;
            let mut unix = std::mem::take(&mut upgrade_state.inherited_unix);
            // An older executable has left only this one.
            if let (Some(socket), true) = (upgrade_state.inherited_admin, unix.is_empty()) {
                unix.push(PackedUnix { path: PathBuf::new(), socket, file: None });
            }
            [groups, unpacker.unix(unix)?].concat()
        }
        None => of_service_manager()?,
    };
    let tickets = match upgrade_state {
        Some(upgrade_state) => upgrade_state.tickets.clone(),
        None => Seed::new(unix_time::secs()).map_err(|_| "there are no random numbers".to_owned())?,
    };
    let datagrams =
        match upgrade_state.as_mut().and_then(|upgrade_state| upgrade_state.datagram_secret.take()) {
            Some(secret) => secret,
            None => Secret::new().map_err(|error| format!("secret of connection ids: {error}"))?,
        };
    let self_signed = upgrade_state.as_ref().and_then(|upgrade_state| upgrade_state.self_signed.clone());
    Ok(Surroundings {
        reuseport: sockets::detect_reuseport(),
        inherited,
        terminal: std::io::stdout().is_terminal(),
        tickets: RefCell::new(tickets),
        datagrams,
        self_signed: self_signed.map(OnceCell::from).unwrap_or_default(),
    })
}

/// A machine that goes on where the image before was, or a new one.
fn machine(upgrade_state: &mut Option<UpgradeState>) -> Master {
    match upgrade_state {
        Some(before) => Master::resume(Instant::now(), std::mem::take(&mut before.inherited_state)),
        None => Master::new(),
    }
}

impl<'a> Shell<'a> {
    fn new(source: Source<'a>, options: Options) -> Result<Self, String> {
        let signals = Signals::block().map_err(|error| format!("blocking signals: {error}"))?;
        let (mut upgrade_state, mut unpacker) = (UpgradeState::find()?, Unpacker::default());
        let around = surroundings(&mut upgrade_state, &mut unpacker)?;
        let mut shell = Shell {
            machine: machine(&mut upgrade_state),
            source,
            options,
            signals,
            around,
            open_files: raise_open_files(),
            stderr: rustix::io::fcntl_dupfd_cloexec(rustix::stdio::stderr(), 3).ok(),
            started_at: unix_time::secs(),
            logs: false,
            announced: false,
            console: Console::new(options.console, options.watch),
            plans: BTreeMap::new(),
            plan_last: 0,
            plan_present: None,
            workers: BTreeMap::new(),
            apps: BTreeMap::new(),
            leaving: BTreeMap::new(),
            events: VecDeque::new(),
            output_room: Box::new([0; LINE_BYTES_MAX]),
            weighed_at: None,
            supervisor: Supervisor::default(),
            agent: None,
            key_supervisor: key_agent::supervise::Supervisor::default(),
            key_agent: None,
            key_files: KeyFiles::default(),
            endpoints: Endpoints::default(),
            endpoint_files: EndpointFiles::default(),
            source_files: SourceFiles::of_present_directory(options.watch)?,
            names: Life::default(),
            names_agent: None,
            checks: Checks::default(),
            replaced: None,
            hooks: Vec::new(),
            ended_children: Vec::new(),
            orphans: Orphans::Perhaps,
            executable: maitred_base::upgrade::executable(),
            check: None,
            new_end: None,
            old_end: None,
            left_open: None,
            proposed: None,
            limit_tables: LimitTables::default(),
            cache_table: CacheTable::default(),
            history: History::default(),
            module_crashes: Crashes::default(),
            old_workers: BTreeMap::new(),
            upgraded_from: None,
        };
        if let Some(upgrade_state) = upgrade_state {
            shell.unpack(upgrade_state, &mut unpacker)?;
        }
        shell.events.push_back(Event::Start);
        Ok(shell)
    }

    fn run(&mut self) -> u8 {
        loop {
            while let Some(event) = self.events.pop_front() {
                self.tell_person(&event);
                for action in self.machine.handle(Instant::now(), event) {
                    if let Action::Exit(code) = action {
                        return code;
                    }
                    self.carry_out(action);
                }
            }
            self.watch_current();
            self.show();
            self.wait();
            self.take_signals();
            let pressure = self.take_messages();
            let due = self.machine.next_deadline().is_some_and(|deadline| deadline <= Instant::now());
            if pressure || due {
                self.observe();
            }
            if due {
                self.events.push_back(Event::Tick);
            }
            self.take_output();
            self.take_word();
            self.take_exits();
            self.take_check();
            self.look_at_certificates();
            self.look_at_sources();
            self.take_agent();
            self.take_keys();
            self.take_names();
            self.take_checks();
            self.replace_confined();
            self.reap_orphans();
        }
    }

    /// A person may want to know of an event, here or at the address of the server.
    fn tell_person(&mut self, event: &Event) {
        let prepared = self.plan_present.and_then(|number| self.plans.get(&number));
        if let Some(words) = self.console.see(event, prepared).filter(|_| self.options.shows_last_words) {
            self.workers.values_mut().for_each(|worker| worker.channel.send(&words, None));
        }
    }

    /// Reaps the children that this process has got from others, as the first process of a container does. After all that waits
    /// for children of its own: one that has ended meanwhile is looked at again when its descriptor wakes this loop.
    fn reap_orphans(&mut self) {
        if self.orphans == Orphans::Perhaps {
            match spawn::reap_orphans() {
                Ok(left) => self.orphans = left,
                Err(error) => tracing::error!(%error, "reaping processes that others have left"),
            }
        }
    }

    /// The processes that speak to other servers.
    fn agents(&self) -> impl Iterator<Item = &Agent> {
        self.agent.iter().chain(&self.key_agent).chain(&self.names_agent).chain(&self.checks.agent)
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
        for app in self.apps.values() {
            if let Process::Own(child) = &app.process {
                descriptors.push(PollFd::new(child, PollFlags::IN));
            }
            let pipe = app.output.as_ref().and_then(Output::pipe_end);
            descriptors.extend(pipe.map(|pipe| PollFd::from_borrowed_fd(pipe, PollFlags::IN)));
        }
        for agent in self.agents() {
            descriptors.push(PollFd::new(&agent.child, PollFlags::IN));
            if !agent.is_ended() {
                let room = if agent.is_full() { PollFlags::OUT } else { PollFlags::empty() };
                descriptors.push(PollFd::new(agent, PollFlags::IN | room));
            }
        }
        for hook in &self.hooks {
            descriptors.push(PollFd::new(&hook.child, PollFlags::IN));
            descriptors.extend(hook.pipe_end().map(|pipe| PollFd::from_borrowed_fd(pipe, PollFlags::IN)));
        }
        descriptors.extend(self.source_files.iter().map(|files| PollFd::new(files, PollFlags::IN)));
        descriptors.extend(self.old_end.iter().map(|end| PollFd::new(end, PollFlags::IN)));
        let children = self.ended_children.iter().chain(self.old_workers.values());
        let check = self.check.as_ref();
        let children = children.chain(check.map(|check| &check.child));
        descriptors.extend(children.map(|child| PollFd::new(child, PollFlags::IN)));
        // What they do is shown, and nothing else tells when it changes.
        let old = self.machine.old_workers().next().map(|_| Instant::now() + SHOW_OLD_EVERY);
        let deadlines = [
            self.machine.next_deadline(),
            self.next_look(),
            self.supervisor.next_deadline(),
            self.key_supervisor.next_deadline(),
            self.key_files.next_look(),
            self.names.next_deadline(),
            self.checks.next_deadline(),
            self.endpoint_files.next_look(Instant::now()),
            self.source_files.as_ref().and_then(SourceFiles::deadline),
            old,
        ];
        let hooks = self.hooks.iter().filter_map(Running::deadline);
        let deadline = deadlines.into_iter().flatten().chain(hooks).min();
        let timeout = deadline.map(|at| at.saturating_duration_since(Instant::now()));
        // A wait that is too long for the type is as good as none.
        let timeout = timeout.and_then(|timeout| Timespec::try_from(timeout).ok());
        // Whatever it says, everything is looked at next, without waiting.
        if let Err(error) = poll(&mut descriptors, timeout.as_ref())
            && error != rustix::io::Errno::INTR
        {
            tracing::error!(%error, "poll");
        }
    }

    fn take_signals(&mut self) {
        loop {
            match self.signals.next() {
                Ok(Some(signal)) => {
                    match signal {
                        Signal::User1 => {
                            self.reopen_logs();
                            continue;
                        }
                        Signal::Child => self.orphans = Orphans::Perhaps,
                        _ => {}
                    }
                    let ends = signal == Signal::Hangup && self.options.ends_on_hangup;
                    self.events.push_back(Event::Signal(if ends { Signal::Terminate } else { signal }));
                }
                Ok(None) => return,
                Err(error) => return tracing::error!(%error, "reading signals"),
            }
        }
    }

    /// Takes what worker processes say. Gives back whether requests wait for a process somewhere.
    fn take_messages(&mut self) -> bool {
        let (mut pressure, mut in_place, mut private) = (false, Vec::new(), Vec::new());
        let (mut wanted, mut keys_wanted, mut asked) = (Vec::new(), Vec::new(), Vec::new());
        let mut configured = Vec::new();
        for (generation, worker) in &mut self.workers {
            worker.channel.flush();
            if worker.channel.is_stuck() {
                tracing::error!(
                    generation,
                    "the worker process does not read its control socket; killing it"
                );
                log_failure("kill", worker.child.kill());
                worker.channel.abandon();
            }
            let mut pieces = std::mem::take(&mut worker.pieces);
            worker.hear(*generation, MESSAGES_PER_TURN_MAX, |message| match message {
                FromWorker::ChallengeInPlace(serial) => in_place.push((*generation, serial)),
                FromWorker::NameWanted(name) => wanted.push(name),
                FromWorker::KeyWanted(set) => keys_wanted.push((*generation, set)),
                FromWorker::Private => private.push(*generation),
                FromWorker::Command(number, Command::Upstream(pool, command)) => {
                    asked.push(((*generation, number), pool, command));
                }
                FromWorker::ConfigPiece(piece) => {
                    if pieces.len() as u64 <= maitred_base::bounds::CONFIG_TEXT_BYTES_MAX {
                        pieces.push_str(&piece);
                    }
                }
                FromWorker::Command(number, Command::Config(command)) => {
                    configured.push(((*generation, number), command, std::mem::take(&mut pieces)));
                }
                message => {
                    pressure |= matches!(message, FromWorker::QueuePressure(_));
                    self.events.push_back(Event::Worker(*generation, message));
                }
            });
            worker.pieces = pieces;
        }
        private.into_iter().for_each(|generation| self.give_keys(generation));
        for (generation, serial) in in_place {
            self.challenge_in_place(generation, serial);
        }
        wanted.into_iter().for_each(|name| self.name_wanted(name));
        asked.into_iter().for_each(|(asker, pool, command)| self.upstream_command(asker, &pool, command));
        configured.into_iter().for_each(|(asker, command, text)| self.config_command(asker, command, text));
        keys_wanted.into_iter().for_each(|(generation, set)| self.key_wanted(generation, set));
        pressure
    }

    /// Shows the machine what the scoreboards say of application processes. A row is found by the machine's own numbers, and
    /// what stands in it is compared and added, and nothing else.
    fn observe(&mut self) {
        let weighs = self.weighed_at.is_none_or(|at| at.elapsed() >= WEIGH_EVERY);
        if weighs {
            self.weighed_at = Some(Instant::now());
        }
        for (generation, worker) in &self.workers {
            let Some(prepared) = self.plans.get(&worker.plan) else { continue };
            let pools = &prepared.config.pools;
            let rows = worker.board.pools.iter().take(pools.len());
            let queued = rows.map(|row| u32::try_from(row.queued.get()).unwrap_or(u32::MAX)).collect();
            let mut seen = Vec::new();
            for (epoch, app) in self.apps.iter_mut().filter(|(_, app)| app.generation == *generation) {
                let row = prepared.slot_row(app.slot).and_then(|row| worker.board.slots.get(row));
                let (Some(row), Some(pool)) = (row, pools.get(usize::from(app.slot.pool))) else { continue };
                if weighs && pool.workers.max_memory.is_some() {
                    app.memory = resident_bytes(app.process.pid()).unwrap_or(0);
                }
                let busy = u32::try_from(row.in_flight.get()).unwrap_or(u32::MAX);
                let work = Work {
                    requests: row.requests.get(),
                    errors: row.errors.get(),
                    time_us: row.answer_us.get(),
                };
                seen.push(Seen { epoch: *epoch, busy, work, memory: app.memory });
            }
            self.events.push_back(Event::Observed { generation: *generation, queued, seen });
        }
        self.observe_accepting(weighs);
    }

    /// Passes on what application processes have written.
    fn take_output(&mut self) {
        for app in self.apps.values_mut() {
            app.output.iter_mut().for_each(|output| output.pass_on(&mut self.output_room));
        }
    }

    /// What a process said before its end is read before the end is handled.
    fn take_exits(&mut self) {
        let (events, output_room, leaving) = (&mut self.events, &mut self.output_room, &mut self.leaving);
        let limits = &self.limit_tables;
        let (crashes, plans, present) = (&mut self.module_crashes, &self.plans, self.plan_present);
        let console = &mut self.console;
        self.workers.retain(|generation, worker| {
            let Some((_, mut how)) = exited(&worker.child) else { return true };
            if let Some(call) = Call::of(worker.board.worker.crashed_in.get()) {
                let name = plans.get(&worker.plan).and_then(|plan| plan.module_name(call.module.into()));
                let name = name.as_deref().unwrap_or("?");
                // A worker process with which a configuration is tried out keeps nothing from being served, and is no reason to
                // turn a module of the present one on or off.
                if present.is_none_or(|present| worker.plan <= present) {
                    note_module_crash(crashes, worker.plan, (call.module.into(), name), &how);
                }
                how = format!("{how} in the module {name}");
            }
            // The worker process may have said something after it was listened to last: no more than the socket holds.
            worker.hear(*generation, usize::MAX, |message| {
                events.push_back(Event::Worker(*generation, message))
            });
            events.push_back(Event::WorkerExited { generation: *generation, how });
            leaving.retain(|_, app| app.generation != *generation);
            limits.process_ended(worker.child.pid());
            false
        });
        self.old_workers.retain(|generation, child| {
            let Some((_, how)) = exited(child) else { return true };
            events.push_back(Event::WorkerExited { generation: *generation, how });
            limits.process_ended(child.pid());
            false
        });
        self.apps.retain(|_, app| {
            let Process::Own(child) = &app.process else { return true };
            let Some((clean, how)) = exited(child) else { return true };
            app.output.iter_mut().for_each(|output| output.finish(output_room));
            app.output.iter().for_each(|output| console.note(app.slot, output.words()));
            let said = app.output.as_mut().map(Output::last_lines).filter(|lines| !lines.is_empty());
            events.extend(said.map(|lines| Event::AppSaid(app.slot, lines)));
            events.push_back(Event::AppExited { slot: app.slot, clean, how });
            if let (Some(channel), Some(link)) = (app.channel.take(), app.link.take()) {
                let (pid, generation) = (child.pid(), app.generation);
                leaving.insert(app.slot.epoch, Leaving { pid, generation, channel, link });
            }
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
            row.module_crashes.set(self.module_crashes.total());
            row.modules_off.set(self.module_crashes.off(worker.plan).len() as u64);
            row.reloads.set(counts.reloads);
            row.reloads_refused.set(counts.reloads_refused);
            row.reload_refused.set(counts.reload_refused);
            row.upgrades.set(counts.upgrades);
            row.slots_started.set(counts.slots_started);
            row.slot_crashes.set(counts.slot_crashes);
            row.slots_delayed.set(counts.slots_delayed);
        }
        self.show_delays();
        self.show_listen_pools();
        self.show_old_workers();
    }

    /// What the worker processes that were replaced still do, as their own scoreboards say.
    fn show_old_workers(&self) {
        let now = Instant::now();
        let all = self.machine.old_workers();
        let old: Vec<(u64, Instant, &Worker)> =
            all.filter_map(|(number, since)| Some((number, since, self.workers.get(&number)?))).collect();
        let Some(current) = self.machine.current().and_then(|current| self.workers.get(&current)) else {
            return;
        };
        let rows = &current.board.old_workers;
        for (row, (number, since, worker)) in rows.iter().zip(&old) {
            let threads = || worker.board.threads.iter();
            let sum = |read: fn(&ThreadRow) -> &Cell| {
                threads().map(|row| read(row).get()).fold(0, u64::wrapping_add)
            };
            row.generation.set(*number);
            row.since.set(unix_time::secs().saturating_sub(now.saturating_duration_since(*since).as_secs()));
            row.connections.set(sum(|row| &row.connections));
            row.idle.set(sum(|row| &row.idle));
            row.reading.set(sum(|row| &row.reading));
            row.writing.set(sum(|row| &row.writing));
            row.handed_off.set(sum(|row| &row.handed_off));
            row.queued.set(sum(|row| &row.queued));
            row.pid.set(worker.child.pid().into());
        }
        rows.iter().skip(old.len()).for_each(|row| row.pid.set(0));
    }

    /// Shows which slots wait for their next start, and until when.
    fn show_delays(&self) {
        for (generation, worker) in &self.workers {
            let Some(prepared) = self.plans.get(&worker.plan) else { continue };
            for pool in self.machine.pools_of(*generation) {
                let index = pool.home().index;
                let slots =
                    prepared.config.pools.get(usize::from(index)).map_or(0, |pool| pool.workers.slots());
                let delay = pool.delay();
                for slot in 0..slots {
                    let id = SlotId { pool: index, slot, epoch: 0 };
                    let Some(row) = prepared.slot_row(id).and_then(|row| worker.board.starts.get(row)) else {
                        continue;
                    };
                    match delay.filter(|(number, ..)| *number == slot) {
                        Some((_, until, deaths)) => row.delay(unix_time::secs_at(until), deaths),
                        None => row.clear(),
                    }
                }
            }
        }
    }
}

/// What a service manager has passed.
fn of_service_manager() -> Result<Vec<sockets::Group>, String> {
    let passed = inherit::listen_fds().map_err(|error| format!("sockets of the service manager: {error}"))?;
    sockets::sort_inherited(passed)
}

/// The resident memory of a process, from `/proc/PID/statm` (proc_pid_statm(5)).
fn resident_bytes(pid: u32) -> Option<u64> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/statm")).ok()?;
    let pages: u64 = text.split(' ').nth(1)?.parse().ok()?;
    Some(pages.saturating_mul(rustix::param::page_size() as u64))
}

/// Whether a process ended well, and how; `None` while it lives.
fn exited(child: &Child) -> Option<(bool, String)> {
    match child.try_wait() {
        Ok(None) => None,
        Ok(Some(exit)) => Some((exit == Exit::Status(0), exit.to_string())),
        // The process was reaped elsewhere: it is gone all the same.
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
