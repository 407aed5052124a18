//! The access logs of a worker process: a writer thread for each.

use std::os::fd::OwnedFd;
use std::time::Duration;

use maitred_config::{LogFormat, LogTarget};
use maitred_control::{LogFile, Start};
use maitred_log::thread_logs::ThreadLogs;
use maitred_log::writer::{Framing, Reopener, Settings, Writer};

/// How long the last lines of a log may take to be written.
const TIMEOUT: Duration = Duration::from_secs(2);

/// The writers of all logs.
pub(super) struct AccessLogs {
    main: Writer,
    named: Vec<Writer>,
}

impl AccessLogs {
    /// Starts them. `files` are what the master has opened: that of `[log]` has no number. What is not there is standard output.
    pub(super) fn open(start: &Start, files: Vec<(Option<usize>, OwnedFd)>) -> std::io::Result<AccessLogs> {
        let config = &start.config;
        let mut sinks: Vec<Option<OwnedFd>> = Vec::new();
        sinks.resize_with(config.access_logs.len() + 1, || None);
        for (number, file) in files {
            if let Some(sink) = sinks.get_mut(number.map_or(0, |number| number + 1)) {
                *sink = Some(file);
            }
        }
        let mut sinks = sinks.into_iter();
        let mut writer = |format: LogFormat, framing: Framing, sample: u32| {
            let settings = Settings {
                format,
                colour: start.terminal,
                threads: start.threads.len(),
                buffer_bytes_max: config.limits.log_buffer_bytes_max as usize,
                sample,
            };
            let sink = match sinks.next().flatten() {
                Some(file) => file,
                None => rustix::io::dup(std::io::stdout())?,
            };
            Writer::start(sink, framing, settings)
        };
        let main = writer(config.log.access.into(), Framing::Lines, 1)?;
        let named =
            config.access_logs.iter().map(|log| writer(log.format.clone(), framing(&log.to), log.sample));
        let named = named.collect::<std::io::Result<_>>()?;
        Ok(AccessLogs { main, named })
    }

    /// All logs as one event-loop thread sees them.
    pub(super) fn thread_logs(&self) -> ThreadLogs {
        ThreadLogs::new(self.main.thread_log(), self.named.iter().map(Writer::thread_log).collect())
    }

    /// The handles by which they go on with other files.
    pub(super) fn log_files(&self) -> LogFiles {
        LogFiles { main: self.main.reopener(), named: self.named.iter().map(Writer::reopener).collect() }
    }

    /// Waits for the last lines.
    pub(super) fn stop(self) {
        for writer in self.named.into_iter().chain([self.main]) {
            if let Err(error) = writer.stop(TIMEOUT) {
                tracing::warn!(%error, "lines of an access log are lost");
            }
        }
    }
}

/// Has logs go on with other files.
pub(super) struct LogFiles {
    main: Reopener,
    named: Vec<Reopener>,
}

impl LogFiles {
    /// The file of a log was opened anew.
    pub(super) fn replace(&self, log: LogFile, file: OwnedFd) {
        match log {
            LogFile::Access => self.main.replace(file),
            LogFile::Named(number) => {
                if let Some(log) = self.named.get(number) {
                    log.replace(file);
                }
            }
            LogFile::Errors => {
                if let Err(error) = rustix::stdio::dup2_stderr(&file) {
                    tracing::error!(%error, "standard error cannot be redirected to log.error_file");
                }
            }
        }
    }
}

/// What a line is on its way there.
fn framing(to: &LogTarget) -> Framing {
    match to {
        LogTarget::File(_) | LogTarget::Stdout => Framing::Lines,
        LogTarget::SyslogSocket(_) => Framing::SyslogLocal,
        LogTarget::SyslogUdp(_) => {
            let name = rustix::system::uname().nodename().to_string_lossy().into_owned();
            // A header of RFC 5424 has a name without spaces, or this.
            let usable =
                !name.is_empty() && name.len() <= 255 && name.bytes().all(|byte| byte.is_ascii_graphic());
            Framing::SyslogNetwork(if usable { name } else { "-".into() })
        }
        LogTarget::Journald => Framing::Journald,
    }
}
