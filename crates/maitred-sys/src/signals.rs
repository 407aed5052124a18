//! Signals as something to read: blocked in every thread, and queued in a descriptor (signalfd(2)).

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, FromRawFd, OwnedFd};

/// A signal that the master acts on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Signal {
    /// `SIGHUP`
    Hangup,
    /// `SIGTERM`
    Terminate,
    /// `SIGINT`
    Interrupt,
    /// `SIGQUIT`
    Quit,
    /// `SIGUSR1`
    User1,
    /// `SIGUSR2`
    User2,
    /// `SIGCHLD`
    Child,
}

const TABLE: [(Signal, i32, &str); 7] = [
    (Signal::Hangup, libc::SIGHUP, "SIGHUP"),
    (Signal::Terminate, libc::SIGTERM, "SIGTERM"),
    (Signal::Interrupt, libc::SIGINT, "SIGINT"),
    (Signal::Quit, libc::SIGQUIT, "SIGQUIT"),
    (Signal::User1, libc::SIGUSR1, "SIGUSR1"),
    (Signal::User2, libc::SIGUSR2, "SIGUSR2"),
    (Signal::Child, libc::SIGCHLD, "SIGCHLD"),
];

impl Signal {
    fn from_number(number: u32) -> Option<Self> {
        TABLE.iter().find(|row| u32::try_from(row.1) == Ok(number)).map(|row| row.0)
    }

    /// Sends it to this process. Where [`Signals::block`] was called it waits there, and stays pending over execve(2).
    pub fn send_to_self(self) {
        let number = TABLE.iter().find(|row| row.0 == self).map_or(0, |row| row.1);
        // SAFETY: kill(2) and getpid(2) take and give numbers; a process may signal itself. Number 0 sends nothing.
        unsafe { libc::kill(libc::getpid(), number) };
    }

    /// The name of the signal, as `SIGTERM`.
    pub fn name(self) -> &'static str {
        TABLE.iter().find(|row| row.0 == self).map_or("a signal", |row| row.2)
    }
}

/// The queue of blocked signals.
#[derive(Debug)]
pub struct Signals {
    queue: OwnedFd,
}

impl Signals {
    /// Blocks all of [`Signal`] in this thread and in those that it starts from now on, and opens the queue. Call before
    /// any other thread exists, since a signal is delivered to any thread that does not block it.
    ///
    /// # Errors
    /// What signalfd(2) says.
    pub fn block() -> io::Result<Self> {
        let mut set = MaybeUninit::<libc::sigset_t>::uninit();
        // SAFETY: sigemptyset(3) initialises the set, sigaddset(3) changes an initialised one, and the calls that
        // follow only read it.
        let queue = unsafe {
            // A parent may have had it ignored, and children would be gone before it is known how they ended.
            libc::signal(libc::SIGCHLD, libc::SIG_DFL);
            libc::sigemptyset(set.as_mut_ptr());
            for (_, number, _) in TABLE {
                libc::sigaddset(set.as_mut_ptr(), number);
            }
            let error = libc::pthread_sigmask(libc::SIG_BLOCK, set.as_ptr(), std::ptr::null_mut());
            if error != 0 {
                return Err(io::Error::from_raw_os_error(error));
            }
            libc::signalfd(-1, set.as_ptr(), libc::SFD_CLOEXEC | libc::SFD_NONBLOCK)
        };
        if queue < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: a descriptor that signalfd(2) has just made; it has no other owner.
        Ok(Signals { queue: unsafe { OwnedFd::from_raw_fd(queue) } })
    }

    /// The oldest signal that waits, or `None`.
    ///
    /// # Errors
    /// What read(2) says.
    pub fn next(&self) -> io::Result<Option<Signal>> {
        // The first four bytes of signalfd_siginfo are the number; the kernel writes whole records only.
        let mut record = [0_u8; size_of::<libc::signalfd_siginfo>()];
        loop {
            match rustix::io::read(&self.queue, &mut record) {
                Ok(0) | Err(rustix::io::Errno::AGAIN) => return Ok(None),
                Ok(_) => {
                    let [a, b, c, d, ..] = record;
                    if let Some(signal) = Signal::from_number(u32::from_ne_bytes([a, b, c, d])) {
                        return Ok(Some(signal));
                    }
                }
                Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
}

impl AsFd for Signals {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.queue.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signal_to_this_thread_is_queued_not_delivered() {
        // In a thread of its own: the mask is the thread's, and the other tests keep theirs.
        std::thread::spawn(|| {
            let signals = Signals::block().unwrap();
            assert_eq!(signals.next().unwrap(), None);
            // SAFETY: raises a blocked signal in this very thread.
            unsafe { libc::raise(libc::SIGUSR1) };
            assert_eq!(signals.next().unwrap(), Some(Signal::User1));
            assert_eq!(signals.next().unwrap(), None);
        })
        .join()
        .unwrap();
    }
}
