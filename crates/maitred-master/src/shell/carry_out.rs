//! Actions → system calls.

use std::fmt::Display;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use maitred_sys::memfile::SharedMap;
use maitred_sys::spawn::Child;
use rustix::net::{AddressFamily, SocketFlags, SocketType};
use sd_notify::NotifyState;

use super::endpoints::first_servers;
use super::{App, Leaving, Process, Shell, Worker, log_failure};
use crate::config_file::ConfigText;
use crate::cpu_time::CpuTime;
use crate::prepare::Prepared;
use crate::process;
use crate::state::events::{Action, Event, Notice, Plan, Refusal};
use maitred_base::passed::{Passed, closer_apart};
use maitred_config::{Config, Loaded, Source};
use maitred_control::servers::ports;
use maitred_control::{Greeting, LogFile, SlotId, Started, ToWorker};
use maitred_status::scoreboard::Scoreboard;
use maitred_tls::self_signed;

/// The most characters of a reason that are sent to a service manager; the error log has all of it.
const STATUS_CHARS_MAX: usize = 500;
/// How much longer a service manager is to wait for a reload, with each message about what the reload waits for. The master may
/// be late with the next message; it has several tries within this.
const RELOAD_EXTENSION: Duration = Duration::from_secs(60);

impl Shell<'_> {
    pub(super) fn carry_out(&mut self, action: Action) {
        match action {
            Action::Prepare => self.prepare(),
            Action::PrepareAgain => self.prepare_again(),
            Action::PrepareProposed(asker, proposal) => self.prepare_proposed(asker, *proposal),
            Action::Commit(number) => self.change_over(number),
            Action::Abandon(number) => self.abandon(number),
            Action::SpawnWorker { generation, plan, adopts } => {
                let spawned = self.spawn_worker(generation, plan, adopts);
                self.note_spawned(spawned, |how| Event::WorkerExited { generation, how });
            }
            Action::SpawnApp { generation, plan, slot } => {
                let spawned = self.spawn_app(generation, plan, slot);
                self.note_spawned(spawned, |how| Event::AppExited { slot, clean: false, how });
            }
            Action::SpawnAccepting { plan, slot, bucket } => {
                let spawned = self.spawn_accepting(plan, slot, bucket);
                self.note_spawned(spawned, |how| Event::AppExited { slot, clean: false, how });
            }
            Action::StopApp(epoch, signal) => self.stop_app(epoch, signal),
            Action::Send(generation, message) => self.send(generation, &message),
            Action::Handover { from, to, time } => self.connect_workers(from, to, &ToWorker::Drain(time)),
            Action::Succeed { from, to } => self.connect_workers(from, to, &ToWorker::Successor),
            Action::Check => self.start_check(),
            Action::AbandonCheck => self.abandon_check(),
            Action::OrphanMode { generation, time } => self.orphan_mode(generation, time),
            Action::CancelOrphanMode => self.new_end = None,
            Action::Replace(inherited_state) => self.replace(*inherited_state),
            Action::Go { from, to } => self.go(from, to),
            Action::TellOld(why) => self.tell_old(&why),
            Action::KillWorker(generation) => self.kill_worker(generation),
            Action::TerminateApp(epoch) => self.terminate_app(epoch),
            Action::KillApp(epoch) => {
                self.end_app(epoch, "killing an application process", Child::kill);
            }
            Action::MoveApp { generation, slot, greeting, borrowed, linked } => {
                self.move_app(generation, slot, Started { pid: 0, greeting, borrowed, linked, guest: false });
            }
            Action::HandOn { generation, slot } => self.hand_on(generation, slot),
            Action::Share { generation, slot, guest, name, greeting } => {
                self.share((generation, slot), (guest, name), greeting);
            }
            Action::CloseChannel(epoch) => self.close_channel(epoch),
            Action::RecoverApp { generation, slot } => self.recover_app(generation, slot),
            Action::CloseSockets => {
                self.close_sockets();
                self.end_agent();
                self.end_keys();
                self.end_names();
                self.end_checks();
            }
            Action::Notify(notice) => self.notify(notice),
            Action::Log(level, text) => self.log(level, &text),
            // The loop's own.
            Action::Exit(_) => {}
        }
    }

    /// A process that could not be started is one that has exited, for the machine.
    fn note_spawned<E: Display>(&mut self, spawned: Result<(), E>, exited: impl FnOnce(String) -> Event) {
        if let Err(error) = spawned {
            self.events.push_back(exited(format!("could not be started: {error}")));
        }
    }

    fn send(&mut self, generation: u64, message: &ToWorker) {
        if let ToWorker::CommandDone(number, well, text) = message
            && let Some(document) = self.answer_to_proposal((generation, *number), *well, text)
        {
            return self.answer_with((generation, *number), &document);
        }
        if let Some(worker) = self.workers.get_mut(&generation) {
            worker.channel.send(message, None);
        }
    }

    fn kill_worker(&self, generation: u64) {
        let present = self.workers.get(&generation).map(|worker| &worker.child);
        if let Some(child) = present.or(self.old_workers.get(&generation)) {
            log_failure("killing a worker process", child.kill());
        }
    }

    fn terminate_app(&mut self, epoch: u64) {
        if let Some(app) = self.apps.get_mut(&epoch) {
            app.channel = None;
        }
        self.end_app(epoch, "ending an application process", Child::terminate);
    }

    fn close_channel(&mut self, epoch: u64) {
        if let Some(app) = self.apps.get_mut(&epoch) {
            (app.channel, app.link) = (None, None);
        }
    }

    fn prepare(&mut self) {
        let result = self.prepare_source();
        self.events.push_back(Event::Prepared(result));
    }

    fn prepare_source(&mut self) -> Result<Plan, Refusal> {
        let loaded = (self.source)().map_err(Refusal::from)?;
        if !self.logs {
            maitred_log::error::init("master", &loaded.config.log.level)
                .map_err(|text| Refusal { exit_code: 1, text })?;
            self.logs = true;
        }
        self.prepare_loaded(loaded)
    }

    pub(super) fn prepare_loaded(&mut self, loaded: Loaded) -> Result<Plan, Refusal> {
        for warning in &loaded.warnings {
            // Several lines for a person to read, each a line of the log.
            warning.to_string().lines().for_each(|line| tracing::warn!("{line}"));
        }
        let text = loaded.text.map(|(path, text)| ConfigText { path, text });
        self.prepare_config(loaded.config, text)
    }

    /// The configuration in force, once more.
    fn prepare_again(&mut self) {
        let present = self.plan_present.and_then(|number| self.plans.get(&number));
        let refusal = || Refusal { exit_code: 1, text: "there is no configuration in force".to_owned() };
        let again = present.map(|plan| (plan.config.clone(), plan.text.clone())).ok_or_else(refusal);
        let result = again.and_then(|(config, text)| self.prepare_config(config, text));
        self.events.push_back(Event::Prepared(result));
    }

    /// Another configuration is in force.
    fn change_over(&mut self, number: u64) {
        self.commit(number);
        self.want_agent();
        self.want_keys();
        self.want_names();
        self.want_checks();
    }

    /// A configuration will not be in force.
    fn abandon(&mut self, number: u64) {
        self.plans.remove(&number);
        self.want_names();
        self.want_checks();
    }

    fn prepare_config(&mut self, config: Config, text: Option<ConfigText>) -> Result<Plan, Refusal> {
        let present = self.plan_present.and_then(|number| self.plans.get(&number));
        let present = present.and_then(|plan| plan.open.as_ref()).or(self.left_open.as_ref());
        let mut prepared =
            Prepared::new(config, &self.around, present).map_err(|text| Refusal { exit_code: 1, text })?;
        prepared.text = text;
        self.plan_last += 1;
        let plan = prepared.plan(self.plan_last);
        self.plans.insert(self.plan_last, prepared);
        if self.plan_present.is_none() {
            self.commit(self.plan_last);
            self.left_open = None;
            self.say_what_is_odd();
            self.want_agent();
            self.want_keys();
        }
        // Before its worker process is started: that begins with what is known then.
        self.want_names();
        self.want_checks();
        Ok(plan)
    }

    /// Said once, at the start.
    fn say_what_is_odd(&self) {
        let Some(prepared) = self.plan_present.and_then(|number| self.plans.get(&number)) else { return };
        if let Some(version) = &self.upgraded_from {
            tracing::info!("upgraded from {version} to {}", env!("CARGO_PKG_VERSION"));
        }
        tracing::info!("affinity {}", prepared.why());
        if !self.around.reuseport {
            tracing::warn!("SO_REUSEPORT does not work here: each address has one bucket");
        }
        let user = prepared.config.server.user.as_ref();
        match (rustix::process::geteuid().is_root(), user) {
            (true, None) if self.options.announce => {
                tracing::warn!(
                    "running as root: no account `maitred` may list the directory; --user names another one"
                )
            }
            (true, None) if self.options.console => {}
            (true, None) => {
                tracing::warn!("everything runs as root: set server.user to an account without privileges")
            }
            (false, Some(user)) => {
                tracing::warn!(
                    "server.user = {:?} has no effect: the server was not started as root",
                    user.name
                );
            }
            _ => {}
        }
        let admin = prepared.config.server.admin.as_ref().map(ToString::to_string);
        for group in &self.around.inherited {
            let listens = |open: &super::super::prepare::Open| {
                open.groups.iter().any(|one| one.inherited && one.local == group.local)
            };
            let is_admin = group.local.path().is_some() && admin == Some(group.local.to_string());
            if !is_admin && !prepared.open.as_ref().is_some_and(listens) {
                let local = &group.local;
                tracing::warn!(
                    "the socket {local} from the service manager is not used: no [[listen]] has that address"
                );
            }
        }
    }

    /// Opens the files of all logs anew, and has all processes go on with them: `SIGUSR1`, as programs send it that rotate logs.
    /// Nothing else changes by it, and the configuration is not read.
    pub(super) fn reopen_logs(&mut self) {
        let numbers: Vec<u64> = self.plans.keys().copied().collect();
        for number in numbers {
            let Some(prepared) = self.plans.get_mut(&number) else { continue };
            let (files, wrong) = prepared.reopen_logs();
            for (log, file) in &files {
                self.go_on_with(number, *log, file);
            }
            for why in wrong {
                tracing::error!("a log is not opened anew, and goes on as it is: {why}");
            }
        }
        tracing::info!("log files are opened anew");
    }

    /// The processes that run by a configuration, and this one if it is in force, write a log to this file.
    fn go_on_with(&mut self, plan: u64, log: LogFile, file: &OwnedFd) {
        for worker in self.workers.values_mut().filter(|worker| worker.plan == plan) {
            match file.try_clone() {
                Ok(file) => worker.channel.send(&ToWorker::LogFile(log), Some(file)),
                Err(error) => tracing::error!(%error, "a log file cannot be sent to the worker process"),
            }
        }
        if log == LogFile::Errors && self.plan_present == Some(plan) {
            self.write_errors_to(file);
        }
    }

    /// Has this process and the agents write their errors to this file.
    pub(super) fn write_errors_to(&mut self, file: &OwnedFd) {
        if let Err(error) = rustix::stdio::dup2_stderr(file.as_fd()) {
            tracing::error!(%error, "standard error cannot be redirected to log.error_file");
        }
        let agents = self.agent.iter_mut().chain(&mut self.key_agent).chain(&mut self.names_agent);
        for agent in agents.chain(&mut self.checks.agent) {
            match file.try_clone() {
                Ok(file) => agent.send_error_log(file),
                Err(error) => tracing::error!(%error, "a log file cannot be sent to an agent"),
            }
        }
    }

    /// The configuration is in force: sockets and files that only others had are closed.
    fn commit(&mut self, number: u64) {
        self.plan_present = Some(number);
        self.place_text(number);
        for (other, prepared) in &mut self.plans {
            if *other != number {
                prepared.open = None;
            }
        }
        let in_use: Vec<u64> = self.workers.values().map(|worker| worker.plan).collect();
        self.plans.retain(|other, _| *other == number || in_use.contains(other));
        let Some(prepared) = self.plans.get(&number) else { return };
        self.endpoints.retain(self.plans.values().map(|plan| &plan.config));
        self.limit_tables.retain(&prepared.config.client_limits);
        self.cache_table.retain(prepared.config.cache.as_ref());
        self.history.retain(&prepared.config);
        prepared.apply();
        let stderr = prepared.error_log.as_ref().map(AsFd::as_fd).or(self.stderr.as_ref().map(AsFd::as_fd));
        match stderr.map(|file| file.try_clone_to_owned()) {
            Some(Ok(file)) => self.write_errors_to(&file),
            Some(Err(error)) => tracing::error!(%error, "standard error cannot be redirected"),
            None => {}
        }
    }

    fn spawn_worker(&mut self, generation: u64, plan: u64, adopts: bool) -> std::io::Result<()> {
        let gone = || std::io::Error::other("its configuration is gone");
        let prepared = self.plans.get(&plan).ok_or_else(gone)?;
        let open = prepared.open.as_ref().ok_or_else(gone)?;
        let board = SharedMap::<Scoreboard>::create("maitred-scoreboard")?;
        let limits = &prepared.config.client_limits;
        self.limit_tables.prepare(limits)?;
        let cache = prepared.config.cache.as_ref();
        self.cache_table.prepare(cache)?;
        let present = self.plan_present.and_then(|number| self.plans.get(&number));
        self.history.prepare(&prepared.config, present.map(|plan| &plan.config))?;
        let (mut start, mut listed) = prepared.start(open, &self.around, generation, adopts);
        self.fill_keys(&mut start.config);
        start.modules_off = self.module_crashes.off(plan);
        let servers = first_servers(&mut self.endpoints, &mut start);
        let ports = ports(&start.config, &start.servers);
        start.challenges = self.supervisor.worker_starts(generation);
        start.certificate_reports = self.supervisor.reports();
        let tables = self.limit_tables.descriptors(limits);
        let others = self.cache_table.descriptor(cache).into_iter().chain(self.history.descriptor());
        for (descriptor, file) in tables.into_iter().chain(others) {
            start.descriptors.push(descriptor);
            listed.push(file);
        }
        let (child, channel) = process::start_worker(prepared, &mut start, &listed, board.file())?;
        let (challenges, pieces) = (None, String::new());
        let worker =
            Worker { child, channel, plan, board, challenges, servers, ports, is_confined: false, pieces };
        self.workers.insert(generation, worker);
        Ok(())
    }

    fn spawn_app(&mut self, generation: u64, plan: u64, slot: SlotId) -> std::io::Result<()> {
        let gone = || std::io::Error::other("its worker process is gone");
        let worker = self.workers.get_mut(&generation).ok_or_else(gone)?;
        let prepared = self.plans.get(&plan).ok_or_else(gone)?;
        let pool = prepared.config.pools.get(usize::from(slot.pool)).ok_or_else(gone)?;
        let (process, channel, recovery, output) = match &pool.source {
            Source::Channel(path) => {
                let (channel, pid) = process::connect(path)?;
                (Process::Foreign(pid), channel, None, None)
            }
            _ => {
                let app = process::start_app(prepared, pool, slot, self.open_files)?;
                (Process::Own(app.child), app.channel, Some(app.recovery), Some(app.output))
            }
        };
        let kept = hold(&channel);
        let started =
            Started { pid: process.pid(), greeting: None, borrowed: false, linked: false, guest: false };
        worker.channel.send(&ToWorker::SlotStarted(slot, started), Some(channel));
        let cpu = CpuTime::default();
        let app =
            App { process, slot, generation, channel: kept, link: None, recovery, output, memory: 0, cpu };
        self.apps.insert(slot.epoch, app);
        if self.new_end.is_some() {
            self.have_watched(generation, slot);
        }
        Ok(())
    }

    /// Gives the channel of an application process to another worker process. If that cannot be, the process is ended: it
    /// would wait for ever.
    fn move_app(&mut self, generation: u64, slot: SlotId, started: Started) {
        let Some(app) = self.apps.get_mut(&slot.epoch) else {
            return self.move_last_words(generation, slot, started);
        };
        let link = app.link.take();
        let channel = app.channel.as_ref().and_then(|channel| channel.as_fd().try_clone_to_owned().ok());
        match (self.workers.get_mut(&generation), channel) {
            (Some(worker), Some(channel)) => {
                (app.slot, app.generation) = (slot, generation);
                let started = Started { pid: app.process.pid(), ..started };
                if started.linked {
                    worker.channel.send(&ToWorker::Link(slot), link);
                }
                worker.channel.send(&ToWorker::SlotStarted(slot, started), Some(channel));
                if self.new_end.is_some() {
                    self.have_watched(generation, slot);
                }
            }
            _ => self.end_app(slot.epoch, "killing an application process", Child::kill),
        }
    }

    /// The same for one that has exited: what it said last is for the next worker process.
    fn move_last_words(&mut self, generation: u64, slot: SlotId, started: Started) {
        let Some(Leaving { pid, channel, link, .. }) = self.leaving.remove(&slot.epoch) else { return };
        if let (Some(worker), Ok(channel)) =
            (self.workers.get_mut(&generation), channel.as_fd().try_clone_to_owned())
        {
            worker.channel.send(&ToWorker::Link(slot), Some(link));
            worker.channel.send(&ToWorker::SlotStarted(slot, Started { pid, ..started }), Some(channel));
        }
    }

    /// Asks a worker process for the channel of an application process. What it has under way there goes on over a link to the
    /// next one; without a link, the next one has to wait for it.
    fn hand_on(&mut self, generation: u64, slot: SlotId) {
        let pair =
            rustix::net::socketpair(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None);
        let (theirs, next) = match pair {
            Ok((theirs, next)) => (Some(theirs), Some(next)),
            Err(error) => {
                tracing::warn!(%error, "an application process is handed over only when it has no request");
                (None, None)
            }
        };
        if let Some(app) = self.apps.get_mut(&slot.epoch) {
            app.link = next;
        }
        if let Some(worker) = self.workers.get_mut(&generation) {
            worker.channel.send(&ToWorker::Release(slot, false), theirs);
        }
    }

    /// Makes a link between the worker process that has the channel of an application process and one that is to use it as well.
    /// If that fails, the latter retries.
    fn share(
        &mut self,
        (owner, slot): (u64, SlotId),
        (guest, name): (u64, SlotId),
        greeting: Option<Greeting>,
    ) {
        let Some(pid) = self.apps.get(&slot.epoch).map(|app| app.process.pid()) else { return };
        let pair =
            rustix::net::socketpair(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None);
        let (owners, guests) = match pair {
            Ok(pair) => pair,
            Err(error) => return tracing::warn!(%error, "an application process cannot be shared"),
        };
        if let Some(worker) = self.workers.get_mut(&owner) {
            worker.channel.send(&ToWorker::Guest(slot), Some(owners));
        }
        if let Some(worker) = self.workers.get_mut(&guest) {
            let started = Started { pid, greeting, borrowed: false, linked: false, guest: true };
            worker.channel.send(&ToWorker::SlotStarted(name, started), Some(guests));
        }
    }

    /// Gives an application process a new channel, and its other end to a worker process. What cannot be is as in
    /// [`Shell::move_app`].
    fn recover_app(&mut self, generation: u64, slot: SlotId) {
        // If it could not be started, that is an event of its own.
        let Some(worker) = self.workers.get_mut(&generation) else { return };
        let Some(app) = self.apps.get_mut(&slot.epoch) else { return };
        let pair = app.recovery.as_ref().ok_or_else(|| std::io::Error::other("it has no recovery socket"));
        match pair.and_then(process::renew_channel) {
            Ok(channel) => {
                (app.slot, app.generation) = (slot, generation);
                app.channel = hold(&channel);
                let started = Started {
                    pid: app.process.pid(),
                    greeting: None,
                    borrowed: false,
                    linked: false,
                    guest: false,
                };
                worker.channel.send(&ToWorker::SlotStarted(slot, started), Some(channel));
                if self.new_end.is_some() {
                    self.have_watched(generation, slot);
                }
            }
            Err(error) => {
                tracing::warn!(slot = slot.slot, %error, "no new channel for an application process; replacing it");
                self.end_app(slot.epoch, "killing an application process", Child::kill);
            }
        }
    }

    /// Ends an application process; one that was not started here only loses its channel, and has gone with that.
    fn end_app(&mut self, epoch: u64, what: &str, end: impl FnOnce(&Child) -> std::io::Result<()>) {
        let Some(app) = self.apps.get(&epoch) else { return };
        let slot = app.slot;
        match &app.process {
            Process::Own(child) => log_failure(what, end(child)),
            Process::Foreign(_) => {
                self.apps.remove(&epoch);
                let how = "has no channel any more".to_owned();
                self.events.push_back(Event::AppExited { slot, clean: true, how });
            }
        }
    }

    /// Makes a pair: one end brings the idle connections of `from` to `to`, the other goes to `from` with `message`.
    fn connect_workers(&mut self, from: u64, to: u64, message: &ToWorker) {
        let pair =
            rustix::net::socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None);
        let (old_end, new_end) = match pair {
            Ok((old_end, new_end)) => (Some(old_end), Some(new_end)),
            Err(error) => {
                tracing::warn!(%error, "idle connections cannot be handed over, and are closed");
                (None, None)
            }
        };
        if let (Some(worker), Some(end)) = (self.workers.get_mut(&to), new_end) {
            worker.channel.send(&ToWorker::Adopt(from), Some(end));
        }
        if let Some(worker) = self.workers.get_mut(&from) {
            worker.channel.send(message, old_end);
        }
    }

    fn close_sockets(&mut self) {
        self.around.inherited.clear();
        self.left_open = None;
        for prepared in self.plans.values_mut() {
            prepared.close_listeners();
        }
    }

    fn notify(&mut self, notice: Notice) {
        let told = match notice {
            Notice::Ready => {
                if !std::mem::replace(&mut self.announced, true) {
                    self.announce();
                    let prepared = self.plan_present.and_then(|number| self.plans.get(&number));
                    self.console.listens(prepared);
                }
                sd_notify::notify(&[NotifyState::Ready, NotifyState::Status("serving")])
            }
            Notice::Refused(why) => {
                sd_notify::notify(&[NotifyState::Ready, NotifyState::Status(&refused(&why))])
            }
            Notice::Reloading => NotifyState::monotonic_usec_now().and_then(|now| {
                sd_notify::notify(&[NotifyState::Reloading, now, NotifyState::Status("reloading")])
            }),
            Notice::Waiting(what) => sd_notify::notify(&[
                NotifyState::ExtendTimeoutUsec(
                    u32::try_from(RELOAD_EXTENSION.as_micros()).unwrap_or(u32::MAX),
                ),
                NotifyState::Status(&format!("reloading: {what}")),
            ]),
            Notice::Stopping => sd_notify::notify(&[NotifyState::Stopping, NotifyState::Status("stopping")]),
        };
        if let Err(error) = told {
            tracing::warn!(%error, "the service manager cannot be notified");
        }
    }

    fn announce(&self) {
        let Some(prepared) = self.plan_present.and_then(|number| self.plans.get(&number)) else { return };
        for line in prepared.announcement() {
            tracing::info!("{line}");
            if self.options.announce {
                // A missing reader is no reason not to serve.
                let _ = std::io::Write::write_fmt(&mut std::io::stdout(), format_args!("{line}\n"));
            }
        }
        if let Some(pair) = self.around.self_signed.get() {
            let line = format!("certificate, self-signed, SHA-256 {}", self_signed::fingerprint(pair));
            tracing::info!("{line}");
            if self.options.announce {
                let _ = std::io::Write::write_fmt(&mut std::io::stdout(), format_args!("{line}\n"));
            }
        }
        if let Some(admin) = prepared.admin_text() {
            tracing::info!("admin {admin}");
        }
        if let Some(path) = prepared.admin_token() {
            tracing::info!("commands by TCP take the token in {}", path.display());
        }
    }

    fn log(&self, level: tracing::Level, text: &str) {
        // Before the log is set up there is only a refused configuration to report, and it is for a person to read.
        if !self.logs {
            return maitred_log::error::say(text);
        }
        // An event is one line of the log; the errors of a configuration have several.
        for line in text.lines() {
            match level {
                tracing::Level::ERROR => tracing::error!("{line}"),
                tracing::Level::WARN => tracing::warn!("{line}"),
                _ => tracing::info!("{line}"),
            }
        }
    }
}

/// A duplicate of a channel's end; `None` if there is no descriptor for it.
fn hold(channel: &OwnedFd) -> Option<Passed> {
    Some(Passed::own(channel.try_clone().ok()?, None, closer_apart().clone()))
}

/// What a service manager shows of a refusal: one line, and not without end. Of a configuration's errors it is what is wrong,
/// without the places.
fn refused(why: &str) -> String {
    let errors: Vec<&str> = why.lines().filter_map(|line| line.strip_prefix("error: ")).collect();
    let errors = if errors.is_empty() { why.lines().collect() } else { errors };
    let text = format!("serving; reload refused: {}", errors.join("; "));
    text.chars().map(|char| if char.is_control() { ' ' } else { char }).take(STATUS_CHARS_MAX).collect()
}
