//! `add_header`, `expires`, `proxy_hide_header`.

use super::context::Context;
use super::forward;
use crate::drafts::{BRACES, Header, How};
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

/// Whether a response that is an error has the field.
pub(crate) fn is_of_errors(field: &Header) -> bool {
    field.how != How::Remove && !OF_FILES.contains(&field.name.to_ascii_lowercase().as_str())
}

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
    settled(&mut found.rules);
    found
}

/// What is added where nothing else is left of its name is set.
fn settled(rules: &mut Vec<Header>) {
    let names = |how: How| -> Vec<String> {
        rules.iter().filter(|rule| rule.how == how).map(|rule| rule.name.to_ascii_lowercase()).collect()
    };
    let (removed, set, added) = (names(How::Remove), names(How::Set), names(How::Add));
    for rule in rules.iter_mut().filter(|rule| rule.how == How::Add) {
        let lower = rule.name.to_ascii_lowercase();
        if removed.contains(&lower) && !set.contains(&lower) {
            rule.how = How::Set;
        }
    }
    rules.retain(|rule| {
        let lower = rule.name.to_ascii_lowercase();
        rule.how != How::Remove || !set.contains(&lower) && !added.contains(&lower)
    });
}

/// A field beside those of the application. Two of a name are one with both values (RFC 9110 section 5.3); a table has each name
/// once.
fn beside(cx: &Context<'_>, directive: &Directive, rules: &mut Vec<Header>, (name, value): (&str, String)) {
    let known = |rule: &&mut Header| rule.how == How::Add && rule.name.eq_ignore_ascii_case(name);
    match rules.iter_mut().find(known) {
        None => rules.push(Header { how: How::Add, name: name.to_owned(), value }),
        Some(_) if name.eq_ignore_ascii_case("set-cookie") => {
            return cx.not_possible(directive, "one cookie is added: a field has one value in a table");
        }
        Some(rule) if rule.value == value => {}
        Some(rule) => rule.value = format!("{}, {value}", rule.value),
    }
    let always = directive.args.get(2).is_some_and(|arg| arg == "always");
    match always {
        true => cx.translated(directive),
        false => cx.say(directive, Kind::Better, "errors have the field, too, as with `always`"),
    }
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
    let value = match header_value(scope, value) {
        Ok(value) => value,
        Err(why) => {
            let Some(value) = default_of(cx, name, value) else {
                return variable(cx, scope, directive, value, why);
            };
            cx.translated(directive);
            return found.rules.push(Header { how: How::IfAbsent, name: name.to_owned(), value });
        }
    };
    let rule = |how| Header { how, name: name.to_owned(), value: value.clone() };
    let plain = !value.contains(BRACES);
    match lower.as_str() {
        _ if value.is_empty() && directive.name != "add_header" => found.rules.push(rule(How::Remove)),
        _ if value.is_empty() => return cx.not_needed(directive, "a field without a value is not sent"),
        "cache-control" if plain => control.push(value),
        lower if OF_FILES.contains(&lower) && plain => found.files.push((name.to_owned(), value)),
        _ if directive.name == "add_header" => return beside(cx, directive, &mut found.rules, (name, value)),
        _ => found.rules.push(rule(How::Set)),
    }
    cx.translated(directive);
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
fn header_value(scope: &Scope<'_>, value: &str) -> Result<String, String> {
    let filled = values::filled(value, scope)?;
    Ok(filled.split_whitespace().collect::<Vec<_>>().join(" "))
}

fn variable(cx: &Context<'_>, scope: &Scope<'_>, directive: &Directive, value: &str, why: String) {
    let about_cache = |part: &Part| {
        let Part::Variable(name) = part else { return false };
        name.starts_with("upstream_")
            || ["cache_status", "skip_cache", "request_time"].contains(&name.as_str())
    };
    match values::parts(value, scope).iter().any(about_cache) {
        true => cx.say(directive, Kind::Choice, "it tells of nginx's own cache and servers, for debugging"),
        false => cx.not_possible(directive, why),
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
