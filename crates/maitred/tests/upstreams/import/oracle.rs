//! The reader of nginx's configurations beside another one: crossplane, over each sample, and over samples that were damaged.

use std::path::{Path, PathBuf};
use std::process::Command;

use proptest::prelude::*;
use proptest::strategy::ValueTree as _;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
use serde_json::Value;

use crate::support::skip_missing;

/// Damaged texts of each sample.
const DAMAGED: usize = 12;

/// The Python that `cargo xtask test` has made, or the usual one, if it has crossplane.
fn python() -> Option<PathBuf> {
    let target = Path::new(env!("CARGO_BIN_EXE_maitred")).ancestors().nth(2).unwrap().to_owned();
    let all = [target.join("python/bin/python3"), PathBuf::from("python3")];
    all.into_iter().find(|python| {
        let imports = Command::new(python).args(["-c", "import crossplane"]).output();
        imports.is_ok_and(|output| output.status.success())
    })
}

fn samples() -> Vec<(String, String)> {
    let samples = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/upstreams/import/nginx");
    let files =
        std::fs::read_dir(samples).unwrap().map(|entry| entry.unwrap().path()).filter(|path| path.is_file());
    let mut found: Vec<(String, String)> = files
        .map(|path| {
            (path.file_name().unwrap().to_str().unwrap().to_owned(), std::fs::read_to_string(path).unwrap())
        })
        .collect();
    found.sort();
    found
}

/// A text with a part of it doubled, left out, or replaced by a sign that means something.
fn damaged() -> impl Strategy<Value = (f64, usize, Option<&'static str>)> {
    let signs = prop::sample::select(vec![" ", ";", "{", "}", "\"", "'", "\\", "#", "\n", "${", "x"]);
    (0.0..1.0, 0_usize..4, proptest::option::of(signs))
}

fn damage(text: &str, (at, length, sign): (f64, usize, Option<&str>)) -> String {
    let at = text.floor_char_boundary((text.len() as f64 * at) as usize);
    let end = text.floor_char_boundary((at + length).min(text.len()));
    format!("{}{}{}", &text[..at], sign.unwrap_or_default(), &text[end.max(at)..])
}

/// crossplane has no brackets around a condition.
fn bare(mut tree: Value) -> Value {
    for directive in tree.as_array_mut().unwrap() {
        if directive[0] == "if" {
            let args: Vec<&str> =
                directive[1].as_array().unwrap().iter().map(|arg| arg.as_str().unwrap()).collect();
            let text = args.join(" ");
            let inner =
                text.trim().strip_prefix('(').and_then(|text| text.strip_suffix(')')).unwrap_or(&text);
            directive[1] = inner.trim().into();
        }
        if directive[3].is_array() {
            let inside = std::mem::take(&mut directive[3]);
            directive[3] = bare(inside);
        }
    }
    tree
}

#[test]
fn nginx_is_read_as_crossplane_reads_it() {
    let Some(python) = python() else {
        return skip_missing("no crossplane (pip; `cargo xtask test` has it)");
    };
    let directory = tempfile::tempdir().unwrap();
    let seeded = TestRng::from_seed(RngAlgorithm::ChaCha, &[7; 32]);
    let mut runner = TestRunner::new_with_rng(Config::default(), seeded);
    let mut texts: Vec<(String, String)> = samples();
    for (name, text) in texts.clone() {
        for number in 0..DAMAGED {
            let how = damaged().new_tree(&mut runner).unwrap().current();
            texts.push((format!("{name}.{number}"), damage(&text, how)));
        }
    }
    for (name, text) in &texts {
        std::fs::write(directory.path().join(name), text).unwrap();
    }
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/upstreams/import/oracle.py");
    let output = Command::new(python).arg(script).arg(directory.path()).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let theirs: Value = serde_json::from_slice(&output.stdout).unwrap();
    let (mut compared, mut wrong) = (0, Vec::new());
    for (name, text) in &texts {
        let found = &theirs[name];
        if found == "other" {
            continue;
        }
        let ours = maitred_import::nginx_directives(text);
        compared += 1;
        let same = match (&ours, found) {
            (Ok(ours), Value::Array(_)) => bare(ours.clone()) == bare(found.clone()),
            (Err(_), Value::Null) => true,
            // As in nginx, a quote has an end, and a directive its `;`, which crossplane does without.
            (Err(_), _) => name.ends_with(char::is_numeric),
            _ => false,
        };
        if !same {
            wrong.push(format!("{name}:\n{text}\n  here {ours:?}\n  there {found}\n"));
        }
    }
    assert!(compared > texts.len() * 3 / 4, "only {compared} of {} could be compared", texts.len());
    assert!(wrong.is_empty(), "{} of {compared}:\n{}", wrong.len(), wrong.join("\n"));
}
