//! `if`: what it asks of a request.

use super::context::Context;
use crate::drafts::Match;
use crate::nginx::scope::Scope;
use crate::nginx::tree::Directive;
use crate::nginx::values::{self, Part};

/// What a condition asks.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Condition {
    /// A table `match`.
    Match(Match),
    /// Several tables, of which one has to hold; no table has them together.
    Several(Vec<Match>),
    /// A list of methods.
    Methods(Vec<String>),
    /// A pattern of paths, or a regular expression.
    Path(Vec<String>, Option<String>),
    /// No file is there.
    Missing,
}

/// Methods that a list leaves out, where a condition names those that are meant not.
const METHODS: [&str; 7] = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"];

/// What an `if` asks. One that nothing can say, and that refuses requests, is met by all of them: what it guards is closed.
///
/// # Errors
/// Why there is no counterpart.
pub(crate) fn of(cx: &Context<'_>, scope: &Scope<'_>, directive: &Directive) -> Result<Condition, String> {
    read(cx, scope, directive).or_else(|why| {
        let refusals = ["401", "403", "410", "444"];
        let refuses = |inside: &Directive| inside.name == "return" && refusals.contains(&inside.arg(0));
        match directive.inside().iter().any(refuses) {
            true => {
                cx.not_possible(
                    directive,
                    format!("{why}: all requests are refused as it would refuse some"),
                );
                Ok(Condition::Match(Match::default()))
            }
            false => Err(why),
        }
    })
}

/// What an `if` asks.
///
/// # Errors
/// Why there is no counterpart.
pub(crate) fn read(cx: &Context<'_>, scope: &Scope<'_>, directive: &Directive) -> Result<Condition, String> {
    let text = directive.args.join(" ");
    let text = text.trim().trim_start_matches('(').trim_end_matches(')').trim();
    // A `)` of a regular expression may have been at the end.
    let missing = text.matches('(').count().saturating_sub(text.matches(')').count());
    let text = format!("{text}{}", ")".repeat(missing.min(8)));
    let mut words = text.splitn(3, ' ');
    let (first, sign, value) =
        (words.next().unwrap_or_default(), words.next(), words.next().unwrap_or_default().trim());
    if ["!-e", "!-f", "!-d"].contains(&first) {
        return match sign {
            Some("$request_filename") => Ok(Condition::Missing),
            _ => Err("files are looked for by `try` only".into()),
        };
    }
    if first.starts_with(['-', '!']) {
        return Err("files are looked for by `try` only".into());
    }
    let Some(variable) = first.strip_prefix('$') else { return Err("this is no condition of nginx".into()) };
    let found = match sign {
        None if variable == "invalid_referer" => referer(cx, scope),
        None => match mapped(cx, variable, |value| !["", "0"].contains(&value)) {
            Some(found) => found,
            None => truthy(variable),
        },
        Some(sign @ ("=" | "==" | "!=")) => {
            let (wanted, not) = (value.trim_matches(['"', '\'']), sign == "!=");
            match mapped(cx, variable, |value| (value == wanted) != not) {
                Some(found) => found,
                None => equal(variable, value, not),
            }
        }
        Some("~") => matching(variable, value, (false, false)),
        Some("~*") => matching(variable, value, (true, false)),
        Some("!~") => matching(variable, value, (false, true)),
        Some("!~*") => matching(variable, value, (true, true)),
        Some(_) => Err("this is no condition of nginx".into()),
    };
    Ok(match found? {
        Condition::Match(table) => Condition::Match(with_port(scope, table)),
        Condition::Several(tables) => {
            Condition::Several(tables.into_iter().map(|table| with_port(scope, table)).collect())
        }
        other => other,
    })
}

/// Where clients name a port in `Host`, a host is compared without it.
pub(crate) fn with_port(scope: &Scope<'_>, mut table: Match) -> Match {
    if values::usual_ports(scope) {
        return table;
    }
    for (name, value) in &mut table.header {
        if name == "Host" && !value.starts_with('~') {
            *value = format!("~(?i)^{}(:[0-9]+)?$", escaped(value).replace("\\*", "[^:]*"));
        }
    }
    for tables in [&mut table.any, &mut table.not] {
        *tables = std::mem::take(tables).into_iter().map(|table| with_port(scope, table)).collect();
    }
    table
}

/// What a request has to have so that a value is neither empty nor `0`.
///
/// # Errors
/// Why there is no counterpart.
pub(crate) fn of_value(cx: &Context<'_>, scope: &Scope<'_>, text: &str) -> Result<Vec<Condition>, String> {
    let mut all = Vec::new();
    for part in values::parts(text, scope) {
        let name = match part {
            Part::Text(text) if ["", "0"].contains(&text.trim()) => continue,
            Part::Text(_) => return Err("it is always there".into()),
            Part::Variable(name) => name,
        };
        match of_sets(cx, scope, &name)? {
            Some(mut found) => all.append(&mut found),
            None => match mapped(cx, &name, |value| !["", "0"].contains(&value)) {
                Some(found) => all.push(found?),
                None => all.push(truthy(&name)?),
            },
        }
    }
    Ok(all)
}

/// `set $name 0;` and then `if (…) { set $name 1; }`: the conditions; `None` for a variable that is not set like that.
fn of_sets(cx: &Context<'_>, scope: &Scope<'_>, name: &str) -> Result<Option<Vec<Condition>>, String> {
    let is = |set: &&Directive| set.name == "set" && set.arg(0).strip_prefix('$') == Some(name);
    let is_off = |set: &Directive| ["", "0"].contains(&set.arg(1));
    let plain = scope.everywhere("set").into_iter().filter(|set| is(set)).all(is_off);
    let (mut found, mut any) = (Vec::new(), false);
    for directive in scope.everywhere("if") {
        let Some(set) = directive.inside().iter().find(is) else { continue };
        any = true;
        if !plain || is_off(set) {
            return Err(format!("`${name}` is set by one `if`, and taken back by another one"));
        }
        found.push(read(cx, scope, directive)?);
    }
    Ok(any.then_some(found))
}

/// `$invalid_referer`: a `Referer` that `valid_referers` does not name.
fn referer(cx: &Context<'_>, scope: &Scope<'_>) -> Result<Condition, String> {
    let directive = scope.last("valid_referers").ok_or("no `valid_referers` says which are")?;
    let has = |word: &str| directive.args.iter().any(|arg| arg == word);
    let (none, blocked) = (has("none"), has("blocked"));
    let mut names: Vec<&str> = Vec::new();
    for word in directive.args.iter().map(String::as_str).filter(|word| !["none", "blocked"].contains(word)) {
        let own = scope.of_server().own();
        match word {
            "server_names" => {
                let given = own.iter().filter(|own| own.name == "server_name");
                names.extend(given.flat_map(|own| &own.args).map(String::as_str).filter(|name| *name != "_"));
            }
            word => names.push(word),
        }
    }
    let valid = names.into_iter().map(of_referer).collect::<Result<Vec<_>, _>>()?;
    let field = |value: String| Match { header: vec![("Referer".into(), value)], ..Match::default() };
    let not: Vec<Match> = match valid.is_empty() {
        true => Vec::new(),
        false => vec![field(format!("~(?i)^https?://({})", valid.join("|")))],
    };
    // Without a scheme, some firewall has blanked the field.
    let found = match (none, blocked) {
        (true, true) => Match { not, ..field("~(?i)^https?://".to_owned()) },
        (true, false) => Match { not, ..field("~.".to_owned()) },
        (false, false) => Match { not, ..Match::default() },
        (false, true) => {
            return Err("a request without `Referer` differs from one whose `Referer` was blanked".into());
        }
    };
    cx.translated(directive);
    Ok(Condition::Match(found))
}

/// A word of `valid_referers` as what follows the scheme.
fn of_referer(word: &str) -> Result<String, String> {
    if let Some(regex) = word.strip_prefix('~') {
        return values::regex(&format!(".*{regex}"), true);
    }
    let (host, path) = word.find('/').map_or((word, ""), |at| word.split_at(at));
    let host = match (host.strip_prefix("*."), host.strip_suffix(".*"), host.strip_prefix('.')) {
        (Some(below), ..) => format!(r"[^/]*\.{}", escaped(below)),
        (_, Some(before), _) => format!(r"{}\.[^/]*", escaped(before)),
        (_, _, Some(below)) => format!(r"([^/]*\.)?{}", escaped(below)),
        _ => escaped(host),
    };
    let end = if path.is_empty() { "(/|$)".to_owned() } else { escaped(path) };
    Ok(format!("{host}(:[0-9]+)?{end}"))
}

/// What a variable of a `map` or a `geo` asks, where its value is one of those that are wanted; `None`, if it is none of these.
fn mapped(
    cx: &Context<'_>,
    variable: &str,
    wanted: impl Fn(&str) -> bool,
) -> Option<Result<Condition, String>> {
    let name = format!("${variable}");
    if let Some(geo) = cx.geo(&name) {
        return Some(of_geo(geo, wanted).inspect(|_| cx.translated(geo)).map(Condition::Match));
    }
    let map = cx.map(&name)?;
    Some(of_map(map, wanted).inspect(|_| cx.translated(map)))
}

fn of_geo(geo: &Directive, wanted: impl Fn(&str) -> bool) -> Result<Match, String> {
    let (mut inside, mut outside, mut default) = (Vec::new(), Vec::new(), "");
    for row in geo.inside() {
        match row.name.as_str() {
            "default" => default = row.arg(0),
            "ranges" | "proxy" | "delete" | "include" | "proxy_recursive" => {
                return Err(format!("a list of networks has no `{}` here", row.name));
            }
            network if wanted(row.arg(0)) => inside.push(network.to_owned()),
            network => outside.push(network.to_owned()),
        }
    }
    let clients = |client| Match { client, ..Match::default() };
    match (wanted(default), inside.is_empty(), outside.is_empty()) {
        (false, false, true) => Ok(clients(inside)),
        (true, true, false) => Ok(Match { not: vec![clients(outside)], ..Match::default() }),
        _ => Err("networks within others are looked for in turn".into()),
    }
}

fn of_map(map: &Directive, wanted: impl Fn(&str) -> bool) -> Result<Condition, String> {
    let source = map.arg(0).strip_prefix('$').ok_or("a map is of one variable here")?;
    let source = source.trim_start_matches('{').trim_end_matches('}');
    let (mut inside, mut outside, mut default) = (Vec::new(), Vec::new(), "");
    for row in map.inside() {
        match row.name.as_str() {
            "default" => default = row.arg(0),
            "hostnames" | "volatile" => {}
            "include" => return Err("the map includes a file".into()),
            name => {
                let table = of_row(source, name)?;
                if wanted(row.arg(0)) { inside.push(table) } else { outside.push(table) }
            }
        }
    }
    match (wanted(default), inside.is_empty(), outside.is_empty()) {
        (false, false, true) => Ok(either(inside)),
        (true, true, false) if outside.iter().all(is_flat) => {
            Ok(Condition::Match(Match { not: outside, ..Match::default() }))
        }
        (false, true, _) | (true, true, true) => Err("the map has no row with this value".into()),
        _ => Err("the first row of a map that matches counts, and conditions have no order".into()),
    }
}

/// The values of a variable that a `map` sets, each with what a request has to have for it, in the order in which they are looked
/// for; the last one is for all others.
///
/// # Errors
/// Why no conditions say that.
pub(crate) fn rows(map: &Directive) -> Result<Vec<(Option<Match>, &str)>, String> {
    let source = map.arg(0).strip_prefix('$').ok_or("a map is of one variable here")?;
    let source = source.trim_start_matches('{').trim_end_matches('}');
    let (mut exact, mut by_regex, mut default) = (Vec::new(), Vec::new(), "");
    let hosts = map.inside().iter().any(|row| row.name == "hostnames");
    for row in map.inside() {
        match row.name.as_str() {
            "default" => default = row.arg(0),
            "hostnames" | "volatile" => {}
            "include" => return Err("the map includes a file".into()),
            name if hosts && (name.contains('*') || name.starts_with('.')) => {
                by_regex.push((Some(of_hosts(source, name)?), row.arg(0)));
            }
            name if name.starts_with('~') => by_regex.push((Some(of_row(source, name)?), row.arg(0))),
            name => exact.push((Some(of_row(source, name)?), row.arg(0))),
        }
    }
    exact.append(&mut by_regex);
    exact.push((None, default));
    Ok(exact)
}

/// A row of a map with `hostnames`.
fn of_hosts(source: &str, name: &str) -> Result<Match, String> {
    let patterns = match name.strip_prefix('.') {
        Some(below) => vec![below.to_owned(), format!("*.{below}")],
        None => vec![name.to_owned()],
    };
    let of = |pattern: &String| value_of(source, pattern).ok_or_else(|| no_counterpart(source));
    match either(patterns.iter().map(of).collect::<Result<Vec<_>, _>>()?) {
        Condition::Match(table) => Ok(table),
        _ => Err(no_counterpart(source)),
    }
}

/// Whether `any` and `not` can have a table: it has neither itself.
fn is_flat(table: &Match) -> bool {
    table.any.is_empty() && table.not.is_empty()
}

/// At least one of these.
fn either(tables: Vec<Match>) -> Condition {
    let (mut flat, mut all): (Vec<Match>, Vec<Match>) = tables.into_iter().partition(is_flat);
    match flat.len() {
        0 => {}
        1 => all.append(&mut flat),
        _ => all.push(Match { any: flat, ..Match::default() }),
    }
    match all.as_slice() {
        [one] => Condition::Match(one.clone()),
        _ => Condition::Several(all),
    }
}

fn of_row(source: &str, name: &str) -> Result<Match, String> {
    let name = name.strip_prefix('\\').unwrap_or(name);
    let found = match (name.strip_prefix("~*"), name.strip_prefix('~')) {
        (Some(regex), _) => matching(source, regex, (true, false))?,
        (None, Some(regex)) => matching(source, regex, (false, false))?,
        (None, None) => equal(source, name, false)?,
    };
    match found {
        Condition::Match(table) => Ok(table),
        Condition::Path(paths, None) => Ok(Match { paths, ..Match::default() }),
        _ => Err(no_counterpart(source)),
    }
}

/// The table with one value of a request.
fn value_of(variable: &str, value: &str) -> Option<Match> {
    let pair = |name: String| vec![(name, value.to_owned())];
    let mut table = Match::default();
    match variable {
        "host" | "http_host" | "server_name" => table.header = pair("Host".into()),
        _ => match (
            variable.strip_prefix("http_"),
            variable.strip_prefix("cookie_"),
            variable.strip_prefix("arg_"),
        ) {
            // What a client writes decides nothing here.
            (Some(field), _, _) if maitred_config::is_claim(&values::field_name(field)) => return None,
            (Some(field), _, _) => table.header = pair(values::field_name(field)),
            (_, Some(cookie), _) => table.cookie = pair(cookie.to_owned()),
            (_, _, Some(parameter)) => table.query = pair(parameter.to_owned()),
            _ => return None,
        },
    }
    Some(table)
}

fn negated(table: Match, not: bool) -> Condition {
    Condition::Match(match not {
        true => Match { not: vec![table], ..Match::default() },
        false => table,
    })
}

fn no_counterpart(variable: &str) -> String {
    format!("no condition asks for `${variable}`")
}

fn truthy(variable: &str) -> Result<Condition, String> {
    match variable {
        "https" | "ssl_protocol" => Ok(scheme("https")),
        _ => value_of(variable, "~.").map(Condition::Match).ok_or_else(|| no_counterpart(variable)),
    }
}

fn scheme(scheme: &'static str) -> Condition {
    Condition::Match(Match { scheme: Some(scheme), ..Match::default() })
}

fn equal(variable: &str, value: &str, not: bool) -> Result<Condition, String> {
    let value = value.trim_matches(['"', '\'']);
    let plain = |text: &str| !text.contains(['*', '?', '#', '$']);
    match (variable, value) {
        ("scheme", "http") | ("https", "") | ("server_port", "80") => {
            Ok(scheme(if not { "https" } else { "http" }))
        }
        ("scheme", "https") | ("https", "on") | ("server_port", "443") => {
            Ok(scheme(if not { "http" } else { "https" }))
        }
        // What TLS has found, and not what a client writes.
        ("ssl_client_verify", "SUCCESS") => {
            Ok(negated(Match { client_certificate: Some(true), ..Match::default() }, not))
        }
        ("ssl_client_verify", "NONE") => {
            Ok(negated(Match { client_certificate: Some(true), ..Match::default() }, !not))
        }
        ("request_method", method) if !not => Ok(Condition::Methods(vec![method.to_owned()])),
        ("request_method", method) => Ok(all_but(&[method])),
        ("remote_addr", address) => {
            Ok(negated(Match { client: vec![address.to_owned()], ..Match::default() }, not))
        }
        ("uri" | "request_uri" | "document_uri", path) if path.starts_with('/') && plain(path) => {
            Ok(match not {
                true => negated(Match { paths: vec![path.to_owned()], ..Match::default() }, true),
                false => Condition::Path(vec![path.to_owned()], None),
            })
        }
        // Without the field, or with an empty one.
        (variable, "") => {
            value_of(variable, "~.").map(|table| negated(table, !not)).ok_or_else(|| no_counterpart(variable))
        }
        (variable, value) if value.contains('$') => Err(format!("`${variable}` is compared with a variable")),
        (variable, value) => {
            let value = match value.starts_with('~') || value.contains('*') {
                true => format!("~^{}$", escaped(value)),
                false => value.to_owned(),
            };
            value_of(variable, &value)
                .map(|table| negated(table, not))
                .ok_or_else(|| no_counterpart(variable))
        }
    }
}

/// A text as a regular expression.
pub(crate) fn escaped(text: &str) -> String {
    let special = |c: char| if r"\.+*?()|[]{}^$".contains(c) { vec!['\\', c] } else { vec![c] };
    text.chars().flat_map(special).collect()
}

fn all_but(methods: &[&str]) -> Condition {
    let named = |method: &str| methods.contains(&method) || (method == "HEAD" && methods.contains(&"GET"));
    Condition::Methods(
        METHODS.iter().filter(|method| !named(method)).map(|method| (*method).to_owned()).collect(),
    )
}

fn matching(variable: &str, value: &str, (any_case, not): (bool, bool)) -> Result<Condition, String> {
    let value = value.trim_matches(['"', '\'']);
    if variable == "request_method" {
        let inside =
            value.trim_start_matches('^').trim_end_matches('$').trim_start_matches('(').trim_end_matches(')');
        let methods: Vec<&str> = inside.trim_start_matches("?:").split('|').collect();
        if methods
            .iter()
            .any(|method| method.is_empty() || !method.bytes().all(|byte| byte.is_ascii_uppercase()))
        {
            return Err("methods are a list here".into());
        }
        return Ok(match not {
            true => all_but(&methods),
            false => Condition::Methods(methods.into_iter().map(str::to_owned).collect()),
        });
    }
    // `$host` is in lower case, without a port and a dot at its end, and `Host` is what the client has written.
    let of_host = variable == "host";
    let value = match value.rsplit_once('$').filter(|(rest, _)| of_host && !rest.ends_with('\\')) {
        Some((rest, end)) if end.chars().all(|c| c == ')') => format!("{rest}\\.?(:[0-9]+)?${end}"),
        _ => value.to_owned(),
    };
    let value = value.as_str();
    let regex = values::regex(value, any_case || of_host)?;
    if ["uri", "request_uri", "document_uri", "request_filename"].contains(&variable) {
        return match (not, value.contains("\\?"), values::as_patterns(value).filter(|_| !any_case)) {
            (_, true, _) => Err("path and query are apart here".into()),
            (false, _, Some(paths)) => Ok(Condition::Path(paths, None)),
            (false, _, None) => Ok(Condition::Path(Vec::new(), Some(regex))),
            (true, _, Some(paths)) => Ok(negated(Match { paths, ..Match::default() }, true)),
            (true, _, None) => Err("`not` has patterns of paths, and no regular expressions".into()),
        };
    }
    if variable == "scheme" {
        return Err("a scheme is `http` or `https`".into());
    }
    let table = value_of(variable, &format!("~{regex}")).ok_or_else(|| no_counterpart(variable))?;
    Ok(negated(table, not))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Condition, String> {
        let found = crate::nginx::tree::parse(&"x".into(), &format!("if {text} {{ }}")).unwrap();
        of(&Context::new(crate::report::Report::default(), &[]), &Scope::default(), &found[0])
    }

    #[test]
    fn conditions_of_the_usual_shapes() {
        let table = |found: Result<Condition, String>| match found {
            Ok(Condition::Match(table)) => crate::model::show(&table.value()),
            other => panic!("{other:?}"),
        };
        assert_eq!(table(read("($scheme = http)")), r#"{ scheme = "http" }"#);
        assert_eq!(table(read("($host = www.a.org)")), r#"{ header = { Host = "www.a.org" } }"#);
        assert_eq!(table(read("($host != a.org)")), r#"{ not = [{ header = { Host = "a.org" } }] }"#);
        assert_eq!(
            table(read("($http_user_agent ~* (bot|spider))")),
            r#"{ header = { User-Agent = "~(?i)(bot|spider)" } }"#
        );
        assert_eq!(table(read("($http_x_token = \"\")")), r#"{ not = [{ header = { X-Token = "~." } }] }"#);
        assert_eq!(
            table(read("($host ~ ^www\\.a\\.org$)")),
            r#"{ header = { Host = '~(?i)^www\.a\.org\.?(:[0-9]+)?$' } }"#
        );
        assert_eq!(table(read("($cookie_beta)")), r#"{ cookie = { beta = "~." } }"#);
        assert_eq!(read("($request_method = POST)"), Ok(Condition::Methods(vec!["POST".into()])));
        assert_eq!(
            read("($request_method !~ ^(GET|HEAD|POST)$ )"),
            Ok(Condition::Methods(["PUT", "PATCH", "DELETE", "OPTIONS"].map(str::to_owned).to_vec()))
        );
        assert_eq!(read("(!-e $request_filename)"), Ok(Condition::Missing));
        assert!(read("($invalid_referer)").is_err() && read("(-f $x)").is_err() && read("(a)").is_err());
    }
}
