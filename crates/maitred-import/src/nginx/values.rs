//! Sizes, times, variables and regular expressions of nginx.

use super::scope::Scope;

/// `100m` in bytes.
pub(crate) fn size(text: &str) -> Option<u64> {
    let (number, factor) = match text.char_indices().last()? {
        (at, 'k' | 'K') => (&text[..at], 1 << 10),
        (at, 'm' | 'M') => (&text[..at], 1 << 20),
        (at, 'g' | 'G') => (&text[..at], 1 << 30),
        _ => (text, 1),
    };
    number.parse::<u64>().ok()?.checked_mul(factor)
}

/// `1h 30m` in milliseconds; a number alone is seconds.
pub(crate) fn millis(text: &str) -> Option<u64> {
    let (mut total, mut number): (u64, Option<u64>) = (0, None);
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        if let Some(digit) = c.to_digit(10) {
            number = Some(number.unwrap_or(0).checked_mul(10)?.checked_add(u64::from(digit))?);
            continue;
        }
        if c == ' ' {
            continue;
        }
        let factor = match c {
            'm' if chars.next_if_eq(&'s').is_some() => 1,
            's' => 1000,
            'm' => 60_000,
            'h' => 3_600_000,
            'd' => 86_400_000,
            'w' => 7 * 86_400_000,
            'M' => 30 * 86_400_000,
            'y' => 365 * 86_400_000,
            _ => return None,
        };
        total = total.checked_add(number.take()?.checked_mul(factor)?)?;
    }
    if text.is_empty() {
        return None;
    }
    total.checked_add(number.unwrap_or(0).checked_mul(1000)?)
}

/// A piece of a value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Part {
    /// As it is.
    Text(String),
    /// A variable, without `$`.
    Variable(String),
}

/// Variables within variables, at most.
const SETS_MAX: usize = 8;
/// Longest value that variables of fixed content may make, in bytes: each may name another twice.
const EXPANDED_MAX: usize = 8192;

/// A value in its pieces; variables that were set to something fixed are filled in.
pub(crate) fn parts(text: &str, scope: &Scope<'_>) -> Vec<Part> {
    let mut out = Vec::new();
    let mut left = EXPANDED_MAX;
    expand(text, scope, SETS_MAX, &mut out, &mut left);
    out
}

fn expand(text: &str, scope: &Scope<'_>, depth: usize, out: &mut Vec<Part>, left: &mut usize) {
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('$') {
        put(before, out, left);
        let (name, behind) = match after.strip_prefix('{').and_then(|after| after.split_once('}')) {
            Some(braced) => braced,
            None => {
                let digits = after.starts_with(|c: char| c.is_ascii_digit());
                let known = |c: char| !digits && (c.is_ascii_alphanumeric() || c == '_');
                let end = after.find(|c: char| !known(c)).unwrap_or(after.len());
                after.split_at(if digits { 1 } else { end })
            }
        };
        rest = behind;
        if name.is_empty() {
            put("$", out, left);
            continue;
        }
        match scope.constant(name).filter(|_| depth > 0 && *left > 0) {
            Some(value) => expand(value, scope, depth - 1, out, left),
            None => out.push(Part::Variable(name.to_owned())),
        }
    }
    put(rest, out, left);
}

fn put(text: &str, out: &mut Vec<Part>, left: &mut usize) {
    let text = &text[..text.floor_char_boundary(text.len().min(*left))];
    *left -= text.len();
    match out.last_mut() {
        _ if text.is_empty() => {}
        Some(Part::Text(before)) => before.push_str(text),
        _ => out.push(Part::Text(text.to_owned())),
    }
}

/// The text, if no variable is in it.
pub(crate) fn fixed(text: &str, scope: &Scope<'_>) -> Option<String> {
    match parts(text, scope).as_slice() {
        [] => Some(String::new()),
        [Part::Text(text)] => Some(text.clone()),
        _ => None,
    }
}

/// The same with the placeholders of redirects and rewrites.
///
/// # Errors
/// The variable, or the character, that has no counterpart.
pub(crate) fn template(text: &str, scope: &Scope<'_>) -> Result<String, String> {
    let mut out = String::new();
    let found = parts(text, scope);
    let mut rest = found.iter().peekable();
    while let Some(part) = rest.next() {
        let name = match part {
            Part::Text(text) if text.contains(['{', '}']) => {
                return Err("`{` and `}` begin placeholders here".into());
            }
            Part::Text(text) => {
                out.push_str(text);
                continue;
            }
            Part::Variable(name) => name.as_str(),
        };
        let is = |part: Option<&&Part>, names: &[&str]| match part {
            Some(Part::Variable(name)) => names.contains(&name.as_str()),
            _ => false,
        };
        if ["uri", "document_uri"].contains(&name) && is(rest.peek(), &["is_args"]) {
            rest.next();
            if is(rest.peek(), &["args", "query_string"]) {
                rest.next();
                out.push_str("{uri}");
                continue;
            }
            return Err("`$is_args` has no counterpart".into());
        }
        out.push_str(&placeholder(name, scope)?);
    }
    // `/index.php$is_args$args` and `/index.php?$args` say the same.
    Ok(out)
}

/// Whether clients of the server in a scope name no port in `Host`.
pub(crate) fn usual_ports(scope: &Scope<'_>) -> bool {
    let server = scope.of_server();
    let on = server.last("ssl").is_some_and(|ssl| ssl.arg(0) == "on");
    server.own().iter().filter(|own| own.name == "listen").all(|listen| {
        let tls = on || listen.args.iter().any(|arg| arg == "ssl" || arg == "quic");
        let address = listen.arg(0);
        let port = match address.rsplit_once(':') {
            Some((_, port)) if !port.contains(']') => port.parse::<u16>().ok(),
            _ => address.parse::<u16>().ok(),
        };
        address.starts_with("unix:") || port.unwrap_or(80) == if tls { 443 } else { 80 }
    })
}

/// A value of a field, with the placeholders that fields have.
///
/// # Errors
/// The variable that has no counterpart.
pub(crate) fn filled(text: &str, scope: &Scope<'_>) -> Result<String, String> {
    let found = parts(text, scope);
    let names: Vec<Option<&str>> = found
        .iter()
        .map(|part| match part {
            Part::Variable(name) => Some(name.as_str()),
            Part::Text(_) => None,
        })
        .collect();
    let (mut out, mut at) = (String::new(), 0);
    while let Some(part) = found.get(at) {
        at += 1;
        let name = match part {
            Part::Text(text) => {
                out.push_str(text);
                continue;
            }
            Part::Variable(name) => name.as_str(),
        };
        let rest = names.get(at..).unwrap_or_default();
        let query = ["args", "query_string"].map(Some);
        if let ("uri" | "document_uri", [Some("is_args"), args, ..]) = (name, rest)
            && query.contains(args)
        {
            at += 2;
            out.push_str(&crate::drafts::placeholder("uri"));
            continue;
        }
        out.push_str(&of_field(name, scope)?);
    }
    Ok(out)
}

/// What stands for a variable in the value of a field.
fn of_field(name: &str, scope: &Scope<'_>) -> Result<String, String> {
    let [host, port] = ["host", "port"].map(crate::drafts::placeholder);
    Ok(match name {
        "request_uri" => crate::drafts::placeholder("uri"),
        "remote_addr" | "realip_remote_addr" => crate::drafts::placeholder("client"),
        "scheme" | "request_id" => crate::drafts::placeholder(name),
        "host" => host,
        "http_host" if usual_ports(scope) => host,
        "http_host" => format!("{host}:{port}"),
        "server_port" => port,
        "server_name" => scope.server_name().unwrap_or_default().to_owned(),
        "remote_user" if scope.last("auth_basic").is_some_and(|asked| asked.arg(0) != "off") => {
            crate::drafts::placeholder("user")
        }
        "remote_user" => return Err("a user is one whom the server has asked for a password".into()),
        name => match name.strip_prefix("http_").map(field_name) {
            // A client's word for what a proxy knows is no placeholder.
            Some(field) if !field.is_empty() && !maitred_config::is_claim(&field) => {
                crate::drafts::placeholder(&format!("header.{field}"))
            }
            _ => return Err(format!("no placeholder of a field stands for the variable `${name}`")),
        },
    })
}

fn placeholder(name: &str, scope: &Scope<'_>) -> Result<String, String> {
    Ok(match name {
        "uri" | "document_uri" | "fastcgi_script_name" => "{path}".into(),
        "request_uri" => "{uri}".into(),
        "args" | "query_string" => "{query}".into(),
        "is_args" => "?".into(),
        "host" | "http_host" => "{host}".into(),
        "hostname" => "{host}".into(),
        "server_name" => match scope.server_name() {
            Some(name) => name.to_owned(),
            None => "{host}".into(),
        },
        "scheme" => "{scheme}".into(),
        "server_port" => "{port}".into(),
        "remote_addr" | "realip_remote_addr" | "binary_remote_addr" => "{client}".into(),
        name if name.len() == 1 && name.starts_with(|c: char| c.is_ascii_digit()) => {
            format!("{{capture.{name}}}")
        }
        name => match (name.strip_prefix("http_"), name.strip_prefix("arg_")) {
            (Some(field), _) => format!("{{header.{}}}", field_name(field)),
            (_, Some(parameter)) => format!("{{query.{parameter}}}"),
            _ if scope.captures(name) => format!("{{capture.{name}}}"),
            _ => return Err(format!("there is no counterpart of the variable `${name}`")),
        },
    })
}

/// `x_forwarded_proto` as the name of a field.
pub(crate) fn field_name(variable: &str) -> String {
    let part = |part: &str| {
        let mut chars = part.chars();
        chars.next().map(|first| first.to_ascii_uppercase()).into_iter().chain(chars).collect::<String>()
    };
    variable.split('_').map(part).collect::<Vec<_>>().join("-")
}

/// A regular expression of PCRE for the crate `regex`.
///
/// # Errors
/// What it has that needs backtracking.
pub(crate) fn regex(text: &str, any_case: bool) -> Result<String, String> {
    for (sign, what) in [
        ("(?=", "looking ahead"),
        ("(?!", "looking ahead"),
        ("(?<=", "looking behind"),
        ("(?<!", "looking behind"),
        ("(?>", "an atomic group"),
        ("(?R", "recursion"),
        ("(?(", "a condition"),
        ("++", "a possessive quantifier"),
        ("*+", "a possessive quantifier"),
        ("?+", "a possessive quantifier"),
    ] {
        if text.contains(sign) && !text.contains(&format!("\\{sign}")) {
            return Err(format!("regular expressions are linear in time here, without {what}"));
        }
    }
    let mut out = String::from(if any_case { "(?i)" } else { "" });
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        if c != '\\' {
            out.push(c);
            continue;
        }
        match chars.next() {
            Some(digit) if digit.is_ascii_digit() && digit != '0' => {
                return Err("regular expressions are linear in time here, without backreferences".into());
            }
            Some('Z') => out.push_str("\\z"),
            Some(c @ ('/' | '_' | '%' | '"' | '\'' | ':' | ',' | '=' | '@' | '!')) => out.push(c),
            Some(c) => {
                out.push('\\');
                out.push(c);
            }
            None => out.push_str("\\\\"),
        }
    }
    Ok(out)
}

/// `^/a/(?!b|c)d` as an expression without looking ahead, and patterns of the paths that it leaves out. `loose`: that something
/// stands where `.+` is makes no difference.
pub(crate) fn without_look_ahead(text: &str, loose: bool) -> Option<(String, Vec<String>)> {
    let (before, rest) = text.split_once("(?!")?;
    let prefix =
        literal(before.strip_prefix('^')?).filter(|prefix| prefix.is_empty() || prefix.starts_with('/'))?;
    let end = closing(rest)?;
    let (inside, after) = (&rest[..end], &rest[end + 1..]);
    let mut left = Vec::new();
    for one in split_top(inside) {
        left.extend(beginnings(&prefix, one, loose)?);
    }
    let all = left.len() <= BEGINNINGS_MAX && left.iter().all(|path| path.starts_with('/'));
    all.then(|| (format!("{before}{after}"), left))
}

/// Patterns that a look-ahead becomes, at most.
const BEGINNINGS_MAX: usize = 64;

/// A text of an expression that stands for itself.
fn literal(text: &str) -> Option<String> {
    let mut out = String::new();
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        match c {
            '\\' => out.push(chars.next().filter(|c| c.is_ascii_punctuation() && !"*?#{}".contains(*c))?),
            c if c.is_ascii_alphanumeric() || "-_/~%".contains(c) => out.push(c),
            _ => return None,
        }
    }
    Some(out)
}

/// Where the group ends that is open.
pub(crate) fn closing(text: &str) -> Option<usize> {
    let (mut depth, mut escaped) = (0, false);
    for (at, c) in text.char_indices() {
        match c {
            _ if escaped => {}
            '(' => depth += 1,
            ')' if depth == 0 => return Some(at),
            ')' => depth -= 1,
            _ => {}
        }
        escaped = c == '\\' && !escaped;
    }
    None
}

/// The alternatives of an expression.
pub(crate) fn split_top(text: &str) -> Vec<&str> {
    let (mut found, mut start, mut at) = (Vec::new(), 0, 0);
    while let Some(c) = text.get(at..).and_then(|rest| rest.chars().next()) {
        match c {
            '\\' => at += 1,
            '(' => at += closing(&text[at + 1..]).map_or(0, |end| end + 1),
            '|' => {
                found.push(&text[start..at]);
                start = at + 1;
            }
            _ => {}
        }
        at += text.get(at..).and_then(|rest| rest.chars().next()).map_or(1, char::len_utf8);
    }
    found.push(&text[start.min(text.len())..]);
    found
}

/// Patterns of the paths that begin with one of the texts of an expression without repetitions.
fn beginnings(prefix: &str, text: &str, loose: bool) -> Option<Vec<String>> {
    let mut all = vec![prefix.to_owned()];
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        if rest == "$" {
            return Some(all);
        }
        let (choices, length) = match c {
            '\\' => {
                let length = 1 + rest[1..].chars().next()?.len_utf8();
                (vec![literal(&rest[..length])?], length)
            }
            '.' if loose && rest.starts_with(".+") || rest.starts_with(".*") => (vec!["*".to_owned()], 2),
            '[' => {
                let end = rest.find(']')?;
                let inside = rest.get(1..end).filter(|inside| !inside.contains('-'))?;
                (inside.chars().map(|c| literal(c.encode_utf8(&mut [0; 4]))).collect::<Option<_>>()?, end + 1)
            }
            '(' => {
                let end = closing(&rest[1..])? + 1;
                let inside = rest[1..end].strip_prefix("?:").unwrap_or(&rest[1..end]);
                (split_top(inside).into_iter().map(literal).collect::<Option<_>>()?, end + 1)
            }
            c => (vec![literal(c.encode_utf8(&mut [0; 4]))?], c.len_utf8()),
        };
        rest = &rest[length..];
        let optional = rest.strip_prefix('?');
        rest = optional.unwrap_or(rest);
        if rest.starts_with(['*', '+', '?', '{']) {
            return None;
        }
        let choices = optional.map(|_| String::new()).into_iter().chain(choices);
        all = choices.flat_map(|one| all.iter().map(move |so_far| format!("{so_far}{one}"))).collect();
        if all.len() > BEGINNINGS_MAX {
            return None;
        }
    }
    Some(all.into_iter().map(|one| format!("{}*", one.trim_end_matches('*'))).collect())
}

/// A regular expression that is no more than a pattern of paths: `\.php$`, `\.(js|css)$`, `^/api/`.
pub(crate) fn as_patterns(text: &str) -> Option<Vec<String>> {
    let plain = |text: &str| -> Option<String> {
        let mut out = String::new();
        let mut chars = text.chars();
        while let Some(c) = chars.next() {
            match c {
                '\\' => out.push(chars.next().filter(|c| ".-/_".contains(*c))?),
                c if c.is_ascii_alphanumeric() || "-_/~ %".contains(c) => out.push(c),
                _ => return None,
            }
        }
        Some(out)
    };
    if let Some(body) = text.strip_prefix('^') {
        let body = body.strip_suffix(".*").unwrap_or(body);
        if let Some(exact) = body.strip_suffix('$') {
            return plain(exact).filter(|path| path.starts_with('/')).map(|path| vec![path]);
        }
        return plain(body).filter(|path| path.starts_with('/')).map(|path| vec![format!("{path}*")]);
    }
    let Some(body) = text.strip_suffix('$') else {
        // Anywhere: `/\.` is a name that begins with a dot.
        return plain(text).filter(|text| !text.is_empty()).map(|text| vec![format!("*{text}*")]);
    };
    let body = body.strip_prefix(".*").unwrap_or(body);
    if let Some(all) = alternatives(body, &plain) {
        return Some(all.into_iter().map(|end| format!("*{end}")).collect());
    }
    plain(body).filter(|end| !end.is_empty()).map(|end| vec![format!("*{end}")])
}

fn alternatives(body: &str, plain: &dyn Fn(&str) -> Option<String>) -> Option<Vec<String>> {
    let (before, rest) = body.split_once('(')?;
    let (inside, after) = rest.split_once(')')?;
    if !after.is_empty() {
        return None;
    }
    let inside = inside.strip_prefix("?:").unwrap_or(inside);
    let before = plain(before)?;
    inside
        .split('|')
        .map(|end| Some(format!("{before}{}", plain(end).filter(|end| !end.is_empty())?)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_and_times() {
        assert_eq!(
            (size("100m"), size("8k"), size("0"), size("x")),
            (Some(100 << 20), Some(8192), Some(0), None)
        );
        assert_eq!(
            (millis("60"), millis("1h 30m"), millis("250ms")),
            (Some(60_000), Some(5_400_000), Some(250))
        );
        assert_eq!((millis("30d"), millis("5x"), millis("")), (Some(30 * 86_400_000), None, None));
    }

    #[test]
    fn simple_expressions_become_patterns() {
        let patterns = |text: &str| as_patterns(text).unwrap_or_default();
        assert_eq!(patterns(r"\.php$"), ["*.php"]);
        assert_eq!(patterns(r"\.(js|css)$"), ["*.js", "*.css"]);
        assert_eq!(patterns(r"^/api/"), ["/api/*"]);
        assert_eq!(patterns(r"^/a\.txt$"), ["/a.txt"]);
        assert_eq!(patterns(r"/\."), ["*/.*"]);
        assert_eq!(patterns(r"^.+\.php(/|$)"), Vec::<String>::new());
    }

    #[test]
    fn looking_ahead_is_a_list_of_what_is_left_out() {
        let found = |text: &str| without_look_ahead(text, false);
        let (rest, left) = found(r"^/(?!admin|ocs\/v[12]|a(b|c)?d|x$)").unwrap();
        assert_eq!(rest, "^/");
        assert_eq!(left, ["/admin*", "/ocs/v1*", "/ocs/v2*", "/ad*", "/abd*", "/acd*", "/x"]);
        assert_eq!(found(r"^(?!/a/).*\.js$"), Some((r"^.*\.js$".into(), vec!["/a/*".into()])));
        assert_eq!(found(r"^(?!a/).*$"), None);
        assert_eq!(found(r"^/a(?!\.b).*$"), Some((r"^/a.*$".into(), vec!["/a.b*".into()])));
        for text in [r"^/(?!a+)", r"(?!a)", r"^/.*(?!a)", r"^/(?!.+a)", r"^/(?=a)", r"^/(?!a", r"^/(?!\d)"] {
            assert_eq!(found(text), None, "{text}");
        }
        assert_eq!(without_look_ahead("^/(?!u/.+/x)", true), Some(("^/".into(), vec!["/u/*/x*".into()])));
    }

    #[test]
    fn what_needs_backtracking_is_refused() {
        for text in [r"^/(?!api)", r"(a)\1", r"a++", r"(?<=a)b"] {
            assert!(regex(text, false).is_err(), "{text}");
        }
        assert_eq!(regex(r"^\/a\.b", true).as_deref(), Ok(r"(?i)^/a\.b"));
    }
}
