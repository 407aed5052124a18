//! The files of a configuration, and how a byte range leads to one of them.

use std::ops::Range;
use std::path::PathBuf;

use super::report::{Place, Problem};
use super::span::{Finding, Origin, Span};

/// A file of the configuration.
#[derive(Debug)]
pub(super) struct Source {
    pub(super) origin: Origin,
    pub(super) text: String,
    /// Where its text begins in the row of all texts.
    pub(super) start: usize,
    /// For a file that is imported: where that is said.
    pub(super) imported: Option<Span>,
}

/// All files, the first one being that which the operator named.
///
/// A span is a byte range in the row of all texts, one behind the other, so that it says which file it is in, and findings of all
/// files have one order.
#[derive(Debug, Default)]
pub(super) struct Sources {
    files: Vec<Source>,
}

impl Source {
    /// The file's bytes in the row, and the place behind the last one.
    pub(super) fn range(&self) -> Range<usize> {
        self.start..self.start + self.text.len() + 1
    }

    /// The text of a range that lies in this file.
    pub(super) fn slice(&self, span: &Span) -> &str {
        let local = span.start.saturating_sub(self.start)..span.end.saturating_sub(self.start);
        self.text.get(local).unwrap_or_default()
    }
}

impl Sources {
    /// Takes a file in, and says where its text begins.
    pub(super) fn add(&mut self, origin: Origin, text: String, imported: Option<Span>) -> usize {
        let start = self.files.last().map_or(0, |last| last.range().end);
        self.files.push(Source { origin, text, start, imported });
        start
    }

    pub(super) fn files(&self) -> &[Source] {
        &self.files
    }

    /// The file that a place is in.
    pub(super) fn file(&self, offset: usize) -> Option<&Source> {
        self.files.iter().rfind(|file| file.start <= offset)
    }

    /// The directory where relative paths start that stand at a place.
    pub(super) fn base(&self, span: &Span) -> PathBuf {
        self.file(span.start).map(|file| file.origin.base.clone()).unwrap_or_default()
    }

    /// File, line and column of a range.
    pub(super) fn locate(&self, span: &Span) -> Place {
        match self.file(span.start) {
            None => Place::locate("", "", span),
            Some(file) => {
                let local = span.start - file.start..span.end.saturating_sub(file.start);
                Place::locate(&file.origin.name, &file.text, &local)
            }
        }
    }

    /// A finding with its places worked out.
    pub(super) fn problem(&self, finding: Finding) -> Problem {
        Problem {
            message: finding.message,
            place: self.locate(&finding.span),
            related: finding.related.map(|(what, span)| (what, self.locate(&span))),
            hint: finding.hint,
        }
    }
}
