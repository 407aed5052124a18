//! Rules about header fields: `headers` of files, `response_headers` and `request_headers` of sites and routes.

use super::super::finding::At;
use super::super::headers::{RequestHeaderRules, ResponseHeaders};
use super::super::meaning::HeaderRules;
use super::super::reader::{Section, shorten};
use super::super::values::{is_field_value, is_token};

/// Fields that frame a message, or belong to one connection (RFC 9110 section 7.6.1): nobody else's to set.
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
const TOLD: [&str; 7] =
    ["x-forwarded-", "forwarded", "x-real-ip", "x-request-id", "x-request-start", "x-queue-start", "x-ssl-"];

/// `headers`
pub(super) fn of_files(section: &Section<'_>) -> HeaderRules {
    let set = pairs(section, "set");
    let remove = names(section, &[&set]);
    HeaderRules { set, remove }
}

/// `response_headers`
pub(super) fn of_responses(section: &Section<'_>) -> ResponseHeaders {
    let (set, add, if_absent) = (pairs(section, "set"), pairs(section, "add"), pairs(section, "if_absent"));
    let most = maitred_http::fields::IF_ABSENT_MAX / 2;
    if let (true, Some(span)) = (if_absent.len() > most, section.key_span("if_absent")) {
        section.cx.error(&span, format!("`if_absent` has more than {most} fields"));
    }
    let remove = names(section, &[&set, &if_absent]);
    ResponseHeaders { set, add, remove, if_absent }
}

/// `request_headers`
pub(super) fn of_requests(section: &Section<'_>) -> RequestHeaderRules {
    for (name, _) in section.map("set") {
        check_told(section, &name);
    }
    section.texts("remove").iter().for_each(|name| check_told(section, name));
    let set = pairs(section, "set");
    let remove = names(section, &[&set]);
    RequestHeaderRules { set, remove }
}

fn check_told(section: &Section<'_>, name: &At<String>) {
    let lower = name.value.to_ascii_lowercase();
    if TOLD.iter().any(|told| lower.starts_with(told)) {
        section.cx.error_with(
            &name.span,
            format!("`{}` says who the client is, and is written by Maitred", shorten(&name.value)),
            "`trusted_proxies` says whose word about that is believed",
        );
    }
}

fn pairs(section: &Section<'_>, key: &'static str) -> Vec<(String, String)> {
    let mut pairs: Vec<(String, String)> = Vec::new();
    for (name, value) in section.map(key) {
        check_name(section, &name);
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
        pairs.push((name.value, value.value));
    }
    pairs
}

fn names(section: &Section<'_>, given: &[&Vec<(String, String)>]) -> Vec<String> {
    let mut removed = Vec::new();
    for name in section.texts("remove") {
        check_name(section, &name);
        let lower = name.value.to_ascii_lowercase();
        if given.iter().any(|given| given.iter().any(|(other, _)| other.eq_ignore_ascii_case(&lower))) {
            let message = format!("`{}` is both set and removed", shorten(&name.value));
            section.cx.error_with(&name.span, message, "`set` replaces what is there already");
        }
        removed.push(lower);
    }
    removed
}

fn check_name(section: &Section<'_>, name: &At<String>) {
    let lower = name.value.to_ascii_lowercase();
    if !is_token(&name.value) {
        let message = format!("\"{}\" cannot be the name of a header field", shorten(&name.value));
        section.cx.error_with(&name.span, message, "a name has letters, digits and `-`, and no colon");
    } else if FRAMING.contains(&lower.as_str()) {
        section.cx.error_with(
            &name.span,
            format!("`{}` delimits the message and cannot be changed", shorten(&name.value)),
            "Maitred writes this field itself, so that no response has a wrong length",
        );
    }
}
