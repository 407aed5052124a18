//! The order of the modules within a crate, over their real imports.

use maitred_tidy::report;

use crate::circles::{large, shown};
use crate::read;
use crate::source::{Crate, Edge};

/// The modules of a crate, from below. A module imports what stands below its line, and nothing of its own line but itself. A
/// crate that is not here has no lines; circles among its files are counted all the same.
const ORDERS: &[(&str, &[&[&str]])] = &[
    ("maitred", &[&["detect"], &["cli"]]),
    ("maitred-agents", &[&["agents"], &["acme", "checks", "key_agent", "names"]]),
    (
        "maitred-base",
        &[
            &[
                "backoff",
                "bounds",
                "budget",
                "clock",
                "jwt",
                "overload",
                "passwords",
                "pki",
                "rates",
                "residency",
                "sandbox",
                "trusted",
                "unix_time",
                "upgrade",
            ],
            &["passed", "pool"],
        ],
    ),
    ("maitred-control", &[&["affinity", "challenges", "servers"], &["modules"]]),
    ("maitred-files", &[&["exchange"], &["fixed"], &["files", "kept"], &["disk"]]),
    (
        "maitred-import",
        &[
            &["files", "machine", "variables"],
            &["report"],
            &["model", "page"],
            &["drafts", "guard"],
            &["shared", "write"],
            &["apache", "caddy", "nginx", "unit"],
            &["fuzzing"],
        ],
    ),
    ("maitred-log", &[&["access", "console", "recent"], &["error", "writer"], &["thread_logs", "trace"]]),
    (
        "maitred-policy",
        &[&["arrival", "target"], &["rewrite"], &["access", "compress", "filter"], &["plan"], &["route"]],
    ),
    (
        "maitred-tls",
        &[
            &[
                "client",
                "early",
                "key_log",
                "ktls",
                "on_demand",
                "quic",
                "redirect",
                "self_signed",
                "tickets",
                "upstream",
                "watch",
            ],
            &["material"],
            &["resolver"],
            &["server"],
        ],
    ),
];

/// Modules that import nothing of the rest of their crate but what is named: `handoff` speaks of connections by their handles.
const APART: &[(&str, &str, &[&str])] =
    &[("maitred-worker", "handoff", &["keys"]), ("maitred-worker", "proxy", &[])];

/// The module at the top that a file belongs to; empty for `lib.rs`.
fn top(file: &str) -> &str {
    let first = file.split('/').next().unwrap_or_default();
    match first.strip_suffix(".rs") {
        Some("lib") => "",
        Some(name) => name,
        None => first,
    }
}

/// Imports that go up, or to the side.
fn arrows_up(order: &[&[&str]], edges: &[Edge]) -> Vec<String> {
    let level = |module: &str| order.iter().position(|line| line.contains(&module));
    let goes_up = |edge: &&Edge| {
        let (from, to) = (top(&edge.from), top(&edge.to));
        !from.is_empty() && from != to && level(to) >= level(from)
    };
    edges.iter().filter(goes_up).map(|edge| format!("{edge}, is not below {}", top(&edge.from))).collect()
}

#[test]
fn modules_import_what_is_below_them() {
    let mut found = Vec::new();
    for (package, order) in ORDERS {
        let of = read(package);
        let mut listed = order.concat();
        listed.sort_unstable();
        assert_eq!(listed, of.top(), "each module of {package} has its place in ORDERS");
        found.extend(arrows_up(order, &of.edges()).iter().map(|arrow| format!("{package}: {arrow}")));
    }
    report("imports go down (ORDERS)", &found);
}

#[test]
fn modules_that_stand_apart_import_nothing_of_their_crate() {
    let (mut found, mut seen) = (Vec::new(), 0);
    for (package, module, but) in APART {
        let edges = read(package).edges();
        let from = edges.iter().filter(|edge| top(&edge.from) == *module);
        seen += from.clone().count();
        let outside = from.filter(|edge| top(&edge.to) != *module && !but.contains(&top(&edge.to)));
        found.extend(outside.map(|edge| format!("{package}: {edge}")));
    }
    assert!(seen > 20, "{seen} imports: are they all read?");
    report("imports of modules that stand apart", &found);
}

/// A crate of three modules, with this text in `low.rs`.
fn fixture(low: &str) -> Vec<Edge> {
    let files = [
        ("lib.rs", "pub mod low; pub mod middle; pub mod high;"),
        ("low.rs", low),
        ("middle.rs", "use crate::low::Low; pub fn of(_: Low) {}"),
        ("high/mod.rs", "mod part; pub use part::*; pub struct High;"),
        (
            "high/part.rs",
            "use crate::{low::{self, Low as L}, middle}; pub enum Part { A } fn f(l: L) { middle::of(l) }",
        ),
    ];
    let text = |file: &str| Some(files.iter().find(|(name, _)| *name == file)?.1.to_owned());
    Crate::of(&text).expect("it can be read").edges()
}

#[test]
fn an_import_that_goes_up_is_found_however_it_is_written() {
    const ORDER: &[&[&str]] = &[&["low"], &["middle"], &["high"]];
    let harmless = "// use crate::high::High;\n/// [`crate::high::High`]\npub struct Low; const T: &str = \"crate::high::High\";
        #[cfg(test)] mod tests { use crate::high::High; } #[cfg(test)] use crate::high::High;";
    let edges = fixture(harmless);
    assert_eq!(arrows_up(ORDER, &edges), Vec::<String>::new());
    assert_eq!(large(&edges), Vec::<Vec<String>>::new());
    for (line, name, file) in [
        ("use crate::high::High;", "crate::high::High", "high/mod.rs"),
        ("use super::{high::{self, Part}};", "super::high::Part", "high/part.rs"),
        ("use super::high; fn f(_: high::Part) {}", "high::Part", "high/part.rs"),
        ("fn f() { let _ = vec![crate::high::Part::A]; }", "crate::high::Part::A", "high/part.rs"),
        ("use super::high::*;", "super::high::*", "high/mod.rs"),
        ("pub(crate) use crate::high::High as Tall;", "crate::high::High", "high/mod.rs"),
        (
            "mod inner { fn f() { use super::super::high::Part::{self}; } }",
            "super::super::high::Part",
            "high/part.rs",
        ),
    ] {
        let edges = fixture(&format!("{harmless}\n{line}\n"));
        let up = arrows_up(ORDER, &edges);
        assert_eq!(up, [format!("low.rs:5: {name}, of {file}, is not below low")], "{line}");
        // `high/mod.rs` itself imports nothing.
        let circles = large(&edges);
        assert_eq!(circles.len(), usize::from(file == "high/part.rs"), "{line}: {circles:?}");
        for circle in circles {
            assert!(shown(&circle, &edges).starts_with("3 files need one another:\n    high/part.rs:1: "));
        }
    }
}
