//! From a request's path to an opened file: `strip_prefix`, `try`, index files, precompressed siblings.
//!
//! The event loop and the helper threads both walk this way; what differs is whether they may wait for a disk.

use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::fs::{FileType, Mode, OFlags, ResolveFlags, Stat};
use rustix::io::Errno;

use super::prepare;
use super::scripts::WantedScript;
use super::set::FileSet;
use maitred_config::{Coding, TryItem};

/// What a helper thread or the event loop looks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Wanted {
    /// What a request's path ([`crate::RequestContext::path`]) stands for.
    Request(Box<[u8]>),
    /// The file of this path below the root; the operator chose it.
    AsIs(Box<[u8]>),
    /// The script that a request is for, or what is there instead.
    Script(WantedScript),
}

/// Whether a look-up may wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum MayWait {
    /// Only what is in memory already: `RESOLVE_CACHED` and `RWF_NOWAIT`.
    No,
    /// As long as it takes.
    ForDisk,
}

/// Identity and validators of a file (`stat(2)`); equal for as long as the file is taken to be unchanged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Meta {
    pub(super) dev: u64,
    pub(super) ino: u64,
    pub(super) size: u64,
    /// Nanoseconds since the Unix epoch.
    pub(super) mtime: i128,
    /// Nanoseconds since the Unix epoch.
    pub(super) ctime: i128,
}

impl Meta {
    // Widths and signs of these fields differ between architectures.
    #[allow(clippy::unnecessary_cast, reason = "not unnecessary on every architecture")]
    pub(super) fn of(stat: &Stat) -> Meta {
        let nanos = |secs: i64, nanos: i64| i128::from(secs) * 1_000_000_000 + i128::from(nanos);
        Meta {
            dev: stat.st_dev as u64,
            ino: stat.st_ino as u64,
            size: u64::try_from(stat.st_size).unwrap_or(0),
            mtime: nanos(stat.st_mtime as i64, stat.st_mtime_nsec as i64),
            ctime: nanos(stat.st_ctime as i64, stat.st_ctime_nsec as i64),
        }
    }
}

/// An open regular file.
#[derive(Debug)]
pub(super) struct Opened {
    pub(super) file: OwnedFd,
    pub(super) meta: Meta,
}

/// A file and its encoded siblings.
#[derive(Debug)]
pub(super) struct FoundFile {
    /// Relative to the root; its name decides about the media type.
    pub(super) path: Vec<u8>,
    pub(super) plain: Opened,
    /// In the configuration's order.
    pub(super) encoded: Vec<(Coding, Opened)>,
    /// The fixed item of `try` that it was found by.
    pub(super) fixed: Option<String>,
}

/// What a path turned out to be.
#[derive(Debug)]
pub(super) enum Found {
    File(FoundFile),
    /// A fixed item of `try` for which the caller has a fresh entry.
    Cached(String),
    /// A directory was named without its slash.
    AddSlash,
    /// A directory that is to be listed, and its path relative to the root.
    Listing(OwnedFd, Vec<u8>),
}

/// Why there is nothing to serve.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Miss {
    /// The disk has to be asked first; only with [`MayWait::No`].
    WouldWait,
    /// The answer's status.
    Status(u16),
}

/// What an open gave, errors that mean "not here" apart.
pub(super) enum Node {
    File(Opened),
    Directory(OwnedFd),
    Nothing,
}

/// Finds what `wanted` stands for. `is_cached` is asked before a fixed item of `try` is opened.
pub(super) fn resolve(
    set: &FileSet,
    wanted: &Wanted,
    wait: MayWait,
    is_cached: &mut dyn FnMut(&str) -> bool,
) -> Result<Found, Miss> {
    let path = match wanted {
        Wanted::AsIs(path) => return as_is(set, path, wait)?.map(Found::File).ok_or(Miss::Status(404)),
        Wanted::Request(path) | Wanted::Script(WantedScript { path, .. }) => path,
    };
    let Some(below) = below_prefix(path, set.files().strip_prefix.as_bytes()) else {
        // The prefix without its slash stands for the directory that is mounted there.
        let prefix = set.files().strip_prefix.as_bytes();
        let mounted = !path.is_empty() && prefix.strip_suffix(b"/") == Some(path);
        return if mounted { Ok(Found::AddSlash) } else { Err(Miss::Status(404)) };
    };
    if !set.files().hidden && has_hidden_segment(below) {
        return Err(Miss::Status(404));
    }
    for item in set.try_files() {
        let found = match item {
            TryItem::Status(status) => return Err(Miss::Status(*status)),
            // The caller knows where the request goes then.
            TryItem::Pool(_) => return Err(Miss::Status(404)),
            TryItem::Around(before, after) => around(set, before, below, after, wait)?,
            TryItem::Fixed(fixed) if is_cached(fixed) => Some(Found::Cached(fixed.clone())),
            TryItem::Fixed(fixed) => as_is(set, fixed.as_bytes(), wait)?
                .map(|file| Found::File(FoundFile { fixed: Some(fixed.clone()), ..file })),
        };
        if let Some(found) = found {
            return Ok(found);
        }
    }
    Err(Miss::Status(404))
}

/// `path` without the prefix but with a slash before it; `None` if it does not start with the prefix.
pub(super) fn below_prefix<'p>(path: &'p [u8], prefix: &[u8]) -> Option<&'p [u8]> {
    let kept = prefix.len().checked_sub(1)?;
    path.starts_with(prefix).then(|| path.get(kept..)).flatten()
}

/// Whether a segment starts with a dot; `.well-known` (RFC 8615) does not count. The rule covers `..` too, which cannot come
/// this far.
pub(super) fn has_hidden_segment(path: &[u8]) -> bool {
    path.split(|byte| *byte == b'/').any(|segment| segment.starts_with(b".") && segment != b".well-known")
}

/// An item of `try` with `{path}` in it.
fn around(
    set: &FileSet,
    before: &str,
    below: &[u8],
    after: &str,
    wait: MayWait,
) -> Result<Option<Found>, Miss> {
    let mut path = [before.as_bytes(), below, after.as_bytes()].concat();
    let leading = path.iter().take_while(|byte| **byte == b'/').count();
    path.drain(..leading);
    let directory = match open(set, &path, wait)? {
        Node::Nothing => return Ok(None),
        Node::File(plain) => {
            return with_siblings(set, path, plain, wait).map(|file| Some(Found::File(file)));
        }
        Node::Directory(directory) => directory,
    };
    // A directory's relative links are right only below its slash, so an item `{path}/` does not stand in for the
    // slash; and with any other ending the slash would lead elsewhere.
    let asked_with_slash = below.ends_with(b"/");
    if !matches!(after, "" | "/") {
        return Ok(None);
    }
    if !path.is_empty() && !path.ends_with(b"/") {
        path.push(b'/');
    }
    match index_of(set, &path, wait)? {
        Index::File(index) => {
            return Ok(Some(if asked_with_slash { Found::File(*index) } else { Found::AddSlash }));
        }
        Index::Script => return Ok(None),
        Index::Nothing => {}
    }
    if set.files().listing {
        return Ok(Some(if asked_with_slash { Found::Listing(directory, path) } else { Found::AddSlash }));
    }
    Ok(None)
}

/// The index of a directory.
enum Index {
    File(Box<FoundFile>),
    /// A script, which the pool at the end of `try` runs.
    Script,
    Nothing,
}

/// The index of a directory, whose path ends with a slash or is empty.
fn index_of(set: &FileSet, directory: &[u8], wait: MayWait) -> Result<Index, Miss> {
    let names = &set.files().index;
    let runs = matches!(set.try_files().last(), Some(TryItem::Pool(_)));
    // Without a pool that would run it, a file that is withheld gives way to another one, but not to a listing.
    let (first, last): (Vec<_>, Vec<_>) =
        names.iter().partition(|name| runs || !set.withholds(name.as_bytes()));
    for name in first.into_iter().chain(last) {
        let path = [directory, name.as_bytes()].concat();
        if let Node::File(plain) = open(set, &path, wait)? {
            if runs && set.withholds(name.as_bytes()) {
                return Ok(Index::Script);
            }
            return with_siblings(set, path, plain, wait).map(|file| Index::File(Box::new(file)));
        }
    }
    Ok(Index::Nothing)
}

fn as_is(set: &FileSet, path: &[u8], wait: MayWait) -> Result<Option<FoundFile>, Miss> {
    let leading = path.iter().take_while(|byte| **byte == b'/').count();
    let path = path.get(leading..).unwrap_or_default();
    match open(set, path, wait)? {
        Node::File(plain) => with_siblings(set, path.to_vec(), plain, wait).map(Some),
        Node::Directory(_) | Node::Nothing => Ok(None),
    }
}

/// All files that are served come through here.
fn with_siblings(set: &FileSet, path: Vec<u8>, plain: Opened, wait: MayWait) -> Result<FoundFile, Miss> {
    if set.withholds(&path) {
        return Err(Miss::Status(404));
    }
    let mut encoded = Vec::new();
    for coding in &set.files().precompressed {
        let sibling = [path.as_slice(), prepare::extension(*coding).as_bytes()].concat();
        match open(set, &sibling, wait) {
            Ok(Node::File(opened)) => encoded.push((*coding, opened)),
            Err(Miss::WouldWait) => return Err(Miss::WouldWait),
            // A sibling that may not be read only costs its saving.
            Ok(Node::Directory(_) | Node::Nothing) | Err(Miss::Status(_)) => {}
        }
    }
    Ok(FoundFile { path, plain, encoded, fixed: None })
}

/// Opens a path below the root, by the rules of the set. The empty path is the root itself.
fn open(set: &FileSet, path: &[u8], wait: MayWait) -> Result<Node, Miss> {
    open_as(set, path, RDONLY, wait)
}

/// The same, with flags.
pub(super) fn open_as(set: &FileSet, path: &[u8], flags: OFlags, wait: MayWait) -> Result<Node, Miss> {
    let root = set.root().map_err(|_| Miss::Status(500))?;
    // A path that `..` or NUL could be part of does not come from `uri::normalise`; nothing good can be behind it.
    if path.split(|byte| *byte == b'/').any(|segment| segment == b"..") || memchr::memchr(0, path).is_some() {
        return Ok(Node::Nothing);
    }
    let path = if path.is_empty() { b".".as_slice() } else { path };
    let resolve = resolve_flags(set);
    let opened = open_below(root, path, flags, resolve, wait).and_then(|file| {
        let stat = rustix::fs::fstat(&file)?;
        Ok((file, stat))
    });
    match opened {
        Ok((file, stat)) => Ok(match FileType::from_raw_mode(stat.st_mode) {
            FileType::RegularFile => Node::File(Opened { file, meta: Meta::of(&stat) }),
            FileType::Directory => Node::Directory(file),
            _ => Node::Nothing,
        }),
        Err(errno) => judge(set, errno, path, wait),
    }
}

/// What a symbolic link in a directory leads to; `None` where it may not be followed.
pub(super) fn target_of_link(set: &FileSet, directory: &[u8], name: &[u8]) -> Option<Stat> {
    let path = [directory, name].concat();
    let flags = OFlags::PATH | OFlags::CLOEXEC;
    let target = open_below(set.root().ok()?, &path, flags, resolve_flags(set), MayWait::ForDisk).ok()?;
    rustix::fs::fstat(target).ok()
}

fn resolve_flags(set: &FileSet) -> ResolveFlags {
    let beneath = if set.files().symlinks_may_leave { ResolveFlags::empty() } else { ResolveFlags::BENEATH };
    ResolveFlags::NO_MAGICLINKS | beneath
}

/// O_NONBLOCK: opening a FIFO must not wait for a writer.
const RDONLY: OFlags = OFlags::RDONLY.union(OFlags::NONBLOCK).union(OFlags::CLOEXEC).union(OFlags::NOCTTY);

/// Set on kernels before 5.12, which do not know `RESOLVE_CACHED`.
static CACHED_UNKNOWN: AtomicBool = AtomicBool::new(false);

/// How often a look-up is tried again that was disturbed by renames (openat2(2), EAGAIN).
const DISTURBED_MAX: usize = 8;

fn open_below(
    root: &OwnedFd,
    path: &[u8],
    flags: OFlags,
    resolve: ResolveFlags,
    wait: MayWait,
) -> Result<OwnedFd, Errno> {
    let attempt = |resolve| rustix::fs::openat2(root, path, flags, Mode::empty(), resolve);
    if wait == MayWait::No && maitred_base::residency::cold::is_cold() {
        return Err(Errno::AGAIN);
    }
    if wait == MayWait::No && !CACHED_UNKNOWN.load(Ordering::Relaxed) {
        let first = attempt(resolve | ResolveFlags::CACHED);
        if first.as_ref().err() != Some(&Errno::INVAL) {
            return first;
        }
        let second = attempt(resolve);
        CACHED_UNKNOWN.store(second.as_ref().err() != Some(&Errno::INVAL), Ordering::Relaxed);
        return second;
    }
    let mut last = Errno::AGAIN;
    for _ in 0..DISTURBED_MAX {
        match attempt(resolve) {
            Err(errno @ (Errno::AGAIN | Errno::INTR)) => last = errno,
            other => return other,
        }
    }
    Err(last)
}

/// What an error of `openat2` or `fstat` means for the client.
fn judge(set: &FileSet, errno: Errno, path: &[u8], wait: MayWait) -> Result<Node, Miss> {
    match errno {
        // NXIO is what a socket, or a device without a driver, gives; INVAL a name that the filesystem cannot have.
        Errno::NOENT
        | Errno::NOTDIR
        | Errno::NAMETOOLONG
        | Errno::LOOP
        | Errno::XDEV
        | Errno::NXIO
        | Errno::NODEV
        | Errno::INVAL
        | Errno::ILSEQ => Ok(Node::Nothing),
        Errno::ACCESS | Errno::PERM => Err(Miss::Status(403)),
        Errno::AGAIN if wait == MayWait::No => Err(Miss::WouldWait),
        Errno::AGAIN | Errno::INTR => Err(Miss::Status(503)),
        Errno::MFILE | Errno::NFILE | Errno::NOMEM => {
            set.complain(|| tracing::error!(%errno, path = %path.escape_ascii(), "out of resources while opening a file"));
            Err(Miss::Status(503))
        }
        _ => {
            set.complain(|| tracing::error!(%errno, path = %path.escape_ascii(), "cannot open a file"));
            Err(Miss::Status(500))
        }
    }
}
