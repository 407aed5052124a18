//! What the documents show has to exist, and the walk that they describe has to work.

#![allow(clippy::unwrap_used, reason = "the helpers of a test may panic as the test may")]

mod support;

use std::path::Path;

use support::*;

fn document(name: &str) -> String {
    std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(name)).unwrap()
}

fn help(command: &str) -> String {
    String::from_utf8(program(&[command, "--help"]).stdout).unwrap()
}

#[test]
fn commands_and_flags_in_the_documents_exist() {
    let mut seen = 0;
    for name in [
        "docs/load.md",
        "docs/compare.md",
        "docs/features.md",
        "examples/specweb/README.md",
        "examples/specweb/maitred.toml",
    ] {
        let text = document(name).replace('`', "\n");
        let lines = text.lines().filter_map(|line| line.split_once("maitred-load "));
        for (_, rest) in lines {
            let mut words = rest.trim_start_matches("-- ").split_whitespace();
            let Some(command @ ("replay" | "repeat" | "make-tree" | "specweb" | "compare")) = words.next()
            else {
                continue;
            };
            let help = help(command);
            for flag in words.filter(|word| word.starts_with("--")) {
                assert!(help.contains(flag), "{name}: {command} has no {flag}");
                seen += 1;
            }
        }
    }
    assert!(seen >= 16, "only {seen} flags found: has the form of the documents changed?");
}

/// The curve in the document, and every flag that the text names by itself.
#[test]
fn the_reference_is_right() {
    let text = document("docs/load.md");
    let all: String = ["replay", "repeat", "make-tree", "specweb"].map(help).concat();
    for flag in text.split('`').filter(|word| word.starts_with("--")) {
        let flag = flag.split(' ').next().unwrap();
        assert!(all.contains(flag), "no {flag}");
    }
    let compare = help("compare");
    for flag in document("docs/compare.md").split('`').filter(|word| word.starts_with("--")) {
        let flag = flag.split(' ').next().unwrap();
        assert!(compare.contains(flag), "no {flag}");
    }
    let curve = text.split("```").find(|block| block.contains("# a rate curve")).unwrap();
    let curve = maitred_load::replay::Curve::parse(curve.trim_start_matches('\n')).unwrap();
    assert_eq!(curve.end(), 660_000_000_000);
}
