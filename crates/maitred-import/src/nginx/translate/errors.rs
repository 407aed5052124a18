//! `error_page`: files below the site's `root`, which may be that of the location that answers for the page.

use super::answering;
use super::context::{Context, absolute};
use super::files;
use super::forward;
use super::rewriting;
use super::selectors::{self, Location, Modifier};
use super::spot::Server;
use crate::nginx::scope::Scope;
use crate::nginx::tree::Directive;
use crate::nginx::values;
use crate::report::{Kind, Place};

/// A page for errors.
struct Page<'a> {
    /// Its path below the directory.
    path: String,
    /// The directory, and where it is named.
    root: (String, Place),
    /// Directives that say so besides `error_page`.
    said: Vec<&'a Directive>,
}

/// `error_page` with files of the site's directory.
pub(crate) fn of<'a>(cx: &Context<'a>, scope: &Scope<'a>) -> Vec<(u16, String)> {
    let server = server(cx, scope);
    let chosen = root(cx, scope).map(|(root, _)| root);
    let mut pages = Vec::new();
    for directive in scope.all("error_page") {
        let Some((_, statuses)) = directive.args.split_last() else { continue };
        if forward::sign_in(scope, directive).is_some() {
            continue;
        }
        let statuses: Vec<u16> = statuses
            .iter()
            .filter_map(|status| status.parse().ok())
            .filter(|status| (400..=599).contains(status))
            .collect();
        if is_end_of_files(&server, directive) {
            continue;
        }
        match page(&server, scope, directive) {
            Ok(Some(page)) if Some(&page.root.0) == chosen.as_ref() => {
                let there = cx.machine.has_directory(&page.root.0);
                let why = format!("as a comment: there is no directory {} on this machine", page.root.0);
                let why = if there { "" } else { why.as_str() };
                cx.say(directive, Kind::Translated, why);
                page.said.iter().for_each(|said| cx.say(said, Kind::Translated, why));
                for status in statuses {
                    if !pages.iter().any(|(known, _)| *known == status) {
                        pages.push((status, page.path.clone()));
                    }
                }
            }
            Ok(Some(_)) => {
                cx.say(directive, Kind::Worse, "error pages are below one directory, and this one is below another: a short text takes its place");
            }
            Ok(None) => {
                cx.say(directive, Kind::Worse, "plain HTTP at a port with TLS gets 400 with a sentence");
            }
            Err((kind, why)) => cx.say(directive, kind, why),
        }
    }
    pages
}

/// The directory of the pages of a server: the one that most of them are below.
pub(crate) fn root<'a>(cx: &Context<'a>, scope: &Scope<'a>) -> Option<(String, Place)> {
    let scope = scope.of_server();
    let server = server(cx, &scope);
    let scopes = [&scope].into_iter().chain(server.locations.iter().map(|location| &location.scope));
    let mut counts: Vec<((String, Place), usize)> = Vec::new();
    for scope in scopes.filter(|scope| scope.own().iter().any(|one| one.name == "error_page")) {
        for directive in scope.all("error_page") {
            let Ok(Some(page)) = page(&server, scope, directive) else { continue };
            match counts.iter_mut().find(|((known, _), _)| *known == page.root.0) {
                Some((_, count)) => *count += 1,
                None => counts.push((page.root, 1)),
            }
        }
    }
    // Of several with as many pages the first one.
    let most = counts.iter().map(|(_, count)| *count).max();
    counts.into_iter().find(|(_, count)| Some(*count) == most).map(|(root, _)| root)
}

fn server<'a>(cx: &Context<'a>, scope: &Scope<'a>) -> Server<'a> {
    let scope = scope.of_server();
    let locations = selectors::locations(cx, &scope, None);
    Server { scope, locations, front: None }
}

/// Whether locations of files end in what the directive names: `error_page 404 = @app`.
fn is_end_of_files(server: &Server<'_>, directive: &Directive) -> bool {
    let only = directive.args.iter().filter(|arg| arg.parse::<u16>().is_ok()).all(|status| status == "404");
    let answers = |location: &Location<'_>| location.scope.own().iter().any(|one| one.name == "return");
    let files = |location: &&Location<'_>| location.modifier != Modifier::Named && !answers(location);
    let scopes = || server.locations.iter().filter(files).map(|location| &location.scope);
    let is = |scope: &Scope<'_>| {
        files::missing_page(scope).is_some_and(|(page, _)| std::ptr::eq(page, directive) && ends(scope))
    };
    // A location that only answers 404 would have it as well.
    let others = server.locations.iter().any(|location| {
        answers(location)
            && location.scope.all("error_page").iter().any(|page| std::ptr::eq(*page, directive))
    });
    let all = |location: &Location<'_>| location.modifier == Modifier::Prefix && location.pattern == "/";
    let own = !server.locations.iter().any(all);
    only && !others && (scopes().any(is) || own && is(&server.scope))
}

/// Whether a location of files ends in 404.
fn ends(scope: &Scope<'_>) -> bool {
    let own = scope.own();
    let passes = own.iter().any(|one| one.name.ends_with("_pass") || one.name == "internal");
    let tries = own.iter().rfind(|one| one.name == "try_files").and_then(|tries| tries.args.last());
    !passes && tries.is_none_or(|last| last == "=404")
}

/// The page that a directive names; `None`: there is no such error here.
///
/// # Errors
/// Why it is no page here.
fn page<'a>(
    server: &Server<'a>,
    scope: &Scope<'a>,
    directive: &'a Directive,
) -> Result<Option<Page<'a>>, (Kind, String)> {
    let impossible = |why: &str| (Kind::NotPossible, why.to_owned());
    let (target, statuses) = directive.args.split_last().ok_or_else(|| impossible("it is empty"))?;
    if !statuses.is_empty() && statuses.iter().all(|status| status == "497") {
        return Ok(None);
    }
    if target.split(['?', '$']).next().is_some_and(|page| page.ends_with(".php")) {
        let why = "what is not there goes to the front controller, and an error page is no script";
        return Err((Kind::Choice, why.to_owned()));
    }
    if statuses.iter().any(|status| status.starts_with('=')) {
        return Err(impossible("an error page is sent with the status of the error"));
    }
    let mut said = Vec::new();
    let mut path = target.clone();
    let mut named = None;
    if let Some(name) = target.strip_prefix('@') {
        let is = |one: &&Location<'_>| one.modifier == Modifier::Named && one.pattern == name;
        let location =
            server.locations.iter().find(is).ok_or_else(|| impossible("there is no such location"))?;
        let answer = rewritten(location).ok_or_else(|| {
            impossible("error pages are files below the site's `root`, and this location is more than one")
        })?;
        said.extend([location.directive, answer.0]);
        path = answer.1;
        named = answer.2.then_some(location);
    }
    if !path.starts_with('/')
        || path.contains(['$', '?'])
        || path.ends_with('/')
        || path.split('/').any(|part| part == "..")
    {
        return Err(impossible("error pages are files below the site's `root`"));
    }
    let found = match named {
        Some(location) => Some(location),
        None => answering::location(server, &path).map_err(|why| (Kind::NotPossible, why))?,
    };
    let there = found.map_or(scope, |found| &found.scope);
    if let Some(found) = found.filter(|found| named.is_none() && answers_itself(found)) {
        let why = format!("error pages are files, and `{}` answers for this one", found.directive.shown());
        return Err((Kind::Worse, format!("{why}: a short text takes its place")));
    }
    let root = there.last("root").ok_or_else(|| impossible("there is no `root` that the page is below"))?;
    let directory = values::fixed(root.arg(0), there)
        .ok_or_else(|| impossible("the directory is fixed here, without variables"))?;
    said.push(root);
    let directory = absolute(directory.trim_end_matches('/'));
    Ok(Some(Page { path, root: (directory, root.place.clone()), said }))
}

/// Whether a location answers with something else than a file below its `root`.
fn answers_itself(location: &Location<'_>) -> bool {
    let other = ["return", "rewrite", "alias", "if"];
    location.scope.own().iter().any(|one| other.contains(&one.name.as_str()) || one.name.ends_with("_pass"))
}

/// The directive and the path of a location that only names a page; whether it is looked for there.
fn rewritten<'a>(location: &Location<'a>) -> Option<(&'a Directive, String, bool)> {
    let own = location.scope.own();
    let means = ["rewrite", "try_files", "return", "if", "alias"];
    let mut found =
        own.iter().filter(|one| means.contains(&one.name.as_str()) || one.name.ends_with("_pass"));
    let one = found.next().filter(|_| found.next().is_none())?;
    match one.name.as_str() {
        "rewrite" if rewriting::takes_all(one.arg(0)) => {
            let stays = one.arg(2) == "break";
            (!one.arg(1).contains("://")).then(|| (one, one.arg(1).to_owned(), stays))
        }
        "try_files" => {
            (one.args.len() == 2 && one.arg(1).starts_with('=')).then(|| (one, one.arg(0).to_owned(), true))
        }
        _ => None,
    }
}
