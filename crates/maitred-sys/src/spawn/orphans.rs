//! Children that were not started here.

use std::collections::BTreeSet;
use std::io;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The children that a [`Child`](super::Child) stands for: its owner waits for them, and no other code may.
static WAITED_FOR: Mutex<BTreeSet<i32>> = Mutex::new(BTreeSet::new());

pub(super) fn waited_for() -> MutexGuard<'static, BTreeSet<i32>> {
    WAITED_FOR.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What [`reap_orphans`] has left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Orphans {
    /// None that has ended.
    None,
    /// Perhaps some: the kernel shows the oldest child that has ended, and that one is waited for by its [`Child`](super::Child).
    Perhaps,
}

/// Reaps the children that have ended and that no [`Child`](super::Child) stands for. Process 1 of a container and a child
/// subreaper (prctl(2),
/// `PR_SET_CHILD_SUBREAPER`) get the children of processes that have ended, and each stays as a zombie until it is reaped. Other
/// processes have no such children. Does not wait.
///
/// A process that was started in another way, as by `std::process`, must not be waited for at the same time.
///
/// # Errors
/// What waitid(2) says.
pub fn reap_orphans() -> io::Result<Orphans> {
    let waited_for = waited_for();
    loop {
        let look = libc::WEXITED | libc::WNOHANG;
        let Some(pid) = ended_child(libc::P_ALL, 0, look | libc::WNOWAIT)? else { return Ok(Orphans::None) };
        if waited_for.contains(&pid) {
            return Ok(Orphans::Perhaps);
        }
        ended_child(libc::P_PID, pid.unsigned_abs(), look)?;
    }
}

/// waitid(2), for the number of the process: rustix does not tell it. `None` if there is none that has ended, or no child at all.
fn ended_child(kind: libc::idtype_t, number: libc::id_t, options: libc::c_int) -> io::Result<Option<i32>> {
    loop {
        // SAFETY: an all-zero siginfo_t is a value of it.
        let mut found = unsafe { std::mem::zeroed::<libc::siginfo_t>() };
        // SAFETY: the kernel writes to `found`, which is large enough.
        if unsafe { libc::waitid(kind, number, &mut found, options) } == 0 {
            // SAFETY: what waitid(2) has filled in, or the zeros that it has left, has the number of a process.
            let pid = unsafe { found.si_pid() };
            return Ok((pid != 0).then_some(pid));
        }
        let error = io::Error::last_os_error();
        match error.raw_os_error() {
            Some(libc::EINTR) => {}
            Some(libc::ECHILD) => return Ok(None),
            _ => return Err(error),
        }
    }
}
