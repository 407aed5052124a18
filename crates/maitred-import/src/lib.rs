//! `maitred import`: configurations of other servers, as one of Maitred.
//!
//! Each importer reads its own language into [`model::Document`], with the place that each part comes from, and says in a
//! [`report::Report`] what became of each directive. [`guard`] makes sure that the text passes `maitred check`.

mod apache;
mod caddy;
mod drafts;
mod files;
pub mod fuzzing;
mod guard;
mod machine;
pub(crate) mod model;
mod nginx;
mod page;
pub(crate) mod report;
mod shared;
mod unit;
mod variables;
mod write;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

pub use nginx::stage::Stage;
use report::Report;
pub use report::Verdict;

/// What an import gives.
#[derive(Debug)]
pub struct Imported {
    /// The configuration, in TOML.
    pub text: String,
    /// What became of each directive.
    pub report: Report,
}

impl Imported {
    /// A page of HTML with the whole table, what a comparison has found, the imported files and the configuration.
    pub fn page(&self, compared: Option<&str>) -> String {
        page::of(&self.text, &self.report, compared)
    }
}

/// Imports configurations of nginx.
///
/// # Errors
/// A file cannot be read, or is none of nginx.
pub fn nginx(files: &[PathBuf], root: Option<&Path>) -> Result<Imported, String> {
    nginx::import(files, root).map(|(document, report)| finished(document, report, files))
}

/// The directives of a text of nginx before anything is translated: `[name, [argument, …], line, [directive, …]]` each, with
/// `null` where there is no block. For comparisons with other readers.
///
/// # Errors
/// What cannot be read, with its line.
pub fn nginx_directives(text: &str) -> Result<serde_json::Value, String> {
    nginx::directives(text)
}

/// The ports that a configuration of nginx listens on, and whether each has TLS.
///
/// # Errors
/// A file cannot be read, or is none of nginx.
pub fn nginx_ports(files: &[PathBuf], root: Option<&Path>) -> Result<BTreeMap<u16, bool>, String> {
    nginx::http(files, root).map(|http| nginx::stage::ports(&http))
}

/// A copy of a configuration of nginx that runs on loopback, and the files that it needs.
///
/// # Errors
/// A file cannot be read, or is none of nginx; what the copy needs cannot be written.
pub fn nginx_copy(files: &[PathBuf], root: Option<&Path>, stage: &Stage) -> Result<String, String> {
    let http = nginx::http(files, root)?;
    let directories = nginx::stage::directories(&http, stage);
    nginx::stage::populate(&directories, stage)
        .map_err(|error| format!("the copy cannot be written: {error}"))?;
    Ok(nginx::stage::copy(&http, stage))
}

/// The same of a file, with what it includes in its place. Absolute paths are looked up below `root`, if one is given.
///
/// # Errors
/// The file cannot be read, or is none of nginx.
pub fn nginx_directives_of(file: &Path, root: Option<&Path>) -> Result<serde_json::Value, String> {
    nginx::directives_of(file, root)
}

/// Directories that each directory of a copy has.
pub fn nginx_directories() -> Vec<&'static str> {
    nginx::stage::sample_directories()
}

/// Imports configurations of NGINX Unit.
///
/// # Errors
/// A file cannot be read, or is none of Unit.
pub fn unit(files: &[PathBuf]) -> Result<Imported, String> {
    unit::import(files).map(|(document, report)| finished(document, report, files))
}

/// Imports Caddyfiles.
///
/// # Errors
/// A file cannot be read, or is none of Caddy.
pub fn caddy(files: &[PathBuf], root: Option<&Path>) -> Result<Imported, String> {
    caddy::import(files, root).map(|(document, report)| finished(document, report, files))
}

/// Imports configurations of Apache httpd; `defined` are names for `<IfDefine>`, and `fpm` is where php-fpm listens that runs
/// scripts in the place of Apache, as `connect` of a pool has it.
///
/// # Errors
/// A file cannot be read, or is none of httpd.
pub fn apache(
    files: &[PathBuf],
    root: Option<&Path>,
    defined: &[String],
    fpm: Option<&str>,
) -> Result<Imported, String> {
    apache::import(files, root, defined, fpm).map(|(document, report)| finished(document, report, files))
}

fn finished(mut document: model::Document, mut report: Report, files: &[PathBuf]) -> Imported {
    let names: Vec<String> = files.iter().map(|file| file.display().to_string()).collect();
    let directory =
        files.first().and_then(|file| file.parent()).map(|directory| directory.display().to_string());
    document.directory = directory.unwrap_or_default();
    let shown = |name: &String| name.rsplit('/').next().unwrap_or(name).to_owned();
    let lines = if files.len() == 1 { ", by line" } else { "" };
    let shown: Vec<String> = names.iter().map(shown).collect();
    document.intro.push(format!("From {}{lines}.", shown.join(", ")));
    document.main = names.into_iter().next().filter(|_| files.len() == 1);
    let text = guard::checked(&mut document, &mut report);
    Imported { text, report }
}
