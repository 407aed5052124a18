//! Purges of more than one key: rules, which entries are tested against when they are found, until all files have been.
//!
//! A rule holds from the moment that it is made, in the process that makes it. The rule is written to a file, so that a process
//! that comes later knows it, too, and finishes what was begun; the table counts the changes, and a process that finds the
//! count changed reads the files before it believes anything again. When all files were tested the rule is dropped. What was
//! not on the disk in the meantime, in memory or being written, is still tested against those that were dropped last; of what
//! is older than those that are remembered, nothing in memory is served, and nothing that is being written is published.

use std::collections::VecDeque;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Release};
use std::sync::{Arc, PoisonError, RwLock};

use super::key::{KEY_BYTES_MAX, host};
use super::layout::{Reader, crc};

/// Rules at a time.
const RULES_MAX: usize = 64;
/// Rules that are remembered after they were dropped.
const DROPPED_MAX: usize = 64;
/// Bytes of a file with a rule at most.
pub(super) const FILE_BYTES_MAX: usize = KEY_BYTES_MAX + 64;
/// Files in the directory of rules that are looked at.
pub(super) const FILES_MAX: usize = 4 * RULES_MAX;
const MAGIC: &[u8; 8] = b"mtr-purg";
const VERSION: u32 = 1;

/// What is purged.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Purge {
    /// The entry of this key. Is it a note of varying, its variants are not found any more; the bounds of the store remove them.
    Exact(Box<[u8]>),
    /// What has keys that begin so.
    Prefix(Box<[u8]>),
    /// What has keys with this host: between `://` and the next `/`. Letters may be upper or lower case.
    Host(Box<[u8]>),
    /// What has this tag.
    Tag(Box<[u8]>),
    /// All.
    All,
}

/// Why there is no purge.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PurgeError {
    /// Too many purges are under way.
    Busy,
    /// The text of the rule is too long.
    TooLong,
}

/// A purge that is under way.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Rule {
    /// What was asked for before this number is meant.
    pub(super) number: u64,
    pub(super) purge: Purge,
    pub(super) soft: bool,
}

/// What rules say about an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Verdict {
    Keep,
    Soft,
    Gone,
}

/// What is tested.
#[derive(Debug, Clone, Copy)]
pub(super) struct Subject<'a> {
    pub(super) key: &'a [u8],
    pub(super) tags: &'a [Box<[u8]>],
    /// When it was asked for.
    pub(super) stamp: u64,
    /// When it was tested last, by what [`Rules::latest`] was then.
    pub(super) tested: u64,
}

/// The rules that one process knows.
#[derive(Debug)]
pub(super) struct Rules {
    state: RwLock<State>,
    /// How often something has changed about them, in this process. What was tested since needs no test.
    latest: AtomicU64,
    /// The count of changes that is known.
    version: AtomicU64,
}

#[derive(Debug, Default)]
struct State {
    live: Vec<Live>,
    dropped: VecDeque<(u64, Arc<Rule>)>,
    /// Before that, there may have been rules that are not remembered.
    forgotten: u64,
}

#[derive(Debug)]
struct Live {
    /// When it came to be known: what was tested before was not tested against it. Numbers do not say that: those of other
    /// processes come out of order.
    since: u64,
    rule: Arc<Rule>,
    /// Whether this process tests the files.
    own: bool,
}

impl Rule {
    /// Whether it is about an entry.
    pub(super) fn is_about(&self, subject: Subject<'_>) -> bool {
        subject.stamp < self.number
            && match &self.purge {
                Purge::Exact(key) => subject.key == &**key,
                Purge::Prefix(prefix) => subject.key.starts_with(prefix),
                Purge::Host(name) => host(subject.key).is_some_and(|host| host.eq_ignore_ascii_case(name)),
                Purge::Tag(tag) => subject.tags.contains(tag),
                Purge::All => true,
            }
    }

    fn verdict(&self) -> Verdict {
        if self.soft { Verdict::Soft } else { Verdict::Gone }
    }

    /// The name of its file.
    pub(super) fn name(&self) -> String {
        format!("{:016x}", self.number)
    }

    /// What is in the file.
    pub(super) fn encode(&self) -> Vec<u8> {
        let (kind, text): (u8, &[u8]) = match &self.purge {
            Purge::Exact(text) => (0, text),
            Purge::Prefix(text) => (1, text),
            Purge::Host(text) => (2, text),
            Purge::Tag(text) => (3, text),
            Purge::All => (4, b""),
        };
        let mut out = MAGIC.to_vec();
        out.extend_from_slice(&VERSION.to_le_bytes());
        out.extend_from_slice(&self.number.to_le_bytes());
        out.extend_from_slice(&[kind, u8::from(self.soft)]);
        out.extend_from_slice(text);
        let sum = crc(&out);
        out.extend_from_slice(&sum.to_le_bytes());
        out
    }

    /// `None` for anything else than such a file.
    pub(super) fn decode(bytes: &[u8]) -> Option<Rule> {
        let (before, sum) = bytes.split_at_checked(bytes.len().checked_sub(4)?)?;
        let mut reader = Reader(before);
        if reader.take(8)? != MAGIC || reader.u32()? != VERSION || sum != crc(before).to_le_bytes() {
            return None;
        }
        let number = reader.u64()?;
        let [kind, soft] = *reader.take(2)? else { return None };
        let text = reader.0.into();
        let purge = match kind {
            0 => Purge::Exact(text),
            1 => Purge::Prefix(text),
            2 => Purge::Host(text),
            3 => Purge::Tag(text),
            4 => Purge::All,
            _ => return None,
        };
        Some(Rule { number, purge, soft: soft != 0 })
    }
}

impl Rules {
    /// No rules, of a table that says this version.
    pub(super) fn new(version: u64) -> Rules {
        Rules { state: RwLock::default(), latest: AtomicU64::new(0), version: AtomicU64::new(version) }
    }

    /// See [`Subject::tested`].
    #[inline]
    pub(super) fn latest(&self) -> u64 {
        self.latest.load(Acquire)
    }

    /// Whether these are all the rules that there are.
    #[inline]
    pub(super) fn is_current(&self, version: u64) -> bool {
        self.version.load(Acquire) == version
    }

    /// Tests an entry.
    pub(super) fn test(&self, subject: Subject<'_>) -> Verdict {
        let state = self.state.read().unwrap_or_else(PoisonError::into_inner);
        if subject.tested < state.forgotten {
            return Verdict::Gone;
        }
        let is_new = |(since, rule): &(u64, &Arc<Rule>)| *since > subject.tested && rule.is_about(subject);
        state.all().filter(is_new).map(|(_, rule)| rule.verdict()).max().unwrap_or(Verdict::Keep)
    }

    /// Tests what was found on the disk: `tested` is from when it was opened. Rules from before that time hold, too, if they have
    /// not tested all files yet.
    pub(super) fn test_again(&self, subject: Subject<'_>) -> Verdict {
        let state = self.state.read().unwrap_or_else(PoisonError::into_inner);
        if subject.tested < state.forgotten {
            return Verdict::Gone;
        }
        state
            .all()
            .filter(|(_, rule)| rule.is_about(subject))
            .map(|(_, rule)| rule.verdict())
            .max()
            .unwrap_or(Verdict::Keep)
    }

    /// Makes a rule, which holds from now on. `number` makes its number.
    pub(super) fn add(
        &self,
        purge: Purge,
        soft: bool,
        number: impl Fn() -> u64,
    ) -> Result<Arc<Rule>, PurgeError> {
        let length = match &purge {
            Purge::Exact(text) | Purge::Prefix(text) | Purge::Host(text) | Purge::Tag(text) => text.len(),
            Purge::All => 0,
        };
        if length > KEY_BYTES_MAX {
            return Err(PurgeError::TooLong);
        }
        let mut state = self.state.write().unwrap_or_else(PoisonError::into_inner);
        if state.live.len() >= RULES_MAX {
            return Err(PurgeError::Busy);
        }
        let rule = Arc::new(Rule { number: number(), purge, soft });
        let since = self.latest() + 1;
        state.live.push(Live { since, rule: Arc::clone(&rule), own: true });
        self.latest.store(since, Release);
        Ok(rule)
    }

    /// Every file was tested against it.
    pub(super) fn drop_rule(&self, number: u64) {
        self.state
            .write()
            .unwrap_or_else(PoisonError::into_inner)
            .drop_rules(|live| live.rule.number == number);
    }

    /// Rules that no process is known to test the files against. The calling process does from now on.
    pub(super) fn take_over(&self) -> Vec<Arc<Rule>> {
        let mut state = self.state.write().unwrap_or_else(PoisonError::into_inner);
        let orphans = state.live.iter_mut().filter(|live| !live.own);
        orphans
            .map(|live| {
                live.own = true;
                Arc::clone(&live.rule)
            })
            .collect()
    }

    /// Notes that this process has changed the files: the count was that before.
    pub(super) fn note_own_change(&self, before: u64) {
        // If another process has changed them, too, they have to be read.
        let _ = self.version.compare_exchange(before, before + 1, AcqRel, Acquire);
    }

    /// Takes over what was found in the files; the table has said `version` before. Rules of other processes may have come and
    /// gone since the files were read last: what was tested until then is not believed any more.
    pub(super) fn merge(&self, found: Vec<Rule>, version: u64) {
        let mut state = self.state.write().unwrap_or_else(PoisonError::into_inner);
        let since = self.latest() + 1;
        state.drop_rules(|live| !live.own && !found.iter().any(|rule| rule.number == live.rule.number));
        state.forgotten = since;
        for rule in found {
            if !state.live.iter().any(|live| live.rule.number == rule.number) {
                state.live.push(Live { since, rule: Arc::new(rule), own: false });
            }
        }
        self.latest.store(since, Release);
        self.version.store(version, Release);
    }
}

impl State {
    /// All rules, and since when they are known.
    fn all(&self) -> impl Iterator<Item = (u64, &Arc<Rule>)> {
        let live = self.live.iter().map(|live| (live.since, &live.rule));
        live.chain(self.dropped.iter().map(|(since, rule)| (*since, rule)))
    }

    fn drop_rules(&mut self, which: impl Fn(&Live) -> bool) {
        for live in self.live.extract_if(.., |live| which(live)) {
            self.dropped.push_back((live.since, live.rule));
        }
        while self.dropped.len() > DROPPED_MAX {
            let since = self.dropped.pop_front().map_or(0, |(since, _)| since);
            self.forgotten = self.forgotten.max(since);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn subject(key: &[u8], stamp: u64) -> Subject<'_> {
        Subject { key, tags: &[], stamp, tested: stamp }
    }

    #[test]
    fn a_rule_is_about_what_was_asked_for_before_it() {
        let rule = |purge| Rule { number: 5, purge, soft: false };
        let tags = [b"a".as_slice().into()];
        let entry = Subject { tags: &tags, ..subject(b"https://Example.com/a/b", 4) };
        let is_about = |purge| rule(purge).is_about(entry);
        assert!(is_about(Purge::All) && is_about(Purge::Tag(b"a".as_slice().into())));
        assert!(!is_about(Purge::Tag(b"b".as_slice().into())));
        assert!(is_about(Purge::Host(b"example.com".as_slice().into())));
        assert!(!is_about(Purge::Host(b"example.co".as_slice().into())));
        assert!(is_about(Purge::Prefix(b"https://Example.com/a".as_slice().into())));
        assert!(!is_about(Purge::Prefix(b"https://Example.com/b".as_slice().into())));
        assert!(!is_about(Purge::Exact(b"https://Example.com/a".as_slice().into())));
        assert!(is_about(Purge::Exact(b"https://Example.com/a/b".as_slice().into())));
        assert!(!rule(Purge::All).is_about(Subject { stamp: 6, ..entry }));
    }

    #[test]
    fn rules_that_were_dropped_hold_for_what_was_not_on_the_disk() {
        let rules = Rules::new(0);
        let prefix = |text: &[u8]| Purge::Prefix(text.into());
        let first = rules.add(prefix(b"a"), false, || 10).unwrap();
        assert_eq!(rules.latest(), 1);
        let entry = |key, tested| Subject { tested, ..subject(key, 9) };
        assert_eq!(rules.test(entry(b"ab", 0)), Verdict::Gone);
        assert_eq!(rules.test(entry(b"b", 0)), Verdict::Keep);
        assert_eq!(rules.test(entry(b"ab", 1)), Verdict::Keep);
        assert_eq!(rules.test_again(entry(b"ab", 1)), Verdict::Gone);
        rules.drop_rule(first.number);
        assert_eq!(rules.test(entry(b"ab", 0)), Verdict::Gone);
        for number in 11..11 + DROPPED_MAX as u64 {
            let tested = rules.latest();
            rules.add(prefix(b"c"), true, || number).unwrap();
            assert_eq!(rules.test(entry(b"cd", tested)), Verdict::Soft);
            rules.drop_rule(number);
        }
        assert_eq!(rules.test(entry(b"x", 0)), Verdict::Gone, "before what is remembered");
        assert_eq!(rules.test(entry(b"x", 1)), Verdict::Keep);
        for number in 100..100 + RULES_MAX as u64 {
            rules.add(Purge::All, true, || number).unwrap();
        }
        assert_eq!(rules.add(Purge::All, true, || 200), Err(PurgeError::Busy));
        let long = vec![b'x'; KEY_BYTES_MAX + 1];
        assert_eq!(rules.add(prefix(&long), true, || 200), Err(PurgeError::TooLong));
    }

    #[test]
    fn rules_of_other_processes_are_merged() {
        let rules = Rules::new(3);
        assert!(rules.is_current(3) && !rules.is_current(4));
        let own = rules.add(Purge::All, true, || 20).unwrap();
        let tested = rules.latest();
        let entry = |tested| Subject { tested, ..subject(b"x", 9) };
        assert_eq!(rules.test(entry(tested)), Verdict::Keep);
        let other = Rule { number: 10, purge: Purge::Prefix(b"y".as_slice().into()), soft: true };
        rules.merge(vec![other.clone()], 4);
        assert!(rules.is_current(4));
        assert_eq!(rules.test(entry(tested)), Verdict::Gone, "it is not known what there was in between");
        assert_eq!(rules.test_again(entry(rules.latest())), Verdict::Soft);
        let latest = rules.latest();
        rules.merge(Vec::new(), 5);
        assert!(rules.take_over().is_empty());
        assert_eq!(rules.test(entry(latest)), Verdict::Gone);
        rules.merge(vec![other.clone(), (*own).clone()], 6);
        assert_eq!(rules.take_over(), [other.into()]);
        assert!(rules.take_over().is_empty());
    }

    proptest! {
        #[test]
        fn a_file_says_its_rule(
            number: u64, soft: bool, kind in 0..5_u8, text in proptest::collection::vec(any::<u8>(), 0..40),
            at in 0..60_usize, junk: u8,
        ) {
            let text: Box<[u8]> = text.into();
            let purge = match kind {
                0 => Purge::Exact(text),
                1 => Purge::Prefix(text),
                2 => Purge::Host(text),
                3 => Purge::Tag(text),
                _ => Purge::All,
            };
            let rule = Rule { number, purge, soft };
            let mut bytes = rule.encode();
            prop_assert!(bytes.len() <= FILE_BYTES_MAX);
            prop_assert_eq!(Rule::decode(&bytes), Some(rule));
            prop_assert_eq!(Rule::decode(&bytes[..bytes.len() - 1]), None);
            if let Some(byte) = bytes.get_mut(at) && *byte != junk {
                *byte = junk;
                prop_assert_eq!(Rule::decode(&bytes), None);
            }
        }
    }
}
