//! What of a file is in the page cache, by `cachestat(2)`.

use std::os::fd::{AsRawFd, BorrowedFd};

use rustix::io::Errno;

/// `cachestat(2)` since Linux 6.5. The number is the same on all architectures, as for every call since 424, except
/// Alpha (110 higher), which Rust's standard library does not support on Linux.
const SYS_CACHESTAT: libc::c_long = 451;

#[repr(C)]
struct Range {
    offset: u64,
    len: u64,
}

/// Page counts of a range of a file; `struct cachestat` of `linux/mman.h`.
#[repr(C)]
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct CacheStat {
    /// Pages in the page cache, those whose read is still in flight included.
    pub cached: u64,
    /// Dirty pages.
    pub dirty: u64,
    /// Pages marked for writeback.
    pub writeback: u64,
    /// Pages that were evicted.
    pub evicted: u64,
    /// Pages that were evicted a short while ago.
    pub recently_evicted: u64,
}

/// Counts the pages of `offset..offset + len` (bytes; `len` 0 is up to the end of the file) by their state.
///
/// # Errors
/// `ENOSYS` before Linux 6.5; `EPERM` where the caller neither owns nor may write the file (since 6.14 and in the
/// stable series of that time); `EOPNOTSUPP` for hugetlbfs.
pub fn cachestat(file: BorrowedFd<'_>, offset: u64, len: u64) -> Result<CacheStat, Errno> {
    let range = Range { offset, len };
    let mut stat = CacheStat::default();
    // SAFETY: the descriptor is open for the length of the borrow; both pointers are to live values of the layout
    // that the kernel reads and writes (linux/mman.h), and the last argument, the flags, has to be 0.
    let result = unsafe {
        libc::syscall(SYS_CACHESTAT, file.as_raw_fd(), &raw const range, &raw mut stat, 0 as libc::c_uint)
    };
    if result == 0 {
        return Ok(stat);
    }
    let error = std::io::Error::last_os_error();
    Err(Errno::from_io_error(&error).unwrap_or(Errno::INVAL))
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::os::fd::AsFd;

    use super::*;

    #[test]
    fn pages_just_written_are_cached() {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&[1; 3 * 4096]).unwrap();
        match cachestat(file.as_fd(), 0, 3 * 4096) {
            Ok(stat) => assert_eq!(stat.cached, (3 * 4096 / rustix::param::page_size()) as u64),
            Err(errno) => assert_eq!(errno, Errno::NOSYS),
        }
    }

    #[test]
    fn a_hole_has_no_pages() {
        let file = tempfile::tempfile().unwrap();
        file.set_len(1 << 20).unwrap();
        match cachestat(file.as_fd(), 0, 0) {
            Ok(stat) => assert_eq!(stat.cached, 0),
            Err(errno) => assert_eq!(errno, Errno::NOSYS),
        }
    }
}
