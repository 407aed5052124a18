//! What a server that was started by hand does when its terminal is closed.

/// The number of SIGHUP, on all of Linux (signal(7)).
const HANGUP: u32 = 1;

/// Whether SIGHUP ends the server: it does, unless it was started with the signal ignored, as by nohup(1).
pub fn ends_on_hangup() -> bool {
    std::fs::read_to_string("/proc/self/status").map_or(true, |status| !is_ignored(&status, HANGUP))
}

/// Whether a process ignores a signal, by its `/proc/PID/status` (proc_pid_status(5)).
fn is_ignored(status: &str, signal: u32) -> bool {
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = ignored.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    mask.is_some_and(|mask| mask >> (signal - 1) & 1 == 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mask_of_ignored_signals_is_read() {
        assert!(is_ignored("Name:\tx\nSigIgn:\t0000000000001001\n", HANGUP));
        assert!(!is_ignored("SigIgn:\t0000000000001000\n", HANGUP));
        assert!(!is_ignored("", HANGUP));
    }
}
