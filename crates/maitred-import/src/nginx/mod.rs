//! Configurations of nginx.

mod include;
mod lexer;
mod scope;
mod shipped;
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
    let found = tree::parse(&"text".into(), text);
    found.map(|found| shown(&found)).map_err(|wrong| format!("{}: {}", wrong.line, wrong.message))
}

fn shown(directives: &[tree::Directive]) -> serde_json::Value {
    let one = |directive: &tree::Directive| {
        let inside = directive.block.as_deref().map(shown);
        serde_json::json!([directive.name, directive.args, directive.place.line, inside])
    };
    directives.iter().map(one).collect()
}

/// The same of a file, with what it includes in its place.
///
/// # Errors
/// A file cannot be read, or is none of nginx.
pub(crate) fn directives_of(file: &Path, root: Option<&Path>) -> Result<serde_json::Value, String> {
    let mut loader = include::Loader::new(file, root);
    loader.load(file, &mut Report::default()).map(|found| shown(&found))
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
    let is_whole = all.iter().any(|directive| directive.name == "http");
    let mut http = translate::in_context(all);
    let has_types = http.iter().any(|directive| directive.name == "types");
    if let Some(first) = http.first().filter(|_| !is_whole && !has_types) {
        // A site stands in an `nginx.conf`, which has these in every distribution.
        let directive = |name: &str, arg: &str| tree::Directive {
            name: name.to_owned(),
            args: vec![arg.to_owned()],
            block: None,
            place: first.place.clone(),
        };
        let types = [
            directive("include", "/etc/nginx/mime.types"),
            directive("default_type", "application/octet-stream"),
        ];
        http.splice(0..0, types);
    }
    Ok(http)
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
