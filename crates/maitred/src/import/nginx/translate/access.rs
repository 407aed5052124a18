//! `allow`, `deny`, `limit_except` and what protects a location otherwise. What cannot be said closes the location.

use super::context::Context;
use crate::import::drafts::{Match, Route, Target};
use crate::import::nginx::scope::Scope;
use crate::import::nginx::tree::Directive;
use crate::import::report::Kind;

/// Who may.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Access {
    /// All clients.
    Open,
    /// None.
    Closed,
    /// None, because it cannot be said who may.
    Unknown(String),
    /// These networks.
    Only(Vec<String>),
    /// All but these networks.
    Except(Vec<String>),
}

/// Who may see what is in a scope.
pub(crate) fn of(cx: &Context<'_>, scope: &Scope<'_>) -> Access {
    let protections = [
        ("auth_basic", "passwords are not asked for"),
        ("auth_request", "no other server is asked whether a client may"),
        ("auth_jwt", "tokens are not verified"),
        ("auth_pam", "passwords are not asked for"),
        ("auth_ldap", "passwords are not asked for"),
    ];
    let mut closed = None;
    for (name, why) in protections {
        let Some(directive) = scope.last(name) else { continue };
        if directive.arg(0) == "off" {
            cx.automatic(directive, "nothing is asked for");
            continue;
        }
        cx.not_possible(directive, format!("{why}: what it protects answers 403 instead"));
        closed = Some(directive.shown());
    }
    match closed {
        Some(what) => Access::Unknown(what),
        None => networks(cx, scope),
    }
}

fn networks(cx: &Context<'_>, scope: &Scope<'_>) -> Access {
    let rules = scope.all_of(&["allow", "deny"]);
    let (mut allowed, mut denied) = (Vec::new(), Vec::new());
    for (at, directive) in rules.iter().enumerate() {
        let (name, value) = (directive.name.as_str(), directive.arg(0));
        let last = at + 1 == rules.len();
        match (name, value) {
            ("deny", "all") => {
                rules.iter().for_each(|rule| cx.translated(rule));
                return match (allowed.is_empty(), denied.is_empty()) {
                    (true, _) => Access::Closed,
                    (false, true) => Access::Only(allowed.into_iter().map(|(network, _)| network).collect()),
                    (false, false) => mixed(cx, &rules),
                };
            }
            ("allow", "all") => break,
            (_, "unix:") => {}
            ("allow", network) => allowed.push((network.to_owned(), denied.len())),
            (_, network) => denied.push(network.to_owned()),
        }
        if last && !denied.is_empty() && allowed.iter().any(|(_, before)| *before < denied.len()) {
            return mixed(cx, &rules);
        }
    }
    rules.iter().for_each(|rule| cx.translated(rule));
    if denied.is_empty() { Access::Open } else { Access::Except(denied) }
}

fn mixed(cx: &Context<'_>, rules: &[&Directive]) -> Access {
    for rule in rules {
        cx.not_possible(
            rule,
            "networks within others are allowed and denied in turn: what they protect answers 403 instead",
        );
    }
    Access::Unknown("networks are allowed and denied in turn".into())
}

/// The routes with what access adds to them.
pub(crate) fn guard(access: &Access, routes: Vec<Route>) -> Vec<Route> {
    let refused = |route: &Route| {
        let mut refused = route.clone();
        refused.target = Target::Respond { status: 403, body: None };
        refused.response = Vec::new();
        refused.request = Vec::new();
        refused
    };
    let mut all = Vec::new();
    for route in routes {
        let client = |networks: &[String]| Match { client: networks.to_vec(), ..Match::default() };
        match access {
            Access::Open => all.push(route),
            Access::Closed => all.push(refused(&route)),
            Access::Unknown(why) => {
                let mut closed = refused(&route);
                closed.notes.push(format!("closed, because there is no counterpart of `{why}`"));
                all.push(closed);
            }
            Access::Only(networks) => {
                let mut allowed = route.clone();
                if let Some(condition) = route.condition.and(&client(networks)) {
                    allowed.condition = condition;
                    all.push(allowed);
                }
                all.push(refused(&route));
            }
            Access::Except(networks) => {
                let mut denied = refused(&route);
                if let Some(condition) = route.condition.and(&client(networks)) {
                    denied.condition = condition;
                    all.push(denied);
                }
                all.push(route);
            }
        }
    }
    all
}

/// `limit_except`: the methods that are for all, and who may use the others.
pub(crate) fn limit_except<'a>(cx: &Context<'_>, scope: &Scope<'a>) -> Option<(Vec<String>, Access)> {
    let directive = scope.own().iter().find(|directive| directive.name == "limit_except")?;
    cx.say(directive, Kind::Translated, "");
    Some((directive.args.clone(), of(cx, &scope.within(directive.inside()))))
}
