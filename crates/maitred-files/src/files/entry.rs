//! What the cache keeps of a file: prepared heads, small bodies, open descriptors of large files.

use std::cell::OnceCell;
use std::io::IoSliceMut;
use std::ops::{Deref, Range};
use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::sync::Arc;

use maitred_http::date;
use maitred_http::fields::{FieldLines, FieldsRef, Line};
use maitred_http::h1;
use rustix::io::{Errno, ReadWriteFlags, pread, preadv2};

use super::made::Made;
use super::media_type;
use super::prepare::{self, Facts, Places};
use super::resolve::{FoundFile, MayWait, Meta, Miss, Opened};
use super::set::FileSet;
use crate::{OpenFile, ServedFile};
use maitred_base::budget::{Budget, Permit};
use maitred_base::clock::Clock;
use maitred_config::Coding;
use maitred_policy::compress;

/// How often a file that changes while it is read is read again.
const READ_ATTEMPTS_MAX: usize = 3;

/// A file changed less than this long ago may change again without a new time stamp (coarse clocks of filesystems; 2 s
/// is FAT's), so its content is read again at each revalidation.
const SETTLING_NANOS: i128 = 2_000_000_000;

/// What may be sent for one path.
#[derive(Debug)]
pub(super) struct Entry {
    /// The cache's key; see [`super::cache`].
    pub(super) key: Box<[u8]>,
    pub(super) plain: Representation,
    /// The encoded siblings, in the configuration's order.
    pub(super) encoded: Box<[(Coding, Representation)]>,
    /// Codings that are made here, where there are no siblings.
    pub(super) made: Option<Box<Made>>,
    /// Whether equal [`Meta`] proves equal content.
    settled: bool,
    /// The entry's share of the memory for what is unsent, once the cache has given it up while responses still need it.
    pinned: OnceCell<Permit>,
}

/// Bytes that are in memory for longer than any response. A connection that still has to send them holds this, and no copy.
#[derive(Debug, Clone)]
pub struct CachedBytes {
    holder: Holder,
    range: Range<usize>,
}

/// The owner of the bytes.
#[derive(Debug, Clone)]
enum Holder {
    /// An entry of the cache: 0 is the plain representation, then come the encoded ones.
    Entry(Rc<Entry>, u8),
    /// The configuration, which lasts as long as the process.
    Configuration(&'static [u8]),
}

impl CachedBytes {
    /// Bytes of the configuration.
    pub fn configured(bytes: &'static [u8]) -> CachedBytes {
        CachedBytes { holder: Holder::Configuration(bytes), range: 0..bytes.len() }
    }

    /// The bytes.
    pub fn bytes(&self) -> &[u8] {
        let all = match &self.holder {
            Holder::Entry(entry, which) => match entry.representation(*which).map(Representation::body) {
                Some(Body::Inline(body)) => body,
                _ => b"",
            },
            Holder::Configuration(bytes) => bytes,
        };
        all.get(self.range.clone()).unwrap_or_default()
    }

    /// Takes bytes from the front away.
    pub fn advance(&mut self, bytes: usize) {
        self.range.start = self.range.end.min(self.range.start + bytes);
    }

    /// Leaves no more than so many, the last ones.
    pub fn keep_last(&mut self, bytes: usize) {
        self.range.start = self.range.start.max(self.range.end.saturating_sub(bytes));
    }
}

/// A representation, and the entry that holds it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Chosen<'e> {
    entry: &'e Rc<Entry>,
    which: u8,
    one: &'e Representation,
}

impl<'e> Chosen<'e> {
    /// The plain representation.
    pub(super) fn plain(entry: &'e Rc<Entry>) -> Chosen<'e> {
        Chosen { entry, which: 0, one: &entry.plain }
    }

    /// An encoded one, by its place.
    pub(super) fn encoded(entry: &'e Rc<Entry>, at: usize) -> Option<Chosen<'e>> {
        let (_, one) = entry.encoded.get(at)?;
        Some(Chosen { entry, which: at as u8 + 1, one })
    }

    /// A representation that was made here, by its place.
    #[inline]
    pub(super) fn made(entry: &'e Rc<Entry>, made: &'e Made, at: usize) -> Option<Chosen<'e>> {
        Some(Chosen { entry, which: at as u8 + 1, one: made.get(at)? })
    }

    /// Bytes of its body, which is in memory.
    pub(super) fn cached(&self, range: Range<u64>) -> CachedBytes {
        let range = range.start as usize..range.end as usize;
        CachedBytes { holder: Holder::Entry(Rc::clone(self.entry), self.which), range }
    }
}

impl Deref for Chosen<'_> {
    type Target = Representation;

    fn deref(&self) -> &Representation {
        self.one
    }
}

/// A file, ready to be sent (RFC 9110 section 3.2).
#[derive(Debug)]
pub(super) struct Representation {
    /// Head and, if `file` is `None`, body: one allocation, so that a hit touches as little memory as can be.
    bytes: Box<[u8]>,
    head_len: u32,
    /// Where the fields are in the head.
    lines: Box<[Line]>,
    places: Places,
    /// `None` when the body is in `bytes`.
    file: Option<Rc<ServedFile>>,
    pub(super) size: u64,
    /// With its quotes; `None` if the configuration removes it.
    pub(super) etag: Option<Box<str>>,
    /// Seconds since the Unix epoch; `None` if removed, or in the future (RFC 9110 section 8.8.2.1).
    pub(super) last_modified: Option<u64>,
    pub(super) accept_ranges: bool,
    meta: Option<Meta>,
}

/// What the body of a representation is made of.
#[derive(Debug, Clone, Copy)]
pub(super) enum Body<'a> {
    Inline(&'a [u8]),
    File(&'a Rc<ServedFile>),
}

impl Representation {
    /// Head of a 200, up to where `Date` is to stand.
    #[inline]
    pub(super) fn head(&self) -> &[u8] {
        self.bytes.get(..self.head_len as usize).unwrap_or_default()
    }

    /// The fields of the representation.
    #[inline]
    pub(super) fn fields(&self) -> FieldsRef<'_> {
        FieldsRef::of_parts(&self.bytes, &self.lines)
    }

    /// `Content-Type` and what follows it.
    pub(super) fn fields_from_type(&self) -> FieldsRef<'_> {
        self.fields().part(usize::from(self.places.type_at)..self.lines.len())
    }

    /// What follows `Content-Type`.
    pub(super) fn fields_after_type(&self) -> FieldsRef<'_> {
        self.fields().part(usize::from(self.places.coding_at)..self.lines.len())
    }

    /// What a 304 carries too.
    pub(super) fn common_fields(&self) -> FieldsRef<'_> {
        self.fields().part(usize::from(self.places.common_at)..self.lines.len())
    }

    pub(super) fn body(&self) -> Body<'_> {
        match &self.file {
            Some(file) => Body::File(file),
            None => Body::Inline(self.bytes.get(self.head_len as usize..).unwrap_or_default()),
        }
    }

    /// A page that was made here, not read from a file.
    pub(super) fn of_page((head, places): (FieldLines, Places), body: &[u8]) -> Representation {
        let (head, lines) = head.into_parts();
        Representation {
            bytes: [&*head, body].concat().into_boxed_slice(),
            head_len: head.len() as u32,
            lines,
            places,
            file: None,
            size: body.len() as u64,
            etag: None,
            last_modified: None,
            accept_ranges: false,
            meta: None,
        }
    }

    /// What the file was when it was opened.
    pub(super) fn meta(&self) -> Option<Meta> {
        self.meta
    }

    /// Whether its fields allow that a coding is made of it.
    fn takes_coding(&self) -> bool {
        let mut facts = compress::Facts::new(200);
        self.fields().iter().for_each(|(name, value)| facts.note(name, value));
        !facts.is_fixed()
    }

    /// The same in a coding that was made of it. No ranges are offered of that.
    pub(super) fn coded(&self, coding: Coding, body: &[u8]) -> Representation {
        let Places { type_at, coding_at, common_at } = self.places;
        let etag = self.etag.as_deref().map(|etag| with_coding(etag, coding));
        let (mut lines, mut common) = (FieldLines::behind(h1::prepare(200)), common_at + 1);
        for (at, (name, value)) in self.fields().iter().enumerate() {
            if at == usize::from(coding_at) {
                lines.push(b"Content-Encoding", coding.token().as_bytes());
            }
            let is = |expected: &[u8]| name.eq_ignore_ascii_case(expected);
            match &etag {
                _ if is(b"content-length") => lines.push_number(name, body.len() as u64),
                _ if is(b"accept-ranges") => common -= u16::from(at < usize::from(common_at)),
                Some(etag) if is(b"etag") => lines.push(name, etag.as_bytes()),
                _ => lines.push(name, value),
            }
        }
        if usize::from(coding_at) == self.lines.len() {
            lines.push(b"Content-Encoding", coding.token().as_bytes());
        }
        let places = Places { type_at, coding_at, common_at: common };
        let last_modified = self.last_modified;
        Representation { etag, last_modified, ..Representation::of_page((lines, places), body) }
    }

    /// Makes it one whose body is a file.
    #[cfg(test)]
    pub(super) fn keep_open(&mut self, file: Rc<ServedFile>) {
        self.file = Some(file);
    }

    fn is_still(&self, opened: &Opened) -> bool {
        self.meta == Some(opened.meta)
    }
}

impl Entry {
    /// An entry of a page that was made here.
    pub(super) fn of_page(key: &[u8], page: Representation, made: Option<Made>) -> Entry {
        let (encoded, pinned, made) = (Box::default(), OnceCell::new(), made.map(Box::new));
        Entry { key: key.into(), plain: page, encoded, made, settled: false, pinned }
    }

    fn representation(&self, which: u8) -> Option<&Representation> {
        match usize::from(which).checked_sub(1) {
            None => Some(&self.plain),
            Some(at) => match &self.made {
                Some(made) => made.get(at),
                None => self.encoded.get(at).map(|(_, one)| one),
            },
        }
    }

    /// Counts its memory as unsent, for as long as there is a response that still needs it: the cache does not count it.
    pub(super) fn charge(&self, unsent: &Arc<Budget>) {
        self.pinned.get_or_init(|| unsent.charge(self.cost_bytes()));
    }

    /// Memory that the entry takes, in bytes, near enough for a budget.
    pub(super) fn cost_bytes(&self) -> u64 {
        let of = |one: &Representation| {
            let lines = size_of_val(&*one.lines);
            one.bytes.len() + lines + one.etag.as_ref().map_or(0, |etag| etag.len())
        };
        let encoded: usize =
            self.encoded.iter().map(|(_, one)| size_of::<(Coding, Representation)>() + of(one)).sum();
        let made = self.made.as_ref().map_or(0, |made| {
            size_of::<Made>() + made.iter().map(|one| size_of::<Representation>() + of(one)).sum::<usize>()
        });
        (size_of::<Entry>() + self.key.len() + of(&self.plain) + encoded + made) as u64
    }

    /// Descriptors that the entry holds.
    pub(super) fn cost_files(&self) -> u32 {
        let files = |one: &Representation| u32::from(one.file.is_some());
        files(&self.plain) + self.encoded.iter().map(|(_, one)| files(one)).sum::<u32>()
    }

    /// The descriptors that it holds.
    pub(super) fn files(&self) -> impl Iterator<Item = &Rc<ServedFile>> {
        let encoded = self.encoded.iter().map(|(_, one)| one);
        std::iter::once(&self.plain).chain(encoded).filter_map(|one| one.file.as_ref())
    }

    /// Whether what was found now is what the entry was made from.
    pub(super) fn is_still(&self, found: &FoundFile) -> bool {
        let encoded_still = |(ours, now): (&(Coding, Representation), &(Coding, Opened))| {
            ours.0 == now.0 && ours.1.is_still(&now.1)
        };
        self.settled
            && self.plain.is_still(&found.plain)
            && self.encoded.len() == found.encoded.len()
            && self.encoded.iter().zip(&found.encoded).all(encoded_still)
    }
}

/// What follows from the name of a file.
#[derive(Debug, Clone, Copy)]
struct About<'a> {
    media: &'a str,
    /// `Cache-Control`
    cache: Option<&'a [u8]>,
}

/// What all representations of a set have in common.
#[derive(Debug, Clone, Copy)]
pub(super) struct Maker<'a> {
    pub(super) set: &'a FileSet,
    pub(super) clock: &'a Clock,
    pub(super) wait: MayWait,
    pub(super) inline_bytes_max: u32,
    pub(super) encoded_bytes_max: u64,
}

impl Maker<'_> {
    /// Makes the entry of a file. `Ok` with `false` is an entry that must not be kept: the file changes all the time.
    pub(super) fn entry(&self, key: &[u8], found: FoundFile) -> Result<(Entry, bool), Miss> {
        let media = media_type::of(&found.path, &self.set.files().media);
        let about = About { media: &media, cache: self.set.cache_control(&found.path, &media) };
        let codings = match found.plain.meta.size <= self.encoded_bytes_max && found.encoded.is_empty() {
            true => self.set.codings(&media, found.plain.meta.size),
            false => &[],
        };
        let vary = !found.encoded.is_empty() || !codings.is_empty();
        let (plain, mut keep) = self.representation(found.plain, about, None, vary)?;
        let mut encoded = Vec::with_capacity(found.encoded.len());
        for (coding, opened) in found.encoded {
            let (one, stable) = self.representation(opened, about, Some(coding), vary)?;
            keep &= stable;
            encoded.push((coding, one));
        }
        let settled = |one: &Representation| one.meta.is_some_and(|meta| self.is_settled(&meta));
        let settled = settled(&plain) && encoded.iter().all(|(_, one)| settled(one));
        // What may change again without a new time stamp has another entry soon.
        let takes = settled && keep && !codings.is_empty() && plain.takes_coding();
        let made = takes.then(|| Box::new(Made::new(codings)));
        let (encoded, pinned) = (encoded.into(), OnceCell::new());
        Ok((Entry { key: key.into(), plain, encoded, made, settled, pinned }, keep))
    }

    fn is_settled(&self, meta: &Meta) -> bool {
        let now =
            i128::from(self.clock.unix_secs) * 1_000_000_000 + i128::from(self.clock.unix_micros) * 1_000;
        meta.mtime.max(meta.ctime) + SETTLING_NANOS < now
    }

    fn representation(
        &self,
        opened: Opened,
        about: About<'_>,
        coding: Option<Coding>,
        vary: bool,
    ) -> Result<(Representation, bool), Miss> {
        let Opened { file, mut meta } = opened;
        for _ in 0..READ_ATTEMPTS_MAX {
            let (mut made, mut bytes) = self.prepare(&meta, about, coding, vary);
            if meta.size > u64::from(self.inline_bytes_max) {
                made.bytes = bytes.into_boxed_slice();
                made.file = Some(Rc::new(ServedFile::Own(OpenFile::new(file))));
                return Ok((made, true));
            }
            let head_len = bytes.len();
            bytes.resize(head_len + meta.size as usize, 0);
            let body = bytes.get_mut(head_len..).unwrap_or_default();
            let whole = self.fill(&file, body)?;
            let now = rustix::fs::fstat(&file)
                .map(|stat| Meta::of(&stat))
                .map_err(|errno| self.unreadable(errno))?;
            if whole && now == meta {
                made.bytes = bytes.into_boxed_slice();
                return Ok((made, true));
            }
            // A log that grows without end is never the same twice; what was read is whole nevertheless.
            if whole && now.size > meta.size {
                made.bytes = bytes.into_boxed_slice();
                return Ok((made, false));
            }
            meta = now;
        }
        self.set.complain(|| tracing::error!(ino = meta.ino, "a file changes each time it is read"));
        Err(Miss::Status(503))
    }

    /// All of a representation but its bytes, and its prepared head.
    fn prepare(
        &self,
        meta: &Meta,
        about: About<'_>,
        coding: Option<Coding>,
        vary: bool,
    ) -> (Representation, Vec<u8>) {
        let (rules, edits) = (self.set.rules(), self.set.edits());
        // What the client does not get, its conditions cannot be about.
        let keeps = |name| rules.keeps(name) && !edits.drops(name);
        let etag = keeps("etag").then(|| etag(meta, coding));
        let seconds = u64::try_from(meta.mtime.div_euclid(1_000_000_000)).ok();
        let last_modified = seconds.filter(|secs| keeps("last-modified") && *secs <= self.clock.unix_secs);
        let date = last_modified.map(date::format);
        let accept_ranges = keeps("accept-ranges");
        let facts = Facts {
            size: meta.size,
            content_type: about.media,
            cache_control: about.cache,
            coding,
            etag: etag.as_deref(),
            last_modified: date.as_ref(),
            accept_ranges,
            vary,
        };
        let body_bytes = if meta.size > u64::from(self.inline_bytes_max) { 0 } else { meta.size as usize };
        let (head, places) = prepare::head(&facts, rules, edits);
        let (mut head, lines) = head.into_parts();
        head.reserve_exact(body_bytes);
        let made = Representation {
            bytes: Box::default(),
            head_len: head.len() as u32,
            lines,
            places,
            file: None,
            size: meta.size,
            etag,
            last_modified,
            accept_ranges,
            meta: Some(*meta),
        };
        (made, head)
    }

    /// Reads until `body` is full; `false` if the file ends before that.
    fn fill(&self, file: &OwnedFd, mut body: &mut [u8]) -> Result<bool, Miss> {
        let mut at = 0;
        while !body.is_empty() {
            match read_some(file, body, at, self.wait) {
                Ok(0) => return Ok(false),
                Ok(read) => {
                    at += read as u64;
                    body = body.get_mut(read..).unwrap_or_default();
                }
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) if self.wait == MayWait::No => return Err(Miss::WouldWait),
                Err(errno) => return Err(self.unreadable(errno)),
            }
        }
        Ok(true)
    }

    fn unreadable(&self, errno: Errno) -> Miss {
        self.set.complain(|| tracing::error!(%errno, "cannot read a file"));
        Miss::Status(500)
    }
}

/// A strong validator (RFC 9110 section 8.8.3): size, time of change and inode; the coding, because each coding is a
/// representation of its own.
fn etag(meta: &Meta, coding: Option<Coding>) -> Box<str> {
    let (size, mtime, ino) = (meta.size, meta.mtime, meta.ino);
    match coding {
        None => format!("\"{size:x}-{mtime:x}-{ino:x}\"").into(),
        Some(coding) => format!("\"{size:x}-{mtime:x}-{ino:x}-{}\"", prepare::token(coding)).into(),
    }
}

/// The entity tag of a coding that was made of a file with this one.
fn with_coding(etag: &str, coding: Coding) -> Box<str> {
    format!("{}-{}\"", etag.trim_end_matches('"'), coding.token()).into()
}

/// One read. With [`MayWait::No`], a filesystem that cannot say whether it would wait (overlayfs, FUSE) is taken to
/// wait: a helper thread reads first, which costs little, as content is read only when it changed.
fn read_some(file: &OwnedFd, body: &mut [u8], at: u64, wait: MayWait) -> Result<usize, Errno> {
    match wait {
        MayWait::ForDisk => pread(file, body, at),
        MayWait::No => match preadv2(file, &mut [IoSliceMut::new(body)], at, ReadWriteFlags::NOWAIT) {
            Err(Errno::OPNOTSUPP | Errno::NOSYS) => Err(Errno::AGAIN),
            other => other,
        },
    }
}
