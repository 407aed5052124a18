//! `compress`

use super::super::coding::Coding;
use super::super::compress::{Compress, Compression};
use super::super::reader::{Section, shorten};
use super::super::values::is_token;

/// `None` where it is not given.
pub(super) fn of(section: &Section<'_>) -> Option<Compression> {
    section.given("compress")?;
    if !section.is_table("compress") {
        return Some(match section.flag("compress") {
            true => Compression::On(Compress::default()),
            false => Compression::Off,
        });
    }
    let section = section.section("compress");
    let codings = section.choices("codings");
    if let Some(span) = section.empty_array("codings") {
        section.cx.error_with(&span, "`codings` is empty", "write `compress = false`");
    }
    Some(Compression::On(Compress {
        types: types(&section),
        bytes_min: section.number("bytes_min").value,
        codings: codings.into_iter().filter_map(Coding::of_token).collect(),
        zstd_level: section.number("zstd_level").value,
        gzip_level: section.number("gzip_level").value,
        cookies_over_tls: section.flag("cookies_over_tls"),
    }))
}

/// Refuses rules about `Content-Encoding` where content is compressed: without its field, or with another one, it cannot be read.
/// `on`: what `compress` comes to there; `siblings`: whether files may have compressed ones beside them.
pub(super) fn check_fields(section: &Section<'_>, of_site: &Section<'_>, on: bool, siblings: bool) {
    let hint = match (on, siblings) {
        (true, _) => "write `compress = false`, or leave the field alone",
        (false, true) => "write `precompressed = []`, or leave the field alone",
        (false, false) => return,
    };
    for place in [section, of_site] {
        for table in [place.section("response_headers"), place.section("headers")] {
            let named = |key| {
                if key == "remove" {
                    table.texts(key)
                } else {
                    table.map(key).into_iter().map(|(name, _)| name).collect()
                }
            };
            let keys = ["set", "add", "remove"].into_iter().filter(|key| table.given(key).is_some());
            for (key, name) in keys.flat_map(|key| named(key).into_iter().map(move |name| (key, name))) {
                if name.value.eq_ignore_ascii_case("content-encoding") {
                    let message = format!(
                        "`{key}` names `{}`, by which clients read what is compressed",
                        shorten(&name.value)
                    );
                    section.cx.error_with(&name.span, message, hint);
                }
            }
        }
    }
}

/// What `compress` of a route, and of its site, come to.
pub(super) fn is_on(of_route: Option<&Compression>, of_site: Option<&Compression>) -> bool {
    matches!(of_route.or(of_site), Some(Compression::On(_)))
}

fn types(section: &Section<'_>) -> Vec<String> {
    let mut types = Vec::new();
    for text in section.texts("types") {
        let what = format!("`types`: \"{}\" is not a media type", shorten(&text.value));
        let Some(media) = section.cx.accept(&text.span, &what, media_type(&text.value)) else { continue };
        if types.contains(&media) {
            section.cx.error(&text.span, format!("`types` names \"{}\" twice", shorten(&text.value)));
        }
        types.push(media);
    }
    types
}

fn media_type(text: &str) -> Result<String, String> {
    const FORM: &str = "it looks like \"text/html\", \"text/*\" or \"*+json\"";
    let lower = text.to_ascii_lowercase();
    if let Some(suffix) = lower.strip_prefix("*+") {
        return if is_token(suffix) && !suffix.contains('*') { Ok(lower) } else { Err(FORM.to_owned()) };
    }
    let Some((family, name)) = lower.split_once('/') else { return Err(FORM.to_owned()) };
    match is_token(family) && !family.contains('*') && (name == "*" || is_token(name) && !name.contains('*'))
    {
        true => Ok(lower),
        false => Err(FORM.to_owned()),
    }
}
