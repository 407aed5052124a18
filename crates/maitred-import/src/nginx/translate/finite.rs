//! Variables of a `map` with fixed values: a location whose handler or fields have one is several routes, each with the condition
//! under which the variable has its value.

use super::conditions::{self, Condition};
use super::context::Context;
use super::rewriting;
use super::selectors::Selector;
use super::spot::Spot;
use crate::drafts::Match;
use crate::nginx::tree::Directive;
use crate::nginx::values::{self, Part};
use crate::report::Kind;

/// Values of one variable, at most: each is a route.
const VALUES_MAX: usize = 32;

/// A location by the values of the first such variable, each with the requests that have it; `None` without one.
pub(crate) fn divided<'s, 'a>(
    cx: &Context<'a>,
    spot: &Spot<'s, 'a>,
    selector: &Selector,
) -> Option<Vec<(Selector, Spot<'s, 'a>)>> {
    let map = variable(cx, spot)?;
    let name = map.arg(1).trim_start_matches('$');
    let rows = rows(map).ok().filter(|rows| rows.len() <= VALUES_MAX)?;
    let mut narrowed = Vec::new();
    for (table, value) in rows {
        let selector = match table {
            Some(table) => rewriting::narrowed(selector, &Condition::Match(table)).ok()?,
            None => selector.clone(),
        };
        narrowed.push((selector, value));
    }
    match map.name == "split_clients" {
        true => cx.say(
            map,
            Kind::Choice,
            "a client gets the same each time, but not the share that nginx gives it",
        ),
        false => cx.translated(map),
    }
    let (server, directive, modifier) = (spot.server, spot.directive, spot.modifier);
    let mut all = Vec::with_capacity(narrowed.len());
    for (selector, value) in narrowed {
        let (scope, blocks) = (spot.scope.with_value(name, value), spot.blocks.clone());
        all.push((selector, Spot { server, directive, modifier, scope, blocks }));
    }
    Some(all)
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

/// The map of a variable that the handler, or a field, of a location has.
fn variable<'a>(cx: &Context<'a>, spot: &Spot<'_, 'a>) -> Option<&'a Directive> {
    let handlers = ["proxy_pass", "grpc_pass", "fastcgi_pass"];
    let handler = spot
        .blocks
        .iter()
        .find_map(|block| block.iter().rfind(|own| handlers.contains(&own.name.as_str())))?;
    let fields = match handler.name.as_str() {
        "proxy_pass" => spot.scope.all("proxy_set_header"),
        "grpc_pass" => spot.scope.all("grpc_set_header"),
        _ => spot.scope.all("fastcgi_param"),
    };
    let set = fields.into_iter().filter(|field| !is_of_connection(field)).map(|field| field.arg(1));
    let added = spot.scope.all("add_header").into_iter().map(|field| field.arg(1));
    let is_known = |map: &&'a Directive| {
        let plain = |row: &Directive| !row.arg(0).contains('$');
        map.inside().iter().all(plain) && rows(map).is_ok()
    };
    let of = |text: &'a str| {
        values::parts(text, &spot.scope).into_iter().find_map(|part| match part {
            Part::Variable(name) => cx.finite(&name).filter(is_known),
            Part::Text(_) => None,
        })
    };
    std::iter::once(handler.arg(0)).chain(set).chain(added).find_map(of)
}

/// `Connection $connection_upgrade` and its like.
fn is_of_connection(field: &Directive) -> bool {
    ["connection", "upgrade"].iter().any(|name| field.arg(0).eq_ignore_ascii_case(name))
}
