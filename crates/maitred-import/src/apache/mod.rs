//! Configurations of Apache httpd, and its `.htaccess` files.

mod access;
mod behind;
mod conditions;
mod context;
mod decoration;
mod expand;
mod fields;
mod flags;
mod globs;
mod handlers;
mod htaccess;
mod known;
mod logs;
mod modules;
mod mounts;
mod patterns;
mod php;
mod places;
mod proxy;
mod redirects;
mod rewriting;
mod sections;
mod selectors;
mod servers;
mod templates;
mod tls;
mod tree;

use std::cell::{Cell, RefCell};
use std::path::{Path, PathBuf};

use super::model::Document;
use super::report::{Place, Report};
use super::shared::Shared;
use context::Cx;
use expand::Loader;
use tree::Directive;

/// Reads configurations of httpd: `httpd.conf`, parts of it, or `.htaccess` files of document roots. `fpm` is where php-fpm
/// listens that runs scripts in the place of Apache, as `connect` has it.
///
/// # Errors
/// A file cannot be read, or is none of httpd.
pub(crate) fn import(
    paths: &[PathBuf],
    root: Option<&Path>,
    defined: &[String],
    fpm: Option<&str>,
) -> Result<(Document, Report), String> {
    let mut report = Report::default();
    let mut loader = Loader::new(root, defined, true);
    let mut all = Vec::new();
    for path in paths {
        let directives = loader.load(path, &mut report)?;
        match path.file_name().is_some_and(|name| name.to_string_lossy().ends_with(".htaccess")) {
            true => all.extend(alone(path, directives)),
            false => all.extend(directives),
        }
    }
    Ok(document(all, loader, fpm, report))
}

/// The same of a text alone.
///
/// # Errors
/// What cannot be read, and where.
pub(crate) fn text(text: &str) -> Result<(Document, Report), String> {
    let mut report = Report::default();
    let directives = tree::parse(&"text".into(), text).map_err(|(why, line)| format!("{line}: {why}"))?;
    let mut loader = Loader::new(None, &[], false);
    let directives = loader.expand(directives, 0, &mut report);
    Ok(document(directives, loader, None, report))
}

/// A `.htaccess` file without a server: its directory is that of a document root.
fn alone(path: &Path, directives: Vec<Directive>) -> [Directive; 2] {
    let path = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let directory = path.parent().unwrap_or(Path::new("/")).display().to_string();
    let place = Place { file: path.display().to_string().into(), line: 0 };
    let one = |name: &str, block: Option<Vec<Directive>>| Directive {
        name: name.to_owned(),
        args: vec![directory.clone()],
        block,
        place: place.clone(),
        shown: format!("{name} {directory}"),
    };
    [one("documentroot", None), one("directory", Some(directives))]
}

fn document(
    all: Vec<Directive>,
    mut loader: Loader<'_>,
    fpm: Option<&str>,
    mut report: Report,
) -> (Document, Report) {
    let php_inside = !modules::runs_php_outside(&all);
    let inside = loader.loaded.is_empty() && php_inside;
    let all = &if inside { loader.opened(all, &mut report) } else { all };
    let whole = !loader.loaded.is_empty()
        || has(all, &["serverroot", "pidfile", "mutex", "startservers", "maxrequestworkers"]);
    // Each directory that is served, once.
    let mut roots: Vec<(String, &Directive)> = Vec::new();
    served(all, &loader, &mut roots);
    let flat: Vec<&Directive> = all
        .iter()
        .chain(all.iter().filter(|one| one.name == "virtualhost").flat_map(|one| one.inside()))
        .collect();
    let mut files = Vec::new();
    for (path, directive) in &roots {
        let below = roots.iter().any(|(other, _)| {
            other != path && path.starts_with(&format!("{}/", other.trim_end_matches('/')))
        });
        if !below {
            let found = htaccess::of(&mut loader, &flat, (path, directive), &mut report);
            files.extend(found.into_iter().map(|mut file| {
                if inside {
                    file.directives = loader.opened(file.directives, &mut report);
                }
                file
            }));
        }
    }
    let cx = Cx {
        shared: Shared::new(report),
        loader,
        whole,
        php_outside: Cell::new(false),
        php_inside,
        fpm: fpm.unwrap_or(php::FPM).to_owned(),
        listings: RefCell::default(),
    };
    let blocks = servers::blocks(&cx, all, &files);
    known::account(&cx, all);
    files.iter().for_each(|file| known::account(&cx, &file.directives));
    (Document { blocks, ..Document::default() }, cx.shared.report.into_inner())
}

fn has(all: &[Directive], names: &[&str]) -> bool {
    all.iter().any(|one| one.is(names))
}

fn served<'d>(all: &'d [Directive], loader: &Loader<'_>, roots: &mut Vec<(String, &'d Directive)>) {
    for one in all {
        match one.name.as_str() {
            "documentroot" => roots.push((loader.absolute(one.arg(0)), one)),
            "alias" if one.args.len() > 1 => roots.push((loader.absolute(one.arg(1)), one)),
            "virtualhost" => served(one.inside(), loader, roots),
            _ => {}
        }
    }
    let mut known: Vec<String> = Vec::new();
    roots.retain(|(path, _)| {
        let path = path.trim_end_matches('/').to_owned();
        let new = path.len() > 1 && !known.contains(&path);
        known.push(path);
        new
    });
}
