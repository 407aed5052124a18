//! `url` of `forward_auth`, which stands for a pool of one server, and a path there.

use std::borrow::Cow;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::finding::{Context, Span};
use super::reader::shorten;

/// Puts `pool` and `path` in place of each `url`, and a pool into the file for each server.
pub(super) fn into_pools(cx: &Context<'_>, all: &mut DeTable<'_>) {
    let mut pools: Vec<(String, String, Span)> = Vec::new();
    let taken: Vec<String> = match all.get("pool").map(Spanned::get_ref) {
        Some(DeValue::Table(named)) => named.keys().map(|name| name.get_ref().to_string()).collect(),
        _ => Vec::new(),
    };
    if let Some(DeValue::Array(sites)) = all.get_mut("site").map(Spanned::get_mut) {
        for site in sites.iter_mut() {
            let DeValue::Table(site) = site.get_mut() else { continue };
            resolve(cx, site, &taken, &mut pools);
            let Some(DeValue::Array(routes)) = site.get_mut("route").map(Spanned::get_mut) else { continue };
            for route in routes.iter_mut() {
                if let DeValue::Table(route) = route.get_mut() {
                    resolve(cx, route, &taken, &mut pools);
                }
            }
        }
    }
    for (name, connect, span) in pools {
        let text = |text: String| DeValue::String(Cow::Owned(text));
        let mut pool = DeTable::new();
        pool.insert(
            Spanned::new(span.clone(), Cow::Borrowed("connect")),
            Spanned::new(span.clone(), text(connect)),
        );
        let key = Spanned::new(span.clone(), Cow::Owned(name));
        let pool = Spanned::new(span.clone(), DeValue::Table(pool));
        match all.get_mut("pool").map(Spanned::get_mut) {
            Some(DeValue::Table(named)) => drop(named.insert(key, pool)),
            // What is there and no table is an error already.
            Some(_) => {}
            None => {
                let mut named = DeTable::new();
                named.insert(key, pool);
                let named = Spanned::new(span.clone(), DeValue::Table(named));
                all.insert(Spanned::new(span, Cow::Borrowed("pool")), named);
            }
        }
    }
}

/// The same of one site or route. `taken`: names of pools that are there.
fn resolve(
    cx: &Context<'_>,
    table: &mut DeTable<'_>,
    taken: &[String],
    pools: &mut Vec<(String, String, Span)>,
) {
    let Some(DeValue::Table(forward)) = table.get_mut("forward_auth").map(Spanned::get_mut) else { return };
    let Some(url) = forward.get("url") else { return };
    let (span, DeValue::String(text)) = (url.span(), url.get_ref()) else { return };
    let text = text.to_string();
    for key in ["pool", "path"] {
        if let Some(other) = forward.get(key) {
            let message = format!("`url` and `{key}` of `forward_auth` say the same thing");
            return cx.conflict(&span, message, &format!("`{key}` is set here"), &other.span());
        }
    }
    let Some((server, path)) = split(&text) else {
        let message = format!("`url`: \"{}\" is not the URL of a server and a path there", shorten(&text));
        return cx.error_with(&span, message, "write \"http://host:port/path\", or \"https://host/path\"");
    };
    let name = match pools.iter().find(|(_, connect, _)| connect == server) {
        Some((name, ..)) => name.clone(),
        None => {
            let name = name_of(server, |name| {
                taken.iter().any(|one| one == name) || pools.iter().any(|(one, ..)| one == name)
            });
            pools.push((name.clone(), server.to_owned(), span.clone()));
            name
        }
    };
    let path = path.to_owned();
    for (key, value) in [("pool", name), ("path", path)] {
        let value = Spanned::new(span.clone(), DeValue::String(Cow::Owned(value)));
        forward.insert(Spanned::new(span.clone(), Cow::Borrowed(key)), value);
    }
}

/// A server as `connect` takes it, and the rest of its URL.
fn split(url: &str) -> Option<(&str, &str)> {
    let scheme = ["http://", "https://"].into_iter().find(|scheme| url.starts_with(scheme))?;
    let at = url.get(scheme.len()..)?.find('/')? + scheme.len();
    Some(url.split_at(at)).filter(|(server, _)| server.len() > scheme.len())
}

/// A name that no pool has, which says what it leads to.
fn name_of(server: &str, taken: impl Fn(&str) -> bool) -> String {
    let host = server.split_once("://").map_or(server, |(_, host)| host);
    let plain = |char: char| if char.is_ascii_alphanumeric() { char } else { '-' };
    let name: String = host.chars().map(plain).take(48).collect();
    let name = format!("auth-{}", name.trim_matches('-'));
    match taken(&name) {
        false => name,
        true => (2..).map(|number| format!("{name}-{number}")).find(|name| !taken(name)).unwrap_or(name),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_is_a_server_and_a_path() {
        for (url, expected) in [
            ("http://127.0.0.1:9091/api/verify?a=b", Some(("http://127.0.0.1:9091", "/api/verify?a=b"))),
            ("https://auth.example/", Some(("https://auth.example", "/"))),
            ("http://[::1]:80/x", Some(("http://[::1]:80", "/x"))),
            ("http://auth.example", None),
            ("http:///x", None),
            ("unix:/run/x", None),
            ("ftp://a/b", None),
        ] {
            assert_eq!(split(url), expected, "{url}");
        }
    }

    #[test]
    fn a_pool_of_a_url_has_a_name_of_its_own() {
        assert_eq!(name_of("https://auth.example:8443", |_| false), "auth-auth-example-8443");
        assert_eq!(name_of("http://[::1]:80", |name| name == "auth-1--80"), "auth-1--80-2");
    }
}
