//! Exchanges as text.
//!
//! A line is `request => response => what the client gets`, or `+3`: so many seconds later. The request is `GET`, or a method and
//! a target, then fields, all with `|` between them. The response is a status and fields, `closes`, or nothing, where the server
//! is not to be asked. The status is 304 if the server was asked with a condition and the line expects that.
//!
//! What the client gets: `cached`, `origin`, `etag` or `lm` (validated by that), `none` (502), a status if it is not 200, and
//! fields: `A: 1` with this value, `-A` without, `Age>2`.

use super::super::Rules;
use super::model::{Model, fields, head_text, read};
use crate::request::field_room;

/// Carries out a script; panics with the line that is not as it says.
pub(super) fn run(id: &str, rules: &Rules, script: &str) {
    let mut model = Model::new(rules.clone());
    for line in script.lines().map(str::trim).filter(|line| !line.is_empty()) {
        match line.strip_prefix('+') {
            Some(seconds) => model.now += seconds.parse::<u64>().unwrap(),
            None => step(id, &mut model, line),
        }
    }
}

fn step(id: &str, model: &mut Model, line: &str) {
    let parts: Vec<&str> = line.split("=>").map(str::trim).collect();
    let [request, response, expected] = parts[..] else { panic!("{id}: {line}") };
    let (first, request_fields) = request.split_once('|').unwrap_or((request, ""));
    let first = first.trim();
    let first = if first.contains(' ') { first.to_owned() } else { format!("{first} /a/b") };
    let now = model.now;
    let dated = fields(request_fields, now);
    let shown: Vec<String> =
        dated.all().iter().map(|(name, value)| format!("{}: {}", text(name), text(value))).collect();
    let head = head_text(&first, &shown.join("|"));
    let mut room = field_room();
    let request = read(&head, &mut room);
    let validates = expected.starts_with("etag") || expected.starts_with("lm");
    let mut asked = false;
    let got = model.exchange(&request, &mut |conditions| {
        asked = true;
        if response == "closes" {
            return None;
        }
        let (status, response_fields) = response.split_once('|').unwrap_or((response, ""));
        let status =
            if validates && conditions.is_some() { 304 } else { status.trim().parse().unwrap_or(200) };
        Some((status, fields(response_fields, now)))
    });
    assert!(!asked || !response.is_empty(), "{id}: the server was asked: {line}");
    let mut words = expected.split('|').map(str::trim);
    let (how, status) =
        words.next().unwrap().split_once(' ').unwrap_or((expected.split('|').next().unwrap().trim(), "200"));
    let condition =
        |name: &[u8]| got.conditions.as_ref().is_some_and(|fields| fields.all().get(name).is_some());
    let right = match how {
        "cached" => got.cached,
        "origin" => !got.cached,
        "etag" => !got.cached && condition(b"if-none-match"),
        "lm" => !got.cached && condition(b"if-modified-since"),
        "none" => got.status == 502,
        _ => panic!("{id}: {line}"),
    };
    assert!(right, "{id}: {line}: {got:?}");
    if how != "none" {
        assert_eq!(got.status, status.parse::<u16>().unwrap(), "{id}: {line}");
    }
    words.for_each(|word| check(&got.fields, word, now, &format!("{id}: {line}: {got:?}")));
}

fn check(got: &crate::fields::FieldLines, word: &str, now: u64, about: &str) {
    if let Some(name) = word.strip_prefix('-') {
        return assert_eq!(got.all().get(name.as_bytes()), None, "{about}");
    }
    if let Some(least) = word.strip_prefix("Age>") {
        let age = got.all().get(b"age").map(|age| text(age).parse::<u32>().unwrap());
        return assert!(age > Some(least.parse().unwrap()), "{about}");
    }
    let expected = fields(word, now);
    let (name, value) = expected.all().iter().next().unwrap();
    assert_eq!(got.all().get(name).map(text), Some(text(value)), "{about}");
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
