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

/// What became of a directive. The later ones are the worse ones: a directive that holds in several places has one row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    /// Maitred does this without being told.
    Automatic,
    /// The directive is in the output.
    Translated,
    /// The directive is not in the output, and nothing that matters to clients is lost.
    Dropped,
    /// The directive is not in the output, and the site behaves otherwise.
    NotPossible,
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
}

/// Longest directive that is shown, in characters.
const SHOWN_MAX: usize = 64;

/// A text in one line, shortened.
pub(crate) fn shorten(text: &str) -> String {
    let clean = |c: char| if c.is_control() { ' ' } else { c };
    match text.char_indices().nth(SHOWN_MAX) {
        Some((end, _)) => format!("{}…", text[..end].chars().map(clean).collect::<String>()),
        None => text.chars().map(clean).collect(),
    }
}

impl Report {
    /// Says what became of a directive. The worst that was said of it counts.
    pub(crate) fn say(&mut self, place: &Place, directive: &str, kind: Kind, why: impl Into<String>) {
        let (directive, why) = (shorten(directive), why.into());
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

    /// Whether nothing was impossible.
    pub fn is_complete(&self) -> bool {
        self.rows.iter().all(|row| row.kind != Kind::NotPossible)
    }

    /// The table, as it is printed.
    pub fn table(&self) -> String {
        let rows = self.rows();
        let places: Vec<String> = rows.iter().map(|row| row.place.to_string()).collect();
        let width = |texts: &mut dyn Iterator<Item = usize>| texts.max().unwrap_or(0);
        let first = width(&mut places.iter().map(|place| place.chars().count()));
        let second = width(&mut rows.iter().map(|row| row.directive.chars().count()));
        let mut out = String::new();
        for (place, row) in places.iter().zip(&rows) {
            let outcome = row.outcome();
            let _ = writeln!(out, "{place:first$}  {:second$}  {outcome}", row.directive);
        }
        let count = |kind| rows.iter().filter(|row| row.kind == kind).count();
        let _ = writeln!(
            out,
            "{} directives: {} translated, {} automatic here, {} dropped, {} not possible",
            rows.len(),
            count(Kind::Translated),
            count(Kind::Automatic),
            count(Kind::Dropped),
            count(Kind::NotPossible),
        );
        out
    }
}

impl Row {
    fn outcome(&self) -> String {
        let (word, joint) = match self.kind {
            Kind::Automatic => ("automatic here", ": "),
            Kind::Translated => ("translated", ": "),
            Kind::Dropped => ("dropped", ", because "),
            Kind::NotPossible => ("not possible", ", because "),
        };
        match self.why.is_empty() {
            true => word.to_owned(),
            false => format!("{word}{joint}{}", self.why),
        }
    }
}
