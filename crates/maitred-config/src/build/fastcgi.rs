//! `connect = "fastcgi://…"` and what goes with it.

use std::path::PathBuf;

use maitred_http::fastcgi::script::{self, ENDING};
use maitred_http::fastcgi::variables;

use super::super::fastcgi::{FastCgi, NAMES};
use super::super::meaning::{Files, Source, Upstream};
use super::super::reader::{Section, shorten};
use super::super::template::Template;

/// A pool of FastCGI applications at these addresses.
pub(super) fn source(section: &Section<'_>, servers: Vec<Upstream>) -> Source {
    let root = super::directory(section, "root").map(|root| root.value);
    let given = section.given("root").is_some();
    if let (true, Some(span)) = (given, section.given("script_filename")) {
        section.cx.error_with(
            &span,
            format!(
                "{}: `script_filename` is one program for all requests, and `root` a directory of scripts",
                section.label
            ),
            "take one of the two out",
        );
    }
    let script_root = absolute(section, "script_root").or_else(|| root.clone());
    for key in ["script_root", "index", "php"] {
        if let Some(span) = section.given(key).filter(|_| !given && (key != "php" || section.flag("php"))) {
            let message = format!("{}: `{key}` needs `root`", section.label);
            section.cx.error_with(&span, message, "add root = \"…\", the directory of the scripts");
        }
    }
    for (key, why) in [
        ("upgrade", "FastCGI has no other protocols to switch to"),
        ("early_hints", "FastCGI has no informational responses"),
    ] {
        if let Some(span) = section.given(key) {
            section.cx.warn(&span, format!("`{key}` has no effect"), why);
        }
    }
    Source::FastCgi(FastCgi {
        servers,
        root,
        script_root,
        index: index(section),
        php: section.flag("php"),
        script_filename: absolute(section, "script_filename"),
        params: params(section),
        uri_as_sent: section.choice("request_uri") == Some("sent"),
    })
}

/// `params`: names that applications can have as names of variables, and that nothing else sets.
fn params(section: &Section<'_>) -> Vec<(String, Template)> {
    let mut params = Vec::new();
    for (name, value) in section.map("params") {
        let named = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
        let shown = shorten(&name.value);
        if !name.value.bytes().all(named) || !name.value.starts_with(|first: char| !first.is_ascii_digit()) {
            let message = format!("`params`: \"{shown}\" is not the name of a variable");
            section.cx.error_with(
                &name.span,
                message,
                "it has letters, digits and `_`, and begins with no digit",
            );
        } else if let Some(instead) = instead_of(&name.value.to_ascii_uppercase()) {
            section.cx.error_with(&name.span, format!("`params`: `{shown}` is written by Maitred"), instead);
        }
        let what = format!("`params`: this cannot be the value of `{shown}`");
        let parsed = Template::parse_value(&value.value).and_then(|template| match name.value.as_str() {
            _ if value.value.contains('\0') => Err("it has a NUL byte, which ends a value".to_owned()),
            // Each line of them is a setting, and a client must not add any.
            "PHP_VALUE" | "PHP_ADMIN_VALUE" if !template.is_plain() => {
                Err("settings of PHP have no placeholders".to_owned())
            }
            _ => Ok(template),
        });
        params.extend(section.cx.accept(&value.span, &what, parsed).map(|value| (name.value, value)));
    }
    params
}

/// What sets a variable that is Maitred's own.
fn instead_of(name: &str) -> Option<&'static str> {
    if !variables::is_own(name) {
        return None;
    }
    Some(match name {
        "SCRIPT_FILENAME" => {
            "`script_filename` names one program for all requests, and `root` a directory of scripts"
        }
        "SCRIPT_NAME" | "PATH_INFO" => "`mount` says which part of the path is the application's name",
        "DOCUMENT_ROOT" | "PATH_TRANSLATED" => "`script_root` is the directory as the application sees it",
        "REQUEST_URI" => "`request_uri` says what it is",
        "REMOTE_USER" | "AUTH_TYPE" => {
            "it is there where `basic_auth`, `jwt` or `forward_auth` has found a user"
        }
        "SERVER_NAME" => "`Host` in `set` of `request_headers` sets it",
        "HTTPS" | "REQUEST_SCHEME" | "REMOTE_ADDR" | "REMOTE_PORT" => {
            "`trusted_proxies` of [server] says whose word about that is believed"
        }
        _ if name.starts_with("HTTP_") => "fields of the request are set by `request_headers`",
        _ => "applications rely on it",
    })
}

/// `front_controller` of a route with these files: a path below their root.
pub(super) fn front_controller(section: &Section<'_>, files: Option<&Files>) -> Option<String> {
    let text = section.text("front_controller")?;
    let path = format!("/{}", text.value);
    let normal = !path.split('/').skip(1).any(|segment| segment.is_empty() || segment.starts_with('.'));
    let is_script = |path: &str| {
        let script = script::split(path.as_bytes(), None, ENDING).ok().flatten();
        script.is_some_and(|script| script.path_info.is_empty())
    };
    if !normal || !is_script(&path) || path.contains(char::is_control) {
        let message = format!("`front_controller`: \"{}\" is not the path of a script", shorten(&text.value));
        section.cx.error_with(
            &text.span,
            message,
            "it ends in `.php`, and begins in `root` of the pool: \"index.php\"",
        );
        return None;
    }
    if ["pool", "root"].iter().any(|target| section.given(target).is_some()) && files.is_none() {
        let message = "`front_controller` needs a pool with `connect = \"fastcgi://…\"` and `root`";
        section.cx.error_with(&text.span, message, "set `root` of that pool to the directory of the script");
        return None;
    }
    Some(path)
}

/// Reports the keys that only a pool of FastCGI applications has.
pub(super) fn only_here(section: &Section<'_>) {
    for key in NAMES {
        if let Some(span) = section.key_span(key) {
            let message =
                format!("{}: `{key}` is for a pool with `connect = \"fastcgi://…\"`", section.label);
            let hint = match key {
                "root" | "index" => {
                    "files of a site are served by `root` and `index` of [[site]], or of a route"
                }
                _ => "take it out, or set `connect` to the address of php-fpm",
            };
            section.cx.error_with(&span, message, hint);
        }
    }
}

fn absolute(section: &Section<'_>, key: &str) -> Option<PathBuf> {
    let text = section.text(key)?;
    if !text.value.starts_with('/') || text.value.contains(char::is_control) {
        let message = format!("`{key}`: \"{}\" is not an absolute path", shorten(&text.value));
        section.cx.error_with(
            &text.span,
            message,
            match key {
                "script_root" => "it starts with `/`, and Maitred need not have the directory",
                _ => "it starts with `/`, and Maitred need not have the program",
            },
        );
        return None;
    }
    Some(super::common::normal(text.value.as_ref()))
}

fn index(section: &Section<'_>) -> String {
    let Some(text) = section.text("index") else { return String::new() };
    let name = text.value.as_str();
    let named = name.len() > ENDING.len() && name.as_bytes().ends_with(ENDING);
    if !named
        || name.starts_with('.')
        || name.contains('/')
        || script::split(b"/", Some(name.as_bytes()), ENDING).is_err()
    {
        let message = format!("`index`: \"{}\" is not the name of a script", shorten(name));
        section.cx.error_with(&text.span, message, "it takes a name that ends in `.php`, without `/`");
    }
    text.value
}
