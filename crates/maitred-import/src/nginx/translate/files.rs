//! `root`, `alias`, `index`, `try_files`, `autoindex`: files.

use super::context::{Context, absolute};
use super::selectors::{Modifier, Selector};
use super::types;
use crate::drafts::{Files, Target};
use crate::nginx::scope::Scope;
use crate::nginx::tree::Directive;
use crate::nginx::values;
use crate::report::Kind;

/// Where nginx finds files without a `root`.
const DEFAULT_ROOT: &str = "html";

/// The directory that holds in a scope. `None`: it is not fixed.
pub(crate) fn root(cx: &Context<'_>, scope: &Scope<'_>) -> Option<Files> {
    let Some(directive) = scope.last("root") else {
        let root = absolute(DEFAULT_ROOT);
        return Some(Files { missing: !cx.machine.has_directory(&root), root, ..Files::default() });
    };
    let Some(path) = values::fixed(directive.arg(0), scope) else {
        cx.not_possible(directive, "the directory is fixed here, without variables");
        return None;
    };
    Some(directory(cx, directive, &path))
}

fn directory(cx: &Context<'_>, directive: &Directive, path: &str) -> Files {
    let root = absolute(path.trim_end_matches('/'));
    let root = if root.is_empty() { "/".to_owned() } else { root };
    let missing = !cx.machine.has_directory(&root);
    match missing {
        true => cx.say(
            directive,
            Kind::Translated,
            format!("as a comment: there is no directory {root} on this machine"),
        ),
        false => cx.translated(directive),
    }
    Files { root, missing, place: Some(directive.place.clone()), ..Files::default() }
}

/// The files of a location, without `try_files`.
pub(crate) fn of(
    cx: &Context<'_>,
    scope: &Scope<'_>,
    selector: &mut Selector,
    modifier: Modifier,
) -> Option<Files> {
    let mut files = match scope.own().iter().rfind(|directive| directive.name == "alias") {
        Some(directive) => alias(cx, scope, directive, selector, modifier)?,
        None => root(cx, scope)?,
    };
    if let Some(directive) = scope.last("autoindex") {
        cx.translated(directive);
        files.listing = directive.arg(0) == "on";
    }
    for (name, coding) in [("brotli_static", "br"), ("zstd_static", "zstd"), ("gzip_static", "gzip")] {
        if let Some(directive) = scope.last(name).filter(|directive| directive.arg(0) != "off") {
            cx.translated(directive);
            files.precompressed.push(coding.to_owned());
        }
    }
    types::of(cx, scope, &mut files);
    Some(files)
}

fn alias(
    cx: &Context<'_>,
    scope: &Scope<'_>,
    directive: &Directive,
    selector: &mut Selector,
    modifier: Modifier,
) -> Option<Files> {
    let impossible = |why: &str| {
        cx.not_possible(directive, why);
        None
    };
    if modifier == Modifier::Exact || modifier == Modifier::Regex || modifier == Modifier::AnyCase {
        return alias_of_file(cx, scope, directive);
    }
    let Some(path) = values::fixed(directive.arg(0), scope) else {
        return impossible("the directory is fixed here, without variables");
    };
    let Some(prefix) = selector.prefix.clone() else { return impossible("the location has no prefix") };
    let mut files = directory(cx, directive, &path);
    if prefix.ends_with('/') && path.ends_with('/') {
        files.strip = (prefix != "/").then_some(prefix);
        return Some(files);
    }
    // `location /static { alias /srv/static; }`: the directory itself is asked for without the slash only to be redirected.
    if !prefix.ends_with('/') && !path.ends_with('/') {
        selector.paths = vec![format!("{prefix}/*")];
        files.strip = Some(format!("{prefix}/"));
        return Some(files);
    }
    if prefix.ends_with('/') {
        return impossible(
            "the last part of the path would be glued to the directory's name: a `/` is missing at its end",
        );
    }
    selector.paths = vec![format!("{prefix}/*")];
    files.strip = Some(format!("{prefix}/"));
    Some(files)
}

/// `location = /x { alias /a/file; }`, and captures: the directory is what has no variable in it.
fn alias_of_file(cx: &Context<'_>, scope: &Scope<'_>, directive: &Directive) -> Option<Files> {
    let target = match values::template(directive.arg(0), scope) {
        Ok(target) => target,
        Err(why) => {
            cx.not_possible(directive, why);
            return None;
        }
    };
    let plain = &target[..target.find('{').unwrap_or(target.len())];
    let Some((before, _)) = plain.rsplit_once('/').filter(|(before, _)| before.starts_with('/')) else {
        cx.not_possible(directive, "the directory is fixed here, without variables");
        return None;
    };
    let before = before.to_owned();
    let mut files = directory(cx, directive, &before);
    files.rewrite = Some(target[before.len()..].to_owned());
    Some(files)
}

/// What `try_files` ends with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Last {
    /// A status.
    Status(u16),
    /// `@name`
    Named(String),
    /// A path, with what follows `?`.
    Path(String),
}

/// What `try_files` looks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Tries {
    /// The items but the last one.
    pub(crate) items: Vec<String>,
    /// The last one.
    pub(crate) last: Last,
    /// What the first item is made of, if it is of something else than the path: `{path}` is that then.
    pub(crate) path: Option<String>,
}

/// What `try_files` says.
///
/// # Errors
/// Why it is not possible.
pub(crate) fn tries(directive: &Directive, scope: &Scope<'_>) -> Result<Tries, String> {
    let Some((last, given)) = directive.args.split_last() else { return Err("it is empty".into()) };
    let (mut items, mut path) = (Vec::new(), None);
    for item in given {
        let template = values::template(item, scope)?;
        let of_path = |template: &str| {
            !template.replacen("{path}", "", 1).contains(['{', '?']) && template.starts_with(['/', '{'])
        };
        match of_path(&template) {
            true => items.push(template),
            false if items.is_empty() && template.starts_with('/') && !template.contains(['?', '#']) => {
                items.push("{path}".to_owned());
                path = Some(template);
            }
            false => return Err(format!("`{item}` is no path with `$uri` in it")),
        }
    }
    if path.is_some() && items.iter().skip(1).any(|item| item.contains('{')) {
        return Err("a route has one path with variables in it".into());
    }
    let last = match (last.strip_prefix('='), last.strip_prefix('@')) {
        (Some(status), _) => Last::Status(status.parse().map_err(|_| "this is no status".to_owned())?),
        (_, Some(name)) => Last::Named(name.to_owned()),
        _ => Last::Path(last.clone()),
    };
    Ok(Tries { items, last, path })
}

/// `error_page 404 = @app` and `error_page 404 =200 /index.html`: what answers for files that are not there.
pub(super) fn missing_page<'a>(scope: &Scope<'a>) -> Option<(&'a Directive, Last)> {
    let directive =
        scope.all("error_page").into_iter().find(|page| page.args.iter().any(|arg| arg == "404"))?;
    let changed = directive.args.iter().any(|arg| arg == "=" || arg == "=200");
    let page = directive.args.last().filter(|_| changed)?;
    match page.strip_prefix('@') {
        Some(name) => Some((directive, Last::Named(name.to_owned()))),
        None => page.starts_with('/').then(|| (directive, Last::Path(page.clone()))),
    }
}

/// The default is left out: a file, or a directory with its index, or 404.
pub(crate) fn plain(mut items: Vec<String>) -> Vec<String> {
    let directory = items.iter().any(|item| item == "{path}/");
    if directory {
        items.retain(|item| item != "{path}/");
        if !items.iter().any(|item| item == "{path}") {
            items.push("{path}".to_owned());
        }
    }
    items
}

/// Files, or nothing at all.
pub(crate) fn or_nothing(files: Option<Files>) -> Target {
    files.map_or(Target::Respond { status: 502, body: None }, Target::Files)
}
