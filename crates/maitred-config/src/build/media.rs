//! `types`, `charset` and `charset_types`

use super::super::media::MediaTypes;
use super::super::reader::{Section, shorten};
use super::super::values::{is_field_value, is_token};

pub(super) fn of_files(section: &Section<'_>) -> MediaTypes {
    let (types, default) = types(section);
    let charset = section.text("charset").filter(|charset| charset.value != "off");
    if let Some(charset) = charset.as_ref().filter(|charset| !is_token(&charset.value)) {
        section.cx.error_with(
            &charset.span,
            format!("`charset`: \"{}\" is not the name of a character encoding", shorten(&charset.value)),
            "it takes \"utf-8\", \"iso-8859-1\" …, or \"off\"",
        );
    }
    let mut charset_types = Vec::new();
    for text in section.texts("charset_types") {
        let lower = text.value.to_ascii_lowercase();
        let family = lower.strip_suffix('*').filter(|family| family.ends_with('/'));
        if !is_media_type(family.map_or(lower.clone(), |family| format!("{family}x")).as_str()) {
            let message = format!("`charset_types`: \"{}\" is not a media type", shorten(&text.value));
            section.cx.error_with(&text.span, message, "it looks like \"application/json\" or \"text/*\"");
        }
        charset_types.push(family.map_or(lower.clone(), str::to_owned));
    }
    MediaTypes { types, default, charset: charset.map(|charset| charset.value), charset_types }
}

/// The media types of a route: its own where it says something, otherwise its site's.
pub(super) fn inherited(route: &Section<'_>, own: MediaTypes, site: &MediaTypes) -> MediaTypes {
    let given = |name| route.given(name).is_some();
    let types = if given("types") { &own } else { site };
    MediaTypes {
        types: types.types.clone(),
        default: types.default.clone(),
        charset: if given("charset") { own.charset } else { site.charset.clone() },
        charset_types: if given("charset_types") { own.charset_types } else { site.charset_types.clone() },
    }
}

/// The types by their endings, longest first, and the one of all other files.
fn types(section: &Section<'_>) -> (Vec<(String, String)>, Option<String>) {
    let (mut types, mut default): (Vec<(String, String)>, _) = (Vec::new(), None);
    for (name, media) in section.map("types") {
        let essence = media.value.split(';').next().unwrap_or_default();
        if !is_field_value(&media.value) || !is_media_type(&essence.trim_end().to_ascii_lowercase()) {
            let message = format!("`types`: \"{}\" is not a media type", shorten(&media.value));
            section.cx.error_with(&media.span, message, "it looks like \"application/wasm\"");
        }
        if name.value == "default" {
            default = Some(media.value);
            continue;
        }
        let lower = name.value.to_ascii_lowercase();
        let ending = lower.trim_start_matches('*').trim_start_matches('.');
        if ending.is_empty() || ending.contains(['*', '/', ' ', '\0']) {
            let message = format!("`types`: \"{}\" is not the ending of a name", shorten(&name.value));
            section.cx.error_with(&name.span, message, "write it as in `wasm = \"application/wasm\"`");
        } else if types.iter().any(|(other, _)| other == ending) {
            section.cx.error(&name.span, format!("`types` has \"{}\" twice", shorten(&name.value)));
        }
        types.push((ending.to_owned(), media.value));
    }
    types.sort_by_key(|(ending, _)| std::cmp::Reverse(ending.len()));
    (types, default)
}

/// Whether this is a type and a subtype (RFC 9110 section 8.3.1), and nothing else.
pub(super) fn is_media_type(text: &str) -> bool {
    text.split_once('/').is_some_and(|(kind, subtype)| is_token(kind) && is_token(subtype))
        && !text.contains('*')
}
