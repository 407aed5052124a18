//! Matchers: which requests a directive is for.

use super::paths::{self, Patterns};
use super::tree::Directive;
use super::values::Space;
use crate::drafts::{Match, Route, Target};
use crate::shared::Shared;

/// Requests that a route takes.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Selector {
    /// `path`; none is any.
    pub(crate) paths: Vec<String>,
    /// `path_regex`
    pub(crate) regex: Option<String>,
    /// What placeholders call its groups.
    pub(crate) regex_name: String,
    /// `match`
    pub(crate) condition: Match,
    /// Methods; none is all.
    pub(crate) methods: Vec<String>,
}

/// What two conditions have in common, or a condition behind a rewrite.
#[expect(clippy::large_enum_variant, reason = "most are the large one, and none is kept")]
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Both {
    /// These requests.
    Is(Selector),
    /// No request.
    Never,
    /// One route cannot say it.
    Unknown(&'static str),
}

/// A matcher: its requests; or if that cannot be said, some more.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Asked {
    /// The requests.
    pub(crate) selector: Selector,
    /// What else is asked, and has no counterpart.
    pub(crate) unknown: Option<String>,
}

const BOTH: &str = "one route cannot say this together with what is around it";
const REWRITTEN: &str = "it asks for the path behind a rewrite, which routes do not see";

impl Selector {
    /// Whether every request is meant.
    pub(crate) fn is_all(&self) -> bool {
        *self == Selector::default()
    }

    /// A route for these requests.
    pub(crate) fn route(&self, directive: &Directive, target: Target) -> Route {
        let mut route = Route::new(&directive.place, &directive.shown(), target);
        route.paths.clone_from(&self.paths);
        route.regex.clone_from(&self.regex);
        route.condition = self.condition.clone();
        route.methods.clone_from(&self.methods);
        route
    }

    /// The requests of a route.
    pub(crate) fn of(route: &Route) -> Selector {
        Selector {
            paths: route.paths.clone(),
            regex: route.regex.clone(),
            regex_name: String::new(),
            condition: route.condition.clone(),
            methods: route.methods.clone(),
        }
    }

    /// The requests that both are for.
    pub(crate) fn and(&self, other: &Selector) -> Both {
        let mut both = self.clone();
        match (&self.regex, &other.regex) {
            (Some(ours), Some(theirs)) if ours != theirs => return Both::Unknown(BOTH),
            (None, Some(_)) => {
                both.regex.clone_from(&other.regex);
                both.regex_name.clone_from(&other.regex_name);
            }
            _ => {}
        }
        match (self.methods.is_empty(), other.methods.is_empty()) {
            (true, _) => both.methods.clone_from(&other.methods),
            (false, true) => {}
            (false, false) => both.methods.retain(|method| other.methods.contains(method)),
        }
        if !self.methods.is_empty() && both.methods.is_empty() {
            return Both::Never;
        }
        match self.condition.and(&other.condition) {
            Some(condition) => both.condition = condition,
            None => return Both::Unknown(BOTH),
        }
        match (self.paths.is_empty(), other.paths.is_empty()) {
            (true, _) => both.paths.clone_from(&other.paths),
            (false, true) => {}
            (false, false) => match paths::common(&self.paths, &other.paths) {
                Some(common) if common.is_empty() => return Both::Never,
                Some(common) => both.paths = common,
                None => {
                    let set = Match { paths: other.paths.clone(), ..Match::default() };
                    let any = Match { any: vec![set], ..Match::default() };
                    match both.condition.and(&any) {
                        Some(condition) => both.condition = condition,
                        None => return Both::Unknown(BOTH),
                    }
                }
            },
        }
        Both::Is(both)
    }

    /// The same requests by the path that the client has sent.
    pub(crate) fn within(&self, space: &Space) -> Both {
        let nested = self.condition.any.iter().chain(&self.condition.not).any(|set| !set.paths.is_empty());
        let about_paths = nested || !self.paths.is_empty() || self.regex.is_some();
        let mut found = self.clone();
        match space {
            Space::Unknown if about_paths => return Both::Unknown(REWRITTEN),
            Space::Sent | Space::Unknown => {}
            Space::Fixed(_) | Space::Behind(_) if nested || self.regex.is_some() => {
                return Both::Unknown(REWRITTEN);
            }
            Space::Behind(_) if self.paths.is_empty() => {}
            Space::Behind(begin) => match paths::after(begin, &self.paths) {
                Some(paths) if paths.is_empty() => return Both::Never,
                Some(paths) if paths.iter().any(|path| path == "/*") => found.paths.clear(),
                Some(paths) => found.paths = paths,
                None => return Both::Unknown(REWRITTEN),
            },
            Space::Fixed(path) => {
                let path = path.split('?').next().unwrap_or_default();
                if !self.paths.is_empty() && !self.paths.iter().any(|pattern| paths::fits(pattern, path)) {
                    return Both::Never;
                }
                found.paths.clear();
            }
            Space::Without(prefix) => {
                let sets = found.condition.any.iter_mut().chain(&mut found.condition.not);
                for pattern in found.paths.iter_mut().chain(sets.flat_map(|set| &mut set.paths)) {
                    *pattern = paths::behind(prefix, pattern);
                }
                if let Some(regex) = &self.regex {
                    found.regex = paths::regex_behind(prefix, regex);
                    if found.regex.is_none() {
                        return Both::Unknown(REWRITTEN);
                    }
                }
            }
        }
        Both::Is(found)
    }

    /// As a table of `any` or `not`, which has patterns and no expressions and methods.
    fn table(&self) -> Option<Match> {
        if self.regex.is_some() || !self.methods.is_empty() {
            return None;
        }
        let nested = !self.condition.any.is_empty() || !self.condition.not.is_empty();
        (!nested).then(|| Match { paths: self.paths.clone(), ..self.condition.clone() })
    }
}

/// Matchers with names, of a site.
pub(crate) type Named = Vec<(String, Asked)>;

/// Reads the named matchers among directives. `proxies`: some of them are trusted.
pub(crate) fn named(cx: &Shared, directives: &[Directive], proxies: bool) -> Named {
    let mut found: Named = Vec::new();
    for directive in directives.iter().filter(|directive| directive.name().starts_with('@')) {
        let mut lines: Vec<Directive> = directive.inside().to_vec();
        if let Some(first) = directive.words.get(1) {
            let mut words = directive.args().to_vec();
            if words.len() == 1 && (first.contains("==") || first.contains('(')) {
                words.insert(0, "expression".into());
            }
            lines.insert(
                0,
                Directive { words, block: directive.block.clone(), place: directive.place.clone() },
            );
            lines.truncate(1);
        }
        let name = directive.name().trim_start_matches('@');
        let mut asked = all_of(&lines, proxies);
        if asked.selector.regex.is_some() && asked.selector.regex_name.is_empty() {
            name.clone_into(&mut asked.selector.regex_name);
        }
        match &asked.unknown {
            Some(why) => cx.not_possible(directive, why.clone()),
            None => cx.translated(directive),
        }
        for line in directive.inside() {
            match one(line, proxies) {
                Err(why) => cx.not_possible(line, why),
                Ok(_) => cx.translated(line),
            }
        }
        found.push((directive.name().to_owned(), asked));
    }
    found
}

/// Conditions that mean one of their values, also if they stand in several lines.
const LISTS: &[&str] = &["path", "method", "host", "remote_ip", "client_ip", "query"];

/// What all of these lines ask for.
fn all_of(lines: &[Directive], proxies: bool) -> Asked {
    let mut joined: Vec<Directive> = Vec::new();
    for line in lines {
        match joined.iter_mut().find(|known| known.name() == line.name() && LISTS.contains(&line.name())) {
            Some(known) => known.words.extend(line.args().iter().cloned()),
            None => joined.push(line.clone()),
        }
    }
    let mut all = Asked::default();
    for line in &joined {
        match one(line, proxies).map(|found| all.selector.and(&found)) {
            Ok(Both::Is(both)) => all.selector = both,
            Ok(Both::Never) => all.unknown = Some("no request is like that".into()),
            Ok(Both::Unknown(why)) => all.unknown = Some(why.into()),
            Err(why) => all.unknown = Some(why),
        }
    }
    all
}

fn condition(condition: Match) -> Selector {
    Selector { condition, ..Selector::default() }
}

/// A line of a matcher.
///
/// # Errors
/// Why it has no counterpart.
fn one(line: &Directive, proxies: bool) -> Result<Selector, String> {
    let args = line.args();
    if args.iter().any(|arg| arg.contains('{'))
        && !["expression", "path_regexp", "header_regexp"].contains(&line.name())
    {
        return Err("a condition has no placeholders here".into());
    }
    match line.name() {
        "path" => patterns(args),
        "path_regexp" => {
            let (name, regex) = match args {
                [regex] => (String::new(), regex),
                [name, regex] => (name.clone(), regex),
                _ => return Err("it has a name and an expression".into()),
            };
            Ok(Selector { regex: Some(regex.clone()), regex_name: name, ..Selector::default() })
        }
        "method" => Ok(Selector {
            methods: args.iter().map(|arg| arg.to_ascii_uppercase()).collect(),
            ..Selector::default()
        }),
        "host" => Ok(condition(header("Host", &hosts(args)?))),
        "header" | "header_regexp" if names_claim(args) => Err(CLAIM.into()),
        "header" => {
            let name = line.word(1);
            match name.strip_prefix('!') {
                Some(name) => Ok(condition(not(header(name, "*")))),
                None => any_header(name, args.get(1..).unwrap_or_default()),
            }
        }
        "header_regexp" => match args {
            [name, regex] | [_, name, regex] => Ok(condition(header(name, &format!("~{regex}")))),
            _ => Err("it has a field and an expression".into()),
        },
        "query" => query(args),
        "remote_ip" | "client_ip" if args.is_empty() || args.iter().any(|arg| arg == "forwarded") => {
            Err("a client's address is not what it says itself".into())
        }
        "remote_ip" if proxies => {
            Err("behind `trusted_proxies` a client's address is that of the client: `client_ip`".into())
        }
        "remote_ip" | "client_ip" => Ok(condition(Match { client: networks(args), ..Match::default() })),
        "protocol" => match line.word(1) {
            "http" => Ok(condition(Match { scheme: Some("http"), ..Match::default() })),
            "https" => Ok(condition(Match { scheme: Some("https"), ..Match::default() })),
            "grpc" => Ok(condition(header("Content-Type", "application/grpc*"))),
            _ => Err("a protocol is `http`, `https` or `grpc` here".into()),
        },
        "not" => negated(line, proxies),
        "expression" => expression(&args.join(" "), proxies),
        name => Err(format!("there is no condition like `{name}`")),
    }
}

/// Networks, with those that have a name in Caddy.
pub(crate) fn networks(args: &[String]) -> Vec<String> {
    let of = |arg: &String| match arg.as_str() {
        "private_ranges" => vec!["@private".to_owned(), "@loopback".to_owned()],
        arg => vec![arg.to_owned()],
    };
    args.iter().flat_map(of).collect()
}

fn negated(line: &Directive, proxies: bool) -> Result<Selector, String> {
    let mut lines = line.inside().to_vec();
    if line.words.len() > 1 {
        let (words, block) = (line.args().to_vec(), line.block.clone());
        lines = vec![Directive { words, block, place: line.place.clone() }];
    }
    let asked = all_of(&lines, proxies);
    if let Some(why) = asked.unknown {
        return Err(why);
    }
    if !asked.selector.methods.is_empty() {
        return Err("`not` has no methods: name those that are meant".into());
    }
    let table = asked.selector.table().ok_or("`not` has patterns, and no expressions and methods")?;
    match table.is_empty() {
        true => Err("no request is like that".into()),
        false => Ok(condition(not(table))),
    }
}

/// Names of hosts, as an expression: with any port, and without case.
fn hosts(args: &[String]) -> Result<String, String> {
    if args.is_empty() || args.iter().any(|host| host.contains(['/', ':'])) {
        return Err("a host is a name".into());
    }
    let one = |host: &String| paths::escaped(host).replace(r"\*", "[^.]+");
    let all: Vec<String> = args.iter().map(one).collect();
    let all = if let [one] = all.as_slice() { one.clone() } else { format!("({})", all.join("|")) };
    Ok(format!("~(?i)^{all}(:[0-9]+)?$"))
}

fn query(args: &[String]) -> Result<Selector, String> {
    let mut tables: Vec<(String, Vec<Match>)> = Vec::new();
    for arg in args {
        let (name, value) = arg.split_once('=').ok_or("a parameter has a name and a value")?;
        if value != "*" && (value.contains('*') || value.starts_with('~')) {
            return Err(format!("`{value}` means something else as a value here"));
        }
        let set = Match { query: vec![(name.to_owned(), value.to_owned())], ..Match::default() };
        match tables.iter_mut().find(|(known, _)| known == name) {
            Some((_, sets)) => sets.push(set),
            None => tables.push((name.to_owned(), vec![set])),
        }
    }
    let mut all = Match::default();
    for (_, sets) in tables {
        let one = match sets.as_slice() {
            [one] => one.clone(),
            _ => Match { any: sets, ..Match::default() },
        };
        all = all.and(&one).ok_or(BOTH)?;
    }
    match all.is_empty() {
        true => Err("it names no parameter".into()),
        false => Ok(condition(all)),
    }
}

const EXPRESSIONS: &str = "of expressions, calls like `path('/x')` and `{method} == 'POST'` have a counterpart, also with `&&` and `||`";

/// Expressions that are calls of matchers, or comparisons with one value, of which one or all have to hold.
fn expression(text: &str, proxies: bool) -> Result<Selector, String> {
    let parts: Result<Vec<Selector>, String> =
        text.split("||").map(|part| conjunction(part, proxies)).collect();
    match parts?.as_slice() {
        [one] => Ok(one.clone()),
        parts => either(parts).ok_or_else(|| EXPRESSIONS.to_owned()),
    }
}

/// Requests that any of these is for.
fn either(parts: &[Selector]) -> Option<Selector> {
    let has_methods_only =
        |one: &Selector| !one.methods.is_empty() && Selector { methods: Vec::new(), ..one.clone() }.is_all();
    if parts.iter().all(has_methods_only) {
        let methods = parts.iter().flat_map(|one| one.methods.iter().cloned()).collect();
        return Some(Selector { methods, ..Selector::default() });
    }
    let any: Vec<Match> = parts.iter().map(Selector::table).collect::<Option<_>>()?;
    match any.iter().any(Match::is_empty) {
        true => Some(Selector::default()),
        false => Some(condition(Match { any, ..Match::default() })),
    }
}

fn conjunction(text: &str, proxies: bool) -> Result<Selector, String> {
    let mut all = Selector::default();
    for part in text.split("&&").map(str::trim) {
        let (part, negative) = match part.strip_prefix('!') {
            Some(part) => (part.trim(), true),
            None => (part, false),
        };
        let mut words = call(part).or_else(|| comparison(part)).ok_or(EXPRESSIONS)?;
        if negative {
            words.insert(0, "not".to_owned());
        }
        let place = crate::report::Place { file: "".into(), line: 0 };
        match all.and(&one(&Directive { words, block: None, place }, proxies)?) {
            Both::Is(both) => all = both,
            _ => return Err(EXPRESSIONS.into()),
        }
    }
    Ok(all)
}

/// `path('/a', '/b*')`
fn call(text: &str) -> Option<Vec<String>> {
    let (name, rest) = text.split_once('(')?;
    let known = ["path", "path_regexp", "method", "host", "remote_ip", "client_ip", "protocol"];
    let inside = rest.trim_end().strip_suffix(')').filter(|_| known.contains(&name))?;
    let mut words = vec![name.to_owned()];
    for arg in inside.split(',') {
        words.push(quoted(arg)?);
    }
    Some(words)
}

/// `{method} == 'POST'`, `{path}.startsWith('/x')`
fn comparison(text: &str) -> Option<Vec<String>> {
    if let Some(rest) =
        text.strip_prefix("{path}.startsWith(").or(text.strip_prefix("{http.request.uri.path}.startsWith("))
    {
        return Some(vec!["path".into(), format!("{}*", quoted(rest.strip_suffix(')')?)?)]);
    }
    let (left, right) = text.split_once("==")?;
    let name = match left.trim() {
        "{method}" | "{http.request.method}" => "method",
        "{path}" | "{http.request.uri.path}" => "path",
        "{host}" | "{http.request.host}" => "host",
        "{scheme}" | "{http.request.scheme}" => "protocol",
        _ => return None,
    };
    Some(vec![name.into(), quoted(right)?])
}

fn quoted(text: &str) -> Option<String> {
    let text = text.trim();
    let inside = |quote: char| text.strip_prefix(quote)?.strip_suffix(quote);
    let found = inside('\'').or_else(|| inside('"'))?;
    (!found.contains(['\'', '"', '\\'])).then(|| found.to_owned())
}

const CLAIM: &str = "a client writes this field itself, so that nothing is decided by it";

/// Whether a matcher is about a field that only a proxy can know.
fn names_claim(args: &[String]) -> bool {
    // An expression may have a name of its own before that of the field.
    args.iter().take(2).any(|name| maitred_config::is_claim(name.trim_start_matches('!')))
}

fn not(table: Match) -> Match {
    Match { not: vec![table], ..Match::default() }
}

fn header(name: &str, value: &str) -> Match {
    Match { header: vec![(name.to_owned(), value.to_owned())], ..Match::default() }
}

fn any_header(name: &str, values: &[String]) -> Result<Selector, String> {
    for value in values {
        let inner = value.strip_prefix('*').unwrap_or(value);
        if value.starts_with('~') || inner.strip_suffix('*').unwrap_or(inner).contains('*') {
            return Err(format!("`{value}` means something else as a value here"));
        }
    }
    let tables: Vec<Match> = values.iter().map(|value| header(name, value)).collect();
    match tables.as_slice() {
        [] => Ok(condition(header(name, "*"))),
        [one] => Ok(condition(one.clone())),
        _ => Ok(condition(Match { any: tables, ..Match::default() })),
    }
}

fn patterns(args: &[String]) -> Result<Selector, String> {
    Ok(match paths::read(args)? {
        Patterns::All => Selector::default(),
        Patterns::Plain(paths) => Selector { paths, ..Selector::default() },
        // The name is one that no placeholder has.
        Patterns::Regex(regex) => {
            Selector { regex: Some(regex), regex_name: "*".into(), ..Selector::default() }
        }
    })
}

/// Directives of which one word alone is no matcher.
const WITHOUT: &[&str] = &["root", "rewrite", "redir"];

/// Reads the matcher of a directive, and the words behind it.
pub(crate) fn of<'d>(directive: &'d Directive, named: &Named) -> (Asked, &'d [String]) {
    let args = directive.args();
    let Some((first, rest)) = args.split_first() else { return (Asked::default(), args) };
    let alone = rest.is_empty() && WITHOUT.contains(&directive.name());
    if alone || directive.name() == "try_files" {
        return (Asked::default(), args);
    }
    if first == "*" {
        return (Asked::default(), rest);
    }
    if first.starts_with('@') {
        let found = named.iter().find(|(name, _)| name == first).map(|(_, asked)| asked.clone());
        let none = || Asked { unknown: Some(format!("there is no matcher `{first}`")), ..Asked::default() };
        return (found.unwrap_or_else(none), rest);
    }
    match first.starts_with('/') {
        false => (Asked::default(), args),
        true => match patterns(std::slice::from_ref(first)) {
            Ok(selector) => (Asked { selector, unknown: None }, rest),
            Err(why) => (Asked { selector: Selector::default(), unknown: Some(why) }, rest),
        },
    }
}
