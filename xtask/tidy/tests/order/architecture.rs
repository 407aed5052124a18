//! `ARCHITECTURE.md`: its length, the names of code in it, and its block about the crates, which is made from their heads.

use std::fmt::Write as _;
use std::path::PathBuf;

use maitred_tidy::{files, report, root};

use crate::crates::{BESIDE, LINES};

/// Bytes of the page: it is a map, and details stand in the heads of files.
const BYTES_MAX: usize = 20_000;
/// What the block of the crates stands between.
const MARKS: (&str, &str) = ("<!-- crates -->\n", "<!-- end -->\n");
/// With this in the environment, the block is written.
const WRITE: &str = "MAITRED_WRITE_DOCS";

fn path() -> PathBuf {
    root().join("ARCHITECTURE.md")
}

fn page() -> String {
    std::fs::read_to_string(path()).expect("there is ARCHITECTURE.md")
}

/// The first sentence of the head of a file, without links.
fn first_sentence(text: &str) -> String {
    let head = text.lines().map_while(|line| line.strip_prefix("//!")).map(str::trim);
    let paragraph: Vec<&str> = head.take_while(|line| !line.is_empty()).collect();
    let paragraph = paragraph.join(" ").replace("[`", "`").replace("`]", "`");
    paragraph.split(". ").next().unwrap_or_default().trim_end_matches('.').to_owned()
}

/// How many files are in each circle of calls of a crate.
fn circles(baseline: &str, package: &str) -> String {
    let row = baseline
        .lines()
        .find_map(|line| line.strip_prefix("calls ")?.strip_prefix(package)?.strip_prefix(' '));
    row.unwrap_or_default().replace(' ', ", ")
}

/// The figure of the crates, the top line first, and the table of what they are.
fn block() -> String {
    let read = |path: &str| std::fs::read_to_string(root().join(path)).expect("a file of the repository");
    let baseline = read("xtask/tidy/tests/order/circles.txt");
    let mut block = "```\n".to_owned();
    for (names, why) in LINES {
        let line = format!("{}  {why}", names.join(" "));
        writeln!(block, "{}", line.trim_end()).expect("a String");
    }
    let beside: Vec<&str> = BESIDE.iter().map(|(name, _)| *name).collect();
    writeln!(block, "\nbeside the server: {}\n```\n", beside.join(" ")).expect("a String");
    let names = LINES.iter().flat_map(|(names, _)| names.iter()).chain(&beside);
    writeln!(block, "| crate | what is there | files in circles of calls |\n|---|---|---|")
        .expect("a String");
    for name in names {
        let package = if *name == "maitred" { (*name).to_owned() } else { format!("maitred-{name}") };
        let said = first_sentence(&read(&format!("crates/{package}/src/lib.rs")));
        writeln!(block, "| `{name}` | {said} | {} |", circles(&baseline, &package)).expect("a String");
    }
    block
}

#[test]
fn the_architecture_shows_the_crates() {
    let (page, block) = (page(), block());
    let (before, rest) = page.split_once(MARKS.0).expect("the first mark");
    let (present, after) = rest.split_once(MARKS.1).expect("the second mark");
    if std::env::var_os(WRITE).is_some() {
        let new = [before, MARKS.0, &block, MARKS.1, after].concat();
        if new != page {
            std::fs::write(path(), new).expect("the page can be written");
        }
        return;
    }
    assert_eq!(present, block, "ARCHITECTURE.md is stale: run `cargo xtask generate`");
}

#[test]
fn the_architecture_is_a_map() {
    let bytes = page().len();
    assert!(bytes <= BYTES_MAX, "{bytes} bytes, {BYTES_MAX} are allowed: details go into the heads of files");
}

/// Files below a directory of sources, with their text.
struct Sources(Vec<(String, String)>);

/// Whether a line declares something of this name: an item, a variant or a field.
fn declares(line: &str, name: &str) -> bool {
    let mut line = line.trim_start();
    if let Some(rest) = line.strip_prefix("pub") {
        let rest =
            rest.strip_prefix('(').map_or(rest, |rest| rest.split_once(')').map_or(rest, |(_, rest)| rest));
        line = rest.trim_start();
    }
    const ITEMS: [&str; 12] = [
        "async ",
        "const ",
        "unsafe ",
        "fn ",
        "struct ",
        "enum ",
        "static ",
        "type ",
        "trait ",
        "mod ",
        "union ",
        "macro_rules! ",
    ];
    let is_item = ITEMS.iter().any(|word| line.starts_with(word));
    while let Some(rest) = ITEMS.iter().find_map(|word| line.strip_prefix(word)) {
        line = rest;
    }
    let Some(rest) = line.strip_prefix(name) else { return false };
    match rest.chars().next() {
        None => false,
        Some(next) if is_item => !next.is_alphanumeric() && next != '_',
        Some(next) => matches!(next, ',' | '(' | ':') || rest.starts_with(" {"),
    }
}

impl Sources {
    fn has(&self, below: &str, name: &str) -> bool {
        let within = |file: &str| file.strip_prefix(below).is_some_and(|rest| rest.starts_with(['/', '.']));
        let says = |text: &str| text.contains(name) && text.lines().any(|line| declares(line, name));
        self.0.iter().any(|(file, text)| within(file) && says(text))
    }

    /// Whether there is a module at this path.
    fn is_module(&self, path: &str) -> bool {
        let (flat, deep) = (format!("{path}.rs"), format!("{path}/mod.rs"));
        self.0.iter().any(|(file, _)| *file == flat || *file == deep)
    }

    /// The first part of a path that leads nowhere. A path begins with a crate, a module of the worker, or a type.
    fn missing<'n>(&self, name: &'n str) -> Option<&'n str> {
        let mut segments = name.split("::").peekable();
        let first = segments.peek().copied()?;
        let of = |name: &str| format!("crates/maitred-{name}/src");
        let mut at = match first {
            "maitred" => "crates/maitred/src".to_owned(),
            _ if self.is_module(&format!("{}/lib", of(first))) => of(first),
            _ if first.starts_with(char::is_uppercase) => "crates".to_owned(),
            _ => of("worker"),
        };
        if at == "crates/maitred/src" || at == of(first) {
            segments.next();
        }
        while let Some(below) = segments.next_if(|segment| self.is_module(&format!("{at}/{segment}"))) {
            at = format!("{at}/{below}");
        }
        segments.find(|segment| !self.has(&at, segment))
    }
}

/// Paths in backticks, without arguments and without what stands between lines of backticks.
fn names(page: &str) -> Vec<&str> {
    let text = page.split("```").step_by(2);
    let quoted = text.flat_map(|part| part.split('`').skip(1).step_by(2));
    let name = |quoted: &'_ str| quoted.split('(').next().unwrap_or_default().len();
    quoted.map(|quoted| &quoted[..name(quoted)]).filter(|name| name.contains("::")).collect()
}

#[test]
fn code_that_the_architecture_names_is_there() {
    let sources = Sources(files(&[".rs"]).into_iter().filter(|(name, _)| name.contains("/src/")).collect());
    let page = page();
    let names = names(&page);
    assert!(names.len() > 80, "{} names: are they all read?", names.len());
    // The example of how paths are written has a whole name.
    let names = names.into_iter().filter(|name| !name.starts_with("maitred_"));
    let found: Vec<String> =
        names.filter_map(|name| Some(format!("{name}: {}", sources.missing(name)?))).collect();
    report("names in ARCHITECTURE.md", &found);

    assert_eq!(sources.missing("worker::forward::identity"), Some("identity"));
    assert_eq!(sources.missing("exchanges::pomp"), Some("pomp"));
    assert_eq!(sources.missing("Exchanges::close_cleanly"), None);
    assert_eq!(sources.missing("Step::Flosh"), Some("Flosh"));
}

/// The functions in the figure of a request's path: words with `_`.
fn steps(page: &str) -> Vec<&str> {
    let figure = page.split("```").find(|block| block.contains("on_listener")).unwrap_or_default();
    let words = figure.split(|sign: char| !sign.is_ascii_alphanumeric() && sign != '_');
    words.filter(|word| word.contains('_')).collect()
}

#[test]
fn the_steps_of_a_request_are_functions_of_the_worker() {
    let sources = Sources(files(&[".rs"]).into_iter().filter(|(name, _)| name.contains("/src/")).collect());
    let page = page();
    let steps = steps(&page);
    assert!(steps.len() > 15, "{steps:?}: are they all read?");
    let found: Vec<String> =
        steps.iter().filter_map(|step| sources.missing(step)).map(str::to_owned).collect();
    report("steps of a request in ARCHITECTURE.md", &found);
    assert_eq!(sources.missing("on_lissener"), Some("on_lissener"));
}

#[test]
fn a_head_gives_its_first_sentence() {
    let text = "//! TLS: from files ([`a::b`]) to\n//! sessions. More.\n//!\n//! Other.\nuse x;\n";
    assert_eq!(first_sentence(text), "TLS: from files (`a::b`) to sessions");
    assert_eq!(circles("imports a 9\ncalls a-b 4\ncalls a 5 3\n", "a"), "5, 3");
    assert_eq!(names("`a::b(x)` `c`\n```\n`d::e`\n```\n`f::g`"), ["a::b", "f::g"]);
}
