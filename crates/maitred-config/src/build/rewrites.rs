//! What a route changes in the target of a request, and where redirects may lead.

use regex::bytes::Regex;

use super::super::finding::At;
use super::super::meaning::PathPattern;
use super::super::reader::{Section, shorten};
use super::super::rewrites::Rewrite;
use super::super::template::{Part, Template};
use super::super::values::is_field_value;
use super::paths;

/// What the keys of a route to a pool say; and `rewrite`, which one to files may have as well.
pub(super) fn of_route(
    section: &Section<'_>,
    patterns: &[At<PathPattern>],
    regex: Option<&Regex>,
) -> Rewrite {
    let to_pool = section.given("pool").is_some();
    let to = path_template(section, "rewrite", regex);
    let strips = to_pool && section.given("strip_prefix").is_some();
    let strip_prefix = if strips { paths::strip_prefix(section, patterns) } else { None };
    if let (None, Some(span)) = (&strip_prefix, section.key_span("replace_prefix")) {
        section.cx.error(
            &span,
            "`replace_prefix` takes the place of `strip_prefix`, which this route does not have",
        );
    }
    if let (Some(_), Some(_), Some(span)) = (&strip_prefix, &to, section.key_span("rewrite")) {
        section.cx.error(&span, "`rewrite` gives the whole path, so that `strip_prefix` has no effect");
    }
    let query = section.section("query");
    Rewrite {
        strip_prefix,
        replace_prefix: replace_prefix(section),
        to,
        set_query: query.map("set").into_iter().filter_map(|pair| parameter(&query, pair, regex)).collect(),
        remove_query: query.texts("remove").into_iter().map(|name| name.value).collect(),
    }
}

fn replace_prefix(section: &Section<'_>) -> String {
    let Some(text) = section.text("replace_prefix") else { return "/".into() };
    if !text.value.starts_with('/') || !text.value.ends_with('/') || !is_path(&text.value) {
        section.cx.error_with(
            &text.span,
            format!("`replace_prefix`: \"{}\" is not the start of a path", shorten(&text.value)),
            "it starts and ends with `/`: \"/v2/\"",
        );
    }
    text.value
}

fn parameter(
    section: &Section<'_>,
    (name, value): (At<String>, At<String>),
    regex: Option<&Regex>,
) -> Option<(String, Template)> {
    let what = format!("`set`: \"{}\" cannot be a value", shorten(&value.value));
    Some((name.value, section.cx.accept(&value.span, &what, Template::parse(&value.value, regex))?))
}

/// A path with placeholders, and perhaps a query behind it.
pub(super) fn path_template(section: &Section<'_>, key: &str, regex: Option<&Regex>) -> Option<Template> {
    let text = section.text(key)?;
    let what = format!("`{key}`: \"{}\" is not a path", shorten(&text.value));
    let parsed = Template::parse(&text.value, regex).and_then(|template| match template.0.first() {
        _ if !is_path(text.value.split_once('?').map_or(&text.value, |(path, _)| path)) => {
            Err("a path has no `..`, no `#` and no control characters".into())
        }
        Some(Part::Path | Part::Uri) => Ok(template),
        Some(Part::Text(start)) if start.starts_with('/') => Ok(template),
        _ => Err("it starts with `/`, `{path}` or `{uri}`".into()),
    });
    section.cx.accept(&text.span, &what, parsed)
}

fn is_path(text: &str) -> bool {
    !text.contains(['#', '\0']) && is_field_value(text) && !text.split('/').any(|part| part == "..")
}

/// The place that a redirect leads to, which no client may choose: scheme and host, or the beginning of a path, come from the
/// configuration; the host may be the one that the request names, since that is the one it was sent to.
pub(super) fn location(text: &str, regex: Option<&Regex>) -> Result<Template, String> {
    const ELSEWHERE: &str = "a client could make it lead to any host: start it with \"https://example.com\" or \
                             \"https://{host}\", or with a path of its own before the placeholder";
    if !text.is_ascii() || !is_field_value(text) || text.is_empty() {
        return Err("a URI has only printable ASCII characters and no spaces; encode others as `%XX`".into());
    }
    let template = Template::parse(text, regex)?;
    let has = |bad: &[char]| {
        template.0.iter().any(|part| if let Part::Text(text) = part { text.contains(bad) } else { false })
    };
    if has(&[' ']) {
        return Err("a URI has no spaces; encode them as `%20`".into());
    }
    if has(&['{', '}']) {
        return Err("a URI has no braces; encode them as `%7B` and `%7D`".into());
    }
    let mut parts = template.0.iter();
    let first = match parts.next() {
        // A second slash would begin the name of a host.
        Some(Part::Text(path)) if path.starts_with('/') => {
            let bounded = path.len() > 1 || template.0.len() == 1;
            return if path.starts_with("//") || !bounded { Err(ELSEWHERE.into()) } else { Ok(template) };
        }
        Some(Part::Text(text)) => match text.split_once("://") {
            Some((scheme, rest)) if is_scheme(scheme) => rest,
            _ => return Err("it starts with \"https://\" and a host, or with `/`".into()),
        },
        Some(Part::Scheme) => match parts.next() {
            Some(Part::Text(text)) if text.starts_with("://") => text.get(3..).unwrap_or_default(),
            _ => return Err("`{scheme}` is followed by `://` and a host".into()),
        },
        _ => return Err(ELSEWHERE.into()),
    };
    let mut named = !first.is_empty();
    if first.starts_with(['/', '?', '#']) {
        return Err("there is no host after `://`".into());
    }
    if first.contains(['/', '?', '#']) {
        return Ok(template);
    }
    for part in parts {
        match part {
            Part::Text(text) if text.starts_with(['/', '?', '#']) && !named => break,
            Part::Text(text) if text.contains(['/', '?', '#']) => return Ok(template),
            Part::Text(_) | Part::Host | Part::Port => named = true,
            Part::Path | Part::Uri if named => return Ok(template),
            _ => return Err(ELSEWHERE.into()),
        }
    }
    if named { Ok(template) } else { Err("there is no host after `://`".into()) }
}

fn is_scheme(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_redirect_never_leads_where_the_client_says() {
        let regex = super::super::super::template::regex("^/(.*)").ok();
        for to in [
            "https://example.com{uri}",
            "/new/{path}",
            "/",
            "https://example.com/?from={uri}",
            "https://{host}{uri}",
            "{scheme}://www.{host}:{port}{uri}",
            "https://{host}:8443/{capture.1}",
            "/x{capture.1}",
            "https://example.com?x={header.X}",
        ] {
            assert!(location(to, regex.as_ref()).is_ok(), "{to}: {:?}", location(to, regex.as_ref()));
        }
        for to in [
            "",
            "{uri}",
            "/{uri}",
            "//x{uri}",
            "https://{path}",
            "https:///x",
            "https://",
            "x",
            "/a b",
            "/{{a}}",
            "/{nothing}",
            "/\r\nA: b",
            "https://example.com{capture.1}",
            "https://{capture.1}",
            "https://example.com{header.X}",
            "https://{host}{query.next}",
            "{scheme}{uri}",
            "{host}{uri}",
            "{capture.1}",
        ] {
            assert!(location(to, regex.as_ref()).is_err(), "{to}");
        }
    }
}
