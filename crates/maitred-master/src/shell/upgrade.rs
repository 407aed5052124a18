//! The executable is replaced: the check before, what the old image packs, and how the new one unpacks it.

use std::os::fd::{AsFd, OwnedFd};
use std::rc::Rc;

use maitred_sys::replace;
use maitred_sys::signals::Signal;
use maitred_sys::spawn::{Child, Command};
use rustix::io::Errno;
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, recv};
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::Rlimit;

use super::{App, Process, Shell, exited, log_failure};
use crate::admin::AdminListener;
use crate::cpu_time::CpuTime;
use crate::output::Output;
use crate::pid_file::PidFile;
use crate::pool_sockets::PoolSockets;
use crate::prepare::Open;
use crate::process::NOT_PASSED_ON;
use crate::state::events::Event;
use crate::state::events::InheritedState;
use crate::upgrade_state::{PackedAdmin, PackedApp, Packer, Unpacker, UpgradeState};
use maitred_base::rates::Table;
use maitred_base::upgrade::{
    CHECK_COMMAND, GO, GO_FOR_GOOD, SERVE_ON, STOP, VARIABLE, WORD_BYTES_MAX, judge,
};
use maitred_config::limits::OUTPUT_BYTES_PER_SECOND_MAX;
use maitred_control::{DrainTime, SlotId, ToWorker};

/// Bytes that a check may say; what is beyond is not read.
const SAID_BYTES_MAX: usize = 64 * 1024;
/// What the new image must not take for its own: the sockets of a service manager are in the upgrade state.
const NOT_KEPT: [&str; 4] = ["LISTEN_FDS", "LISTEN_PID", "LISTEN_FDNAMES", VARIABLE];

/// The new executable, which checks itself and the configuration.
pub(super) struct Check {
    pub(super) child: Child,
    /// What the check writes to standard output and standard error. The text is short, and only the end is waited for.
    pipe: OwnedFd,
    said: Vec<u8>,
}

impl Check {
    fn read(&mut self) {
        let mut room = [0; 4096];
        while self.said.len() < SAID_BYTES_MAX {
            match rustix::io::read(&self.pipe, &mut room) {
                Ok(length @ 1..) => self.said.extend_from_slice(room.get(..length).unwrap_or_default()),
                Err(Errno::INTR) => {}
                Ok(0) | Err(_) => return,
            }
        }
    }
}

impl Shell<'_> {
    pub(super) fn start_check(&mut self) {
        match self.try_start_check() {
            Ok(check) => self.check = Some(check),
            Err(error) => self.events.push_back(Event::Checked(Err(error.to_string()))),
        }
    }

    fn try_start_check(&self) -> std::io::Result<Check> {
        let program = self
            .executable
            .clone()
            .ok_or_else(|| std::io::Error::other("/proc does not say where the executable is"))?;
        let (pipe, theirs) = pipe_with(PipeFlags::CLOEXEC)?;
        rustix::io::ioctl_fionbio(&pipe, true)?;
        let mut command = Command::new(program);
        command.arg(CHECK_COMMAND).arg("--").new_group().stdout(theirs.as_fd()).stderr(theirs.as_fd());
        for argument in std::env::args_os() {
            command.arg(argument);
        }
        // The new executable is the next image of this process, and reads the configuration, in which variables may stand.
        command.inherit("*");
        for name in NOT_PASSED_ON {
            command.env_remove(name);
        }
        Ok(Check { child: command.spawn()?, pipe, said: Vec::new() })
    }

    pub(super) fn take_check(&mut self) {
        let Some(check) = &mut self.check else { return };
        check.read();
        let Some((well, how)) = exited(&check.child) else { return };
        check.read();
        let said = String::from_utf8_lossy(&check.said).into_owned();
        self.check = None;
        let program = self.executable.as_deref().unwrap_or_else(|| std::path::Path::new(""));
        let outcome = judge(program, &said, well, &how);
        if outcome.is_ok() {
            // Warnings about the configuration, for the most part: the start says them.
            tracing::debug!("the new executable says: {}", said.trim_end());
        }
        self.events.push_back(Event::Checked(outcome));
    }

    pub(super) fn abandon_check(&mut self) {
        if let Some(check) = self.check.take() {
            log_failure("ending a check", check.child.kill());
            self.ended_children.push(check.child);
        }
    }

    /// Prepares a worker process for the time without a master.
    pub(super) fn orphan_mode(&mut self, generation: u64, time: Option<DrainTime>) {
        let mut theirs = None;
        if time.is_some() {
            match rustix::net::socketpair(
                AddressFamily::UNIX,
                SocketType::SEQPACKET,
                SocketFlags::CLOEXEC,
                None,
            ) {
                Ok((ours, end)) => (self.new_end, theirs) = (Some(ours), Some(end)),
                Err(error) => {
                    return self.events.push_back(Event::NotReplaced(format!("socketpair: {error}")));
                }
            }
        }
        let slots: Vec<SlotId> =
            self.apps.values().filter(|app| app.generation == generation).map(|app| app.slot).collect();
        slots.into_iter().for_each(|slot| self.have_watched(generation, slot));
        if let Some(worker) = self.workers.get_mut(&generation) {
            worker.channel.send(&ToWorker::OrphanMode(time.unwrap_or(DrainTime::bounded(0))), theirs);
        }
    }

    /// Gives a worker process the means to see the end of an application process by itself.
    pub(super) fn have_watched(&mut self, generation: u64, slot: SlotId) {
        let Some(App { process: Process::Own(child), .. }) = self.apps.get(&slot.epoch) else { return };
        let (Ok(watch), Some(worker)) =
            (child.as_fd().try_clone_to_owned(), self.workers.get_mut(&generation))
        else {
            return;
        };
        worker.channel.send(&ToWorker::Watch(slot), Some(watch));
    }

    /// The old worker process goes; its end leads to the one that has taken over.
    pub(super) fn go(&mut self, from: u64, to: Option<u64>) {
        let Some(end) = self.old_end.take() else { return };
        let word = if to.is_some() { GO } else { GO_FOR_GOOD };
        if let Err(error) = rustix::net::send(&end, word, SendFlags::NOSIGNAL | SendFlags::DONTWAIT) {
            tracing::warn!(generation = from, %error, "the old worker process cannot be asked to drain");
        }
        if let Some(worker) = to.and_then(|to| self.workers.get_mut(&to)) {
            worker.channel.send(&ToWorker::Adopt(from), Some(end));
        }
    }

    /// Says to the old worker process why it serves on.
    pub(super) fn tell_old(&self, why: &str) {
        let Some(end) = &self.old_end else { return };
        let mut word = [SERVE_ON, why.as_bytes()].concat();
        word.truncate(WORD_BYTES_MAX);
        if let Err(error) = rustix::net::send(end, &word, SendFlags::NOSIGNAL | SendFlags::DONTWAIT) {
            tracing::debug!(%error, "the old worker process cannot be told why it serves on");
        }
    }

    /// Takes what the old worker process passes on.
    pub(super) fn take_word(&mut self) {
        let Some(end) = &self.old_end else { return };
        let mut word = [0; WORD_BYTES_MAX];
        match recv(end, &mut word, RecvFlags::DONTWAIT) {
            Err(Errno::AGAIN | Errno::INTR) => {}
            Ok((length @ 1.., _)) => {
                // What is not understood is of a later version.
                if word.get(..length).is_some_and(|word| word.starts_with(STOP)) {
                    self.events.push_back(Event::StopWanted);
                }
            }
            // The old worker process has ended, which its own exit says as well.
            Ok((0, _)) | Err(_) => self.old_end = None,
        }
    }

    /// Becomes the new executable; what could not be is an event.
    pub(super) fn replace(&mut self, inherited_state: InheritedState) {
        let mut signals = Vec::new();
        self.events.retain(|event| match event {
            Event::Signal(signal) => {
                signals.push(*signal);
                false
            }
            Event::StopWanted => {
                signals.push(Signal::Terminate);
                false
            }
            _ => true,
        });
        // Read, but not acted on. The signals wait in the process, and come out of the queue of whichever image is next.
        signals.into_iter().for_each(Signal::send_to_self);
        // Hooks go with the agent, whose socket ends.
        self.end_hooks();
        let why = match self.try_replace(inherited_state) {
            Ok(error) => error.to_string(),
            Err(error) => format!("packing: {error}"),
        };
        self.events.push_back(Event::NotReplaced(why));
    }

    fn try_replace(&mut self, inherited_state: InheritedState) -> std::io::Result<std::io::Error> {
        let program = self.executable.clone().ok_or(std::io::ErrorKind::NotFound)?;
        let mut packer = Packer::default();
        let mut upgrade_state = self.pack(inherited_state, &mut packer);
        let secrets = upgrade_state.hide_secrets()?;
        let (file, place) = upgrade_state.seal()?;
        packer.add(secrets.as_fd());
        packer.add(file.as_fd());
        let (arguments, mut environment) = replace::invocation(&NOT_KEPT);
        environment.push((VARIABLE.into(), place.into()));
        tracing::info!("replacing the executable by {}", program.display());
        Ok(replace::replace(&program, &arguments, &environment, packer.keep()))
    }

    fn pack<'a>(&'a self, inherited_state: InheritedState, packer: &mut Packer<'a>) -> UpgradeState {
        let mut upgrade_state = UpgradeState::new(inherited_state, self.around.tickets.borrow().clone());
        let old = self.old_workers.iter().map(|(generation, child)| (*generation, child.pid()));
        let present = self.workers.iter().map(|(generation, worker)| (*generation, worker.child.pid()));
        upgrade_state.workers = old.chain(present).collect();
        for app in self.apps.values() {
            let Process::Own(child) = &app.process else { continue };
            let output = app
                .output
                .as_ref()
                .and_then(|output| Some((output.name().to_owned(), packer.add(output.pipe_end()?))));
            let (slot, generation) = (app.slot, app.generation);
            upgrade_state.apps.push(PackedApp { slot, generation, pid: child.pid(), output });
        }
        let agent = self.agents().map(|agent| &agent.child);
        upgrade_state.leave_out_the_gone();
        upgrade_state.others = self.ended_children.iter().chain(agent).map(Child::pid).collect();
        let plan = self.plan_present.and_then(|number| self.plans.get(&number));
        if let Some(open) = plan.and_then(|plan| plan.open.as_ref()).or(self.left_open.as_ref()) {
            upgrade_state.listens = packer.groups(&open.groups);
            upgrade_state.unix = packer.unix(&open.groups);
            upgrade_state.datagrams = packer.groups(open.datagrams.iter().flatten());
            upgrade_state.pools = packer.groups(open.pools.iter().flat_map(PoolSockets::groups));
            upgrade_state.admin = open.admin.as_ref().map(|admin| {
                let socket = packer.add(admin.as_fd());
                PackedAdmin { asked: admin.asked.clone(), local: admin.local, socket, file: admin.file() }
            });
            upgrade_state.pid_file = open.pid_file().map(|file| file.path().to_owned());
        }
        upgrade_state.inherited = packer.groups(&self.around.inherited);
        upgrade_state.inherited_unix = packer.unix(&self.around.inherited);
        // What older executables know of these.
        upgrade_state.inherited_admin = upgrade_state.inherited_unix.first().map(|one| one.socket);
        let end = self.new_end.as_ref().or(self.old_end.as_ref());
        upgrade_state.end = end.map(|end| packer.add(end.as_fd()));
        upgrade_state.stderr = self.stderr.as_ref().map(|stderr| packer.add(stderr.as_fd()));
        upgrade_state.open_files = (self.open_files.current, self.open_files.maximum);
        upgrade_state.started_at = self.started_at;
        let tables = self.limit_tables.files();
        upgrade_state.limits = tables.map(|(name, file)| (name.to_owned(), packer.add(file))).collect();
        upgrade_state.cache =
            self.cache_table.file().map(|(directory, file)| (directory.to_owned(), packer.add(file)));
        upgrade_state.history = self.history.file().map(|file| packer.add(file));
        upgrade_state.endpoints = self.endpoints.clone();
        upgrade_state.datagram_secret = Some(self.around.datagrams.clone());
        upgrade_state.self_signed = self.around.self_signed.get().cloned();
        upgrade_state
    }

    /// Takes over what the image before has left. The image's sockets of a service manager and its keys are in `around` already.
    pub(super) fn unpack(
        &mut self,
        upgrade_state: UpgradeState,
        unpacker: &mut Unpacker,
    ) -> Result<(), String> {
        self.left_open = Some(Open::left(
            [unpacker.groups(upgrade_state.listens)?, unpacker.unix(upgrade_state.unix)?].concat(),
            unpacker.groups(upgrade_state.datagrams)?,
            PoolSockets::left(unpacker.groups(upgrade_state.pools)?),
            upgrade_state.admin.map(unpack_admin).transpose()?,
            upgrade_state.pid_file.map(|path| Rc::new(PidFile::left(path))),
        ));
        self.old_end = upgrade_state.end.map(Unpacker::take).transpose()?;
        if let Some(stderr) = upgrade_state.stderr {
            self.stderr = Some(Unpacker::take(stderr)?);
        }
        for (name, file) in upgrade_state.limits {
            // A table of another format begins anew.
            if let Ok(table) = Table::open(Unpacker::take(file)?) {
                self.limit_tables.adopt(name, table);
            }
        }
        if let Some((directory, file)) = upgrade_state.cache
            && let Ok(table) = maitred_cache::Table::open(Unpacker::take(file)?)
        {
            self.cache_table.adopt(directory, table);
        }
        if let Some(file) = upgrade_state.history {
            self.history.adopt(Unpacker::take(file)?);
        }
        self.endpoints = upgrade_state.endpoints;
        self.open_files = Rlimit { current: upgrade_state.open_files.0, maximum: upgrade_state.open_files.1 };
        (self.started_at, self.announced) = (upgrade_state.started_at, true);
        self.upgraded_from = Some(upgrade_state.version);
        for (generation, pid) in upgrade_state.workers {
            match Child::adopt(pid) {
                Ok(child) => drop(self.old_workers.insert(generation, child)),
                Err(error) => {
                    let how = format!("cannot be found: {error}");
                    self.events.push_back(Event::WorkerExited { generation, how });
                }
            }
        }
        for app in upgrade_state.apps {
            self.unpack_app(app)?;
        }
        // A child that has ended is reaped; nothing else is to be done about the others.
        self.ended_children.extend(upgrade_state.others.into_iter().filter_map(|pid| Child::adopt(pid).ok()));
        Ok(())
    }

    /// An application process of the image before.
    fn unpack_app(&mut self, PackedApp { slot, generation, pid, output }: PackedApp) -> Result<(), String> {
        // A process of the image before goes soon: the configuration that it was started with is not at hand any more.
        let most = OUTPUT_BYTES_PER_SECOND_MAX as u32;
        let output =
            output.map(|(name, pipe)| Ok::<_, String>(Output::left(name, Unpacker::take(pipe)?, most)));
        let output = output.transpose()?;
        match Child::adopt(pid) {
            Ok(child) => {
                let (process, cpu) = (Process::Own(child), CpuTime::default());
                // The recovery socket has ended with the image before: the process goes with its worker process.
                let (channel, recovery) = (None, None);
                let app =
                    App { process, slot, generation, channel, link: None, recovery, output, memory: 0, cpu };
                self.apps.insert(slot.epoch, app);
            }
            Err(error) => {
                let how = format!("cannot be found: {error}");
                self.events.push_back(Event::AppExited { slot, clean: false, how });
            }
        }
        Ok(())
    }
}

fn unpack_admin(packed: PackedAdmin) -> Result<Rc<AdminListener>, String> {
    let PackedAdmin { asked, local, socket, file } = packed;
    Ok(Rc::new(AdminListener::left(asked, local, Unpacker::take(socket)?, file)))
}
