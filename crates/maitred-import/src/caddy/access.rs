//! `basic_auth`, `forward_auth`, `rate_limit` and `log`.

use super::tree::Directive;
use super::{proxy, values};
use crate::model::{Block, Value};
use crate::report::Kind;
use crate::shared::Shared;
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
        let (Some(name), Some(hash)) = (values::fixed(line.name()), values::fixed(line.word(1))) else {
            return Err("names and hashes are fixed here, without placeholders".into());
        };
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
            _ => cx.say(line, Kind::Choice, "the pool has settings of its own"),
        }
    }
    let path = path.ok_or("it has no `uri`")?;
    let block = proxy::block(cx, directive, words, "http", Vec::new())?;
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
        cx.translated(zone);
        names.push(cx.limit(zone.word(1), block));
    }
    cx.translated(directive);
    Ok(names)
}

/// `log` of a site: the name of its access log, if it is not that of the server.
pub(crate) fn log(cx: &Shared, directive: &Directive) -> Option<String> {
    let line = |name: &str| directive.inside().iter().find(|line| line.name() == name);
    for other in
        directive.inside().iter().filter(|line| !["output", "format", "level"].contains(&line.name()))
    {
        cx.say(other, Kind::Choice, "the log of a site has all its requests");
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
            cx.say(directive, Kind::Choice, "`access_log = false` in the site writes no lines for it");
            return None;
        }
        "net" => {
            cx.say(
                directive,
                Kind::Choice,
                "`to = \"syslog://…\"` in [access_log.NAME] sends lines to a server",
            );
            return None;
        }
        _ => {
            block.push("to", "stdout", None);
            "access"
        }
    };
    block.push("format", if format == "console" { "human" } else { "json" }, None);
    for said in [output, line("format"), line("level")].into_iter().flatten() {
        cx.say(said, Kind::Translated, "");
    }
    cx.translated(directive);
    Some(cx.log(wanted, block))
}
