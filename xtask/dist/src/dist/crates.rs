//! What `cargo package` would publish: the licences' texts are in it, and nothing large.

use std::path::Path;
use std::process::Command;

use crate::Result;
use crate::dist::{LICENSES, VERSION};
use xtask::root;
use xtask::step::step;

/// The crates that may be published, each after those that it needs.
pub(crate) const PUBLISHED: [&str; 19] = [
    "maitred-sys",
    "maitred-http",
    "maitred-handoff",
    "maitred-module",
    "maitred-base",
    "maitred-config",
    "maitred-log",
    "maitred-control",
    "maitred-policy",
    "maitred-tls",
    "maitred-cache",
    "maitred-files",
    "maitred-status",
    "maitred-agents",
    "maitred-import",
    "maitred-master",
    "maitred-worker",
    "maitred",
    "maitred-load",
];
/// The largest file of a crate may have so many bytes.
const FILE_BYTES_MAX: u64 = 512 * 1024;
/// What keeps the crates from being published by accident.
const GUARD: &str = "publish = false";
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

/// Packages all of them together, as who publishes them does, in a copy of the sources in this directory: without the line that
/// keeps them from being published. Each is packed with the others before it, which no registry has. What is packed is not
/// built here: that takes minutes.
///
/// # Errors
/// What Git or Cargo says.
pub(crate) fn package(copy: &Path) -> Result<()> {
    let mut shell = Command::new("sh");
    // Files of the working tree that Git knows, or would know: a change that is not committed is packaged, too.
    let script = "git ls-files -z --cached --others --exclude-standard --deduplicate \
        | tar --create --null --files-from=- --ignore-failed-read | tar --extract --directory \"$0\"";
    step("copy of the sources", shell.args(["-ec", script]).arg(copy).current_dir(root()))?;
    let manifest = copy.join("Cargo.toml");
    let text = std::fs::read_to_string(&manifest)?;
    if !text.contains(GUARD) {
        return Err(format!("Cargo.toml has no line `{GUARD}`").into());
    }
    std::fs::write(&manifest, text.replace(GUARD, "publish = true"))?;
    let mut cargo = xtask::step::cargo();
    cargo.args(["package", "--quiet", "--no-verify", "--allow-dirty", "--offline"]);
    PUBLISHED.iter().for_each(|name| _ = cargo.args(["--package", name]));
    let target = copy.join("target");
    step("crates, packaged", cargo.arg("--target-dir").arg(&target).current_dir(copy))?;
    let missing =
        PUBLISHED.iter().find(|name| !target.join(format!("package/{name}-{VERSION}.crate")).is_file());
    missing.map_or(Ok(()), |name| Err(format!("the crate {name} was not packaged").into()))
}

fn files(name: &str) -> Result<Vec<String>> {
    let mut cargo = xtask::step::cargo();
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
