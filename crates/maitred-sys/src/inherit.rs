//! Descriptors that a process was started with.

use std::collections::BTreeSet;
use std::io;
use std::os::fd::{FromRawFd, OwnedFd, RawFd};
use std::sync::Mutex;

/// First descriptor of a service manager's sockets: sd_listen_fds(3).
const LISTEN_FDS_START: RawFd = 3;
/// More than this many inherited sockets are taken for a mistake.
const LISTEN_FDS_MAX: RawFd = 4096;

/// Numbers that were taken already.
static TAKEN: Mutex<BTreeSet<RawFd>> = Mutex::new(BTreeSet::new());

/// Takes ownership of an inherited descriptor, and sets its close-on-exec flag. Each number can be taken once.
///
/// What this process opened for itself is refused: such descriptors are close-on-exec, and inherited ones cannot be.
///
/// # Errors
/// `InvalidInput` for standard descriptors, a number that was taken before, or one that was not inherited; `EBADF` for
/// one that is not open.
pub fn take(number: RawFd) -> io::Result<OwnedFd> {
    let refuse =
        |why: &str| io::Error::new(io::ErrorKind::InvalidInput, format!("descriptor {number} {why}"));
    if number < LISTEN_FDS_START {
        return Err(refuse("is a standard descriptor"));
    }
    let mut taken = TAKEN.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    if taken.contains(&number) {
        return Err(refuse("was taken before"));
    }
    // SAFETY: fcntl(2) with these commands touches no memory, and checks the number itself.
    let flags = unsafe { libc::fcntl(number, libc::F_GETFD) };
    if flags < 0 {
        return Err(io::Error::last_os_error());
    }
    if flags & libc::FD_CLOEXEC != 0 {
        return Err(refuse("was not inherited"));
    }
    // SAFETY: as above.
    if unsafe { libc::fcntl(number, libc::F_SETFD, flags | libc::FD_CLOEXEC) } < 0 {
        return Err(io::Error::last_os_error());
    }
    taken.insert(number);
    // SAFETY: the descriptor is open. The descriptor came through exec, since it was not close-on-exec and all that this
    // process opens is; nothing else in this process owns it, since `TAKEN` gives each number out once.
    Ok(unsafe { OwnedFd::from_raw_fd(number) })
}

/// The sockets that a service manager passed (`LISTEN_PID`, `LISTEN_FDS`, `LISTEN_FDNAMES`), with their names; empty when
/// there are none or they are meant for another process. Call once, early: see [`take`].
///
/// # Errors
/// `InvalidData` when the variables make no sense, otherwise as [`take`].
pub fn listen_fds() -> io::Result<Vec<(OwnedFd, String)>> {
    let variable = |name: &str| std::env::var(name).ok();
    let names = parse(
        std::process::id(),
        variable("LISTEN_PID").as_deref(),
        variable("LISTEN_FDS").as_deref(),
        variable("LISTEN_FDNAMES").as_deref(),
    )?;
    (LISTEN_FDS_START..).zip(names).map(|(number, name)| Ok((take(number)?, name))).collect()
}

/// One name per passed descriptor.
fn parse(me: u32, pid: Option<&str>, count: Option<&str>, names: Option<&str>) -> io::Result<Vec<String>> {
    let nonsense = |name: &str, value: &str| {
        io::Error::new(io::ErrorKind::InvalidData, format!("environment: {name}={value:?} makes no sense"))
    };
    let (Some(pid), Some(count)) = (pid, count) else { return Ok(Vec::new()) };
    if pid.parse::<u32>().map_err(|_| nonsense("LISTEN_PID", pid))? != me {
        return Ok(Vec::new());
    }
    let number: RawFd = count.parse().map_err(|_| nonsense("LISTEN_FDS", count))?;
    if !(0..=LISTEN_FDS_MAX).contains(&number) {
        return Err(nonsense("LISTEN_FDS", count));
    }
    let mut given = names.unwrap_or_default().split(':');
    Ok((0..number)
        .map(|_| given.next().filter(|name| !name.is_empty()).unwrap_or("unknown").to_owned())
        .collect())
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsRawFd;

    use super::*;

    #[test]
    fn names_are_paired_with_descriptors() {
        assert_eq!(parse(7, Some("7"), Some("2"), Some("http:https")).unwrap(), ["http", "https"]);
        assert_eq!(parse(7, Some("7"), Some("2"), Some("http")).unwrap(), ["http", "unknown"]);
        assert_eq!(parse(7, Some("7"), Some("1"), None).unwrap(), ["unknown"]);
    }

    #[test]
    fn sockets_of_another_process_are_not_ours() {
        assert!(parse(7, Some("8"), Some("2"), None).unwrap().is_empty());
        assert!(parse(7, None, Some("2"), None).unwrap().is_empty());
        assert!(parse(7, Some("7"), None, None).unwrap().is_empty());
    }

    #[test]
    fn nonsense_is_refused() {
        for count in ["-1", "x", "", "99999999", "4097"] {
            assert!(parse(7, Some("7"), Some(count), None).is_err(), "{count}");
        }
        assert!(parse(7, Some("x"), Some("1"), None).is_err());
    }

    #[test]
    fn what_this_process_opened_is_refused() {
        let own = std::fs::File::open("/dev/null").unwrap();
        assert_eq!(take(own.as_raw_fd()).unwrap_err().kind(), io::ErrorKind::InvalidInput);
        assert_eq!(take(0).unwrap_err().kind(), io::ErrorKind::InvalidInput);
        assert_eq!(take(1_000_000).unwrap_err().raw_os_error(), Some(libc::EBADF));
    }
}
