//! What the tests have left out, and why. Cargo's and other runners' summaries do not show it, so a test that
//! skips something writes a line to the file that `MAITRED_SKIPS` names: kind, name and reason, with tabs
//! between.

use std::io::Write as _;
use std::path::{Path, PathBuf};

use crate::Result;

/// The variable that names the file.
pub(crate) const VARIABLE: &str = "MAITRED_SKIPS";

/// Why something is left out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// A program or package is not installed. CI installs what tests need, so there this is a failure.
    Missing,
    /// The machine is not of the kind that the test is about: one processor, another architecture, an ordinary user.
    Surroundings,
    /// The test belongs to a tier that was not asked for.
    FullTier,
}

impl Kind {
    const ALL: [Kind; 3] = [Kind::Missing, Kind::Surroundings, Kind::FullTier];

    fn word(self) -> &'static str {
        match self {
            Kind::Missing => "missing",
            Kind::Surroundings => "surroundings",
            Kind::FullTier => "full tier",
        }
    }
}

/// One test or step that was left out.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Skip {
    pub(crate) kind: Kind,
    name: String,
    why: String,
}

impl std::fmt::Display for Skip {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {} ({})", self.name, self.why, self.kind.word())
    }
}

/// Where the lines go.
pub(crate) fn file() -> PathBuf {
    let target = std::path::absolute(crate::target()).unwrap_or_else(|_| crate::target());
    target.join("skipped.txt")
}

/// Forgets those of an earlier run.
///
/// # Errors
/// When the file cannot be written.
pub(crate) fn start() -> Result<()> {
    let file = file();
    std::fs::create_dir_all(file.parent().unwrap_or(Path::new(".")))?;
    Ok(std::fs::write(file, "")?)
}

/// Says, and notes, that a step is left out.
pub fn skip(kind: Kind, name: &str, why: &str) {
    println!("\n== {name}: SKIPPED: {why}");
    note(kind, name, why);
}

/// The same for what is said elsewhere.
pub(crate) fn note(kind: Kind, name: &str, why: &str) {
    let line = format!("{}\t{name}\t{}\n", kind.word(), why.replace('\n', " "));
    let file = std::fs::OpenOptions::new().append(true).create(true).open(file());
    if let Err(error) = file.and_then(|mut file| file.write_all(line.as_bytes())) {
        println!("the list of what was skipped cannot be written: {error}");
    }
}

/// Everything that was left out since [`start`], each once.
///
/// # Errors
/// When the file cannot be read, or has a line of another form.
pub(crate) fn read() -> Result<Vec<Skip>> {
    parse(&std::fs::read_to_string(file())?)
}

fn parse(text: &str) -> Result<Vec<Skip>> {
    let mut skips = text.lines().map(parse_line).collect::<Result<Vec<_>>>()?;
    skips.sort();
    skips.dedup();
    Ok(skips)
}

fn parse_line(line: &str) -> Result<Skip> {
    let mut parts = line.splitn(3, '\t');
    let kind = parts.next().and_then(|word| Kind::ALL.into_iter().find(|kind| kind.word() == word));
    match (kind, parts.next(), parts.next()) {
        (Some(kind), Some(name), Some(why)) => Ok(Skip { kind, name: name.to_owned(), why: why.to_owned() }),
        _ => Err(format!("not a line about a skipped test: {line:?}").into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_read_once_each_and_what_is_missing_comes_first() {
        let text = "surroundings\tb\tone processor\nmissing\ta\tno strace\nmissing\ta\tno strace\n";
        let read = parse(text).unwrap();
        let shown: Vec<String> = read.iter().map(Skip::to_string).collect();
        assert_eq!(shown, ["a: no strace (missing)", "b: one processor (surroundings)"]);
        assert!(parse("missing\ta\n").is_err() && parse("perhaps\ta\tb\n").is_err());
    }
}
