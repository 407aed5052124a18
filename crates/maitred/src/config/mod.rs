//! The configuration: from text to meaning, once.
//!
//! [`load`] reads a file, [`read`] is its pure part. [`tables`] and [`limits`] declare every key, [`Config`] is what
//! comes out. An error names its place, and all errors of a file are reported at once.

pub mod acme;
mod build;
mod directory;
mod fastcgi;
mod finding;
mod foreign;
pub mod fuzzing;
mod headers;
pub mod keys;
pub mod limits;
mod logs;
mod lookup;
mod meaning;
mod reader;
pub mod reference;
mod reload;
mod report;
mod requests;
pub mod schema;
mod suggest;
pub mod tables;
#[cfg(test)]
mod tests;
mod values;
mod workers;

use std::io;
use std::os::unix::fs::FileTypeExt as _;
use std::path::{Path, PathBuf};

use toml::de::DeTable;

pub use acme::{Acme, ChallengeChoice, ExternalAccount, KeyType, certificate_path};
pub use directory::user_runtime_dir;
pub use finding::Origin;
pub use headers::{RequestHeaderRules, ResponseHeaders};
pub use lookup::{Lookup, System};
pub use meaning::*;
pub use report::{Errors, Failure, Place, Problem, Warning};
pub use values::listen_address;

use finding::{Context, Finding, Severity};
use reader::Section;

/// A configuration that was read from a file.
#[derive(Debug, Clone)]
pub struct Loaded {
    /// What it means.
    pub config: Config,
    /// What may not be what was meant.
    pub warnings: Vec<Warning>,
}

/// Reads a configuration file. Nothing is bound, created or started.
pub fn load(path: &Path) -> Result<Loaded, Failure> {
    let (text, origin) = open(path)?;
    let (config, warnings) = read(&text, &origin, &System).map_err(Failure::Invalid)?;
    Ok(Loaded { config, warnings })
}

/// The admin address of a configuration file and the file with its token, whatever else is wrong with the file: a running server
/// can be stopped with a file that has been spoilt since.
pub fn admin_address(path: &Path) -> Result<(Option<AdminAddress>, Option<PathBuf>), Failure> {
    let (text, origin) = open(path)?;
    let (table, _) = DeTable::parse_recoverable(&text);
    let cx = Context::new(&origin, &System);
    let root = Section::open(&cx, Some(table.get_ref()), &tables::ROOT, 0..0, "the file".into());
    let server = root.section("server");
    Ok((build::admin(&server), build::admin_token(&server)))
}

fn open(path: &Path) -> Result<(String, Origin), Failure> {
    let unreadable = |error| Failure::Unreadable { path: path.to_owned(), error };
    let text = contents(path).map_err(unreadable)?;
    let absolute = std::path::absolute(path).map_err(unreadable)?;
    let base = absolute.parent().unwrap_or(Path::new("/")).to_owned();
    Ok((text, Origin { name: path.display().to_string(), base }))
}

/// The text of a file. A pipe with a name is refused: opening one waits for a writer, which in a reload would stop the master.
/// Those that a shell makes (`/dev/stdin`, `/dev/fd/63`) have their writer already.
fn contents(path: &Path) -> io::Result<String> {
    let invalid = |why: String| io::Error::new(io::ErrorKind::InvalidData, why);
    if std::fs::metadata(path)?.file_type().is_fifo() && !path.starts_with("/dev") {
        return Err(invalid("this is a pipe, and no reload could read it again".to_owned()));
    }
    String::from_utf8(std::fs::read(path)?).map_err(|error| {
        let valid = error.as_bytes().get(..error.utf8_error().valid_up_to()).unwrap_or_default();
        let line = 1 + valid.iter().filter(|byte| **byte == b'\n').count();
        invalid(format!("line {line} is not UTF-8"))
    })
}

/// What a text means, or everything that is wrong with it. Asks nothing of the machine but through `lookup`.
pub fn read(text: &str, origin: &Origin, lookup: &dyn Lookup) -> Result<(Config, Vec<Warning>), Errors> {
    let (table, syntax) = DeTable::parse_recoverable(text);
    let cx = Context::new(origin, lookup);
    let root = Section::open(&cx, Some(table.get_ref()), &tables::ROOT, 0..0, "the file".into());
    let config = build::config(&root);
    let findings = with_syntax(text, syntax, cx.findings.take());
    let locate = |finding: Finding| finding.locate(&origin.name, text);
    let (errors, warnings): (Vec<_>, Vec<_>) =
        findings.into_iter().partition(|finding| finding.severity == Severity::Error);
    match errors.is_empty() {
        true => Ok((config, warnings.into_iter().map(|finding| Warning(locate(finding))).collect())),
        false => Err(Errors(errors.into_iter().map(locate).collect())),
    }
}

/// Joins syntax errors and findings, in the order of the file.
///
/// After a syntax error the parser guesses on, and what is found in its guesses would be noise: of several syntax
/// errors in a line only the first counts; nothing else is reported of such a line, nothing is reported as missing,
/// and nothing at all after an error in the structure.
fn with_syntax(text: &str, syntax: Vec<toml::de::Error>, findings: Vec<Finding>) -> Vec<Finding> {
    let line_of = |offset: usize| text.bytes().take(offset).filter(|byte| *byte == b'\n').count();
    let mut all: Vec<Finding> = Vec::new();
    let mut broken_lines = Vec::new();
    let mut structure_broken_at = usize::MAX;
    let mut syntax: Vec<_> = syntax.into_iter().map(|error| (error.span().unwrap_or(0..0), error)).collect();
    syntax.sort_by_key(|(span, _)| span.start);
    for (span, error) in syntax {
        let line = line_of(span.start);
        if broken_lines.contains(&line) || span.start > structure_broken_at {
            continue;
        }
        broken_lines.push(line);
        if ["unclosed", "array", "table"].iter().any(|word| error.message().contains(word)) {
            structure_broken_at = span.start;
        }
        all.push(Finding::syntax(span, error.message()));
    }
    all.extend(findings.into_iter().filter(|finding| {
        let start = finding.span.start;
        let noise = finding.absence
            || finding.span.end >= structure_broken_at
            || broken_lines.contains(&line_of(start));
        broken_lines.is_empty() || !noise
    }));
    all.sort_by_key(|finding| finding.span.start);
    all
}
