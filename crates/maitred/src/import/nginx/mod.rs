//! Configurations of nginx.

mod include;
mod lexer;
mod scope;
mod translate;
mod tree;
mod values;

use std::path::{Path, PathBuf};

use super::model::Document;
use super::report::Report;

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
