//! Codings of a file that has no compressed siblings: made by a helper thread, once, when clients have asked for one a few times.
//!
//! A coding is a further representation of the file's entry in the cache, within the cache's bounds, and lasts as long as the
//! entry does: a file that changes has another entry. Until it is there, clients get the plain file. Ranges are of the plain
//! file, because what another version of an encoder makes has other bytes.

use std::cell::{Cell, OnceCell};

use maitred_http::request::{Known, List};

use super::entry::Representation;
use maitred_config::Coding;
use maitred_policy::compress::{Rules, rules, whole};

/// Requests for a coding before it is made: what is asked for once or twice is not worth it.
const ASKED_MIN: u8 = 3;

/// The codings that an entry may get.
#[derive(Debug)]
pub(super) struct Made {
    /// In order of preference.
    codings: Box<[Coding]>,
    /// The codings that are there; `None` for one that saves nothing.
    made: Box<[OnceCell<Option<Representation>>]>,
    asked: Cell<u8>,
    /// The place of the coding that was asked for often enough, and about which nothing is done yet.
    due: Cell<Option<u8>>,
}

impl Made {
    pub(super) fn new(codings: &[Coding]) -> Made {
        let made = codings.iter().map(|_| OnceCell::new()).collect();
        Made { codings: codings.into(), made, asked: Cell::new(0), due: Cell::new(None) }
    }

    /// The codings of a page that was made for this request, and that has its coding from the beginning: it is gone too soon to
    /// wait until it is asked for again. As the level is one for what comes and goes, Brotli is none of them.
    pub(super) fn at_once(
        rules: &Rules,
        accepted: Option<List<'_>>,
        plain: &Representation,
        page: &[u8],
    ) -> Made {
        let made = Made::new(rules.streamed());
        let best = rules::best(&made.codings, accepted.map(|list| list.joined()).as_deref());
        if let Some((at, coding)) = made.codings.iter().enumerate().find(|(_, coding)| Some(**coding) == best)
        {
            let coded = whole::encode_at(*coding, rules.level(*coding), page);
            made.set(at, coded.map(|bytes| plain.coded(*coding, &bytes)));
        }
        made
    }

    /// The one for this request, by its place.
    #[inline]
    pub(super) fn choose(&self, known: &Known<'_>) -> Option<usize> {
        let accepted = known.accept_encoding.filter(|_| known.range.is_none())?;
        let best = rules::best(&self.codings, Some(&accepted.joined()))?;
        let at = self.codings.iter().position(|coding| *coding == best)?;
        match self.made.get(at)?.get() {
            Some(made) => made.as_ref().map(|_| at),
            None => {
                self.ask(at);
                None
            }
        }
    }

    #[cold]
    fn ask(&self, at: usize) {
        self.asked.set(self.asked.get().saturating_add(1));
        if self.asked.get() >= ASKED_MIN {
            self.asked.set(0);
            self.due.set(Some(at as u8));
        }
    }

    /// The one at a place, if it is there.
    #[inline]
    pub(super) fn get(&self, at: usize) -> Option<&Representation> {
        self.made.get(at)?.get()?.as_ref()
    }

    /// The codings that are there.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Representation> {
        self.made.iter().filter_map(|made| made.get()?.as_ref())
    }

    /// Whether one was asked for often enough, and nothing is done about it yet.
    #[inline]
    pub(super) fn is_due(&self) -> bool {
        self.due.get().is_some()
    }

    /// The place of that one; it is not due any more.
    pub(super) fn take_due(&self) -> Option<u8> {
        self.due.take()
    }

    /// The one at a place, if it was not made yet.
    pub(super) fn missing(&self, at: usize) -> Option<Coding> {
        let is_made = self.made.get(at)?.get().is_some();
        self.codings.get(at).copied().filter(|_| !is_made)
    }

    /// Keeps one; `None` if it saves nothing.
    pub(super) fn set(&self, at: usize, one: Option<Representation>) {
        if let Some(made) = self.made.get(at) {
            let _ = made.set(one);
        }
    }
}
