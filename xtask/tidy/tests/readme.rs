//! README.md: what a reader sees first is short, and true.

#![allow(clippy::expect_used, reason = "helpers of tests, which clippy.toml does not know to be such")]

use maitred_tidy::root;

/// So long is what is read to the end.
const LINES_MAX: usize = 120;
/// What CI and newcomers run, word for word.
const COMMANDS: [&str; 2] = ["cargo run --release -- run -c examples/site/maitred.toml", "cargo xtask test"];

fn read(path: &str) -> String {
    std::fs::read_to_string(root().join(path)).expect("a file of the repository")
}

#[test]
fn the_readme_is_short_and_has_its_two_commands() {
    let text = read("README.md");
    assert!(text.lines().count() <= LINES_MAX, "README.md has {} lines", text.lines().count());
    for command in COMMANDS {
        assert_eq!(text.matches(&format!("\n```\n{command}\n```\n")).count(), 1, "{command}");
    }
}

/// Whether a name fits a pattern of the shell with `*`, or with `VERSION` and `…`, which stand for anything as well.
fn fits(pattern: &str, name: &str) -> bool {
    let mut rest = name;
    for (number, part) in pattern.replace("VERSION", "*").replace('…', "*").split('*').enumerate() {
        match rest.find(part) {
            Some(at) if number > 0 || at == 0 => rest = rest.get(at + part.len()..).unwrap_or_default(),
            _ => return false,
        }
    }
    rest.is_empty() || pattern.ends_with('*')
}

#[test]
fn the_packages_that_the_readme_installs_are_made() {
    let page = read("docs/packages.md");
    let names: Vec<String> = page
        .lines()
        .filter(|line| line.starts_with("| `maitred"))
        .filter_map(|line| line.split('|').nth(1))
        .flat_map(|cell| cell.split('`').skip(1).step_by(2))
        .map(|name| name.replace("VERSION", "0.1.0").replace('…', "x"))
        .collect();
    let text = read("README.md");
    let patterns = text.split("target/dist/").skip(1).filter_map(|rest| rest.split('`').next());
    let patterns: Vec<&str> = patterns.collect();
    assert!(names.len() > 6 && patterns.len() > 4, "{names:?} {patterns:?}: has their form changed?");
    for pattern in patterns {
        assert!(names.iter().any(|name| fits(pattern, name)), "no package is called {pattern}: {names:?}");
    }
    assert!(fits("a-*.deb", "a-1.deb") && !fits("a-*.deb", "b-1.deb") && !fits("a-*.deb", "a-1.debug"));
}

/// A figure of the summary: row and column of a table in docs/performance.md, divided by that of another column, or by a number.
type Figure = (&'static str, &'static str, Per);

enum Per {
    Column(&'static str),
    Number(f64),
}

const ONE: Per = Per::Number(1.0);

/// Rows of the summary, by how they begin, with the figures of their second and third cell.
const FIGURES: [(&str, &[Figure], &[Figure]); 15] = [
    ("1 KB file", &[("hot-1k", "maitred", ONE)], &[("hot-1k", "nginx", ONE)]),
    ("1,000 different", &[("files-1000", "maitred", ONE)], &[("files-1000", "nginx", ONE)]),
    ("16 pipelined", &[("pipelined-16", "maitred", ONE)], &[("pipelined-16", "nginx", ONE)]),
    ("a new connection", &[("new-connection", "maitred", Per::Column("nginx"))], &[]),
    ("100 KB file", &[("file-100k", "maitred", Per::Column("nginx"))], &[]),
    ("10 MB file", &[("file-10m", "maitred", Per::Column("nginx"))], &[]),
    (
        "TLS 1.3",
        &[("tls-1k", "maitred", Per::Column("nginx")), ("tls-handshake", "maitred", Per::Column("nginx"))],
        &[],
    ),
    ("HTTP/2", &[("h2-1k", "maitred", Per::Column("nginx")), ("h2-1k", "maitred", Per::Column("h2o"))], &[]),
    (
        "1 KB dynamic response via",
        &[("1 KB", "auto", Per::Column("nginx")), ("1 KB", "direct", Per::Column("nginx"))],
        &[],
    ),
    ("1 KB dynamic response as", &[("1 KB", "http", Per::Column("nginx"))], &[]),
    (
        "idle keep-alive",
        &[("idle-memory", "maitred", ONE), ("tls-idle-memory", "maitred", ONE)],
        &[("idle-memory", "nginx", ONE), ("tls-idle-memory", "nginx", ONE)],
    ),
    ("p99 of a hot", &[("cold-disk", "maitred", ONE)], &[("cold-disk", "nginx", Per::Number(1000.0))]),
    ("failed requests", &[("reload", "maitred", ONE)], &[("reload", "nginx", ONE)]),
    ("recovery after", &[("kill", "maitred", ONE)], &[("kill", "nginx", ONE)]),
    ("start to first", &[("start", "maitred", ONE)], &[("start", "nginx", ONE)]),
];

/// What rounding twice may make of a figure.
const ROUNDING: f64 = 0.02;

fn cells(line: &str) -> Vec<&str> {
    line.trim_matches('|').split('|').map(str::trim).collect()
}

/// The cell of the first row of this name, in any table; a unit may follow the name.
fn cell(document: &str, row: &str, column: &str) -> Option<f64> {
    let mut columns = Vec::new();
    for line in document.lines().filter(|line| line.starts_with('|')) {
        let found = cells(line);
        if matches!(found.first(), Some(&"" | &"response")) {
            columns = found;
        } else if found.first()?.split(',').next() == Some(row) {
            let at = columns.iter().position(|known| *known == column)?;
            return found.get(at)?.split(',').next()?.parse().ok();
        }
    }
    None
}

/// The rows of the table that compares with nginx.
fn table_of(text: &str) -> Vec<Vec<&str>> {
    let table = text.lines().skip_while(|line| !line.starts_with("| | Maitred | nginx"));
    table.take_while(|line| line.starts_with('|')).skip(2).map(cells).collect()
}

#[test]
fn the_summary_has_the_figures_of_the_last_runs() {
    let page = read("docs/performance.md");
    let rows = table_of(&page);
    assert_eq!(rows.len(), FIGURES.len(), "each row has its figures here");
    for (begin, ours, theirs) in FIGURES {
        let row = rows.iter().find(|row| row[0].starts_with(begin)).unwrap_or_else(|| panic!("{begin}"));
        for (figures, text) in [(ours, row[1]), (theirs, row[2])] {
            let numbers = text
                .split_whitespace()
                .filter_map(|word| word.trim_end_matches([';', ',']).replace(',', "").parse::<f64>().ok());
            let shown: Vec<f64> = numbers.collect();
            for (at, (name, column, per)) in figures.iter().enumerate() {
                let of = match *per {
                    Per::Column(other) => cell(&page, name, other).unwrap(),
                    Per::Number(number) => number,
                };
                let measured = cell(&page, name, column).unwrap() / of;
                let close = (shown[at] - measured).abs() <= ROUNDING * measured.max(0.01);
                assert!(close, "{begin}: {} is said, and {measured:.3} was measured", shown[at]);
            }
        }
    }
}

#[test]
fn the_readme_has_three_rows_of_the_summary_each_with_its_picture() {
    let (readme, page) = (read("README.md"), read("docs/performance.md"));
    let (shown, known) = (table_of(&readme), table_of(&page));
    assert_eq!(shown.len(), 3);
    for row in shown {
        assert!(known.contains(&row), "docs/performance.md has no row {row:?}");
    }
    let pictures = readme.split("](").skip(1).filter_map(|rest| rest.split(')').next());
    let pictures: Vec<&str> =
        pictures.filter(|place| place.starts_with("bench/") && place.ends_with(".svg")).collect();
    assert_eq!(pictures.len(), 3);
    for picture in pictures {
        assert!(
            page.contains(&format!("](../{picture})")),
            "docs/performance.md shows another run than {picture}"
        );
    }
}
