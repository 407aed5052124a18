//! The output passes `maitred check`: what the check refuses is turned into a comment, with its reason, and a row of the table.

use super::model::{Block, Document, Value};
use super::report::{Kind, Place, Report};
use maitred_config::{self as config, Errors, Lookup as _, Origin, System};

/// Each round turns at least one line into a comment, and most turn all that are wrong.
const ROUNDS_MAX: usize = 64;

/// The text of a document that passes the check.
pub(crate) fn checked(document: &mut Document, report: &mut Report) -> String {
    account(document);
    for _ in 0..ROUNDS_MAX {
        complete(document);
        let (text, lines) = document.render();
        let Err(errors) = check(&text) else { return text };
        let mut found = false;
        for problem in &errors.0 {
            let why = format!("`maitred check` says: {}", problem.message);
            let line = lines.get(problem.place.line.saturating_sub(1)).copied().flatten();
            found |= match line {
                Some((block, entry)) => switch_off(document, report, (block, entry), &why),
                None => problem.message.contains("account") && share_user(document),
            };
        }
        if !found {
            break;
        }
    }
    give_in(document, report)
}

/// Whether `maitred check` takes a text.
///
/// # Errors
/// What is wrong with it.
pub(crate) fn check(text: &str) -> Result<(), Errors> {
    let origin = Origin { name: "the output".into(), base: "/".into() };
    config::read(text, &origin, &System).map(|_| ())
}

/// Root needs an account for the process that serves clients, if the usual one is not there.
fn account(document: &mut Document) {
    let has = |name: &str| System.user(name).is_ok_and(|user| user.is_some());
    if !System.is_root()
        || has("maitred")
        || document.blocks.iter().any(|block| block.has("user") && block.header == "[server]")
    {
        return;
    }
    let Some(user) = ["www-data", "nginx", "daemon"].into_iter().find(|name| has(name)) else { return };
    let server = server(document);
    server.notes.push("no account `maitred` here".into());
    server.push("user", user, None);
}

fn server(document: &mut Document) -> &mut Block {
    let at = document.blocks.iter().position(|block| block.header == "[server]").unwrap_or_else(|| {
        document.blocks.insert(0, Block::new("[server]"));
        0
    });
    &mut document.blocks[at]
}

fn share_user(document: &mut Document) -> bool {
    let server = server(document);
    if server.has("share_user") {
        return false;
    }
    server.push("share_user", true, None);
    true
}

/// An address and a site, which every configuration has.
fn complete(document: &mut Document) {
    let has = |document: &Document, header: &str| {
        document.blocks.iter().any(|block| block.header == header && block.off.is_none())
    };
    if !has(document, "[[listen]]") {
        let mut listen = Block::new("[[listen]]");
        listen.notes.push("a stand-in: no other address can be used yet".into());
        listen.push("address", "127.0.0.1:8080", None);
        let at = document.blocks.iter().take_while(|block| block.header == "[server]").count();
        document.blocks.insert(at, listen);
    }
    if !has(document, "[[site]]") {
        document.blocks.push(Block::new("[[site]]"));
        let mut route = Block::new("[[site.route]]");
        route.push("path", "/*", None);
        route.push("respond", Value::Table(vec![("status".into(), 404.into())]), None);
        document.blocks.push(route);
    }
    answers(document);
}

/// A site without a root and without routes, because they were turned off, answers 404.
fn answers(document: &mut Document) {
    let mut at = 0;
    while at < document.blocks.len() {
        let next = document.blocks[at + 1..].iter().position(|block| block.header == "[[site]]");
        let end = next.map_or(document.blocks.len(), |offset| at + 1 + offset);
        let site = &document.blocks[at];
        let bare = site.header == "[[site]]" && site.off.is_none() && !site.has("root");
        let routes = document.blocks[at + 1..end].iter();
        if bare && !routes.clone().any(|block| block.header == "[[site.route]]" && block.off.is_none()) {
            let mut route = Block::new("[[site.route]]");
            route.push("path", "/*", None);
            route.push("respond", Value::Table(vec![("status".into(), 404.into())]), None);
            document.blocks.insert(at + 1, route);
        }
        at += 1;
    }
}

/// Without these keys the whole table means nothing, or something else.
const VITAL: &[&str] = &[
    "path",
    "path_regex",
    "match",
    "methods",
    "redirect",
    "respond",
    "reroute",
    "rewrite",
    "connect",
    "command",
];

fn switch_off(
    document: &mut Document,
    report: &mut Report,
    (at, entry): (usize, Option<usize>),
    why: &str,
) -> bool {
    let Some(block) = document.blocks.get_mut(at).filter(|block| block.off.is_none()) else { return false };
    if entry.is_some_and(|number| refuses_all(block, report, number, why)) {
        return true;
    }
    // An address without its TLS, and a site at all addresses, would be open to others.
    let of_connection = match block.header.as_str() {
        "[[listen]]" => "tls",
        "[[site]]" => "listen",
        _ => "",
    };
    let kept = entry
        .and_then(|number| block.entries.get_mut(number))
        .filter(|entry| !VITAL.contains(&entry.key.as_str()) && entry.key != of_connection);
    let place = match kept {
        Some(entry) if entry.off.is_some() => return false,
        Some(entry) => {
            entry.off = Some(format!("this is mended: {why}"));
            let (place, gate) = (
                entry.place.clone(),
                ["basic_auth", "jwt", "forward_auth", "allow", "deny", "satisfy"]
                    .contains(&entry.key.as_str()),
            );
            if gate && !block.has("deny") {
                // What cannot be protected is closed.
                block.push("deny", Value::texts(&["@all"]), None);
            }
            place
        }
        None => {
            drop_or_close(block, entry, why);
            None
        }
    };
    let origin = block.origin.clone();
    let gone = block.off.is_some() && block.header == "[[site]]";
    if let Some((place, what)) = origin.map(|(own, what)| (place.unwrap_or(own), what)) {
        // An earlier route that takes everything is no loss: nothing would have reached this one in nginx either.
        let kind = if why.contains("an earlier one takes") { Kind::NotNeeded } else { Kind::NotPossible };
        report.say(&place, &what, kind, why);
    }
    if gone {
        let routes = document.blocks[at + 1..].iter_mut();
        for route in routes.take_while(|block| block.header == "[[site.route]]") {
            route.off = Some("its site is not used".into());
        }
    }
    true
}

/// A condition of a refusal that cannot be used: without it, everything is refused that the route's path takes, and nothing is
/// open that was not.
fn refuses_all(block: &mut Block, report: &mut Report, number: usize, why: &str) -> bool {
    let refuses = block.entries.iter().any(|entry| match (&*entry.key, &entry.value) {
        ("respond", Value::Table(table)) => {
            let status =
                |(key, value): &(String, Value)| key == "status" && matches!(value, Value::Whole(400..=499));
            table.iter().any(status)
        }
        _ => false,
    });
    let is_condition =
        block.entries.get(number).is_some_and(|entry| entry.key == "match" && entry.off.is_none());
    if !refuses || !is_condition || why.contains("an earlier one takes") {
        return false;
    }
    if let Some(entry) = block.entries.get_mut(number) {
        entry.off = Some(format!("this is mended: {why}"));
    }
    if !block.has("path") && !block.has("path_regex") {
        block.push("path", "/*", None);
    }
    if let Some((place, what)) = &block.origin {
        report.say(place, what, Kind::NotPossible, format!("{why}: all requests are refused"));
    }
    true
}

/// The requests of a route whose answer cannot be said are not left to a later one, which would mean something else.
fn drop_or_close(block: &mut Block, entry: Option<usize>, why: &str) {
    let answers = ["redirect", "respond", "reroute", "rewrite"];
    let key = entry.and_then(|number| block.entries.get(number)).map(|entry| entry.key.as_str());
    if block.header != "[[site.route]]" || !key.is_some_and(|key| answers.contains(&key)) {
        block.off = Some(why.to_owned());
        return;
    }
    let kept = ["path", "path_regex", "match", "methods"];
    for entry in block.entries.iter_mut().filter(|entry| !kept.contains(&entry.key.as_str())) {
        entry.off.get_or_insert_with(|| format!("this is mended, instead of 403: {why}"));
    }
    block.push("respond", Value::Table(vec![("status".into(), 403.into())]), None);
}

/// When all else fails: everything is a comment, and a site answers 404.
fn give_in(document: &mut Document, report: &mut Report) -> String {
    for block in &mut document.blocks {
        block.off.get_or_insert_with(|| "the check refuses the whole".into());
    }
    report.say(
        &Place { file: "the output".into(), line: 0 },
        "all",
        Kind::NotPossible,
        "`maitred check` refuses it",
    );
    account(document);
    complete(document);
    document.render().0
}
