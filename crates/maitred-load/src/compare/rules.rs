//! What counts as the same, field by field. docs/compare.md has these tables; a test holds that.

/// How the values of a field are compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum How {
    /// Not at all.
    Ignored,
    /// Both have it, or neither.
    Presence,
    /// Byte for byte; several lines are one list.
    Exact,
    /// A list in any order, in any case.
    List,
    /// Both are dates.
    Date,
    /// A date by its distance from `Date`, to two seconds.
    Expiry,
    /// Both are weak, or both are strong.
    Tag,
    /// Names and attributes of cookies, in any order, without values and dates.
    Cookies,
    /// An address, made absolute, with each server's own address in place of the other's.
    Uri,
    /// A media type, in any case, without the boundary of its parts.
    MediaType,
    /// A challenge, without the charset that passwords are in (RFC 7617 section 2.1).
    Challenge,
    /// A number, where both have it and the request is HEAD.
    Length,
    /// A host, with the server's own port, or the upstream's address, in place of the other's.
    Host,
    /// A port, the server's own one in place of the other's.
    Port,
}

impl How {
    /// In words.
    pub fn words(self) -> &'static str {
        match self {
            How::Ignored => "not compared",
            How::Presence => "there or not",
            How::Exact => "exactly",
            How::List => "as a list in any order and case",
            How::Date => "both are dates",
            How::Expiry => "by its distance from `Date`",
            How::Tag => "weak or strong",
            How::Cookies => "names and attributes",
            How::Uri => "as an absolute address",
            How::MediaType => "in any case, without `boundary`",
            How::Challenge => "without `charset`",
            How::Length => "of HEAD, where both have it",
            How::Host => "own ports and addresses are the same",
            How::Port => "own ports are the same",
        }
    }
}

/// The rule of a field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rule {
    /// The field's name in lower case.
    pub name: &'static str,
    /// How it is compared.
    pub how: How,
    /// Why so.
    pub why: &'static str,
}

const fn rule(name: &'static str, how: How, why: &'static str) -> Rule {
    Rule { name, how, why }
}

const OF_CONNECTION: &str = "it is about one connection";
const FRAMING: &str = "it is framing; the content itself is compared";
const OWN_ID: &str = "each request has its own";

/// Fields of responses. Others are compared exactly.
pub const RESPONSE: &[Rule] = &[
    rule("accept-ranges", How::List, "its order means nothing"),
    rule("access-control-allow-headers", How::List, "its order means nothing"),
    rule("access-control-allow-methods", How::List, "its order means nothing"),
    rule("access-control-expose-headers", How::List, "its order means nothing"),
    rule("age", How::Presence, "the two caches were filled at different times"),
    rule("allow", How::List, "its order means nothing"),
    rule("alt-svc", How::Presence, "it names the server's own port"),
    rule("cache-control", How::List, "its order means nothing"),
    rule("connection", How::Ignored, OF_CONNECTION),
    rule("content-length", How::Length, "a response may be framed by chunks instead; content is compared"),
    rule("content-location", How::Uri, "a relative form means the same"),
    rule(
        "content-type",
        How::MediaType,
        "names are in any case, and a boundary is made up for each response",
    ),
    rule("date", How::Date, "it is the time of the response"),
    rule("etag", How::Tag, "each server makes its own; a weak one permits no ranges"),
    rule("expires", How::Expiry, "it counts from the time of the response"),
    rule("keep-alive", How::Ignored, OF_CONNECTION),
    rule("location", How::Uri, "a relative form means the same"),
    rule("proxy-connection", How::Ignored, OF_CONNECTION),
    rule("server", How::Ignored, "it names the product"),
    rule("set-cookie", How::Cookies, "sessions have values of their own"),
    rule("traceparent", How::Presence, OWN_ID),
    rule("transfer-encoding", How::Ignored, FRAMING),
    rule("upgrade", How::Ignored, OF_CONNECTION),
    rule("vary", How::List, "its order means nothing"),
    rule("via", How::Presence, "it names the proxy"),
    rule("www-authenticate", How::Challenge, "browsers take UTF-8 in any case"),
    rule("x-amzn-trace-id", How::Presence, OWN_ID),
    rule("x-compare", How::Ignored, "it is this program's"),
    rule("x-correlation-id", How::Presence, OWN_ID),
    rule("x-request-id", How::Presence, OWN_ID),
    rule("x-runtime", How::Presence, "it is a measured time"),
];

/// Fields that applications receive. Others are compared exactly.
pub const REQUEST: &[Rule] = &[
    rule("$content_length", How::Ignored, FRAMING),
    rule("$remote_port", How::Ignored, OF_CONNECTION),
    rule("$server_port", How::Port, "it is the server's own port"),
    rule("$server_software", How::Ignored, "it names the product"),
    rule("connection", How::Ignored, OF_CONNECTION),
    rule("content-length", How::Ignored, FRAMING),
    rule("forwarded", How::Host, "it may name the server's own port"),
    rule("host", How::Host, "it may name the server's own port, or the upstream"),
    rule("keep-alive", How::Ignored, OF_CONNECTION),
    rule("te", How::Ignored, OF_CONNECTION),
    rule("traceparent", How::Presence, OWN_ID),
    rule("tracestate", How::Presence, OWN_ID),
    rule("transfer-encoding", How::Ignored, FRAMING),
    rule("via", How::Presence, "it names the proxy"),
    rule("x-amzn-trace-id", How::Presence, OWN_ID),
    rule("x-compare", How::Ignored, "it is this program's"),
    rule("x-correlation-id", How::Presence, OWN_ID),
    rule("x-forwarded-host", How::Host, "it may name the server's own port"),
    rule("x-forwarded-port", How::Port, "it is the server's own port"),
    rule("x-forwarded-server", How::Presence, "it names the proxy"),
    rule("x-request-id", How::Presence, OWN_ID),
    rule("x-request-start", How::Presence, "it is the time of the request"),
];

/// The rule of a field.
pub(super) fn how(rules: &[Rule], name: &str) -> How {
    rules.iter().find(|rule| rule.name == name).map_or(How::Exact, |rule| rule.how)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_field_has_one_rule_and_the_tables_are_in_order() {
        for rules in [RESPONSE, REQUEST] {
            assert!(rules.is_sorted_by(|one, two| one.name < two.name));
            assert!(rules.iter().all(|rule| rule.name == rule.name.to_ascii_lowercase()));
        }
        assert_eq!((how(RESPONSE, "server"), how(RESPONSE, "x-other")), (How::Ignored, How::Exact));
    }

    #[test]
    fn the_document_has_the_rules() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/compare.md");
        let document = std::fs::read_to_string(path).unwrap();
        let rows = |rules: &[Rule]| -> String {
            rules
                .iter()
                .map(|rule| format!("| `{}` | {} | {} |\n", rule.name, rule.how.words(), rule.why))
                .collect()
        };
        for rules in [RESPONSE, REQUEST] {
            assert!(document.contains(&rows(rules)), "docs/compare.md lacks:\n{}", rows(rules));
        }
    }
}
