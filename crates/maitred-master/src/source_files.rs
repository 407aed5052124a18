//! The files of an application, watched by inotify(7) while they are being worked on (`maitred app --watch`).

use std::fs;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::fs::inotify::{self, CreateFlags, ReadFlags, Reader, WatchFlags};
use rustix::io::Errno;

/// Directories of the application that are watched; more are not.
pub(crate) const DIRECTORIES_MAX: usize = 2048;
/// Entries of one directory that are looked at for further directories.
const ENTRIES_MAX: usize = 20_000;
/// Changes that are taken at a time; what is left wakes the master again.
const CHANGES_PER_TURN_MAX: usize = 1024;
/// An editor, a formatter and a version control system make several changes: they are over when nothing came for this time,
const QUIET: Duration = Duration::from_millis(100);
/// or, when they do not end, after this.
const TIMEOUT: Duration = Duration::from_secs(1);
/// Between two answers to changes: an application that writes its own source files does not keep the machine busy.
const ANSWER_EVERY: Duration = Duration::from_secs(1);

/// Directories of packages and of what was made of sources. Hidden ones and virtual environments are left out, too.
const LEFT_OUT: &[&str] = &["node_modules", "__pycache__", "target", "venv", "site-packages"];
/// Endings of what is loaded once, at the start: programs, templates. Data and logs are not among them.
const SOURCES: &[&str] = &[
    "py", "js", "cjs", "mjs", "jsx", "ts", "cts", "mts", "tsx", "html", "htm", "jinja", "jinja2", "j2",
    "ejs", "pug", "hbs",
];
/// Hidden, and a source all the same.
const ENVIRONMENT: &str = ".env";

/// See the module.
#[derive(Debug)]
pub(crate) struct SourceFiles {
    root: PathBuf,
    inotify: OwnedFd,
    /// What has changed and was not answered: its name, when it was first, and when it was last.
    changed: Option<(String, Instant, Instant)>,
    /// A directory came or went.
    moved: bool,
    answered: Option<Instant>,
    said_limit: bool,
}

impl SourceFiles {
    /// Watches the present directory, if that is `wanted`.
    ///
    /// # Errors
    /// For the operator, as of [`Self::watch`].
    pub(crate) fn of_present_directory(wanted: bool) -> Result<Option<SourceFiles>, String> {
        let watch = || {
            SourceFiles::watch(Path::new(".")).map_err(|error| {
                format!(
                    "--watch: the files of this directory cannot be watched: {error}; start without it, or raise the limits \
                     fs.inotify.max_user_watches and fs.inotify.max_user_instances"
                )
            })
        };
        wanted.then(watch).transpose()
    }

    /// Watches this directory and those below it.
    ///
    /// # Errors
    /// When the kernel's limits are reached, or the directory cannot be read.
    pub(crate) fn watch(root: &Path) -> io::Result<SourceFiles> {
        let mut files = SourceFiles {
            root: root.to_owned(),
            inotify: inotify::init(CreateFlags::NONBLOCK | CreateFlags::CLOEXEC)?,
            changed: None,
            moved: false,
            answered: None,
            said_limit: false,
        };
        files.add_all()?;
        Ok(files)
    }

    /// When [`Self::take`] has something to give.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        let (_, first, last) = self.changed.as_ref()?;
        let due = (*last + QUIET).min(*first + TIMEOUT);
        Some(self.answered.map_or(due, |answered| due.max(answered + ANSWER_EVERY)))
    }

    /// Reads what has changed. Gives back the name of a file or directory once the changes are over.
    pub(crate) fn take(&mut self, now: Instant) -> Option<String> {
        self.read(now);
        if self.moved {
            self.moved = false;
            if let Err(error) = self.again() {
                tracing::error!("new directories of the application are not watched: {error}");
            }
        }
        self.deadline().filter(|due| *due <= now)?;
        self.answered = Some(now);
        self.changed.take().map(|(name, ..)| name)
    }

    fn read(&mut self, now: Instant) {
        let mut room = [MaybeUninit::<u8>::uninit(); 4096];
        let mut reader = Reader::new(self.inotify.as_fd(), &mut room);
        for _ in 0..CHANGES_PER_TURN_MAX {
            let event = match reader.next() {
                Ok(event) => event,
                Err(Errno::INTR) => continue,
                Err(Errno::AGAIN) => return,
                Err(error) => return tracing::error!(%error, "reading what has changed of the application"),
            };
            let (events, name) = (event.events(), event.file_name());
            let name = name.map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
            let lost = events.contains(ReadFlags::QUEUE_OVERFLOW);
            let is_directory = events.contains(ReadFlags::ISDIR);
            if is_directory && is_left_out(&name) {
                continue;
            }
            self.moved |= is_directory || lost;
            let created = events.contains(ReadFlags::CREATE);
            if lost || !created && (is_directory || is_source(&name)) && !name.is_empty() {
                let name = if lost { "more than can be counted".to_owned() } else { name };
                match &mut self.changed {
                    Some((_, _, last)) => *last = now,
                    None => self.changed = Some((name, now, now)),
                }
            }
        }
    }

    /// Begins anew: a directory that has gone elsewhere would be watched there.
    fn again(&mut self) -> io::Result<()> {
        self.inotify = inotify::init(CreateFlags::NONBLOCK | CreateFlags::CLOEXEC)?;
        self.add_all()
    }

    fn add_all(&mut self) -> io::Result<()> {
        let flags = WatchFlags::CLOSE_WRITE
            | WatchFlags::CREATE
            | WatchFlags::DELETE
            | WatchFlags::MOVED_FROM
            | WatchFlags::MOVED_TO
            | WatchFlags::ONLYDIR
            | WatchFlags::EXCL_UNLINK;
        inotify::add_watch(&self.inotify, &self.root, flags)?;
        let mut found = vec![self.root.clone()];
        let mut next = 0;
        while let Some(directory) = found.get(next).cloned() {
            next += 1;
            for child in directories(&directory) {
                if found.len() >= DIRECTORIES_MAX {
                    self.say_limit();
                    return Ok(());
                }
                match inotify::add_watch(&self.inotify, &child, flags) {
                    Ok(_) => found.push(child),
                    // The directory is gone again, or not to be looked into.
                    Err(Errno::NOENT | Errno::NOTDIR | Errno::ACCESS) => {}
                    Err(error) => return Err(error.into()),
                }
            }
        }
        Ok(())
    }

    fn say_limit(&mut self) {
        if !self.said_limit {
            self.said_limit = true;
            tracing::warn!(
                "the application has more than {DIRECTORIES_MAX} directories; changes in the others are not noticed"
            );
        }
    }
}

impl AsFd for SourceFiles {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.inotify.as_fd()
    }
}

/// The directories in a directory that are watched; what a symbolic link leads to is not.
fn directories(directory: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(directory) else { return Vec::new() };
    let entries = entries.take(ENTRIES_MAX).filter_map(Result::ok);
    let real = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
    let kept = real.filter(|entry| !is_left_out(&entry.file_name().to_string_lossy()));
    let paths = kept.map(|entry| entry.path());
    paths.filter(|path| !path.join("pyvenv.cfg").exists()).collect()
}

fn is_left_out(name: &str) -> bool {
    name.starts_with('.') || LEFT_OUT.contains(&name)
}

fn is_source(name: &str) -> bool {
    let has_ending = |ending: &str| SOURCES.iter().any(|known| ending.eq_ignore_ascii_case(known));
    name == ENVIRONMENT
        || !name.starts_with('.') && name.rsplit_once('.').is_some_and(|(_, end)| has_ending(end))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is given once all is quiet; `None` if there was no change that counts.
    fn changed(files: &mut SourceFiles, after: Duration) -> Option<String> {
        let now = Instant::now();
        assert_eq!(files.take(now), None, "nothing is given before it is quiet");
        files.deadline()?;
        files.take(now + after)
    }

    #[test]
    fn changes_of_sources_are_given_once() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        for name in ["pages", "node_modules/x", ".git", "env"] {
            fs::create_dir_all(at(name)).unwrap();
        }
        fs::write(at("env/pyvenv.cfg"), "").unwrap();
        let mut files = SourceFiles::watch(dir.path()).unwrap();
        let mut wait = Duration::ZERO;
        let mut next = |files: &mut SourceFiles| {
            wait += ANSWER_EVERY * 2;
            changed(files, wait)
        };
        assert_eq!(next(&mut files), None);
        for name in [
            "data.sqlite",
            "log.txt",
            ".app.py.swp",
            "app.py~",
            "node_modules/x/a.js",
            ".git/a.py",
            "env/a.py",
        ] {
            fs::write(at(name), "1").unwrap();
        }
        assert_eq!(next(&mut files), None);
        fs::write(at("pages/a.py"), "1").unwrap();
        fs::write(at("b.py"), "1").unwrap();
        assert_eq!(next(&mut files).as_deref(), Some("a.py"));
        assert_eq!(next(&mut files), None);
        // As editors do that write another file first.
        fs::write(at("c.tmp"), "2").unwrap();
        fs::rename(at("c.tmp"), at("b.py")).unwrap();
        assert_eq!(next(&mut files).as_deref(), Some("b.py"));
        fs::remove_file(at("b.py")).unwrap();
        assert_eq!(next(&mut files).as_deref(), Some("b.py"));
        // A directory that is new is watched from then on, one that has left is not.
        fs::create_dir(at("views")).unwrap();
        assert_eq!(next(&mut files), None);
        fs::write(at("views/v.html"), "1").unwrap();
        assert_eq!(next(&mut files).as_deref(), Some("v.html"));
        let elsewhere = tempfile::tempdir().unwrap();
        fs::rename(at("views"), elsewhere.path().join("views")).unwrap();
        assert_eq!(next(&mut files).as_deref(), Some("views"));
        fs::write(elsewhere.path().join("views/v.html"), "2").unwrap();
        assert_eq!(next(&mut files), None);
    }

    #[test]
    fn changes_without_end_are_given_a_second_apart() {
        let dir = tempfile::tempdir().unwrap();
        let mut files = SourceFiles::watch(dir.path()).unwrap();
        let (start, mut given) = (Instant::now(), 0);
        // Five seconds of an application that writes its own source every 50 ms.
        for turn in 0..100 {
            fs::write(dir.path().join("own.py"), "1").unwrap();
            given += u32::from(files.take(start + Duration::from_millis(50) * turn).is_some());
        }
        assert!((3..=5).contains(&given), "{given}");
    }

    #[test]
    fn more_directories_than_may_be_are_left_out() {
        let dir = tempfile::tempdir().unwrap();
        for number in 0..DIRECTORIES_MAX + 10 {
            fs::create_dir(dir.path().join(number.to_string())).unwrap();
        }
        let files = SourceFiles::watch(dir.path()).unwrap();
        assert!(files.said_limit);
    }
}
