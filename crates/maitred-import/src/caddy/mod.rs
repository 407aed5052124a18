//! Caddyfiles.

mod access;
mod answers;
mod edits;
mod engine;
mod errors;
mod first;
mod lexer;
mod listeners;
mod matchers;
mod options;
mod paths;
mod proxy;
mod routes;
mod sites;
mod tree;
mod values;

use std::path::{Path, PathBuf};

use super::files;
use super::model::Document;
use super::report::Report;
use super::shared::Shared;
use tree::{Directive, Loader};

/// Reads Caddyfiles.
///
/// # Errors
/// A file cannot be read, or is none.
pub(crate) fn import(paths: &[PathBuf], root: Option<&Path>) -> Result<(Document, Report), String> {
    let mut report = Report::default();
    let mut loader = Loader::new(root);
    let mut all = Vec::new();
    for path in paths {
        let text = files::read(path).map_err(|error| format!("cannot read {}: {error}", path.display()))?;
        let name = path.display().to_string();
        report.read(&name.as_str().into(), &text);
        let parsed = tree::read(&name.as_str().into(), &text, &mut report);
        let directives = parsed.map_err(|(why, line)| format!("{name}:{line}: {why}"))?;
        let base = path.parent().unwrap_or(Path::new(""));
        all.extend(loader.expand(directives, Some(base), 0, &mut report));
    }
    first::refuse(&all)?;
    Ok(document(all, report))
}

/// The same of a text alone.
///
/// # Errors
/// What cannot be read, and where.
pub(crate) fn text(text: &str) -> Result<(Document, Report), String> {
    let mut report = Report::default();
    let directives = tree::parse(&"text".into(), text).map_err(|(why, line)| format!("{line}: {why}"))?;
    let directives = Loader::new(None).expand(directives, None, 0, &mut report);
    first::refuse(&directives)?;
    Ok(document(directives, report))
}

fn document(directives: Vec<Directive>, report: Report) -> (Document, Report) {
    let cx = Shared::new(report);
    let blocks = sites::blocks(&cx, directives);
    (Document { blocks, brief: true, ..Document::default() }, cx.report.into_inner())
}
