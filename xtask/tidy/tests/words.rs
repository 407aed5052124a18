//! The words of documents, log messages, help texts and comments: plain technical English. A list of retired words, where each
//! is allowed all the same, and what to write instead.

#![allow(clippy::expect_used, reason = "helpers of tests, which clippy.toml does not know to be such")]

use std::collections::HashSet;

use maitred_tidy::{files, report};

/// What of the repository is searched for a word.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    /// Markdown; of CHANGELOG.md what is unreleased.
    Documents,
    /// String literals of the server: log messages, errors, help, configuration reference.
    Strings,
    /// Comments of all Rust code, tests included, on lines of their own.
    Comments,
}

const READ: &[Place] = &[Place::Documents, Place::Strings];
const EVERYWHERE: &[Place] = &[Place::Documents, Place::Strings, Place::Comments];

struct Retired {
    /// In lower case; ` ` at an end stands for the end of a word.
    word: &'static str,
    instead: &'static str,
    places: &'static [Place],
    /// Where it is allowed: a file (how its path begins), a part of the line, and why.
    allowed: &'static [(&'static str, &'static str, &'static str)],
}

const fn word(word: &'static str, instead: &'static str) -> Retired {
    Retired { word, instead, places: READ, allowed: &[] }
}

const fn everywhere(word: &'static str, instead: &'static str) -> Retired {
    Retired { word, instead, places: EVERYWHERE, allowed: &[] }
}

const fn allowed(
    word: &'static str,
    instead: &'static str,
    allowed: &'static [(&'static str, &'static str, &'static str)],
) -> Retired {
    Retired { word, instead, places: READ, allowed }
}

const RETIRED: &[Retired] = &[
    word("breath", "elastic, scales up and down"),
    everywhere("asked again", "retried"),
    word(" ask again", "retry"),
    everywhere("given again", "retried"),
    everywhere("cut off", "aborted"),
    everywhere("cut short", "aborted, truncated"),
    word("broken off", "aborted"),
    word("breaks off", "aborts"),
    word("broke off", "aborted"),
    word("nonsense", "invalid"),
    everywhere("somebody", "the client, the worker, the peer, another user"),
    everywhere(" nobody", "no client, no process"),
    everywhere("anybody", "any client, any peer"),
    everywhere("everybody", "all clients, all users"),
    everywhere("whoever", "the client, the worker, the peer"),
    everywhere("runs already", "external"),
    word("run already", "external"),
    word(" lent ", "borrowed"),
    everywhere(" owed", "pending return"),
    everywhere("condemn", "failed"),
    everywhere("disown", "orphaned"),
    everywhere(" clings", "stuck"),
    everywhere("come home", "reclaimed"),
    everywhere("comes home", "reclaimed"),
    word(" loud", "ready"),
    word(" bell ", "wakeup"),
    word("hear out", "read"),
    everywhere("luggage", "upgrade state"),
    allowed("legacy", "inherited state", &[("docs/load.md", "usenix.org", "an address")]),
    everywhere("outliv", "stays, is kept"),
    word("outlive", "stays, is kept"),
    everywhere("patience", "timeout"),
    word("goes on where", "resumes, upgraded from"),
    word("is told ", "gets, receives"),
    word("are told ", "get, receive"),
    word("asks again", "retries"),
    everywhere("hopeless", "unavailable"),
    everywhere("is given up", "is aborted, is closed"),
    everywhere("was given up", "was aborted, was closed"),
];

/// A line of text with where it stands.
struct Line {
    name: String,
    number: usize,
    text: String,
}

/// A line without what stands between backticks: identifiers have their own renames.
fn without_code(line: &str) -> String {
    line.split('`').step_by(2).collect::<Vec<_>>().join("` `")
}

/// Paragraphs are joined for the search, so that a word that is wrapped is found: each line with the begin of the next one.
fn lines(name: &str, text: &str) -> Vec<Line> {
    let all: Vec<String> = text.lines().map(without_code).collect();
    let next = all.iter().skip(1).map(|line| line.trim().split(' ').next().unwrap_or_default());
    let next = next.chain(std::iter::once(""));
    all.iter()
        .zip(next)
        .enumerate()
        .map(|(at, (line, next))| Line {
            name: name.to_owned(),
            number: at + 1,
            text: format!("{line} {next} "),
        })
        .collect()
}

fn documents() -> Vec<Line> {
    let mut found = Vec::new();
    for (name, text) in files(&[".md"]) {
        // Runs are evidence, and stay as they were written.
        if name.starts_with("bench/runs/") {
            continue;
        }
        let read = match name.as_str() {
            "CHANGELOG.md" => text.split("\n## ").take(2).collect::<Vec<_>>().join("\n## "),
            _ => text,
        };
        found.extend(lines(&name, &read));
    }
    found
}

fn is_test(name: &str) -> bool {
    name.contains("/tests/")
        || name.ends_with("tests.rs")
        || name.contains("/testing")
        || name.contains("/worlds/")
        || name.contains("/benches/")
}

/// The server's files up to their unit tests.
fn code() -> Vec<(String, String)> {
    let servers = |name: &str| name.starts_with("crates/") && name.contains("/src/") && !is_test(name);
    let files = files(&[".rs"]).into_iter().filter(|(name, _)| servers(name));
    files
        .map(|(name, text)| {
            let end = text.find("#[cfg(test)]\nmod tests").unwrap_or(text.len());
            (name, text.get(..end).unwrap_or_default().to_owned())
        })
        .collect()
}

/// Comments on lines of their own. Of other lines nothing is left, so that numbers stay.
fn comments() -> Vec<Line> {
    files(&[".rs"]).iter().flat_map(|(name, text)| comments_of(name, text)).collect()
}

fn comments_of(name: &str, text: &str) -> Vec<Line> {
    let comment = |line: &str| {
        let line = line.trim_start();
        ["//! ", "/// ", "// "].iter().find_map(|mark| line.strip_prefix(mark)).unwrap_or_default().to_owned()
    };
    let left: Vec<String> = text.lines().map(comment).collect();
    let found = lines(name, &left.join("\n")).into_iter().zip(&left);
    found.filter(|(_, comment)| !comment.is_empty()).map(|(line, _)| line).collect()
}

/// What stands in string literals of a file, line by line. Comments are left out.
fn said(name: &str, text: &str) -> Vec<Line> {
    let mut found = Vec::new();
    let mut within = false;
    for (at, line) in text.lines().enumerate() {
        let code = line.trim_start();
        // What is renamed there is a word between two versions, which no user reads.
        if !within && (code.starts_with("//") || code.starts_with("#[serde(rename = ")) {
            continue;
        }
        let mut said = String::from(" ");
        let mut before = ' ';
        let mut characters = code.chars().peekable();
        while let Some(character) = characters.next() {
            match character {
                // The character literal of a quote.
                '"' if !within && before == '\'' && characters.peek() == Some(&'\'') => {}
                '"' => {
                    within = !within;
                    said.push(' ');
                }
                '\\' if within => said.extend(characters.next().map(|_| ' ')),
                '\\' => drop(characters.next()),
                '/' if !within && characters.peek() == Some(&'/') => break,
                other if within => said.push(other),
                _ => {}
            }
            before = character;
        }
        said.push(' ');
        found.push(Line { name: name.to_owned(), number: at + 1, text: said });
    }
    found
}

fn strings() -> Vec<Line> {
    code().iter().flat_map(|(name, text)| said(name, text)).collect()
}

/// Where retired words stand, and the exceptions that were needed.
fn search(place: Place, lines: &[Line], used: &mut HashSet<(&'static str, &'static str)>) -> Vec<String> {
    let mut found = Vec::new();
    for line in lines {
        let text: String = line.text.to_lowercase();
        let spaced: String =
            text.chars()
                .map(|character| {
                    if matches!(character, '(' | '*' | '“' | '[' | ',' | '.' | ';') {
                        ' '
                    } else {
                        character
                    }
                })
                .collect();
        for retired in RETIRED.iter().filter(|retired| retired.places.contains(&place)) {
            let padded = format!(" {spaced}");
            if !padded.contains(retired.word) {
                continue;
            }
            let exception = retired
                .allowed
                .iter()
                .find(|(file, part, _)| line.name.starts_with(file) && text.contains(&part.to_lowercase()));
            match exception {
                Some((_, part, _)) => drop(used.insert((retired.word, part))),
                None => found.push(format!(
                    "{}:{}: {:?}; instead: {}",
                    line.name,
                    line.number,
                    retired.word.trim(),
                    retired.instead
                )),
            }
        }
    }
    found
}

#[test]
fn retired_words_are_gone_from_what_users_read() {
    let mut used = HashSet::new();
    let mut found = search(Place::Documents, &documents(), &mut used);
    found.extend(search(Place::Strings, &strings(), &mut used));
    found.extend(search(Place::Comments, &comments(), &mut used));
    for retired in RETIRED {
        for (_, part, why) in retired.allowed {
            if !used.contains(&(retired.word, part)) {
                found.push(format!("{:?} is allowed for {why}, and is not there", retired.word.trim()));
            }
        }
    }
    report("retired words", &found);
}

/// Parts of identifiers that are retired as well, and what to call it. `"patience_ms"` is a word between two versions, and text.
const RETIRED_NAMES: &[(&str, &str)] = &[
    ("breath", "elastic"),
    ("clings", "stuck"),
    ("come_home", "reclaim"),
    ("condemn", "fail"),
    ("disown", "orphan"),
    ("hear_out", "read"),
    ("luggage", "upgrade state"),
    ("nobody", "none"),
    ("patience", "timeout"),
    ("somebody", "peer"),
    ("unheard", "unread"),
    ("whoever", "peer"),
];

/// Only what is code: comments and strings have their own rules.
fn identifiers(line: &str) -> String {
    let mut within = false;
    let code = line.split("//").next().unwrap_or_default().chars().filter(|character| {
        within ^= *character == '"';
        !within
    });
    code.collect::<String>().to_lowercase()
}

#[test]
fn retired_words_are_gone_from_identifiers() {
    assert_eq!(identifiers("let Patience = \"nobody\"; // somebody"), "let patience = \"; ");
    let mut found = Vec::new();
    for (name, text) in code() {
        for (at, line) in text.lines().enumerate() {
            let line = identifiers(line);
            let retired = RETIRED_NAMES.iter().filter(|(word, _)| line.contains(word));
            found.extend(
                retired.map(|(word, instead)| format!("{name}:{}: {word}; instead: {instead}", at + 1)),
            );
        }
    }
    report("retired names", &found);
}

/// The search finds a word in each form that it can have.
#[test]
fn the_search_finds_words() {
    let find = |text: &str| search(Place::Documents, &lines("docs/x.md", text), &mut HashSet::new());
    assert_eq!(find("a pool that breathes\n").len(), 1);
    assert_eq!(find("the client is cut\noff at once\n").len(), 1, "wrapped");
    assert_eq!(find("(Nobody waits.)\n").len(), 1);
    assert_eq!(
        find("Whoever asks.\n"),
        ["docs/x.md:1: \"whoever\"; instead: the client, the worker, the peer"]
    );
    assert_eq!(find("`nobody` is an account\n").len(), 0, "code");
    assert_eq!(find("It is retried, aborted, elastic.\n").len(), 0);
}

#[test]
fn the_search_reads_comments() {
    let source =
        "fn a() {\n    // whoever\n    let nobody = \"somebody\";\n}\n/// It is cut\n/// off.\n// `nobody`\n";
    let found = search(Place::Comments, &comments_of("x.rs", source), &mut HashSet::new());
    let places: Vec<_> = found.iter().filter_map(|line| line.split(" instead").next()).collect();
    assert_eq!(places, ["x.rs:2: \"whoever\";", "x.rs:5: \"cut off\";"]);
}

#[test]
fn the_search_reads_string_literals() {
    let source = "let a = 'x'; // somebody\nwarn!(\"it is cut off\"); let q = '\"';\nlet nobody = \"a \\\"b\\\" \\\n    everybody\";\n";
    let found = search(Place::Strings, &said("x.rs", source), &mut HashSet::new());
    let places: Vec<_> = found.iter().filter_map(|line| line.split(" instead").next()).collect();
    assert_eq!(places, ["x.rs:2: \"cut off\";", "x.rs:4: \"everybody\";"]);
}
