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
