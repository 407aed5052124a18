//! `match` of a step of a route.

use serde_json::Value as Json;

use crate::drafts::Match;

/// What a step takes.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Taken {
    /// `path`
    pub(crate) paths: Vec<String>,
    /// `path_regex`
    pub(crate) regex: Option<String>,
    /// `methods`
    pub(crate) methods: Vec<String>,
    /// `match`
    pub(crate) condition: Match,
}

/// Reads `match`.
///
/// # Errors
/// What has no counterpart.
pub(crate) fn of(json: Option<&Json>) -> Result<Taken, String> {
    let members = json.and_then(Json::as_object).into_iter().flatten();
    members.into_iter().try_fold(Taken::default(), |taken, (key, value)| member(taken, key, value))
}

/// The same without what has no counterpart.
pub(crate) fn wide(json: Option<&Json>) -> Taken {
    let members = json.and_then(Json::as_object).into_iter().flatten();
    members.fold(Taken::default(), |taken, (key, value)| member(taken.clone(), key, value).unwrap_or(taken))
}

/// Asks for a member as well.
fn member(mut taken: Taken, key: &str, value: &Json) -> Result<Taken, String> {
    match key {
        "uri" => uri(&mut taken, value)?,
        "method" => methods(&mut taken, value)?,
        "host" => {
            let table = named(value, "Host", |(name, text)| Match {
                header: vec![(name, host(&text))],
                ..Match::default()
            })?;
            taken.and(&table)?;
        }
        "scheme" => {
            let scheme = match value.as_str() {
                Some("http") => "http",
                Some("https") => "https",
                _ => return Err("a scheme is `http` or `https`".into()),
            };
            taken.and(&Match { scheme: Some(scheme), ..Match::default() })?;
        }
        "source" => taken.and(&source(value)?)?,
        "headers" => taken.and(&table(value, |pair| Match { header: vec![pair], ..Match::default() })?)?,
        "arguments" => taken.and(&table(value, |pair| Match { query: vec![pair], ..Match::default() })?)?,
        "cookies" => taken.and(&table(value, |pair| Match { cookie: vec![pair], ..Match::default() })?)?,
        other => return Err(format!("no condition asks for `{other}`")),
    }
    Ok(taken)
}

/// A pattern of hosts, as an expression: with any port, and without case.
fn host(pattern: &str) -> String {
    if let Some(regex) = pattern.strip_prefix('~') {
        return format!("~(?i){regex}");
    }
    let mut out = String::from("~(?i)^");
    for c in pattern.chars() {
        match c {
            '*' => out.push_str(".*"),
            c if r"\.+?()|[]{}^$".contains(c) => out.extend(['\\', c]),
            c => out.push(c),
        }
    }
    out + "(:[0-9]+)?$"
}

impl Taken {
    /// Asks for another condition as well.
    pub(crate) fn and(&mut self, other: &Match) -> Result<(), String> {
        self.condition = self.condition.and(other).ok_or("one route cannot say all of these conditions")?;
        Ok(())
    }

    /// What both take.
    pub(crate) fn with(&self, inner: &Taken) -> Result<Taken, String> {
        let both = "one route cannot say the conditions of both routes";
        let mut taken = self.clone();
        taken.and(&inner.condition)?;
        match (self.paths.is_empty(), inner.paths.is_empty()) {
            (true, _) => taken.paths.clone_from(&inner.paths),
            (false, true) => {}
            (false, false) => {
                let set = Match { paths: inner.paths.clone(), ..Match::default() };
                taken.and(&Match { any: vec![set], ..Match::default() })?;
            }
        }
        match (&self.regex, &inner.regex) {
            (Some(ours), Some(theirs)) if ours != theirs => return Err(both.into()),
            (ours, theirs) => taken.regex = ours.clone().or_else(|| theirs.clone()),
        }
        match (self.methods.is_empty(), inner.methods.is_empty()) {
            (true, _) => taken.methods.clone_from(&inner.methods),
            (false, true) => {}
            (false, false) if self.methods == inner.methods => {}
            (false, false) => return Err(both.into()),
        }
        Ok(taken)
    }
}

/// Patterns, and those that must not match.
fn patterns(value: &Json) -> Result<(Vec<String>, Vec<String>), String> {
    let texts: Vec<&str> = match value {
        Json::String(text) => vec![text],
        Json::Array(all) => {
            all.iter().map(|one| one.as_str().ok_or("a pattern is a text")).collect::<Result<_, _>>()?
        }
        _ => return Err("a pattern is a text".into()),
    };
    let (no, yes): (Vec<&str>, Vec<&str>) = texts.into_iter().partition(|text| text.starts_with('!'));
    let owned =
        |all: Vec<&str>| all.into_iter().map(|text| text.trim_start_matches('!').to_owned()).collect();
    Ok((owned(yes), owned(no)))
}

fn uri(taken: &mut Taken, value: &Json) -> Result<(), String> {
    let (yes, no) = patterns(value)?;
    let (regexes, plain): (Vec<String>, Vec<String>) =
        yes.into_iter().partition(|text| text.starts_with('~'));
    if !regexes.is_empty() && !plain.is_empty() {
        return Err("patterns and regular expressions are both asked for".into());
    }
    let bare: Vec<String> = regexes.iter().map(|text| text.trim_start_matches('~').to_owned()).collect();
    taken.regex = match bare.as_slice() {
        [] => None,
        [one] => Some(one.clone()),
        several => Some(several.iter().map(|one| format!("(?:{one})")).collect::<Vec<_>>().join("|")),
    };
    taken.paths = plain;
    if no.iter().any(|text| text.starts_with('~')) {
        return Err("`not` has patterns of paths, and no regular expressions".into());
    }
    match no.is_empty() {
        true => Ok(()),
        false => taken.and(&Match { not: vec![Match { paths: no, ..Match::default() }], ..Match::default() }),
    }
}

fn methods(taken: &mut Taken, value: &Json) -> Result<(), String> {
    let (yes, no) = patterns(value)?;
    let all = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"];
    if yes.iter().chain(&no).any(|method| method.contains(['*', '~'])) {
        return Err("methods are a list here".into());
    }
    let upper: Vec<String> = no.iter().map(|method| method.to_ascii_uppercase()).collect();
    taken.methods = match yes.is_empty() {
        true => all
            .iter()
            .filter(|method| !upper.iter().any(|no| no == *method))
            .map(|method| (*method).to_owned())
            .collect(),
        false => yes.iter().map(|method| method.to_ascii_uppercase()).collect(),
    };
    Ok(())
}

/// One value that is one of several patterns.
fn named(value: &Json, name: &str, make: impl Fn((String, String)) -> Match) -> Result<Match, String> {
    let (yes, no) = patterns(value)?;
    let sets: Vec<Match> = yes.into_iter().map(|text| make((name.to_owned(), text))).collect();
    let mut table = match sets.as_slice() {
        [] => Match::default(),
        [one] => one.clone(),
        _ => Match { any: sets, ..Match::default() },
    };
    table.not = no.into_iter().map(|text| make((name.to_owned(), text))).collect();
    Ok(table)
}

/// An object of names, of which all match; or an array of them, of which one does.
fn table(value: &Json, make: impl Fn((String, String)) -> Match + Copy) -> Result<Match, String> {
    let one = |value: &Json| -> Result<Match, String> {
        let mut all = Match::default();
        for (name, value) in value.as_object().ok_or("these are names with patterns")? {
            let table = named(value, name, make)?;
            all = all.and(&table).ok_or("one route cannot say all of these conditions")?;
        }
        Ok(all)
    };
    match value {
        Json::Array(all) => {
            Ok(Match { any: all.iter().map(one).collect::<Result<_, _>>()?, ..Match::default() })
        }
        value => one(value),
    }
}

fn source(value: &Json) -> Result<Match, String> {
    let (yes, no) = patterns(value)?;
    let network = |text: &String| -> Result<String, String> {
        let bare = text.trim_start_matches('[').trim_end_matches(']');
        let address = bare.split('/').next().unwrap_or_default();
        match address.parse::<std::net::IpAddr>() {
            Ok(_) => Ok(bare.to_owned()),
            Err(_) => Err("a source is an address or a network, without port and range".into()),
        }
    };
    let networks = |all: Vec<String>| all.iter().map(network).collect::<Result<Vec<_>, _>>();
    let no = networks(no)?;
    let not = if no.is_empty() { Vec::new() } else { vec![Match { client: no, ..Match::default() }] };
    Ok(Match { client: networks(yes)?, not, ..Match::default() })
}
