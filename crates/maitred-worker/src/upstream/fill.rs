//! A request that waits for a fill of the cache, and is answered with what comes of it.

pub(crate) mod filling;
pub(crate) mod keeping;
pub(crate) mod writing;

use std::sync::Arc;
use std::time::{Duration, Instant};

use maitred_http::response::{Encode, Filter, FramedHead};

use super::failure::Cause;
use crate::fills::Fill;

/// The part of an attempt that is only for a fill.
#[derive(Debug)]
pub struct Follow {
    /// What it waits for.
    pub(crate) fill: Arc<Fill>,
    /// Since when, and for how long it waits for the head.
    pub(crate) since: Instant,
    pub(crate) timeout: Duration,
    /// The head, once it has come.
    pub(crate) head: Option<Arc<FramedHead>>,
    /// Bytes of the content that it has got.
    pub(crate) taken: u64,
    /// It has all of it.
    pub(crate) ended: bool,
}

impl Follow {
    /// A request that begins to wait.
    pub(crate) fn new(fill: Arc<Fill>, since: Instant, timeout: Duration) -> Follow {
        Follow { fill, since, timeout, head: None, taken: 0, ended: false }
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
