//! Processes of a comparison: each of them ends with it, however it ends.

use std::ffi::OsString;
use std::fs::File;
use std::os::fd::AsFd as _;
use std::path::Path;

use maitred_sys::signals::{Signal, Signals};
use maitred_sys::spawn::{Child, Command, Exit};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::Error;

/// A process that ends with this.
pub(super) struct Process(Child);

impl Process {
    /// Starts a program, whose output goes to two files.
    pub(super) fn start(
        program: &Path,
        arguments: &[OsString],
        (output, errors): (&File, &File),
    ) -> Result<Process, Error> {
        let mut command = Command::new(program);
        for argument in arguments {
            command.arg(argument);
        }
        // Also where this process is killed, and nothing of it runs any more.
        command.stdout(output.as_fd()).stderr(errors.as_fd()).death_signal(rustix::process::Signal::TERM);
        command.inherit("*");
        let started = command.spawn().map(Process);
        started
            .map_err(|why| Error::failed(format!("{}: {why}", program.display()), "it has to be executable"))
    }

    /// How it has ended; `None` while it runs.
    pub(super) fn ended(&self) -> Option<Exit> {
        self.0.try_wait().unwrap_or(None)
    }

    /// Waits until it has ended, or for this time; forever without one.
    ///
    /// # Errors
    /// A signal has asked for the end of the comparison.
    pub(super) fn wait(&self, signals: &Signals, time: Option<&Timespec>) -> Result<(), Error> {
        let mut watched = [PollFd::new(&self.0, PollFlags::IN), PollFd::new(signals, PollFlags::IN)];
        let _ = poll(&mut watched, time);
        match signals.next() {
            Ok(Some(Signal::Terminate | Signal::Interrupt | Signal::Quit | Signal::Hangup)) => {
                Err(Error::failed("the comparison was ended", "the import above is complete"))
            }
            _ => Ok(()),
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.terminate();
        let _ = self.0.wait();
    }
}
