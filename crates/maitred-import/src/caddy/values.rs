//! Placeholders, times and sizes of a Caddyfile.

use crate::variables;

/// The path that directives see, where others before them have changed it.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) enum Space {
    /// That of the request.
    #[default]
    Sent,
    /// Without this beginning, which ends with `/`.
    Without(String),
    /// That of the request behind this beginning, which has no `/` at its end.
    Behind(String),
    /// This one.
    Fixed(String),
    /// One that only the request tells.
    Unknown,
}

/// What the placeholders of a redirect or a rewrite can ask for.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Known<'k> {
    /// The path.
    pub(crate) space: &'k Space,
    /// The expression of the path that has groups, by its name.
    pub(crate) regex: Option<&'k str>,
    /// Whether all clients come by TLS.
    pub(crate) secure: bool,
}

/// A value with the placeholders of redirects and rewrites.
///
/// # Errors
/// The placeholder that has no counterpart.
pub(crate) fn template(text: &str, known: Known<'_>) -> Result<String, String> {
    let found = replaced(text, |name| placeholder(name, known).map(|found| format!("{{{found}}}")))?;
    Ok(uri(&found))
}

/// A value of a field with its placeholders: [`OPEN`] and [`CLOSE`] stand for the braces that are none of the value's own.
///
/// # Errors
/// The placeholder that has no counterpart.
pub(crate) fn field(text: &str) -> Result<String, String> {
    if text.starts_with(['{', '[']) && text.contains('"') {
        // A value of JSON has no placeholders.
        return Ok(text.to_owned());
    }
    replaced(text, |name| {
        let bare = name.strip_prefix("http.request.").unwrap_or(name);
        let found = match bare {
            "host" => "host",
            "scheme" => "scheme",
            "uri" => "uri",
            "remote_host" | "remote.host" | "client_ip" | "http.vars.client_ip" => "client",
            "local.port" => "port",
            "http.auth.user.id" => "user",
            "uuid" | "http.request.uuid" => "request_id",
            _ => return Err(no_counterpart(name)),
        };
        Ok(format!("{OPEN}{found}{CLOSE}"))
    })
}

/// Where a placeholder begins and ends in a value of a field, until it is written.
pub(crate) const OPEN: char = crate::write::OPEN;
const CLOSE: char = crate::write::CLOSE;

fn no_counterpart(name: &str) -> String {
    format!("there is no counterpart of the placeholder `{{{name}}}`")
}

fn replaced(text: &str, of: impl Fn(&str) -> Result<String, String>) -> Result<String, String> {
    let mut out = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('{') {
        let Some((name, behind)) = after.split_once('}') else {
            return Err("`{` begins a placeholder".into());
        };
        if before.contains('}') || name.contains('{') {
            return Err("`{` and `}` begin and end placeholders".into());
        }
        out.push_str(before);
        match variable(name) {
            Some(value) => out.push_str(&value),
            None => out.push_str(&of(name)?),
        }
        rest = behind;
    }
    match rest.contains('}') {
        true => Err("`{` and `}` begin and end placeholders".into()),
        false => Ok(out + rest),
    }
}

fn placeholder(name: &str, known: Known<'_>) -> Result<String, String> {
    let bare = name.strip_prefix("http.request.").unwrap_or(name);
    // Here these are what the route was chosen by.
    let sent = *known.space == Space::Sent;
    let plain = match bare {
        "host" => "host",
        "orig_path" | "orig_uri.path" => "path",
        "orig_uri" => "uri",
        "path" | "uri.path" if sent => "path",
        "uri" if sent => "uri",
        "query" | "uri.query" | "orig_query" | "orig_uri.query" => "query",
        "scheme" => "scheme",
        "local.port" => "port",
        "remote_host" | "remote.host" | "client_ip" | "http.vars.client_ip" => "client",
        _ => "",
    };
    if !plain.is_empty() {
        return Ok(plain.to_owned());
    }
    let after = |begin: &str| bare.strip_prefix(begin).filter(|rest| !rest.is_empty());
    if let Some(field) = after("header.").or_else(|| after(">")) {
        return Ok(format!("header.{field}"));
    }
    if let Some(parameter) = after("query.").or_else(|| after("uri.query.")) {
        return Ok(format!("query.{parameter}"));
    }
    // `{re.name.1}`, `{re.1}`, `{http.regexp.name.1}`
    let group = after("re.").or_else(|| name.strip_prefix("http.regexp."));
    if let (Some(group), Some(regex)) = (group, known.regex) {
        let (of, group) = group.rsplit_once('.').unwrap_or((regex, group));
        if of == regex && group != "0" && !group.is_empty() {
            return Ok(format!("capture.{group}"));
        }
    }
    Err(no_counterpart(name))
}

/// A value without placeholders.
pub(crate) fn fixed(text: &str) -> Option<String> {
    if !text.contains('{') {
        return Some(text.to_owned());
    }
    replaced(text, |_| Err(String::new())).ok()
}

/// A variable of the environment: as it is where the import runs, or as the server has it. Both take an empty text for what is
/// not set, as Caddy does.
fn variable(name: &str) -> Option<String> {
    let (name, at_start) = match (name.strip_prefix('$'), name.strip_prefix("env.")) {
        (Some(name), _) => (name, true),
        (None, name) => (name?, false),
    };
    let is_name = !name.is_empty()
        && !name.starts_with(|first: char| first.is_ascii_digit())
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    // What was set has been filled in before the file was read.
    let set = if at_start { None } else { std::env::var(name).ok() };
    match set {
        Some(value) => (!value.contains(['{', '}'])).then_some(value),
        None => is_name.then(|| variables::one(name, "")),
    }
}

/// A name of a host, in which variables that are not set stand for a name that no host has.
pub(crate) fn host(text: &str) -> String {
    variables::with_otherwise(text, |name, (_, behind)| match behind.is_empty() {
        true => unused(name),
        false => label(name),
    })
}

/// A URI, in which a variable that is not set stands for such a name where its host is.
fn uri(text: &str) -> String {
    variables::with_otherwise(text, |name, (before, _)| match before.ends_with("://") {
        true => unused(name),
        false => String::new(),
    })
}

fn label(variable: &str) -> String {
    let name = variable.to_ascii_lowercase().replace('_', "-");
    name.trim_matches('-').to_owned()
}

fn unused(variable: &str) -> String {
    format!("{}.invalid", label(variable))
}

/// `1m30s`, `2d` in milliseconds.
pub(crate) fn millis(text: &str) -> Option<u64> {
    let (mut total, mut rest) = (0_u64, text);
    while !rest.is_empty() {
        let end = rest.find(|c: char| !c.is_ascii_digit())?;
        let (number, behind) = rest.split_at(end);
        let unit_end = behind.find(|c: char| c.is_ascii_digit()).unwrap_or(behind.len());
        let (unit, behind) = behind.split_at(unit_end);
        let factor = match unit {
            "ms" => 1,
            "s" => 1000,
            "m" => 60_000,
            "h" => 3_600_000,
            "d" => 86_400_000,
            _ => return None,
        };
        total = total.checked_add(number.parse::<u64>().ok()?.checked_mul(factor)?)?;
        rest = behind;
    }
    (!text.is_empty()).then_some(total)
}

/// `10MB` in bytes: powers of 1000, as in Caddy, and of 1024 with an `i`.
pub(crate) fn size(text: &str) -> Option<u64> {
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    let factor: u64 = match unit.trim().to_ascii_lowercase().as_str() {
        "" | "b" => 1,
        "k" | "kb" => 1000,
        "m" | "mb" => 1_000_000,
        "g" | "gb" => 1_000_000_000,
        "ki" | "kib" => 1 << 10,
        "mi" | "mib" => 1 << 20,
        "gi" | "gib" => 1 << 30,
        _ => return None,
    };
    number.parse::<u64>().ok()?.checked_mul(factor)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn placeholders_times_and_sizes() {
        let all = Known { space: &Space::Sent, regex: Some("id"), secure: false };
        assert_eq!(template("https://www.{host}{uri}", all).as_deref(), Ok("https://www.{host}{uri}"));
        assert_eq!(
            template("/{re.id.1}?x={http.request.uri.query.a}", all).as_deref(),
            Ok("/{capture.1}?x={query.a}")
        );
        let behind = Known { space: &Space::Without("/api/".into()), regex: None, secure: false };
        assert_eq!(template("/x{http.request.orig_uri}", behind).as_deref(), Ok("/x{uri}"));
        for wrong in ["{uri}", "{re.1}", "{labels.2}", "{$1}", "a}"] {
            assert!(template(wrong, behind).is_err(), "{wrong}");
        }
        let to = template("https://{$A_B}{uri}", all).map(|found| variables::written(&found));
        assert_eq!(to.as_deref(), Ok("https://${A_B:-a-b.invalid}{uri}"));
        assert_eq!(variables::written(&host(&fixed("x.{$D}").unwrap())), "x.${D:-d.invalid}");
        assert_eq!(variables::written(&host(&fixed("{$D}.x").unwrap())), "${D:-d}.x");
        assert_eq!(
            fixed("{env.THAT_IS_NOT_SET}").map(|found| variables::written(&found)).as_deref(),
            Some("${THAT_IS_NOT_SET:-}")
        );
        assert!(template("{re.other.1}", all).is_err());
        assert_eq!(field("a {remote_host}"), Ok(format!("a {OPEN}client{CLOSE}")));
        assert!(field("{time.now}").is_err() && field("{\"a\": 1}").is_ok());
        assert_eq!((millis("1m30s"), millis("5"), size("10MB")), (Some(90_000), None, Some(10_000_000)));
    }
}
