//! What became of each directive: the table on standard error.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::rc::Rc;

/// A line of an imported file.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Place {
    /// The file's name, as it is shown.
    pub file: Rc<str>,
    /// From 1.
    pub line: usize,
}

impl std::fmt::Display for Place {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "{}:{}", self.file, self.line)
    }
}

/// What became of a directive, by its effect on clients and applications. The later ones are the worse ones: a directive that
/// holds in several places has one row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Kind {
    /// The directive has no effect here; the reason proves it.
    NotNeeded,
    /// The directive is in the output, and clients and applications see the same.
    Translated,
    /// They see something else, which is better for them.
    Better,
    /// They see something else, which is as good; or an operator has to choose.
    Choice,
    /// They see something else, and something is lost.
    Worse,
    /// The output does not do this; what it would have guarded is closed.
    NotPossible,
}

impl Kind {
    /// All of them, as the table has them: what a person has to look at comes first.
    pub(crate) const BY_WEIGHT: [Kind; 6] =
        [Kind::NotPossible, Kind::Worse, Kind::Choice, Kind::Better, Kind::Translated, Kind::NotNeeded];

    /// The words of the table.
    pub(crate) fn words(self) -> &'static str {
        match self {
            Kind::NotNeeded => "not needed",
            Kind::Translated => "translated",
            Kind::Better => "differs (better)",
            Kind::Choice => "differs (a choice)",
            Kind::Worse => "differs (worse)",
            Kind::NotPossible => "not possible",
        }
    }
}

/// What an import is worth: what its exit code says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// Clients and applications lose nothing.
    Same,
    /// Something is worse.
    Worse,
    /// Something is not in the output.
    Incomplete,
}

/// A row of the table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Row {
    /// Where the directive stands.
    pub place: Place,
    /// The directive, shortened.
    pub directive: String,
    /// What became of it.
    pub kind: Kind,
    /// Why, or what else there is to know.
    pub why: String,
}

/// The table.
#[derive(Debug, Default)]
pub struct Report {
    rows: Vec<Row>,
    index: HashMap<(Place, String), usize>,
    /// The names and the texts of the files that were read.
    sources: Vec<(Rc<str>, String)>,
}

/// Texts that are kept for the page, of all files together, in bytes.
const SOURCES_BYTES_MAX: usize = 16 << 20;

/// Longest directive that is shown, in characters.
const SHOWN_MAX: usize = 64;

/// A text in one line, shortened.
pub(crate) fn shorten(text: &str) -> String {
    let clean = |c: char| if c.is_control() { ' ' } else { c };
    let text = &super::variables::written(text);
    match text.char_indices().nth(SHOWN_MAX) {
        Some((end, _)) => format!("{}…", text[..end].chars().map(clean).collect::<String>()),
        None => text.chars().map(clean).collect(),
    }
}

impl Report {
    /// Says what became of a directive. The worst that was said of it counts.
    pub(crate) fn say(&mut self, place: &Place, directive: &str, kind: Kind, why: impl Into<String>) {
        let (directive, why) = (shorten(directive), super::variables::written(&why.into()));
        let key = (place.clone(), directive.clone());
        match self.index.get(&key).and_then(|at| self.rows.get_mut(*at)) {
            Some(row) if kind > row.kind => (row.kind, row.why) = (kind, why),
            Some(row) if kind == row.kind && row.why.is_empty() => row.why = why,
            Some(_) => {}
            None => {
                self.index.insert(key, self.rows.len());
                self.rows.push(Row { place: place.clone(), directive, kind, why });
            }
        }
    }

    /// Keeps the text of a file for [`super::Imported::page`].
    pub(crate) fn read(&mut self, name: &Rc<str>, text: &str) {
        let kept: usize = self.sources.iter().map(|(_, text)| text.len()).sum();
        let known = self.sources.iter().any(|(known, _)| known == name);
        if !known && kept + text.len() <= SOURCES_BYTES_MAX {
            self.sources.push((Rc::clone(name), text.to_owned()));
        }
    }

    /// The files that were read.
    pub(crate) fn sources(&self) -> &[(Rc<str>, String)] {
        &self.sources
    }

    /// Whether something was said of a directive.
    pub(crate) fn has(&self, place: &Place, directive: &str) -> bool {
        self.index.contains_key(&(place.clone(), shorten(directive)))
    }

    /// The rows, in the order of the files.
    pub(crate) fn rows(&self) -> Vec<&Row> {
        let mut files: Vec<&str> = Vec::new();
        for row in &self.rows {
            if !files.contains(&&*row.place.file) {
                files.push(&row.place.file);
            }
        }
        let mut rows: Vec<&Row> = self.rows.iter().collect();
        rows.sort_by_key(|row| (files.iter().position(|file| **file == *row.place.file), row.place.line));
        rows
    }

    /// What the worst row says.
    pub fn verdict(&self) -> Verdict {
        match self.rows.iter().map(|row| row.kind).max() {
            Some(Kind::NotPossible) => Verdict::Incomplete,
            Some(Kind::Worse) => Verdict::Worse,
            _ => Verdict::Same,
        }
    }

    /// A line for each directive, in the order of the files: where, what, and what became of it.
    pub fn lines(&self) -> Vec<String> {
        let line = |row: &&Row| format!("{}  {}  {}", row.place, row.directive, row.outcome());
        self.rows().iter().map(line).collect()
    }

    /// The table, as it is printed: what a person has to look at first, a row each; the rest folded, by what is said of it.
    pub fn table(&self) -> String {
        let rows = self.rows();
        let mut out = String::new();
        let of = |kind: Kind| rows.iter().copied().filter(move |row| row.kind == kind);
        let looked_at: Vec<&Row> = Kind::BY_WEIGHT[..3].iter().flat_map(|kind| of(*kind)).collect();
        let width = |text: fn(&Row) -> String| {
            looked_at.iter().map(|row| text(row).chars().count()).max().unwrap_or_default()
        };
        let (first, second) = (width(|row| row.place.to_string()), width(|row| row.directive.clone()));
        for row in &looked_at {
            let place = row.place.to_string();
            let _ = writeln!(out, "{place:first$}  {:second$}  {}", row.directive, row.outcome());
        }
        for kind in &Kind::BY_WEIGHT[3..] {
            folded(&mut out, *kind, of(*kind));
        }
        let counts =
            Kind::BY_WEIGHT.iter().rev().map(|kind| format!("{} {}", of(*kind).count(), kind.words()));
        let _ = writeln!(out, "{} directives: {}", rows.len(), counts.collect::<Vec<_>>().join(", "));
        out
    }
}

/// Rows of one kind, a line for each reason, with the names of the directives.
fn folded<'r>(out: &mut String, kind: Kind, rows: impl Iterator<Item = &'r Row>) {
    let mut reasons: Vec<(&str, Vec<(&str, usize)>)> = Vec::new();
    for row in rows {
        let name = row.directive.split([' ', '…']).next().unwrap_or_default();
        let at = reasons.iter().position(|(why, _)| *why == row.why).unwrap_or_else(|| {
            reasons.push((&row.why, Vec::new()));
            reasons.len() - 1
        });
        let Some((_, names)) = reasons.get_mut(at) else { continue };
        match names.iter_mut().find(|(known, _)| *known == name) {
            Some((_, count)) => *count += 1,
            None => names.push((name, 1)),
        }
    }
    for (why, names) in reasons {
        let shown = names.iter().map(|(name, count)| match count {
            1 => (*name).to_owned(),
            several => format!("{name} ({several})"),
        });
        let joint = if why.is_empty() { "" } else { ", because " };
        let _ = writeln!(out, "{}{joint}{why}: {}", kind.words(), shown.collect::<Vec<_>>().join(", "));
    }
}

impl Row {
    /// What became of it, and why.
    pub(crate) fn outcome(&self) -> String {
        let joint = if self.kind == Kind::Translated { ": " } else { ", because " };
        let words = self.kind.words();
        match self.why.is_empty() {
            true => words.to_owned(),
            false => format!("{words}{joint}{}", self.why),
        }
    }
}
