//! How much of a CPU others have used.

use std::io;
use std::time::Duration;

/// User and system time of a process and all its threads, but not of its children (clock_getcpuclockid(3)).
///
/// # Errors
/// When there is no such process.
pub fn of_process(pid: u32) -> io::Result<Duration> {
    let pid = libc::pid_t::try_from(pid).map_err(|_| io::Error::from_raw_os_error(libc::ESRCH))?;
    let mut clock: libc::clockid_t = 0;
    // SAFETY: `clock` is valid for writes; the call keeps nothing.
    let error = unsafe { libc::clock_getcpuclockid(pid, &raw mut clock) };
    if error != 0 {
        return Err(io::Error::from_raw_os_error(error));
    }
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is valid for writes; the call keeps nothing.
    if unsafe { libc::clock_gettime(clock, &raw mut time) } != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(Duration::new(time.tv_sec.unsigned_abs(), u32::try_from(time.tv_nsec).unwrap_or(0)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_takes_time_and_strangers_have_none() {
        let before = of_process(std::process::id()).unwrap();
        let mut sum = 0_u64;
        while of_process(std::process::id()).unwrap() <= before {
            sum = std::hint::black_box(sum + 1);
        }
        assert!(of_process(u32::MAX).is_err());
        // Above the largest process id that Linux gives (PID_MAX_LIMIT, proc(5)).
        assert!(of_process(1 << 23).is_err());
    }
}
