//! What a translation has in common: the report, the files, and the directives that hold in a place.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;

use super::expand::Loader;
use super::selectors::Selector;
use super::tree::Directive;
use crate::report::Kind;
use crate::shared::{Said, Shared};

/// Paths below a directory, and whether they are directories.
pub(crate) type Listing = Vec<(String, bool)>;

/// A translation.
pub(crate) struct Cx<'a> {
    /// The report, and the tables with names.
    pub(crate) shared: Shared,
    /// The files.
    pub(crate) loader: Loader<'a>,
    /// Whether the files are a whole configuration: what is not in them is not there.
    pub(crate) whole: bool,
    /// Whether PHP runs behind FastCGI somewhere, and so not in httpd.
    pub(crate) php_outside: Cell<bool>,
    /// Whether Apache itself runs PHP, for all that is known.
    pub(crate) php_inside: bool,
    /// Where php-fpm listens that runs scripts in the place of Apache, as `connect` has it.
    pub(crate) fpm: String,
    /// What is below directories.
    pub(crate) listings: RefCell<HashMap<String, Option<Listing>>>,
}

impl Cx<'_> {
    pub(crate) fn say(&self, what: &impl Said, kind: Kind, why: impl Into<String>) {
        self.shared.say(what, kind, why);
    }

    /// Says of all that is in a section that it has no effect.
    pub(crate) fn silence(&self, section: &Directive, why: &str) {
        for one in section.inside() {
            self.say(one, Kind::NotNeeded, why);
            self.silence(one, why);
        }
    }

    pub(crate) fn translated(&self, what: &impl Said) {
        self.shared.translated(what);
    }

    pub(crate) fn not_possible(&self, what: &impl Said, why: impl Into<String>) {
        self.shared.not_possible(what, why);
    }
}

/// What stands in a section, in a `.htaccess` file, or outside of both.
#[derive(Debug, Clone)]
pub(crate) struct Layer<'d> {
    /// The directory, as the machine has it.
    pub(crate) directory: Option<String>,
    /// The directives.
    pub(crate) own: Vec<&'d Directive>,
    /// The section.
    pub(crate) origin: Option<&'d Directive>,
}

/// The layers of a place, from the outermost.
#[derive(Debug, Clone, Default)]
pub(crate) struct Scope<'l, 'd> {
    /// The layers.
    pub(crate) layers: Vec<&'l Layer<'d>>,
}

impl<'d> Scope<'_, 'd> {
    /// All directives of these names.
    pub(crate) fn all(&self, names: &[&str]) -> Vec<&'d Directive> {
        let of =
            |layer: &&Layer<'d>| layer.own.iter().copied().filter(|one| one.is(names)).collect::<Vec<_>>();
        self.layers.iter().flat_map(of).collect()
    }

    /// The last one.
    pub(crate) fn last(&self, name: &str) -> Option<&'d Directive> {
        self.all(&[name]).pop()
    }

    /// What the innermost layer that has any of these names has of them.
    pub(crate) fn innermost(&self, names: &[&str]) -> Vec<&'d Directive> {
        let of =
            |layer: &&Layer<'d>| layer.own.iter().copied().filter(|one| one.is(names)).collect::<Vec<_>>();
        self.layers.iter().rev().map(of).find(|found| !found.is_empty()).unwrap_or_default()
    }

    /// Whether the last one says `On`.
    pub(crate) fn is_on(&self, name: &str) -> bool {
        self.last(name).is_some_and(Directive::is_on)
    }
}

/// A variable that requests set: `SetEnvIf`.
#[derive(Debug, Clone)]
pub(crate) struct Variable<'d> {
    /// The name.
    pub(crate) name: String,
    /// For which requests; `None`, if that cannot be said.
    pub(crate) selector: Option<Selector>,
    /// Where it is set.
    pub(crate) directive: &'d Directive,
}
