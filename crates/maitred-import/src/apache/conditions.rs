//! Conditions of `RewriteCond`, `SetEnvIf` and `<If>`, as those of a route.

use super::patterns::{self, Texts};
use super::selectors::Selector;
use super::tree::Directive;
use crate::drafts::Match;
use crate::model::Value;

/// Whether there is a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FileTest {
    /// `f`, `d`, `l`, `s`, `F`, `U`
    pub(crate) what: char,
    /// `!-f`
    pub(crate) negated: bool,
    /// What stands before and behind the path of the request.
    pub(crate) around: (String, String),
}

/// What one condition is.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Part {
    /// It always holds for a client's request.
    Always,
    /// Requests.
    Select(Selector),
    /// A file.
    File(FileTest),
    /// Requests, with a group that the rule may use as `%1`: the template for it.
    Captured(Selector, String),
}

/// What `%1` of `^www\.(.+)$` is: the host without these letters.
pub(crate) const WITHOUT_WWW: &str = "{host-without-www}";

fn not(condition: Match) -> Match {
    Match { not: vec![condition], ..Match::default() }
}

fn select(condition: Match) -> Part {
    Part::Select(Selector::condition(condition))
}

/// Whether a list of flags, as `[NC,OR]`, has one.
pub(crate) fn has_flag(flags: &str, names: &[&str]) -> bool {
    let inside = flags.trim_start_matches('[').trim_end_matches(']');
    inside.split(',').any(|flag| names.iter().any(|name| flag.trim().eq_ignore_ascii_case(name)))
}

/// A `RewriteCond`.
///
/// # Errors
/// A route cannot say that.
pub(crate) fn rewrite_cond(directive: &Directive) -> Result<Part, String> {
    let (subject, pattern, flags) = (directive.arg(0), directive.arg(1), directive.arg(2));
    let (negated, pattern) = match pattern.strip_prefix('!') {
        Some(rest) => (true, rest),
        None => (false, pattern),
    };
    let no_case = has_flag(flags, &["NC", "nocase"]);
    if subject == "expr" {
        return expression(directive.arg(1)).map(Part::Select);
    }
    if let Some(what) = file_test(pattern) {
        return Ok(Part::File(FileTest { what, negated, around: around(subject)? }));
    }
    if subject.contains("::$") {
        return Err("what the expression has found is not compared with a variable".into());
    }
    let name = variable(subject).ok_or("one variable is looked at, and this is a text with several")?;
    if let Some(capture) = captured(name, pattern, negated) {
        return Ok(capture);
    }
    compared(name, pattern, (negated, no_case)).map_err(str::to_owned)
}

/// `-f` and its like.
fn file_test(pattern: &str) -> Option<char> {
    let mut letters = pattern.strip_prefix('-')?.chars();
    let what = letters.next().filter(|what| "fdlsFUxhL".contains(*what))?;
    letters.next().is_none().then_some(what)
}

/// What stands around the path of the request in the name of a file.
fn around(subject: &str) -> Result<(String, String), String> {
    let rest =
        subject.strip_prefix("%{REQUEST_FILENAME}").or_else(|| subject.strip_prefix("%{SCRIPT_FILENAME}"));
    if let Some(after) = rest.filter(|after| !after.contains(['%', '$'])) {
        return Ok((String::new(), after.to_owned()));
    }
    let below =
        subject.strip_prefix("%{DOCUMENT_ROOT}").or_else(|| subject.strip_prefix("%{CONTEXT_DOCUMENT_ROOT}"));
    let path = below.ok_or("a file is looked for below `DocumentRoot`")?;
    for own in ["%{REQUEST_URI}", "/$1", "$1", "/$0", "$0", "/%1"] {
        if let Some((before, after)) = path.split_once(own).filter(|(before, _)| !before.contains(['%', '$']))
        {
            return match after.contains(['%', '$']) {
                true => Err("the name of the file has several variables".into()),
                false => Ok((before.trim_end_matches('/').to_owned(), after.to_owned())),
            };
        }
    }
    Err("the name of the file is not that of the request".into())
}

/// `%{NAME}` alone.
fn variable(subject: &str) -> Option<&str> {
    let name = subject.strip_prefix("%{")?.strip_suffix('}')?;
    (!name.contains(['{', '}'])).then_some(name)
}

/// Groups that a template can say: the host without `www.`, and a parameter of the query.
fn captured(name: &str, pattern: &str, negated: bool) -> Option<Part> {
    if negated {
        return None;
    }
    if name.eq_ignore_ascii_case("HTTP_HOST")
        && [r"^www\.(.+)$", r"^www\.(.*)$", r"^www\.(.+)", r"^www\.(.*)", r"^(?:www\.)(.+)$"]
            .contains(&pattern)
    {
        let condition = Match { header: vec![("Host".into(), r"~(?i)^www\.".into())], ..Match::default() };
        return Some(Part::Captured(Selector::condition(condition), WITHOUT_WWW.to_owned()));
    }
    if name.eq_ignore_ascii_case("QUERY_STRING") {
        let inner = pattern.strip_prefix('^')?.strip_suffix('$')?;
        let (parameter, value) = inner.split_once('=')?;
        let group = value.strip_prefix('(')?.strip_suffix(')')?;
        let plain = !parameter.is_empty()
            && parameter.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-".contains(&byte));
        let simple = !group.contains(['(', '|', '&']) && patterns::compiled(group).is_ok();
        (plain && simple).then_some(())?;
        let condition =
            Match { query: vec![(parameter.to_owned(), format!("~^(?:{group})$"))], ..Match::default() };
        return Some(Part::Captured(Selector::condition(condition), format!("{{query.{parameter}}}")));
    }
    None
}

/// A variable and a pattern.
fn compared(name: &str, pattern: &str, (negated, no_case): (bool, bool)) -> Result<Part, &'static str> {
    let upper = name.to_ascii_uppercase();
    let exact = pattern.strip_prefix('=').map(|text| text.trim_matches('"'));
    let scheme = |https: bool| {
        let scheme = Some(if https != negated { "https" } else { "http" });
        Ok(select(Match { scheme, ..Match::default() }))
    };
    let plain = exact.unwrap_or(pattern).trim_start_matches('^').trim_end_matches('$');
    match upper.as_str() {
        "HTTPS" | "ENV:HTTPS" => match plain.to_ascii_lowercase().as_str() {
            "on" | "1" => scheme(true),
            "off" | "" => scheme(false),
            _ => Err("`HTTPS` is `on` or `off`"),
        },
        "REQUEST_SCHEME" | "HTTP:X-FORWARDED-PROTO" => match plain.to_ascii_lowercase().as_str() {
            "https" => scheme(true),
            "http" => scheme(false),
            _ => Err("a scheme is `http` or `https`"),
        },
        // What proxies say in other fields is in `X-Forwarded-Proto`, too.
        "HTTP:X-FORWARDED-SSL" | "HTTP:FRONT-END-HTTPS" => match plain.to_ascii_lowercase().as_str() {
            "on" => scheme(true),
            "off" => scheme(false),
            _ => Err("such a field is `on` or `off`"),
        },
        "SERVER_PORT" => match plain {
            "443" => scheme(true),
            "80" => scheme(false),
            port => match port.parse::<u16>() {
                Ok(port) if !negated => {
                    let keys = vec![("local_port", Value::Whole(u64::from(port)))];
                    Ok(select(Match { keys, ..Match::default() }))
                }
                _ => Err("a port is a number"),
            },
        },
        "ENV:REDIRECT_STATUS" if plain.is_empty() && !negated => Ok(Part::Always),
        "REQUEST_METHOD" => methods(pattern, negated),
        "REMOTE_ADDR" => {
            let client = networks(exact.unwrap_or(pattern)).ok_or("this is no list of addresses")?;
            let found = Match { client, ..Match::default() };
            Ok(select(if negated { not(found) } else { found }))
        }
        "REQUEST_URI" | "REQUEST_FILENAME" | "SCRIPT_NAME" => {
            paths(pattern, exact, (negated, no_case), &upper)
        }
        "QUERY_STRING" => query(pattern, exact, negated),
        _ => {
            let field = field(&upper).ok_or("there is no condition about this variable")?;
            header(&field, pattern, exact, (negated, no_case)).map(select)
        }
    }
}

fn methods(pattern: &str, negated: bool) -> Result<Part, &'static str> {
    let none = "methods are a list of names";
    let texts = match pattern.strip_prefix('=') {
        Some(one) => vec![one.to_owned()],
        None => patterns::texts(pattern).ok_or(none)?.texts,
    };
    let named =
        texts.iter().all(|text| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_uppercase()));
    match (named, negated) {
        (false, _) => Err(none),
        (true, false) => Ok(Part::Select(Selector { methods: texts, ..Selector::default() })),
        (true, true) => Err("a route has the methods that it is for, and not those that it is not for"),
    }
}

fn paths(
    pattern: &str,
    exact: Option<&str>,
    (negated, no_case): (bool, bool),
    variable: &str,
) -> Result<Part, &'static str> {
    if variable == "REQUEST_FILENAME" && pattern.starts_with('^') {
        return Err("the name of a file is looked at by its end alone");
    }
    let head = patterns::literal_head(pattern);
    if exact.is_none() && negated && !head.is_empty() && !head.starts_with('/') && variable == "REQUEST_URI" {
        // No path begins so.
        return Ok(Part::Always);
    }
    let globs = match exact {
        Some(path) => Some(vec![super::globs::Glob::exact(path)]),
        None => patterns::of_path(pattern).filter(|globs| {
            let letters =
                globs.iter().any(|glob| glob.show().contains(|letter: char| letter.is_ascii_alphabetic()));
            !no_case || !letters
        }),
    };
    match (globs, negated) {
        (Some(globs), false) => Ok(Part::Select(Selector::paths(globs))),
        (Some(globs), true) => {
            let paths = globs.iter().map(super::globs::Glob::show).collect();
            Ok(select(not(Match { paths, ..Match::default() })))
        }
        (None, false) => {
            let regex = if no_case { format!("(?i){pattern}") } else { pattern.to_owned() };
            patterns::compiled(&regex).map_err(|_| "the expression has what those of Maitred do not have")?;
            Ok(Part::Select(Selector { regex: Some(regex), ..Selector::default() }))
        }
        (None, true) => {
            let head = patterns::literal_head(pattern);
            if head.starts_with("/.well-known/") {
                let paths = vec![format!("{head}*")];
                return Ok(select(not(Match { paths, ..Match::default() })));
            }
            Err("paths that a route is not for are patterns without expressions")
        }
    }
}

fn query(pattern: &str, exact: Option<&str>, negated: bool) -> Result<Part, &'static str> {
    let none = "a condition is about one parameter of the query";
    let text = exact.unwrap_or_else(|| pattern.trim_start_matches("(^|&)").trim_start_matches('^'));
    let text = if exact.is_some() { text } else { text.trim_end_matches("(&|$)").trim_end_matches('$') };
    let (name, value) = text.split_once('=').ok_or(none)?;
    let plain = |text: &str| text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-".contains(&byte));
    let anchored = exact.is_some() || pattern.starts_with('^') || pattern.starts_with("(^|&)");
    if name.is_empty() || !plain(name) || !anchored {
        return Err(none);
    }
    let ended = exact.is_some() || pattern.ends_with('$') || pattern.ends_with("(&|$)");
    let value = match (plain(value), ended, value) {
        (true, true, value) => value.to_owned(),
        (true, false, "") | (_, _, ".*" | "(.*)") => "*".to_owned(),
        (true, false, value) => format!("{value}*"),
        (false, true, value) if patterns::compiled(value).is_ok() && !value.contains('&') => {
            format!("~^(?:{value})$")
        }
        _ => return Err(none),
    };
    let found = Match { query: vec![(name.to_owned(), value)], ..Match::default() };
    Ok(select(if negated { not(found) } else { found }))
}

/// The field that a variable is.
fn field(variable: &str) -> Option<String> {
    let name = match variable.strip_prefix("HTTP:") {
        Some(name) => name.to_owned(),
        None => match variable {
            "SERVER_NAME" => "HOST".to_owned(),
            "HTTP_HOST"
            | "HTTP_USER_AGENT"
            | "HTTP_REFERER"
            | "HTTP_COOKIE"
            | "HTTP_ACCEPT"
            | "HTTP_ACCEPT_LANGUAGE"
            | "HTTP_ACCEPT_ENCODING"
            | "HTTP_UPGRADE"
            | "HTTP_CONNECTION"
            | "HTTP_ORIGIN" => variable.trim_start_matches("HTTP_").replace('_', "-"),
            _ => return None,
        },
    };
    let lower = name.to_ascii_lowercase();
    let written_by_proxies =
        ["x-forwarded", "x-real", "x-remote", "x-ssl", "x-client", "cf-", "true-client", "forwarded"];
    let plain = !lower.is_empty() && lower.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
    (plain && !written_by_proxies.iter().any(|begin| lower.starts_with(begin))).then(|| titled(&lower))
}

/// `user-agent` as `User-Agent`.
fn titled(name: &str) -> String {
    let part = |part: &str| {
        let mut letters = part.chars();
        letters
            .next()
            .map(|first| first.to_ascii_uppercase().to_string() + letters.as_str())
            .unwrap_or_default()
    };
    name.split('-').map(part).collect::<Vec<_>>().join("-")
}

/// A condition about a field. One that is not there is an empty text in httpd, and fits nothing here.
pub(crate) fn header(
    name: &str,
    pattern: &str,
    exact: Option<&str>,
    (negated, no_case): (bool, bool),
) -> Result<Match, &'static str> {
    let with = |value: String| Match { header: vec![(name.to_owned(), value)], ..Match::default() };
    let some = || with("~.".to_owned());
    let found = match exact {
        Some("") => not(some()),
        Some(text) if !no_case && !text.contains(['*', '~']) => with(text.to_owned()),
        Some(text) => with(format!("~(?i)^{}$", patterns::escaped(text))),
        None if ["^$", "^-?$"].contains(&pattern) => not(some()),
        None if [".", ".+", "^.+$", "^.+"].contains(&pattern) => some(),
        None => {
            let compiled = patterns::compiled(pattern)
                .map_err(|_| "the expression has what those of Maitred do not have")?;
            if compiled.is_match("") {
                return Err("the expression fits a field that is not there, too");
            }
            with(format!("~{}{pattern}", if no_case { "(?i)" } else { "" }))
        }
    };
    match (negated, found.not.as_slice()) {
        (false, _) => Ok(found),
        (true, [inner]) if found.header.is_empty() => Ok(inner.clone()),
        (true, _) => Ok(not(found)),
    }
}

/// Networks for an expression about addresses: `^10\.0\.`.
pub(crate) fn networks(pattern: &str) -> Option<Vec<String>> {
    if !pattern.contains(['\\', '^', '$', '(']) {
        return Some(vec![network(pattern)?]);
    }
    let Texts { start, texts, end } = patterns::texts(pattern)?;
    if !start {
        return None;
    }
    let one = |text: &String| match end {
        true => text.parse::<std::net::IpAddr>().ok().map(|address| address.to_string()),
        false if text.ends_with('.') => network(text),
        false => text.parse::<std::net::IpAddr>().ok().map(|address| address.to_string()),
    };
    texts.iter().map(one).collect()
}

/// An address, a network, or the beginning of an address, as `Require ip` and `Allow from` have them.
pub(crate) fn network(text: &str) -> Option<String> {
    if let Some((address, mask)) = text.split_once('/') {
        let address = address.parse::<std::net::IpAddr>().ok()?;
        let bits: u32 = match mask.parse::<std::net::Ipv4Addr>() {
            Ok(mask) => {
                let bits = u32::from(mask);
                (bits.leading_ones() + bits.trailing_zeros().min(32) >= 32 || bits == 0)
                    .then_some(bits.leading_ones())?
            }
            Err(_) => mask.parse().ok()?,
        };
        let most = if address.is_ipv4() { 32 } else { 128 };
        return (bits <= most).then(|| format!("{}/{bits}", masked(address, bits)));
    }
    if let Ok(address) = text.parse::<std::net::IpAddr>() {
        return Some(address.to_string());
    }
    let parts: Vec<&str> = text.trim_end_matches('.').split('.').collect();
    let numbers = parts.iter().map(|part| part.parse::<u8>().ok()).collect::<Option<Vec<u8>>>()?;
    if numbers.is_empty() || numbers.len() > 3 {
        return None;
    }
    let bits = numbers.len() * 8;
    let mut whole = numbers.iter().map(u8::to_string).collect::<Vec<_>>();
    whole.resize(4, "0".to_owned());
    Some(format!("{}/{bits}", whole.join(".")))
}

/// The first address of a network.
fn masked(address: std::net::IpAddr, bits: u32) -> std::net::IpAddr {
    match address {
        std::net::IpAddr::V4(v4) => {
            let mask = u32::MAX.checked_shl(32 - bits.min(32)).unwrap_or(0);
            std::net::Ipv4Addr::from(u32::from(v4) & mask).into()
        }
        std::net::IpAddr::V6(v6) => {
            let mask = u128::MAX.checked_shl(128 - bits.min(128)).unwrap_or(0);
            std::net::Ipv6Addr::from(u128::from(v6) & mask).into()
        }
    }
}

/// `SetEnvIf`, `SetEnvIfNoCase`, `BrowserMatch`: when a variable is set, and which.
///
/// # Errors
/// A route cannot say that.
pub(crate) fn set_env_if(directive: &Directive) -> Result<(Vec<String>, Selector), String> {
    let browser = directive.name.starts_with("browsermatch");
    let no_case = directive.name.ends_with("nocase");
    let (field, pattern, rest) = match (browser, directive.args.as_slice()) {
        (true, [pattern, rest @ ..]) => ("User-Agent", pattern, rest),
        (false, [field, pattern, rest @ ..]) => (field.as_str(), pattern, rest),
        _ => return Err("it names no variable".into()),
    };
    let variable = match field.to_ascii_lowercase().as_str() {
        "request_uri" => "REQUEST_URI".to_owned(),
        "request_method" => "REQUEST_METHOD".to_owned(),
        "remote_addr" => "REMOTE_ADDR".to_owned(),
        "remote_host" | "server_addr" | "request_protocol" => {
            return Err("there is no condition about this".into());
        }
        other => format!("HTTP:{}", other.to_ascii_uppercase()),
    };
    let names = rest.iter().map(|word| word.split('=').next().unwrap_or_default().to_owned()).collect();
    let pattern = if pattern.starts_with('=') { format!("^{pattern}") } else { pattern.clone() };
    match compared(&variable, &pattern, (false, no_case))? {
        Part::Select(selector) => Ok((names, selector)),
        _ => Err("there is no condition about this".into()),
    }
}

/// An expression of `<If>` and `Require expr`.
///
/// # Errors
/// A route cannot say that.
pub(crate) fn expression(text: &str) -> Result<Selector, String> {
    let mut found = Selector::default();
    if ["-f %{REQUEST_FILENAME}", "-f %{SCRIPT_FILENAME}"].contains(&text.trim()) {
        // What is not there is never run, and never sent.
        return Ok(found);
    }
    if text.contains("||") || text.contains('(') && text.contains(" or ") {
        return Err("alternatives in expressions are not translated".into());
    }
    for part in text.split("&&") {
        let one = term(part.trim())?;
        found = found.and(&one)?.ok_or("the expression never holds")?;
    }
    Ok(found)
}

fn term(text: &str) -> Result<Selector, String> {
    let none = || format!("`{text}` is not translated");
    let (negated, text) = match text.strip_prefix('!') {
        Some(rest) => (true, rest.trim().trim_start_matches('(').trim_end_matches(')').trim()),
        None => (false, text),
    };
    if let Some(network_of) = text.strip_prefix("-R ") {
        let client = vec![network(network_of.trim().trim_matches(['\'', '"'])).ok_or_else(none)?];
        let found = Match { client, ..Match::default() };
        return Ok(Selector::condition(if negated { not(found) } else { found }));
    }
    let (subject, rest) = text.split_once('}').ok_or_else(none)?;
    let name = subject.trim_start_matches("%{");
    let name = match name
        .strip_prefix("req:")
        .or_else(|| name.strip_prefix("http:"))
        .or_else(|| name.strip_prefix("HTTP:"))
    {
        Some(field) => format!("HTTP:{field}"),
        None => name.to_owned(),
    };
    let (how, value) = rest.trim().split_once(char::is_whitespace).ok_or_else(none)?;
    let value = value.trim();
    let (negated, pattern, no_case) = match how {
        "==" | "=" | "-eq" => (negated, format!("={}", value.trim_matches(['\'', '"'])), false),
        "!=" | "-ne" => (!negated, format!("={}", value.trim_matches(['\'', '"'])), false),
        "=~" | "!~" => {
            let body = value.strip_prefix('m').unwrap_or(value);
            let mark = body.chars().next().filter(|mark| !mark.is_alphanumeric()).ok_or_else(none)?;
            let (pattern, flags) = body[mark.len_utf8()..].rsplit_once(mark).ok_or_else(none)?;
            (negated != (how == "!~"), pattern.replace("\\/", "/"), flags.contains('i'))
        }
        _ => return Err(none()),
    };
    match compared(&name, &pattern, (negated, no_case))? {
        Part::Select(selector) => Ok(selector),
        _ => Err(none()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::apache::tree::parse;
    use crate::model::show;

    fn cond(text: &str) -> Result<String, String> {
        let directive = parse(&"x".into(), &format!("RewriteCond {text}\n")).unwrap().remove(0);
        match rewrite_cond(&directive)? {
            Part::Select(selector) => {
                let paths: Vec<String> = selector.paths.iter().map(super::super::globs::Glob::show).collect();
                Ok(format!("{} {:?} {:?}", show(&selector.condition.value()), paths, selector.methods))
            }
            other => Ok(format!("{other:?}")),
        }
    }

    #[test]
    fn conditions_are_those_of_routes() {
        for (text, shown) in [
            ("%{HTTPS} off", "scheme = \"http\""),
            ("%{HTTPS} !=on", "scheme = \"http\""),
            (r"%{HTTP_HOST} ^www\. [NC]", r"header = { Host = '~(?i)^www\.' }"),
            (r"%{HTTP_HOST} !^www\. [NC]", r"not = [{ header = { Host = '~(?i)^www\.' } }]"),
            ("%{HTTP_REFERER} !^$", "header = { Referer = \"~.\" }"),
            ("%{REQUEST_METHOD} ^(GET|HEAD)$", r#"["GET", "HEAD"]"#),
            (r"%{REMOTE_ADDR} !^10\.1\.", "not = [{ client = [\"10.1.0.0/16\"] }]"),
            ("%{REQUEST_URI} !^/api/", "not = [{ path = \"/api/*\" }]"),
            ("%{QUERY_STRING} ^p=12$", "query = { p = \"12\" }"),
        ] {
            let found = cond(text).unwrap();
            assert!(found.contains(shown), "{text}: {found}");
        }
        for text in [
            "%{REMOTE_HOST} x",
            "%{REQUEST_METHOD} !^GET$",
            "%{QUERY_STRING} base64",
            "%{HTTP:X-Forwarded-For} ^10",
            "%{HTTP_USER_AGENT} ^(|x)$",
            "%{TIME_HOUR} >20",
        ] {
            assert!(cond(text).is_err(), "{text}");
        }
    }

    #[test]
    fn addresses_are_written_in_many_ways() {
        for (text, network_of) in [
            ("10.1", "10.1.0.0/16"),
            ("192.168.1.", "192.168.1.0/24"),
            ("10.0.0.7/255.255.255.0", "10.0.0.0/24"),
            ("::1", "::1"),
            ("2001:db8::5/32", "2001:db8::/32"),
        ] {
            assert_eq!(network(text).as_deref(), Some(network_of), "{text}");
        }
        for text in ["example.com", "10.0.0.1/255.0.255.0", "1.2.3.4.5", "10.0.0.0/33"] {
            assert_eq!(network(text), None, "{text}");
        }
    }
}
