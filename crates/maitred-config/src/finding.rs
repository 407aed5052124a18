//! What reading a configuration needs, and what it finds: errors and warnings with their byte ranges, before they are shown.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use super::access::UsersFile;
use super::arrivals::Listeners;
use super::expanded::Expanded;
use super::jwt::JwtKeys;
use super::lookup::Lookup;
use super::meaning::Network;
use super::source::Sources;
pub use super::span::Origin;
pub(super) use super::span::{Finding, Severity, Span};
use super::syntax::Noise;

/// A value, and where it stands (or where the table stands that it is missing from).
#[derive(Debug, Clone)]
pub(super) struct At<T> {
    pub(super) value: T,
    pub(super) span: Span,
}

/// What reading a configuration needs, and what it has found.
pub(super) struct Context<'c> {
    pub(super) lookup: &'c dyn Lookup,
    pub(super) sources: RefCell<Sources>,
    pub(super) findings: RefCell<Vec<Finding>>,
    /// Values that had placeholders.
    pub(super) expanded: RefCell<Expanded>,
    /// `[networks]`, once it is read.
    pub(super) networks: RefCell<BTreeMap<String, Vec<Network>>>,
    /// The names of `[access_log.NAME]`, once they are read.
    pub(super) access_logs: RefCell<Vec<String>>,
    /// `[[listen]]`, once it is read.
    pub(super) listeners: RefCell<Listeners>,
    /// Names of `[limit.NAME]`, in their order, once they are read.
    pub(super) limits: RefCell<Vec<String>>,
    /// Sets of keys that `jwt` names, as far as they are read.
    pub(super) key_sets: RefCell<Vec<JwtKeys>>,
    /// Files that `basic_auth` names, as far as they are read.
    pub(super) users_files: RefCell<Vec<UsersFile>>,
    /// Whether `resolver` of `[server]` names name servers: those of the system know other names.
    pub(super) resolver_given: Cell<bool>,
    /// `entries_max` of caches that `forward_auth` has, as far as they are read.
    pub(super) auth_caches: RefCell<Vec<u32>>,
    /// Where the names of keys start that a site has from `[defaults]`.
    pub(super) inherited: RefCell<BTreeSet<usize>>,
    /// A file that is imported could not be read: what seems to be missing may be there.
    incomplete: Cell<bool>,
    /// Files that were looked at.
    seen: RefCell<BTreeSet<PathBuf>>,
    /// (title, key) of all that was asked for: a test holds it against the declarations.
    #[cfg(test)]
    pub(super) asked: RefCell<BTreeSet<(&'static str, &'static str)>>,
}

impl<'c> Context<'c> {
    pub(super) fn new(lookup: &'c dyn Lookup) -> Context<'c> {
        Context {
            lookup,
            sources: RefCell::default(),
            findings: RefCell::new(Vec::new()),
            expanded: RefCell::default(),
            networks: RefCell::default(),
            access_logs: RefCell::default(),
            listeners: RefCell::default(),
            limits: RefCell::default(),
            key_sets: RefCell::default(),
            users_files: RefCell::default(),
            resolver_given: Cell::default(),
            auth_caches: RefCell::default(),
            inherited: RefCell::default(),
            incomplete: Cell::new(false),
            seen: RefCell::default(),
            #[cfg(test)]
            asked: RefCell::default(),
        }
    }

    pub(super) fn note(&self, finding: Finding) {
        let finding = self.expanded.borrow().redact(finding);
        self.findings.borrow_mut().push(finding);
    }

    /// The directory where relative paths start that stand at a place: that of its file.
    pub(super) fn base(&self, span: &Span) -> PathBuf {
        self.sources.borrow().base(span)
    }

    /// Notes that a part of the configuration could not be read.
    pub(super) fn failed_import(&self) {
        self.incomplete.set(true);
    }

    /// What was found and counts: each once, in the order of the files.
    pub(super) fn findings(&self, noise: &Noise) -> Vec<Finding> {
        let expanded = self.expanded.borrow();
        let counts = |finding: &Finding| {
            noise.lets_through(finding)
                && !(finding.absence && self.incomplete.get())
                && (finding.is_placeholder || !expanded.has_failed(&finding.span))
        };
        let mut findings: Vec<_> = self.findings.take().into_iter().filter(counts).collect();
        findings.sort_by_key(|finding| finding.span.start);
        let mut said = BTreeSet::new();
        // What all sites inherit is looked at for each of them, and what is imported when it is found, and again in the whole.
        findings.retain(|finding| {
            let related = finding.related.as_ref().map(|(_, span)| (span.start, span.end));
            said.insert((finding.span.start, finding.span.end, finding.message.clone(), related))
        });
        findings
    }

    /// Whether a file was not asked for here before.
    pub(super) fn is_first(&self, path: PathBuf) -> bool {
        self.seen.borrow_mut().insert(path)
    }

    /// Notes an error.
    pub(super) fn error(&self, span: &Span, message: impl Into<String>) {
        self.note(Finding::error(span, message));
    }

    /// Notes an error with a hint.
    pub(super) fn error_with(&self, span: &Span, message: impl Into<String>, hint: impl Into<String>) {
        self.note(Finding { hint: Some(hint.into()), ..Finding::error(span, message) });
    }

    /// Notes an error of a placeholder: of its value nothing else is said.
    pub(super) fn placeholder(&self, span: &Span, message: String, hint: Option<String>) {
        self.note(Finding { hint, is_placeholder: true, ..Finding::error(span, message) });
    }

    /// Notes an error that concerns two places.
    pub(super) fn conflict(&self, span: &Span, message: impl Into<String>, what: &str, other: &Span) {
        self.note(Finding { related: Some((what.into(), other.clone())), ..Finding::error(span, message) });
    }

    /// Notes that something is missing.
    pub(super) fn missing(&self, span: &Span, message: impl Into<String>, hint: impl Into<String>) {
        self.note(Finding { hint: Some(hint.into()), absence: true, ..Finding::error(span, message) });
    }

    /// Notes a warning.
    pub(super) fn warn(&self, span: &Span, message: impl Into<String>, hint: impl Into<String>) {
        let severity = Severity::Warning;
        self.note(Finding { hint: Some(hint.into()), severity, ..Finding::error(span, message) });
    }

    /// The value, or an error with what the parser of that value says.
    pub(super) fn accept<T>(&self, span: &Span, what: &str, parsed: Result<T, String>) -> Option<T> {
        parsed.map_err(|why| self.error_with(span, what, why)).ok()
    }
}
