//! Files that a response names: the field `X-Sendfile`.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::path::Path;

use rustix::fs::{Mode, OFlags, open};

/// Opens a regular file that lies below `root` after all links in both were followed; its size comes along. Where it lies is
/// asked of the kernel for the file that was found: links that change meanwhile lead nowhere else.
pub(crate) fn open_below(root: &Path, path: &Path) -> io::Result<(File, u64)> {
    if !path.is_absolute() {
        return Err(refused(path, "is not absolute"));
    }
    let root = root.canonicalize()?;
    // Finds what the path leads to, and does not open it: a named pipe would wait for a writer.
    let found = open(path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?;
    let name = format!("/proc/self/fd/{}", found.as_raw_fd());
    if !std::fs::read_link(&name)?.starts_with(&root) {
        return Err(refused(path, "is not below the root"));
    }
    if !File::from(found.try_clone()?).metadata()?.is_file() {
        return Err(refused(path, "is no regular file"));
    }
    let file = File::open(&name)?;
    let size = file.metadata()?.len();
    Ok((file, size))
}

fn refused(path: &Path, why: &str) -> io::Error {
    io::Error::other(format!("{} {why}", path.display()))
}
