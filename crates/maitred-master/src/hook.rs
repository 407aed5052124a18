//! Hooks: programs of the operator's that make and remove records in the DNS ([`maitred_agents::acme::dns`]). The programs are
//! started as the agent's account, without its sandbox, which lets no program be started; and not by the agent, which reads
//! what comes from the network.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Instant;

use maitred_sys::spawn::{Child, Command};

use super::output::{LINE_BYTES_MAX, Output};
use super::prepare::Prepared;
use super::process;
use maitred_agents::acme::supervise::Hook;

/// A hook that runs.
#[derive(Debug)]
pub(crate) struct Running {
    /// [`Hook::number`]
    pub number: u64,
    /// The process, with a group of its own.
    pub child: Child,
    output: Output,
    end_at: Instant,
    late: bool,
}

impl Running {
    /// Starts it.
    ///
    /// # Errors
    /// What the system says, with what failed in words.
    pub(crate) fn start(prepared: &Prepared, hook: &Hook, now: Instant) -> io::Result<Running> {
        let mut words = hook.command.iter();
        let program = words.next().ok_or_else(|| io::Error::other("the hook has no program"))?;
        let mut command = Command::new(program);
        for word in words {
            command.arg(word);
        }
        let most = prepared.config.limits.output_bytes_per_second_max;
        let (output, written) = Output::pipe("acme-hook", most)?;
        command.new_group().no_new_privs().directory("/").stdout(written.as_fd()).stderr(written.as_fd());
        let user = prepared.config.acme.as_ref().and_then(|acme| acme.user.as_ref());
        process::surround(&mut command, user, &hook.env_inherit, &[])?;
        let child = command.spawn()?;
        Ok(Running { number: hook.number, child, output, end_at: now + hook.timeout, late: false })
    }

    /// When it is to be killed; `None` if it was.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        (!self.late).then_some(self.end_at)
    }

    /// What it writes.
    pub(crate) fn pipe_end(&self) -> Option<BorrowedFd<'_>> {
        self.output.pipe_end()
    }

    /// Logs what it has written since.
    pub(crate) fn pass_on(&mut self, room: &mut [u8; LINE_BYTES_MAX]) {
        self.output.pass_on(room);
    }

    /// Logs the rest, once the program has exited.
    pub(crate) fn finish(&mut self, room: &mut [u8; LINE_BYTES_MAX]) {
        self.output.finish(room);
    }

    /// Kills it if its time is over.
    pub(crate) fn check_time(&mut self, now: Instant) {
        if !self.late && self.end_at <= now {
            self.late = true;
            if let Err(error) = self.child.kill() {
                tracing::error!(%error, "killing a hook");
            }
        }
    }

    /// How it went, from how it ended.
    pub(crate) fn outcome(&self, clean: bool, how: &str) -> Result<(), String> {
        match (self.late, clean) {
            (true, _) => Err("the hook took too long, and was killed".to_owned()),
            (false, true) => Ok(()),
            (false, false) => Err(format!("the hook {how}")),
        }
    }
}
