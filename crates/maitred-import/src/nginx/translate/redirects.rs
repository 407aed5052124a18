//! `proxy_redirect`, `proxy_cookie_domain` and `proxy_cookie_path`: what becomes of redirects and cookies of a server.

use super::context::Context;
use crate::model::{Block, Value};
use crate::nginx::scope::Scope;
use crate::nginx::tree::Directive;
use crate::nginx::values;

/// What stands for the host that the client has asked: behind it a path is left.
const CLIENT: [&str; 8] = [
    "$scheme://$host:$server_port",
    "$scheme://$http_host",
    "$scheme://$host",
    "https://$http_host",
    "http://$http_host",
    "https://$host",
    "http://$host",
    "$scheme://$server_name",
];

/// Adds the keys of a pool.
pub(super) fn map(cx: &Context<'_>, scope: &Scope<'_>, block: &mut Block) {
    let redirects: Vec<_> = scope.all("proxy_redirect");
    for directive in &redirects {
        match directive.arg(0) {
            "off" => {
                cx.translated(directive);
                if redirects.len() == 1 {
                    block.push("map_redirects", false, None);
                }
            }
            "default" => {
                cx.not_needed(directive, "redirects to the server itself are mapped (`map_redirects`)")
            }
            _ => {}
        }
    }
    let is_url = |text: &str| ["/", "http://", "https://"].iter().any(|start| text.starts_with(start));
    let found = pairs(cx, scope, "proxy_redirect", is_url);
    if !found.is_empty() {
        block.push("redirects", Value::Table(found), None);
    }
    let domains = pairs(cx, scope, "proxy_cookie_domain", |text| !text.contains(['/', ':', '=', ';']));
    let paths = pairs(cx, scope, "proxy_cookie_path", |text| text.starts_with('/') && !text.contains(';'));
    let tables = [("domain", domains), ("path", paths)];
    let cookies: Vec<_> = tables
        .into_iter()
        .filter(|(_, pairs)| !pairs.is_empty())
        .map(|(key, pairs)| (key.to_owned(), Value::Table(pairs)))
        .collect();
    if !cookies.is_empty() {
        block.push("cookies", Value::Table(cookies), None);
    }
}

/// The pairs of a directive whose halves have no variables, and are as they have to be.
fn pairs(cx: &Context<'_>, scope: &Scope<'_>, name: &str, is: impl Fn(&str) -> bool) -> Vec<(String, Value)> {
    let mut found: Vec<(String, Value)> = Vec::new();
    for directive in scope.all(name) {
        if ["off", "default"].contains(&directive.arg(0)) {
            if name != "proxy_redirect" {
                cx.not_needed(directive, "cookies are passed on as they are");
            }
            continue;
        }
        match pair(directive, scope).filter(|(from, to)| is(from) && is(to)) {
            Some((from, _)) if found.iter().any(|(known, _)| *known == from) => cx.translated(directive),
            Some((from, to)) => {
                cx.translated(directive);
                found.push((from, to.into()));
            }
            None => cx.not_possible(
                directive,
                "beginnings of references, domains and paths of cookies are fixed here, without regular expressions",
            ),
        }
    }
    found
}

fn pair(directive: &Directive, scope: &Scope<'_>) -> Option<(String, String)> {
    let from = values::fixed(directive.arg(0), scope).filter(|from| !from.is_empty())?;
    let to = directive.arg(1);
    let path = CLIENT.iter().find_map(|client| to.strip_prefix(client)).filter(|path| path.starts_with('/'));
    let rest = to.strip_prefix("$scheme://").or(to.strip_prefix("${scheme}://"));
    let absolute = rest.and_then(|rest| Some(format!("{}://{rest}", super::fields::scheme(scope)?)));
    let to = path.or(absolute.as_deref()).unwrap_or(to);
    let to = values::fixed(to, scope).filter(|to| !to.is_empty())?;
    Some((from, to))
}
