//! How the kernel shares a CPU between threads (sched(7)).

use std::io;

/// Puts the calling thread into `SCHED_BATCH`, or back into `SCHED_OTHER`. In the first, a thread that wakes up waits until the
/// one that runs pauses, or has used its slice; its share of the CPU is the same.
///
/// # Errors
/// As `sched_setscheduler(2)`.
pub fn wake_politely(is_polite: bool) -> io::Result<()> {
    let policy = if is_polite { libc::SCHED_BATCH } else { libc::SCHED_OTHER };
    let parameter = libc::sched_param { sched_priority: 0 };
    // SAFETY: `parameter` is valid for reads; the call keeps nothing. 0 is the calling thread.
    match unsafe { libc::sched_setscheduler(0, policy, &raw const parameter) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn policy() -> i32 {
        // SAFETY: the call takes no memory.
        unsafe { libc::sched_getscheduler(0) }
    }

    #[test]
    fn a_thread_goes_there_and_back() {
        let before = policy();
        wake_politely(true).unwrap();
        assert_eq!(policy(), libc::SCHED_BATCH);
        wake_politely(false).unwrap();
        assert_eq!(policy(), libc::SCHED_OTHER);
        wake_politely(before == libc::SCHED_BATCH).unwrap();
    }
}
