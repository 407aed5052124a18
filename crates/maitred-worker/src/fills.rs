//! Responses that are being fetched for the cache: one for each key in a worker process, however many requests wait for it.
//!
//! | phase | how it begins | a request that waits |
//! |---|---|---|
//! | `Asking` | the first request for a key begins a fill | waits, for `collapse_timeout` at most |
//! | `Coming` | the head of a response that is kept has come, but not all of it | is answered with what is there, and comes |
//! | `Kept` | the response is there as a whole, or is the one that is kept | is answered with it, as any later one |
//! | `Released` | the response is not kept | goes to the pool by itself, all at once |
//! | `Failed` | there is no response, or no whole one | the same if it has nothing yet; otherwise it is aborted |
//!
//! The thread that has begun a fill reads the response (`exchanges::fill`) and writes here; the others read. What has come is in
//! memory as long as it is short, and in the file that becomes the entry after that. A request that leaves changes nothing: a
//! fill depends on no client.
//!
//! After a purge, [`Fills::part`] keeps requests from what was asked for before it.

use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::keys::ConnId;
use maitred_http::fields::FieldLines;
use maitred_http::response::FramedHead;

use maitred_cache::Entry;

/// The most of a fill that a request takes at a time.
const PIECE_BYTES: usize = 64 * 1024;

/// After a fill that has failed, a stale response is given for so long without another one; twice as long after each further
/// failure.
const BACK_OFF: Duration = Duration::from_secs(1);

/// The longest of these times.
const BACK_OFF_MAX: Duration = Duration::from_secs(60);

/// Keys that are remembered for having failed. Beyond it, the first of them is forgotten.
const BACK_OFF_KEYS_MAX: usize = 4096;

/// Keys of which it is remembered why their responses are not kept. Beyond it, all are forgotten.
const REASONS_MAX: usize = 4096;

/// All fills of a worker process.
#[derive(Debug, Default)]
pub(crate) struct Fills {
    by_key: Mutex<HashMap<Box<[u8]>, Arc<Fill>>>,
    failed: Mutex<HashMap<Box<[u8]>, Failures>>,
    /// Why the last response of a key was not kept.
    reasons: Mutex<HashMap<Box<[u8]>, &'static str>>,
}

/// How often a key has failed in a row, and until when it is not tried again.
#[derive(Debug, Clone, Copy)]
struct Failures {
    count: u32,
    until: Instant,
}

/// What a request for a key does.
#[derive(Debug)]
pub(crate) enum Joined {
    /// The request begins this fill.
    Leads(Arc<Fill>),
    /// The request waits for this fill.
    Follows(Arc<Fill>),
}

/// A fetch of a response for the cache.
#[derive(Debug)]
pub(crate) struct Fill {
    key: Box<[u8]>,
    progress: Mutex<Progress>,
}

/// A connection that waits for a fill.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Waiter {
    /// The thread that has the connection.
    pub(crate) thread: usize,
    /// The connection.
    pub(crate) connection: ConnId,
}

/// How far a fill has come.
#[derive(Debug, Clone)]
pub(crate) enum Phase {
    /// No head has come.
    Asking,
    /// The head of the response, with the fields that all may have; content is coming.
    Coming(Arc<FramedHead>),
    /// The response that is given, which was kept before.
    Kept(Arc<Entry>, How),
    /// The response is not kept.
    Released,
    /// The response is not there, or not whole.
    Failed,
}

/// How a fill has come to what is given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum How {
    /// The response was kept before, and is still good.
    Validated,
    /// The response was kept before, and is stale: the pool has failed.
    InsteadOfError,
}

/// For which requests a response is that varies.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Variant {
    /// The names of the fields that it varies with.
    pub(crate) names: Box<str>,
    /// What the request had in them.
    pub(crate) text: Box<[u8]>,
}

/// What is known of a response that is kept, once its head has come.
#[derive(Debug, Clone, Default)]
pub(crate) struct Facts {
    /// For which requests it is; all, if it does not vary.
    pub(crate) variant: Option<Arc<Variant>>,
    /// Fields for the client alone whose request has fetched it.
    pub(crate) own: Option<Arc<FieldLines>>,
    /// For how many seconds it is fresh from then on.
    pub(crate) ttl: i64,
}

#[derive(Debug)]
struct Progress {
    phase: Phase,
    facts: Facts,
    content: Content,
    /// All of the content is there.
    ended: bool,
    /// Connections that wait for the next step.
    waiting: Vec<Waiter>,
}

#[derive(Debug)]
enum Content {
    Memory(Vec<u8>),
    /// In a file, from this offset on, so many bytes.
    File(Arc<File>, u64, u64),
}

/// What a request gets of the content.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Piece {
    /// Some bytes.
    Some,
    /// Nothing yet: the connection is told when there is.
    Nothing,
    /// The request has everything.
    End,
    /// The rest will not come.
    Failed,
}

impl Fills {
    /// A request asks for this key.
    pub(crate) fn join(&self, key: &[u8]) -> Joined {
        let mut by_key = lock(&self.by_key);
        if let Some(fill) = by_key.get(key) {
            return Joined::Follows(Arc::clone(fill));
        }
        let fill = Arc::new(Fill::new(key));
        by_key.insert(key.into(), Arc::clone(&fill));
        Joined::Leads(fill)
    }

    /// Later requests find what has become of a fill in the store, or begin another one.
    pub(crate) fn remove(&self, fill: &Arc<Fill>) {
        let mut by_key = lock(&self.by_key);
        if by_key.get(&fill.key).is_some_and(|found| Arc::ptr_eq(found, fill)) {
            by_key.remove(&fill.key);
        }
    }

    /// Requests from now on wait for none of those that are under way: what these were asked for was purged since.
    pub(crate) fn part(&self) {
        lock(&self.by_key).clear();
    }

    /// Why a response of this key was not kept; `None`: one is.
    pub(crate) fn note_reason(&self, key: &[u8], why: Option<&'static str>) {
        let mut all = lock(&self.reasons);
        let Some(why) = why else {
            all.remove(key);
            return;
        };
        if all.len() >= REASONS_MAX && !all.contains_key(key) {
            all.clear();
        }
        all.insert(key.into(), why);
    }

    /// Why the last response of this key was not kept, if that is known.
    pub(crate) fn reason(&self, key: &[u8]) -> Option<&'static str> {
        lock(&self.reasons).get(key).copied()
    }

    /// Whether this key has failed a moment ago, so that it is not tried again while there is something stale.
    pub(crate) fn is_backing_off(&self, key: &[u8], now: Instant) -> bool {
        let failed = lock(&self.failed);
        failed.get(key).is_some_and(|failures| failures.until > now)
    }

    /// A fill of this key has failed, or has succeeded again.
    pub(crate) fn note_outcome(&self, key: &[u8], failed: bool, now: Instant) {
        let mut all = lock(&self.failed);
        if !failed {
            all.remove(key);
            return;
        }
        if all.len() >= BACK_OFF_KEYS_MAX && !all.contains_key(key) {
            all.retain(|_, failures| failures.until > now);
            if all.len() >= BACK_OFF_KEYS_MAX {
                all.clear();
            }
        }
        let failures = all.entry(key.into()).or_insert(Failures { count: 0, until: now });
        let period = BACK_OFF.saturating_mul(1 << failures.count.min(6)).min(BACK_OFF_MAX);
        *failures = Failures { count: failures.count.saturating_add(1), until: now + period };
    }
}

impl Fill {
    fn new(key: &[u8]) -> Fill {
        let progress = Progress {
            phase: Phase::Asking,
            facts: Facts::default(),
            content: Content::Memory(Vec::new()),
            ended: false,
            waiting: Vec::new(),
        };
        Fill { key: key.into(), progress: Mutex::new(progress) }
    }

    /// What it is for.
    pub(crate) fn key(&self) -> &[u8] {
        &self.key
    }

    /// How far it has come. If no head has, the connection is told when one has.
    pub(crate) fn watch(&self, waiter: Waiter) -> Phase {
        let mut progress = lock(&self.progress);
        if matches!(progress.phase, Phase::Asking) {
            progress.waiting.push(waiter);
        }
        progress.phase.clone()
    }

    /// What is known of the response, once its head has come.
    pub(crate) fn facts(&self) -> Facts {
        lock(&self.progress).facts.clone()
    }

    /// Notes what is known of it.
    pub(crate) fn note(&self, facts: Facts) {
        lock(&self.progress).facts = facts;
    }

    /// How much of the content has come.
    pub(crate) fn length(&self) -> u64 {
        lock(&self.progress).content.length()
    }

    /// What of it is in memory.
    pub(crate) fn in_memory(&self) -> Vec<u8> {
        match &lock(&self.progress).content {
            Content::Memory(content) => content.clone(),
            Content::File(..) => Vec::new(),
        }
    }

    /// Takes content from this offset on; if there is none yet, the connection is told when there is.
    ///
    /// # Errors
    /// What the file says.
    pub(crate) fn read(&self, offset: u64, out: &mut Vec<u8>, waiter: Waiter) -> io::Result<Piece> {
        let mut progress = lock(&self.progress);
        let (length, ended) = (progress.content.length(), progress.ended);
        if offset >= length {
            return Ok(match (&progress.phase, ended) {
                (_, true) => Piece::End,
                (Phase::Failed, false) => Piece::Failed,
                (_, false) => {
                    progress.waiting.push(waiter);
                    Piece::Nothing
                }
            });
        }
        let bytes = (length - offset).min(PIECE_BYTES as u64) as usize;
        match &progress.content {
            Content::Memory(content) => {
                let start = offset as usize;
                out.extend_from_slice(content.get(start..start + bytes).unwrap_or_default());
            }
            Content::File(file, start, _) => {
                let (file, at) = (Arc::clone(file), start + offset);
                drop(progress);
                let before = out.len();
                out.resize(before + bytes, 0);
                file.read_exact_at(out.get_mut(before..).unwrap_or_default(), at)?;
            }
        }
        Ok(Piece::Some)
    }

    /// A head has come whose response is kept.
    pub(crate) fn begin(&self, head: FramedHead, facts: Facts) {
        let mut progress = lock(&self.progress);
        (progress.phase, progress.facts) = (Phase::Coming(Arc::new(head)), facts);
    }

    /// More content has come, which is still kept in memory.
    pub(crate) fn append(&self, content: &[u8]) {
        if let Content::Memory(all) = &mut lock(&self.progress).content {
            all.extend_from_slice(content);
        }
    }

    /// Content is in this file from now on, from this offset on, and so many bytes of it.
    pub(crate) fn in_file(&self, file: Arc<File>, offset: u64, bytes: u64) {
        lock(&self.progress).content = Content::File(file, offset, bytes);
    }

    /// All content is there.
    pub(crate) fn end(&self) {
        lock(&self.progress).ended = true;
    }

    /// Nothing follows.
    pub(crate) fn settle(&self, phase: Phase) {
        lock(&self.progress).phase = phase;
    }

    /// The connections that wait, which are to be told.
    pub(crate) fn take_waiting(&self) -> Vec<Waiter> {
        std::mem::take(&mut lock(&self.progress).waiting)
    }
}

impl Content {
    fn length(&self) -> u64 {
        match self {
            Content::Memory(content) => content.len() as u64,
            Content::File(_, _, bytes) => *bytes,
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ME: Waiter = Waiter { thread: 0, connection: ConnId::of(7, 1) };

    fn head() -> FramedHead {
        FramedHead { status: 200, content_length: None, fields: Default::default(), ended: false }
    }

    #[test]
    fn reasons_are_remembered_within_bounds() {
        let fills = Fills::default();
        fills.note_reason(b"a", Some("x"));
        assert_eq!((fills.reason(b"a"), fills.reason(b"b")), (Some("x"), None));
        fills.note_reason(b"a", None);
        assert_eq!(fills.reason(b"a"), None);
        (0..=REASONS_MAX).for_each(|number| fills.note_reason(number.to_string().as_bytes(), Some("x")));
        assert_eq!((fills.reason(b"0"), lock(&fills.reasons).len()), (None, 1));
    }

    #[test]
    fn one_request_leads_and_the_others_follow() {
        let fills = Fills::default();
        let Joined::Leads(first) = fills.join(b"a") else { panic!("the first one leads") };
        let Joined::Follows(same) = fills.join(b"a") else { panic!("the second one follows") };
        assert!(Arc::ptr_eq(&first, &same) && matches!(fills.join(b"b"), Joined::Leads(_)));
        fills.remove(&first);
        let Joined::Leads(next) = fills.join(b"a") else { panic!("a new one after the end") };
        fills.remove(&first);
        assert!(matches!(fills.join(b"a"), Joined::Follows(found) if Arc::ptr_eq(&found, &next)));
        fills.part();
        assert!(
            matches!(fills.join(b"a"), Joined::Leads(_)),
            "what was asked for before a purge is not given after it"
        );
    }

    #[test]
    fn content_is_read_as_it_comes() {
        let fill = Fill::new(b"a");
        let mut out = Vec::new();
        assert!(matches!(fill.watch(ME), Phase::Asking));
        fill.begin(head(), Facts::default());
        fill.append(b"abc");
        assert_eq!(fill.take_waiting(), [ME]);
        assert_eq!(fill.read(0, &mut out, ME).unwrap(), Piece::Some);
        assert_eq!(fill.read(3, &mut out, ME).unwrap(), Piece::Nothing);
        fill.append(b"de");
        assert_eq!(fill.read(3, &mut out, ME).unwrap(), Piece::Some);
        assert_eq!(out, b"abcde");
        fill.end();
        assert_eq!(fill.read(5, &mut out, ME).unwrap(), Piece::End);
        assert_eq!(fill.take_waiting(), [ME], "it has waited once since");
    }

    #[test]
    fn content_in_a_file_is_read_from_there() {
        let file = tempfile::tempfile().unwrap();
        file.write_all_at(b"....abcdef", 0).unwrap();
        let fill = Fill::new(b"a");
        fill.begin(head(), Facts::default());
        fill.in_file(Arc::new(file), 4, 5);
        let mut out = Vec::new();
        assert_eq!(fill.read(1, &mut out, ME).unwrap(), Piece::Some);
        assert_eq!(out, b"bcde", "and nothing that is not there yet");
        fill.settle(Phase::Failed);
        assert_eq!(fill.read(5, &mut out, ME).unwrap(), Piece::Failed);
    }

    #[test]
    fn failures_put_the_next_attempt_off_for_longer_each_time() {
        let (fills, start) = (Fills::default(), Instant::now());
        let mut periods = Vec::new();
        for _ in 0..8 {
            fills.note_outcome(b"a", true, start);
            let until = (0..200).find(|s| !fills.is_backing_off(b"a", start + Duration::from_secs(*s)));
            periods.push(until.unwrap());
        }
        assert_eq!(periods, [1, 2, 4, 8, 16, 32, 60, 60]);
        fills.note_outcome(b"a", false, start);
        assert!(!fills.is_backing_off(b"a", start));
        for at in 0..2 * BACK_OFF_KEYS_MAX as u32 {
            fills.note_outcome(&at.to_be_bytes(), true, start);
        }
        assert!(lock(&fills.failed).len() <= BACK_OFF_KEYS_MAX);
    }
}
