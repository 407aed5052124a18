//! What is found while a file is read: errors and warnings with their byte ranges, before they are shown.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::ops::Range;
use std::path::PathBuf;

use super::lookup::Lookup;
use super::report::{Place, Problem};

/// A byte range of the file.
pub(super) type Span = Range<usize>;

/// Where a configuration comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Origin {
    /// The file's name, as messages show it.
    pub name: String,
    /// The directory where its relative paths start; absolute.
    pub base: PathBuf,
}

/// A value, and where it stands (or where the table stands that it is missing from).
#[derive(Debug, Clone)]
pub(super) struct At<T> {
    pub(super) value: T,
    pub(super) span: Span,
}

/// Something that was found in the file.
#[derive(Debug)]
pub(super) struct Finding {
    pub(super) message: String,
    pub(super) span: Span,
    pub(super) related: Option<(String, Span)>,
    pub(super) hint: Option<String>,
    /// Something is missing: says little when the syntax is broken somewhere.
    pub(super) absence: bool,
    pub(super) severity: Severity,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Severity {
    Error,
    Warning,
}

/// What reading one file needs, and what it has found.
pub(super) struct Context<'c> {
    pub(super) origin: &'c Origin,
    pub(super) lookup: &'c dyn Lookup,
    pub(super) findings: RefCell<Vec<Finding>>,
    /// Files that were looked at.
    seen: RefCell<BTreeSet<PathBuf>>,
    /// (title, key) of all that was asked for: a test holds it against the declarations.
    #[cfg(test)]
    pub(super) asked: RefCell<BTreeSet<(&'static str, &'static str)>>,
}

impl<'c> Context<'c> {
    pub(super) fn new(origin: &'c Origin, lookup: &'c dyn Lookup) -> Context<'c> {
        Context {
            origin,
            lookup,
            findings: RefCell::new(Vec::new()),
            seen: RefCell::default(),
            #[cfg(test)]
            asked: RefCell::default(),
        }
    }

    fn note(&self, finding: Finding) {
        self.findings.borrow_mut().push(finding);
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

impl Finding {
    fn error(span: &Span, message: impl Into<String>) -> Finding {
        Finding {
            message: message.into(),
            span: span.clone(),
            related: None,
            hint: None,
            absence: false,
            severity: Severity::Error,
        }
    }

    /// What the TOML parser says.
    pub(super) fn syntax(span: Span, message: &str) -> Finding {
        Finding::error(&span, format!("not valid TOML: {message}"))
    }

    /// With its places worked out.
    pub(super) fn locate(self, file: &str, text: &str) -> Problem {
        Problem {
            message: self.message,
            place: Place::locate(file, text, &self.span),
            related: self.related.map(|(what, span)| (what, Place::locate(file, text, &span))),
            hint: self.hint,
        }
    }
}
