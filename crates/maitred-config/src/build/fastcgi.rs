//! `connect = "fastcgi://…"` and what goes with it.

use std::path::PathBuf;

use maitred_http::fastcgi::script::{self, ENDING};

use super::super::fastcgi::NAMES;
use super::super::meaning::{FastCgi, Source, Upstream};
use super::super::reader::{Section, shorten};

/// A pool of FastCGI applications at these addresses.
pub(super) fn source(section: &Section<'_>, servers: Vec<Upstream>) -> Source {
    let root = super::directory(section, "root").map(|root| root.value);
    let given = section.given("root").is_some();
    let script_root = script_root(section).or_else(|| root.clone());
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
    Source::FastCgi(FastCgi { servers, root, script_root, index: index(section), php: section.flag("php") })
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

fn script_root(section: &Section<'_>) -> Option<PathBuf> {
    let text = section.text("script_root")?;
    if !text.value.starts_with('/') || text.value.contains(char::is_control) {
        let message = format!("`script_root`: \"{}\" is not an absolute path", shorten(&text.value));
        section.cx.error_with(
            &text.span,
            message,
            "it starts with `/`, and Maitred need not have the directory",
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
