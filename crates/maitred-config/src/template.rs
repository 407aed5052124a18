//! Texts with placeholders: of redirects and rewritten targets, of fields, and of variables of FastCGI.
//!
//! A brace that begins no placeholder is written twice. What a placeholder's value looks like depends on where it stands, and is
//! decided when it is filled in (`maitred_policy::rewrite`).

use regex::bytes::{Regex, RegexBuilder};
use serde::{Deserialize, Serialize};

/// The longest regular expression, in bytes, and the memory that a compiled one may take: a pattern such as
/// `(\w{1,500}){1,500}` is short, and would take gigabytes.
const REGEX_BYTES_MAX: usize = 4096;
const REGEX_MEMORY_MAX: usize = 1 << 20;

/// A text with placeholders.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Template(pub Vec<Part>);

/// A part of a [`Template`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Part {
    /// As it is.
    Text(String),
    /// `{path}`: the path that the route was chosen by.
    Path,
    /// `{query}`: the query, without `?`.
    Query,
    /// `{uri}`: path and query.
    Uri,
    /// `{host}`: the authority of the request, without its port.
    Host,
    /// `{port}`: the port that the client has connected to.
    Port,
    /// `{scheme}`: `http` or `https`.
    Scheme,
    /// `{client}`: the client's address.
    Client,
    /// `{capture.N}` or `{capture.name}`: a group of `path_regex`.
    Capture(u16),
    /// `{header.X}`: the first field of the name.
    Header(String),
    /// `{query.X}`: the first parameter of the name, as it was sent.
    Parameter(String),
    /// `{user}`: the user that a gate has found; empty without one.
    User,
    /// `{request_id}`: the id of the request.
    RequestId,
}

impl Template {
    /// Parses a text that stands for a target or a place to redirect to; `regex` is what `{capture.…}` refers to.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn parse(text: &str, regex: Option<&Regex>) -> Result<Template, String> {
        cut(text, |name| placeholder(name, regex))
    }

    /// Parses the value of a field or of a variable, which is filled in when the request has passed its gates.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn parse_value(text: &str) -> Result<Template, String> {
        cut(text, value_placeholder)
    }

    /// A text as it is.
    pub fn plain(text: &str) -> Template {
        Template(vec![Part::Text(text.to_owned())])
    }

    /// Whether it has no parts that come from the request.
    pub fn is_plain(&self) -> bool {
        self.0.iter().all(|part| matches!(part, Part::Text(_)))
    }

    /// The text of one that [is plain](Template::is_plain).
    pub fn as_plain(&self) -> Option<String> {
        let texts = self.0.iter().map(|part| match part {
            Part::Text(text) => Some(text.as_str()),
            _ => None,
        });
        texts.collect()
    }

    /// The same text written so that nothing in it is a placeholder.
    pub fn escape(text: &str) -> String {
        text.replace('{', "{{").replace('}', "}}")
    }
}

/// Cuts a text at its placeholders.
fn cut(text: &str, part: impl Fn(&str) -> Result<Part, String>) -> Result<Template, String> {
    let (mut parts, mut plain, mut rest) = (Vec::new(), String::new(), text);
    while let Some((before, from)) = rest.find(['{', '}']).and_then(|at| rest.split_at_checked(at)) {
        plain.push_str(before);
        if let Some(after) = from.strip_prefix("{{").or_else(|| from.strip_prefix("}}")) {
            plain.push_str(from.get(..1).unwrap_or_default());
            rest = after;
            continue;
        }
        let Some(inner) = from.strip_prefix('{') else {
            return Err("`}` stands only at the end of a placeholder; write `}}` for a brace".into());
        };
        let (name, after) = inner
            .split_once('}')
            .ok_or("a placeholder has no end: `{` stands only at the start of one; write `{{` for a brace")?;
        push_text(&mut parts, std::mem::take(&mut plain));
        parts.push(part(name)?);
        rest = after;
    }
    plain.push_str(rest);
    push_text(&mut parts, plain);
    Ok(Template(parts))
}

fn push_text(parts: &mut Vec<Part>, text: String) {
    if !text.is_empty() {
        parts.push(Part::Text(text));
    }
}

fn value_placeholder(name: &str) -> Result<Part, String> {
    Ok(match name {
        "client" => Part::Client,
        "scheme" => Part::Scheme,
        "host" => Part::Host,
        "port" => Part::Port,
        "uri" => Part::Uri,
        "user" => Part::User,
        "request_id" => Part::RequestId,
        _ => match name.strip_prefix("header.").filter(|field| super::values::is_token(field)) {
            // An application that trusts a proxy's word would take a client's for it.
            Some(field) if maitred_http::claims::claim(field).is_some() => {
                return Err(format!("`{{header.{field}}}` is what a client could write there itself"));
            }
            Some(field) => Part::Header(field.to_owned()),
            None => {
                let known =
                    "{client}, {scheme}, {host}, {port}, {uri}, {user}, {request_id} and {header.NAME}";
                return Err(format!(
                    "the placeholders are {known}; a brace is written twice: `{{{{` and `}}}}`"
                ));
            }
        },
    })
}

fn placeholder(name: &str, regex: Option<&Regex>) -> Result<Part, String> {
    if let Some(group) = name.strip_prefix("capture.") {
        let regex = regex.ok_or("`{capture.…}` refers to `path_regex`, which this route does not have")?;
        let by_name = || regex.capture_names().position(|name| name == Some(group));
        let number = group.parse().ok().filter(|number| *number < regex.captures_len()).or_else(by_name);
        let number = number.ok_or_else(|| format!("`path_regex` has no group `{group}`"))?;
        return Ok(Part::Capture(number as u16));
    }
    if matches!(name, "user" | "request_id") {
        return Err(format!(
            "`{{{name}}}` is for fields and variables: users and ids are not known yet when a target is made"
        ));
    }
    Ok(match name {
        "path" => Part::Path,
        "query" => Part::Query,
        "uri" => Part::Uri,
        "host" => Part::Host,
        "port" => Part::Port,
        "scheme" => Part::Scheme,
        "client" => Part::Client,
        _ => match (name.strip_prefix("header."), name.strip_prefix("query.")) {
            (Some(field), _) if super::values::is_token(field) => Part::Header(field.to_owned()),
            (_, Some(parameter)) if !parameter.is_empty() => Part::Parameter(parameter.to_owned()),
            _ => {
                return Err(
                    "the placeholders are {path}, {query}, {uri}, {host}, {port}, {scheme}, {client}, \
                            {capture.N}, {header.NAME} and {query.NAME}"
                        .into(),
                );
            }
        },
    })
}

/// Compiles a regular expression. The expression sees bytes, and `\d`, `\w` and `(?i)` mean ASCII, unless it says `(?u)`.
///
/// # Errors
/// Why it is none, or too large.
pub fn regex(text: &str) -> Result<Regex, String> {
    if text.len() > REGEX_BYTES_MAX {
        return Err(format!("a regular expression has at most {REGEX_BYTES_MAX} bytes"));
    }
    RegexBuilder::new(text).unicode(false).size_limit(REGEX_MEMORY_MAX).build().map_err(|error| match error {
        regex::Error::CompiledTooBig(_) => {
            format!("compiled, it would take more than {} KiB of memory", REGEX_MEMORY_MAX / 1024)
        }
        // The message has the pattern in several lines, and ends with the reason.
        error => {
            error.to_string().lines().last().unwrap_or_default().trim_start_matches("error: ").to_owned()
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_template_is_cut_at_its_placeholders() {
        let parsed = |text: &str| Template::parse(text, regex("^/(a)(?<name>b)").ok().as_ref());
        let text = |text: &str| Part::Text(text.into());
        assert_eq!(parsed("https://x").map(|template| template.0), Ok(vec![text("https://x")]));
        let parts =
            vec![text("/"), Part::Capture(1), text("-"), Part::Capture(2), Part::Header("X-A".into())];
        assert_eq!(parsed("/{capture.1}-{capture.name}{header.X-A}").map(|template| template.0), Ok(parts));
        let parts = vec![Part::Scheme, Part::Host, Part::Uri, Part::Parameter("a b".into())];
        assert_eq!(parsed("{scheme}{host}{uri}{query.a b}").map(|template| template.0), Ok(parts));
        for (wrong, why) in [
            ("{path", "has no end"),
            ("path}", "only at the end"),
            ("{nothing}", "the placeholders are"),
            ("{header.a b}", "the placeholders are"),
            ("{query.}", "the placeholders are"),
            ("{capture.3}", "no group `3`"),
            ("{capture.other}", "no group `other`"),
        ] {
            let found = parsed(wrong).expect_err(wrong);
            assert!(found.contains(why), "{wrong}: {found}");
        }
        assert!(Template::parse("{capture.1}", None).is_err_and(|why| why.contains("does not have")));
    }

    #[test]
    fn braces_are_written_twice() {
        let text = |text: &str| Part::Text(text.into());
        for (given, parts) in [
            (r#"{{"a":{{}}}}"#, vec![text(r#"{"a":{}}"#)]),
            ("{{{host}}}", vec![text("{"), Part::Host, text("}")]),
            ("", vec![]),
        ] {
            assert_eq!(Template::parse_value(given).map(|template| template.0), Ok(parts), "{given}");
        }
        for plain in ["", "{", "}}{", "{host}", "a{{b}"] {
            let parsed = Template::parse_value(&Template::escape(plain)).unwrap();
            assert_eq!(parsed.as_plain().as_deref(), Some(plain));
        }
        assert_eq!(Template::parse_value("{host}").unwrap().as_plain(), None);
    }

    #[test]
    fn values_have_placeholders_of_their_own() {
        let parts = vec![Part::User, Part::Text("@".into()), Part::RequestId];
        assert_eq!(Template::parse_value("{user}@{request_id}").map(|template| template.0), Ok(parts));
        let origin = vec![Part::Header("Origin".into())];
        assert_eq!(Template::parse_value("{header.Origin}").map(|template| template.0), Ok(origin));
        for claim in ["{header.X-Forwarded-For}", "{header.x_real_ip}", "{header.Remote-User}"] {
            assert!(
                Template::parse_value(claim).is_err_and(|why| why.contains("write there itself")),
                "{claim}"
            );
        }
        for wrong in [r#"{"group":"a"}"#, "{path}", "{capture.1}", "{header.}", "{header.a b}", "{}"] {
            assert!(Template::parse_value(wrong).is_err_and(|why| why.contains("written twice")), "{wrong}");
        }
        for wrong in ["{user}", "{request_id}"] {
            let why = Template::parse(wrong, None).expect_err(wrong);
            assert!(why.contains("are not known yet"), "{why}");
        }
    }

    #[test]
    fn a_regular_expression_is_refused_with_a_reason_or_for_its_size() {
        assert!(regex(r"^/user/(\d+)$").is_ok_and(|found| found.is_match(b"/user/17")));
        assert!(regex("(").is_err_and(|why| why.contains("unclosed group")));
        assert!(regex(r"(\w{1,500}){1,500}").is_err_and(|why| why.contains("memory")));
        assert!(regex(&"a".repeat(5000)).is_err_and(|why| why.contains("at most")));
    }
}
