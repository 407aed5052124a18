//! What is found while a file is read, before it is shown: the values that the files here hand to one another.

use std::ops::Range;
use std::path::PathBuf;

/// A byte range of the files: of their texts, one behind the other.
pub(super) type Span = Range<usize>;

/// Where a configuration comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Origin {
    /// The file's name, as messages show it.
    pub name: String,
    /// The directory where its relative paths start; absolute.
    pub base: PathBuf,
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
    /// The text is not TOML.
    pub(super) is_syntax: bool,
    /// A placeholder stands for nothing.
    pub(super) is_placeholder: bool,
    pub(super) severity: Severity,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Severity {
    Error,
    Warning,
}

impl Finding {
    pub(super) fn error(span: &Span, message: impl Into<String>) -> Finding {
        Finding {
            message: message.into(),
            span: span.clone(),
            related: None,
            hint: None,
            absence: false,
            is_syntax: false,
            is_placeholder: false,
            severity: Severity::Error,
        }
    }

    /// What the TOML parser says.
    pub(super) fn syntax(span: Span, message: &str) -> Finding {
        Finding { is_syntax: true, ..Finding::error(&span, format!("not valid TOML: {message}")) }
    }
}
