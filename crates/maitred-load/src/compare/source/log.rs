//! The requests of an access log, each once.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;

use super::gathered::{Collector, Gathered, Known};
use crate::compare::request::{Case, FollowUp, Request};
use crate::log::Entry;
use crate::log::reader::Reader;

/// Reads a log.
pub(super) fn gather(path: &Path, known: &Known) -> Result<Gathered, String> {
    let told = |error: std::io::Error| format!("{}: {error}", path.display());
    let input: Box<dyn BufRead> = match path.to_str() {
        Some("-") => Box::new(std::io::stdin().lock()),
        _ => Box::new(BufReader::new(File::open(path).map_err(told)?)),
    };
    read(input, known).map_err(told)?.ok_or_else(|| format!("{}: no line of an access log", path.display()))
}

fn read(input: impl BufRead, known: &Known) -> std::io::Result<Option<Gathered>> {
    let mut reader = Reader::new(input);
    let mut collector = Collector::new(known);
    let mut number = 0_u64;
    while let Some(case) = reader.next(|entry| case(&entry))? {
        number += 1;
        if let Some(case) = case {
            collector.push(Case { about: format!("line {number} of the log"), ..case });
        }
    }
    let tally = reader.tally();
    if tally.malformed == tally.lines {
        return Ok(None);
    }
    let mut notes = Vec::new();
    if tally.malformed > 0 {
        notes.push(format!("{} of {} lines of the log cannot be read", tally.malformed, tally.lines));
    }
    if collector.repeated > 0 {
        notes.push(format!("{} requests of the log were repeated ones, and left out", collector.repeated));
    }
    Ok(Some(collector.finish(notes)))
}

/// A line as a request. Which client sent it does not matter here, so that `User-Agent` is left out: one request of each kind is
/// enough.
fn case(entry: &Entry<'_>) -> Option<Case> {
    let line = entry.request.as_ref()?;
    let method = String::from_utf8_lossy(&line.method).into_owned();
    let mut request = Request { method, ..Request::get(line.target.clone().into_owned()) };
    request.host = entry.host.as_deref().map(|host| String::from_utf8_lossy(host).into_owned());
    let mut follow_ups = Vec::new();
    match (entry.status, entry.body_bytes) {
        (304, _) => follow_ups.extend([FollowUp::Tag, FollowUp::Date]),
        (206, Some(bytes @ 1..)) => request = request.with("Range", format!("bytes=0-{}", bytes - 1)),
        (416, _) => request = request.with("Range", "bytes=9223372036854775806-"),
        _ => {}
    }
    Some(Case { request, follow_ups, about: String::new() })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gathered(text: &str, cases_max: usize) -> Option<Gathered> {
        read(text.as_bytes(), &Known { cases_max, ..Known::default() }).unwrap()
    }

    fn line(request: &str, status: u16) -> String {
        format!("192.0.2.1 - - [06/Nov/1994:08:49:37 +0000] \"{request}\" {status} 5\n")
    }

    #[test]
    fn each_request_is_taken_once_and_as_it_was_logged() {
        let lines = [
            line("GET //a%2F?b HTTP/1.1", 200),
            line("GET //a%2F?b HTTP/1.1", 200),
            "no log line\n".to_owned(),
            line("GET /c HTTP/1.1", 304),
            line("GET /c HTTP/1.1", 206),
            line("POST /d HTTP/1.1", 200),
            line("-", 408),
        ];
        let found = gathered(&lines.concat(), 100).unwrap();
        let shown: Vec<String> = found.cases.iter().map(|case| case.request.shown()).collect();
        assert_eq!(shown, ["GET //a%2F?b", "GET /c", "GET /c", "POST /d"]);
        assert_eq!(found.cases[1].follow_ups, [FollowUp::Tag, FollowUp::Date]);
        assert_eq!(found.cases[2].request.fields, [("Range".to_owned(), b"bytes=0-4".to_vec())]);
        assert_eq!(found.cases[1].about, "line 3 of the log");
        assert_eq!(found.notes.len(), 2);
    }

    #[test]
    fn the_number_of_requests_is_bounded() {
        let lines: String = (0..50).map(|number| line(&format!("GET /{number} HTTP/1.1"), 200)).collect();
        let found = gathered(&lines, 20).unwrap();
        assert_eq!(found.cases.len(), 20);
        assert!(found.notes[0].starts_with("30 further requests"), "{:?}", found.notes);
        assert_eq!(gathered("no log\n", 20), None);
    }
}
