//! `basic_auth`, `forward_auth`, `rate_limit` and `log`.

use base64::{Engine as _, engine::general_purpose::STANDARD};

use super::tree::Directive;
use super::{proxy, values};
use crate::model::{Block, Value};
use crate::report::Kind;
use crate::shared::Shared;
use crate::variables;
use crate::write;

/// A key of a route that says which clients may.
pub(crate) type Gate = (&'static str, Value);

/// `basic_auth`; `words` stand behind its matcher.
///
/// # Errors
/// Why it is not possible.
pub(crate) fn basic_auth(cx: &Shared, directive: &Directive, words: &[String]) -> Result<Gate, String> {
    let realm = words.get(1).map_or("restricted", String::as_str);
    let mut users: Vec<(String, Value)> = Vec::new();
    for line in directive.inside() {
        let name = values::fixed(line.name()).filter(|name| !variables::is_in(name));
        let (Some(name), Some(hash)) = (name, values::fixed(line.word(1))) else {
            return Err("names and hashes are fixed here, without placeholders".into());
        };
        let hash = of_base64(&hash).unwrap_or(hash);
        if !["$2", "$argon2"].iter().any(|begin| hash.starts_with(begin)) {
            return Err("hashes are those of bcrypt and Argon2, as `caddy hash-password` writes them".into());
        }
        cx.translated(line);
        users.push((name, hash.into()));
    }
    if users.is_empty() {
        return Err("it names no user".into());
    }
    cx.translated(directive);
    let table = vec![("realm".to_owned(), realm.into()), ("users".to_owned(), Value::Table(users))];
    Ok(("basic_auth", Value::Table(table)))
}

/// A hash in base64, as older versions of Caddy wrote them.
fn of_base64(text: &str) -> Option<String> {
    let bytes = if text.starts_with('$') { None } else { STANDARD.decode(text).ok() };
    bytes.and_then(|bytes| String::from_utf8(bytes).ok()).filter(|hash| hash.starts_with('$'))
}

/// `forward_auth`; `words` stand behind its matcher.
///
/// # Errors
/// Why it is not possible.
pub(crate) fn forward_auth(cx: &Shared, directive: &Directive, words: &[String]) -> Result<Gate, String> {
    let (mut path, mut copied) = (None, Vec::new());
    for line in directive.inside() {
        match line.name() {
            "uri" => {
                path =
                    Some(values::fixed(line.word(1)).ok_or("its `uri` is fixed here, without placeholders")?);
                cx.translated(line);
            }
            "copy_headers" => {
                cx.translated(line);
                let lines = line.inside().iter().map(|inside| (inside, inside.words.first()));
                for (said, name) in line.args().iter().map(|name| (line, Some(name))).chain(lines) {
                    match name {
                        Some(name) if !name.contains('>') => copied.push(name.clone()),
                        _ => cx.not_possible(
                            said,
                            "the application gets a field by the name that it has in the answer",
                        ),
                    }
                }
            }
            "header_up" => {
                cx.not_possible(line, "the other server gets the request's own fields, and those about it")
            }
            "header_down" => cx.not_possible(line, "what a client is refused with is the other server's"),
            name if ["lb_", "health_", "fail_", "max_fails", "flush_"]
                .iter()
                .any(|begin| name.starts_with(begin)) =>
            {
                cx.say(line, Kind::Choice, "the pool of the other server has settings of its own");
            }
            name => return Err(format!("there is no counterpart of `{name}`")),
        }
    }
    let path = path.ok_or("it has no `uri`")?;
    let block = proxy::block(directive, words, "http", Vec::new())?;
    let pool = cx.pool(&proxy::name_of(words), block);
    cx.translated(directive);
    let mut table = vec![("pool".to_owned(), pool.into()), ("path".to_owned(), path.into())];
    if !copied.is_empty() {
        table.push(("copy_headers".to_owned(), Value::texts(&copied)));
    }
    Ok(("forward_auth", Value::Table(table)))
}

/// `rate_limit` of the module of that name: the names of its limits.
///
/// # Errors
/// Why it is not possible.
pub(crate) fn rate_limit(cx: &Shared, directive: &Directive) -> Result<Vec<String>, String> {
    let mut names = Vec::new();
    for zone in directive.inside() {
        if zone.name() != "zone" {
            cx.not_possible(zone, "a limit has a rate and a key");
            continue;
        }
        let value =
            |name: &str| zone.inside().iter().find(|line| line.name() == name).map(|line| line.word(1));
        let events =
            value("events").and_then(|events| events.parse::<u64>().ok()).ok_or("it has no `events`")?;
        let window = value("window").and_then(values::millis).ok_or("it has no `window`")?;
        let key = value("key").unwrap_or_default().trim_matches(['{', '}']);
        let key = key.strip_prefix("http.request.").unwrap_or(key);
        let mut block = Block::new("").from(&zone.place, &zone.shown());
        block.push("rate", format!("{events}/{}", write::time(window.clamp(1, 86_400_000))), None);
        // As many at once as in one window.
        block.push("burst", events.saturating_sub(1), None);
        match key.strip_prefix("header.") {
            Some(field) if maitred_config::is_claim(field) => {
                return Err("a client writes this field itself: requests are counted by address or by a field of the client".into());
            }
            Some(field) => block.push("key", format!("header:{field}"), None),
            None if ["remote_host", "remote.host", "client_ip", "vars.client_ip"].contains(&key) => {}
            None => return Err("requests are counted by address or by a field".into()),
        }
        for line in zone.inside() {
            match line.name() {
                "key" | "events" | "window" => cx.translated(line),
                "match" => return Err("a limit has no conditions of its own: routes name it".into()),
                _ => cx.say(line, Kind::Choice, "it has no effect here"),
            }
        }
        cx.say(
            zone,
            Kind::Choice,
            "the rate is even: what a window had too many is made up for, and not forgotten",
        );
        names.push(cx.limit(zone.word(1), block));
    }
    cx.translated(directive);
    Ok(names)
}

/// Names of codings in Caddy.
const CODINGS: &[&str] = &["gzip", "zstd", "br"];

/// `encode`: the keys of `compress`.
pub(crate) fn encode(cx: &Shared, directive: &Directive) -> Vec<(String, Value)> {
    let mut entries = Vec::new();
    match directive.args().iter().any(|coding| coding == "zstd" || coding == "br")
        || directive.args().is_empty()
    {
        true => cx.translated(directive),
        false => cx.say(directive, Kind::Better, "clients that accept a better coding than gzip get that"),
    }
    for line in directive.inside() {
        match line.name() {
            "minimum_length" => match line.word(1).parse::<u64>() {
                Ok(bytes) => {
                    cx.translated(line);
                    entries.push(("bytes_min".to_owned(), bytes.into()));
                }
                Err(_) => cx.not_possible(line, "this is not a number"),
            },
            "match" => {
                let mut types = Vec::new();
                let words = line.args().to_vec();
                let lines = line.inside().iter().map(|line| line.words.clone());
                for words in lines.chain((!words.is_empty()).then_some(words)) {
                    match words.as_slice() {
                        [header, name, kind]
                            if header == "header" && name.eq_ignore_ascii_case("content-type") =>
                        {
                            let kind = kind.trim_end_matches("; charset=utf-8").trim_end_matches('*');
                            types.push(if kind.ends_with('/') {
                                format!("{kind}*")
                            } else {
                                kind.to_owned()
                            });
                        }
                        _ => types.push(String::new()),
                    }
                }
                match types.iter().all(|kind| kind.contains('/')) {
                    true => {
                        cx.translated(line);
                        line.inside().iter().for_each(|line| cx.translated(line));
                        entries.push(("types".to_owned(), Value::texts(&types)));
                    }
                    false => cx.say(line, Kind::Choice, "what is compressed is said by its media type"),
                }
            }
            coding if CODINGS.contains(&coding) => {
                cx.say(line, Kind::Choice, "`compress` has levels of its own for each coding");
            }
            _ => cx.not_possible(line, "there is no key for this"),
        }
    }
    entries
}

/// What a site says of its log.
#[derive(Debug, Default)]
pub(crate) struct Logged {
    /// `access_log`: a name.
    pub(crate) name: Option<String>,
    /// `access_log = false`
    pub(crate) quiet: bool,
}

/// `log` of a site.
pub(crate) fn log(cx: &Shared, directive: &Directive) -> Logged {
    let line = |name: &str| directive.inside().iter().find(|line| line.name() == name);
    for other in
        directive.inside().iter().filter(|line| !["output", "format", "level"].contains(&line.name()))
    {
        cx.say(
            other,
            Kind::Choice,
            "lines have fields of their own, and the log of a site has all its requests",
        );
    }
    let format = line("format").map_or("json", |format| format.word(1));
    let mut block = Block::new("").from(&directive.place, &directive.shown());
    let output = line("output");
    let wanted = match output.map_or("", |output| output.word(1)) {
        "file" => {
            let file = output.map_or("", |output| output.word(2));
            let there =
                file.rsplit_once('/').is_some_and(|(directory, _)| cx.machine.has_directory(directory));
            match there {
                true => block.push("to", file, None),
                false => {
                    block.push_off("to", file, None, "its directory is there on this machine");
                    block.push("to", "stdout", None);
                }
            }
            file.rsplit('/').next().and_then(|name| name.split('.').next()).unwrap_or("access")
        }
        "discard" => {
            cx.translated(directive);
            output.into_iter().for_each(|line| cx.translated(line));
            return Logged { name: None, quiet: true };
        }
        "net" => {
            cx.say(
                directive,
                Kind::Choice,
                "`to = \"syslog://…\"` in [access_log.NAME] sends lines to a server",
            );
            return Logged::default();
        }
        _ => {
            block.push("to", "stdout", None);
            "access"
        }
    };
    block.push("format", if format == "console" { "human" } else { "json" }, None);
    for said in [output, line("format"), line("level")].into_iter().flatten() {
        match said.name() == "level" || (said.name() == "format" && said.word(1) != "json") {
            true => cx.say(said, Kind::Choice, "lines have fields and a form of their own"),
            false => cx.translated(said),
        }
        said.inside()
            .iter()
            .for_each(|line| cx.say(line, Kind::Choice, "files of logs are rotated by logrotate"));
    }
    cx.translated(directive);
    Logged { name: Some(cx.log(wanted, block)), quiet: false }
}
