//! Whether a piece of a file is in memory, so that `sendfile` will not wait for a disk.

use std::io::IoSliceMut;
use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicBool, Ordering};

use maitred_sys::page_cache::cachestat;
use rustix::io::{Errno, ReadWriteFlags, preadv2};

/// Set once `cachestat` has proved useless here: the kernel is older than 6.5, or does not let us ask.
static CACHESTAT_REFUSED: AtomicBool = AtomicBool::new(false);

/// How many places between first and last page are probed where `cachestat` cannot be asked.
const INNER_PROBES: u64 = 3;

/// Whether the bytes `offset..offset + len` can be sent without waiting for a disk, as far as can be known.
///
/// First and last page are probed with `preadv2(RWF_NOWAIT)`, which fails for a page whose read is still in flight;
/// `cachestat` counts such a page as cached, but sees holes in the middle. Files of filesystems that know no `RWF_NOWAIT`
/// (overlayfs, some of FUSE) are taken to be in memory: `cachestat` knows nothing of their pages either.
pub fn resident(file: BorrowedFd<'_>, offset: u64, len: u64) -> bool {
    if len == 0 {
        return true;
    }
    let last = offset.saturating_add(len - 1);
    let page = rustix::param::page_size() as u64;
    let pages = last / page - offset / page + 1;
    match readable_now(file, offset) {
        Probe::Unknown => return true,
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

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::os::fd::AsFd;

    use rustix::fs::{Advice, fadvise};

    use super::*;

    /// A file of `pages` pages on a disk (hier(7) wants `/var/tmp` there), or `None` where it
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
