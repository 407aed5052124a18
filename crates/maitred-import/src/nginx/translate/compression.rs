//! `gzip`, `brotli` and `zstd`: `compress`.

use super::context::Context;
use super::settings::Settings;
use crate::model::Value;
use crate::nginx::scope::Scope;

/// Types that are compressed unless told otherwise: these, and those that begin or end so.
const TYPES: &[&str] = &[
    "application/javascript",
    "application/x-javascript",
    "application/json",
    "application/vnd.ms-fontobject",
    "application/wasm",
    "application/xml",
    "application/x-font-ttf",
    "font/otf",
    "font/ttf",
    "font/opentype",
];
/// Types that are compressed already.
const COMPRESSED: &[&str] = &["font/woff", "font/woff2", "application/font-woff", "application/font-woff2"];
/// `bytes_min` unless told otherwise.
const BYTES_MIN: u64 = 1000;

/// Whether responses in a scope are compressed, and the keys of the table for it.
pub(crate) fn of(cx: &Context<'_>, scope: &Scope<'_>) -> Option<Vec<(String, Value)>> {
    let settings = Settings { cx, scope };
    let coding = ["gzip", "brotli", "zstd"].into_iter().find(|coding| settings.on(coding).is_some())?;
    for coding in ["gzip", "brotli", "zstd"] {
        settings.on(coding).into_iter().for_each(|directive| cx.translated(directive));
    }
    let mut entries = Vec::new();
    let mut others: Vec<String> = Vec::new();
    for directive in scope.all(&format!("{coding}_types")) {
        for kind in directive.args.iter().map(|kind| kind.to_ascii_lowercase()) {
            if !is_usual(&kind) && kind.contains('/') && !others.contains(&kind) {
                others.push(kind);
            }
        }
        match others.is_empty() {
            true => cx.not_needed(directive, "these types are compressed anyway"),
            false => cx.translated(directive),
        }
    }
    if !others.is_empty() {
        let usual =
            ["text/*", "*+json", "*+xml", "application/javascript", "application/json", "application/xml"];
        let fonts = ["application/wasm", "font/otf", "font/ttf"];
        let mut types: Vec<String> = usual.into_iter().chain(fonts).map(str::to_owned).collect();
        types.append(&mut others);
        entries.push(("types".to_owned(), Value::texts(&types)));
    }
    if let Some((directive, bytes)) = settings.size(&format!("{coding}_min_length")) {
        cx.translated(directive);
        if bytes.abs_diff(BYTES_MIN) > 100 && bytes > 0 {
            entries.push(("bytes_min".to_owned(), bytes.into()));
        }
    }
    Some(entries)
}

fn is_usual(kind: &str) -> bool {
    let by_form = kind.starts_with("text/") || kind.ends_with("+json") || kind.ends_with("+xml");
    by_form || TYPES.contains(&kind) || COMPRESSED.contains(&kind)
}
