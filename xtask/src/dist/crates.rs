//! What `cargo package` would publish: the licences' texts are in it, and nothing large.

use std::path::Path;
use std::process::Command;

use crate::Result;
use crate::dist::LICENSES;
use crate::generate::root;

/// The crates that may be published, each after those that it needs.
pub(crate) const PUBLISHED: [&str; 5] =
    ["maitred-sys", "maitred-http", "maitred-handoff", "maitred", "maitred-load"];
/// The largest file of a crate may have so many bytes.
const FILE_BYTES_MAX: u64 = 512 * 1024;
/// Files that only tests need.
const LEFT_OUT: [&str; 2] = ["tests/", "proptest-regressions/"];

/// Checks what would be in each of them.
///
/// # Errors
/// All that is wrong with the crates, or what Cargo says.
pub(crate) fn check() -> Result<()> {
    let mut wrong = Vec::new();
    for name in PUBLISHED {
        let files = files(name)?;
        wrong.extend(complaints(name, &files, |file| size(&root().join("crates").join(name).join(file))));
    }
    if wrong.is_empty() { Ok(()) } else { Err(wrong.join("; ").into()) }
}

fn files(name: &str) -> Result<Vec<String>> {
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.args(["package", "--list", "--allow-dirty", "--offline", "--package", name]).current_dir(root());
    let output = cargo.output()?;
    if !output.status.success() {
        return Err(format!("cargo package of {name}: {}", String::from_utf8_lossy(&output.stderr)).into());
    }
    Ok(String::from_utf8(output.stdout)?.lines().map(str::to_owned).collect())
}

/// What Cargo makes itself (`Cargo.toml.orig`) has no size here.
fn size(path: &Path) -> u64 {
    std::fs::metadata(path).map_or(0, |data| data.len())
}

fn complaints(name: &str, files: &[String], size: impl Fn(&str) -> u64) -> Vec<String> {
    let mut wrong = Vec::new();
    for wanted in LICENSES.into_iter().chain(["README.md"]) {
        if !files.iter().any(|file| file == wanted) {
            wrong.push(format!("the crate {name} has no {wanted}"));
        }
    }
    for file in files {
        if size(file) > FILE_BYTES_MAX {
            wrong.push(format!(
                "the crate {name}: {file} has {} bytes, {FILE_BYTES_MAX} are allowed",
                size(file)
            ));
        }
        if LEFT_OUT.iter().any(|start| file.starts_with(start)) {
            wrong.push(format!("the crate {name}: {file} is of tests only"));
        }
    }
    wrong
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn crates_have_what_they_need_and_nothing_large() {
        check().unwrap();
    }

    #[test]
    fn what_is_missing_or_large_is_named() {
        let files = ["LICENSE-MIT", "README.md", "big", "tests/a.rs"].map(str::to_owned);
        let said = complaints("x", &files, |file| if file == "big" { FILE_BYTES_MAX + 1 } else { 1 });
        assert_eq!(said.len(), 3, "{said:?}");
        assert!(
            said[0].contains("LICENSE-APACHE")
                && said[1].contains("big has")
                && said[2].contains("tests/a.rs")
        );
    }
}
