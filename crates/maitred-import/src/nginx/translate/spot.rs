//! A server and a place in it, while they are translated.

use super::selectors::{Location, Modifier};
use crate::nginx::scope::Scope;
use crate::nginx::tree::Directive;

/// A server, while its locations are translated.
pub(crate) struct Server<'a> {
    /// What holds in it.
    pub(crate) scope: Scope<'a>,
    /// The locations of the server.
    pub(crate) locations: Vec<Location<'a>>,
    /// The script that takes what is no file, if there is one: `php = true`.
    pub(crate) front: Option<String>,
}

/// The place whose content is wanted.
pub(crate) struct Spot<'s, 'a> {
    /// The server.
    pub(crate) server: &'s Server<'a>,
    /// The directive of the block.
    pub(crate) directive: &'a Directive,
    /// How the location was chosen.
    pub(crate) modifier: Modifier,
    /// What holds in it.
    pub(crate) scope: Scope<'a>,
    /// Blocks in which a handler may stand, the innermost first.
    pub(crate) blocks: Vec<&'a [Directive]>,
}

impl<'a> Spot<'_, 'a> {
    pub(crate) fn own(&self, names: &[&str]) -> Option<&'a Directive> {
        let of = |block: &&'a [Directive]| {
            block.iter().rfind(|directive| names.contains(&directive.name.as_str()))
        };
        self.blocks.iter().find_map(of)
    }
}

/// Directives by which a location hands its requests on.
pub(crate) const HANDLERS: &[&str] =
    &["proxy_pass", "fastcgi_pass", "uwsgi_pass", "scgi_pass", "grpc_pass", "memcached_pass"];
