//! Configurations of nginx.

mod include;
mod lexer;
mod scope;
pub(crate) mod stage;
mod translate;
mod tree;
mod values;

use std::path::{Path, PathBuf};

use super::model::Document;
use super::report::Report;

/// The directives of a text, each as its name, its arguments, its line, and those within it.
///
/// # Errors
/// What cannot be read, and where.
pub(crate) fn directives(text: &str) -> Result<serde_json::Value, String> {
    fn shown(directives: &[tree::Directive]) -> serde_json::Value {
        let one = |directive: &tree::Directive| {
            let inside = directive.block.as_deref().map(shown);
            serde_json::json!([directive.name, directive.args, directive.place.line, inside])
        };
        directives.iter().map(one).collect()
    }
    let found = tree::parse(&"text".into(), text);
    found.map(|found| shown(&found)).map_err(|wrong| format!("{}: {}", wrong.line, wrong.message))
}

/// The same of a text alone, which includes nothing.
///
/// # Errors
/// What cannot be read, and where.
pub(crate) fn text(text: &str) -> Result<(Document, Report), String> {
    let found = tree::parse(&"text".into(), text);
    let directives = found.map_err(|wrong| format!("{}: {}", wrong.line, wrong.message))?;
    Ok(translate::document(directives, Report::default()))
}

/// What stands in `http { … }` of these files, with all that they include.
///
/// # Errors
/// A file cannot be read, or is none of nginx.
pub(crate) fn http(files: &[PathBuf], root: Option<&Path>) -> Result<Vec<tree::Directive>, String> {
    let mut report = Report::default();
    let mut all = Vec::new();
    for file in files {
        all.extend(include::Loader::new(file, root).load(file, &mut report)?);
    }
    Ok(translate::in_context(all))
}

/// Reads configurations of nginx, whole ones or parts, and says what they mean here.
///
/// # Errors
/// A file cannot be read, or is none of nginx.
pub(crate) fn import(files: &[PathBuf], root: Option<&Path>) -> Result<(Document, Report), String> {
    let mut report = Report::default();
    let mut all = Vec::new();
    for file in files {
        all.extend(include::Loader::new(file, root).load(file, &mut report)?);
    }
    Ok(translate::document(all, report))
}
