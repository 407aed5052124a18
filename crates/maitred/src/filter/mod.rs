//! Filters: what is done to responses on their way to the client, route by route.
//!
//! A filter of fields is compiled once, with the configuration, into [`FieldEdits`], which the
//! encoders carry out while they write; one of errors into the pages that take their place. A new one is a file here, its line
//! in [`FILTERS`], and its key in the tables of the configuration.
//!
//! | file | filter | where |
//! |---|---|---|
//! | [`error_pages`] | `error_pages` of a site | errors of the server, of files and of pools that give no answer |
//! | [`headers`] | `response_headers` of a site and of a route | every response |
//! | [`hsts`] | `hsts` of a site | over TLS |
//! | [`server`] | `server_header` | where the application names no server |

pub mod error_pages;
pub mod headers;
pub mod hsts;
pub mod server;

use maitred_http::fields::FieldEdits;

use crate::config;

/// What a filter is compiled for: the settings of one route.
#[derive(Debug, Clone, Copy)]
pub struct Scope<'c> {
    /// `server_header`
    pub server_header: bool,
    /// Those of the site; `None` for responses to what is no request for any.
    pub site: Option<&'c config::Site>,
    /// Those of the route; `None` for what no route has matched.
    pub route: Option<&'c config::Route>,
}

/// What a filter adds to while it is compiled.
#[derive(Debug, Default)]
pub struct Compiled {
    /// Changes of every response.
    pub always: FieldEdits,
    /// Changes of responses over TLS, besides.
    pub over_tls: FieldEdits,
    /// Which of the site's own files is shown for a status.
    pub error_pages: Vec<(u16, String)>,
    /// Responses have to pass here: no application may write to the client's socket itself.
    pub needs_response: bool,
}

/// One filter.
pub type Filter = fn(&Scope<'_>, &mut Compiled);

/// All filters, in the order in which they are compiled: the last word about a field counts, and what is filled in where a
/// field is absent comes after what is said for certain.
pub const FILTERS: [Filter; 4] = [error_pages::compile, headers::compile, hsts::compile, server::compile];

/// The filters of a route.
pub fn compile(scope: &Scope<'_>) -> Compiled {
    let mut compiled = Compiled::default();
    FILTERS.iter().for_each(|filter| filter(scope, &mut compiled));
    compiled
}
