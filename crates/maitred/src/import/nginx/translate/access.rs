//! `allow`, `deny`, `limit_except` and what protects a location otherwise. What cannot be said closes the location.

use super::context::{Context, in_conf};
use crate::import::drafts::{Match, Route, Target};
use crate::import::model::Value;
use crate::import::nginx::scope::Scope;
use crate::import::nginx::tree::Directive;
use crate::import::nginx::values;
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
    /// Users with passwords, besides or instead of these networks.
    Password(Box<Password>),
}

/// `auth_basic`
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Password {
    realm: String,
    file: String,
    /// Whether the file is there.
    there: bool,
    /// Whose address passes.
    networks: Access,
    /// `satisfy any`
    any: bool,
}

/// Who may see what is in a scope.
pub(crate) fn of(cx: &Context<'_>, scope: &Scope<'_>) -> Access {
    let protections = [
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
    match (closed, scope.last("auth_basic")) {
        (Some(what), _) => Access::Unknown(what),
        (None, Some(directive)) if directive.arg(0) != "off" => password(cx, scope, directive),
        (None, Some(directive)) => {
            cx.automatic(directive, "nothing is asked for");
            networks(cx, scope)
        }
        (None, None) => networks(cx, scope),
    }
}

fn password(cx: &Context<'_>, scope: &Scope<'_>, directive: &Directive) -> Access {
    let given = scope.last("auth_basic_user_file");
    let file = given.and_then(|given| values::fixed(given.arg(0), scope)).map(|file| in_conf(&file));
    let (Some(given), Some(file), Some(realm)) = (given, file, values::fixed(directive.arg(0), scope)) else {
        cx.not_possible(directive, "realm and file are fixed here: what it protects answers 403 instead");
        return Access::Unknown(directive.shown());
    };
    let there = cx.machine.has_file(&file);
    let why = if there {
        ""
    } else {
        "as a comment: the file is not there on this machine, and until then no client may"
    };
    cx.say(directive, Kind::Translated, why);
    cx.say(given, Kind::Translated, why);
    let any = scope
        .last("satisfy")
        .inspect(|satisfy| cx.translated(satisfy))
        .is_some_and(|satisfy| satisfy.arg(0) == "any");
    Access::Password(Box::new(Password { realm, file, there, networks: networks(cx, scope), any }))
}

impl Password {
    /// The route with its gates.
    fn guard(&self, mut route: Route) -> Route {
        let (key, networks) = match &self.networks {
            Access::Only(networks) => ("allow", networks.clone()),
            Access::Except(networks) => ("deny", networks.clone()),
            Access::Closed | Access::Unknown(_) => ("deny", vec!["@all".to_owned()]),
            Access::Open | Access::Password(_) => ("", Vec::new()),
        };
        let table = vec![
            ("realm".to_owned(), self.realm.as_str().into()),
            ("users_file".to_owned(), self.file.as_str().into()),
        ];
        if !self.there {
            let when = format!("{} is there on this machine", self.file);
            route.later = Some(("basic_auth", Value::Table(table), when));
            if self.any && key == "allow" {
                // Those that need no password may already.
                route.gates.push(("allow", Value::texts(&networks)));
            }
            return route;
        }
        route.gates.push(("basic_auth", Value::Table(table)));
        if !networks.is_empty() {
            route.gates.push((key, Value::texts(&networks)));
            if self.any {
                route.gates.push(("satisfy", "any".into()));
            }
        }
        route
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
            Access::Password(password) => all.push(password.guard(route)),
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
