//! `return`, `rewrite` and `if`.

use regex::bytes::RegexBuilder;

use super::conditions::{self, Condition};
use super::context::Context;
use super::finite;
use super::headers;
use super::logs;
use super::selectors::Selector;
use crate::drafts::{Header, How, Match, Route, Target};
use crate::nginx::scope::Scope;
use crate::nginx::tree::Directive;
use crate::nginx::values;
use crate::report::Kind;

/// What the directives of the rewrite module make of a scope.
#[derive(Debug, Default)]
pub(crate) struct Rewriting<'a> {
    /// Routes before that of the scope's content.
    pub(crate) routes: Vec<Route>,
    /// Nothing comes behind them.
    pub(crate) ended: bool,
    /// A `return` behind a `rewrite … break`: what takes the place of the content for other paths.
    pub(crate) answer: Option<Route>,
    /// `rewrite … break`: the requests that it is about, and the path for the content.
    pub(crate) within: Vec<(&'a Directive, Selector, String)>,
    /// `if (!-e $request_filename)`: what is done if there is no file.
    pub(crate) missing: Option<&'a Directive>,
    /// Other `if` blocks, each with what it asks: their content is that of the location, with what stands in them.
    pub(crate) branches: Vec<(&'a Directive, Selector)>,
}

/// Reads the directives of a scope. `server`: they are those of a server, before its locations.
pub(crate) fn of<'a>(
    cx: &Context<'a>,
    scope: &Scope<'a>,
    selector: &Selector,
    server: bool,
) -> Rewriting<'a> {
    let mut found = Rewriting::default();
    for directive in scope.own() {
        match directive.name.as_str() {
            "return" => {
                match found.within.is_empty() {
                    true => {
                        let all = finite::by_fields(cx, scope, selector);
                        let route =
                            |(narrow, there): &(Selector, Scope<'a>)| fixed(cx, there, directive, narrow);
                        found.routes.extend(all.iter().map(route));
                    }
                    false => found.answer = Some(fixed(cx, scope, directive, selector)),
                }
                found.ended = true;
            }
            "rewrite" => rewrite(cx, scope, directive, (selector, server), &mut found),
            "if" => condition(cx, scope, directive, (selector, server), &mut found),
            _ => {}
        }
        if found.ended {
            break;
        }
    }
    found
}

/// The selector with one more condition.
///
/// # Errors
/// One route cannot say both.
pub(crate) fn narrowed(selector: &Selector, condition: &Condition) -> Result<Selector, String> {
    let mut narrow = selector.clone();
    let both = "a route cannot say this together with what the location asks";
    match condition {
        Condition::Match(table) => narrow.condition = selector.condition.and(table).ok_or(both)?,
        Condition::Methods(methods) if selector.methods.is_empty() => narrow.methods.clone_from(methods),
        Condition::Path(paths, None) if selector.paths.is_empty() || selector.paths == ["/*"] => {
            narrow.paths.clone_from(paths);
        }
        Condition::Path(_, Some(regex)) if selector.regex.is_none() => narrow.regex = Some(regex.clone()),
        Condition::Path(paths, None) => {
            let set = Match { paths: paths.clone(), ..Match::default() };
            narrow.condition =
                selector.condition.and(&Match { any: vec![set], ..Match::default() }).ok_or(both)?;
        }
        _ => return Err(both.into()),
    }
    Ok(narrow)
}

fn condition<'a>(
    cx: &Context<'a>,
    scope: &Scope<'a>,
    directive: &'a Directive,
    (selector, server): (&Selector, bool),
    found: &mut Rewriting<'a>,
) {
    let condition = match conditions::of(cx, scope, directive) {
        Ok(Condition::Missing) => {
            cx.translated(directive);
            found.missing = Some(directive);
            return;
        }
        Ok(condition) => condition,
        Err(why) => return inside_too(cx, directive, &why),
    };
    let all = match condition {
        Condition::Several(tables) => tables.into_iter().map(Condition::Match).collect(),
        one => vec![one],
    };
    for condition in all {
        one_condition(cx, scope, directive, (selector, server, &condition), found);
    }
}

fn one_condition<'a>(
    cx: &Context<'a>,
    scope: &Scope<'a>,
    directive: &'a Directive,
    (selector, server, condition): (&Selector, bool, &Condition),
    found: &mut Rewriting<'a>,
) {
    let narrow = match narrowed(selector, condition) {
        Ok(narrow) => narrow,
        Err(why) => return inside_too(cx, directive, &why),
    };
    cx.translated(directive);
    let inner = scope.within(directive.inside());
    let inner = match &narrow.regex {
        Some(regex) => inner.with_groups(regex),
        None => inner,
    };
    let nested = of(cx, &inner, &narrow, server);
    let answers = nested.ended || !nested.routes.is_empty() || !nested.within.is_empty();
    found.routes.extend(nested.routes);
    if !answers
        && directive
            .inside()
            .iter()
            .any(|inside| !["set", "break", "access_log"].contains(&inside.name.as_str()))
    {
        found.branches.push((directive, narrow));
    }
}

/// An `if` that is not possible takes what stands in it along.
fn inside_too(cx: &Context<'_>, directive: &Directive, why: &str) {
    cx.not_possible(directive, why);
    for inside in directive.inside() {
        cx.not_possible(inside, "the `if` around it is not possible");
    }
}

/// `return`
fn fixed(cx: &Context<'_>, scope: &Scope<'_>, directive: &Directive, selector: &Selector) -> Route {
    let (first, second) = (directive.arg(0), directive.args.get(1));
    let status = first.parse::<u16>().ok();
    let url = match (status, second) {
        (Some(301 | 302 | 303 | 307 | 308), Some(url)) => Some(url.as_str()),
        (None, _) => Some(first),
        _ => None,
    };
    let target = match (url, status.unwrap_or(302)) {
        (Some(url), status) => match location(url, scope, selector.regex.as_deref()) {
            Ok(to) => Some(Target::Redirect { to, status }),
            Err(why) => {
                cx.not_possible(directive, why);
                None
            }
        },
        (None, status) if !(200..=599).contains(&status) => {
            cx.not_possible(directive, "this status cannot be sent");
            None
        }
        (None, status) => respond(cx, scope, directive, status, second.map(String::as_str)),
    };
    if target.is_some() {
        cx.translated(directive);
    }
    let mut route = selector.route(directive, target.unwrap_or(Target::Respond { status: 502, body: None }));
    decorate(cx, scope, &mut route);
    route
}

fn respond(
    cx: &Context<'_>,
    scope: &Scope<'_>,
    directive: &Directive,
    status: u16,
    body: Option<&str>,
) -> Option<Target> {
    let Some(body) = body.filter(|body| !body.is_empty()) else {
        return Some(Target::Respond { status, body: None });
    };
    let Some(body) = values::fixed(body, scope) else {
        cx.not_possible(directive, "the text is fixed here, without variables");
        return Some(Target::Respond { status, body: None });
    };
    let written = headers::of_responses(cx, scope)
        .files
        .into_iter()
        .find(|(name, _)| name.eq_ignore_ascii_case("content-type"));
    let default = scope.last("default_type").map(|given| {
        cx.translated(given);
        given.arg(0).to_owned()
    });
    let media = written.map(|(_, value)| value).or(default).unwrap_or_else(|| "text/plain".to_owned());
    Some(Target::Respond { status, body: Some((body, media)) })
}

/// The place of a redirect.
fn location(url: &str, scope: &Scope<'_>, regex: Option<&str>) -> Result<String, String> {
    let mut to = values::template(url, scope)?;
    // A placeholder behind the first slash could make a host of a path.
    if to.starts_with("/{") || to.starts_with("{path}") || to.starts_with("{uri}") {
        let slash = if to.starts_with('/') && (to.starts_with("/{path}") || to.starts_with("/{uri}")) {
            1
        } else {
            0
        };
        to = format!("{{scheme}}://{{host}}{}", &to[slash..]);
    }
    // A group at the start of a path begins with its slash.
    if to.starts_with("{capture.1}") && regex.is_some_and(begins_with_group) {
        to.insert_str(0, "{scheme}://{host}");
    }
    match to.starts_with(['/', '{']) || to.contains("://") {
        true => Ok(to),
        false => Ok(format!("/{to}")),
    }
}

/// Whether the first group begins where the path does.
fn begins_with_group(regex: &str) -> bool {
    let regex = regex.strip_prefix("(?i)").unwrap_or(regex);
    regex.starts_with("^(") && !regex.starts_with("^(?")
}

/// Header fields of a route with a fixed answer.
pub(crate) fn decorate(cx: &Context<'_>, scope: &Scope<'_>, route: &mut Route) {
    let responses = headers::of_responses(cx, scope);
    route.response = responses.rules;
    route.expires = responses.expires;
    logs::decorate(cx, scope, route);
    for (name, value) in responses.files {
        if !name.eq_ignore_ascii_case("content-type") {
            route.response.push(Header { how: How::Set, name, value });
        }
    }
}

fn rewrite<'a>(
    cx: &Context<'a>,
    scope: &Scope<'a>,
    directive: &'a Directive,
    (selector, server): (&Selector, bool),
    found: &mut Rewriting<'a>,
) {
    let (pattern, to) = (directive.arg(0), directive.arg(1));
    if ["^", ".*", "^.*$"].contains(&pattern)
        && to == "$request_uri"
        && directive.arg(2).is_empty()
        && !server
    {
        return cx.not_needed(directive, "rewritten paths are encoded again, as they were");
    }
    match rewritten(scope, directive, selector, server) {
        Err(why) if server => cx.not_possible(directive, why),
        Err(why) => {
            // Without it the location would have another meaning.
            cx.not_possible(directive, format!("{why}: what it is about answers 403 instead"));
            let mut route = selector.route(directive, Target::Respond { status: 403, body: None });
            route.notes.push("closed, because there is no counterpart".into());
            found.routes.push(route);
            found.ended = true;
        }
        Ok(Rewritten { selector, target: Some(target), all, .. }) => {
            cx.translated(directive);
            if matches!(target, Target::Reroute(_)) {
                found.routes.push(selector.route(directive, target));
            } else {
                for (narrow, there) in finite::by_fields(cx, scope, &selector) {
                    let mut route = narrow.route(directive, target.clone());
                    decorate(cx, &there, &mut route);
                    found.routes.push(route);
                }
            }
            found.ended = all;
        }
        Ok(Rewritten { selector, target: None, to, .. }) => {
            cx.translated(directive);
            found.within.push((directive, selector, to));
        }
    }
}

/// Whether what matches one expression matches another one, too, by its shape: `^/a/(.*)` and `^/a/`.
fn implies(narrow: &str, wide: &str) -> bool {
    let whole = wide.ends_with('$') && !wide.ends_with(".*)$") && !wide.ends_with(".*$");
    let open = |text: &str| -> String {
        let text = text.trim_end_matches('$');
        let text = ["(.*)", ".*"].iter().find_map(|end| text.strip_suffix(end)).unwrap_or(text);
        text.to_owned()
    };
    // An alternative at the top would make a part of the expression the whole of it.
    wide.starts_with('^')
        && !whole
        && !wide.contains('|')
        && !narrow.contains('|')
        && narrow.starts_with(&open(wide))
}

/// A path begins with a slash; where that is in a group of the expression, it is taken out of it.
fn rooted(to: String, narrow: &mut Selector) -> Result<String, String> {
    if !to.starts_with("{capture.") {
        let begins = to.starts_with('/') || to.starts_with("{path}") || to.starts_with("{uri}");
        return if begins { Ok(to) } else { Err("a path begins with `/`".into()) };
    }
    let whole = ["^(.*)$", "^(.*)", "(.*)", "^(.+)$"];
    match narrow.regex.as_deref() {
        Some(regex) if whole.contains(&regex) && to.starts_with("{capture.1}") => {
            if !to[1..].contains("{capture.") {
                narrow.regex = None;
            }
            Ok(to.replace("{capture.1}", "{path}"))
        }
        Some(regex) => {
            let first = regex
                .split_once('(')
                .filter(|(before, _)| to.starts_with("{capture.1}") && !before.ends_with('\\'));
            let slashed = first.and_then(|(before, inside)| Some((before, inside.strip_prefix('/')?)));
            // An alternative has no slash of its own, and what is repeated has several.
            let once = |rest: &str| {
                values::closing(rest).is_some_and(|end| {
                    let behind = &rest[end + 1..];
                    values::split_top(&rest[..end]).len() == 1 && !behind.starts_with(['?', '*', '+', '{'])
                })
            };
            let (before, rest) = slashed.filter(|(_, rest)| once(rest)).ok_or("a path begins with `/`")?;
            narrow.regex = Some(format!("{before}/({rest}"));
            Ok(to.replace("{capture.1}", "/{capture.1}"))
        }
        None => Err("a path begins with `/`".into()),
    }
}

struct Rewritten {
    selector: Selector,
    /// `None`: `break`, the content of the location with another path.
    target: Option<Target>,
    /// The path, with a query if it has one of its own.
    to: String,
    all: bool,
}

/// Whether a regular expression matches every path.
pub(crate) fn takes_all(pattern: &str) -> bool {
    [
        "^", ".", ".*", "^.*$", "^.*", "^/", "(.*)", "^(.*)$", "^/(.*)$", "^(.*)", "^/(.*)", "/", "^.+$",
        "^(.+)$",
    ]
    .contains(&pattern)
}

/// A target with the query of the request, which nginx appends unless the replacement ends in `?`.
fn with_query(to: String, dropped: bool) -> String {
    match (dropped, to.contains('?')) {
        (true, true) => to,
        (true, false) => format!("{to}?"),
        (false, true) if !to.contains("{query}") => format!("{to}&{{query}}"),
        _ => to,
    }
}

/// Takes the expression of a `rewrite` into what its route asks. `all`: it matches every path.
fn narrow_by(
    pattern: &str,
    (all, captures): (bool, bool),
    selector: &Selector,
    narrow: &mut Selector,
) -> Result<(), String> {
    let free = selector.paths.is_empty() || selector.paths == ["/*"];
    match (all && !captures, values::as_patterns(pattern).filter(|_| !captures)) {
        (true, _) => {}
        (false, Some(paths)) if free => narrow.paths = paths,
        (false, Some(paths)) if selector.regex.is_some() => {
            let set = Match { paths, ..Match::default() };
            let both = narrow.condition.and(&Match { any: vec![set], ..Match::default() });
            narrow.condition = both.ok_or("a route cannot say this together with what the location asks")?;
        }
        (false, _) => {
            let regex = values::regex(pattern, false)?;
            match &selector.regex {
                Some(other) if *other != regex && !implies(&regex, other) => {
                    return Err("a route has one regular expression, and the location has another one".into());
                }
                _ => narrow.regex = Some(regex),
            }
        }
    }
    Ok(())
}

/// Whether an expression takes the one path of a location, which leaves nothing to narrow.
fn takes_path(pattern: &str, selector: &Selector) -> Result<bool, String> {
    match selector.paths.as_slice() {
        [path] if !path.contains('*') && selector.regex.is_none() => {
            let text = values::regex(pattern, false)?;
            let built = RegexBuilder::new(&text).unicode(false).build();
            Ok(built.is_ok_and(|regex| regex.is_match(path.as_bytes())))
        }
        _ => Ok(false),
    }
}

fn rewritten(
    scope: &Scope<'_>,
    directive: &Directive,
    selector: &Selector,
    server: bool,
) -> Result<Rewritten, String> {
    let (pattern, to, flag) = (directive.arg(0), directive.arg(1), directive.arg(2));
    let captures = to.split('$').skip(1).any(|rest| rest.starts_with(|c: char| c.is_ascii_digit()));
    let mut narrow = selector.clone();
    let all = takes_all(pattern) || !captures && takes_path(pattern, selector)?;
    let ahead = values::without_look_ahead(pattern, selector.paths.iter().all(|path| path.contains(".php")));
    let pattern = match &ahead {
        Some((pattern, left)) => {
            narrow.except.extend(left.iter().cloned());
            pattern.as_str()
        }
        None => pattern,
    };
    narrow_by(pattern, (all, captures), selector, &mut narrow)?;
    let scope = &scope.clone().with_groups(pattern);
    let no_query = to.ends_with('?');
    let to = to.trim_end_matches('?');
    let external = to.starts_with("http://") || to.starts_with("https://") || to.starts_with("$scheme");
    let status = match flag {
        "permanent" => Some(301),
        "redirect" => Some(302),
        _ if external => Some(302),
        _ => None,
    };
    if let Some(status) = status {
        let to = location(to, scope, Some(pattern))?;
        let to = match (no_query || to.contains("{uri}"), to.contains('?')) {
            (true, _) => to,
            (false, true) if to.contains("{query}") => to,
            (false, true) => format!("{to}&{{query}}"),
            (false, false) => format!("{to}?{{query}}"),
        };
        let target = Some(Target::Redirect { to: to.clone(), status });
        return Ok(Rewritten { selector: narrow, target, to, all });
    }
    let to = rooted(values::template(to, scope)?, &mut narrow)?;
    let with = with_query(to.clone(), no_query);
    if flag == "break" && !server {
        return Ok(Rewritten { selector: narrow, target: None, to: with, all });
    }
    let path = to.split('?').next().unwrap_or_default().to_owned();
    if server && !path.contains('{') {
        narrow.except.push(path);
    } else if server && all {
        return Err("it would be applied to its own result again and again".into());
    }
    Ok(Rewritten { selector: narrow, target: Some(Target::Reroute(with.clone())), to: with, all })
}

/// What an `if` looks for: what is not there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Missing {
    /// Neither a file nor a directory.
    Any,
    /// A file.
    File,
    /// A directory.
    Directory,
}

/// What an `if (!-e $request_filename)` looks for.
pub(crate) fn missing(directive: &Directive) -> Missing {
    let asked = directive.args.join(" ");
    match asked.trim_start_matches(['(', ' ']).get(..3) {
        Some("!-f") => Missing::File,
        Some("!-d") => Missing::Directory,
        _ => Missing::Any,
    }
}

/// What an `if (!-e $request_filename)` does: the target of its `rewrite`, as the end of a `try_files`.
pub(crate) fn fallback<'a>(cx: &Context<'_>, directive: &'a Directive) -> Option<&'a Directive> {
    let inside = directive.inside().iter();
    let found = inside
        .clone()
        .find(|inside| ["rewrite", "proxy_pass", "fastcgi_pass", "return"].contains(&inside.name.as_str()));
    for other in inside.filter(|other| other.name == "break") {
        cx.say(other, Kind::NotNeeded, "nothing comes behind it");
    }
    found
}
