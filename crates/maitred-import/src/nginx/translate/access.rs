//! `allow`, `deny`, `limit_except` and what protects a location otherwise. What cannot be said closes the location.

use super::context::{Context, in_conf};
use super::forward;
use super::headers;
use super::tokens::{self, Credentials};
use crate::drafts::{Route, Target};
use crate::model::Value;
use crate::nginx::scope::Scope;
use crate::nginx::tree::Directive;
use crate::nginx::values;
use crate::report::Kind;

/// Who may.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Access {
    /// All clients.
    Open,
    /// None.
    Closed,
    /// None, because it cannot be said who may.
    Unknown(String),
    /// Clients that pass the gates.
    Gated(Gates),
}

/// Keys of a route that say which clients may.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Gates {
    keys: Vec<(&'static str, Value)>,
    /// A key that is a comment, and when it can be used.
    later: Option<(&'static str, Value, String)>,
}

/// Whose address passes.
#[derive(Debug, Clone, PartialEq)]
enum Networks {
    All,
    None,
    Unknown(String),
    /// `allow`, and exceptions from it.
    Only(Vec<String>, Vec<String>),
    /// `deny`
    Except(Vec<String>),
}

/// Who may see what is in a scope.
pub(crate) fn of(cx: &Context<'_>, scope: &Scope<'_>) -> Access {
    if let Some(what) = unknown(cx, scope) {
        return Access::Unknown(what);
    }
    let networks = networks(cx, scope);
    let satisfy = scope.last("satisfy").inspect(|satisfy| cx.translated(satisfy));
    let any = satisfy.is_some_and(|satisfy| satisfy.arg(0) == "any");
    let password = match of_kind(cx, scope, "auth_basic").map(|given| (given, password(cx, scope, given))) {
        None => None,
        Some((_, Some(password))) => Some(password),
        Some((given, None)) => return Access::Unknown(given.shown()),
    };
    let token = match of_kind(cx, scope, "auth_jwt").map(|given| (given, tokens::of(cx, scope, given))) {
        None => None,
        Some((given, _)) if password.is_some() => {
            cx.not_possible(
                given,
                "a password and a token are both asked for: what they protect answers 403 instead",
            );
            return Access::Unknown(given.shown());
        }
        Some((_, Ok(token))) => Some(token),
        Some((given, Err(why))) => {
            cx.not_possible(given, format!("{why}: what it protects answers 403 instead"));
            return Access::Unknown(given.shown());
        }
    };
    let password = password.or(token);
    let asked = match of_kind(cx, scope, "auth_request").map(|given| (given, forward::of(cx, scope, given))) {
        None => None,
        Some((given, _)) if any && (password.is_some() || networks != Networks::All) => {
            cx.not_possible(
                given,
                "`satisfy any` is about addresses and passwords or tokens here: what it protects answers 403 instead",
            );
            return Access::Unknown(given.shown());
        }
        Some((_, Ok(table))) => Some(table),
        Some((given, Err(why))) => {
            cx.not_possible(given, format!("{why}: what it protects answers 403 instead"));
            return Access::Unknown(given.shown());
        }
    };
    combined(networks, password, asked, any)
}

/// What protects a scope in a way that there is no counterpart of.
fn unknown(cx: &Context<'_>, scope: &Scope<'_>) -> Option<String> {
    let mut found = None;
    for (name, why) in [
        ("auth_pam", "passwords are those of a file"),
        ("auth_ldap", "passwords are those of a file"),
        ("auth_digest", "passwords are asked for in another way"),
    ] {
        let Some(directive) = of_kind(cx, scope, name) else { continue };
        cx.not_possible(directive, format!("{why}: what it protects answers 403 instead"));
        found = Some(directive.shown());
    }
    found
}

/// The directive that holds, unless it is `off`.
fn of_kind<'a>(cx: &Context<'_>, scope: &Scope<'a>, name: &str) -> Option<&'a Directive> {
    let directive = scope.last(name)?;
    if directive.arg(0) == "off" {
        cx.not_needed(directive, "nothing is asked for");
        return None;
    }
    Some(directive)
}

fn combined(networks: Networks, password: Option<Credentials>, asked: Option<Value>, any: bool) -> Access {
    let any = any && password.is_some();
    let mut gates = Gates::default();
    match networks {
        Networks::Unknown(why) => return Access::Unknown(why),
        Networks::None if !any => return Access::Closed,
        Networks::None => gates.keys.push(("deny", Value::texts(&["@all"]))),
        Networks::All => {}
        Networks::Only(allowed, denied) => {
            gates.keys.push(("allow", Value::texts(&allowed)));
            if !denied.is_empty() {
                gates.keys.push(("deny", Value::texts(&denied)));
            }
        }
        Networks::Except(denied) => gates.keys.push(("deny", Value::texts(&denied))),
    }
    let by_address = !gates.keys.is_empty();
    match password {
        Some(password) if password.there => {
            gates.keys.insert(0, (password.key, password.table));
            if any && by_address {
                gates.keys.push(("satisfy", "any".into()));
            }
        }
        Some(password) => {
            gates.later =
                Some((password.key, password.table, format!("{} is there on this machine", password.file)));
            // Until then no client has a password: only with `satisfy any` an address is enough.
            if !any {
                gates.keys.clear();
                return Access::Gated(gates);
            }
        }
        None => {}
    }
    gates.keys.extend(asked.map(|table| ("forward_auth", table)));
    match gates == Gates::default() {
        true => Access::Open,
        false => Access::Gated(gates),
    }
}

fn password(cx: &Context<'_>, scope: &Scope<'_>, directive: &Directive) -> Option<Credentials> {
    let given = scope.last("auth_basic_user_file");
    let file = given.and_then(|given| values::fixed(given.arg(0), scope)).map(|file| in_conf(&file));
    let (Some(given), Some(file), Some(realm)) = (given, file, values::fixed(directive.arg(0), scope)) else {
        cx.not_possible(directive, "realm and file are fixed here: what it protects answers 403 instead");
        return None;
    };
    let there = cx.machine.has_file(&file);
    let why = if there {
        ""
    } else {
        "as a comment: the file is not there on this machine, and until then no client may"
    };
    cx.say(directive, Kind::Translated, why);
    cx.say(given, Kind::Translated, why);
    let table = vec![("realm".to_owned(), realm.into()), ("users_file".to_owned(), file.as_str().into())];
    Some(Credentials { key: "basic_auth", table: Value::Table(table), file, there })
}

fn networks(cx: &Context<'_>, scope: &Scope<'_>) -> Networks {
    let rules = scope.all_of(&["allow", "deny"]);
    let (mut allowed, mut denied) = (Vec::new(), Vec::new());
    let mut closed = false;
    for directive in &rules {
        match (directive.name.as_str(), directive.arg(0)) {
            ("deny", "all") => {
                closed = true;
                break;
            }
            ("allow", "all") => break,
            (_, "unix:") => {}
            ("allow", network) => allowed.push((network.to_owned(), denied.len())),
            (_, network) => denied.push(network.to_owned()),
        }
    }
    if closed {
        // What is denied behind the last network that is allowed is denied anyway.
        denied.truncate(allowed.iter().map(|(_, before)| *before).max().unwrap_or(0));
    }
    // A network that is allowed before another one is denied may be a part of it.
    let in_turn = allowed.iter().any(|(_, before)| *before < denied.len());
    if in_turn {
        for rule in &rules {
            let why = "networks within others are allowed and denied in turn: what they protect answers 403 instead";
            cx.not_possible(rule, why);
        }
        return Networks::Unknown("networks are allowed and denied in turn".into());
    }
    rules.iter().for_each(|rule| cx.translated(rule));
    let allowed: Vec<String> = allowed.into_iter().map(|(network, _)| network).collect();
    match (closed, allowed.is_empty(), denied.is_empty()) {
        (true, true, _) => Networks::None,
        (true, false, _) => Networks::Only(allowed, denied),
        (false, _, true) => Networks::All,
        (false, _, false) => Networks::Except(denied),
    }
}

/// The routes with what access adds to them.
pub(crate) fn guard(access: &Access, mut routes: Vec<Route>) -> Vec<Route> {
    for route in &mut routes {
        let closed = match access {
            Access::Open => false,
            Access::Closed => true,
            Access::Unknown(why) => {
                route.notes.push(format!("closed, because there is no counterpart of `{why}`"));
                true
            }
            Access::Gated(gates) => {
                route.gates.extend(gates.keys.iter().cloned());
                route.later.clone_from(&gates.later);
                false
            }
        };
        if closed {
            route.target = Target::Respond { status: 403, body: None };
            route.request = Vec::new();
            route.expires = Vec::new();
            route.response.retain(headers::is_of_errors);
        }
    }
    routes
}

/// `limit_except`: the methods that are for all, and who may use the others.
pub(crate) fn limit_except<'a>(cx: &Context<'_>, scope: &Scope<'a>) -> Option<(Vec<String>, Access)> {
    let directive = scope.own().iter().find(|directive| directive.name == "limit_except")?;
    cx.say(directive, Kind::Translated, "");
    Some((directive.args.clone(), of(cx, &scope.within(directive.inside()))))
}
