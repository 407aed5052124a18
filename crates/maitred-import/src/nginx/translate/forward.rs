//! `auth_request`: another server that is asked whether a client may.

use super::context::{self, Context};
use super::fields;
use super::settings::Settings;
use super::upstreams;
use crate::model::Value;
use crate::nginx::scope::Scope;
use crate::nginx::tree::Directive;
use crate::report::Kind;
use crate::write;

/// Paths of Authelia and authentik for nginx, and those for servers that describe the request in `X-Forwarded-*`.
const DESCRIBED: &[(&str, &str)] =
    &[("/api/authz/auth-request", "/api/authz/forward-auth"), ("/auth/nginx", "/auth/traefik")];

/// How long the other server may take, in milliseconds, unless told otherwise.
const TIMEOUT: u64 = 10_000;

/// The table `forward_auth`.
///
/// # Errors
/// Why it is not possible.
pub(crate) fn of(cx: &Context<'_>, scope: &Scope<'_>, directive: &Directive) -> Result<Value, String> {
    let path = directive.arg(0);
    let location = context::location(scope, path).ok_or("no location has this path")?;
    let inner = scope.of_server().within(location.inside());
    let handler = location.inside().iter().find(|inside| inside.name == "proxy_pass");
    let handler = handler.ok_or("the location passes nothing on")?;
    let destination = upstreams::proxy(cx, &inner, handler)?;
    let target = match destination.rewrite.as_ref().or(destination.path.as_ref()) {
        Some(to) if to.contains(['{', '$']) => return Err("the path is fixed here, without variables".into()),
        Some(to) if destination.rewrite.is_some() => to.clone(),
        None => path.to_owned(),
        Some(to) => {
            let prefix = location.args.last().map_or("", String::as_str);
            format!("{to}{}", path.strip_prefix(prefix).unwrap_or_default())
        }
    };
    let described =
        DESCRIBED.iter().any(|(by_nginx, _)| target.ends_with(by_nginx)) || target.contains("/oauth2/");
    let (target, why) = match DESCRIBED.iter().find(|(by_nginx, _)| target.ends_with(by_nginx)) {
        Some((by_nginx, here)) => {
            let begin = target.strip_suffix(by_nginx).unwrap_or_default();
            (
                format!("{begin}{here}"),
                format!("as `{here}`, since the request is in `X-Forwarded-*` and not in `X-Original-URL`"),
            )
        }
        None => (target, String::new()),
    };
    let mut block = upstreams::block(cx, &inner, &destination.servers, handler, "proxy");
    upstreams::push_host(cx, &destination.servers, fields::host_of(cx, &inner), &mut block);
    let pool = cx.pool(&destination.servers.name, block);
    let mut table = vec![("pool".to_owned(), pool.into()), ("path".to_owned(), target.into())];
    let copied = copied(cx, scope);
    if !copied.is_empty() {
        table.push(("copy_headers".to_owned(), Value::texts(&copied)));
    }
    for page in scope.all("error_page") {
        if let Some((to, said)) = sign_in(scope, page) {
            table.push(("sign_in".to_owned(), to.into()));
            cx.say(page, Kind::Translated, "browsers are redirected there");
            said.into_iter().for_each(|directive| cx.translated(directive));
            break;
        }
    }
    if scope.all("add_header").into_iter().any(|field| is_cookie(scope, field)) {
        table.push(("set_cookies".to_owned(), true.into()));
    }
    if let Some((_, millis)) = (Settings { cx, scope: &inner }).time("proxy_read_timeout")
        && millis != TIMEOUT
        && inner.own().iter().any(|own| own.name == "proxy_read_timeout")
    {
        table.push(("timeout".to_owned(), write::time(millis.clamp(1, 86_400_000)).into()));
    }
    cx.say(directive, Kind::Translated, why);
    cx.translated(location);
    cx.translated(handler);
    sent(cx, &inner, location, described);
    Ok(Value::Table(table))
}

/// Whether `auth_request` holds.
fn is_asked(scope: &Scope<'_>) -> bool {
    scope.last("auth_request").is_some_and(|asked| asked.arg(0) != "off")
}

/// Where an `error_page` beside `auth_request` sends clients to sign in, and the directives that say so besides: the pages of
/// oauth2-proxy, another URL, and a named location that redirects.
pub(crate) fn sign_in<'a>(scope: &Scope<'a>, page: &'a Directive) -> Option<(String, Vec<&'a Directive>)> {
    let (to, statuses) = page.args.split_last()?;
    let of_401 = statuses.iter().filter(|status| !status.starts_with('=')).all(|status| status == "401");
    if !is_asked(scope) || !of_401 || statuses.is_empty() {
        return None;
    }
    let (to, said) = match to.starts_with('@') {
        false => (to.as_str(), Vec::new()),
        true => {
            let all = scope.everywhere("location");
            let location = *all.iter().find(|location| location.args == [to.as_str()])?;
            let [back] = location.inside() else { return None };
            let status = back.arg(0).parse().ok().filter(|status: &u16| matches!(status, 301..=303 | 307));
            (status.filter(|_| back.name == "return").map(|_| back.arg(1))?, vec![location, back])
        }
    };
    let plain = |byte: u8| byte.is_ascii_graphic() && !b"\"<>\\^`|{}".contains(&byte);
    if !to.bytes().all(plain) {
        return None;
    }
    let is_url = to.starts_with("http://") || to.starts_with("https://");
    let of_proxy = to.strip_prefix("$scheme://$host").or(to.strip_prefix("https://$host")).unwrap_or(to);
    match (of_proxy.starts_with("/oauth2/"), of_proxy.contains('?')) {
        // The page itself is told what was asked for by `X-Auth-Request-Redirect`, or in `rd`.
        (true, false) => Some((format!("{of_proxy}?rd={{uri}}"), said)),
        (true, true) => Some((placeholders(of_proxy)?, said)),
        (false, _) if is_url => Some((placeholders(to)?, said)),
        (false, _) => None,
    }
}

/// A place with placeholders instead of variables; `None` if it has others.
fn placeholders(text: &str) -> Option<String> {
    const WHOLE: [&str; 3] =
        ["$scheme://$http_host$request_uri", "$scheme://$host$request_uri", "https://$host$request_uri"];
    let text = WHOLE.iter().fold(text.to_owned(), |text, whole| text.replace(whole, "{url}"));
    let text = text.replace("$request_uri", "{uri}");
    (!text.contains('$')).then_some(text)
}

/// Whether a field of the response has the cookies of the answer: `add_header Set-Cookie $cookie`, after `auth_request_set
/// $cookie $upstream_http_set_cookie`.
pub(crate) fn is_cookie(scope: &Scope<'_>, field: &Directive) -> bool {
    field.arg(0).eq_ignore_ascii_case("set-cookie")
        && is_asked(scope)
        && answers(scope)
            .iter()
            .any(|(variable, upstream, _)| *variable == field.arg(1) && *upstream == "set_cookie")
}

/// What stands in the location of the question besides where it leads.
fn sent(cx: &Context<'_>, scope: &Scope<'_>, location: &Directive, described: bool) {
    for inside in location.inside() {
        match inside.name.as_str() {
            "internal" => cx.translated(inside),
            "proxy_pass_request_body" => cx.not_needed(inside, "the question has no body"),
            _ => {}
        }
    }
    scope
        .all("proxy_set_header")
        .into_iter()
        .for_each(|field| fields::of_question(cx, scope, field, described));
}

/// Variables of `auth_request_set` that stand for a field of the answer, with the field's name as variables have it.
pub(crate) fn answers<'a>(scope: &Scope<'a>) -> Vec<(&'a str, &'a str, &'a Directive)> {
    let of = |directive: &'a Directive| {
        let field = directive.arg(1).strip_prefix('$')?.trim_matches(['{', '}']);
        let field = field.strip_prefix("upstream_http_").or_else(|| field.strip_prefix("sent_http_"))?;
        Some((directive.arg(0), field, directive))
    };
    scope.all("auth_request_set").into_iter().filter_map(of).collect()
}

/// Whether a field of the request is that of the answer: `Remote-User $user`, after `auth_request_set $user
/// $upstream_http_remote_user`.
pub(crate) fn is_copied(scope: &Scope<'_>, name: &str, value: &str) -> bool {
    let field = name.to_ascii_lowercase().replace('-', "_");
    let direct = value.strip_prefix("$upstream_http_").is_some_and(|upstream| upstream == field);
    let set = answers(scope).iter().any(|(variable, upstream, _)| *variable == value && *upstream == field);
    is_asked(scope) && (direct || set)
}

fn copied(cx: &Context<'_>, scope: &Scope<'_>) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    for directive in scope.all("proxy_set_header") {
        let (name, value) = (directive.arg(0), directive.arg(1));
        if !is_copied(scope, name, value) {
            continue;
        }
        cx.translated(directive);
        answers(scope)
            .iter()
            .filter(|(variable, _, _)| *variable == value)
            .for_each(|(_, _, set)| cx.translated(set));
        if !found.iter().any(|known| known.eq_ignore_ascii_case(name)) {
            found.push(name.to_owned());
        }
    }
    for directive in scope.all("fastcgi_param") {
        let field = directive.arg(0).strip_prefix("HTTP_").map(|field| field.to_ascii_lowercase());
        let Some(field) = field.filter(|field| is_copied(scope, field, directive.arg(1))) else { continue };
        cx.translated(directive);
        found.push(crate::nginx::values::field_name(&field));
    }
    found
}
