//! The time of a world, which passes only when the world moves it, and when application processes have written to each client's
//! socket.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

use crate::clock::Environment;

/// When each world begins, since 1970: a time in November 2023.
pub(super) const BEGIN: Duration = Duration::from_secs(1_700_000_000);

thread_local! {
    /// What worlds of this thread count from.
    static ORIGIN: Instant = Instant::now();
    /// Time that has passed in the world.
    static PASSED: Cell<Duration> = const { Cell::new(Duration::ZERO) };
    /// When an application process has last written to each client's own socket, by inode.
    static WRITTEN: RefCell<BTreeMap<u64, Option<Instant>>> = const { RefCell::new(BTreeMap::new()) };
}

/// The environment of the threads of a world.
pub(super) const SIMULATED: Environment = Environment {
    now,
    unix_time: || BEGIN + PASSED.get(),
    is_quiet: |socket, since, _| {
        // For sockets within the server, the kernel keeps no times.
        let last = WRITTEN.with_borrow(|written| written.get(&inode(socket)).copied());
        last.is_some_and(|last| last.is_none_or(|last| last < since))
    },
};

/// What worlds of this thread count from: the time at which each of them begins.
pub(super) fn origin() -> Instant {
    ORIGIN.with(|origin| *origin)
}

/// A world begins.
pub(super) fn begin() {
    PASSED.set(Duration::ZERO);
    WRITTEN.with_borrow_mut(BTreeMap::clear);
}

pub(super) fn now() -> Instant {
    origin() + PASSED.get()
}

pub(super) fn pass(time: Duration) {
    PASSED.set(PASSED.get() + time);
}

/// Notes that the socket is a client's.
pub(super) fn note_client(inode: u64) {
    WRITTEN.with_borrow_mut(|written| written.insert(inode, None));
}

/// An application process has written to a socket.
pub(super) fn note_write(inode: u64) {
    let now = now();
    WRITTEN.with_borrow_mut(|written| written.get_mut(&inode).map(|last| *last = Some(now)));
}

/// The inode of an open socket, the same for all of its descriptors.
pub(super) fn inode(socket: impl AsFd) -> u64 {
    fn inode_of(socket: BorrowedFd<'_>) -> u64 {
        rustix::fs::fstat(socket).map_or(0, |stat| stat.st_ino)
    }
    inode_of(socket.as_fd())
}
