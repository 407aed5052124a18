//! Placeholders in the values of fields, and of variables of FastCGI.

use maitred_config::{Part, Template};

use maitred_http::request::Header;

use super::facts::{Facts, Origin};
use super::place::{Place, Value, with_origin};

/// What placeholders of fields and variables are filled in with: what is known of a request that has passed its gates.
#[derive(Clone, Copy)]
pub struct Told<'a> {
    /// The authority of the request.
    pub authority: &'a str,
    /// Where it comes from. Few templates ask.
    pub origin: &'a dyn Fn() -> Origin,
    /// Path and query, as they are passed on.
    pub uri: &'a str,
    /// The user that a gate has found; empty without one.
    pub user: &'a str,
    /// The id.
    pub request_id: &'a [u8],
    /// The fields of the request, as they have come in.
    pub fields: &'a [Header<'a>],
}

impl<'a> Told<'a> {
    /// The first field of this name; empty without one.
    fn field(&self, name: &str) -> &'a [u8] {
        let first = self.fields.iter().find(|field| field.name.eq_ignore_ascii_case(name));
        first.map(|field| field.value).unwrap_or_default()
    }
}

/// A field whose value has placeholders.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Filled {
    /// The name, as the operator has written it.
    pub name: Box<str>,
    value: Template,
}

impl Filled {
    /// Compiles it.
    pub(crate) fn new(name: &str, value: &Template) -> Filled {
        Filled { name: name.into(), value: value.clone() }
    }

    /// Whether the id of the request is a part of it.
    pub fn has_id(&self) -> bool {
        self.value.0.contains(&Part::RequestId)
    }

    /// Makes `out` the value. The value has no white space at its ends, no matter what the placeholders stand for, and nothing
    /// that could end the field.
    ///
    /// A value that is a field of the request and nothing else is as that field has come in, which was the value of one; `false`:
    /// the request has none, or an empty one, and the field is left out.
    #[must_use]
    pub fn fill(&self, told: &Told<'_>, out: &mut Vec<u8>) -> bool {
        out.clear();
        if let [Part::Header(name)] = self.value.0.as_slice() {
            out.extend_from_slice(told.field(name).trim_ascii());
            return !out.is_empty();
        }
        put(&self.value, Place::Field, told, out);
        let end = out.trim_ascii_end().len();
        out.truncate(end);
        let start = out.len() - out.trim_ascii_start().len();
        out.drain(..start);
        true
    }
}

/// Appends the value of a variable of FastCGI.
pub fn put_variable(value: &Template, told: &Told<'_>, out: &mut Vec<u8>) {
    put(value, Place::Variable, told, out);
}

fn put(template: &Template, place: Place, told: &Told<'_>, out: &mut Vec<u8>) {
    for part in &template.0 {
        match part {
            Part::Text(text) => place.put_text(text, out),
            Part::Uri => place.put(Value::Uri(told.uri.as_bytes()), out),
            Part::User => place.put(Value::One(told.user.as_bytes()), out),
            Part::RequestId => place.put(Value::One(told.request_id), out),
            Part::Host => place.put(Value::Host(Facts::host_of(told.authority)), out),
            Part::Port | Part::Scheme | Part::Client => {
                with_origin((told.origin)(), part, &mut |value| place.put(value, out));
            }
            Part::Header(name) => place.put(Value::One(told.field(name)), out),
            // Such parts are about a target that was rewritten since: the configuration refuses them here.
            Part::Path | Part::Query | Part::Capture(_) | Part::Parameter(_) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filled(text: &str, user: &str) -> String {
        let origin = || Origin { client: "::ffff:192.0.2.1".parse().ok(), https: true, port: 8443 };
        let (authority, uri, request_id) = ("a.example:8443", "/a%20b?c=d;e", &b"id-1"[..]);
        let fields = [
            Header { name: "Origin", value: b"https://b.example:8443" },
            Header { name: "user-agent", value: b"A/1 (B; C), \"D\"" },
        ];
        let told = Told { authority, origin: &origin, uri, user, request_id, fields: &fields };
        let mut out = b"old".to_vec();
        let sent = Filled::new("X", &Template::parse_value(text).unwrap()).fill(&told, &mut out);
        assert_eq!(sent, text != "{header.X-None}", "{text}");
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn placeholders_of_fields_are_filled_in() {
        for (text, expected) in [
            ("{scheme}://{host}:{port}{uri}", "https://a.example:8443/a%20b?c=d;e"),
            ("for={client};by={user}", "for=192.0.2.1;by=ann"),
            ("{request_id}", "id-1"),
            ("{header.origin}", "https://b.example:8443"),
            // What is the whole value ends nothing; what is a part of it would end that part.
            ("{header.User-Agent}", "A/1 (B; C), \"D\""),
            ("a={header.User-Agent}", "a=A/1%20(B%3B%20C)%2C%20%22D%22"),
            ("{header.X-None}", ""),
            ("{{{user}}}", "{ann}"),
            ("a, \"b\" %", "a, \"b\" %"),
        ] {
            assert_eq!(filled(text, "ann"), expected, "{text}");
        }
    }

    #[test]
    fn no_value_ends_a_field() {
        for (user, expected) in [
            ("ann@a.example", "ann@a.example"),
            ("a\r\nX-B: c", "a%0D%0AX-B:%20c"),
            ("a\", b;c=d%\\", "a%22%2C%20b%3Bc=d%25%5C"),
            ("é\0\x7f", "%C3%A9%00%7F"),
            (" ", "%20"),
            ("", ""),
        ] {
            assert_eq!(filled("{user}", user), expected, "{user:?}");
        }
        assert_eq!(filled("{user} {user}", ""), "", "no white space at its ends");
        assert_eq!(filled(" a{user}", ""), "a");
    }

    proptest::proptest! {
        #[test]
        fn what_stands_in_a_field_is_decoded_to_the_same(user in ".{0,20}") {
            let value = filled("\"{user}\"", &user);
            let inner = value.trim_matches('"');
            assert!(maitred_http::fields::is_value(value.as_bytes()) && !inner.contains(['"', '\\', ',', ';']));
            let decoded = maitred_http::uri::decode_parameter(&inner.replace('+', "%2B"));
            assert_eq!(decoded, user.as_bytes());
        }
    }

    #[test]
    fn variables_are_as_they_are_without_control_characters() {
        let origin = || Origin { client: None, https: false, port: 80 };
        for (user, expected) in [("a b;c%é", "<a b;c%é>"), ("a\nb", "<>"), ("a\0b", "<>")] {
            let told = Told { authority: "", origin: &origin, uri: "/", user, request_id: b"", fields: &[] };
            let mut out = Vec::new();
            put_variable(&Template::parse_value("<{user}{client}>").unwrap(), &told, &mut out);
            assert_eq!(String::from_utf8(out).unwrap(), expected);
        }
    }
}
