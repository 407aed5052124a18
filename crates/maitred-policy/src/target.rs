//! The target of a request: made from its head, and the one place that knows its spellings.
//!
//! Clients spell one target in many ways (`/a/../b`, `/%62`, `http://host/b`). Routes, gates and files judge one form of it, and
//! all others get that form ([`Target::canonical`]): an application, a gate, a module, a trace. The form as sent is for
//! the access log, and for pools that ask for it (`target = "as_sent"`), which get it only while it means what was judged.

use std::borrow::Cow;

use maitred_config::Pool;
use maitred_http::request::{Reject, Request};
use maitred_http::uri::{self, Slashes};

/// What a request is for. Path and query are those of an origin form (RFC 9112 section 3.2.1), whatever form was sent.
#[derive(Debug, Clone, Copy)]
pub struct Target<'b> {
    path: &'b str,
    query: Option<&'b str>,
    /// The text that both are parts of, if they are all of it.
    whole: Option<&'b str>,
    slashes: Slashes,
}

impl<'b> Target<'b> {
    /// What a client has asked for, whatever its route has made of that. `slashes`: those of the site.
    pub fn asked(request: &Request<'_, 'b>, slashes: Slashes) -> Target<'b> {
        match request.origin_form() {
            Cow::Borrowed(text) => {
                let (path, query) = split(text);
                Target { path, query, whole: Some(text), slashes }
            }
            // Without a path, the rest of an absolute form is the query.
            Cow::Owned(_) => Target { path: "/", query: split(request.target).1, whole: None, slashes },
        }
    }

    /// The text that the client has sent, in any form: for the access log, which says what came, and for nothing that decides.
    pub fn sent(request: &Request<'_, 'b>) -> &'b str {
        request.target
    }

    /// What a request is for after its route has rewritten it, if it does.
    #[inline]
    pub fn routed(request: &Request<'_, 'b>, slashes: Slashes) -> Target<'b> {
        let rest = request.target.strip_prefix(request.path);
        let is_whole = rest.is_some_and(|rest| match request.query {
            Some(query) => rest.strip_prefix('?') == Some(query),
            None => rest.is_empty(),
        });
        let whole = is_whole.then_some(request.target);
        Target { path: request.path, query: request.query, whole, slashes }
    }

    /// The one form: equal for all spellings that mean the same, as [`uri::canonical_path`] and [`uri::canonical_query`] have it.
    #[inline]
    pub fn canonical(&self) -> Cow<'b, str> {
        if uri::is_normal(self.path.as_bytes()) && uri::is_canonical(self.path, self.query) {
            return self.text();
        }
        let mut out = self.canonical_path().into_owned().into_bytes();
        if let Some(query) = self.query {
            out.push(b'?');
            uri::canonical_query(query, &mut out);
        }
        text_of(out)
    }

    /// The path of the one form.
    pub fn canonical_path(&self) -> Cow<'b, str> {
        if uri::is_normal(self.path.as_bytes()) && uri::is_canonical(self.path, None) {
            return Cow::Borrowed(self.path);
        }
        let mut out = Vec::with_capacity(self.path.len() + 16);
        match uri::canonical_path(self.path, self.slashes, &mut out) {
            Ok(()) => text_of(out),
            // Cannot be of what was judged. What is no path is no other one.
            Err(_) => Cow::Borrowed("/"),
        }
    }

    /// The path as it was sent, for what makes its own key of it.
    pub fn encoded_path(&self) -> &'b str {
        self.path
    }

    /// The query, without `?`: its parts are the application's, so that nothing in it is decoded.
    pub fn query(&self) -> Option<&'b str> {
        self.query
    }

    /// Whether a pool can have this target.
    ///
    /// # Errors
    /// 400 for an encoded slash that the pool does not take (`encoded_slashes`), though the site does.
    pub fn check_for(&self, pool: &Pool) -> Result<(), Reject> {
        match pool.encoded_slashes {
            None => Ok(()),
            Some(own) => uri::judge(self.path, own.into(), true).map(|_| ()),
        }
    }

    /// The target that a pool gets. `judged`: the path that routes and gates went by. The form as sent goes only to a pool that
    /// wants it, and only if its path is that one: it may say less than what was judged, but nothing else.
    #[inline]
    pub fn for_pool(&self, pool: &Pool, judged: &[u8]) -> Cow<'b, str> {
        let untouched = self.path.as_bytes() == judged && uri::is_canonical(self.path, self.query);
        if untouched || pool.as_sent && uri::normalise(self.path).is_ok_and(|path| *path == *judged) {
            return self.text();
        }
        let slashes = pool.encoded_slashes.map_or(self.slashes, Slashes::from);
        Target { slashes, ..*self }.canonical()
    }

    /// The target as its route has left it, not judged: for a request that is made of this one, and judged with it.
    pub fn as_routed(&self) -> Cow<'b, str> {
        self.text()
    }

    /// The target as it was sent, for an application that wants that of a request which its route has rewritten. A path that
    /// leads elsewhere for an application that does not resolve dot segments than for the routes is given in its canonical
    /// form.
    pub fn as_asked(&self) -> Cow<'b, str> {
        let is_dots = |segment: &[u8]| matches!(segment, b"." | b"..");
        let mut segments = uri::decode_parameter(self.path);
        segments.iter_mut().filter(|byte| **byte == b'\\').for_each(|byte| *byte = b'/');
        match segments.split(|byte| *byte == b'/').any(is_dots) {
            true => self.canonical(),
            false => self.text(),
        }
    }

    fn text(&self) -> Cow<'b, str> {
        match (self.whole, self.query) {
            (Some(whole), _) => Cow::Borrowed(whole),
            (None, None) => Cow::Borrowed(self.path),
            (None, Some(query)) => Cow::Owned([self.path, "?", query].concat()),
        }
    }
}

fn split(text: &str) -> (&str, Option<&str>) {
    match text.split_once('?') {
        Some((path, query)) => (path, Some(query)),
        None => (text, None),
    }
}

fn text_of(ascii: Vec<u8>) -> Cow<'static, str> {
    match String::from_utf8(ascii) {
        Ok(text) => Cow::Owned(text),
        Err(error) => Cow::Owned(String::from_utf8_lossy(error.as_bytes()).into_owned()),
    }
}

#[cfg(test)]
mod tests;
