//! `auth_jwt` of nginx Plus: signed tokens.
//!
//! | there | here |
//! |---|---|
//! | `auth_jwt_key_file`; `auth_jwt_key_request` of a location with a fixed `proxy_pass` | `jwks_file`; `jwks_url` |
//! | `token=$cookie_x`, `$http_x`, `$arg_x` | `from` |
//! | `auth_jwt_leeway`, which is 0 | `leeway` |
//! | issuer and audience are not looked at | `"*"` |
//! | `$jwt_claim_x`, `auth_jwt_claim_set` in request fields | `claim_headers`; of `X-Remote-User`, `REMOTE_USER`: `user_claim` |
//! | shared secrets (`HS256`), other signatures, tokens without `exp` | refused |
//! | `auth_jwt_require`, encrypted tokens | not possible, and closed |

use super::context::{Context, in_conf, location};
use super::settings::Settings;
use crate::model::Value;
use crate::nginx::scope::Scope;
use crate::nginx::tree::Directive;
use crate::nginx::values;
use crate::report::Kind;
use crate::write;

/// `auth_basic`, or `auth_jwt`
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Credentials {
    /// The key of a route that has the table.
    pub(crate) key: &'static str,
    /// What it takes.
    pub(crate) table: Value,
    /// The file of users or keys.
    pub(crate) file: String,
    /// Whether the file is there.
    pub(crate) there: bool,
}

/// The field and the variable of the user, which pools get anyway.
const USER: [&str; 2] = ["x-remote-user", "REMOTE_USER"];

/// The table `jwt`.
///
/// # Errors
/// Why it is not possible.
pub(crate) fn of(cx: &Context<'_>, scope: &Scope<'_>, directive: &Directive) -> Result<Credentials, String> {
    if let Some(require) = scope.last("auth_jwt_require") {
        cx.not_possible(require, "what a token has to say is in `require`, by claims and values");
        return Err("tokens have to fulfil `auth_jwt_require`".into());
    }
    if let Some(kind) = scope.last("auth_jwt_type")
        && kind.arg(0) != "signed"
    {
        cx.not_possible(kind, "tokens are not decrypted");
        return Err("tokens are not decrypted".into());
    }
    let realm = values::fixed(directive.arg(0), scope).ok_or("the realm is fixed here")?;
    let from = from(directive)?;
    let (key, source, there) = keys(cx, scope)?;
    let any = || Value::from("*");
    let mut table = vec![
        ("realm".to_owned(), realm.into()),
        (key.to_owned(), source.as_str().into()),
        ("issuer".to_owned(), any()),
        ("audience".to_owned(), any()),
    ];
    table.extend(from.map(|from| ("from".to_owned(), from.into())));
    let leeway = (Settings { cx, scope }).time("auth_jwt_leeway");
    if let Some((given, _)) = leeway {
        cx.translated(given);
    }
    let millis = leeway.map_or(0, |(_, millis)| millis.min(3_600_000));
    table.push(("leeway".to_owned(), write::time(millis).into()));
    table.extend(claims(cx, scope));
    ["auth_jwt_type", "auth_jwt_key_cache"].iter().filter_map(|name| scope.last(name)).for_each(|own| {
        cx.not_needed(own, "tokens are signed, and keys are kept");
    });
    let why = if there { "issuer and audience are any: name yours" } else { NOT_THERE };
    cx.say(directive, Kind::Translated, why);
    Ok(Credentials { key: "jwt", table: Value::Table(table), file: source, there })
}

/// What is said of a file that is not there.
const NOT_THERE: &str = "as a comment: the file is not there on this machine, and until then no client may";

/// Where the token is, unless that is `Authorization`.
fn from(directive: &Directive) -> Result<Option<String>, String> {
    let Some(token) = directive.args.iter().skip(1).find_map(|arg| arg.strip_prefix("token=")) else {
        return Ok(None);
    };
    let place = [("$http_", "header"), ("$cookie_", "cookie"), ("$arg_", "query")].into_iter().find_map(
        |(begin, place)| {
            let name = token.strip_prefix(begin)?;
            Some(match place {
                "header" => format!("{place}:{}", values::field_name(name)),
                _ => format!("{place}:{name}"),
            })
        },
    );
    place.map(Some).ok_or_else(|| "a token is in a cookie, a field or a parameter here".into())
}

/// The key of `jwt` that says where keys are, what it says, and whether it is there.
fn keys(cx: &Context<'_>, scope: &Scope<'_>) -> Result<(&'static str, String, bool), String> {
    let (files, requests) = (scope.all("auth_jwt_key_file"), scope.all("auth_jwt_key_request"));
    match (files.as_slice(), requests.as_slice()) {
        ([file], []) => {
            let path = values::fixed(file.arg(0), scope)
                .map(|path| in_conf(&path))
                .ok_or("the file is fixed here")?;
            let there = cx.machine.has_file(&path);
            cx.say(file, Kind::Translated, if there { "" } else { NOT_THERE });
            Ok(("jwks_file", path, there))
        }
        ([], [request]) => {
            let found = location(scope, request.arg(0)).ok_or("no location has the path of the keys")?;
            let inner = scope.of_server().within(found.inside());
            let handler = found.inside().iter().find(|inside| inside.name == "proxy_pass");
            let url = handler.and_then(|handler| values::fixed(handler.arg(0), &inner));
            let (Some(handler), Some(url)) = (handler, url.filter(|url| has_path(url))) else {
                return Err("the URL of the keys is fixed here, with a path".into());
            };
            cx.translated(request);
            cx.translated(found);
            cx.translated(handler);
            Ok(("jwks_url", url, true))
        }
        _ => Err("keys are from one file, or one URL".into()),
    }
}

/// Whether a URL leads to a page of a server, and not to a group of this configuration.
fn has_path(url: &str) -> bool {
    let rest = url.strip_prefix("https://").or_else(|| url.strip_prefix("http://"));
    rest.is_some_and(|rest| {
        rest.split_once('/').is_some_and(|(host, _)| host.contains(['.', ':']) || host == "localhost")
    })
}

/// `claim_headers` and `user_claim`.
fn claims(cx: &Context<'_>, scope: &Scope<'_>) -> Vec<(String, Value)> {
    let (mut user, mut headers) = (None, Vec::new());
    let mut note = |directive: &Directive, field: &str, shown: String| {
        let Some(claim) = claim(scope, directive.arg(1)) else { return };
        cx.translated(directive);
        match USER.iter().any(|name| name.eq_ignore_ascii_case(field)) {
            true => user = Some(claim),
            false
                if headers.iter().any(|(known, _): &(String, Value)| known.eq_ignore_ascii_case(&shown)) => {}
            false => headers.push((shown, claim.into())),
        }
    };
    for directive in scope.all("proxy_set_header") {
        note(directive, directive.arg(0), directive.arg(0).to_owned());
    }
    for directive in scope.all("fastcgi_param") {
        let name = directive.arg(0);
        match name.strip_prefix("HTTP_") {
            Some(field) => {
                note(directive, &field.replace('_', "-"), values::field_name(&field.to_ascii_lowercase()))
            }
            None if name == "REMOTE_USER" => note(directive, name, String::new()),
            None => {}
        }
    }
    scope
        .all("auth_jwt_claim_set")
        .into_iter()
        .for_each(|set| cx.not_needed(set, "claims are named where they are used"));
    let user = user.map(|claim| ("user_claim".to_owned(), claim.into()));
    let headers = (!headers.is_empty()).then(|| ("claim_headers".to_owned(), Value::Table(headers)));
    user.into_iter().chain(headers).collect()
}

/// The claim that a variable stands for: a name, or a path to one.
fn claim(scope: &Scope<'_>, value: &str) -> Option<String> {
    let variable = value.strip_prefix('$')?.trim_matches(['{', '}']);
    let sets = scope.all("auth_jwt_claim_set");
    let set = sets.iter().find(|set| set.arg(0).strip_prefix('$') == Some(variable));
    match set.map(|set| set.args.get(1..).unwrap_or_default()) {
        Some([name]) if !name.starts_with('/') => Some(name.clone()),
        Some(names) => {
            let escaped = |name: &String| format!("/{}", name.replace('~', "~0").replace('/', "~1"));
            Some(names.iter().map(escaped).collect())
        }
        None => variable.strip_prefix("jwt_claim_").map(str::to_owned),
    }
}

/// Whether what a pool is told is a claim of a token: `proxy_set_header X-User $jwt_claim_sub`.
pub(crate) fn is_claim(scope: &Scope<'_>, value: &str) -> bool {
    scope.last("auth_jwt").is_some_and(|asked| asked.arg(0) != "off") && claim(scope, value).is_some()
}
