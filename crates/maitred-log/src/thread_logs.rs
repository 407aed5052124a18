//! All access logs as one event-loop thread sees them.

use std::time::Instant;

use super::access::Line;
use super::writer::ThreadLog;
use maitred_config::LogChoice;

/// The log of `[log]`, and those of `[access_log.NAME]`.
#[derive(Debug)]
pub struct ThreadLogs {
    main: ThreadLog,
    named: Vec<ThreadLog>,
}

impl ThreadLogs {
    /// The logs of one thread; `named` in the order of the configuration.
    pub fn new(main: ThreadLog, named: Vec<ThreadLog>) -> ThreadLogs {
        ThreadLogs { main, named }
    }

    /// The log that a plan names; that of `[log]` where it names none.
    fn get(&self, choice: Option<LogChoice>) -> Option<&ThreadLog> {
        match choice {
            None | Some(LogChoice::Main) => Some(&self.main),
            Some(LogChoice::Off) => None,
            Some(LogChoice::Named(number)) => self.named.get(usize::from(number)),
        }
    }

    /// Whether lines are wanted at all: the caller need not gather what a line says.
    #[inline]
    pub fn is_on(&self, choice: Option<LogChoice>) -> bool {
        self.get(choice).is_some_and(ThreadLog::is_on)
    }

    /// Whether lines of this log have this field of the request.
    pub fn wants(&self, choice: Option<LogChoice>, name: &str) -> bool {
        self.get(choice).is_some_and(|log| log.wants(name))
    }

    /// Takes one line; never blocks. A line that finds no room is dropped and counted.
    pub fn push(&mut self, choice: Option<LogChoice>, line: &Line<'_>) {
        match choice {
            None | Some(LogChoice::Main) => self.main.push(line),
            Some(LogChoice::Off) => {}
            Some(LogChoice::Named(number)) => {
                if let Some(log) = self.named.get_mut(usize::from(number)) {
                    log.push(line);
                }
            }
        }
    }

    /// When [`ThreadLogs::tick`] should be called next; `None` while nothing waits.
    pub fn flush_due(&self) -> Option<Instant> {
        self.named.iter().chain([&self.main]).filter_map(ThreadLog::flush_due).min()
    }

    /// As [`ThreadLog::tick`], of all of them.
    pub fn tick(&mut self, now: Instant) -> u64 {
        self.named.iter_mut().chain([&mut self.main]).map(|log| log.tick(now)).sum()
    }
}
