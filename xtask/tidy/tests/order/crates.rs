//! The order of the crates: Cargo refuses circles, and this which of the other directions are right.

use std::collections::BTreeSet;

use maitred_tidy::{report, root};

use crate::packages;

/// The crates of the server, from above, without `maitred-`, with what is to be said of a line. A crate depends on crates below
/// its line, and on none of its own.
pub(crate) const LINES: &[(&[&str], &str)] = &[
    (&["maitred"], ""),
    (&["master", "worker"], "the two processes; they know each other by `control` only"),
    (&["import"], "the table of media types is that of `files`"),
    (&["agents", "files", "status"], ""),
    (&["cache", "control", "log", "policy", "tls"], ""),
    (&["config"], "parsed once, read by all above"),
    (&["base", "handoff"], ""),
    (&["http", "sys"], ""),
];

/// Crates beside the server, which no crate of the server depends on but for its tests, and what they depend on.
pub(crate) const BESIDE: &[(&str, &[&str])] = &[
    ("load", &["http", "import", "sys"]),
    ("module", &["sys"]),
    ("sim", &["base"]),
    ("testing", &["base", "config", "handoff"]),
    ("udp", &[]),
];

fn short(package: &str) -> &str {
    package.strip_prefix("maitred-").unwrap_or(package)
}

/// The crates of this repository that a manifest names as dependencies, those of tests left out.
fn dependencies(manifest: &str) -> BTreeSet<&str> {
    let mut counts = false;
    let mut found = BTreeSet::new();
    for line in manifest.lines() {
        if let Some(section) = line.strip_prefix('[') {
            counts = section.contains("dependencies") && !section.contains("dev-dependencies");
        }
        let name = line.split(['.', '=', ' ']).next().unwrap_or_default();
        if counts && (name == "maitred" || name.starts_with("maitred-")) {
            found.insert(short(name));
        }
    }
    found
}

fn level(name: &str) -> Option<usize> {
    LINES.iter().rev().position(|(line, _)| line.contains(&name))
}

fn may(from: &str, to: &str) -> bool {
    match BESIDE.iter().find(|(name, _)| *name == from) {
        Some((_, allowed)) => allowed.contains(&to),
        None => level(to).is_some() && level(to) < level(from),
    }
}

#[test]
fn crates_depend_on_crates_below_their_line() {
    let mut listed: Vec<&str> = LINES.iter().flat_map(|(line, _)| *line).copied().collect();
    listed.extend(BESIDE.iter().map(|(name, _)| name));
    listed.sort_unstable();
    let packages = packages();
    let mut there: Vec<&str> = packages.iter().map(|package| short(package)).collect();
    there.sort_unstable();
    assert_eq!(listed, there, "each crate has its place in LINES or BESIDE");
    let (mut found, mut seen) = (Vec::new(), 0);
    for package in &packages {
        let path = root().join("crates").join(package).join("Cargo.toml");
        let manifest = std::fs::read_to_string(path).expect("a crate has a manifest");
        let from = short(package);
        for to in dependencies(&manifest) {
            seen += 1;
            if !may(from, to) {
                found.push(format!("{package} depends on {to}"));
            }
        }
    }
    assert!(seen > 60, "{seen} dependencies: are they all read?");
    report("dependencies go down (LINES)", &found);
}

#[test]
fn a_dependency_that_goes_up_is_found() {
    let manifest = "[package]\nname = \"maitred-x\"\n[dependencies]\nmaitred-worker.workspace = true\nbytes = \"1\"
        \n[dev-dependencies]\nmaitred-testing.workspace = true\n[target.'cfg(unix)'.dependencies]\nmaitred = { path = \"x\" }\n";
    assert_eq!(Vec::from_iter(dependencies(manifest)), ["maitred", "worker"]);
    assert!(may("worker", "files") && may("maitred", "http") && may("load", "http"));
    assert!(
        !may("master", "worker") && !may("worker", "master") && !may("log", "worker") && !may("cache", "log")
    );
    assert!(!may("worker", "sim") && !may("load", "base"));
}
