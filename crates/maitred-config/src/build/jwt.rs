//! `jwt` of sites and routes.

use std::path::Path;

use super::super::access::Authentication;
use super::super::disk::unreadable;
use super::super::finding::{At, Span};
use super::super::jwt::{Jwt, JwtKeys, KEY_SETS_MAX, KeySource, TokenPlace, UrlKeys};
use super::super::reader::{Section, shorten};
use super::super::values::is_token;
use super::access::realm;
use super::headers::check_name;
use super::path;
use maitred_base::jwt::Algorithm;
use maitred_base::jwt::keys::{Key, KeySet};
use maitred_base::jwt::token::Rules;

const PLACES: &str = "it takes \"bearer\", \"cookie:NAME\", \"header:NAME\" or \"query:NAME\"";

/// What a site or a route says.
pub(super) fn of(section: &Section<'_>) -> Authentication<Jwt> {
    if !section.is_table("jwt") {
        return section.choice("jwt").map_or(Authentication::Inherited, |_| Authentication::Off);
    }
    let table = section.section("jwt");
    Authentication::On(Jwt {
        realm: realm(&table),
        keys: source(&table).map(|source| set(&table, source)).unwrap_or_default(),
        rules: rules(&table),
        from: places(&table),
        user_claim: claim(&table, table.text("user_claim")).unwrap_or_default(),
        claim_headers: headers(&table),
        remove_authorization: table.flag("remove_authorization"),
    })
}

fn source(table: &Section<'_>) -> Option<KeySource> {
    let (file, url) = (table.given("jwks_file"), table.text("jwks_url"));
    let (ca_file, refresh) = (path(table, "jwks_ca_file"), table.time("refresh"));
    match (&file, url) {
        (Some(_), Some(url)) => {
            table
                .cx
                .error(&url.span, "`jwks_url` and `jwks_file` are both given: keys come from one of them");
            None
        }
        (None, Some(url)) => {
            check_url(table, &url);
            Some(KeySource::Url(UrlKeys { url: url.value, refresh, ca_file }))
        }
        (_, None) => {
            if let Some((name, span)) =
                ["refresh", "jwks_ca_file"].iter().find_map(|name| Some((name, table.given(name)?)))
            {
                table.cx.error(&span, format!("`{name}` is about `jwks_url`, which is not given"));
            }
            if file.is_none() {
                table.cx.error_with(&table.span, "`jwt` has no keys", "add `jwks_file`, or `jwks_url`");
            }
            path(table, "jwks_file").map(KeySource::File)
        }
    }
}

fn check_url(table: &Section<'_>, url: &At<String>) {
    let parsed = url.value.parse::<http::Uri>().ok();
    let scheme = parsed.as_ref().and_then(http::Uri::scheme_str).unwrap_or_default();
    let authority = parsed.as_ref().and_then(http::Uri::authority).map_or("", http::uri::Authority::as_str);
    if !matches!(scheme, "http" | "https") || authority.is_empty() || authority.contains('@') {
        let message = format!("`jwks_url`: \"{}\" is no URL that can be fetched", shorten(&url.value));
        table.cx.error_with(
            &url.span,
            message,
            "it looks like \"https://issuer.example/keys\", without a user",
        );
    }
    let host = parsed.as_ref().and_then(http::Uri::host).unwrap_or_default();
    let is_near = host == "localhost" || host.starts_with("127.") || host == "[::1]";
    if scheme == "http" && !is_near {
        let message = "`jwks_url` has no TLS: any peer on the way can put its own keys there";
        table.cx.warn(&url.span, message, "write https://, or fetch the keys into a file");
    }
}

/// The index of a set of keys, which is read if no other gate has named it.
fn set(table: &Section<'_>, source: KeySource) -> usize {
    let known = table.cx.key_sets.borrow().iter().position(|set| set.source == source);
    if let Some(known) = known {
        return known;
    }
    let span =
        table.given("jwks_file").or_else(|| table.given("jwks_url")).unwrap_or_else(|| table.span.clone());
    let keys = match &source {
        KeySource::File(file) => keys_of(table, file, &span),
        KeySource::Url(_) => Vec::new(),
    };
    let mut sets = table.cx.key_sets.borrow_mut();
    if sets.len() == KEY_SETS_MAX {
        table.cx.error(&span, format!("there are more than {KEY_SETS_MAX} sets of keys"));
    }
    sets.push(JwtKeys { source, keys });
    sets.len() - 1
}

fn keys_of(table: &Section<'_>, file: &Path, span: &Span) -> Vec<Key> {
    let read = table.cx.lookup.read(file).map_err(|error| unreadable(&error));
    match read.and_then(|text| KeySet::read(&text)) {
        Ok(set) => {
            let shown = file.display();
            if !set.skipped.is_empty() {
                let message = format!("`jwks_file`: {shown}: {}", set.skipped.join("; "));
                table.cx.warn(span, message, "tokens that are signed with such a key are refused");
            }
            if let Some(number) = set.private.first() {
                let message = format!("`jwks_file`: {shown}: key {number} has its private part in it");
                table.cx.warn(span, message, "put the public keys alone there: the server needs no others");
            }
            set.keys
        }
        Err(why) => {
            table.cx.error(span, format!("`jwks_file`: {}: {why}", file.display()));
            Vec::new()
        }
    }
}

fn rules(table: &Section<'_>) -> Rules {
    let algorithms: Vec<_> = table.choices("algorithms").into_iter().filter_map(Algorithm::of).collect();
    if let Some(span) = table.empty_array("algorithms") {
        table.cx.error(&span, "`algorithms` has none, so that every token would be refused");
    }
    let mut require = Vec::new();
    for (name, values) in table.lists("require") {
        if values.is_empty() {
            let message = format!(
                "`require`: \"{}\" has no value, so that every token would be refused",
                shorten(&name.value)
            );
            table.cx.error_with(&name.span, message, "[\"*\"] is any value");
        }
        let values = values.into_iter().map(|value| value.value).collect();
        require.extend(claim(table, Some(name)).map(|name| (name, values)));
    }
    Rules {
        algorithms,
        issuers: one_of(table, "issuer"),
        audiences: one_of(table, "audience"),
        leeway: table.time("leeway").as_secs(),
        require,
    }
}

/// `None` is any.
fn one_of(table: &Section<'_>, name: &str) -> Option<Vec<String>> {
    let texts = table.texts(name);
    if let Some(span) = table.empty_array(name) {
        let message = format!("`{name}` has none, so that every token would be refused");
        table.cx.error_with(&span, message, "\"*\" is any");
    }
    if let Some(text) = texts.iter().find(|text| text.value.is_empty()) {
        table.cx.error(&text.span, format!("`{name}` is empty"));
    }
    (!texts.iter().any(|text| text.value == "*")).then(|| texts.into_iter().map(|text| text.value).collect())
}

/// The name of a claim, which is any text.
fn claim(table: &Section<'_>, name: Option<At<String>>) -> Option<String> {
    let name = name?;
    if name.value.is_empty() {
        table.cx.error(&name.span, "the name of a claim is empty");
    }
    Some(name.value)
}

fn places(table: &Section<'_>) -> Vec<TokenPlace> {
    if let Some(span) = table.empty_array("from") {
        table.cx.error_with(&span, "`from` has no place, so that no token would be found", PLACES);
    }
    let place = |text: At<String>| {
        let parsed = match text.value.split_once(':') {
            None if text.value == "bearer" => Ok(TokenPlace::Bearer),
            Some(("cookie", name)) if is_token(name) => Ok(TokenPlace::Cookie(name.to_owned())),
            Some(("header", name)) if is_token(name) => Ok(TokenPlace::Header(name.to_ascii_lowercase())),
            Some(("query", name)) if is_token(name) => Ok(TokenPlace::Query(name.to_owned())),
            _ => Err(PLACES.to_owned()),
        };
        table.cx.accept(&text.span, &format!("`from`: \"{}\" is no place", shorten(&text.value)), parsed)
    };
    table.texts("from").into_iter().filter_map(place).collect()
}

fn headers(table: &Section<'_>) -> Vec<(String, String)> {
    let mut headers: Vec<(String, String)> = Vec::new();
    for (name, value) in table.map("claim_headers") {
        check_name(table, &name);
        let lower = name.value.to_ascii_lowercase();
        if lower == "x-remote-user" {
            table.cx.error(&name.span, "`claim_headers`: `X-Remote-User` is the claim of `user_claim`");
        }
        if headers.iter().any(|(other, _)| *other == lower) {
            table
                .cx
                .error(&name.span, format!("`claim_headers`: \"{}\" is there twice", shorten(&name.value)));
        }
        headers.extend(claim(table, Some(value)).map(|claim| (lower, claim)));
    }
    headers
}
