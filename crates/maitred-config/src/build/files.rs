//! Files: what a site with a `root` and a route with a `root` have in common.

use std::path::PathBuf;

use super::super::coding::Coding;
use super::super::finding::At;
use super::super::foreign::NO_NAMED_LOCATIONS;
use super::super::meaning::{Files, TryItem};
use super::super::reader::{Section, shorten};
use super::pools::Known;
use super::{headers, media};

/// Keys about files, which a site and its routes share.
pub(super) const KEYS: [&str; 10] = [
    "index",
    "listing",
    "hidden",
    "symlinks",
    "precompressed",
    "try",
    "headers",
    "types",
    "charset",
    "charset_types",
];

/// Files without a root yet: what the keys of `section` say.
pub(super) fn options(section: &Section<'_>, pools: &Known<'_>) -> Files {
    Files {
        root: PathBuf::new(),
        strip_prefix: "/".into(),
        index: index(section),
        listing: section.flag("listing"),
        hidden: section.flag("hidden"),
        symlinks_may_leave: section.choice("symlinks") == Some("anywhere"),
        precompressed: precompressed(section),
        try_files: try_files(section, pools),
        headers: headers::of_files(&section.section("headers")),
        media: Box::new(media::of_files(section)),
    }
}

/// The options of a route: its own where it says something, otherwise its site's.
pub(super) fn inherited(route: &Section<'_>, site: &Files, pools: &Known<'_>) -> Files {
    let own = options(route, pools);
    let given = |name| route.given(name).is_some();
    Files {
        root: own.root,
        strip_prefix: own.strip_prefix,
        index: if given("index") { own.index } else { site.index.clone() },
        listing: if given("listing") { own.listing } else { site.listing },
        hidden: if given("hidden") { own.hidden } else { site.hidden },
        symlinks_may_leave: if given("symlinks") { own.symlinks_may_leave } else { site.symlinks_may_leave },
        precompressed: if given("precompressed") { own.precompressed } else { site.precompressed.clone() },
        try_files: if given("try") { own.try_files } else { site.try_files.clone() },
        headers: if given("headers") { own.headers } else { site.headers.clone() },
        media: Box::new(media::inherited(route, *own.media, &site.media)),
    }
}

fn index(section: &Section<'_>) -> Vec<String> {
    let names = section.texts("index");
    for name in &names {
        let text = name.value.as_str();
        if text.is_empty() || text == "." || text == ".." || text.contains(['/', '\0']) {
            let message = format!("`index`: \"{}\" is not a file name", shorten(text));
            section.cx.error_with(&name.span, message, "it takes names without `/`, such as \"index.html\"");
        }
    }
    names.into_iter().map(|name| name.value).collect()
}

fn precompressed(section: &Section<'_>) -> Vec<Coding> {
    section.choices("precompressed").into_iter().filter_map(Coding::of_token).collect()
}

fn try_files(section: &Section<'_>, pools: &Known<'_>) -> Vec<TryItem> {
    let texts = section.texts("try");
    let mut items = Vec::new();
    for (i, text) in texts.iter().enumerate() {
        let what = format!("`try` does not take \"{}\"", shorten(&text.value));
        let item = match text.value.strip_prefix("pool:") {
            Some(name) => {
                let name = At { value: name.to_owned(), span: text.span.clone() };
                pools.takes_requests(section, &name).map(TryItem::Pool)
            }
            None => section.cx.accept(&text.span, &what, try_item(&text.value)),
        };
        let Some(item) = item else { continue };
        let last = i + 1 == texts.len();
        if matches!(item, TryItem::Status(_) | TryItem::Pool(_)) && !last {
            section
                .cx
                .error(&text.span, format!("`try`: nothing is tried after \"{}\"", shorten(&text.value)));
        }
        items.push(item);
    }
    items
}

fn try_item(text: &str) -> Result<TryItem, String> {
    if let Some(status) = text.strip_prefix('=') {
        let status = status.parse().ok().filter(|status| (400..=599).contains(status));
        return status.map(TryItem::Status).ok_or_else(|| "after `=` stands a status from 400 to 599".into());
    }
    let rest = text.replacen("{path}", "", 1);
    if rest.contains(['{', '}']) {
        return Err("the only placeholder is `{path}`, once".into());
    }
    if rest.contains('\0') || rest.split('/').any(|part| part == "..") {
        return Err("a path has no `..` in it".into());
    }
    match text.split_once("{path}") {
        Some((before, after)) if before.is_empty() || before.starts_with('/') => {
            // The path itself starts with a slash.
            Ok(TryItem::Around(before.trim_end_matches('/').into(), after.into()))
        }
        None if text.starts_with('/') => Ok(TryItem::Fixed(text.into())),
        _ if text.starts_with('@') => Err(NO_NAMED_LOCATIONS.into()),
        _ => Err(format!("it starts with `/`: write \"/{}\"", shorten(text))),
    }
}
