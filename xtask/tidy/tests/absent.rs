//! What the documents say that Maitred does not have, held against the table of its keys.
//!
//! A claim of absence has a mark in the same row of a table, item of a list or paragraph: `<!-- absent: WORD, WORD … -->`. The
//! words are what would make it untrue:
//!
//! | word | the claim is untrue when there is |
//! |---|---|
//! | `mptcp`, `*geoip*`, `ech_*` | a key of the configuration, or a value that one names, which is called like that |
//! | `limit.*bytes*` | such a key in that table |
//! | `adapters/ruby` | that path in the repository |
//! | `- (a release)` | nothing that a program knows; what it is about stands in brackets |
//!
//! `<!-- no claim -->` marks a phrase that is about something else. Keys are read from docs/configuration.md, which is made from
//! their table; another test holds that it is fresh.

#![allow(clippy::expect_used, reason = "helpers of tests, which clippy.toml does not know to be such")]

use maitred_tidy::{files, report, root};

/// How documents say that something is absent, in lower case. Longer forms of the same belong here, too.
const PHRASES: &[&str] = &[
    "**no**",
    "are not possible",
    "are not there",
    "cannot be cached",
    "does not support",
    "is missing here",
    "is not possible",
    "is planned",
    "lacks",
    "maitred does not ",
    "maitred has no ",
    "maitred never ",
    "maitred starts no ",
    "no cache",
    "no counterpart",
    "no equivalent",
    "not available",
    "not cached",
    "not implemented",
    "not included",
    "not planned",
    "not possible",
    "not supported",
    "not there",
    "not yet",
    "there are no ",
    "there is no ",
    "unsupported",
];

/// What these phrases are not about: a thing that may or may not be there while the server runs. Taken out before the search.
const CONDITIONS: &[&str] = &[
    "that is not there",
    "that are not there",
    "who is not there",
    "what is not there",
    "which is not there",
    "as if it were not there",
    "if there is no ",
    "if there are no ",
    "where there is no ",
    "where there are no ",
    "as there is no ",
    "while there is no ",
    "and there is no ",
    "so that there is no ",
    "`no-cache`",
];

/// Documents that say what the parts of a protocol and the keys are, and nothing of what Maitred is short of.
const NO_CLAIMS: &[&str] = &["adapters/PROTOCOL.md", "docs/configuration.md"];

/// What others put before the name of a directive that Maitred may have a key for: `fastcgi_cache`, `mod_cache`.
const PREFIXES: &[&str] =
    &["auth_jwt_", "fastcgi_", "grpc_", "http_", "mod_", "proxy_", "scgi_", "ssl_", "uwsgi_"];

/// A document's rows, items and paragraphs: where each begins, and its lines as one.
struct Unit {
    place: String,
    text: String,
}

fn is_read(name: &str) -> bool {
    let place = ["docs/", "adapters/", "examples/"].iter().any(|place| name.starts_with(place));
    (place || matches!(name, "README.md" | "SECURITY.md")) && !NO_CLAIMS.contains(&name)
}

fn units(name: &str, text: &str) -> Vec<Unit> {
    let mut found: Vec<Unit> = Vec::new();
    let (mut open, mut fenced) = (false, false);
    for (number, line) in (1..).zip(text.lines()) {
        let line = line.trim();
        fenced ^= line.starts_with("```");
        let is_text = !fenced && !line.is_empty() && !line.starts_with(['#', '`']);
        let begins = line.starts_with(['|', '-', '>']) || line.starts_with("1. ") || !open;
        match found.last_mut() {
            Some(unit) if is_text && !begins => {
                unit.text.push(' ');
                unit.text += line;
            }
            _ if is_text => {
                found.push(Unit { place: format!("{name}:{number}"), text: line.to_owned() });
            }
            _ => {}
        }
        open = is_text && !line.starts_with('|');
    }
    found
}

/// The text without what stands between backticks, and without comments.
fn plain(text: &str) -> String {
    let mut left = String::new();
    for (number, part) in text.split("<!--").enumerate() {
        let kept = if number == 0 { Some(part) } else { part.split_once("-->").map(|(_, rest)| rest) };
        left += kept.unwrap_or_default();
    }
    left.split('`').step_by(2).collect::<Vec<_>>().join("`").to_lowercase()
}

/// The first phrase of absence in a unit.
fn claim(unit: &Unit) -> Option<&'static str> {
    let mut text = plain(&unit.text);
    for condition in CONDITIONS {
        text = text.replace(condition, " ");
    }
    PHRASES.iter().find(|phrase| text.contains(*phrase)).copied()
}

/// What stands in the comments of a unit behind this word.
fn marks<'text>(text: &'text str, word: &str) -> Vec<&'text str> {
    let comments = text.split("<!--").skip(1).filter_map(|rest| rest.split("-->").next());
    comments.filter_map(|comment| comment.trim().strip_prefix(word)).map(str::trim).collect()
}

/// The keys of a configuration, each with its table, and the values that they name.
struct Keys {
    keys: Vec<(String, String)>,
    values: Vec<String>,
}

impl Keys {
    /// Of the reference: `` ## `[limit.NAME]` `` begins a table, ``**`rate`**: `"a"`, … Default:`` a key.
    fn read(reference: &str) -> Keys {
        let mut found = Keys { keys: Vec::new(), values: Vec::new() };
        let mut table = String::new();
        for line in reference.lines() {
            if let Some(title) = line.strip_prefix("## ") {
                title.trim_matches(['`', '[', ']']).trim_end_matches(".NAME").clone_into(&mut table);
            }
            let Some((key, rest)) = line.strip_prefix("**`").and_then(|rest| rest.split_once("`**")) else {
                continue;
            };
            found.keys.push((table.clone(), key.to_owned()));
            let kinds = rest.split("Default:").next().unwrap_or_default();
            let values = kinds.split('`').skip(1).step_by(2).map(|value| value.trim_matches('"').to_owned());
            found.values.extend(values);
        }
        found
    }

    fn of_this_version() -> Keys {
        let path = root().join("docs/configuration.md");
        let found = Keys::read(&std::fs::read_to_string(path).expect("the reference is there"));
        assert!(found.keys.len() > 400, "only {} keys found: has their form changed?", found.keys.len());
        found
    }

    /// What makes a claim of this word untrue.
    fn contradict(&self, word: &str) -> Option<String> {
        if word.contains('/') {
            return root().join(word).exists().then(|| format!("{word} is there"));
        }
        let is_key = |(table, key): &&(String, String)| match word.split_once('.') {
            Some((place, name)) => table == place && fits(name, key),
            None => fits(word, key) || fits(word, table),
        };
        if let Some((table, key)) = self.keys.iter().find(is_key) {
            return Some(format!("the configuration has `{key}` in `{table}`"));
        }
        let value = self.values.iter().find(|value| fits(word, value));
        value.map(|value| format!("a key of the configuration takes `{value}`"))
    }
}

/// Whether a name fits a word, in which `*` at the begin or the end stands for anything.
fn fits(word: &str, name: &str) -> bool {
    match (word.strip_prefix('*'), word.strip_suffix('*')) {
        (Some(rest), Some(_)) => name.contains(rest.trim_end_matches('*')),
        (Some(end), None) => name.ends_with(end),
        (None, Some(begin)) => name.starts_with(begin),
        (None, None) => name == word,
    }
}

/// Names of keys among the directives of others that the first cell of a row is about.
fn known_directives<'text>(text: &'text str, keys: &Keys) -> Vec<&'text str> {
    let first = text.strip_prefix('|').and_then(|row| row.split('|').next()).unwrap_or_default();
    let names = first.split('`').skip(1).step_by(2);
    let bare = names.map(|name| PREFIXES.iter().find_map(|prefix| name.strip_prefix(prefix)).unwrap_or(name));
    bare.filter(|name| keys.keys.iter().any(|(_, key)| key == name)).collect()
}

/// What is wrong with the claims of a document, and how many it has.
fn judge(name: &str, text: &str, keys: &Keys) -> (Vec<String>, usize) {
    let (mut wrong, mut seen) = (Vec::new(), 0);
    let mut say = |unit: &Unit, what: String| wrong.push(format!("{}: {what}", unit.place));
    for unit in units(name, text) {
        let (absent, none) = (marks(&unit.text, "absent:"), marks(&unit.text, "no claim"));
        // Each row of the list of what is absent is a claim, whatever its words are.
        let is_row = name == "docs/scope.md" && unit.text.starts_with('|');
        let is_head = unit.text.starts_with("| feature |") || unit.text.starts_with("|---");
        let phrase = claim(&unit).or((is_row && !is_head).then_some("a row"));
        let Some(phrase) = phrase else {
            if !none.is_empty() {
                say(&unit, "`no claim`, and no phrase that looks like one".to_owned());
            }
            continue;
        };
        if absent.is_empty() && none.is_empty() {
            say(&unit, format!("{phrase:?} without `<!-- absent: KEY, … -->` (CONTRIBUTING.md, Documents)"));
        }
        seen += absent.len();
        // Of a row of that list, the first cell is about keys of Maitred's own.
        let exempt = is_row || !none.is_empty();
        for known in if exempt { Vec::new() } else { known_directives(&unit.text, keys) } {
            say(&unit, format!("{phrase:?}, and there is a key of that name: `{known}`"));
        }
    }
    for unit in units(name, text) {
        for word in marks(&unit.text, "absent:").iter().flat_map(|mark| mark.split(',')).map(str::trim) {
            let is_word = !word.contains(' ') && !word.trim_matches('*').is_empty();
            let is_aside = word.starts_with("- (") && word.ends_with(')');
            if is_aside {
                continue;
            }
            if !is_word {
                say(&unit, format!("{word:?} is no word of a mark"));
            } else if let Some(why) = keys.contradict(word) {
                say(&unit, format!("it says that {word} is absent, but {why}"));
            }
        }
    }
    (wrong, seen)
}

#[test]
fn what_documents_call_absent_is_absent() {
    let keys = Keys::of_this_version();
    let (mut found, mut seen) = (Vec::new(), 0);
    for (name, text) in files(&[".md"]).iter().filter(|(name, _)| is_read(name)) {
        let (wrong, claims) = judge(name, text, &keys);
        found.extend(wrong);
        seen += claims;
    }
    report("claims that something is absent", &found);
    assert!(seen > 30, "only {seen} claims found: has the form of their marks changed?");
}

/// Each kind of mistake is found, and what is none is left alone.
#[test]
fn claims_are_judged() {
    let keys = Keys::read(
        "## `[limit.NAME]`\n\n**`rate`**: a number. Default: none.  \nText.\n\n## `cache`\n\n**`memory_bytes_max`**: `\"off\"`.\n",
    );
    let wrong = |name: &str, text: &str| judge(name, text, &keys).0.join("\n");
    let page = |text: &str| wrong("docs/x.md", text);
    assert!(page("| `x` | not there |").starts_with("docs/x.md:1: \"not there\" without"));
    assert!(page("Responses of PHP\ncannot be\ncached.\n").contains("\"cannot be cached\""), "wrapped");
    assert!(page("There is no CGI.").contains("\"there is no \""));
    assert!(page("- a\n- Geo is not\n  supported\n").starts_with("docs/x.md:2: "));
    assert_eq!(page("| `x` | not there <!-- absent: geo*, mptcp --> |"), "");
    assert!(page("| `x` | not there <!-- absent: rate --> |").contains("has `rate` in `limit`"));
    assert!(page("not there <!-- absent: *bytes* -->").contains("memory_bytes_max"));
    assert!(page("not there <!-- absent: cache.memory* -->").contains("memory_bytes_max"));
    assert_eq!(page("not there <!-- absent: limit.memory* -->"), "");
    assert!(page("not there <!-- absent: off -->").contains("takes `off`"), "a value");
    assert!(page("not there <!-- absent: cache -->").contains("in `cache`"), "a table");
    assert!(page("not there <!-- absent: adapters/python -->").contains("adapters/python is there"));
    assert_eq!(page("not there <!-- absent: adapters/cobol -->"), "");
    assert!(page("| `proxy_rate` | not there <!-- absent: geo --> |").contains("key of that name: `rate`"));
    assert!(page("not there <!-- absent: * -->").contains("is no word"));
    assert!(page("not there <!-- absent: a release -->").contains("is no word"));
    assert_eq!(page("not there <!-- absent: - (a release) -->"), "");
    assert_eq!(page("404 for a file that is not there, if there is no other\n\n```\nnot there\n```\n"), "");
    assert_eq!(page("the answer `not there`; not possible <!-- no claim -->"), "");
    assert!(page("all is there <!-- no claim -->").contains("no phrase"));
    let row = "| feature | why |\n|---|---|\n| Geo | no use |\n";
    assert!(wrong("docs/scope.md", row).starts_with("docs/scope.md:3: \"a row\" without"));
    assert_eq!(page(row), "");
}
