//! What is known of the last minutes for the status: a memory file of the master, so that charts and figures go on when worker
//! processes are replaced.

use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};

use maitred_config::Config;
use maitred_control::Descriptor;
use maitred_status::history::HistoryFile;

/// See the module. No history exists before the first worker process.
#[derive(Debug, Default)]
pub(crate) struct History(Option<HistoryFile>);

impl History {
    /// Makes room in it for a worker process with the configuration `next`, besides the one in force.
    ///
    /// # Errors
    /// What the system says about memory files.
    pub(crate) fn prepare(&mut self, next: &Config, present: Option<&Config>) -> io::Result<()> {
        let file = match self.0.take() {
            Some(file) => file,
            None => HistoryFile::create()?,
        };
        file.settle(present.into_iter().chain([next]));
        self.0 = Some(file);
        Ok(())
    }

    /// What a worker process gets of it.
    pub(crate) fn descriptor(&self) -> Option<(Descriptor, BorrowedFd<'_>)> {
        self.file().map(|file| (Descriptor::History, file))
    }

    /// Forgets the routes and pools that this configuration does not have.
    pub(crate) fn retain(&self, present: &Config) {
        if let Some(file) = &self.0 {
            file.settle([present]);
        }
    }

    /// The file, for the next executable.
    pub(crate) fn file(&self) -> Option<BorrowedFd<'_>> {
        self.0.as_ref().map(HistoryFile::file)
    }

    /// Takes over the one that the executable before has left. With another layout, history begins anew.
    pub(crate) fn adopt(&mut self, file: OwnedFd) {
        self.0 = HistoryFile::open(file).ok();
    }
}
