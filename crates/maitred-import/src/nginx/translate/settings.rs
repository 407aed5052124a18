//! Directives with a time, a size or a switch as their value.

use super::context::Context;
use crate::nginx::scope::Scope;
use crate::nginx::tree::Directive;
use crate::nginx::values;

/// Reads values in a scope.
pub(crate) struct Settings<'s, 'a> {
    /// The translation.
    pub(crate) cx: &'s Context<'a>,
    /// Where.
    pub(crate) scope: &'s Scope<'a>,
}

impl<'a> Settings<'_, 'a> {
    /// A time in milliseconds.
    pub(crate) fn time(&self, name: &str) -> Option<(&'a Directive, u64)> {
        let directive = self.scope.last(name)?;
        let found = values::fixed(directive.arg(0), self.scope).and_then(|text| values::millis(&text));
        if found.is_none() {
            self.cx.not_possible(directive, "this is no time that is known beforehand");
        }
        Some((directive, found?))
    }

    /// A size in bytes.
    pub(crate) fn size(&self, name: &str) -> Option<(&'a Directive, u64)> {
        let directive = self.scope.last(name)?;
        let found = values::fixed(directive.arg(0), self.scope).and_then(|text| values::size(&text));
        if found.is_none() {
            self.cx.not_possible(directive, "this is no size that is known beforehand");
        }
        Some((directive, found?))
    }

    /// The directive, if it is `on`.
    pub(crate) fn on(&self, name: &str) -> Option<&'a Directive> {
        self.scope.last(name).filter(|directive| directive.arg(0) == "on")
    }
}
