//! `mirror`: copies of requests for another server.

use super::context::{self, Context};
use super::fields;
use super::upstreams;
use crate::model::Value;
use crate::nginx::scope::Scope;
use crate::nginx::tree::Directive;
use crate::report::Kind;

/// `mirror` of a route.
pub(super) fn of(cx: &Context<'_>, scope: &Scope<'_>) -> Option<Value> {
    let all = scope.all("mirror");
    let (first, others) = all.split_first()?;
    if first.arg(0) == "off" {
        cx.not_needed(first, "no request is copied there");
        return None;
    }
    others.iter().for_each(|other| cx.not_possible(other, "a request has one copy"));
    match pool(cx, scope, first) {
        Ok(name) => {
            cx.translated(first);
            if let Some(body) = scope.last("mirror_request_body") {
                match body.arg(0) {
                    "off" => cx.say(body, Kind::Choice, "copies have the bodies of their requests"),
                    _ => cx.translated(body),
                }
            }
            Some(Value::Table(vec![("pool".to_owned(), name.into())]))
        }
        Err(why) => {
            cx.not_possible(first, why);
            None
        }
    }
}

/// The pool of the location that copies go to.
fn pool(cx: &Context<'_>, scope: &Scope<'_>, directive: &Directive) -> Result<String, String> {
    let location = context::location(scope, directive.arg(0)).ok_or("no location has this path")?;
    let inner = scope.of_server().within(location.inside());
    let handler = location.inside().iter().find(|inside| inside.name == "proxy_pass");
    let handler = handler.ok_or("the location passes nothing on")?;
    if !handler.arg(0).ends_with("$request_uri") {
        return Err("a copy has the target of its request".into());
    }
    if let Some(field) = location.inside().iter().find(|inside| inside.name == "proxy_set_header") {
        return Err(format!("a copy has the fields of its request, without `{}`", field.shown()));
    }
    let destination = upstreams::proxy(cx, &inner, handler)?;
    let mut block = upstreams::block(cx, &inner, &destination.servers, handler, "proxy");
    upstreams::push_host(cx, &destination.servers, fields::host_of(cx, &inner), &mut block);
    block.push("target", "as_sent", None);
    cx.translated(location);
    cx.translated(handler);
    Ok(cx.pool(&destination.servers.name, block))
}
