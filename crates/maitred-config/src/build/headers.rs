//! Rules about header fields: `headers` of files, `response_headers` and `request_headers` of sites and routes.

use super::super::finding::At;
use super::super::headers::{RequestHeaderRules, ResponseHeaders};
use super::super::meaning::HeaderRules;
use super::super::reader::{Section, shorten};
use super::super::template::Template;
use super::super::values::{is_field_value, is_token};

/// Fields that frame a message, or belong to one connection (RFC 9110 section 7.6.1): only the server sets them.
const FRAMING: [&str; 9] = [
    "connection",
    "content-length",
    "content-range",
    "date",
    "keep-alive",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];

/// Beginnings of the names of fields in which Maitred tells applications who the client is.
const TOLD: [&str; 8] = [
    "early-data",
    "x-forwarded-",
    "forwarded",
    "x-real-ip",
    "x-request-id",
    "x-request-start",
    "x-queue-start",
    "x-ssl-",
];

/// `headers`
pub(super) fn of_files(section: &Section<'_>) -> HeaderRules {
    let set: Vec<_> =
        pairs(section, "set", check_name).into_iter().map(|(name, at)| (name, at.value)).collect();
    let remove = names(section, &[named(&set)], check_name);
    HeaderRules { set, remove }
}

/// `response_headers`
pub(super) fn of_responses(section: &Section<'_>) -> ResponseHeaders {
    let values = |key| values(section, key, pairs(section, key, check_name));
    let ((set, set_filled), (add, add_filled)) = (values("set"), values("add"));
    let (if_absent, filled) = values("if_absent");
    if let (false, Some(span)) = (filled.is_empty(), section.key_span("if_absent")) {
        section.cx.error(&span, "values of `if_absent` have no placeholders, which `set` and `add` can have");
    }
    // The fields of the site and of the route come together, and those of `security_headers`, `hsts` and `server_header`.
    let most = maitred_http::fields::IF_ABSENT_MAX / 2 - 6;
    if let (true, Some(span)) = (if_absent.len() > most, section.key_span("if_absent")) {
        section.cx.error(&span, format!("`if_absent` has more than {most} fields"));
    }
    let remove = names(section, &[named(&set), named(&set_filled), named(&if_absent)], check_name);
    ResponseHeaders { set, set_filled, add, add_filled, remove, if_absent }
}

/// `request_headers`
pub(super) fn of_requests(section: &Section<'_>) -> RequestHeaderRules {
    let set = pairs(section, "set", |section, name| {
        if is_left_to_operators(&name.value) {
            check_name(section, name);
        } else if !name.value.eq_ignore_ascii_case("host") {
            check_request_name(section, name);
        }
    });
    let authority = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~:[]".contains(&byte);
    for (name, value) in &set {
        let valid = !value.value.is_empty() && value.value.bytes().all(authority);
        if let (true, false) = (name.eq_ignore_ascii_case("host"), valid) {
            let message = format!("`Host` cannot be \"{}\"", shorten(&value.value));
            section.cx.error_with(&value.span, message, "a host name, with or without a port");
        }
    }
    let (set, set_filled) = values(section, "set", set);
    let remove = names(section, &[named(&set), named(&set_filled)], check_request_name);
    RequestHeaderRules { set, set_filled, remove }
}

/// Values as they are, and those with placeholders.
type Values = (Vec<(String, String)>, Vec<(String, Template)>);

fn values(section: &Section<'_>, key: &str, pairs: Vec<(String, At<String>)>) -> Values {
    let (mut plain, mut filled) = Values::default();
    for (name, value) in pairs {
        let what = format!("`{key}`: this cannot be the value of `{}`", shorten(&name));
        let Some(template) = section.cx.accept(&value.span, &what, Template::parse_value(&value.value))
        else {
            continue;
        };
        match template.as_plain() {
            Some(text) => plain.push((name, text)),
            None => filled.push((name, template)),
        }
    }
    (plain, filled)
}

fn named<V>(pairs: &[(String, V)]) -> Vec<&str> {
    pairs.iter().map(|(name, _)| name.as_str()).collect()
}

/// Fields about the client that Maitred does not write itself, and that trusted proxies alone may send: what a configuration says
/// in them takes the place of that.
fn is_left_to_operators(name: &str) -> bool {
    const WRITTEN: [&str; 3] = ["for", "proto", "host"];
    let lower = name.to_ascii_lowercase();
    let of_hops = lower.strip_prefix("x-forwarded-").filter(|rest| !rest.contains(['_', '.']));
    lower == "x-real-ip" || of_hops.is_some_and(|rest| !rest.is_empty() && !WRITTEN.contains(&rest))
}

/// Names that are Maitred's own towards pools, in whatever spelling: for applications that see fields as variables (RFC 3875
/// section 4.1.18) `_` and `.` are `-`.
pub(super) fn check_request_name(section: &Section<'_>, name: &At<String>) {
    check_name(section, name);
    let alike = name.value.to_ascii_lowercase().replace(['_', '.'], "-");
    if TOLD.iter().any(|told| alike.starts_with(told)) {
        section.cx.error_with(
            &name.span,
            format!("`{}` says who the client is, and is written by Maitred", shorten(&name.value)),
            "`trusted_proxies` says whose word about that is believed",
        );
    } else if is_token(&name.value)
        && !FRAMING.contains(&name.value.to_ascii_lowercase().as_str())
        && !maitred_handoff::is_forwardable(&alike)
    {
        section.cx.error_with(
            &name.span,
            format!("`{}` is never sent to a pool by this rule", shorten(&name.value)),
            "fields of the connection and of the message are written by Maitred; `Host` can be set",
        );
    }
}

type Check = fn(&Section<'_>, &At<String>);

fn pairs(section: &Section<'_>, key: &'static str, check: Check) -> Vec<(String, At<String>)> {
    let mut pairs: Vec<(String, At<String>)> = Vec::new();
    for (name, value) in section.map(key) {
        check(section, &name);
        if !is_field_value(&value.value) {
            section.cx.error_with(
                &value.span,
                format!("`{key}`: this cannot be the value of `{}`", shorten(&name.value)),
                "a value has no control characters, and no white space at its ends",
            );
        }
        if pairs.iter().any(|(other, _)| other.eq_ignore_ascii_case(&name.value)) {
            section.cx.error(&name.span, format!("`{key}` has `{}` twice", shorten(&name.value)));
        }
        pairs.push((name.value, value));
    }
    pairs
}

fn names(section: &Section<'_>, given: &[Vec<&str>], check: Check) -> Vec<String> {
    let mut removed = Vec::new();
    for name in section.texts("remove") {
        check(section, &name);
        let lower = name.value.to_ascii_lowercase();
        if given.iter().flatten().any(|other| other.eq_ignore_ascii_case(&lower)) {
            let message = format!("`{}` is both set and removed", shorten(&name.value));
            section.cx.error_with(&name.span, message, "`set` replaces what is there already");
        }
        removed.push(lower);
    }
    removed
}

pub(super) fn check_name(section: &Section<'_>, name: &At<String>) {
    let lower = name.value.to_ascii_lowercase();
    if !is_token(&name.value) {
        let message = format!("\"{}\" cannot be the name of a header field", shorten(&name.value));
        section.cx.error_with(&name.span, message, "a name has letters, digits and `-`, and no colon");
    } else if FRAMING.contains(&lower.as_str()) {
        section.cx.error_with(
            &name.span,
            format!("`{}` is written by Maitred and cannot be changed", shorten(&name.value)),
            "fields that delimit a message, or are about one connection, and `Date`, are facts",
        );
    }
}
