//! Filters: what is done to responses on their way to the client, route by route.
//!
//! A filter of fields is compiled once, with the configuration, into [`FieldEdits`](maitred_http::fields::FieldEdits), which the
//! encoders carry out while they write; one of errors into the pages that take their place. A new one is a file here, its line
//! in [`FILTERS`], and its key in the tables of the configuration.
//!
//! | file | filter | where |
//! |---|---|---|
//! | [`cache`] | `cache` of a site and of a route | responses of pools |
//! | [`compress`] | `compress` of a site and of a route | responses of files and of pools |
//! | [`cors`] | `cors` of a site and of a route | every response |
//! | [`error_pages`] | `error_pages` of a site and of a route | errors of the server, of files and of pools that give no answer |
//! | [`expires`] | `expires` of a site and of a route | successful responses |
//! | [`headers`] | `response_headers` of a site and of a route | every response |
//! | [`hsts`] | `hsts` of a site | over TLS |
//! | [`security`] | `security_headers` of a site and of a route | every response |
//! | [`scope`] | – | what a filter is given, and what it adds to |
//! | [`server`] | `server_header` of the server, a site and a route | where the application names no server |

pub mod cache;
pub mod compress;
pub mod cors;
pub mod error_pages;
pub mod expires;
pub mod headers;
pub mod hsts;
mod scope;
pub mod security;
pub mod server;

pub use scope::{Compiled, Scope};

/// One filter.
pub type Filter = fn(&Scope<'_>, &mut Compiled);

/// All filters, in the order in which they are compiled: the last rule about a field counts, and what is filled in where a
/// field is absent comes after what is set in any case.
pub const FILTERS: [Filter; 9] = [
    error_pages::compile,
    headers::compile,
    security::compile,
    expires::compile,
    cors::compile,
    hsts::compile,
    compress::compile,
    cache::compile,
    server::compile,
];

/// The filters of a route.
pub fn compile(scope: &Scope<'_>) -> Compiled {
    let mut compiled = Compiled::default();
    FILTERS.iter().for_each(|filter| filter(scope, &mut compiled));
    compiled
}
