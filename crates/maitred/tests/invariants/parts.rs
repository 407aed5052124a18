//! Parts of a content, and requests of clients that have it: what comes fits the whole (RFC 9110 sections 13 and 14).

use crate::ask::{Answer, Ask};
use crate::judge::{Got, Judge, Judged, fault, same};
use crate::seen::Seen;

/// Ranges; the last are none.
const RANGES: [&str; 9] = [
    "bytes=0-9",
    "bytes=17-17",
    "bytes=5-",
    "bytes=-7",
    "bytes=0-0,5-9",
    "bytes=2-99999999",
    "bytes=99999999-",
    "bytes=9-3",
    "items=0-3",
];

const RELATION: &str = "parts of a content";

/// Judges what comes for a condition or a range, by two ways in, with a cache and without.
pub(crate) fn judge(judge: &mut Judge<'_>, ask: &Ask, number: usize) -> Judged {
    let [base, _, plain] = judge.case.guises;
    let arrivals = judge.arrivals(ask);
    let Some(by) = arrivals.first().copied() else { return Ok(()) };
    let at = judge.next();
    let target = ask.target(at);
    let whole = judge.get_as(by, base, ask, at, &target);
    let asked = ask.with(&fields(&whole.answer, number));
    let other = arrivals[number % arrivals.len()];
    for (by, guise) in [(by, base), (other, base), (other, plain)] {
        let got = judge.get_as(by, guise, &asked, at, &target);
        fits(&asked, &whole, &got)?;
    }
    Ok(())
}

/// What a client asks on the strength of what it has.
fn fields(whole: &Answer, number: usize) -> Vec<(&'static str, String)> {
    let range = ("range", RANGES[number / 8 % RANGES.len()].to_owned());
    let tag = whole.field("etag").unwrap_or("\"none\"").to_owned();
    let date = whole.field("last-modified").unwrap_or("Fri, 05 Jan 2001 00:00:00 GMT").to_owned();
    match number % 8 {
        0..=2 => vec![range],
        3 => vec![range, ("if-range", tag)],
        4 => vec![range, ("if-range", "\"other\"".to_owned())],
        5 => vec![("if-none-match", tag)],
        6 => vec![("if-none-match", "\"other\"".to_owned()), ("if-modified-since", date)],
        _ => vec![("if-modified-since", date)],
    }
}

fn fits(ask: &Ask, whole: &Got, got: &Got) -> Judged {
    let field =
        |name: &str| ask.fields.iter().find(|(found, _)| *found == name).map(|(_, value)| value.as_str());
    let unfit = |what: &str| fault(RELATION, format!("{what}\n{ask}\n{}of\n{}", got.answer, whole.answer));
    let tag = whole.answer.field("etag");
    match got.answer.status {
        206 if whole.answer.status != 200 => unfit("of what is no content"),
        206 if field("range").is_none() => unfit("a part that was not asked for"),
        206 if field("if-range")
            .is_some_and(|if_range| Some(if_range) != tag || if_range.starts_with("W/")) =>
        {
            unfit("a part of another content")
        }
        206 if got.answer.field("etag") != tag => unfit("another entity tag"),
        206 => match contents(&got.answer) {
            None => unfit("parts that cannot be read"),
            Some(parts) if parts.iter().all(|(first, bytes)| part_of(&whole.answer.body, *first, bytes)) => {
                Ok(())
            }
            Some(_) => unfit("other bytes"),
        },
        416 => {
            let range = field("range").unwrap_or_default();
            let first = range.strip_prefix("bytes=").and_then(|range| range.split('-').next()?.parse().ok());
            let beyond = first.is_some_and(|first: usize| first >= whole.answer.body.len());
            if beyond && whole.answer.status == 200 { Ok(()) } else { unfit("a range that is there") }
        }
        304 => {
            let is_matched =
                field("if-none-match").is_some_and(|wanted| weak(wanted) == tag.map_or("", weak));
            let is_dated = field("if-none-match").is_none()
                && field("if-modified-since")
                    .is_some_and(|date| whole.answer.field("last-modified") == Some(date));
            if whole.answer.status == 304 || is_matched || is_dated {
                Ok(())
            } else {
                unfit("the client has another one")
            }
        }
        _ => {
            let seen = |got: &Got| -> Seen { got.plain() };
            same(RELATION, ask, (whole, &seen(whole)), (got, &seen(got)))
        }
    }
}

/// An entity tag as it is compared for `If-None-Match`.
fn weak(tag: &str) -> &str {
    tag.trim_start_matches("W/")
}

fn part_of(whole: &[u8], first: usize, bytes: &[u8]) -> bool {
    !bytes.is_empty() && whole.get(first..first + bytes.len()) == Some(bytes)
}

/// The parts of an answer, each with where it begins.
fn contents(answer: &Answer) -> Option<Vec<(usize, Vec<u8>)>> {
    if let Some(range) = answer.field("content-range") {
        return Some(vec![(first_of(range, answer.body.len())?, answer.body.clone())]);
    }
    let kind = answer.field("content-type")?.strip_prefix("multipart/byteranges; boundary=")?;
    let text = String::from_utf8_lossy(&answer.body).into_owned();
    let mark = format!("--{kind}");
    let mut found = Vec::new();
    for part in text.split(mark.as_str()).skip(1).take_while(|part| !part.starts_with("--")) {
        let (head, body) = part.split_once("\r\n\r\n")?;
        let body = body.strip_suffix("\r\n")?;
        let range = head.lines().find_map(|line| {
            let (name, value) = line.split_once(": ")?;
            name.eq_ignore_ascii_case("content-range").then_some(value)
        })?;
        found.push((first_of(range, body.len())?, body.as_bytes().to_vec()));
    }
    Some(found).filter(|found| !found.is_empty())
}

/// Where a range begins, if it is as long as its bytes.
fn first_of(range: &str, length: usize) -> Option<usize> {
    let (bounds, _) = range.strip_prefix("bytes ")?.split_once('/')?;
    let (first, last) = bounds.split_once('-')?;
    let (first, last): (usize, usize) = (first.parse().ok()?, last.parse().ok()?);
    (last + 1 - first == length).then_some(first)
}
