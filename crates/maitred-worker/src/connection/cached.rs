//! What is known of a request with regard to the cache, while it waits.

use std::sync::Arc;

use maitred_http::cache::Fwd;
use maitred_http::fields::FieldLines;

use crate::fills::How;
use maitred_cache::Entry;

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct CacheNote {
    /// The request goes to the pool by itself, and what comes of it is not kept.
    pub alone: bool,
    /// The kept response that answers the request.
    pub(crate) kept: Option<Kept>,
    /// Why it has gone to the pool, for `Cache-Status`.
    pub forwarded: Option<Fwd>,
    /// The request has waited for the response to another one.
    pub collapsed: bool,
    /// What its response depends on besides its key and the fields that it varies with.
    pub(crate) besides: Vec<u8>,
    /// How often it has waited for the disk.
    pub loads: u8,
}

/// What the cache of responses did about a request, for its line in the access log.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Cached {
    /// The cache was not asked.
    #[default]
    Unasked,
    /// The cache has answered, with what is fresh.
    Hit,
    /// The cache has answered, with what is stale.
    Stale,
    /// The cache has answered, after the pool has said that what is kept is still good.
    Validated,
    /// The pool has answered.
    Miss,
    /// The pool has answered another request for the same.
    Collapsed,
    /// The request is nothing for the cache, or its response is not kept.
    Bypass,
}

impl Cached {
    /// The word for it.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Cached::Unasked => "",
            Cached::Hit => "hit",
            Cached::Stale => "stale",
            Cached::Validated => "validated",
            Cached::Miss => "miss",
            Cached::Collapsed => "collapsed",
            Cached::Bypass => "bypass",
        }
    }
}

/// A response that answers a request.
#[derive(Debug, Clone)]
pub(crate) struct Kept {
    pub(crate) entry: Arc<Entry>,
    /// How it came to that.
    pub(crate) how: How,
    /// Fields that are for this client alone, which has asked for it.
    pub(crate) own: Option<Arc<FieldLines>>,
}
