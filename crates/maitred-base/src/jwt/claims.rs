//! What a token says (RFC 7519 section 4), as rules and fields of requests see it.

use serde_json::{Map, Value};

/// The claims of a token whose signature is right.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Claims(Map<String, Value>);

impl Claims {
    /// Reads a payload; `None` if it is no object of JSON. How deep it may be is bounded by the parser, at 128.
    pub(super) fn read(payload: &[u8]) -> Option<Claims> {
        serde_json::from_slice(payload).ok().map(Claims)
    }

    /// The claim of this name; or, if it begins with a slash, what this JSON Pointer (RFC 6901) leads to.
    fn find(&self, name: &str) -> Option<&Value> {
        match name.strip_prefix('/') {
            None => self.0.get(name),
            Some(rest) => {
                let plain = |part: &str| part.replace("~1", "/").replace("~0", "~");
                let (first, rest) =
                    rest.split_once('/').map_or((rest, None), |(first, rest)| (first, Some(rest)));
                let inner = self.0.get(&plain(first))?;
                rest.map_or(Some(inner), |rest| inner.pointer(&format!("/{rest}")))
            }
        }
    }

    /// A claim that is a time; `Err` if it is there and is none.
    pub(super) fn time(&self, name: &str) -> Result<Option<f64>, ()> {
        self.0.get(name).map(|value| value.as_f64().filter(|time| time.is_finite()).ok_or(())).transpose()
    }

    /// A claim that is a text.
    pub(super) fn text(&self, name: &str) -> Option<&str> {
        self.find(name)?.as_str()
    }

    /// Whether a claim has one of these values, or is an array that has. `scope` and `scp` are lists of words (RFC 8693 section
    /// 4.2). `*` is any value.
    pub fn holds(&self, name: &str, wanted: &[String]) -> bool {
        let Some(found) = self.find(name).filter(|found| !found.is_null()) else { return false };
        let is = |one: &Value, text: &str| match one {
            Value::String(found) => found == text,
            Value::Bool(truth) => *truth && text == "true" || !*truth && text == "false",
            Value::Number(number) => number.to_string() == *text,
            _ => false,
        };
        wanted.iter().any(|text| {
            let words = found.as_str().filter(|_| matches!(name, "scope" | "scp")).unwrap_or_default();
            text == "*"
                || is(found, text)
                || found.as_array().is_some_and(|all| all.iter().any(|one| is(one, text)))
                || words.split(' ').any(|word| !word.is_empty() && word == text)
        })
    }

    /// A claim as the value of a field: a text, a number or a truth value, or an array of these with commas between them. `None`
    /// for what cannot be one, or could be taken for another: control characters, and commas in what is in an array.
    pub fn field(&self, name: &str) -> Option<String> {
        let one = |value: &Value| match value {
            Value::String(text) => Some(text.clone()),
            Value::Bool(_) | Value::Number(_) => Some(value.to_string()),
            _ => None,
        };
        let text = match self.find(name)? {
            Value::Array(all) => {
                let all: Option<Vec<String>> = all.iter().map(one).collect();
                all.filter(|all| !all.iter().any(|text| text.contains(',')))?.join(",")
            }
            value => one(value)?,
        };
        let plain = !text.is_empty() && !text.chars().any(char::is_control) && text.trim() == text;
        plain.then_some(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn claims() -> Claims {
        let text = r#"{
            "sub": "ann", "n": 7, "f": 1.5, "yes": true, "none": null, "roles": ["admin", "a b", 3], "scope": "read write",
            "odd": ["a,b"], "line": "a\r\nb", "empty": "", "space": " a", "ä": "ö", "deep": {"a/b": {"roles": ["x"]}}, "list": [[1]],
            "exp": "soon", "name": "read write"
        }"#;
        Claims::read(text.as_bytes()).unwrap()
    }

    #[test]
    fn claims_become_fields_if_they_can() {
        let claims = claims();
        for (name, value) in [
            ("sub", Some("ann")),
            ("n", Some("7")),
            ("f", Some("1.5")),
            ("yes", Some("true")),
            ("roles", Some("admin,a b,3")),
            ("/deep/a~1b/roles", Some("x")),
            ("/deep/a~1b/roles/0", Some("x")),
            ("/sub", Some("ann")),
            ("ä", Some("ö")),
            ("none", None),
            ("odd", None),
            ("line", None),
            ("empty", None),
            ("space", None),
            ("deep", None),
            ("list", None),
            ("absent", None),
            ("/", None),
            ("", None),
        ] {
            assert_eq!(claims.field(name).as_deref(), value, "{name}");
        }
    }

    #[test]
    fn rules_look_for_values_words_and_members() {
        let claims = claims();
        for (name, wanted, holds) in [
            ("sub", "ann", true),
            ("sub", "an", false),
            ("sub", "*", true),
            ("none", "*", false),
            ("absent", "*", false),
            ("n", "7", true),
            ("yes", "true", true),
            ("roles", "admin", true),
            ("roles", "a", false),
            ("roles", "3", true),
            ("scope", "write", true),
            ("scope", "read write", true),
            ("scope", "", false),
            ("name", "write", false),
            ("/deep/a~1b/roles", "x", true),
            ("deep", "*", true),
        ] {
            assert_eq!(claims.holds(name, &[wanted.to_owned()]), holds, "{name} {wanted}");
        }
        assert!(claims.holds("sub", &["bob".to_owned(), "ann".to_owned()]) && !claims.holds("sub", &[]));
    }

    #[test]
    fn only_objects_have_claims() {
        for text in ["", "[]", "1", "{", "\u{0}"] {
            assert_eq!(Claims::read(text.as_bytes()), None);
        }
        assert_eq!(Claims::read(format!("{{\"a\":{}", "[".repeat(5000)).as_bytes()), None);
        assert_eq!(
            (claims().time("n"), claims().time("exp"), claims().time("x")),
            (Ok(Some(7.0)), Err(()), Ok(None))
        );
    }
}
