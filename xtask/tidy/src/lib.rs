//! Tests over the sources and documents of the repository. The package depends on nothing of the server, so that they run within
//! seconds.
//!
//! | test | rules |
//! |---|---|
//! | `style` | the house rules that a program can check |
//! | `readme` | README.md is short, and what it says is what was measured and is made |
//! | `words` | plain technical English |
//! | `absent` | what documents say that Maitred does not have, against its keys |
//! | `order` | which crate, module and file may depend on which, and circles among files |

#![allow(clippy::expect_used, reason = "helpers of tests, which clippy.toml does not know to be such")]

use std::path::{Path, PathBuf};
use std::process::Command;

/// The root of the repository.
///
/// # Panics
///
/// If it is not there.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().expect("the workspace is there")
}

/// Files with one of these endings that git knows or would add, with their text.
///
/// # Panics
///
/// If git does not run, or lists none.
pub fn files(endings: &[&str]) -> Vec<(String, String)> {
    let listing = Command::new("git")
        .args(["ls-files", "--cached", "--others", "--exclude-standard"])
        .current_dir(root())
        .output()
        .expect("git lists the files");
    let names = String::from_utf8(listing.stdout).expect("file names are UTF-8");
    let wanted = names.lines().filter(|name| endings.iter().any(|ending| name.ends_with(ending)));
    let files: Vec<_> = wanted
        .filter_map(|name| Some((name.to_owned(), std::fs::read_to_string(root().join(name)).ok()?)))
        .collect();
    assert!(!files.is_empty(), "no files found: is this a git checkout?");
    files
}

/// Fails if something was found, and shows each on a line.
///
/// # Panics
///
/// If something was found.
pub fn report(what: &str, found: &[String]) {
    assert!(found.is_empty(), "{what}:\n  {}", found.join("\n  "));
}
