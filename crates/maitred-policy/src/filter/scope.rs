//! What filters are compiled from, and into.

use maitred_http::fields::FieldEdits;

use crate::rewrite::Filled;
use maitred_config as config;

/// What a filter is compiled for: the settings of one route.
#[derive(Debug, Clone, Copy)]
pub struct Scope<'c> {
    /// `server_header`
    pub server_header: bool,
    /// The settings of the site; `None` for responses to what is no request for any.
    pub site: Option<&'c config::Site>,
    /// The settings of the route; `None` for what no route has matched.
    pub route: Option<&'c config::Route>,
}

/// What a filter adds to while it is compiled.
#[derive(Debug, Default)]
pub struct Compiled {
    /// Changes of every response.
    pub always: FieldEdits,
    /// Fields whose values depend on the request; [`Compiled::always`] removes others of their names, where they replace those.
    pub filled: Vec<Filled>,
    /// Changes of responses over TLS, besides.
    pub over_tls: FieldEdits,
    /// What is said about caches; and what is filled in where that says nothing.
    pub expires: Option<(config::Expires, Option<Vec<u8>>)>,
    /// Which pages of other origins may use responses.
    pub cors: Option<config::Cors>,
    /// Which responses are compressed.
    pub compress: Option<config::Compress>,
    /// Which responses of its pool are kept, and given to others.
    pub cache: Option<super::cache::Caching>,
    /// Which of the site's own files is shown for a status.
    pub error_pages: Vec<(u16, String)>,
    /// Responses that name no server stay so.
    pub anonymous: bool,
    /// Responses have to pass here: no application may write to the client's socket itself.
    pub needs_response: bool,
}

impl Compiled {
    /// No field of this name goes on, not even one that the pool has set.
    pub(super) fn remove(&mut self, name: &str) {
        self.always.remove(name);
        self.filled.retain(|filled| !filled.name.eq_ignore_ascii_case(name));
    }
}
