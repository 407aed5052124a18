//! Placeholders, times and sizes of a Caddyfile.

/// A value with the placeholders of redirects and rewrites.
///
/// # Errors
/// The placeholder that has no counterpart.
pub(crate) fn template(text: &str) -> Result<String, String> {
    let mut out = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('{') {
        let Some((name, behind)) = after.split_once('}') else {
            return Err("`{` begins a placeholder".into());
        };
        out.push_str(before);
        out.push_str(&placeholder(name)?);
        rest = behind;
    }
    out.push_str(rest);
    match out.replace(['{', '}'], "").len() + 2 * out.matches('{').count() == out.len() {
        true => Ok(out),
        false => Err("`{` and `}` begin and end placeholders".into()),
    }
}

fn placeholder(name: &str) -> Result<String, String> {
    if let Some(variable) = name.strip_prefix('$') {
        return match variable.split_once(':') {
            Some((_, default)) if !default.contains(['{', '}']) => Ok(default.to_owned()),
            _ => Err(format!("the variable `{variable}` of the environment is not known here")),
        };
    }
    let name = name.strip_prefix("http.request.").unwrap_or(name);
    let plain = match name {
        "host" => "{host}",
        "path" | "uri.path" | "orig_path" | "orig_uri.path" => "{path}",
        "uri" | "orig_uri" => "{uri}",
        "query" | "uri.query" => "{query}",
        "scheme" => "{scheme}",
        "port" => "{port}",
        "remote_host" | "remote.host" | "client_ip" => "{client}",
        _ => "",
    };
    if !plain.is_empty() {
        return Ok(plain.to_owned());
    }
    let after = |begin: &str| name.strip_prefix(begin).filter(|rest| !rest.is_empty());
    if let Some(field) = after("header.") {
        return Ok(format!("{{header.{field}}}"));
    }
    if let Some(parameter) = after("query.").or_else(|| after("uri.query.")) {
        return Ok(format!("{{query.{parameter}}}"));
    }
    // `{re.name.1}`, `{re.1}`, `{http.regexp.1}`
    let group = after("re.").or_else(|| name.strip_prefix("http.regexp."));
    match group.and_then(|group| group.rsplit('.').next()) {
        Some(group) if group != "0" => Ok(format!("{{capture.{group}}}")),
        _ => Err(format!("there is no counterpart of the placeholder `{{{name}}}`")),
    }
}

/// A value without placeholders.
pub(crate) fn fixed(text: &str) -> Option<String> {
    if !text.contains('{') {
        return Some(text.to_owned());
    }
    template(text).ok().filter(|text| !text.contains('{'))
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
        assert_eq!(template("https://www.{host}{uri}").as_deref(), Ok("https://www.{host}{uri}"));
        assert_eq!(
            template("/{re.id.1}?x={http.request.uri.query.a}").as_deref(),
            Ok("/{capture.1}?x={query.a}")
        );
        assert_eq!(template("{$PORT:8080}").as_deref(), Ok("8080"));
        assert!(template("{labels.2}").is_err() && template("{$X}").is_err() && template("a}").is_err());
        assert_eq!((millis("1m30s"), millis("5"), size("10MB")), (Some(90_000), None, Some(10_000_000)));
    }
}
