//! The files of a store: few operations, each beneath the descriptor of the directory, and none follows a symbolic link.
//!
//! A file is written without a name (`O_TMPFILE`) and gets one when it is complete: whatever ends a process leaves nothing. Where
//! the filesystem or the system cannot do that, it has a name of its own kind until it is renamed; what is left of those is
//! removed when the directory is read.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU64};

use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags};
use rustix::io::Errno;
use rustix::rand::{GetRandomFlags, getrandom};

use super::key::Hash;

#[cfg(test)]
pub(super) mod faults;

/// What names of files begin with that have none yet.
const DRAFT_PREFIX: &str = "tmp-";
/// How often a name that another process takes meanwhile is freed again.
const LINK_ATTEMPTS_MAX: usize = 4;
/// Bytes that are copied at a time.
const COPY_BYTES: usize = 256 * 1024;
const DIRECTORY: OFlags =
    OFlags::PATH.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);
/// A pipe or a device that stands there must not hold up a thread, or become its terminal.
const FILE: OFlags = OFlags::NOFOLLOW.union(OFlags::CLOEXEC).union(OFlags::NONBLOCK).union(OFlags::NOCTTY);
const MODE: Mode = Mode::RUSR.union(Mode::WUSR);

/// See the module.
#[derive(Debug)]
pub(super) struct Directory {
    root: OwnedFd,
    /// Files have names before they are complete.
    named: AtomicBool,
    /// What tells such names of different processes apart.
    process: u64,
    drafts: AtomicU64,
    #[cfg(test)]
    pub(super) faults: Arc<faults::Faults>,
}

/// A file that is being written. Dropped without being published, it leaves nothing behind.
#[derive(Debug)]
pub(super) struct Draft {
    pub(super) file: Arc<File>,
    directory: Arc<Directory>,
    folder: OwnedFd,
    /// The name of the file until it is complete, if it needs one.
    name: Option<String>,
}

/// A directory that is being read.
#[derive(Debug)]
pub(super) struct Names(rustix::fs::Dir);

/// Where tests have an operation fail.
macro_rules! fault {
    ($directory:expr) => {
        #[cfg(test)]
        $directory.faults.step()?;
    };
}

impl Directory {
    /// # Errors
    /// What the system says.
    pub(super) fn open(path: &Path) -> io::Result<Arc<Directory>> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let root = rustix::fs::open(path, flags, Mode::empty())?;
        let mut random = [0; 8];
        getrandom(&mut random, GetRandomFlags::empty())?;
        Ok(Directory {
            root,
            named: AtomicBool::new(false),
            process: u64::from_ne_bytes(random),
            drafts: AtomicU64::new(0),
            #[cfg(test)]
            faults: Arc::default(),
        }
        .into())
    }

    /// The directory of this name; it is made if it is missing and `make` is set.
    fn folder(&self, name: &str, make: bool) -> io::Result<OwnedFd> {
        match rustix::fs::openat(&self.root, name, DIRECTORY, Mode::empty()) {
            Err(Errno::NOENT) if make => {
                fault!(self);
                match rustix::fs::mkdirat(&self.root, name, MODE | Mode::XUSR) {
                    Ok(()) | Err(Errno::EXIST) => {}
                    Err(errno) => return Err(errno.into()),
                }
                Ok(rustix::fs::openat(&self.root, name, DIRECTORY, Mode::empty())?)
            }
            result => Ok(result?),
        }
    }

    /// A file that is to have the name of this hash.
    ///
    /// # Errors
    /// What the system says.
    pub(super) fn draft(self: &Arc<Self>, hash: Hash) -> io::Result<Draft> {
        self.draft_in(&format!("{:02x}", hash.folder()), self.named.load(Relaxed))
    }

    fn draft_in(self: &Arc<Self>, folder: &str, named: bool) -> io::Result<Draft> {
        fault!(self);
        let draft = |file: OwnedFd, folder, name| {
            let file = Arc::new(File::from(file));
            Draft { file, directory: Arc::clone(self), folder, name }
        };
        let folder = self.folder(folder, true)?;
        if !named {
            let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
            match rustix::fs::openat(&folder, ".", flags, MODE) {
                Ok(file) => return Ok(draft(file, folder, None)),
                Err(Errno::OPNOTSUPP | Errno::ISDIR | Errno::INVAL | Errno::NOENT) => {
                    self.named.store(true, Relaxed);
                }
                Err(errno) => return Err(errno.into()),
            }
        }
        let name = format!("{DRAFT_PREFIX}{:016x}-{:x}", self.process, self.drafts.fetch_add(1, Relaxed));
        let flags = OFlags::CREATE | OFlags::EXCL | OFlags::RDWR | FILE;
        let file = rustix::fs::openat(&folder, &name, flags, MODE)?;
        Ok(draft(file, folder, Some(name)))
    }

    /// Writes bytes at a place of a draft.
    ///
    /// # Errors
    /// What the system says; some of them may be written then.
    pub(super) fn write_at(&self, file: &File, bytes: &[u8], offset: u64) -> io::Result<()> {
        #[cfg(test)]
        if let Err(error) = self.faults.step() {
            file.write_all_at(self.faults.part_of(bytes), offset)?;
            return Err(error);
        }
        file.write_all_at(bytes, offset)
    }

    /// Writes bytes at the end of a file that was opened by [`Directory::open_to_append`], with one call.
    ///
    /// # Errors
    /// What the system says; some of them may be written then.
    pub(super) fn append(&self, file: &File, bytes: &[u8]) -> io::Result<()> {
        #[cfg(test)]
        if let Err(error) = self.faults.step() {
            rustix::io::write(file, self.faults.part_of(bytes))?;
            return Err(error);
        }
        match rustix::io::retry_on_intr(|| rustix::io::write(file, bytes))? {
            written if written == bytes.len() => Ok(()),
            _ => Err(io::ErrorKind::StorageFull.into()),
        }
    }

    /// Copies so many bytes from the start of a file to that of a draft.
    ///
    /// # Errors
    /// What the system says.
    pub(super) fn copy(&self, from: &File, to: &File, bytes: u64) -> io::Result<()> {
        let mut buffer = Vec::with_capacity(COPY_BYTES);
        let mut at = 0;
        while at < bytes {
            buffer.clear();
            let wanted = usize::try_from(bytes - at).unwrap_or(COPY_BYTES).min(COPY_BYTES);
            read_at(from, &mut buffer, wanted, at)?;
            self.write_at(to, &buffer, at)?;
            at += buffer.len() as u64;
        }
        Ok(())
    }

    fn publish_as(&self, mut draft: Draft, name: &str) -> io::Result<()> {
        fault!(self);
        if let Some(before) = draft.name.take() {
            return match rustix::fs::renameat(&draft.folder, &before, &draft.folder, name) {
                Ok(()) => Ok(()),
                Err(errno) => {
                    draft.name = Some(before);
                    Err(errno.into())
                }
            };
        }
        for _ in 0..LINK_ATTEMPTS_MAX {
            match self.link(&draft, name) {
                Err(Errno::EXIST) => {
                    fault!(self);
                    ignore_missing(rustix::fs::unlinkat(&draft.folder, name, AtFlags::empty()))?;
                    fault!(self);
                }
                result => return Ok(result?),
            }
        }
        Err(Errno::EXIST.into())
    }

    fn link(&self, draft: &Draft, name: &str) -> Result<(), Errno> {
        let path = format!("/proc/self/fd/{}", draft.file.as_raw_fd());
        let by_path = rustix::fs::linkat(CWD, path, &draft.folder, name, AtFlags::SYMLINK_FOLLOW);
        if !matches!(by_path, Err(Errno::NOENT | Errno::ACCESS | Errno::PERM | Errno::XDEV)) {
            return by_path;
        }
        // Without /proc; this needs Linux 6.10.
        let by_file = rustix::fs::linkat(&*draft.file, "", &draft.folder, name, AtFlags::EMPTY_PATH);
        if !matches!(by_file, Ok(()) | Err(Errno::EXIST)) {
            self.named.store(true, Relaxed);
        }
        by_file
    }

    /// Opens the file of a hash for reading, with its size.
    ///
    /// # Errors
    /// What the system says; `InvalidData` for what is no file.
    pub(super) fn open_file(&self, hash: Hash) -> io::Result<(File, u64)> {
        self.open_in(hash, OFlags::RDONLY)
    }

    /// Opens it to read it, and to write at its end.
    ///
    /// # Errors
    /// As [`Directory::open_file`].
    pub(super) fn open_to_append(&self, hash: Hash) -> io::Result<(File, u64)> {
        self.open_in(hash, OFlags::RDWR | OFlags::APPEND)
    }

    fn open_in(&self, hash: Hash, flags: OFlags) -> io::Result<(File, u64)> {
        fault!(self);
        let folder = self.folder(&format!("{:02x}", hash.folder()), false)?;
        open_regular(folder.as_fd(), &hash.name(), flags)
    }

    /// Removes the file of a hash, if there is one.
    ///
    /// # Errors
    /// What the system says.
    pub(super) fn remove(&self, hash: Hash) -> io::Result<bool> {
        fault!(self);
        match self.folder(&format!("{:02x}", hash.folder()), false) {
            Ok(folder) => ignore_missing(rustix::fs::unlinkat(&folder, hash.name(), AtFlags::empty()))
                .map_err(Into::into),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Whether a name is that of a file that another process has not completed.
    pub(super) fn is_lost_draft(&self, name: &[u8]) -> bool {
        let own = format!("{DRAFT_PREFIX}{:016x}-", self.process);
        name.starts_with(DRAFT_PREFIX.as_bytes()) && !name.starts_with(own.as_bytes())
    }

    /// Removes something of one of the 256 directories.
    pub(super) fn remove_name(&self, folder: u8, name: &[u8]) {
        self.remove_name_in(&format!("{folder:02x}"), name);
    }

    fn remove_name_in(&self, folder: &str, name: &[u8]) {
        if let Ok(folder) = self.folder(folder, false) {
            // What has gone meanwhile was to go.
            let _ = rustix::fs::unlinkat(&folder, name, AtFlags::empty());
        }
    }

    /// Removes what other processes have not completed in a directory that is small.
    pub(super) fn remove_lost_drafts(&self, folder: &str) {
        let names = self.names_in(folder).ok().flatten().into_iter().flatten().filter_map(Result::ok);
        names.filter(|name| self.is_lost_draft(name)).for_each(|name| self.remove_name_in(folder, &name));
    }

    /// The names in one of the 256 directories. `None` if it does not exist.
    ///
    /// # Errors
    /// What the system says.
    pub(super) fn names(&self, folder: u8) -> io::Result<Option<Names>> {
        self.names_in(&format!("{folder:02x}"))
    }

    /// The names in a directory. `None` if it does not exist.
    ///
    /// # Errors
    /// What the system says.
    pub(super) fn names_in(&self, folder: &str) -> io::Result<Option<Names>> {
        fault!(self);
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        match rustix::fs::openat(&self.root, folder, flags, Mode::empty()) {
            Ok(open) => Ok(Some(Names(rustix::fs::Dir::new(open)?))),
            Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => Ok(None),
            Err(errno) => Err(errno.into()),
        }
    }

    /// Reads a small file of a directory, or of the store's own (`""`). `None` if there is none, or if it is larger.
    ///
    /// # Errors
    /// What the system says.
    pub(super) fn read_small(
        &self,
        folder: &str,
        name: &str,
        bytes_max: usize,
    ) -> io::Result<Option<Vec<u8>>> {
        fault!(self);
        let read = || {
            let folder = self.folder(if folder.is_empty() { "." } else { folder }, false)?;
            let (file, size) = open_regular(folder.as_fd(), name, OFlags::RDONLY)?;
            let mut bytes = Vec::new();
            match usize::try_from(size).ok().filter(|size| *size <= bytes_max) {
                Some(size) => read_at(&file, &mut bytes, size, 0).map(|()| Some(bytes)),
                None => Ok(None),
            }
        };
        match read() {
            Err(error) if is_none(&error) => Ok(None),
            result => result,
        }
    }

    /// Writes a small file, in place of one of this name. The file is on the disk then.
    ///
    /// # Errors
    /// What the system says.
    pub(super) fn write_small(self: &Arc<Self>, folder: &str, name: &str, bytes: &[u8]) -> io::Result<()> {
        // With a name, by which it replaces the other at once: what is in such a file is needed.
        let draft = self.draft_in(if folder.is_empty() { "." } else { folder }, true)?;
        self.write_at(&draft.file, bytes, 0)?;
        draft.file.sync_data()?;
        self.publish_as(draft, name)
    }

    /// Removes a small file, if there is one.
    ///
    /// # Errors
    /// What the system says.
    pub(super) fn remove_small(&self, folder: &str, name: &str) -> io::Result<()> {
        fault!(self);
        let folder = self.folder(folder, false)?;
        ignore_missing(rustix::fs::unlinkat(&folder, name, AtFlags::empty())).map(|_| ()).map_err(Into::into)
    }

    #[cfg(test)]
    pub(super) fn use_names(&self) {
        self.named.store(true, Relaxed);
    }

    #[cfg(test)]
    pub(super) fn uses_names(&self) -> bool {
        self.named.load(Relaxed)
    }
}

impl Draft {
    /// Gives it the name of a hash, in place of a file that has it.
    ///
    /// # Errors
    /// What the system says. The file that had the name may be gone then.
    pub(super) fn publish(self, hash: Hash) -> io::Result<()> {
        let directory = Arc::clone(&self.directory);
        directory.publish_as(self, &hash.name())
    }
}

impl Drop for Draft {
    fn drop(&mut self) {
        #[cfg(test)]
        if self.directory.faults.is_killed() {
            return;
        }
        if let Some(name) = &self.name {
            // The file is removed with the next reading of the directory otherwise.
            let _ = rustix::fs::unlinkat(&self.folder, name, AtFlags::empty());
        }
    }
}

impl Iterator for Names {
    type Item = io::Result<Box<[u8]>>;

    fn next(&mut self) -> Option<Self::Item> {
        let next = self.0.next()?;
        Some(next.map(|entry| entry.file_name().to_bytes().into()).map_err(Into::into))
    }
}

fn open_regular(folder: BorrowedFd<'_>, name: &str, flags: OFlags) -> io::Result<(File, u64)> {
    let file = rustix::fs::openat(folder, name, flags | FILE, Mode::empty())?;
    let status = rustix::fs::fstat(&file)?;
    match u64::try_from(status.st_size) {
        Ok(size) if FileType::from_raw_mode(status.st_mode) == FileType::RegularFile => {
            Ok((file.into(), size))
        }
        _ => Err(io::Error::new(io::ErrorKind::InvalidData, "no regular file")),
    }
}

/// Whether an error of opening says that there is no file of the store: nothing, or something else of that name.
pub(super) fn is_none(error: &io::Error) -> bool {
    let other = [Errno::NOENT, Errno::LOOP, Errno::NOTDIR, Errno::ISDIR, Errno::NXIO];
    error.kind() == io::ErrorKind::InvalidData
        || other.iter().any(|errno| error.raw_os_error() == Some(errno.raw_os_error()))
}

/// Whether there was something.
fn ignore_missing(result: Result<(), Errno>) -> Result<bool, Errno> {
    match result {
        Ok(()) => Ok(true),
        Err(Errno::NOENT) => Ok(false),
        Err(errno) => Err(errno),
    }
}

/// Appends exactly so many bytes of a file to a buffer.
///
/// # Errors
/// What the system says; `UnexpectedEof` if there are fewer.
pub(super) fn read_at(file: &File, buffer: &mut Vec<u8>, bytes: usize, offset: u64) -> io::Result<()> {
    let end = buffer.len() + bytes;
    let start = buffer.len();
    while buffer.len() < end {
        let at = offset + (buffer.len() - start) as u64;
        match maitred_sys::file::append_at(file.as_fd(), buffer, end - buffer.len(), at) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(_) | Err(Errno::INTR) => {}
            Err(errno) => return Err(errno.into()),
        }
    }
    Ok(())
}
