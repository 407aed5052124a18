//! `cors`

use super::super::cors::{Cors, OriginPattern};
use super::super::reader::{Section, shorten};
use super::super::values::is_token;

/// `None` where it is not given.
pub(super) fn of(section: &Section<'_>) -> Option<Cors> {
    let (given, section) = (section.given("cors"), section.section("cors"));
    given?;
    let credentials = section.flag("credentials");
    for key in ["origins", "methods", "headers", "expose"] {
        let any = section.texts(key).into_iter().find(|text| text.value == "*");
        if let Some(any) = any.filter(|_| credentials) {
            let message = format!("`cors`: with `credentials`, `{key}` cannot be \"*\"");
            section.cx.error_with(&any.span, message, "browsers refuse that: name what is meant");
        }
    }
    Some(Cors {
        origins: origins(&section),
        methods: tokens(&section, "methods", "a method"),
        headers: tokens(&section, "headers", "the name of a header field"),
        expose: tokens(&section, "expose", "the name of a header field"),
        credentials,
        max_age: section.time("max_age"),
    })
}

fn origins(section: &Section<'_>) -> Vec<OriginPattern> {
    let mut origins = Vec::new();
    for text in section.texts("origins") {
        let what = format!("`origins`: \"{}\" is not an origin", shorten(&text.value));
        let Some(origin) = section.cx.accept(&text.span, &what, origin(&text.value)) else { continue };
        if origins.contains(&origin) {
            section.cx.error(&text.span, format!("`origins` names \"{}\" twice", shorten(&text.value)));
        }
        origins.push(origin);
    }
    origins
}

/// As browsers write it (RFC 6454 section 6.1).
fn origin(text: &str) -> Result<OriginPattern, String> {
    const FORM: &str = "it looks like \"https://a.example\", \"https://*.b.example:8443\", or is \"*\"";
    if text == "*" {
        return Ok(OriginPattern::Any);
    }
    let Some((scheme, authority)) = text.split_once("://") else {
        return Err(format!("its scheme is missing: {FORM}"));
    };
    if authority.contains(['/', '?', '#']) {
        return Err("an origin has no path, not even a slash at its end".to_owned());
    }
    if text.bytes().any(|byte| byte.is_ascii_uppercase()) {
        return Err("browsers write origins in lower case".to_owned());
    }
    let (wildcard, host) = match authority.strip_prefix("*.") {
        Some(host) => (true, host),
        None => (false, authority),
    };
    let scheme_fits = scheme.starts_with(|first: char| first.is_ascii_lowercase())
        && scheme.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte));
    let host_fits = host.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._:[]".contains(&byte));
    if !scheme_fits || host.is_empty() || !host_fits {
        return Err(FORM.to_owned());
    }
    let default_port = match scheme {
        "https" => ":443",
        "http" => ":80",
        _ => "\0",
    };
    if host.ends_with(default_port) {
        return Err(format!("browsers leave out `{default_port}`, which goes without saying"));
    }
    Ok(match wildcard {
        true => OriginPattern::Below(format!("{scheme}://"), format!(".{host}")),
        false => OriginPattern::Exact(text.to_owned()),
    })
}

fn tokens(section: &Section<'_>, key: &'static str, what: &str) -> Vec<String> {
    let mut tokens = Vec::new();
    for text in section.texts(key) {
        if !is_token(&text.value) {
            section.cx.error(&text.span, format!("`{key}`: \"{}\" is not {what}", shorten(&text.value)));
        } else if key == "methods" && text.value.bytes().any(|byte| byte.is_ascii_lowercase()) {
            let message = format!("`methods`: \"{}\" is not in capital letters", shorten(&text.value));
            section.cx.error(&text.span, message);
        }
        tokens.push(text.value);
    }
    tokens
}
