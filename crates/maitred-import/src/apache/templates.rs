//! Targets of rules and redirects: `$1`, `%1` and `%{NAME}` as placeholders.

/// What `$1` and `%1` stand for.
#[derive(Debug, Clone, Default)]
pub(crate) struct Groups {
    /// The expression of the rule.
    pub(crate) regex: Option<String>,
    /// `/$1` is the whole path.
    pub(crate) whole: bool,
    /// `%1`
    pub(crate) cond: Option<String>,
    /// Where a target without `/` begins.
    pub(crate) base: String,
    /// Variables that have one value.
    pub(crate) constants: Vec<(String, String)>,
}

/// A text with placeholders.
///
/// # Errors
/// There is no placeholder for a variable.
fn template(text: &str, groups: &Groups) -> Result<String, String> {
    let mut out = String::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let digit = rest.chars().nth(1).filter(char::is_ascii_digit);
        let mut taken = first.len_utf8();
        match (first, digit) {
            ('\\', _) => {
                let next = rest.chars().nth(1);
                out.extend(next);
                taken += next.map_or(0, char::len_utf8);
            }
            ('$', Some(digit)) => {
                taken += 1;
                group(&mut out, digit, groups)?;
            }
            ('%', Some(digit)) if is_group(rest, groups) => {
                taken += 1;
                let value = groups.cond.as_deref().filter(|_| digit == '1');
                out.push_str(value.ok_or_else(|| format!("`%{digit}` is what a condition has found"))?);
            }
            ('%', _) if rest.starts_with("%{") => {
                let end = rest.find('}').ok_or("a variable has no end")?;
                variable(&mut out, rest.get(2..end).unwrap_or_default(), groups)?;
                taken = end + 1;
            }
            ('{' | '}', _) => {
                out.push(first);
                out.push(first);
            }
            (other, _) => out.push(other),
        }
        rest = rest.get(taken..).unwrap_or_default();
    }
    Ok(out)
}

/// `%20` is a blank, and `%1` a group.
fn is_group(rest: &str, groups: &Groups) -> bool {
    groups.cond.is_some() || !rest.chars().nth(2).is_some_and(|next| next.is_ascii_hexdigit())
}

fn group(out: &mut String, digit: char, groups: &Groups) -> Result<(), String> {
    if groups.whole {
        if out.ends_with('/') {
            out.pop();
        }
        out.push_str("{path}");
        return Ok(());
    }
    let regex = groups.regex.as_deref().ok_or("the expression has no such group")?;
    let number = digit.to_digit(10).unwrap_or(0) as usize;
    if number > super::patterns::groups(regex) {
        return Err("the expression has no such group".into());
    }
    if number == 0 {
        // With the slash that the path begins with.
        if out.ends_with('/') {
            out.pop();
        }
    }
    out.push_str(&format!("{{capture.{number}}}"));
    Ok(())
}

fn variable(out: &mut String, name: &str, groups: &Groups) -> Result<(), String> {
    let name = name.strip_prefix("LA-U:").unwrap_or(name);
    let of_rules = name.strip_prefix("ENV:");
    if let Some((_, value)) = groups.constants.iter().find(|(known, _)| Some(known.as_str()) == of_rules) {
        out.push_str(&maitred_config::Template::escape(value));
        return Ok(());
    }
    let placeholder = match name.to_ascii_uppercase().as_str() {
        "HTTP_HOST" | "SERVER_NAME" | "HTTP:HOST" => "{host}",
        "REQUEST_URI" => "{path}",
        "QUERY_STRING" => "{query}",
        "REQUEST_SCHEME" => "{scheme}",
        "SERVER_PORT" => "{port}",
        "REMOTE_ADDR" => "{client}",
        "ENV:BASE" => groups.base.trim_end_matches('/'),
        "DOCUMENT_ROOT" | "CONTEXT_DOCUMENT_ROOT" if out.is_empty() => "",
        other => return Err(format!("there is no placeholder for `%{{{other}}}`")),
    };
    out.push_str(placeholder);
    Ok(())
}

/// A path for the same site.
///
/// # Errors
/// There is no placeholder for a variable.
pub(crate) fn path(to: &str, groups: &Groups) -> Result<String, String> {
    let found = template(to, groups)?;
    let absolute = found.starts_with('/') || found.starts_with("{path}") || to.starts_with("%{ENV:BASE}");
    let found = if absolute { found } else { format!("{}{found}", groups.base) };
    let found = without_dots(&found.replace("/{path}", "{path}"));
    let found = if found.starts_with("{path}") && groups.whole || found.starts_with('/') {
        found
    } else {
        format!("/{found}")
    };
    if found.starts_with("{path}") {
        return match found.as_str() {
            "{path}" => Err("the path stays as it is".into()),
            _ => Ok(found),
        };
    }
    Ok(found)
}

/// `/a/../b` as `/b`, as far as no placeholder is before.
fn without_dots(path: &str) -> String {
    let Some((before, after)) = path.split_once("/../") else { return path.to_owned() };
    match before.rsplit_once('/') {
        Some((above, name)) if !name.contains('{') && !before.contains('?') => {
            without_dots(&format!("{above}/{after}"))
        }
        None if before.is_empty() => without_dots(&format!("/{after}")),
        _ => path.to_owned(),
    }
}

/// Where a redirect leads.
///
/// # Errors
/// There is no placeholder for a variable, or a client could choose the host.
pub(crate) fn redirect(to: &str, groups: &Groups) -> Result<String, String> {
    let found = template(to, groups)?;
    let found = found.replace("/{path}", "{path}");
    if found.contains("://") {
        return Ok(found);
    }
    if found.starts_with("{path}") || found.starts_with("{capture") || found.starts_with("/{") {
        // A placeholder behind the first slash could make a host of a path.
        let slash = if found.starts_with('{')
            && found.starts_with("{capture")
            && !groups.regex.as_deref().is_some_and(begins_with_group)
        {
            "/"
        } else {
            ""
        };
        return Ok(format!("{{scheme}}://{{host}}{slash}{found}"));
    }
    Ok(if found.starts_with('/') { found } else { format!("{}{found}", groups.base) })
}

/// Whether the first group begins where the path does.
fn begins_with_group(regex: &str) -> bool {
    let regex = regex.strip_prefix("(?i)").unwrap_or(regex);
    (regex.starts_with("^(") || regex.starts_with('(')) && !regex.starts_with("^(?")
}

/// A URL of another server, with placeholders behind its name.
///
/// # Errors
/// There is no placeholder for a variable.
pub(crate) fn url(to: &str, groups: &Groups) -> Result<String, String> {
    let found = template(to, groups)?;
    Ok(found.replace("/{path}", "{path}"))
}

/// A path with something in the place of its placeholders.
pub(crate) fn filled(path: &str) -> String {
    let mut out = String::new();
    let mut rest = path;
    while let Some((before, after)) = rest.split_once('{') {
        out.push_str(before);
        let (name, behind) = after.split_once('}').unwrap_or((after, ""));
        out.push_str(if name == "path" { "/x1" } else { "x1" });
        rest = behind;
    }
    out.push_str(rest);
    out
}
