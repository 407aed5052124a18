//! Whether a piece of a file is in memory, so that `sendfile` will not wait for a disk.

use std::cell::Cell;
use std::io::IoSliceMut;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use maitred_sys::page_cache::cachestat;
use rustix::io::{Errno, ReadWriteFlags, preadv2};

/// Set once `cachestat` has proved useless here: the kernel is older than 6.5, or does not let us ask.
static CACHESTAT_REFUSED: AtomicBool = AtomicBool::new(false);

/// How many places between first and last page are probed where `cachestat` cannot be asked.
const INNER_PROBES: u64 = 3;

/// How long pages that were found in memory are taken to stay there; a slow client may take minutes to come back.
pub const RESIDENT_FOR: Duration = Duration::from_millis(100);

/// A file that is being sent, and what was last found in memory of it. All responses of a thread share that, so that a file
/// that is asked for all the time costs no question each time.
#[derive(Debug)]
pub struct OpenFile {
    descriptor: OwnedFd,
    seen: Cell<Option<Seen>>,
}

/// Bytes of the file that were in memory at a time.
#[derive(Debug, Clone, Copy)]
struct Seen {
    from: u64,
    until: u64,
    at: Instant,
}

impl OpenFile {
    /// Nothing is known of it.
    pub fn new(descriptor: OwnedFd) -> OpenFile {
        OpenFile { descriptor, seen: Cell::new(None) }
    }

    /// As [`resident`], unless that was found less than [`RESIDENT_FOR`] ago. Since when the bytes are known to be in memory;
    /// `None` if they are not.
    pub(crate) fn resident_since(&self, offset: u64, len: u64, now: Instant) -> Option<Instant> {
        let until = offset.saturating_add(len);
        let fresh = self.seen.get().filter(|seen| now.saturating_duration_since(seen.at) <= RESIDENT_FOR);
        if let Some(seen) = fresh.filter(|seen| seen.from <= offset && until <= seen.until) {
            return Some(seen.at);
        }
        if !resident(self.as_fd(), offset, len) {
            return None;
        }
        // Sending goes from piece to piece: what was found before still counts, as long as its first piece would.
        let before = fresh.filter(|seen| seen.from <= offset && offset <= seen.until);
        let seen = before.map_or(Seen { from: offset, until, at: now }, |seen| Seen { until, ..seen });
        self.seen.set(Some(seen));
        Some(now)
    }

    /// A helper thread has read these bytes.
    pub(crate) fn was_read(&self, offset: u64, len: u64, now: Instant) {
        self.seen.set(Some(Seen { from: offset, until: offset.saturating_add(len), at: now }));
    }
}

impl AsFd for OpenFile {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }
}

/// Whether the bytes `offset..offset + len` can be sent without waiting for a disk, as far as can be known.
///
/// First and last page are probed with `preadv2(RWF_NOWAIT)`, which fails for a page whose read is still in flight; `cachestat`
/// counts such a page as cached, but sees holes in the middle. Of files whose filesystem knows no `RWF_NOWAIT` it is the only
/// source: it sees the pages of FUSE and NFS. Pages of overlayfs belong to the file below, so that nothing seems to be in
/// memory, and a helper thread reads.
pub(crate) fn resident(file: BorrowedFd<'_>, offset: u64, len: u64) -> bool {
    if len == 0 {
        return true;
    }
    if cold::is_cold() {
        return false;
    }
    let last = offset.saturating_add(len - 1);
    let page = rustix::param::page_size() as u64;
    let pages = last / page - offset / page + 1;
    match readable_now(file, offset) {
        Probe::Unknown => return cached_pages(file, offset, len).is_some_and(|cached| cached >= pages),
        Probe::Waits => return false,
        Probe::Ready if pages == 1 => return true,
        Probe::Ready => {}
    }
    let ready = |at| readable_now(file, at) == Probe::Ready;
    if !ready(last) {
        return false;
    }
    if pages == 2 {
        return true;
    }
    match cached_pages(file, offset, len) {
        Some(cached) => cached >= pages,
        None => (1..=INNER_PROBES).all(|nth| ready(offset.saturating_add(len / (INNER_PROBES + 1) * nth))),
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Probe {
    /// In memory; or past the end of the file, or an error that `sendfile` will meet again and report.
    Ready,
    /// Not in memory. The kernel has begun to read it.
    Waits,
    /// The filesystem cannot say.
    Unknown,
}

fn readable_now(file: BorrowedFd<'_>, at: u64) -> Probe {
    let mut byte = [0; 1];
    loop {
        match preadv2(file, &mut [IoSliceMut::new(&mut byte)], at, ReadWriteFlags::NOWAIT) {
            Err(Errno::AGAIN) => return Probe::Waits,
            Err(Errno::OPNOTSUPP | Errno::NOSYS) => return Probe::Unknown,
            Err(Errno::INTR) => {}
            Ok(_) | Err(_) => return Probe::Ready,
        }
    }
}

fn cached_pages(file: BorrowedFd<'_>, offset: u64, len: u64) -> Option<u64> {
    if CACHESTAT_REFUSED.load(Ordering::Relaxed) {
        return None;
    }
    match cachestat(file, offset, len) {
        Ok(stat) => Some(stat.cached),
        Err(errno) => {
            // EPERM depends on who owns the file, but files of one server rarely differ in that.
            CACHESTAT_REFUSED.store(matches!(errno, Errno::NOSYS | Errno::PERM), Ordering::Relaxed);
            None
        }
    }
}

/// Memory as simulated worlds have it: of a hundred questions of a thread, so many have the answer that the thread has to wait.
/// A seed decides which ones. A server asks one atomic cell beside a system call.
#[doc(hidden)]
pub mod cold {
    use std::cell::Cell;
    use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

    /// Some thread of this process is simulated.
    static SIMULATED: AtomicBool = AtomicBool::new(false);

    thread_local! {
        static COLD: Cell<(u64, usize)> = const { Cell::new((0, 0)) };
    }

    /// So many of a hundred questions from now on.
    pub fn set(seed: u64, percent: usize) {
        SIMULATED.store(true, Relaxed);
        COLD.set((seed, percent));
    }

    /// The answer to the next question.
    #[inline]
    pub fn is_cold() -> bool {
        SIMULATED.load(Relaxed) && next()
    }

    fn next() -> bool {
        let (seed, percent) = COLD.get();
        let next = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        COLD.set((next, percent));
        ((next >> 33) % 100) < percent as u64
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::os::fd::AsFd;

    use rustix::fs::{Advice, fadvise};

    use super::*;

    /// A file of `pages` pages on a disk (hier(7) requires `/var/tmp` there), or `None` where it
    /// is in memory or the kernel cannot say what is.
    fn file_on_disk(pages: usize) -> Option<std::fs::File> {
        let mut file = tempfile::tempfile_in("/var/tmp").unwrap();
        file.write_all(&vec![7; pages * rustix::param::page_size()]).unwrap();
        file.sync_all().unwrap();
        let page_count = |file: &std::fs::File| cachestat(file.as_fd(), 0, 0).map(|stat| stat.cached);
        fadvise(&file, 0, None, Advice::DontNeed).unwrap();
        let mut byte = [0; 1];
        let probe = preadv2(&file, &mut [IoSliceMut::new(&mut byte)], 0, ReadWriteFlags::NOWAIT);
        (page_count(&file) == Ok(0) && probe != Err(Errno::OPNOTSUPP)).then_some(file)
    }

    #[test]
    fn written_pages_are_resident_and_so_is_what_lies_past_the_end() {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&[1; 100_000]).unwrap();
        assert!(resident(file.as_fd(), 0, 100_000));
        assert!(resident(file.as_fd(), 5_000, 1));
        assert!(resident(file.as_fd(), 0, 0));
        assert!(resident(file.as_fd(), 200_000, 1));
    }

    #[test]
    fn a_filesystem_that_cannot_say_is_taken_to_wait() {
        // procfs has neither RWF_NOWAIT nor pages, as overlayfs.
        let file = std::fs::File::open("/proc/version").unwrap();
        assert_eq!(readable_now(file.as_fd(), 0), Probe::Unknown);
        assert!(!resident(file.as_fd(), 0, 1));
    }

    #[test]
    fn what_was_found_holds_for_a_while_and_for_the_pieces_found_since() {
        let now = Instant::now();
        let file = OpenFile::new(std::fs::File::open("/proc/version").unwrap().into());
        assert_eq!(file.resident_since(0, 10, now), None);
        file.was_read(0, 10, now);
        assert_eq!(file.resident_since(0, 10, now + RESIDENT_FOR), Some(now));
        assert_eq!(file.resident_since(5, 6, now), None);
        assert_eq!(file.resident_since(0, 10, now + RESIDENT_FOR * 2), None);
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&[1; 100_000]).unwrap();
        let file = OpenFile::new(file.into());
        let later = now + RESIDENT_FOR / 2;
        assert_eq!(file.resident_since(0, 50_000, now), Some(now));
        assert_eq!(file.resident_since(50_000, 50_000, later), Some(later));
        assert_eq!(file.resident_since(0, 100_000, later), Some(now));
        // Both pieces are as old as the first one.
        let end = now + RESIDENT_FOR + Duration::from_millis(1);
        assert_eq!(file.resident_since(0, 100_000, end), Some(end));
    }

    #[test]
    fn dropped_pages_are_not_resident() {
        let Some(file) = file_on_disk(64) else { return };
        assert!(!resident(file.as_fd(), 0, 64 * 4096));
        assert!(!resident(file.as_fd(), 8192, 1));
    }

    #[test]
    fn a_hole_in_the_middle_is_seen() {
        let Some(file) = file_on_disk(256) else { return };
        let page = rustix::param::page_size() as u64;
        // Without this the kernel reads ahead into the hole.
        fadvise(&file, 0, None, Advice::Random).unwrap();
        for at in [0, 255 * page] {
            let mut byte = [0; 1];
            rustix::io::pread(&file, &mut byte, at).unwrap();
        }
        assert!(resident(file.as_fd(), 0, 1) && resident(file.as_fd(), 255 * page, 1));
        assert!(!resident(file.as_fd(), 0, 256 * page));
    }
}
