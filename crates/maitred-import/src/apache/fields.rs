//! `Header`, `RequestHeader`, `Expires…`: fields of responses and requests.

use super::context::{Cx, Scope};
use super::tree::Directive;
use crate::drafts::{Header, How};
use crate::report::Kind;

/// Fields that delimit a message or belong to the connection.
const OF_CONNECTION: &str =
    "connection keep-alive content-length transfer-encoding te trailer upgrade date proxy-connection";

/// Fields in which Maitred itself says who the client is.
const SENT: &str = "x-forwarded-for x-forwarded-proto x-forwarded-host forwarded x-request-id";

/// What responses of a place have.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Fields {
    /// `response_headers`
    pub(crate) response: Vec<Header>,
    /// `request_headers`
    pub(crate) request: Vec<Header>,
    /// `expires`
    pub(crate) expires: Vec<(String, String)>,
    /// `types`
    pub(crate) types: Vec<(String, String)>,
    /// `charset`
    pub(crate) charset: Option<String>,
    /// Whether responses are compressed.
    pub(crate) compress: bool,
}

fn is_among(list: &str, name: &str) -> bool {
    list.split_whitespace().any(|known| known.eq_ignore_ascii_case(name))
}

/// The fields of a place.
pub(crate) fn of(cx: &Cx<'_>, scope: &Scope<'_, '_>, tls: bool) -> Fields {
    let mut fields = Fields::default();
    for one in scope.all(&["header"]) {
        match response(one, tls) {
            Ok(Some(rule)) => {
                cx.translated(one);
                put(&mut fields.response, rule);
            }
            Ok(None) if one.args.iter().any(|word| is_https(word)) => {
                cx.say(one, Kind::NotNeeded, "no connection to the site has TLS");
            }
            Ok(None) => {
                cx.say(one, Kind::NotNeeded, "the connection is Maitred's own, whose fields say that")
            }
            Err((kind, why)) => cx.say(one, kind, why),
        }
    }
    for one in scope.all(&["requestheader"]) {
        match request(one, tls) {
            Ok(Some(rule)) => {
                cx.translated(one);
                put(&mut fields.request, rule);
            }
            Ok(None) => cx.say(one, Kind::NotNeeded, "applications get this field, with this value"),
            Err((kind, why)) => cx.say(one, kind, why),
        }
    }
    expires(cx, scope, &mut fields);
    media(cx, scope, &mut fields);
    fields
}

/// A later rule for a field takes the place of an earlier one, unless it adds.
fn put(rules: &mut Vec<Header>, rule: Header) {
    if rule.how == How::Set || rule.how == How::Remove {
        rules.retain(|known| !known.name.eq_ignore_ascii_case(&rule.name));
    }
    if rule.how != How::Add || !rules.contains(&rule) {
        rules.push(rule);
    }
}

type Found = Result<Option<Header>, (Kind, String)>;

fn impossible(why: &str) -> Found {
    Err((Kind::NotPossible, why.to_owned()))
}

/// Whether a condition holds for connections with TLS.
fn is_https(condition: &str) -> bool {
    let plain: String = condition.chars().filter(|letter| !" '\"".contains(*letter)).collect();
    ["env=HTTPS", "expr=%{HTTPS}==on", "expr=%{HTTPS}=on", "expr=%{HTTPS}-eqon"].contains(&plain.as_str())
}

/// A rule of `Header`; nothing, if it is about the connection.
fn response(one: &Directive, tls: bool) -> Found {
    let words: Vec<&str> = one.args.iter().map(String::as_str).collect();
    let words = match words.split_first() {
        Some((first, rest)) if ["always", "onsuccess"].contains(&first.to_ascii_lowercase().as_str()) => rest,
        _ => &words[..],
    };
    let [action, name, rest @ ..] = words else { return impossible("it names no field") };
    let name = name.trim_end_matches(':');
    if is_among(OF_CONNECTION, name) {
        return Ok(None);
    }
    let how = match action.to_ascii_lowercase().as_str() {
        "set" => How::Set,
        "add" | "append" | "merge" => How::Add,
        "unset" => How::Remove,
        "setifempty" => How::IfAbsent,
        _ => {
            return impossible(
                "a value is not changed here: set the whole field, or have the application do that",
            );
        }
    };
    let (value, condition) = match (how, rest) {
        (How::Remove, [condition]) => ("", Some(*condition)),
        (How::Remove, _) => ("", None),
        (_, [value, condition]) => (*value, Some(*condition)),
        (_, [value]) => (*value, None),
        _ => return impossible("it has no value"),
    };
    if name.to_ascii_lowercase().starts_with("access-control-")
        && (condition.is_some() || value.contains("%{"))
    {
        return impossible("`cors` of the site says which origins may have its responses (docs/headers.md)");
    }
    // Without TLS, clients do not heed this field (RFC 6797 section 8.1).
    let heeded = tls || name.eq_ignore_ascii_case("strict-transport-security");
    match condition {
        None | Some("early") => {}
        Some(condition) if is_https(condition) && heeded => {}
        Some(condition) if is_https(condition) => return Ok(None),
        Some(_) => return impossible("a field has no conditions: a route of its own has"),
    }
    let value = value_of(value)?;
    Ok(Some(Header { how, name: name.to_owned(), value }))
}

/// A value without variables.
fn value_of(value: &str) -> Result<String, (Kind, String)> {
    if value.starts_with("expr=") {
        return Err((Kind::NotPossible, "values are fixed here, without expressions".into()));
    }
    let plain = value.replace("%%", "\u{0}");
    if plain.contains('%')
        && plain.split('%').skip(1).any(|rest| rest.starts_with(['{', 't', 'D', 'l', 'i', 'b']))
    {
        return Err((Kind::NotPossible, "values are fixed here, without variables".into()));
    }
    Ok(plain.replace('\u{0}', "%"))
}

fn request(one: &Directive, tls: bool) -> Found {
    let words: Vec<&str> = one.args.iter().map(String::as_str).collect();
    let [action, name, rest @ ..] = words.as_slice() else { return impossible("it names no field") };
    let name = name.trim_end_matches(':');
    let value = rest.first().copied().unwrap_or_default();
    let how = match action.to_ascii_lowercase().as_str() {
        "set" | "add" | "append" | "merge" => How::Set,
        "unset" => How::Remove,
        "setifempty" => return impossible("a field of a request is set, or removed"),
        _ => return impossible("a value is not changed here"),
    };
    let scheme = if tls { "https" } else { "http" };
    if is_among("x-forwarded-proto", name) && how == How::Set {
        let same = value.eq_ignore_ascii_case(scheme)
            || ["expr=%{REQUEST_SCHEME}", "%{REQUEST_SCHEME}s"].contains(&value);
        return match same {
            true => Ok(None),
            false => Err((
                Kind::Worse,
                "Maitred writes this field itself: `trusted_proxies` has it believe the proxy in front"
                    .into(),
            )),
        };
    }
    if is_among(SENT, name) {
        let why = "Maitred writes this field itself, and passes on what `trusted_proxies` send";
        return Err((if how == How::Remove { Kind::Choice } else { Kind::Worse }, why.into()));
    }
    if is_among("x-forwarded-port x-forwarded-ssl x-real-ip", name) && how == How::Set {
        return Err((
            Kind::Worse,
            "this field is the proxy's in front: applications get `X-Forwarded-Proto` and `X-Forwarded-Host`"
                .into(),
        ));
    }
    if name.eq_ignore_ascii_case("proxy") && how == How::Remove {
        return Ok(None);
    }
    if rest.get(1).is_some_and(|condition| *condition != "early") && how == How::Set {
        return impossible("a field has no conditions: a route of its own has");
    }
    let value = match value.to_ascii_lowercase().as_str() {
        _ if how == How::Remove => String::new(),
        "%{remote_user}e" | "%{remote_user}s" | "expr=%{remote_user}" => "{user}".to_owned(),
        "%{remote_addr}e" | "%{remote_addr}s" | "expr=%{remote_addr}" => "{client}".to_owned(),
        _ => maitred_config::Template::escape(&value_of(value)?),
    };
    Ok(Some(Header { how, name: name.to_owned(), value }))
}

/// `"access plus 1 month"` and `A2592000` as a value of `expires`.
pub(crate) fn lifetime(text: &str) -> Option<String> {
    let text = text.trim();
    if let Some(seconds) = text.strip_prefix(['A', 'a']).and_then(|rest| rest.parse::<u64>().ok()) {
        return Some(format!("max-age={seconds}"));
    }
    let words: Vec<String> = text.split_whitespace().map(str::to_ascii_lowercase).collect();
    let mut rest = match words.as_slice() {
        [base, plus, rest @ ..] if ["access", "now"].contains(&base.as_str()) && plus == "plus" => rest,
        [base, rest @ ..] if ["access", "now"].contains(&base.as_str()) => rest,
        _ => return None,
    };
    let mut total: u64 = 0;
    while let [number, unit, behind @ ..] = rest {
        let factor: u64 = match unit.trim_end_matches('s') {
            "year" => 31_536_000,
            "month" => 2_592_000,
            "week" => 604_800,
            "day" => 86_400,
            "hour" => 3600,
            "minute" => 60,
            "second" => 1,
            _ => return None,
        };
        total = total.checked_add(number.parse::<u64>().ok()?.checked_mul(factor)?)?;
        rest = behind;
    }
    rest.is_empty().then(|| format!("max-age={total}"))
}

/// Other names of the same types: those by which Maitred sends files.
const ALIASES: &[(&str, &str)] = &[
    ("application/javascript", "text/javascript"),
    ("application/x-javascript", "text/javascript"),
    ("image/x-icon", "image/vnd.microsoft.icon"),
    ("application/font-woff", "font/woff"),
    ("application/x-font-woff", "font/woff"),
    ("application/font-woff2", "font/woff2"),
    ("font/truetype", "font/ttf"),
    ("application/x-font-ttf", "font/ttf"),
    ("application/xml", "text/xml"),
];

fn expires(cx: &Cx<'_>, scope: &Scope<'_, '_>, fields: &mut Fields) {
    let rules = scope.all(&["expiresbytype", "expiresdefault"]);
    let active = scope.last("expiresactive");
    if let Some(active) = active {
        cx.translated(active);
    }
    if !active.is_some_and(Directive::is_on) {
        rules.iter().for_each(|one| cx.say(*one, Kind::NotNeeded, "`ExpiresActive` is off there"));
        return;
    }
    for one in rules {
        let (kind, text) = match one.name.as_str() {
            "expiresdefault" => ("default", one.text()),
            _ => (one.arg(0), one.args.iter().skip(1).map(String::as_str).collect::<Vec<_>>().join(" ")),
        };
        match lifetime(&text) {
            Some(value) => {
                cx.translated(one);
                let alias = ALIASES.iter().find(|(name, _)| *name == kind).map(|(_, alias)| *alias);
                for kind in [Some(kind), alias].into_iter().flatten() {
                    fields.expires.retain(|(known, _)| known != kind);
                    fields.expires.push((kind.to_owned(), value.clone()));
                }
            }
            None => cx.say(
                one,
                Kind::Worse,
                "a lifetime is counted from the request, and not from the change of the file",
            ),
        }
    }
}

/// `AddType`, `AddDefaultCharset`, `AddOutputFilterByType`.
fn media(cx: &Cx<'_>, scope: &Scope<'_, '_>, fields: &mut Fields) {
    for one in scope.all(&["addtype", "forcetype"]) {
        let endings = one.args.iter().skip(1);
        if one.arg(0).contains("x-httpd-") {
            continue;
        }
        cx.translated(one);
        match one.name.as_str() {
            "forcetype" => fields.types = vec![("default".into(), one.arg(0).to_owned())],
            _ => fields.types.extend(
                endings.map(|ending| (ending.trim_start_matches('.').to_owned(), one.arg(0).to_owned())),
            ),
        }
    }
    for one in scope.all(&["adddefaultcharset", "addcharset"]) {
        match (one.name.as_str(), one.arg(0).to_ascii_lowercase().as_str()) {
            ("addcharset", "utf-8") => cx.say(one, Kind::NotNeeded, "texts come as UTF-8"),
            ("addcharset", _) => {
                cx.not_possible(one, "endings have no encodings of their own: `types` has parameters")
            }
            (_, "off") => {
                cx.translated(one);
                fields.charset = Some("off".into());
            }
            (_, "on") => cx.say(one, Kind::Choice, "texts come as UTF-8, and not as ISO-8859-1"),
            (_, "utf-8") => cx.say(one, Kind::NotNeeded, "texts come as UTF-8"),
            (_, other) => {
                cx.translated(one);
                fields.charset = Some(other.to_owned());
            }
        }
    }
    for one in scope.all(&["addoutputfilterbytype", "setoutputfilter", "addoutputfilter"]) {
        let filters = one.arg(0).to_ascii_uppercase();
        match filters.split(';').all(|filter| ["DEFLATE", "BROTLI_COMPRESS"].contains(&filter)) {
            true => {
                cx.say(one, Kind::Translated, "responses of types that become smaller are compressed");
                fields.compress = true;
            }
            false if filters == "INCLUDES" => cx.not_possible(
                one,
                "pages with commands for the server are \
                 not executed: keep Apache behind Maitred with mod_maitred for them",
            ),
            false => cx.not_possible(one, "there is no such filter"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lifetimes_are_those_of_mod_expires() {
        for (text, value) in [
            ("access plus 1 month", Some("max-age=2592000")),
            ("now plus 2 days 3 hours", Some("max-age=183600")),
            ("access 1 year", Some("max-age=31536000")),
            ("A300", Some("max-age=300")),
            ("modification plus 1 day", None),
            ("M300", None),
            ("access plus 1 moon", None),
        ] {
            assert_eq!(lifetime(text).as_deref(), value, "{text}");
        }
    }
}
