//! A request that waits for a fill of the cache, and is answered with what comes of it.

pub(crate) mod filling;
pub(crate) mod keeping;
pub(crate) mod selected;
pub(crate) mod writing;

use std::sync::Arc;
use std::time::{Duration, Instant};

use maitred_http::response::{Encode, Filter, FramedHead};

use super::failure::Cause;
use crate::fills::Fill;

/// The part of an attempt that is only for a fill.
#[derive(Debug)]
pub(crate) struct Follow {
    /// What it waits for.
    pub(crate) fill: Arc<Fill>,
    /// Since when, and for how long it waits for the head.
    pub(crate) since: Instant,
    pub(crate) timeout: Duration,
    /// The head, once it has come.
    pub(crate) head: Option<Arc<FramedHead>>,
    /// The fill was begun for it.
    pub(crate) leads: bool,
    /// Where the next byte of the content is that it gets, and where the last one ends.
    pub(crate) taken: u64,
    pub(crate) until: u64,
    /// The request has all of the content.
    pub(crate) ended: bool,
}

impl Follow {
    /// A request that begins to wait.
    pub(crate) fn new(fill: Arc<Fill>, leads: bool, since: Instant, timeout: Duration) -> Follow {
        Follow { fill, since, timeout, head: None, leads, taken: 0, until: u64::MAX, ended: false }
    }

    /// Gives content to the filter, behind the head.
    ///
    /// # Errors
    /// What the filter says.
    pub(crate) fn give(
        &self,
        content: &[u8],
        filter: &mut Filter,
        out: &mut impl Encode,
    ) -> Result<(), (Cause, String)> {
        let bad = |bad: maitred_http::response::Bad| (Cause::Bad, bad.to_string());
        if let Some(head) = self.head.as_deref().filter(|_| !filter.head_written()) {
            filter.begin_framed(head, out).map_err(bad)?;
        }
        if !content.is_empty() {
            filter.feed(content, out).map_err(bad)?;
        }
        match self.ended {
            true => filter.end(out).map_err(bad),
            false => Ok(()),
        }
    }
}
