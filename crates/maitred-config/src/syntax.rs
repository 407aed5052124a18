//! Syntax errors, and which findings of a broken file are only guesses.

use std::ops::Range;

use super::foreign::form;
use super::source::Source;
use super::span::{Finding, Span};

/// After a syntax error the parser guesses on, and what is found in its guesses would be noise: of several syntax errors in a
/// line only the first counts; nothing else is reported of such a line, and nothing at all after an error in the structure. What
/// is missing anywhere may stand in what could not be read.
#[derive(Debug, Default)]
pub(super) struct Noise {
    broken: Vec<Broken>,
}

/// A file with syntax errors.
#[derive(Debug)]
struct Broken {
    /// The file's bytes in the row of all texts.
    range: Range<usize>,
    lines: Vec<Range<usize>>,
    structure_at: usize,
}

impl Noise {
    /// Takes the syntax errors of a file, and reports those that count.
    pub(super) fn take(&mut self, source: &Source, errors: Vec<toml::de::Error>) -> Vec<Finding> {
        let mut counting = Vec::new();
        let mut broken = Broken { range: source.range(), lines: Vec::new(), structure_at: usize::MAX };
        if let (false, Some((what, hint))) = (errors.is_empty(), form(&source.text)) {
            broken.structure_at = source.start;
            self.broken.push(broken);
            let first = line_of(source, 0);
            let finding = Finding::syntax(first.start..first.end - 1, &format!("this is {what}"));
            return vec![Finding { hint: Some(hint.to_owned()), ..finding }];
        }
        let mut errors: Vec<_> =
            errors.into_iter().map(|error| (error.span().unwrap_or(0..0), error)).collect();
        errors.sort_by_key(|(span, _)| span.start);
        for (span, error) in errors {
            let at = span.start + source.start;
            if broken.lines.iter().any(|line| line.contains(&at)) || at > broken.structure_at {
                continue;
            }
            broken.lines.push(line_of(source, span.start));
            if ["unclosed", "array", "table"].iter().any(|word| error.message().contains(word)) {
                broken.structure_at = at;
            }
            counting.push(Finding::syntax(at..span.end + source.start, error.message()));
        }
        if !broken.lines.is_empty() {
            self.broken.push(broken);
        }
        counting
    }

    /// Whether a finding says something after all.
    pub(super) fn lets_through(&self, finding: &Finding) -> bool {
        finding.is_syntax || !self.broken.iter().any(|broken| finding.absence || broken.hides(&finding.span))
    }
}

impl Broken {
    fn hides(&self, span: &Span) -> bool {
        self.range.contains(&span.start)
            && (span.end >= self.structure_at || self.lines.iter().any(|line| line.contains(&span.start)))
    }
}

/// The line of an offset, with its end, in the row of all texts.
fn line_of(source: &Source, offset: usize) -> Range<usize> {
    let offset = source.text.floor_char_boundary(offset.min(source.text.len()));
    let (before, behind) = source.text.split_at(offset);
    let start = before.rfind('\n').map_or(0, |newline| newline + 1);
    let end = behind.find('\n').map_or(source.text.len(), |newline| offset + newline);
    source.start + start..source.start + end + 1
}
