//! `add_header`, `expires`, `proxy_set_header`, `proxy_hide_header`.

use super::context::Context;
use super::forward;
use super::tokens;
use crate::drafts::{Header, How};
use crate::nginx::scope::Scope;
use crate::nginx::tree::Directive;
use crate::nginx::values::{self, Part};
use crate::report::Kind;
use crate::write;

/// Header fields of the responses of a location.
#[derive(Debug, Default)]
pub(crate) struct Responses {
    /// For all responses.
    pub(crate) rules: Vec<Header>,
    /// For what is found, which an error must not have.
    pub(crate) files: Vec<(String, String)>,
    /// What caches are told of what is found.
    pub(crate) expires: Vec<(String, String)>,
}

/// Fields of which a response may have several.
const BESIDE: &[&str] = &["set-cookie", "link", "vary", "via", "www-authenticate"];
/// Fields about a response that exists.
const OF_FILES: &[&str] =
    &["cache-control", "expires", "pragma", "content-type", "accept-ranges", "content-disposition"];
/// Fields that delimit messages.
const REFUSED: &[&str] = &[
    "content-length",
    "transfer-encoding",
    "connection",
    "keep-alive",
    "upgrade",
    "trailer",
    "te",
    "date",
    "content-encoding",
];

/// What `add_header`, `expires` and `proxy_hide_header` say.
pub(crate) fn of_responses(cx: &Context<'_>, scope: &Scope<'_>) -> Responses {
    let mut found = Responses::default();
    for name in ["proxy_hide_header", "fastcgi_hide_header"] {
        for directive in scope.all(name) {
            cx.translated(directive);
            let hidden = directive.arg(0).to_owned();
            found.rules.push(Header { how: How::Remove, name: hidden, value: String::new() });
        }
    }
    found.expires = expires(cx, scope);
    let mut control: Vec<String> = Vec::new();
    for directive in scope.all_of(&["add_header", "more_set_headers", "more_clear_headers"]) {
        for (name, value) in fields(directive) {
            add(cx, scope, directive, (&name, &value), &mut found, &mut control);
        }
    }
    if !control.is_empty() {
        // Two lines in nginx; one with both says the same.
        for (_, value) in found.expires.iter_mut().filter(|(_, value)| value != "off") {
            *value = format!("{}, {}", directives(value), control.join(", "));
        }
        if found.expires.is_empty() {
            found.expires.push(("default".to_owned(), control.join(", ")));
        }
    }
    // What is set replaces what was there: nothing has to be removed first.
    let set: Vec<String> =
        found.rules.iter().filter(|rule| rule.how == How::Set).map(|rule| rule.name.clone()).collect();
    let is_set = |name: &str| set.iter().any(|set| set.eq_ignore_ascii_case(name));
    found.rules.retain(|rule| rule.how != How::Remove || !is_set(&rule.name));
    found
}

/// The fields that a directive names: `add_header NAME VALUE`, `more_set_headers "NAME: VALUE" …`.
fn fields(directive: &Directive) -> Vec<(String, String)> {
    if directive.name == "add_header" {
        return vec![(directive.arg(0).to_owned(), directive.arg(1).to_owned())];
    }
    let split = |text: &String| match text.split_once(':') {
        Some((name, value)) => (name.trim().to_owned(), value.trim().to_owned()),
        None => (text.trim().to_owned(), String::new()),
    };
    directive.args.iter().filter(|arg| !arg.starts_with('-')).map(split).collect()
}

fn add(
    cx: &Context<'_>,
    scope: &Scope<'_>,
    directive: &Directive,
    (name, value): (&str, &str),
    found: &mut Responses,
    control: &mut Vec<String>,
) {
    let lower = name.to_ascii_lowercase();
    if lower == "server" {
        let why = "`server_header = false` in [server] takes the field away";
        return cx.say(directive, Kind::Choice, why);
    }
    if REFUSED.contains(&lower.as_str()) {
        let why = "this field delimits the message, and is the server's own";
        return cx.say(directive, Kind::Choice, why);
    }
    if forward::is_cookie(scope, directive) {
        cx.translated(directive);
        let of_it = forward::answers(scope).into_iter().filter(|(variable, ..)| *variable == value);
        return of_it.for_each(|(.., set)| cx.translated(set));
    }
    let Some(value) = header_value(scope, value) else {
        let Some(value) = default_of(cx, name, value) else { return variable(cx, scope, directive, value) };
        cx.translated(directive);
        return found.rules.push(Header { how: How::IfAbsent, name: name.to_owned(), value });
    };
    cx.translated(directive);
    let rule = |how| Header { how, name: name.to_owned(), value: value.clone() };
    match lower.as_str() {
        _ if value.is_empty() && directive.name != "add_header" => found.rules.push(rule(How::Remove)),
        _ if value.is_empty() => {}
        "cache-control" => control.push(value),
        lower if OF_FILES.contains(&lower) => found.files.push((name.to_owned(), value)),
        lower if BESIDE.contains(&lower) => found.rules.push(rule(How::Add)),
        _ => found.rules.push(rule(How::Set)),
    }
}

/// `map $upstream_http_NAME $value { '' DEFAULT; }`: what the field is where the application sends none.
fn default_of(cx: &Context<'_>, name: &str, value: &str) -> Option<String> {
    let map = cx.map(value)?;
    let lower = name.to_ascii_lowercase().replace('-', "_");
    let same = ["$upstream_http_", "$sent_http_"].iter().any(|begin| map.arg(0) == format!("{begin}{lower}"));
    match map.inside() {
        [row] if same && row.name.is_empty() && !row.arg(0).contains('$') => Some(row.arg(0).to_owned()),
        _ => None,
    }
}

/// A value without line breaks; of several lines one is made, as old configurations have them.
fn header_value(scope: &Scope<'_>, value: &str) -> Option<String> {
    let fixed = values::fixed(value, scope)?;
    Some(fixed.split_whitespace().collect::<Vec<_>>().join(" "))
}

fn variable(cx: &Context<'_>, scope: &Scope<'_>, directive: &Directive, value: &str) {
    let about_cache = |part: &Part| {
        let Part::Variable(name) = part else { return false };
        name.starts_with("upstream_")
            || ["cache_status", "skip_cache", "request_time"].contains(&name.as_str())
    };
    match values::parts(value, scope).iter().any(about_cache) {
        true => cx.say(directive, Kind::Choice, "it tells of nginx's own cache and servers, for debugging"),
        false => cx.not_possible(directive, "values of fields are fixed here, without variables"),
    }
}

/// What a time says as a directive of `Cache-Control`.
pub(super) fn directives(value: &str) -> String {
    match values::millis(value) {
        Some(millis) => format!("max-age={}", millis / 1000),
        None => value.to_owned(),
    }
}

/// `expires`, as the key of the same name.
fn expires(cx: &Context<'_>, scope: &Scope<'_>) -> Vec<(String, String)> {
    let Some(directive) = scope.last("expires") else { return Vec::new() };
    let text = if directive.arg(0) == "modified" { directive.arg(1) } else { directive.arg(0) };
    let found = match values::fixed(text, scope) {
        Some(text) => lifetime(&text).map(|value| vec![("default".to_owned(), value)]),
        None => by_type(cx, text),
    };
    match found {
        Some(found) => {
            cx.translated(directive);
            let says = found.iter().any(|(_, value)| value != "off");
            if says { found } else { Vec::new() }
        }
        None => {
            cx.not_possible(directive, "the time is fixed here, without variables and times of day");
            Vec::new()
        }
    }
}

/// A value of `expires`.
fn lifetime(text: &str) -> Option<String> {
    match text {
        "off" => Some("off".to_owned()),
        "max" => Some("max-age=315360000".to_owned()),
        "epoch" => Some("no-cache".to_owned()),
        text if text.starts_with('-') => Some("no-cache".to_owned()),
        text => values::millis(text.trim_start_matches('+')).map(|millis| match millis {
            _ if millis > 0 && millis.is_multiple_of(86_400_000) => format!("{}d", millis / 86_400_000),
            millis => write::time(millis),
        }),
    }
}

/// `map $sent_http_content_type $expires { … }`
fn by_type(cx: &Context<'_>, variable: &str) -> Option<Vec<(String, String)>> {
    let map = cx.map(variable)?;
    if !["$sent_http_content_type", "$upstream_http_content_type"].contains(&map.arg(0)) {
        return None;
    }
    let mut found = Vec::new();
    for row in map.inside() {
        let value = lifetime(row.arg(0))?;
        let kind = match row.name.as_str() {
            "default" => "default".to_owned(),
            regex if regex.starts_with('~') => family(regex)?,
            kind => kind.to_ascii_lowercase(),
        };
        // Files have the newer one of the two (RFC 9239).
        let newer = (kind == "application/javascript").then(|| "text/javascript".to_owned());
        for kind in newer.into_iter().chain([kind]).filter(|kind| kind == "default" || kind.contains('/')) {
            if !found.iter().any(|(known, _)| *known == kind) {
                found.push((kind, value.clone()));
            }
        }
    }
    Some(found)
}

/// `~image/`, `~*^image/` and `~image/.*` as `image/*`.
fn family(regex: &str) -> Option<String> {
    let bare = regex.trim_start_matches(['~', '*', '^']).replace("\\/", "/");
    let (kind, rest) = bare.split_once('/')?;
    let plain = !kind.is_empty() && kind.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
    (plain && ["", ".*", ".+", "*"].contains(&rest)).then(|| format!("{}/*", kind.to_ascii_lowercase()))
}

/// Fields of requests that every pool gets, or that make no sense here.
const SENT: &str = "x-real-ip proxy x-forwarded-for x-forwarded-proto x-forwarded-host x-forwarded-port x-forwarded-server \
                    x-forwarded-scheme x-scheme x-forwarded-protocol forwarded upgrade connection x-forwarded-ssl \
                    x-original-uri x-original-url x-original-forwarded-for x-request-id x-url-scheme remote-host \
                    x-nginx-proxy x-request-start front-end-https x-forwarded-uri early-data x-forwarded-method x-client-ip \
                    client-ip sec-websocket-extensions sec-websocket-key sec-websocket-version te keep-alive \
                    proxy-connection x-forwarded-path content-length transfer-encoding x-original-host x-forwarded-by x-original-method x-auth-request-redirect";

/// Whether a `proxy_set_header` names such a field, or the host.
pub(crate) fn is_sent(directive: &Directive) -> bool {
    let lower = directive.arg(0).to_ascii_lowercase();
    lower == "host" || SENT.split_whitespace().any(|sent| sent == lower)
}

/// Whether a value is the client's address and nothing else.
fn is_client(value: &str) -> bool {
    let bare = value.trim_start_matches("${").trim_start_matches('$').trim_end_matches('}');
    ["remote_addr", "proxy_add_x_forwarded_for", "realip_remote_addr"].contains(&bare)
}

/// Whether a `proxy_set_header` gives the server the host that `proxy_pass` names.
pub(crate) fn names_server(directive: &Directive) -> bool {
    let named = ["$proxy_host", "${proxy_host}", "$proxy_host:$proxy_port"].contains(&directive.arg(1));
    named && directive.arg(0).eq_ignore_ascii_case("host")
}

/// What `proxy_set_header` says.
pub(crate) fn of_requests(cx: &Context<'_>, scope: &Scope<'_>, named: &str) -> Vec<Header> {
    let mut rules = Vec::new();
    for directive in scope.all(named) {
        let (name, value) = (directive.arg(0), directive.arg(1));
        let lower = name.to_ascii_lowercase();
        let same = format!("$http_{}", lower.replace('-', "_"));
        let rule = |how, value: &str| Header { how, name: name.to_owned(), value: value.to_owned() };
        match values::fixed(value, scope) {
            // `forward_auth` has it.
            _ if forward::is_copied(scope, name, value) => {}
            // `jwt` has it.
            _ if tokens::is_claim(scope, value) => {}
            _ if value == same => cx.not_needed(directive, "fields of requests are passed on"),
            _ if SENT.split_whitespace().any(|sent| sent == lower) => {
                cx.not_needed(directive, "applications get who the client is, and WebSockets are passed on");
            }
            None if names_server(directive) => cx.translated(directive),
            None if lower == "host" => cx.not_needed(directive, "applications get the client's `Host`"),
            Some(fixed) if fixed.is_empty() => {
                cx.translated(directive);
                rules.push(rule(How::Remove, ""));
            }
            Some(fixed) => {
                cx.translated(directive);
                rules.push(rule(How::Set, &fixed));
            }
            None if is_client(value) => {
                let why = "the client's address is in `X-Forwarded-For`, and for FastCGI and processes in `REMOTE_ADDR`";
                cx.say(directive, Kind::Worse, why);
            }
            None if value.contains("$ssl_client") => {
                cx.not_needed(directive, "applications get the client's certificate in `X-SSL-Client-*`");
            }
            None => cx.not_possible(directive, "values of fields are fixed here, without variables"),
        }
    }
    rules
}
