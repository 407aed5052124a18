//! What directives without an answer say for the routes behind them.

use super::access::Gate;
use super::matchers::{Both, Selector};
use super::paths;
use super::tree::Directive;
use crate::drafts::{Header, How, Route, Target};
use crate::model::Value;
use crate::report::Kind;
use crate::shared::Shared;

/// Routes that edits with a matcher may make of those of a site, at most.
pub(crate) const ROUTES_MAX: usize = 400;

/// A rule for a field, and whether it is applied when the response is there.
pub(crate) type Rule<'d> = (Header, bool, &'d Directive);

/// What a directive says for routes of others.
pub(crate) enum Edit<'d> {
    Headers(Vec<Rule<'d>>),
    Request(Header),
    Gate(Gate),
    Limits(Vec<String>),
    Body(u64),
    Compress(Vec<(String, Value)>),
    Quiet,
}

/// An edit, the requests that it is for, and the first route that it is for.
pub(crate) type Placed<'d> = (Selector, Edit<'d>, usize);

impl Edit<'_> {
    fn apply(&self, cx: &Shared, route: &mut Route) {
        match self {
            Edit::Headers(rules) => add(cx, route, rules),
            Edit::Request(rule) => route.request.insert(0, rule.clone()),
            Edit::Gate(gate) => protect(route, gate),
            Edit::Limits(names) => limit(route, names),
            Edit::Body(max) => route.body_max = Some(route.body_max.map_or(*max, |known| known.min(*max))),
            Edit::Compress(entries) => {
                route.compress.get_or_insert_with(|| entries.clone());
            }
            Edit::Quiet => route.quiet = true,
        }
    }

    /// Whether a route that it may be for has to have it, even if that is more than the matcher takes.
    fn is_protection(&self) -> bool {
        matches!(self, Edit::Gate(_) | Edit::Body(_))
    }
}

/// Changes the routes that an edit is for; a route of which its matcher takes a part is divided. Edits of which the routes have
/// more outside are applied later: what stands outside comes first.
pub(crate) fn apply(cx: &Shared, edits: &[Placed<'_>], from: usize, routes: &mut Vec<Route>) {
    let bare = |both: &Selector| Selector { regex_name: String::new(), ..both.clone() };
    for (own, edit, at) in edits.iter().rev() {
        let tail = routes.split_off((*at).max(from).min(routes.len()));
        for mut route in tail {
            let now = Selector::of(&route);
            match now.and(own) {
                _ if own.is_all() => edit.apply(cx, &mut route),
                Both::Never => {}
                Both::Is(both) if bare(&both) == now => edit.apply(cx, &mut route),
                Both::Is(both) if routes.len() < ROUTES_MAX => {
                    let mut narrow = route.clone();
                    narrow.paths = both.paths;
                    narrow.regex = both.regex;
                    narrow.condition = both.condition;
                    narrow.methods = both.methods;
                    edit.apply(cx, &mut narrow);
                    routes.push(narrow);
                }
                _ if edit.is_protection() => edit.apply(cx, &mut route),
                _ => {}
            }
            routes.push(route);
        }
    }
}

/// Caddy compares paths without case: so do the routes that refuse, or ask who the client is, unless all behind them do the same.
pub(crate) fn without_case(mut routes: Vec<Route>) -> Vec<Route> {
    for at in 0..routes.len() {
        let (Some(route), rest) = (routes.get(at), routes.get(at + 1..).unwrap_or_default()) else { break };
        let refuses = matches!(&route.target, Target::Respond { status: 400.., .. });
        let is_open = |later: &Route| match refuses {
            true => later.target != route.target,
            false => later.gates != route.gates,
        };
        let strips = match &route.target {
            Target::Pool { strip, .. } => strip.is_some(),
            Target::Files(files) => files.strip.is_some(),
            _ => false,
        };
        let has_case = route.paths.iter().any(|path| path.contains(|c: char| c.is_ascii_alphabetic()));
        if (refuses || !route.gates.is_empty())
            && has_case
            && !strips
            && route.regex.is_none()
            && rest.iter().any(is_open)
        {
            let regex = paths::any_case(&route.paths);
            if let Some(route) = routes.get_mut(at) {
                route.paths.clear();
                route.regex = Some(regex);
            }
        }
    }
    routes
}

/// Routes that follow one another, and differ in their paths alone, are one; those for requests that an earlier one has are none.
pub(crate) fn joined(routes: Vec<Route>) -> Vec<Route> {
    let mut all: Vec<Route> = Vec::new();
    for mut route in routes {
        if all.iter().any(|before| Selector::of(before) == Selector::of(&route)) {
            continue;
        }
        while let Some(before) = all.pop_if(|before| differ_in_paths(before, &route)) {
            let own = std::mem::take(&mut route.paths);
            if !own.is_empty() && !before.paths.is_empty() {
                route.paths = before.paths;
                route.paths.extend(own);
                route.paths.dedup();
                route.origin = before.origin;
            }
        }
        all.push(route);
    }
    all
}

fn differ_in_paths(one: &Route, other: &Route) -> bool {
    let mut same = other.clone();
    same.paths.clone_from(&one.paths);
    same.origin.clone_from(&one.origin);
    one.regex.is_none() && same == *one
}

/// Fields of which a response may have several.
const BESIDE: &[&str] = &["set-cookie", "link", "vary", "via", "www-authenticate"];

fn add(cx: &Shared, route: &mut Route, rules: &[Rule<'_>]) {
    let mut own: Vec<Header> = Vec::new();
    for (rule, deferred, line) in rules {
        let name = rule.name.to_ascii_lowercase();
        let replaces = matches!(rule.how, How::Set);
        // What caches are told is for what is found.
        if name == "cache-control" && (replaces || rule.how == How::IfAbsent) && is_files(route) {
            if !route.expires.iter().any(|(kind, _)| kind == "default") {
                route.expires.push(("default".to_owned(), rule.value.clone()));
            }
            cx.say(line, Kind::Better, "errors have no such field, so that no cache keeps them");
            continue;
        }
        if replaces
            && !deferred
            && matches!(route.target, Target::Pool { .. })
            && !BESIDE.contains(&name.as_str())
        {
            cx.say(
                line,
                Kind::Better,
                "one field is sent, where Caddy sends that of the application as well",
            );
        }
        own.push(rule.clone());
    }
    without_removed(&mut own);
    // The rules of what is inside come later, and take the place of the same ones.
    for rule in own.into_iter().rev() {
        let twice = rule.how == How::Add
            && route.response.iter().any(|other| {
                other.how == How::Add && other.name.eq_ignore_ascii_case(&rule.name) && *other != rule
            });
        if twice && let Some((_, _, line)) = rules.iter().find(|(known, ..)| *known == rule) {
            cx.not_possible(line, "a field is added once");
            continue;
        }
        route.response.insert(0, rule);
    }
}

/// A field that is taken away last is not there, whatever has set it.
fn without_removed(own: &mut Vec<Header>) {
    for (at, rule) in own.clone().iter().enumerate().rev() {
        let removed = rule.how == How::Remove;
        if removed {
            let same = |other: &Header| other.name.eq_ignore_ascii_case(&rule.name);
            let mut number = 0;
            own.retain(|other| {
                number += 1;
                number > at || other.how == How::Remove || !same(other)
            });
        }
    }
}

fn is_files(route: &Route) -> bool {
    matches!(route.target, Target::Files(_))
}

/// A route has each key once; clients of which another one is asked as well get nothing.
fn protect(route: &mut Route, gate: &Gate) {
    match route.gates.iter().find(|(key, _)| *key == gate.0) {
        None => route.gates.push(gate.clone()),
        Some(known) if known == gate => {}
        Some(_) => {
            route.target = Target::Respond { status: 403, body: None };
            route.notes.push(format!("closed, because a route has one `{}`, and this one has two", gate.0));
        }
    }
}

fn limit(route: &mut Route, names: &[String]) {
    for name in names {
        if !route.limits.contains(name) {
            route.limits.push(name.clone());
        }
    }
}
