//! Matchers: which requests a directive is for.

use super::tree::Directive;
use crate::drafts::{Match, Route, Target};
use crate::shared::Shared;

/// Requests that a route takes.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Selector {
    /// `path`; none is any.
    pub(crate) paths: Vec<String>,
    /// `path_regex`
    pub(crate) regex: Option<String>,
    /// `match`
    pub(crate) condition: Match,
    /// Methods; none is all.
    pub(crate) methods: Vec<String>,
}

const BOTH: &str = "one route cannot say this together with what is around it";

impl Selector {
    /// Whether every request is meant.
    pub(crate) fn is_all(&self) -> bool {
        *self == Selector::default()
    }

    /// How narrow it is: Caddy tries longer paths first.
    pub(crate) fn length(&self) -> usize {
        self.paths.first().map_or(0, String::len)
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

    /// The selector of requests that match both.
    ///
    /// # Errors
    /// One route cannot say that.
    pub(crate) fn and(&self, other: &Selector) -> Result<Selector, String> {
        let mut both = self.clone();
        match (&self.regex, &other.regex) {
            (Some(ours), Some(theirs)) if ours != theirs => return Err(BOTH.into()),
            (ours, theirs) => both.regex = ours.clone().or_else(|| theirs.clone()),
        }
        match (self.methods.is_empty(), other.methods.is_empty()) {
            (true, _) => both.methods.clone_from(&other.methods),
            (false, true) => {}
            (false, false) => both.methods.retain(|method| other.methods.contains(method)),
        }
        if !self.methods.is_empty() && both.methods.is_empty() {
            return Err("there is no method that both are for".into());
        }
        both.condition = self.condition.and(&other.condition).ok_or(BOTH)?;
        if self.paths.is_empty()
            || other.paths.iter().all(|path| self.paths.iter().any(|ours| covers(ours, path)))
        {
            if !other.paths.is_empty() {
                both.paths.clone_from(&other.paths);
            }
        } else if !self.paths.iter().all(|path| other.paths.iter().any(|theirs| covers(theirs, path))) {
            let set = Match { paths: other.paths.clone(), ..Match::default() };
            both.condition = both.condition.and(&Match { any: vec![set], ..Match::default() }).ok_or(BOTH)?;
        }
        Ok(both)
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

/// Whether each path that fits `narrow` fits `wide`, by their shape.
fn covers(wide: &str, narrow: &str) -> bool {
    match wide.strip_suffix('*') {
        Some(begin) if !begin.contains('*') => narrow.starts_with(begin),
        _ => wide == narrow,
    }
}

/// Matchers with names, of a site.
pub(crate) type Named = Vec<(String, Result<Selector, String>)>;

/// Reads the named matchers among directives.
pub(crate) fn named(cx: &Shared, directives: &[Directive]) -> Named {
    let mut found: Named = Vec::new();
    for directive in directives.iter().filter(|directive| directive.name().starts_with('@')) {
        let mut lines: Vec<Directive> = directive.inside().to_vec();
        if directive.words.len() > 1 {
            let words = directive.args().to_vec();
            lines.insert(0, Directive { words, block: None, place: directive.place.clone() });
        }
        let selector = all_of(&lines);
        cx.translated(directive);
        for line in directive.inside() {
            cx.translated(line);
        }
        found.push((directive.name().to_owned(), selector));
    }
    found
}

fn all_of(lines: &[Directive]) -> Result<Selector, String> {
    lines.iter().try_fold(Selector::default(), |all, line| all.and(&one(line)?))
}

fn condition(condition: Match) -> Selector {
    Selector { condition, ..Selector::default() }
}

fn one(line: &Directive) -> Result<Selector, String> {
    let args = line.args();
    match line.name() {
        "path" => paths(args),
        "path_regexp" => {
            let regex = args.last().map(String::as_str).unwrap_or_default();
            Ok(Selector { regex: Some(regex.to_owned()), ..Selector::default() })
        }
        "method" => Ok(Selector {
            methods: args.iter().map(|arg| arg.to_ascii_uppercase()).collect(),
            ..Selector::default()
        }),
        "host" => any_header("Host", args),
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
        "query" => {
            let pairs = args.iter().map(|arg| {
                let (name, value) = arg.split_once('=').unwrap_or((arg, "*"));
                (name.to_owned(), value.to_owned())
            });
            let mut tables = pairs.map(|pair| Match { query: vec![pair], ..Match::default() });
            match (tables.next(), tables.next()) {
                (Some(one), None) => Ok(condition(one)),
                _ => Err("one parameter stands in a matcher here".into()),
            }
        }
        "remote_ip" | "client_ip" => {
            let networks = args.iter().filter(|arg| *arg != "forwarded").flat_map(|arg| match arg.as_str() {
                "private_ranges" => vec!["@private".to_owned(), "@loopback".to_owned()],
                arg => vec![arg.to_owned()],
            });
            Ok(condition(Match { client: networks.collect(), ..Match::default() }))
        }
        "protocol" => match line.word(1) {
            "http" => Ok(condition(Match { scheme: Some("http"), ..Match::default() })),
            "https" => Ok(condition(Match { scheme: Some("https"), ..Match::default() })),
            _ => Err("a protocol is `http` or `https` here".into()),
        },
        "not" => {
            let mut lines = line.inside().to_vec();
            if line.words.len() > 1 {
                lines.insert(0, Directive { words: args.to_vec(), block: None, place: line.place.clone() });
            }
            let table =
                all_of(&lines)?.table().ok_or("`not` has patterns, and no expressions and methods")?;
            Ok(condition(not(table)))
        }
        name => Err(format!("there is no condition like `{name}`")),
    }
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
    let tables: Vec<Match> = values.iter().map(|value| header(name, value)).collect();
    match tables.as_slice() {
        [] => Ok(condition(header(name, "*"))),
        [one] => Ok(condition(one.clone())),
        _ => Ok(condition(Match { any: tables, ..Match::default() })),
    }
}

fn paths(args: &[String]) -> Result<Selector, String> {
    if args.iter().any(|path| path.contains(['{', '?', '#'])) {
        return Err("`{`, `?` and `#` mean something else in a path here".into());
    }
    let all = args.iter().any(|path| path == "*" || path == "/*");
    Ok(Selector { paths: if all { Vec::new() } else { args.to_vec() }, ..Selector::default() })
}

/// The matcher of a directive, and the words behind it; or why what it asks has no counterpart.
pub(crate) type Found<'d> = Result<(Selector, &'d [String]), String>;

/// Reads the matcher of a directive.
pub(crate) fn of<'d>(directive: &'d Directive, named: &Named) -> Found<'d> {
    let args = directive.args();
    let Some((first, rest)) = args.split_first() else { return Ok((Selector::default(), args)) };
    // One word is what these take, and no matcher.
    if rest.is_empty() && ["root", "rewrite", "redir"].contains(&directive.name()) {
        return Ok((Selector::default(), args));
    }
    if first == "*" {
        return Ok((Selector::default(), rest));
    }
    if first.starts_with('@') {
        let found = named.iter().find(|(name, _)| name == first);
        return match found {
            Some((_, Ok(selector))) => Ok((selector.clone(), rest)),
            Some((_, Err(why))) => Err(why.clone()),
            None => Err(format!("there is no matcher `{first}`")),
        };
    }
    match first.starts_with('/') {
        true => Ok((paths(std::slice::from_ref(first))?, rest)),
        false => Ok((Selector::default(), args)),
    }
}
