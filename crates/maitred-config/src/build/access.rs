//! `allow`, `deny`, `limit`, `basic_auth`, `forward_auth` and `satisfy` of sites and routes.

use super::super::access::{
    AUTH_CACHES_MAX, Access, AddressRules, AuthCache, Authentication, BasicAuth, ForwardAuth, KeyPart,
    SignInPart, UsersFile,
};
use super::super::finding::At;
use super::super::reader::{Section, shorten};
use super::super::values::is_token;
use super::claims::{self, Decides};
use super::headers::check_name;
use super::pools::Known;
use super::{client_limits, jwt, networks, path};
use maitred_base::passwords::{self, USERS_MAX};

/// What a site or a route says.
pub(super) fn of(section: &Section<'_>, pools: &Known<'_>) -> Access {
    let satisfy = section.choice("satisfy");
    let satisfy_any = section.given("satisfy").and(satisfy).map(|satisfy| satisfy == "any");
    Access {
        addresses: addresses(section),
        limits: client_limits::of(section),
        basic: basic(section),
        jwt: jwt::of(section),
        forward: forward(section, pools),
        satisfy_any,
    }
}

fn addresses(section: &Section<'_>) -> Option<AddressRules> {
    let allows = section.given("allow").is_some();
    let (allow, deny) = (networks(section, "allow"), networks(section, "deny"));
    if let Some(span) = section.empty_array("allow") {
        section.cx.error_with(
            &span,
            "`allow` has no network, so that every client would be refused",
            "write allow = [\"@all\"] for every client, or deny = [\"@all\"] for none",
        );
    }
    let given = allows || section.given("deny").is_some();
    given.then(|| AddressRules { allow: allows.then_some(allow), deny })
}

fn basic(section: &Section<'_>) -> Authentication<BasicAuth> {
    if !section.is_table("basic_auth") {
        return section.choice("basic_auth").map_or(Authentication::Inherited, |_| Authentication::Off);
    }
    let table = section.section("basic_auth");
    let users_file = users_file(&table);
    let files = table.cx.users_files.borrow();
    let mut all =
        users_file.and_then(|file| files.get(file)).map(|file| file.users.clone()).unwrap_or_default();
    drop(files);
    let of_file = all.len();
    for (name, hash) in table.map("users") {
        user(&table, &name, &hash, &all);
        all.push((name.value, hash.value));
    }
    let users = all.split_off(of_file);
    if table.given("users").is_none() && table.given("users_file").is_none() {
        table.cx.error_with(
            &table.span,
            "`basic_auth` has no users",
            "add `users_file`, or `users = { name = \"hash\" }`",
        );
    }
    Authentication::On(BasicAuth {
        realm: realm(&table),
        users_file,
        users,
        cache: table.time("cache"),
        remove_authorization: table.flag("remove_authorization"),
    })
}

/// What browsers show, as it can stand in `WWW-Authenticate`.
pub(super) fn realm(table: &Section<'_>) -> String {
    let realm = table.text("realm").map(|realm| {
        if realm.value.chars().any(|char| char.is_control() || matches!(char, '"' | '\\')) {
            table.cx.error(&realm.span, "`realm` has no control characters, quotation marks and backslashes");
        }
        realm.value
    });
    realm.unwrap_or_else(|| "Restricted".to_owned())
}

/// A user of the configuration itself.
fn user(table: &Section<'_>, name: &At<String>, hash: &At<String>, others: &[(String, String)]) {
    let shown = shorten(&name.value);
    if !passwords::is_user_name(&name.value) {
        table.cx.error(&name.span, format!("`users`: \"{shown}\" cannot be the name of a user"));
    }
    if others.iter().any(|(other, _)| *other == name.value) {
        table.cx.error(&name.span, format!("`users`: \"{shown}\" is in `users_file` already"));
    }
    if others.len() >= USERS_MAX {
        table.cx.error(&name.span, format!("`basic_auth` has more than {USERS_MAX} users"));
    }
    match passwords::check(&hash.value) {
        Err(why) => table.cx.error(&hash.span, format!("`users`: {shown}: {why}")),
        Ok(()) if passwords::is_weak(&hash.value) => warn_of_weak(table, &hash.span),
        Ok(()) => {}
    }
}

fn warn_of_weak(table: &Section<'_>, span: &super::super::finding::Span) {
    table.cx.warn(
        span,
        "hashes of Apache's MD5 (`$apr1$`) are found by trial in a short time",
        "`htpasswd -B FILE USER` makes one of bcrypt",
    );
}

/// The index of a file of users, which is read if no other gate has named it.
fn users_file(table: &Section<'_>) -> Option<usize> {
    let (path, span) = (path(table, "users_file")?, table.given("users_file")?);
    let known = table.cx.users_files.borrow().iter().position(|known| known.path == path);
    if let Some(known) = known {
        return Some(known);
    }
    let read = table.cx.lookup.read(&path).map_err(|error| super::super::disk::unreadable(&error));
    let users = match read.and_then(|text| passwords::read(&text)) {
        Ok(users) => users,
        Err(why) => {
            table.cx.error(&span, format!("`users_file`: {}: {why}", path.display()));
            Vec::new()
        }
    };
    if users.iter().any(|(_, hash)| passwords::is_weak(hash)) {
        warn_of_weak(table, &span);
    }
    let mut files = table.cx.users_files.borrow_mut();
    files.push(UsersFile { path, users });
    Some(files.len() - 1)
}

fn forward(section: &Section<'_>, pools: &Known<'_>) -> Authentication<ForwardAuth> {
    if !section.is_table("forward_auth") {
        return section.choice("forward_auth").map_or(Authentication::Inherited, |_| Authentication::Off);
    }
    let table = section.section("forward_auth");
    // What it stands for is there as well (`forward_urls`).
    let (url, path) = (table.text("url"), table.text("path"));
    for key in ["pool", "path"] {
        if table.given(key).is_none() && url.is_none() {
            let message = format!("`forward_auth` has no `{key}`");
            table.cx.missing(&table.span, message, "name a `pool` and a `path`, or a `url`");
        }
    }
    if let Some(path) = path.as_ref().filter(|path| !is_target(&path.value)) {
        let message = format!("`path`: \"{}\" is not a path to ask for", shorten(&path.value));
        table.cx.error_with(
            &path.span,
            message,
            "it starts with `/`, and has neither `#`, white space nor letters beyond ASCII",
        );
    }
    let copied = table.texts("copy_headers");
    copied.iter().for_each(|name| check_name(&table, name));
    let pool = table.text("pool").and_then(|name| pools.takes_requests(&table, &name));
    Authentication::On(ForwardAuth {
        pool: pool.unwrap_or_default(),
        path: path.map(|path| path.value).unwrap_or_default(),
        copy_headers: copied.into_iter().map(|name| name.value).collect(),
        sign_in: sign_in(&table),
        set_cookies: table.flag("set_cookies"),
        timeout: table.time("timeout"),
        cache: table.given("cache").map(|_| cache(&table.section("cache"))),
    })
}

fn sign_in(table: &Section<'_>) -> Vec<SignInPart> {
    let Some(text) = table.text("sign_in") else { return Vec::new() };
    let what = format!("`sign_in`: \"{}\" is not a place where clients sign in", shorten(&text.value));
    table.cx.accept(&text.span, &what, SignInPart::of(&text.value)).unwrap_or_default()
}

const PARTS: &str = "it takes \"header:NAME\", \"cookie:NAME\", \"client\", \"method\", \"uri\" or \"path\"";

fn cache(table: &Section<'_>) -> AuthCache {
    let mut caches = table.cx.auth_caches.borrow_mut();
    if caches.len() == AUTH_CACHES_MAX {
        let message = format!("more than {AUTH_CACHES_MAX} tables of `forward_auth` have a `cache`");
        table.cx.error(&table.span, message);
    }
    caches.push(table.number("entries_max").value);
    AuthCache {
        answers: caches.len() - 1,
        time: table.time("time"),
        refused_time: table.time("refused_time"),
        key: key_parts(table),
    }
}

fn key_parts(table: &Section<'_>) -> Vec<KeyPart> {
    let part = |text: At<String>| {
        let parsed = match text.value.split_once(':') {
            None if text.value == "client" => Ok(KeyPart::Client),
            None if text.value == "method" => Ok(KeyPart::Method),
            None if text.value == "uri" => Ok(KeyPart::Uri),
            None if text.value == "path" => Ok(KeyPart::Path),
            Some(("header", name)) if is_token(name) => {
                claims::check(table, &text.span, ("key", name), Decides::Client("client"));
                Ok(KeyPart::Header(name.to_ascii_lowercase()))
            }
            Some(("cookie", name)) if is_token(name) => Ok(KeyPart::Cookie(name.to_owned())),
            _ => Err(PARTS.to_owned()),
        };
        table.cx.accept(
            &text.span,
            &format!("`key`: \"{}\" is no part of a request", shorten(&text.value)),
            parsed,
        )
    };
    let texts = table.texts("key");
    let all_known = texts.len();
    let parts: Vec<KeyPart> = texts.into_iter().filter_map(part).collect();
    let names_client =
        parts.iter().any(|part| matches!(part, KeyPart::Client | KeyPart::Header(_) | KeyPart::Cookie(_)));
    if !names_client && parts.len() == all_known {
        let span = table.given("key").unwrap_or_else(|| table.span.clone());
        table.cx.error_with(
            &span,
            "`key` has nothing of the client, so that all clients would get the answer of the first one",
            "add \"header:Cookie\", \"header:Authorization\", \"cookie:NAME\" or \"client\"",
        );
    }
    parts
}

fn is_target(path: &str) -> bool {
    path.starts_with('/')
        && path.bytes().all(|byte| byte.is_ascii_graphic() && !matches!(byte, b'#' | b'"' | b'<' | b'>'))
}
