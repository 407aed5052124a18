//! Counters in a file that has a name: processes that do not know each other map it at the same time, and later ones find what
//! earlier ones have counted.

use std::fs::File;
use std::io;
use std::ops::Deref;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::ptr::NonNull;
use std::sync::atomic::AtomicU64;

use rustix::fs::{FallocateFlags, FileType, Mode, OFlags};
use rustix::io::Errno;
use rustix::mm::{MapFlags, ProtFlags};

/// What such a file begins with, so that none of another kind is counted into.
const MARK: &[u8; 16] = b"maitred counters";
/// Bytes before the first counter: a line of the CPUs' caches.
const HEAD_BYTES: usize = 64;
/// Counters of a file: 8 MiB.
pub const COUNTERS_MAX: usize = 1 << 20;
/// How often opening is tried, where others create and remove the file meanwhile.
const OPENINGS_MAX: usize = 16;

/// Counters that all processes share that map this file. Counts of those that have ended are kept; new ones are 0.
///
/// The file may grow, and is never made shorter here. What makes it shorter while it is mapped (truncate(2), `cp` onto it) has
/// the next use of a counter end the process by SIGBUS: as safe as any crash, and as unwelcome. Nothing can rule it out for a
/// file that has a name, so only accounts that could end the process anyway may write it: see [`CounterFile::open`].
#[derive(Debug)]
pub struct CounterFile {
    address: NonNull<AtomicU64>,
    count: usize,
    /// Bytes that are mapped, and where: the head is before the counters.
    mapped: (NonNull<u8>, usize),
}

// SAFETY: the mapping belongs to the process, not to a thread, and is reached as atomics by shared reference only.
unsafe impl Send for CounterFile {}
// SAFETY: as above.
unsafe impl Sync for CounterFile {}

impl CounterFile {
    /// Maps so many counters of a file, which is created or made longer if need be. A file with more of them is mapped in part.
    ///
    /// A new file has mode 0600. Where root creates it, it belongs to the owner of its directory, so that a process with that
    /// account can open it afterwards.
    ///
    /// # Errors
    /// `InvalidInput` for no counter or more than [`COUNTERS_MAX`]. `PermissionDenied` for a file that an account may write which
    /// is not this process's, root's, or that of the directory's owner: it could be made shorter at any time. `InvalidData` for
    /// what is no regular file, or holds something else. Otherwise what open(2), fallocate(2) or mmap(2) say; a link is not
    /// followed (ELOOP).
    pub fn open(path: &Path, count: usize) -> io::Result<CounterFile> {
        if count == 0 || count > COUNTERS_MAX {
            let text = format!("{count} counters, where 1 to {COUNTERS_MAX} are possible");
            return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
        }
        let file = named(path)?;
        let bytes = HEAD_BYTES + count * size_of::<AtomicU64>();
        prepare(&file, bytes)?;
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: the kernel chooses the address, so that no mapping is replaced.
        let address =
            unsafe { rustix::mm::mmap(std::ptr::null_mut(), bytes, protection, MapFlags::SHARED, &file, 0)? };
        let start = NonNull::new(address.cast::<u8>()).ok_or(io::ErrorKind::OutOfMemory)?;
        // SAFETY: the mapping is longer than its head.
        let address = unsafe { start.add(HEAD_BYTES) }.cast();
        Ok(CounterFile { address, count, mapped: (start, bytes) })
    }
}

impl Deref for CounterFile {
    type Target = [AtomicU64];

    fn deref(&self) -> &[AtomicU64] {
        // SAFETY: the mapping begins at a page, so that the counters are aligned, has room for all of them, and lives as long as
        // `self`. Any bytes are a value of an atomic integer, changed by other processes at any time. A file that was made
        // shorter ends the process at the access (SIGBUS).
        unsafe { std::slice::from_raw_parts(self.address.as_ptr(), self.count) }
    }
}

impl Drop for CounterFile {
    fn drop(&mut self) {
        let (start, bytes) = self.mapped;
        // SAFETY: mapped by `open` with this size; no reference is left when `self` is dropped.
        // Nothing sensible could be done about an error: the mapping would merely stay.
        let _ = unsafe { rustix::mm::munmap(start.as_ptr().cast(), bytes) };
    }
}

/// The file of this name, checked.
fn named(path: &Path) -> io::Result<File> {
    let name = path.file_name().ok_or(io::ErrorKind::InvalidInput)?;
    let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let directory = rustix::fs::open(directory, flags, Mode::empty())?;
    let owner = rustix::fs::fstat(&directory)?;
    // A FIFO of that name must not be waited for.
    let flags = OFlags::RDWR | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    // Not O_CREAT alone: in a directory like /dev/shm that fails for files of other accounts, even for root
    // (fs.protected_regular), and whether the file is new would not be known.
    for _ in 0..OPENINGS_MAX {
        match rustix::fs::openat(&directory, name, flags, Mode::empty()) {
            Ok(file) => return checked(file, owner.st_uid),
            Err(Errno::NOENT) => {}
            Err(error) => return Err(error.into()),
        }
        let mode = Mode::RUSR | Mode::WUSR;
        match rustix::fs::openat(&directory, name, flags | OFlags::CREATE | OFlags::EXCL, mode) {
            Ok(file) => return Ok(file.into()),
            Err(Errno::EXIST) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Err(io::Error::new(io::ErrorKind::ResourceBusy, "the file comes and goes"))
}

/// Refuses what is no regular file, or is in the hands of another account.
fn checked(file: OwnedFd, of_directory: u32) -> io::Result<File> {
    let seen = rustix::fs::fstat(&file)?;
    if FileType::from_raw_mode(seen.st_mode) != FileType::RegularFile {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "it is no regular file"));
    }
    let own = rustix::process::geteuid().as_raw();
    if ![own, 0, of_directory].contains(&seen.st_uid) || seen.st_mode & 0o022 != 0 {
        let text = format!(
            "user {} with mode {:o}: other accounts could make it shorter",
            seen.st_uid,
            seen.st_mode & 0o7777
        );
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, text));
    }
    Ok(file.into())
}

/// Has the file begin with the mark, and have at least so many bytes, for which there is room: a page that there is no room for
/// would end the process when it is first written.
fn prepare(file: &File, bytes: usize) -> io::Result<()> {
    // No lock: what others do at the same time is the same. A lock would last as long as the mapping, which is a reference to the
    // open file like a descriptor.
    let length = file.metadata()?.len();
    if length == 0 {
        // At first, so that a file which was left at this point is known as one of these.
        file.write_all_at(MARK, 0)?;
    } else {
        let mut begin = [0; MARK.len()];
        let whole = file.read_exact_at(&mut begin, 0);
        if whole.is_err() || begin != *MARK {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "it holds something else than counters"));
        }
    }
    rustix::fs::fallocate(file, FallocateFlags::empty(), 0, bytes as u64)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;
    use std::sync::atomic::Ordering::Relaxed;

    use super::*;

    #[test]
    fn both_mappings_count_in_one_file_which_keeps_its_counts() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("counters");
        let one = CounterFile::open(&path, 3).unwrap();
        let other = CounterFile::open(&path, 3).unwrap();
        assert_eq!(one.len(), 3);
        assert_eq!(one[2].fetch_add(5, Relaxed), 0);
        assert_eq!(other[2].load(Relaxed), 5);
        drop((one, other));
        assert_eq!(CounterFile::open(&path, 3).unwrap()[2].load(Relaxed), 5);
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    }

    #[test]
    fn a_file_that_is_shorter_grows_and_one_that_is_longer_is_left() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("counters");
        let few = CounterFile::open(&path, 1).unwrap();
        few[0].store(7, Relaxed);
        // More than a page.
        let many = CounterFile::open(&path, 2000).unwrap();
        assert_eq!((many[0].load(Relaxed), many[1999].load(Relaxed)), (7, 0));
        many[1999].store(1, Relaxed);
        assert_eq!(CounterFile::open(&path, 2).unwrap().len(), 2);
        assert_eq!(std::fs::metadata(&path).unwrap().len(), 64 + 2000 * 8);
        // As after a crash before it had its length.
        std::fs::write(&path, MARK).unwrap();
        assert_eq!(CounterFile::open(&path, 2).unwrap()[1].load(Relaxed), 0);
    }

    #[test]
    fn other_files_are_refused() {
        let directory = tempfile::tempdir().unwrap();
        let place = |name: &str| directory.path().join(name);
        let kind = |path: &Path, count| CounterFile::open(path, count).unwrap_err().kind();
        for count in [0, COUNTERS_MAX + 1, usize::MAX] {
            assert_eq!(kind(&place("none"), count), io::ErrorKind::InvalidInput);
        }
        for content in ["x", "maitred counter", "maitred counterS and more than that"] {
            std::fs::write(place("text"), content).unwrap();
            std::fs::set_permissions(place("text"), PermissionsExt::from_mode(0o600)).unwrap();
            assert_eq!(kind(&place("text"), 1), io::ErrorKind::InvalidData, "{content}");
            assert_eq!(std::fs::read_to_string(place("text")).unwrap(), content);
        }
        CounterFile::open(&place("open"), 1).unwrap();
        std::fs::set_permissions(place("open"), PermissionsExt::from_mode(0o620)).unwrap();
        assert_eq!(kind(&place("open"), 1), io::ErrorKind::PermissionDenied);
        std::os::unix::fs::symlink(place("new"), place("link")).unwrap();
        let link = CounterFile::open(&place("link"), 1).unwrap_err();
        assert_eq!(link.raw_os_error(), Some(Errno::LOOP.raw_os_error()));
        rustix::fs::mknodat(rustix::fs::CWD, place("fifo"), FileType::Fifo, Mode::RUSR | Mode::WUSR, 0)
            .unwrap();
        assert_eq!(kind(&place("fifo"), 1), io::ErrorKind::InvalidData);
        assert_eq!(kind(&place("no/file"), 1), io::ErrorKind::NotFound);
        assert!(CounterFile::open(directory.path(), 1).is_err());
    }

    /// A module is never loaded as root where its worker process has another account, so that none is given away.
    #[test]
    fn a_file_belongs_to_its_maker_and_that_of_another_account_is_refused() {
        use std::os::unix::fs::{MetadataExt, chown};

        const OTHER: u32 = 54_321;
        let directory = tempfile::tempdir().unwrap();
        if chown(directory.path(), Some(OTHER), Some(OTHER)).is_err() {
            // Only root can give it away.
            return;
        }
        let path = directory.path().join("counters");
        for _ in 0..2 {
            CounterFile::open(&path, 1).unwrap()[0].fetch_add(1, Relaxed);
            assert_eq!(std::fs::metadata(&path).unwrap().uid(), rustix::process::geteuid().as_raw());
        }
        chown(&path, Some(OTHER + 1), None).unwrap();
        let refused = CounterFile::open(&path, 1).unwrap_err();
        assert_eq!(refused.to_string(), "user 54322 with mode 600: other accounts could make it shorter");
    }

    #[test]
    fn threads_that_open_it_at_once_share_it() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("counters");
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| CounterFile::open(&path, 100).unwrap()[99].fetch_add(1, Relaxed));
            }
        });
        assert_eq!(CounterFile::open(&path, 100).unwrap()[99].load(Relaxed), 8);
    }
}
