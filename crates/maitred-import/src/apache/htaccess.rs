//! `.htaccess` files, and what else is below a directory of this machine.

use std::path::Path;
use std::rc::Rc;

use super::context::Cx;
use super::expand::Loader;
use super::mounts::Htaccess;
use super::tree::{Directive, parse};
use crate::files;
use crate::report::{Kind, Place, Report};

/// Directories within one another, and names in all of them, that are looked at.
const DEPTH_MAX: usize = 12;
const NAMES_MAX: usize = 20_000;
/// Files with rules, at most.
const FILES_MAX: usize = 400;

/// What is below a directory, as paths that begin with a slash, and whether they are directories (with a slash at their end);
/// `None`, if it is not there, or too much.
pub(crate) fn listing(cx: &Cx<'_>, directory: &str) -> Option<Vec<(String, bool)>> {
    if !cx.loader.looks {
        return None;
    }
    if let Some(known) = cx.listings.borrow().get(directory) {
        return known.clone();
    }
    let found = walked(cx, directory);
    cx.listings.borrow_mut().insert(directory.to_owned(), found.clone());
    found
}

fn walked(cx: &Cx<'_>, directory: &str) -> Option<Vec<(String, bool)>> {
    let root = cx.loader.below(directory);
    let mut found = vec![("/".to_owned(), true)];
    let mut at = 0;
    if !root.is_dir() {
        return None;
    }
    while let Some((path, directory)) = found.get(at).cloned() {
        at += 1;
        if !directory || path.matches('/').count() > DEPTH_MAX {
            continue;
        }
        let Ok(names) = std::fs::read_dir(root.join(path.trim_start_matches('/'))) else { continue };
        for entry in names.flatten() {
            let Ok(name) = entry.file_name().into_string() else { continue };
            let kind = entry.file_type().ok()?;
            let below = kind.is_dir();
            found.push((format!("{path}{name}{}", if below { "/" } else { "" }), below));
            if found.len() > NAMES_MAX {
                return None;
            }
        }
    }
    Some(found)
}

/// The files with rules below a directory that are in force there.
pub(crate) fn of(
    loader: &mut Loader<'_>,
    all: &[&Directive],
    root: (&str, &Directive),
    report: &mut Report,
) -> Vec<Htaccess> {
    if !loader.looks {
        return Vec::new();
    }
    let name = all
        .iter()
        .rev()
        .find(|one| one.name == "accessfilename")
        .map_or(".htaccess", |one| one.arg(0))
        .to_owned();
    let base = loader.below(root.0);
    let mut found = Vec::new();
    let mut open = vec![(base, root.0.trim_end_matches('/').to_owned(), 0)];
    let mut seen = 0;
    while let Some((path, directory, depth)) = open.pop() {
        let own = path.join(&name);
        if own.is_file()
            && !name.contains('/')
            && let Some(file) = read(loader, all, (&own, &directory), report)
        {
            found.push(file);
        }
        if found.len() >= FILES_MAX || depth >= DEPTH_MAX {
            report.say(
                &root.1.place,
                &root.1.shown,
                Kind::NotPossible,
                "there are more `.htaccess` files than are read",
            );
            break;
        }
        let Ok(names) = std::fs::read_dir(&path) else { continue };
        let mut below: Vec<String> = names
            .flatten()
            .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()))
            .filter_map(|entry| entry.file_name().into_string().ok())
            .collect();
        below.sort();
        seen += below.len();
        if seen > NAMES_MAX {
            report.say(
                &root.1.place,
                &root.1.shown,
                Kind::NotPossible,
                "there are more directories than are looked at",
            );
            break;
        }
        open.extend(
            below.into_iter().rev().map(|name| (path.join(&name), format!("{directory}/{name}"), depth + 1)),
        );
    }
    found
}

fn read(
    loader: &mut Loader<'_>,
    all: &[&Directive],
    (path, directory): (&Path, &str),
    report: &mut Report,
) -> Option<Htaccess> {
    let name: Rc<str> = loader.shown(path).into();
    let place = Place { file: Rc::clone(&name), line: 1 };
    if !allowed(loader, all, directory) {
        report.say(
            &place,
            ".htaccess",
            Kind::NotNeeded,
            "`AllowOverride` is `None` there, so that httpd does not read the file",
        );
        return None;
    }
    let text = files::read(path).map_err(|error| error.to_string());
    let parsed = text.and_then(|text| {
        report.read(&name, &text);
        parse(&name, &text).map_err(|(why, line)| format!("line {line}: {why}"))
    });
    match parsed {
        Ok(directives) => {
            let directives = loader.expand(directives, 1, report);
            Some(Htaccess { directory: directory.to_owned(), directives })
        }
        Err(why) => {
            report.say(
                &place,
                ".htaccess",
                Kind::NotPossible,
                format!("it cannot be read, and the directory answers 403: {why}"),
            );
            let denied = Directive {
                name: "require".into(),
                args: vec!["all".into(), "denied".into()],
                block: None,
                place,
                shown: ".htaccess".into(),
            };
            Some(Htaccess { directory: directory.to_owned(), directives: vec![denied] })
        }
    }
}

/// Whether `AllowOverride` lets files in a directory say something.
fn allowed(loader: &Loader<'_>, all: &[&Directive], directory: &str) -> bool {
    let mut best = (0, false);
    for section in all.iter().filter(|one| one.name == "directory" && one.arg(0) != "~") {
        let path = loader.absolute(section.arg(0));
        let path = path.trim_end_matches('/');
        let within = directory == path || directory.starts_with(&format!("{path}/"));
        let given = section
            .inside()
            .iter()
            .rfind(|one| one.name == "allowoverride" || one.name == "allowoverridelist");
        if let Some(given) = given.filter(|_| within && path.len() >= best.0) {
            best = (path.len(), !given.arg(0).eq_ignore_ascii_case("none"));
        }
    }
    best.1
}
