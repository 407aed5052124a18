//! A directory whose files are served, and what the configuration says about them.

use std::fmt;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use maitred_http::fields::FieldEdits;
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

use super::prepare::FieldRules;
use super::sources;
use maitred_config::{Coding, Files, TryItem};
use maitred_log::error::Limiter;
use maitred_policy::compress::Rules;
use maitred_policy::filter::expires::Expires;

/// Lines in the error log about one set.
const COMPLAINTS_PER_SECOND_MAX: u32 = 2;

/// One `root` of the configuration with its opened directory. A cheap handle: all threads of a process share what is
/// behind it.
#[derive(Clone)]
pub struct FileSet {
    inner: Arc<Inner>,
    error_pages: Arc<ErrorPages>,
    edits: Arc<FieldEdits>,
    expires: Option<Arc<Expires>>,
    compress: Option<Arc<Rules>>,
    withholds_sources: bool,
}

struct Inner {
    files: Files,
    root: Result<OwnedFd, Errno>,
    complaints: Mutex<Limiter>,
    try_files: Vec<TryItem>,
    rules: FieldRules,
}

#[derive(Default)]
struct ErrorPages {
    set: usize,
    pages: Vec<(u16, String)>,
}

impl FileSet {
    /// Opens the root. A root that cannot be opened is logged and gives a set that answers 500, so that one missing
    /// directory does not keep the other sites from being served.
    pub fn open(files: Files) -> FileSet {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let root = rustix::fs::open(&files.root, flags, Mode::empty());
        if let Err(errno) = &root {
            tracing::error!(root = %files.root.display(), %errno, "cannot open a root of files");
        }
        let try_files = match files.try_files.as_slice() {
            [] => vec![TryItem::Around(String::new(), String::new())],
            items => items.to_vec(),
        };
        let rules = FieldRules::new(&files.headers);
        let complaints = Mutex::new(Limiter::new(COMPLAINTS_PER_SECOND_MAX));
        let inner = Inner { files, root, complaints, try_files, rules };
        FileSet {
            inner: Arc::new(inner),
            error_pages: Arc::default(),
            edits: Arc::default(),
            expires: None,
            compress: None,
            withholds_sources: false,
        }
    }

    /// The same root, whose heads are prepared with these changes. What `headers` takes out is not filled in again.
    #[must_use]
    pub fn with_edits(self, mut edits: FieldEdits) -> FileSet {
        self.inner.rules.masked().iter().for_each(|name| edits.leave_out(name));
        FileSet { edits: Arc::new(edits), ..self }
    }

    /// The same root, whose heads say this about caches.
    #[must_use]
    pub fn with_expires(self, expires: Option<Expires>) -> FileSet {
        FileSet { expires: expires.map(Arc::new), ..self }
    }

    /// The same root, whose files are compressed.
    #[must_use]
    pub fn with_compression(self, rules: Option<Rules>) -> FileSet {
        FileSet { compress: rules.map(Arc::new), ..self }
    }

    /// The same root, with pages for statuses. `set` is the index of the set that holds the pages, in the list that
    /// [`super::FileServer::new`] gets; the pages are paths below its root.
    #[must_use]
    pub fn with_error_pages(self, set: usize, pages: Vec<(u16, String)>) -> FileSet {
        FileSet { error_pages: Arc::new(ErrorPages { set, pages }), ..self }
    }

    /// The same root; whether scripts' sources are no files (`withholds`): their site has an application that runs them.
    #[must_use]
    pub fn withholding_sources(self, withholds: bool) -> FileSet {
        FileSet { withholds_sources: withholds, ..self }
    }

    /// Whether a file of this name is never served.
    #[inline]
    pub(super) fn withholds(&self, path: &[u8]) -> bool {
        self.withholds_sources && sources::is_source(path)
    }

    /// The configuration.
    pub fn files(&self) -> &Files {
        &self.inner.files
    }

    /// The root's descriptor (`O_PATH`), or why there is none.
    pub(super) fn root(&self) -> Result<&OwnedFd, Errno> {
        self.inner.root.as_ref().map_err(|errno| *errno)
    }

    /// Says something in the error log that requests can bring about again and again, unless too much was said.
    pub(super) fn complain(&self, say: impl FnOnce()) {
        let mut limiter = self.inner.complaints.lock().unwrap_or_else(PoisonError::into_inner);
        limiter.log(Instant::now(), say);
    }

    /// `try`, never empty.
    pub(super) fn try_files(&self) -> &[TryItem] {
        &self.inner.try_files
    }

    /// The header rules, ready for use.
    pub(super) fn rules(&self) -> &FieldRules {
        &self.inner.rules
    }

    /// What is changed in prepared heads.
    pub(super) fn edits(&self) -> &FieldEdits {
        &self.edits
    }

    /// `Cache-Control` of a file.
    pub(super) fn cache_control(&self, path: &[u8], content_type: &str) -> Option<&[u8]> {
        self.expires.as_ref()?.of_file(path, content_type.as_bytes())
    }

    /// Which codings a file of this type and size may get; none for many.
    pub(super) fn codings(&self, content_type: &str, bytes: u64) -> &[Coding] {
        self.compression(content_type, bytes).map(Rules::kept).unwrap_or_default()
    }

    /// What is said about compression, if content of this type and size is to be compressed.
    pub(super) fn compression(&self, content_type: &str, bytes: u64) -> Option<&Rules> {
        self.compress.as_deref().filter(|rules| rules.takes_file(content_type.as_bytes(), bytes))
    }

    /// Where the page for a status is: the set, and the path below its root.
    pub(super) fn error_page(&self, status: u16) -> Option<(usize, &str)> {
        let (_, path) = self.error_pages.pages.iter().find(|(of, _)| *of == status)?;
        Some((self.error_pages.set, path))
    }
}

impl fmt::Debug for FileSet {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_tuple("FileSet").field(&self.inner.files.root).finish()
    }
}
