//! Files below a directory: the fast path of the server.
//!
//! A hit in the cache (`cache`) is answered from memory, without a system call. Everything else goes through `resolve`,
//! which asks the filesystem only for what is in memory already; what is not there makes the answer
//! [`Served::Blocked`], and a helper thread takes the same way first (`warm`).
//!
//! Each thread has a cache of its own. What it keeps of a file (open descriptor, metadata, prepared head, and the bytes up to
//! `inline_file_bytes_max`) is looked at anew one second after the last check. A response that cannot be sent at once holds the
//! entry, not a copy (`Segment::Cached`). Larger files leave by sendfile(2), in pieces that
//! [`residency`](maitred_base::residency) has found in the page cache, or that a helper has read in; how much of one leaves in a
//! turn is bounded in `worker::exchanges::send`.

mod answer;
mod cache;
mod due;
mod encoding;
mod entry;
mod listing;
mod made;
mod media_type;
mod prepare;
mod resolve;
mod scripts;
mod set;
mod sources;

use std::collections::VecDeque;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::rc::Rc;
use std::time::Instant;

use maitred_http::fastcgi::script::Script;
use maitred_http::request::Method;
use maitred_http::uri;
use rustix::io::Errno;

use self::answer::{Answer, Boundaries};
pub use self::cache::GivenUp;
use self::cache::{Cache, Space};
use self::due::Due;
pub use self::encoding::{Encoding, EncodingPlace};
pub use self::entry::CachedBytes;
use self::entry::{Entry, Maker, Representation};
use self::made::Made;
pub use self::media_type::usual as usual_media_type;
use self::prepare::Facts;
pub use self::resolve::Wanted;
use self::resolve::{Found, FoundFile, MayWait, Miss};
pub use self::scripts::{ScriptRules, WantedScript};
pub use self::set::FileSet;
use super::fixed::{self, Failure, Reply};
use super::{DiskJob, RequestContext, Served};
use crate::exchange::{Field, ResponseWriter};
use maitred_config::Limits;

/// The type of a page that lists a directory.
const LISTING_TYPE: &str = "text/html; charset=utf-8";

/// Serves files for one thread, with that thread's cache.
#[derive(Debug)]
pub struct FileServer {
    sets: Vec<FileSet>,
    cache: Cache,
    boundaries: Boundaries,
    inline_bytes_max: u32,
    encoded_bytes_max: u64,
    ranges_max: usize,
    hits: u64,
    misses: u64,
    /// Codings to make.
    due: VecDeque<Due>,
    /// The one that is being made.
    pending: Option<Due>,
}

/// How the cache of a thread does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CacheUse {
    /// Bytes that it holds.
    pub bytes: u64,
    /// Entries that it holds.
    pub entries: u64,
    /// Requests that were answered from it, without a look at the file system.
    pub hits: u64,
    /// Requests that were not.
    pub misses: u64,
}

/// What a look-up came to.
enum LookUp {
    Entry(Rc<Entry>),
    AddSlash,
}

impl FileServer {
    /// A server of these sets; callers name a set by its index. `given_up` counts what only responses still need, and not the
    /// cache.
    pub fn new(limits: &Limits, sets: Vec<FileSet>, given_up: GivenUp) -> FileServer {
        FileServer {
            sets,
            cache: Cache::new(limits.file_cache_bytes_max, limits.file_cache_files_max, given_up),
            boundaries: Boundaries::default(),
            inline_bytes_max: limits.inline_file_bytes_max,
            encoded_bytes_max: limits.compress_file_bytes_max,
            due: VecDeque::new(),
            pending: None,
            ranges_max: usize::from(limits.ranges_max),
            hits: 0,
            misses: 0,
        }
    }

    /// To be called once per turn: gives back what was counted for responses that have ended.
    pub fn sweep(&mut self, now: Instant) {
        self.cache.sweep(now);
    }

    /// For the scoreboard.
    pub fn cache_use(&self) -> CacheUse {
        let (bytes, _, entries) = self.cache.held();
        CacheUse { bytes, entries: entries as u64, hits: self.hits, misses: self.misses }
    }

    /// Answers a request from a set. [`Served::Blocked`] comes at most once for a request: with
    /// [`RequestContext::warmed`] the answer may wait for the disk.
    #[inline]
    pub fn serve(
        &mut self,
        set: usize,
        context: &RequestContext<'_>,
        writer: &mut ResponseWriter<'_>,
    ) -> Served {
        if !matches!(context.request.method, Method::Get | Method::Head) {
            return self.other_method(set, context, writer);
        }
        match self.find(set, context, writer) {
            Answer::Served(served) => served,
            Answer::Error(status, field) => self.refuse(set, (status, field), context, writer),
        }
    }

    #[inline]
    fn find(&mut self, set: usize, context: &RequestContext<'_>, writer: &mut ResponseWriter<'_>) -> Answer {
        match self.cache.fresh(Space::requests(set), context.path, context.clock.now) {
            Some(entry) => {
                self.hits += 1;
                let answer = answer::file(entry, context, self.ranges_max, &mut self.boundaries, writer);
                if entry.made.as_ref().is_some_and(|made| made.is_due()) {
                    let entry = Rc::clone(entry);
                    self.note_due(Space::requests(set), &entry);
                }
                answer
            }
            None => {
                self.misses += 1;
                match self.look_up(set, context) {
                    Ok(LookUp::Entry(entry)) => {
                        answer::file(&entry, context, self.ranges_max, &mut self.boundaries, writer)
                    }
                    Ok(LookUp::AddSlash) => Answer::Served(self.add_slash(set, context, writer)),
                    Err(Miss::WouldWait) => {
                        Answer::Served(self.blocked(set, Wanted::Request(context.path.into()), writer))
                    }
                    Err(Miss::Status(status)) => Answer::Error(status, None),
                }
            }
        }
    }

    /// Answers a request from a set, if what it is for is there: `None` for what is not, and for methods that files have no
    /// answer to.
    pub fn serve_if_there(
        &mut self,
        set: usize,
        context: &RequestContext<'_>,
        writer: &mut ResponseWriter<'_>,
    ) -> Option<Served> {
        if !matches!(context.request.method, Method::Get | Method::Head) {
            return None;
        }
        match self.find(set, context, writer) {
            Answer::Served(served) => Some(served),
            Answer::Error(404, _) => None,
            Answer::Error(status, field) => Some(self.refuse(set, (status, field), context, writer)),
        }
    }

    /// Finds the script that a request is for, in a set of a pool with scripts; or answers it, as [`FileServer::serve`] does,
    /// with what is there instead.
    ///
    /// # Errors
    /// The answer.
    pub fn script<'p>(
        &mut self,
        set: usize,
        rules: ScriptRules<'p>,
        context: &RequestContext<'p>,
        writer: &mut ResponseWriter<'_>,
    ) -> Result<Script<'p>, Served> {
        let (path, now) = (context.path, context.clock.now);
        let gets = matches!(context.request.method, Method::Get | Method::Head);
        let cache = &mut self.cache;
        let found = match self.sets.get(set) {
            Some(files) => scripts::find(files, rules, (path, gets), may_wait(context), &mut || {
                cache.fresh(Space::requests(set), path, now).is_some()
            }),
            None => Err(Miss::Status(500)),
        };
        Err(match found {
            Ok(scripts::Found::Script(script)) => return Ok(script),
            Ok(scripts::Found::File) => self.serve(set, context, writer),
            Ok(scripts::Found::AddSlash) => self.add_slash(set, context, writer),
            Err(Miss::WouldWait) => {
                let (path, index) = (path.into(), rules.index.into());
                let front = rules.front.map(Into::into);
                let wanted = WantedScript { path, index, php: rules.php, front, gets };
                self.blocked(set, Wanted::Script(wanted), writer)
            }
            Err(Miss::Status(status)) => self.refuse(set, (status, None), context, writer),
        })
    }

    /// Answers with an error of this status.
    fn refuse(
        &mut self,
        set: usize,
        (status, field): (u16, Option<Field<'_>>),
        context: &RequestContext<'_>,
        writer: &mut ResponseWriter<'_>,
    ) -> Served {
        // Too many files are open, or memory is short: that passes.
        let field = if status == 503 { Some(Field::new("Retry-After", "1")) } else { field };
        let fields = field.as_slice();
        self.error(set, &Failure { status, fields, request_id: None }, context, writer)
    }

    /// Answers with an error: with the set's page for it if there is one, otherwise with a line of text.
    /// May be [`Served::Blocked`], as [`FileServer::serve`].
    pub fn error(
        &mut self,
        set: usize,
        failure: &Failure<'_>,
        context: &RequestContext<'_>,
        writer: &mut ResponseWriter<'_>,
    ) -> Served {
        let status = failure.status;
        let page = self.sets.get(set).and_then(|set| set.error_page(status));
        if let Some((page_set, path)) = page.map(|(set, path)| (set, path.to_owned())) {
            match self.page(page_set, &path, context) {
                Ok(entry) => {
                    let served = answer::error_page(status, failure.fields, &entry, context, writer);
                    self.note_due(Space::fixed(page_set), &entry);
                    return served;
                }
                Err(Miss::WouldWait) => {
                    return self.blocked(page_set, Wanted::AsIs(path.into_bytes().into()), writer);
                }
                Err(Miss::Status(_)) => {
                    if let Some(set) = self.sets.get(page_set) {
                        set.complain(
                            || tracing::warn!(status, page = %path, "an error page cannot be served"),
                        );
                    }
                }
            }
        }
        Served::Whole(failure.write(writer))
    }

    fn other_method(
        &mut self,
        set: usize,
        context: &RequestContext<'_>,
        writer: &mut ResponseWriter<'_>,
    ) -> Served {
        const ALLOW: &[Field<'_>] = &[Field::new("Allow", "GET, HEAD, OPTIONS")];
        if context.request.method == Method::Options {
            let reply = Reply { status: 204, fields: ALLOW, content_type: "", body: b"" };
            return Served::Whole(reply.write(writer));
        }
        self.error(set, &Failure { status: 405, fields: ALLOW, request_id: None }, context, writer)
    }

    /// Asks a helper thread to look first.
    fn blocked(&self, set: usize, wanted: Wanted, writer: &mut ResponseWriter<'_>) -> Served {
        match self.sets.get(set) {
            Some(set) => {
                let inline_bytes_max = self.inline_bytes_max;
                Served::Blocked(DiskJob::Lookup { set: set.clone(), wanted, inline_bytes_max })
            }
            None => Served::Whole(fixed::error(500, &[], writer)),
        }
    }

    /// A directory that was named without its slash: relative links of its index would lead astray (301).
    fn add_slash(&self, set: usize, context: &RequestContext<'_>, writer: &mut ResponseWriter<'_>) -> Served {
        // One slash at the start: two would name a host (RFC 3986 section 4.2).
        let path = context.path.iter().position(|byte| *byte != b'/').and_then(|at| context.path.get(at..));
        let mut location = vec![b'/'];
        uri::encode_path(path.unwrap_or_default(), &mut location);
        location.push(b'/');
        fixed::push_query(context, &mut location);
        let rules = self.sets.get(set).map(|set| set.rules().lines().all()).unwrap_or_default();
        Served::Whole(fixed::redirect_to(301, &location, rules, writer))
    }

    /// Finds what a request's path stands for, for the first time or once more.
    fn look_up(&mut self, set: usize, context: &RequestContext<'_>) -> Result<LookUp, Miss> {
        let space = Space::requests(set);
        let found = self.resolve(set, &Wanted::Request(context.path.into()), context);
        if !matches!(found, Ok(Found::File(FoundFile { fixed: None, .. })) | Err(Miss::WouldWait)) {
            // What was served for this path until now is not there any more.
            self.cache.remove(space, context.path);
        }
        match found? {
            Found::File(mut found) => match found.fixed.take() {
                Some(path) => self.entry(set, Space::fixed(set), path.as_bytes(), found, context),
                None => self.entry(set, space, context.path, found, context),
            }
            .map(LookUp::Entry),
            Found::Cached(path) => match self.cache.any(Space::fixed(set), path.as_bytes()) {
                Some(entry) => Ok(LookUp::Entry(Rc::clone(entry))),
                None => Err(Miss::Status(500)),
            },
            Found::AddSlash => Ok(LookUp::AddSlash),
            Found::Listing(directory, path) => {
                self.listing(set, directory, &path, context).map(LookUp::Entry)
            }
        }
    }

    /// A page that the operator chose.
    fn page(&mut self, set: usize, path: &str, context: &RequestContext<'_>) -> Result<Rc<Entry>, Miss> {
        let space = Space::fixed(set);
        if let Some(entry) = self.cache.fresh(space, path.as_bytes(), context.clock.now) {
            return Ok(Rc::clone(entry));
        }
        match self.resolve(set, &Wanted::AsIs(path.as_bytes().into()), context)? {
            Found::File(found) => self.entry(set, space, path.as_bytes(), found, context),
            Found::Cached(_) | Found::AddSlash | Found::Listing(..) => Err(Miss::Status(404)),
        }
    }

    fn resolve(&mut self, set: usize, wanted: &Wanted, context: &RequestContext<'_>) -> Result<Found, Miss> {
        let Some(files) = self.sets.get(set) else { return Err(Miss::Status(500)) };
        let cache = &mut self.cache;
        resolve::resolve(files, wanted, may_wait(context), &mut |fixed| {
            cache.fresh(Space::fixed(set), fixed.as_bytes(), context.clock.now).is_some()
        })
    }

    /// The entry of a file that was just opened: the old one if nothing changed.
    fn entry(
        &mut self,
        set: usize,
        space: Space,
        key: &[u8],
        found: FoundFile,
        context: &RequestContext<'_>,
    ) -> Result<Rc<Entry>, Miss> {
        let now = context.clock.now;
        if let Some(entry) = self.cache.any(space, key).filter(|entry| entry.is_still(&found)).map(Rc::clone)
        {
            self.cache.confirm(space, key, now);
            return Ok(entry);
        }
        let Some(files) = self.sets.get(set) else { return Err(Miss::Status(500)) };
        let maker = Maker {
            set: files,
            clock: context.clock,
            wait: may_wait(context),
            inline_bytes_max: self.inline_bytes_max,
            encoded_bytes_max: self.encoded_bytes_max,
        };
        let (entry, keep) = maker.entry(key, found)?;
        let entry = Rc::new(entry);
        if keep {
            self.cache.insert(space, Rc::clone(&entry), now);
        } else {
            self.cache.remove(space, key);
            self.cache.note_unkept(&entry);
        }
        Ok(entry)
    }

    /// The page that lists a directory. The page is made for a request that may wait, and then cached like a file.
    fn listing(
        &mut self,
        set: usize,
        directory: OwnedFd,
        path: &[u8],
        context: &RequestContext<'_>,
    ) -> Result<Rc<Entry>, Miss> {
        if may_wait(context) == MayWait::No {
            return Err(Miss::WouldWait);
        }
        let Some(files) = self.sets.get(set) else { return Err(Miss::Status(500)) };
        let items = read_listing(files, directory, path).map_err(|errno| {
            let path = path.escape_ascii();
            files.complain(|| tracing::error!(%errno, %path, "cannot list a directory"));
            Miss::Status(500)
        })?;
        let is_top = context.path == files.files().strip_prefix.as_bytes();
        let page = listing::html(context.path, &items, !is_top);
        let rules = files.compression(LISTING_TYPE, page.len() as u64);
        let rules = rules.filter(|_| page.len() as u64 <= self.encoded_bytes_max);
        let facts = Facts {
            size: page.len() as u64,
            content_type: LISTING_TYPE,
            cache_control: files.cache_control(context.path, LISTING_TYPE),
            coding: None,
            etag: None,
            last_modified: None,
            accept_ranges: false,
            vary: rules.is_some(),
        };
        let plain = Representation::of_page(prepare::head(&facts, files.rules(), files.edits()), &page);
        let accepted = context.request.known.accept_encoding;
        let made = rules.map(|rules| Made::at_once(rules, accepted, &plain, &page));
        let entry = Rc::new(Entry::of_page(context.path, plain, made));
        self.cache.insert(Space::requests(set), Rc::clone(&entry), context.clock.now);
        Ok(entry)
    }
}

fn may_wait(context: &RequestContext<'_>) -> MayWait {
    if context.warmed { MayWait::ForDisk } else { MayWait::No }
}

fn read_listing(set: &FileSet, directory: OwnedFd, path: &[u8]) -> Result<listing::Listing, Errno> {
    listing::read(directory, set.files().hidden, &mut |name| resolve::target_of_link(set, path, name))
}

/// Does on a helper thread what [`FileServer::serve`] is going to do: opens what `wanted` stands for, and has files read
/// that are to be kept in memory; the chunks of larger ones are looked after when they are sent. `read` gets a file and
/// how many bytes of it to read.
pub(super) fn warm(
    set: &FileSet,
    wanted: &Wanted,
    inline_bytes_max: u32,
    read: &mut dyn FnMut(BorrowedFd<'_>, u64) -> Result<(), Errno>,
) -> Result<(), Errno> {
    if let Wanted::Script(WantedScript { path, index, php, front, gets }) = wanted {
        let rules = ScriptRules { index, php: *php, front: front.as_deref() };
        let found = scripts::find(set, rules, (path, *gets), MayWait::ForDisk, &mut || false);
        if !matches!(found, Ok(scripts::Found::File)) {
            return Ok(());
        }
    }
    match resolve::resolve(set, wanted, MayWait::ForDisk, &mut |_| false) {
        Ok(Found::File(found)) => {
            let encoded = found.encoded.iter().map(|(_, opened)| opened);
            for opened in [&found.plain].into_iter().chain(encoded) {
                if opened.meta.size <= u64::from(inline_bytes_max) {
                    read(opened.file.as_fd(), opened.meta.size)?;
                }
            }
            Ok(())
        }
        Ok(Found::Listing(directory, path)) => read_listing(set, directory, &path).map(drop),
        // The request that waits for this will find the same, and say so.
        Ok(Found::Cached(_) | Found::AddSlash) | Err(_) => Ok(()),
    }
}

#[cfg(test)]
pub(super) mod testing;

#[cfg(test)]
mod tests;
