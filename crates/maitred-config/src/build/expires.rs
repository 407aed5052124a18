//! `expires`

use std::time::Duration;

use super::super::expires::{Expires, ExpiresFor, MAX_AGE_MAX};
use super::super::finding::At;
use super::super::reader::{Section, shorten};
use super::super::values::is_field_value;
use super::media::is_media_type;

const VALUES: &str = "it takes a time such as \"30d\", \"no-cache\", \"no-store\", \"immutable\", \"max\", \"epoch\", \"off\", or directives \
                      of `Cache-Control` such as \"private, max-age=60\"";

/// `None` where it is not given.
pub(super) fn of(section: &Section<'_>) -> Option<Expires> {
    section.given("expires")?;
    if !section.is_table("expires") {
        // As `{ default = … }`.
        let value = section.text("expires").and_then(|text| cache_control(section, &text));
        return Some(value.into_iter().map(|value| (ExpiresFor::Default, value)).collect());
    }
    let mut rules: Expires = Vec::new();
    for (name, value) in section.map("expires") {
        let what = format!("`expires`: \"{}\" names no files", shorten(&name.value));
        let key = section.cx.accept(&name.span, &what, subject(&name.value));
        let value = cache_control(section, &value);
        let (Some(key), Some(value)) = (key, value) else { continue };
        if rules.iter().any(|(other, _)| *other == key) {
            section.cx.error(&name.span, format!("`expires` has \"{}\" twice", shorten(&name.value)));
        }
        rules.push((key, value));
    }
    // The longest ending is the most specific one.
    let length = |subject: &ExpiresFor| match subject {
        ExpiresFor::Ending(text) => text.len(),
        _ => 0,
    };
    let kind = |subject: &ExpiresFor| match subject {
        ExpiresFor::Name(_) => 0,
        ExpiresFor::Hashed => 1,
        ExpiresFor::Ending(_) => 2,
        ExpiresFor::Type(_) => 3,
        ExpiresFor::Family(_) => 4,
        ExpiresFor::Default => 5,
    };
    rules.sort_by_key(|(subject, _)| (kind(subject), std::cmp::Reverse(length(subject))));
    Some(rules)
}

fn subject(text: &str) -> Result<ExpiresFor, String> {
    const HINT: &str = "write a name (\"sw.js\"), an ending (\"*.html\"), \"hashed\", a media type (\"image/*\"), or \"default\"";
    if text.starts_with('/') {
        return Err("paths are given to a [[site.route]], which can have its own `expires`".into());
    }
    let lower = text.to_ascii_lowercase();
    match text {
        "default" => return Ok(ExpiresFor::Default),
        "hashed" => return Ok(ExpiresFor::Hashed),
        _ => {}
    }
    if let Some(ending) = lower.strip_prefix('*').filter(|ending| ending.len() > 1 && ending.starts_with('.'))
    {
        return match ending.contains(['*', '/']) {
            true => Err(HINT.into()),
            false => Ok(ExpiresFor::Ending(ending.to_owned())),
        };
    }
    if let Some(family) = lower.strip_suffix('*').filter(|family| family.ends_with('/')) {
        return match is_media_type(&format!("{family}x")) {
            true => Ok(ExpiresFor::Family(family.to_owned())),
            false => Err(HINT.into()),
        };
    }
    if is_media_type(&lower) {
        return Ok(ExpiresFor::Type(lower));
    }
    let is_name = text.contains('.') && !text.contains(['*', '/', ' ']);
    if is_name { Ok(ExpiresFor::Name(text.to_owned())) } else { Err(HINT.into()) }
}

/// The value of `Cache-Control`; `Some(None)` for `"off"`. Nothing, with an error, for what is neither.
fn cache_control(section: &Section<'_>, value: &At<String>) -> Option<Option<String>> {
    let text = value.value.as_str();
    Some(match text {
        "off" => None,
        "immutable" => Some("max-age=31536000, immutable".to_owned()),
        "no-cache" | "no-store" => Some(text.to_owned()),
        // As nginx says it: ten years, and what has gone out of date already.
        "max" => Some("max-age=315360000".to_owned()),
        "epoch" => Some("no-cache".to_owned()),
        // The directives are caches' business.
        _ if text.contains(['=', ',']) && is_field_value(text) => Some(text.to_owned()),
        _ => {
            let what = format!("`expires` does not take \"{}\"", shorten(text));
            let time = section.cx.accept(&value.span, &what, age(text))?;
            Some(format!("max-age={}", time.as_secs()))
        }
    })
}

/// `"30d"`: seconds, minutes, hours, days, weeks, years of 365 days.
fn age(text: &str) -> Result<Duration, String> {
    let (number, unit) = text.split_at(text.bytes().take_while(u8::is_ascii_digit).count());
    let seconds: u64 = match unit.trim_start() {
        "s" => 1,
        "m" | "min" => 60,
        "h" => 60 * 60,
        "d" => 24 * 60 * 60,
        "w" => 7 * 24 * 60 * 60,
        "y" => 365 * 24 * 60 * 60,
        _ => return Err(VALUES.to_owned()),
    };
    let number: u64 = number.parse().map_err(|_| VALUES.to_owned())?;
    let age = Duration::from_secs(number.saturating_mul(seconds));
    if age > MAX_AGE_MAX {
        return Err("this is longer than caches count: 68 years".to_owned());
    }
    Ok(age)
}
