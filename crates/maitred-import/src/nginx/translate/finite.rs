//! Variables with one of several values, by a `map` or by a `set` within an `if`: a location whose handler or fields have one is
//! several routes, each with the condition under which the variable has its value.

use super::answering;
use super::conditions::{self, Condition};
use super::context::Context;
use super::rewriting;
use super::selectors::{Modifier, Selector};
use super::spot::Spot;
use crate::drafts::Match;
use crate::nginx::scope::Scope;
use crate::nginx::tree::Directive;
use crate::nginx::values::{self, Part};
use crate::report::Kind;

/// Values of one variable, at most: each is a route.
const VALUES_MAX: usize = 32;

/// A variable with one of several values.
struct Finite<'a> {
    /// The name of the variable.
    name: &'a str,
    /// The values, each with its condition, in the order in which they are looked for.
    rows: Vec<(Option<Match>, &'a str)>,
    /// Directives that say so.
    said: Vec<&'a Directive>,
}

/// A location by the values of the first such variable, each with the requests that have it; `None` without one.
pub(crate) fn divided<'s, 'a>(
    cx: &Context<'a>,
    spot: &Spot<'s, 'a>,
    selector: &Selector,
) -> Option<Vec<(Selector, Spot<'s, 'a>)>> {
    let all = by_value(cx, variable(cx, spot)?, &spot.scope, selector)?;
    let (server, directive, modifier) = (spot.server, spot.directive, spot.modifier);
    let there = |(selector, scope)| {
        (selector, Spot { server, directive, modifier, scope, blocks: spot.blocks.clone() })
    };
    Some(all.into_iter().map(there).collect())
}

/// The same of what has no content but fields of responses: all of it, if none of them has such a variable.
pub(crate) fn by_fields<'a>(
    cx: &Context<'a>,
    scope: &Scope<'a>,
    selector: &Selector,
) -> Vec<(Selector, Scope<'a>)> {
    let found = first(cx, scope, added(scope));
    match found.and_then(|found| by_value(cx, found, scope, selector)) {
        None => vec![(selector.clone(), scope.clone())],
        Some(all) => all.iter().flat_map(|(selector, scope)| by_fields(cx, scope, selector)).collect(),
    }
}

/// The requests of a selector by the values of a variable, with what holds for them.
fn by_value<'a>(
    cx: &Context<'a>,
    found: Finite<'a>,
    scope: &Scope<'a>,
    selector: &Selector,
) -> Option<Vec<(Selector, Scope<'a>)>> {
    let mut all = Vec::with_capacity(found.rows.len());
    for (table, value) in found.rows {
        let selector = match table {
            Some(table) => rewriting::narrowed(selector, &Condition::Match(table)).ok()?,
            None => selector.clone(),
        };
        all.push((selector, scope.with_value(found.name, value)));
    }
    for said in found.said {
        match said.name == "split_clients" {
            true => cx.say(
                said,
                Kind::Choice,
                "a client gets the same each time, but not the share that nginx gives it",
            ),
            false => cx.translated(said),
        }
    }
    Some(all)
}

/// What is known of a variable, if it has one of several values.
fn finite<'a>(cx: &Context<'a>, scope: &Scope<'a>, name: &str) -> Option<Finite<'a>> {
    let Some(map) = cx.finite(name) else { return of_sets(cx, scope, name) };
    let of = |(table, value): (Option<Match>, &'a str)| {
        (table.map(|table| conditions::with_port(scope, table)), value)
    };
    let rows = rows(map).ok()?.into_iter().map(of).collect();
    Some(Finite { name: map.arg(1).trim_start_matches('$'), rows, said: vec![map] })
}

/// `set $name ""; if (…) { set $name …; }`: the last `if` that holds counts.
fn of_sets<'a>(cx: &Context<'a>, scope: &Scope<'a>, name: &str) -> Option<Finite<'a>> {
    let is = |set: &&'a Directive| set.name == "set" && set.arg(0).strip_prefix('$') == Some(name);
    let plain: Vec<&'a Directive> = scope.everywhere("set").into_iter().filter(is).collect();
    let has = |one: &&'a Directive| one.inside().iter().any(|inside| is(&inside));
    let ifs: Vec<&'a Directive> = scope.everywhere("if").into_iter().filter(has).collect();
    let (first, most) = (ifs.first()?, plain.len() <= 1);
    let before = plain.iter().all(|set| scope.at(set) < scope.at(first));
    // What an `if` does besides would be done under its condition alone.
    let only = |one: &&'a Directive| one.inside().iter().all(|inside| inside.name == "set");
    if !most || !before || !ifs.iter().all(only) {
        return None;
    }
    let (mut rows, mut said, mut own) = (Vec::new(), plain.clone(), None);
    for one in ifs.iter().rev() {
        let set = one.inside().iter().rfind(is)?;
        let tables = match conditions::read(cx, scope, one).ok()? {
            Condition::Match(table) => vec![table],
            Condition::Several(tables) => tables,
            Condition::Path(paths, None) => vec![Match { paths, ..Match::default() }],
            _ => return None,
        };
        rows.extend(tables.into_iter().map(|table| (Some(table), set.arg(1))));
        said.extend([*one, set]);
        own = Some(set.arg(0));
    }
    rows.push((None, plain.first().map_or("", |set| set.arg(1))));
    Some(Finite { name: own?.trim_start_matches('$'), rows, said })
}

/// The values, each with its condition.
fn rows(map: &Directive) -> Result<Vec<(Option<Match>, &str)>, String> {
    if map.name != "split_clients" {
        return conditions::rows(map);
    }
    let (mut found, mut total, mut rest) = (Vec::new(), 0, "");
    let by = match map.arg(0).trim_start_matches('$').trim_matches(['{', '}']) {
        "remote_addr" | "binary_remote_addr" => None,
        other => match other.split_once('_') {
            Some(("cookie", name)) => Some(format!("cookie:{name}")),
            Some(("http", name)) => Some(format!("header:{}", values::field_name(name))),
            _ => return Err("clients differ by address, cookie or field".into()),
        },
    };
    for row in map.inside() {
        let Some(percent) = row.name.strip_suffix('%') else {
            rest = row.arg(0);
            continue;
        };
        // In hundredths; shares are of all clients, and what comes first is taken first.
        let (whole, part) = percent.split_once('.').unwrap_or((percent, ""));
        let hundredths: u32 =
            format!("{whole}{part:0<2}").parse().map_err(|_| "this is no percentage".to_owned())?;
        total += hundredths;
        let share = format!("{}.{:02}", total / 100, total % 100);
        let share = format!("{}%", share.trim_end_matches('0').trim_end_matches('.'));
        found.push((
            Some(Match { share: Some(Box::new((share, by.clone()))), ..Match::default() }),
            row.arg(0),
        ));
    }
    found.push((None, rest));
    Ok(found)
}

/// The variable that the handler, or a field, of a location has, or of the one that its `try_files` ends in.
fn variable<'a>(cx: &Context<'a>, spot: &Spot<'_, 'a>) -> Option<Finite<'a>> {
    let handlers = ["proxy_pass", "grpc_pass", "fastcgi_pass"];
    let handler =
        spot.blocks.iter().find_map(|block| block.iter().rfind(|own| handlers.contains(&own.name.as_str())));
    let fields = match handler.map(|handler| handler.name.as_str()) {
        Some("proxy_pass") => spot.scope.all("proxy_set_header"),
        Some("grpc_pass") => spot.scope.all("grpc_set_header"),
        Some(_) => spot.scope.all("fastcgi_param"),
        None => Vec::new(),
    };
    let set = fields.into_iter().filter(|field| !is_of_connection(field)).map(|field| field.arg(1));
    let passed = handler.map(|handler| handler.arg(0)).into_iter();
    let last = spot.own(&["try_files"]).and_then(|tries| tries.args.last());
    let end = last.and_then(|last| match last.strip_prefix('@') {
        Some(name) => {
            spot.server.locations.iter().find(|one| one.modifier == Modifier::Named && one.pattern == name)
        }
        None if last.starts_with('/') => {
            answering::location(spot.server, last.split(['?', '$']).next().unwrap_or_default()).ok()?
        }
        None => None,
    });
    let behind = end.map(|end| added(&end.scope)).into_iter().flatten();
    first(cx, &spot.scope, passed.chain(set).chain(added(&spot.scope)).chain(behind))
}

/// Values of the fields of responses.
fn added<'a>(scope: &Scope<'a>) -> impl Iterator<Item = &'a str> + use<'a> {
    scope.all("add_header").into_iter().map(|field| field.arg(1))
}

/// The first variable of these texts that has one of several values, all of which can be said.
fn first<'a>(
    cx: &Context<'a>,
    scope: &Scope<'a>,
    mut texts: impl Iterator<Item = &'a str>,
) -> Option<Finite<'a>> {
    // What a value is made of has no such variable itself.
    let known = |(_, value): &(Option<Match>, &str)| {
        let plain = |part: &Part| match part {
            Part::Variable(name) => cx.finite(name).is_none(),
            Part::Text(_) => true,
        };
        values::parts(value, scope).iter().all(plain) && values::filled(value, scope).is_ok()
    };
    let is_known = |found: &Finite<'a>| found.rows.len() <= VALUES_MAX && found.rows.iter().all(known);
    texts.find_map(|text| {
        values::parts(text, scope).into_iter().find_map(|part| match part {
            Part::Variable(name) => finite(cx, scope, &name).filter(is_known),
            Part::Text(_) => None,
        })
    })
}

/// `Connection $connection_upgrade` and its like.
fn is_of_connection(field: &Directive) -> bool {
    ["connection", "upgrade"].iter().any(|name| field.arg(0).eq_ignore_ascii_case(name))
}
