//! `ssl_verify_client`: certificates that clients show. They belong to an address here, and to a server there: where the servers
//! of an address differ, the address asks for one, and the site refuses those without.

use super::access::{self, Access};
use super::context::{Context, in_conf};
use super::listeners::Listener;
use super::listens::Server;
use crate::drafts::{Match, Route, Target};
use crate::model::Value;
use crate::nginx::scope::Scope;
use crate::nginx::tree::Directive;
use crate::report::Kind;

/// The directive, unless no certificate is asked for.
fn asked<'a>(scope: &Scope<'a>) -> Option<&'a Directive> {
    scope.last("ssl_verify_client").filter(|directive| directive.arg(0) != "off")
}

fn is_required(server: &Server<'_>) -> bool {
    asked(&server.scope).is_some_and(|directive| directive.arg(0) == "on")
}

/// The file of the authority of a server, if it is there.
fn authority(cx: &Context<'_>, scope: &Scope<'_>) -> Option<String> {
    let file = in_conf(scope.last("ssl_client_certificate")?.arg(0));
    cx.machine.has_file(&file).then_some(file)
}

/// `client_auth`, `client_ca` and `client_crl` of an address.
pub(super) fn of_listener(cx: &Context<'_>, listener: &Listener<'_, '_>, entries: &mut Vec<(String, Value)>) {
    let asking: Vec<&&Server<'_>> =
        listener.servers.iter().filter(|server| asked(&server.scope).is_some()).collect();
    let Some(file) = asking.iter().find_map(|server| authority(cx, &server.scope)) else { return };
    let all = listener.servers.iter().all(|server| is_required(server));
    entries.push(("client_auth".to_owned(), if all { "required" } else { "optional" }.into()));
    entries.push(("client_ca".to_owned(), file.into()));
    let lists = asking.iter().filter_map(|server| server.scope.last("ssl_crl"));
    if let Some((given, list)) =
        lists.map(|given| (given, in_conf(given.arg(0)))).find(|(_, list)| cx.machine.has_file(list))
    {
        cx.translated(given);
        entries.push(("client_crl".to_owned(), list.into()));
    }
}

/// The routes of a server behind what it asks of certificates.
pub(super) fn guard(
    cx: &Context<'_>,
    server: &Server<'_>,
    listeners: &[&Listener<'_, '_>],
    mut routes: Vec<Route>,
) -> Vec<Route> {
    let Some(directive) = asked(&server.scope) else { return routes };
    let tls: Vec<&&Listener<'_, '_>> = listeners.iter().filter(|listener| listener.tls).collect();
    if tls.is_empty() {
        return routes;
    }
    let of_others =
        tls.iter().flat_map(|listener| &listener.servers).filter(|other| asked(&other.scope).is_some());
    let file = authority(cx, &server.scope);
    let shared = of_others.clone().all(|other| authority(cx, &other.scope) == file);
    let known = ["on", "optional"].contains(&directive.arg(0));
    let revoked =
        server.scope.last("ssl_crl").is_none_or(|given| cx.machine.has_file(&in_conf(given.arg(0))));
    if file.is_none() || !shared || !known || !revoked {
        let why = match (known, file.is_none() || !revoked) {
            (false, _) => "certificates of clients are verified by the server",
            (true, true) => "the authority's certificate, or its list, is not there on this machine",
            (true, false) => "an address has one authority for certificates of clients",
        };
        cx.not_possible(directive, format!("{why}: what it protects answers 403 instead"));
        return access::guard(&Access::Unknown(directive.shown()), routes);
    }
    ["ssl_client_certificate", "ssl_verify_depth"]
        .iter()
        .filter_map(|name| server.scope.last(name))
        .for_each(|own| {
            cx.translated(own);
        });
    if directive.arg(0) != "on" {
        cx.translated(directive);
        return routes;
    }
    cx.say(
        directive,
        Kind::Choice,
        "a client without a certificate gets no connection, where nginx answers 400",
    );
    if tls.iter().any(|listener| !listener.servers.iter().all(|other| is_required(other))) {
        let shown = Match { client_certificate: Some(true), ..Match::default() };
        let mut refused =
            Route::new(&directive.place, &directive.shown(), Target::Respond { status: 400, body: None });
        refused.condition = Match { not: vec![shown], ..Match::default() };
        if listeners.iter().any(|listener| !listener.tls) {
            refused.condition.tls = Some(true);
        }
        routes.insert(0, refused);
        cx.say(directive, Kind::Translated, "the sites of the address that need one refuse clients without");
    }
    routes
}
