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
    // `text/html` is always one of them.
    let mut types: Vec<String> = vec!["text/*".to_owned()];
    let mut others = false;
    for directive in scope.all(&format!("{coding}_types")) {
        for kind in directive.args.iter().map(|kind| kind.to_ascii_lowercase()) {
            others |= !is_usual(&kind) && kind.contains('/');
            let kind = general(&kind);
            if kind.contains('/') && !COMPRESSED.contains(&kind) && !types.iter().any(|known| known == kind) {
                types.push(kind.to_owned());
            }
        }
        match others {
            false => cx.not_needed(directive, "these types are compressed anyway"),
            true => cx.translated(directive),
        }
    }
    if others {
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

/// A pattern for a type and those of its form.
fn general(kind: &str) -> &str {
    match kind {
        _ if kind.starts_with("text/") => "text/*",
        _ if kind.ends_with("+json") => "*+json",
        _ if kind.ends_with("+xml") => "*+xml",
        _ => kind,
    }
}

fn is_usual(kind: &str) -> bool {
    let by_form = kind.starts_with("text/") || kind.ends_with("+json") || kind.ends_with("+xml");
    by_form || TYPES.contains(&kind) || COMPRESSED.contains(&kind)
}
