//! The descriptor that lines end in, and what happens when it does not take them.

use std::io::{self, Write as _};
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;

use maitred_base::unix_time;

/// How often a failing descriptor is reported.
const COMPLAIN_EVERY: Duration = Duration::from_secs(60);

/// Lines in a buffer.
pub(super) fn lines(bytes: &[u8]) -> u64 {
    memchr::memchr_iter(b'\n', bytes).count() as u64
}

/// What a line is on its way.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Framing {
    /// A line among others: of a file, a pipe, a terminal.
    Lines,
    /// A datagram as syslog(3) sends it to the socket of the machine (RFC 3164).
    SyslogLocal,
    /// A datagram of RFC 5424, with this name of the machine.
    SyslogNetwork(String),
    /// A datagram of journald's native protocol.
    Journald,
}

impl Framing {
    /// Facility local7, severity info.
    const PRIORITY: u8 = 23 * 8 + 6;

    /// Puts a datagram together for a line, which has no end.
    fn frame(&self, line: &[u8], out: &mut Vec<u8>) {
        out.clear();
        let process = std::process::id();
        // Writing to memory does not fail.
        let _ = match self {
            Framing::Lines => Ok(()),
            Framing::SyslogLocal => {
                let stamp = syslog_stamp(&maitred_http::date::format(unix_time::secs()));
                write!(out, "<{}>{stamp} maitred[{process}]: ", Self::PRIORITY)
            }
            Framing::SyslogNetwork(host) => {
                let iso = crate::iso(&maitred_http::date::format(unix_time::secs()));
                let iso = String::from_utf8_lossy(&iso);
                write!(out, "<{}>1 {iso}Z {host} maitred {process} access - ", Self::PRIORITY)
            }
            Framing::Journald => {
                write!(out, "PRIORITY=6\nSYSLOG_FACILITY=23\nSYSLOG_IDENTIFIER=maitred\nMESSAGE=")
            }
        };
        out.extend_from_slice(line);
        if *self == Framing::Journald {
            out.push(b'\n');
        }
    }
}

/// `Nov  6 08:49:37` of `Sun, 06 Nov 1994 08:49:37 GMT` (RFC 3164 section 4.1.2).
fn syslog_stamp(date: &[u8; 29]) -> String {
    let text = String::from_utf8_lossy(date);
    let (day, rest) = (text.get(5..7).unwrap_or_default(), text.get(17..25).unwrap_or_default());
    let day = day.strip_prefix('0').unwrap_or(day);
    format!("{} {day:>2} {rest}", text.get(8..11).unwrap_or_default())
}

/// A descriptor of any kind: file, pipe, terminal or socket, blocking or not.
#[derive(Debug)]
pub(super) struct Sink {
    descriptor: OwnedFd,
    framing: Framing,
    /// Room for a datagram.
    datagram: Vec<u8>,
    /// The last write stopped inside a line: the next one starts by ending it, so that no two lines run into one.
    torn: bool,
    complained: Option<Instant>,
    /// Lines lost since the last report.
    lost: u64,
}

impl Sink {
    pub(super) fn new(descriptor: OwnedFd, framing: Framing) -> Sink {
        Sink { descriptor, framing, datagram: Vec::new(), torn: false, complained: None, lost: 0 }
    }

    /// Another descriptor takes the place of this one. A line that was torn stays so in the file before.
    pub(super) fn go_on_with(&mut self, descriptor: OwnedFd) {
        (self.descriptor, self.torn) = (descriptor, false);
    }

    /// As if the last write had stopped inside a line.
    #[cfg(test)]
    pub(super) fn tear(&mut self) {
        self.torn = true;
    }

    /// Writes whole lines, and waits as long as that takes. Gives how many were lost to an error; the next call tries
    /// again, because disks are emptied.
    pub(super) fn write(&mut self, buffer: &[u8]) -> u64 {
        if self.framing != Framing::Lines {
            return self.send_all(buffer);
        }
        if self.torn && self.write_all(b"\n").is_ok() {
            self.torn = false;
        }
        let Err((written, error)) = self.write_all(buffer) else {
            return 0;
        };
        let (done, rest) = buffer.split_at(written);
        self.torn |= done.last().is_some_and(|last| *last != b'\n');
        let lost = lines(rest);
        self.lost += lost;
        self.complain(&error);
        lost
    }

    /// Sends each line as a datagram. Gives how many were lost.
    fn send_all(&mut self, buffer: &[u8]) -> u64 {
        let mut failed = (0, None);
        for line in buffer.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
            let mut datagram = std::mem::take(&mut self.datagram);
            self.framing.frame(line, &mut datagram);
            // A datagram leaves as a whole, or not at all.
            if let Err((_, error)) = self.write_all(&datagram) {
                failed = (failed.0 + 1, Some(error));
            }
            self.datagram = datagram;
        }
        self.lost += failed.0;
        if let Some(error) = failed.1 {
            self.complain(&error);
        }
        failed.0
    }

    /// As [`io::Write::write_all`], but tells how far it came, and waits where a non-blocking descriptor does not.
    fn write_all(&self, buffer: &[u8]) -> Result<(), (usize, io::Error)> {
        let mut written = 0;
        while let Some(rest) = buffer.get(written..).filter(|rest| !rest.is_empty()) {
            match rustix::io::write(&self.descriptor, rest) {
                Ok(0) => return Err((written, io::ErrorKind::WriteZero.into())),
                Ok(more) => written += more,
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => self.wait().map_err(|error| (written, error))?,
                Err(error) => return Err((written, error.into())),
            }
        }
        Ok(())
    }

    /// Until the descriptor takes bytes again, or fails.
    fn wait(&self) -> io::Result<()> {
        loop {
            match poll(&mut [PollFd::new(&self.descriptor, PollFlags::OUT)], None) {
                Ok(_) => return Ok(()),
                Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    fn complain(&mut self, error: &io::Error) {
        if self.complained.is_none_or(|last| last.elapsed() >= COMPLAIN_EVERY) {
            tracing::error!(lost = self.lost, %error, "access log: lines could not be written");
            self.complained = Some(Instant::now());
            self.lost = 0;
        }
    }
}
