//! What the translation of a site's directives goes through, and what it has seen.

use std::cell::Cell;
use std::rc::Rc;

use super::matchers::{Asked, Named};
use super::options::Options;
use super::tree::Directive;
use super::values::Space;
use crate::report::Place;
use crate::shared::Shared;

/// What directives without an answer say for those behind them.
#[derive(Debug, Clone, Default)]
pub(crate) struct State {
    /// The directory of files, or why it has no counterpart.
    pub(crate) root: Option<Result<(String, Place), String>>,
    /// The path that is seen.
    pub(crate) space: Space,
    /// The prefix that is taken away, and what takes its place.
    pub(crate) strip: Option<(String, String)>,
    /// `rewrite`
    pub(crate) rewrite: Option<String>,
    /// What `try_files` looks for.
    pub(crate) tries: Option<Vec<String>>,
    /// Whether `try_files` ends with a script.
    pub(crate) front: bool,
    /// Whether all clients of the site come by TLS.
    pub(crate) secure: bool,
    /// The sets of directives of which one has been used.
    pub(super) done: Vec<(usize, &'static str)>,
    /// Blocks and named routes around this.
    pub(super) depth: usize,
}

/// A directive with its matcher.
#[derive(Clone)]
pub(crate) struct Item<'d> {
    pub(crate) directive: &'d Directive,
    pub(super) asked: Asked,
    pub(crate) words: &'d [String],
    /// The matchers that have names there.
    pub(super) named: Rc<Named>,
    /// The block that it stands in.
    pub(super) scope: usize,
}

/// Makes routes of directives.
pub(crate) struct Engine<'e> {
    pub(crate) cx: &'e Shared,
    pub(crate) options: &'e Options,
    pub(super) scopes: Cell<usize>,
}
