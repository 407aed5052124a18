//! Errors and warnings of a configuration file, each with its place, in the manner of rustc.

use std::collections::BTreeSet;
use std::fmt;
use std::io;
use std::ops::Range;
use std::path::PathBuf;

/// Why a configuration could not be had.
#[derive(Debug)]
pub enum Failure {
    /// The file could not be read.
    Unreadable {
        /// Which.
        path: PathBuf,
        /// Why not.
        error: std::io::Error,
    },
    /// The file was read, and is wrong.
    Invalid(Errors),
    /// What the command line asks for cannot be done.
    Refused(String),
}

/// All errors of one file, in the order of their places; never empty.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Errors(pub Vec<Problem>);

/// Something that is probably not what was meant, but can be done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Warning(pub Problem);

/// An error or a warning.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// What is wrong, in one line.
    pub message: String,
    /// Where.
    pub place: Place,
    /// Another place that has to do with it, and what it has to do with it.
    pub related: Option<(String, Place)>,
    /// What to do about it.
    pub hint: Option<String>,
}

/// A place in a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// The file's name, as it was given.
    pub file: String,
    /// Byte range in the file.
    pub span: Range<usize>,
    /// Line, from 1.
    pub line: usize,
    /// Column in characters, from 1.
    pub column: usize,
    /// The text of the line.
    pub text: String,
    /// How many characters to mark; at least 1.
    pub width: usize,
}

/// Longest part of a line that is shown, in characters.
const SHOWN_MAX: usize = 140;
/// What is shown before the marked part of a line that is too long.
const SHOWN_BEFORE: usize = 40;
/// Marked characters before the caret line ends.
const MARKED_MAX: usize = 100;

impl Place {
    /// Locates a byte range. A range that does not lie in the text, or on character boundaries, is brought inside.
    pub(super) fn locate(file: &str, text: &str, span: &Range<usize>) -> Place {
        let start = floor_boundary(text, span.start);
        let end = floor_boundary(text, span.end).max(start);
        let line_start = text[..start].rfind('\n').map_or(0, |newline| newline + 1);
        let line_end = text[start..].find('\n').map_or(text.len(), |newline| start + newline);
        let line_text = text[line_start..line_end].trim_end_matches('\r');
        Place {
            file: file.to_owned(),
            span: start..end,
            line: text[..line_start].matches('\n').count() + 1,
            column: text[line_start..start].chars().count() + 1,
            width: text[start..end.min(line_end)].trim_end().chars().count().max(1),
            text: line_text.to_owned(),
        }
    }

    fn write(&self, out: &mut fmt::Formatter<'_>, gutter: usize) -> fmt::Result {
        let (shown, before) = self.shown();
        let marked = self.width.min(MARKED_MAX);
        writeln!(out, "{:gutter$}--> {}:{}:{}", "", self.file, self.line, self.column)?;
        writeln!(out, "{:gutter$} |", "")?;
        writeln!(out, "{:>gutter$} | {shown}", self.line)?;
        writeln!(out, "{:gutter$} | {:before$}{}", "", "", "^".repeat(marked))
    }

    /// The part of the line that is shown, and how many characters of it stand before the mark.
    fn shown(&self) -> (String, usize) {
        let skipped = match self.text.chars().count() > SHOWN_MAX {
            true => (self.column - 1).saturating_sub(SHOWN_BEFORE),
            false => 0,
        };
        let mut shown = String::new();
        let mut before = 0;
        for (i, c) in self.text.chars().enumerate().skip(skipped).take(SHOWN_MAX) {
            if i + 1 == self.column {
                before = shown.chars().count();
            }
            match c {
                '\t' => shown.push_str("    "),
                c if c.is_control() => shown.push('\u{fffd}'),
                c => shown.push(c),
            }
        }
        if self.column > skipped + self.text.chars().skip(skipped).take(SHOWN_MAX).count() {
            before = shown.chars().count();
        }
        (shown.trim_end().to_owned(), before)
    }
}

fn floor_boundary(text: &str, index: usize) -> usize {
    text.floor_char_boundary(index.min(text.len()))
}

impl Problem {
    fn write(&self, out: &mut fmt::Formatter<'_>, severity: &str) -> fmt::Result {
        let last_line = self.related.as_ref().map_or(0, |(_, place)| place.line).max(self.place.line);
        let gutter = last_line.to_string().len();
        writeln!(out, "{severity}: {}", self.message)?;
        self.place.write(out, gutter)?;
        if let Some((what, place)) = &self.related {
            writeln!(out, "{:gutter$} = note: {what}", "")?;
            place.write(out, gutter)?;
        }
        if let Some(hint) = &self.hint {
            writeln!(out, "{:gutter$} = help: {hint}", "")?;
        }
        Ok(())
    }
}

impl fmt::Display for Errors {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        for problem in &self.0 {
            problem.write(out, "error")?;
            writeln!(out)?;
        }
        let count = self.0.len();
        let files: BTreeSet<_> = self.0.iter().map(|problem| problem.place.file.as_str()).collect();
        match files.first() {
            Some(file) if files.len() == 1 => {
                writeln!(out, "{file}: {count} error{}", if count == 1 { "" } else { "s" })
            }
            _ => writeln!(out, "{count} errors in {} files", files.len()),
        }
    }
}

impl fmt::Display for Warning {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.write(out, "warning")
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::Unreadable { path, error } => {
                writeln!(out, "error: cannot read the configuration file {}: {error}", path.display())?;
                match error.kind() {
                    io::ErrorKind::NotFound => {
                        writeln!(out, "  = help: name one with `-c FILE`; `maitred serve DIR` needs none")
                    }
                    _ => Ok(()),
                }
            }
            Failure::Invalid(errors) => errors.fmt(out),
            Failure::Refused(message) => writeln!(out, "error: {message}"),
        }
    }
}

impl std::error::Error for Errors {}

impl std::error::Error for Failure {}
