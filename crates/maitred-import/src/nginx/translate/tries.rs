//! `try_files`, `if (!-e $request_filename)` and `error_page 404 =200`: what answers for what is no file.

use super::answering::{self, Ending};
use super::context::Context;
use super::files::{self, Last};
use super::rewriting::{self, Missing, Rewriting};
use super::scripts::{self, Index};
use super::selectors::{Location, Modifier, Selector};
use super::spot::{HANDLERS, Spot};
use super::targets;
use super::variables;
use crate::drafts::{Files, Header, Target};
use crate::nginx::scope::Scope;
use crate::nginx::tree::Directive;
use crate::nginx::values;
use crate::report::Kind;

/// What is found out beside the target.
#[derive(Default)]
pub(super) struct End<'a> {
    /// Fields of requests to the pool.
    pub(super) request: Vec<Header>,
    /// Which location answers for what is no file.
    pub(super) ending: Option<Ending<'a>>,
    /// [`crate::drafts::Route::scripts`]
    pub(super) scripts: Option<bool>,
    /// `front_controller`
    pub(super) front: Option<String>,
    /// Whether directories have an index.
    looks_into: bool,
    /// What the paths of the location begin with.
    prefix: String,
}

/// The files of a location, and what comes after them.
pub(super) fn target<'a>(
    cx: &Context<'a>,
    spot: &Spot<'_, 'a>,
    (selector, tries, rewriting): (&mut Selector, Option<&'a Directive>, &Rewriting<'a>),
    end: &mut End<'a>,
) -> Target {
    let Some(mut found) = files::of(cx, &spot.scope, selector, spot.modifier) else {
        return files::or_nothing(None);
    };
    end.prefix = beginning(selector);
    let index = index(cx, spot, &mut found);
    let (mut items, mut directive, mut last) =
        match tries.map(|tries| (tries, looked_for(spot, tries, &found))) {
            None => (vec!["{path}".to_owned(), "{path}/".to_owned()], spot.directive, Last::Status(404)),
            Some((tries, Ok(given))) => {
                cx.translated(tries);
                if let Some(path) = given.path {
                    rewritten(spot, &path, selector);
                    found.rewrite = Some(path);
                }
                (given.items, tries, given.last)
            }
            Some((tries, Err(why))) => {
                cx.not_possible(tries, format!("{why}: what it is about answers 403 instead"));
                return Target::Respond { status: 403, body: None };
            }
        };
    if let Some(missing) = rewriting.missing {
        // The rewrite phase comes first: what is there is left to `try_files`.
        match instead(cx, spot, missing, (&mut found, &*selector), end) {
            Ok(Instead::Last(then, instead)) => (directive, last) = (then, instead),
            Ok(Instead::Target(mut target)) => {
                script_first(cx, spot, &index, &mut target);
                return *target;
            }
            Err(why) => {
                // What is there is left; what is not may not have another meaning.
                cx.not_possible(missing, format!("{why}: what is not there answers 403 instead"));
                (directive, last) = (missing, Last::Status(403));
                found.no_index = true;
            }
        }
        if !items.iter().any(|item| item == "{path}") {
            items.insert(0, "{path}".to_owned());
        }
    } else if last == Last::Status(404)
        && let Some((page, instead)) = files::missing_page(&spot.scope)
    {
        cx.translated(page);
        (directive, last) = (page, instead);
    }
    // Without `$uri/` a directory is not looked into.
    end.looks_into = items.iter().any(|item| item.ends_with('/'));
    found.no_index |= !end.looks_into;
    let items = files::plain(items);
    let mut target = close(cx, spot, (directive, last), (found, items), (&*selector, &index), end);
    script_first(cx, spot, &index, &mut target);
    target
}

/// What the paths of a location begin with.
fn beginning(selector: &Selector) -> String {
    let first = selector.paths.first().and_then(|path| path.split('*').next());
    let prefix = selector.prefix.as_deref().or(first).filter(|prefix| prefix.starts_with('/'));
    prefix.unwrap_or("/").to_owned()
}

/// The script of a directory comes before its page, where that is the order of `index`.
fn script_first(cx: &Context<'_>, spot: &Spot<'_, '_>, index: &Index, target: &mut Target) {
    let (Some(given), Some(script)) = (spot.scope.last("index"), &index.script) else { return };
    if !index.first || index.files.is_empty() {
        return;
    }
    match target {
        Target::Pool { .. } => cx.translated(given),
        Target::Files(files) if files.tries.last().is_some_and(|last| last.starts_with("pool:")) => {
            files.index = std::iter::once(script).chain(&index.files).cloned().collect();
            cx.translated(given);
        }
        // What an expression takes is files, as a rule.
        _ if !matches!(spot.modifier, Modifier::Prefix | Modifier::Forced) => {}
        _ => {
            cx.say(given, Kind::Choice, "of a directory that has both, the page answers and not the script");
        }
    }
}

/// What `try_files` says, for these files.
fn looked_for(spot: &Spot<'_, '_>, tries: &Directive, found: &Files) -> Result<files::Tries, String> {
    let given = files::tries(tries, &spot.scope)?;
    match given.path.is_some() && (found.strip.is_some() || found.rewrite.is_some()) {
        true => Err("an `alias` has no path with other variables".into()),
        false => Ok(given),
    }
}

/// A path with groups of an expression needs that expression in its route.
fn rewritten(spot: &Spot<'_, '_>, path: &str, selector: &mut Selector) {
    let any_case = spot.modifier == Modifier::AnyCase;
    let regex = || values::regex(spot.directive.args.last()?, any_case).ok();
    if path.contains("{capture.") && selector.regex.is_none() {
        selector.regex = regex();
        selector.paths.retain(|_| selector.regex.is_none() || selector.prefix.is_some());
    }
}

/// The names of the index: those of files are written, and a script is left to its pool.
fn index(cx: &Context<'_>, spot: &Spot<'_, '_>, files: &mut Files) -> Index {
    let Some(directive) = spot.scope.last("index") else { return Index::default() };
    let index = scripts::index(directive, scripts::runner(&spot.server.locations).is_some());
    match (index.elsewhere, index.script.is_some(), index.files.is_empty(), index.first) {
        (true, ..) => cx.say(directive, Kind::Worse, "an index is a name in the same directory"),
        // What it is becomes clear with the target.
        (_, true, false, true) => {}
        _ => cx.translated(directive),
    }
    if !index.files.is_empty() && index.files != ["index.html"] {
        files.index.clone_from(&index.files);
    }
    files.no_index = index.files.is_empty() && index.script.is_some();
    index
}

enum Instead<'a> {
    Last(&'a Directive, Last),
    Target(Box<Target>),
}

/// The end of an `if (!-e $request_filename)`: a path, or a pool.
fn instead<'a>(
    cx: &Context<'a>,
    spot: &Spot<'_, 'a>,
    missing: &'a Directive,
    (found, selector): (&mut Files, &Selector),
    end: &mut End<'a>,
) -> Result<Instead<'a>, String> {
    match rewriting::missing(missing) {
        Missing::Any => {}
        Missing::File => found.no_index = true,
        Missing::Directory => return Err("files that are there are left out by it as well".into()),
    }
    let Some(directive) = rewriting::fallback(cx, missing) else {
        return Err("nothing in it says what answers".into());
    };
    match directive.name.as_str() {
        "rewrite" => {
            let (pattern, to, flag) = (directive.arg(0), directive.arg(1), directive.arg(2));
            if !rewriting::takes_all(pattern)
                || ["redirect", "permanent"].contains(&flag)
                || to.contains("://")
            {
                return Err("it is about some of the paths that are not there".into());
            }
            cx.translated(directive);
            Ok(Instead::Last(directive, Last::Path(to.to_owned())))
        }
        "return" => match directive.arg(0).parse() {
            Ok(status) if directive.args.len() == 1 => {
                cx.translated(directive);
                Ok(Instead::Last(directive, Last::Status(status)))
            }
            _ => Err("what is not there gets a status, a path or a pool here".into()),
        },
        _ => match targets::handled(cx, spot, directive, &mut selector.clone(), &mut end.request) {
            Target::Pool { name, strip: None, rewrite: None } => {
                found.tries = vec!["{path}".to_owned(), format!("pool:{name}")];
                Ok(Instead::Target(Box::new(Target::Files(found.clone()))))
            }
            _ => Err("what is not there goes to a pool as it is".into()),
        },
    }
}

/// Puts the last item behind the others.
fn close<'a>(
    cx: &Context<'a>,
    spot: &Spot<'_, 'a>,
    (directive, last): (&'a Directive, Last),
    (mut found, mut items): (Files, Vec<String>),
    (selector, index): (&Selector, &Index),
    end: &mut End<'a>,
) -> Target {
    let item = match last {
        Last::Status(status) => of_status(cx, spot, (directive, status), (index, &items), end),
        Last::Named(name) => named(cx, spot, &name, selector, end),
        Last::Path(path) => path_item(cx, spot, (directive, &path), end),
    };
    match item {
        Ok(None) => {}
        Ok(Some(item)) => {
            if end.scripts == Some(true) && is_whole(cx, spot, (&found, index, &items), end) {
                end.ending = None;
                let name = item.trim_start_matches("pool:").to_owned();
                return Target::Pool { name, strip: None, rewrite: None };
            }
            let looks_again = item.starts_with("{path}");
            items.push(item);
            if looks_again {
                items.push("=500".to_owned());
            }
            if let Err(why) = below_both(cx, &mut found, &mut items) {
                cx.not_possible(directive, format!("{why}: what is not there answers 403 instead"));
                items.pop();
                items.push("=403".to_owned());
                end.ending = None;
            }
            found.tries = items;
        }
        Err(why) => {
            cx.not_possible(directive, format!("{why}: what is not there answers 403 instead"));
            (end.ending, end.scripts, end.front) = (None, None, None);
            items.push("=403".to_owned());
            found.tries = items;
        }
    }
    Target::Files(found)
}

/// Whether the usual rules of PHP say all: files, indexes, and a front controller for the rest.
fn is_whole(
    cx: &Context<'_>,
    spot: &Spot<'_, '_>,
    (found, index, items): (&Files, &Index, &[String]),
    end: &End<'_>,
) -> bool {
    // The index of a pool comes before the page, which is `index.html`.
    let pages = ["index.html", "index.htm", "index.nginx-debian.html"];
    let are_pages = found.index.iter().all(|name| pages.contains(&name.as_str()));
    let usual = are_pages && (index.first || index.script.is_none() && found.index.is_empty());
    let Some(Ending::Pool(scope)) = &end.ending else { return false };
    if end.front.is_some() {
        return false;
    }
    let plain = Files {
        root: found.root.clone(),
        missing: found.missing,
        place: found.place.clone(),
        no_index: found.no_index,
        index: found.index.clone(),
        ..Files::default()
    };
    let bare = items == ["{path}"] && *found == plain;
    usual && bare && answering::says_the_same(cx, &spot.scope, scope)
}

/// `=404`: an index that is a script goes to its pool.
fn of_status<'a>(
    cx: &Context<'a>,
    spot: &Spot<'_, 'a>,
    (directive, status): (&Directive, u16),
    (index, items): (&Index, &[String]),
    end: &mut End<'a>,
) -> Result<Option<String>, String> {
    let prefixed = matches!(spot.modifier, Modifier::Prefix | Modifier::Forced);
    let script = index.script.as_deref().filter(|_| end.looks_into && prefixed);
    let below = script.is_some_and(|script| scripts::run_below(spot, &end.prefix, script));
    let some = script.is_some_and(|script| scripts::run_some(spot, &end.prefix, script));
    if let (true, false, Some(given)) = (some, below, spot.scope.last("index")) {
        cx.say(given, Kind::Worse, "an index that some location runs, and others do not, is not run");
    }
    if let (true, Some(runner)) = (below, scripts::runner(&spot.server.locations)) {
        let Some((name, scope)) = pool(cx, spot, runner, false) else {
            return Err("its index is a script that no pool runs".into());
        };
        if status != 404 {
            cx.say(directive, Kind::Choice, "what is not there gets 404");
        }
        (end.ending, end.scripts) = (Some(Ending::Pool(scope)), Some(false));
        return Ok(Some(format!("pool:{name}")));
    }
    match status {
        404 if items == ["{path}"] => Ok(None),
        400..=599 => Ok(Some(format!("={status}"))),
        _ => Err("what is not there gets an error".into()),
    }
}

/// What `@name` is, as the last item of `try`.
fn named<'a>(
    cx: &Context<'a>,
    spot: &Spot<'_, 'a>,
    name: &str,
    selector: &Selector,
    end: &mut End<'a>,
) -> Result<Option<String>, String> {
    let is = |location: &&Location<'_>| location.modifier == Modifier::Named && location.pattern == name;
    let location = spot.server.locations.iter().find(is).ok_or_else(|| format!("there is no `@{name}`"))?;
    cx.translated(location.directive);
    let own = location.scope.own();
    let changes = ["rewrite", "return", "if", "try_files"];
    let mut changing = own.iter().filter(|one| changes.contains(&one.name.as_str()));
    if let Some(handler) = own.iter().rfind(|one| HANDLERS.contains(&one.name.as_str())) {
        if changing.next().is_some() {
            return Err(format!("`@{name}` changes what it passes on"));
        }
        let there = Spot {
            server: spot.server,
            directive: location.directive,
            modifier: Modifier::Named,
            scope: location.scope.with_values_of(&spot.scope),
            blocks: vec![own],
        };
        let target = targets::handled(cx, &there, handler, &mut selector.clone(), &mut end.request);
        end.ending = Some(Ending::Pool(location.scope.with_values_of(&spot.scope)));
        return match target {
            Target::Pool { name, strip: None, rewrite: None } => Ok(Some(format!("pool:{name}"))),
            _ => Err(format!("`@{name}` is no pool that gets requests as they are")),
        };
    }
    let only = changing.next().filter(|_| changing.next().is_none());
    let neither = || format!("`@{name}` is neither a pool nor a path");
    let only = only.ok_or_else(neither)?;
    match (only.name.as_str(), only.arg(0).parse::<u16>()) {
        ("return", Ok(status)) if (400..=599).contains(&status) && only.args.len() == 1 => {
            cx.translated(only);
            Ok(Some(format!("={status}")))
        }
        ("rewrite", _) if rewriting::takes_all(only.arg(0)) && only.arg(2) != "break" => {
            cx.translated(only);
            path_item(cx, spot, (only, only.arg(1)), end)
        }
        _ => Err(neither()),
    }
}

/// What a script is told besides its path: nothing, or the request's own query.
const QUERIES: [&str; 8] = [
    "",
    "?",
    "$is_args$args",
    "$is_args$query_string",
    "?$args",
    "?$query_string",
    "?$is_args$args",
    "?&$args",
];

/// What the last path of `try_files` is.
fn path_item<'a>(
    cx: &Context<'a>,
    spot: &Spot<'_, 'a>,
    (directive, full): (&Directive, &str),
    end: &mut End<'a>,
) -> Result<Option<String>, String> {
    let path = full.split(['?', '$']).next().unwrap_or_default();
    let query = &full[path.len()..];
    if !path.starts_with('/') {
        return match full.starts_with('$') {
            true => again(cx, spot, (directive, full)).map(Some),
            false => without_slash(cx, spot, (directive, path)).map(Some),
        };
    }
    let found = answering::location(spot.server, path)?;
    let Some(location) = found else { return of_server(spot, path, end).map(Some) };
    let own = location.scope.own();
    let handler = own.iter().rfind(|directive| HANDLERS.contains(&directive.name.as_str()));
    match handler {
        Some(handler) if handler.name == "fastcgi_pass" && path.ends_with(".php") => {
            script(cx, spot, (location, handler), (directive, path, query), end).map(Some)
        }
        Some(handler) => {
            let there = Spot {
                server: spot.server,
                directive: location.directive,
                modifier: location.modifier,
                scope: location.scope.with_values_of(&spot.scope),
                blocks: vec![own],
            };
            let mut exact = Selector { paths: vec![path.to_owned()], ..Selector::default() };
            let target = targets::handled(cx, &there, handler, &mut exact, &mut end.request);
            end.ending = Some(Ending::Pool(location.scope.with_values_of(&spot.scope)));
            match target {
                Target::Pool { name, strip: None, rewrite: None } => {
                    let why = "the pool gets the path that was asked for, and not that of the last argument";
                    cx.say(location.directive, Kind::Choice, why);
                    Ok(Some(format!("pool:{name}")))
                }
                _ => Err("another location answers for this path, with another one".into()),
            }
        }
        None => of_file(cx, spot, location, path, end).map(Some),
    }
}

/// `try_files $uri $uri/index.html`: nginx looks up the location of the last path, which is this one again. What is not there is
/// looked for again and again, until nginx gives up with 500.
fn again(
    cx: &Context<'_>,
    spot: &Spot<'_, '_>,
    (directive, full): (&Directive, &str),
) -> Result<String, String> {
    let begins_so = || "the last path begins with a variable".to_owned();
    let end = ["$uri", "${uri}"].iter().find_map(|uri| full.strip_prefix(uri)).ok_or_else(begins_so)?;
    if end.is_empty()
        || end.contains(['$', '?', '{', '}'])
        || !matches!(spot.modifier, Modifier::Prefix | Modifier::Forced)
    {
        return Err(begins_so());
    }
    let prefix = spot.directive.args.last().map_or("/", String::as_str);
    let base = prefix.trim_end_matches('/');
    // Two names that no expression is about stand for all others.
    for path in [format!("{base}/some{end}"), format!("{base}/some/other{end}")] {
        let found = answering::location(spot.server, &path)?;
        if !found.is_some_and(|found| std::ptr::eq(found.directive, spot.directive)) {
            return Err("another location answers for the path at its end".into());
        }
    }
    let why = "what is not there is 500: nginx looks for it again and again, and gives up";
    cx.say(directive, Kind::Translated, why);
    Ok(format!("{{path}}{end}"))
}

/// A last path without a slash: no prefix takes it, and the file that it names is beside the directory and not in it.
fn without_slash(
    cx: &Context<'_>,
    spot: &Spot<'_, '_>,
    (directive, path): (&Directive, &str),
) -> Result<String, String> {
    let found = answering::location(spot.server, path)?;
    let runs = |location: &Location<'_>| location.scope.own().iter().any(|one| one.name == "fastcgi_pass");
    let serves = |location: &Location<'_>| {
        !location.scope.own().iter().any(|one| {
            one.name.ends_with("_pass")
                || ["return", "rewrite", "if", "alias", "try_files", "error_page"]
                    .contains(&one.name.as_str())
        })
    };
    let scope = found.map_or(&spot.server.scope, |found| &found.scope);
    let fails =
        found.is_none_or(|found| runs(found) || serves(found)) && files::missing_page(scope).is_none();
    let root = files::root(cx, scope).map(|files| files.root).filter(|_| fails);
    let beside = root.map(|root| format!("{root}{path}")).filter(|beside| !cx.machine.has_file(beside));
    let beside = beside.ok_or("the last path has no slash at its start")?;
    cx.say(
        directive,
        Kind::Choice,
        format!("without a slash at its start, the last path is the file {beside} of nginx: it is 404"),
    );
    Ok("=404".to_owned())
}

/// A location that passes on what is there, and what is not, in the same way: `try_files $uri @app` beside a `proxy_pass`.
pub(super) fn passes_all<'a>(
    cx: &Context<'a>,
    spot: &Spot<'_, 'a>,
    (handler, tries): (&'a Directive, &'a Directive),
) -> bool {
    let Some(name) = tries.args.last().and_then(|last| last.strip_prefix('@')) else { return false };
    let is = |location: &&Location<'_>| location.modifier == Modifier::Named && location.pattern == name;
    let Some(named) = spot.server.locations.iter().find(is) else { return false };
    let said = |block: &'a [Directive]| {
        let mut all: Vec<(&str, &[String])> = block
            .iter()
            .filter(|one| one.name != "try_files")
            .map(|one| (one.name.as_str(), one.args.as_slice()))
            .collect();
        all.sort_unstable();
        all
    };
    let own = spot.scope.own();
    let whole = |block: &[Directive]| block.iter().all(|one| one.block.is_none());
    let as_it_is = handler.name == "proxy_pass" && !handler.arg(0).contains('$');
    if !as_it_is || !whole(own) || said(own) != said(named.scope.own()) {
        return false;
    }
    cx.not_needed(tries, "what is there and what is not are passed on in the same way");
    cx.not_needed(named.directive, "the location that leads here passes on all of it");
    named.scope.own().iter().for_each(|one| cx.not_needed(one, "the location that leads here says the same"));
    true
}

/// The pool of a location for scripts, and its scope. `all`: whatever is no file goes to the front controller.
fn pool<'a>(
    cx: &Context<'a>,
    spot: &Spot<'_, 'a>,
    (location, handler): (&Location<'a>, &'a Directive),
    all: bool,
) -> Option<(String, Scope<'a>)> {
    let there = Spot {
        server: spot.server,
        directive: location.directive,
        modifier: location.modifier,
        scope: location.scope.with_values_of(&spot.scope),
        blocks: vec![location.scope.own()],
    };
    match targets::fastcgi(cx, &there, handler, all) {
        Ok(Target::Pool { name, .. }) => Some((name, location.scope.with_values_of(&spot.scope))),
        _ => None,
    }
}

/// A script that answers for all that is no file.
fn script<'a>(
    cx: &Context<'a>,
    spot: &Spot<'_, 'a>,
    (location, handler): (&Location<'a>, &'a Directive),
    (directive, path, query): (&Directive, &str, &str),
    end: &mut End<'a>,
) -> Result<String, String> {
    let own = path.strip_prefix('/').unwrap_or(path);
    let below = scripts::run_below(spot, &end.prefix, own);
    let usual = spot.server.front.as_deref() == Some(own) && below;
    if !QUERIES.contains(&query) {
        let why = "the script gets the path in `REQUEST_URI`, and no parameter or `PATH_INFO` of it";
        cx.say(directive, Kind::Worse, why);
    }
    if !usual && below && end.looks_into {
        let why = "of directories below the script's own, `index.php` is not run: a route of theirs to its pool does that";
        cx.say(directive, Kind::Worse, why);
    }
    let (name, scope) = pool(cx, spot, (location, handler), usual).ok_or("no pool runs this script")?;
    end.request.extend(variables::fields(cx, &scope));
    (end.ending, end.scripts) = (Some(Ending::Pool(scope)), Some(usual));
    end.front = (!usual || !end.looks_into).then(|| own.to_owned());
    Ok(format!("pool:{name}"))
}

/// A file of the server's own directory, which no location is about.
fn of_server<'a>(spot: &Spot<'_, 'a>, path: &str, end: &mut End<'a>) -> Result<String, String> {
    if !same_root(&spot.scope, &spot.server.scope) {
        return Err("the file at its end is below another directory".into());
    }
    end.ending = Some(Ending::File(path.to_owned(), spot.server.scope.clone(), None));
    Ok(path.to_owned())
}

fn same_root(one: &Scope<'_>, other: &Scope<'_>) -> bool {
    let root = |scope: &Scope<'_>| scope.last("root").map(|root| root.args.clone());
    root(one) == root(other)
}

/// The file that a location with `alias` has for a path, from the root of the machine.
fn in_alias(cx: &Context<'_>, location: &Location<'_>, path: &str) -> Option<String> {
    let own = location.scope.own();
    let changes = |one: &Directive| ["rewrite", "return", "try_files"].contains(&one.name.as_str());
    let alias = own.iter().rfind(|one| one.name == "alias").filter(|_| !own.iter().any(changes))?;
    let directory = values::fixed(alias.arg(0), &location.scope)?;
    let prefixed = matches!(location.modifier, Modifier::Prefix | Modifier::Forced);
    let rest = path.strip_prefix(location.pattern.as_str()).filter(|_| prefixed)?;
    let slashes = location.pattern.ends_with('/') == directory.ends_with('/');
    (slashes && directory.starts_with('/')).then(|| {
        cx.translated(alias);
        format!("{ABOVE}{directory}{rest}")
    })
}

/// What the file of another directory begins with, until the root is above both.
const ABOVE: char = '\u{1}';

/// Items that are files of two directories, below the one that is above both.
fn below_both(cx: &Context<'_>, found: &mut Files, items: &mut [String]) -> Result<(), String> {
    let Some(other) = items.last().and_then(|last| last.strip_prefix(ABOVE)).map(str::to_owned) else {
        return Ok(());
    };
    let (own, whole): (Vec<&str>, Vec<&str>) = (found.root.split('/').collect(), other.split('/').collect());
    let shared = own.iter().zip(&whole).take_while(|(one, other)| one == other).count();
    let above = own.get(..shared).unwrap_or_default().join("/");
    let plain =
        found.strip.is_none() && found.rewrite.is_none() && !items.iter().any(|item| item.ends_with('/'));
    let below = |path: &str| path.strip_prefix(&above).unwrap_or_default().to_owned();
    let hidden = [&other, &found.root].iter().any(|path| below(path).contains("/."));
    if above.is_empty() || !plain || hidden {
        return Err("the file at its end is below another directory".into());
    }
    let rest = below(&found.root);
    let (last, before) = items.split_last_mut().ok_or("it is empty")?;
    before.iter_mut().for_each(|item| item.insert_str(0, &rest));
    *last = below(&other);
    found.missing = !cx.machine.has_directory(&above);
    (found.root, found.no_index) = (above, true);
    Ok(())
}

/// A file that a location answers with.
fn of_file<'a>(
    cx: &Context<'a>,
    spot: &Spot<'_, 'a>,
    location: &Location<'a>,
    path: &str,
    end: &mut End<'a>,
) -> Result<String, String> {
    let own = location.scope.own();
    let answer = own.iter().find(|one| one.name == "return");
    if let Some(answer) = answer {
        let status = answer.arg(0).parse::<u16>().ok().filter(|status| (400..=599).contains(status));
        return match status.filter(|_| answer.args.len() == 1) {
            Some(status) => {
                cx.translated(answer);
                Ok(format!("={status}"))
            }
            None => Err("another location answers for the path at its end".into()),
        };
    }
    let here = std::ptr::eq(location.directive, spot.directive);
    // What an `if (!-e …)` does is not done with a file that is there.
    let asks = |one: &Directive| one.name == "if" && !one.args.join(" ").contains("!-");
    let changes = own.iter().any(|one| ["rewrite", "alias"].contains(&one.name.as_str()) || asks(one));
    if let Some(file) = in_alias(cx, location, path).filter(|_| !here && !own.iter().any(asks)) {
        end.ending = Some(Ending::File(path.to_owned(), location.scope.clone(), Some(location.directive)));
        return Ok(file);
    }
    if !here && changes {
        return Err("another location changes the path at its end".into());
    }
    if !same_root(&spot.scope, &location.scope) {
        return Err("the file at its end is below another directory".into());
    }
    end.ending = Some(Ending::File(
        path.to_owned(),
        location.scope.with_values_of(&spot.scope),
        Some(location.directive),
    ));
    // The prefix of a location with `alias` is no part of the file's path.
    let below = path.strip_prefix(location.pattern.trim_end_matches('/'));
    match below.filter(|below| below.starts_with('/')) {
        Some(below) if own.iter().any(|one| one.name == "alias") => Ok(below.to_owned()),
        _ => Ok(path.to_owned()),
    }
}
