//! What applications need is installed and built below the target directory: nothing of it is in the repository's tree.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::super::Bench;
use super::super::arena;
use super::super::peers::installed;
use super::plan::Needs;
use crate::Result;

/// Where things are.
#[derive(Debug, Default)]
pub(super) struct Made {
    /// Where the application's commands run.
    pub(super) directory: PathBuf,
    /// The interpreter with the packages, and programs beside it.
    pub(super) python: Option<PathBuf>,
    /// What was compiled.
    pub(super) built: Option<PathBuf>,
}

/// Prepares what a file of `bench/apps` needs; nothing is done twice.
pub(super) fn prepare(bench: &Bench, needs: Needs) -> Result<Made> {
    let apps = bench.directory.join("apps");
    match needs {
        Needs::Nothing => Ok(Made { directory: bench.work.clone(), ..Made::default() }),
        Needs::Python => {
            let directory = apps.join("python");
            let requirements = directory.join("requirements.txt").display().to_string();
            let environment = bench.target.join("bench-python");
            let python = xtask::test_python::environment_of(&environment, &requirements)?;
            Ok(Made { directory, python: Some(python), built: None })
        }
        Needs::Node => {
            let directory = bench.target.join("bench-apps/node");
            node(bench, &apps.join("node"), &directory)?;
            Ok(Made { directory, ..Made::default() })
        }
        Needs::Go => {
            let directory = apps.join("go");
            let built = bench.target.join("bench-apps/go");
            fs::create_dir_all(&built)?;
            let mut command = Command::new("go");
            command.args(["build", "-o"]).arg(&built).arg("./...").current_dir(&directory);
            let log = bench.target.join("bench-apps/go.log");
            arena::logged("the applications in Go", &mut command, &log)?;
            Ok(Made { directory, python: None, built: Some(built) })
        }
    }
}

/// Copies the applications for Node.js, installs what their lock file names, and builds that of Next.
fn node(bench: &Bench, source: &Path, directory: &Path) -> Result<()> {
    let adapter = bench.repository().join("adapters/node");
    let wanted = format!("adapter: {}\n{}", adapter.display(), everything(source, source)?);
    let note = directory.join("made-of");
    if fs::read_to_string(&note).is_ok_and(|found| found == wanted) {
        return Ok(());
    }
    if directory.exists() {
        fs::remove_dir_all(directory)?;
    }
    arena::copy(source, directory)?;
    let log = |name: &str| bench.target.join("bench-apps").join(name);
    let mut install = Command::new("npm");
    install.args(["ci", "--no-audit", "--no-fund"]).current_dir(directory);
    arena::logged("the packages of npm", &mut install, &log("npm.log"))?;
    std::os::unix::fs::symlink(adapter, directory.join("node_modules/maitred"))?;
    let mut build = Command::new("npx");
    build.args(["--no-install", "next", "build"]).env("NEXT_TELEMETRY_DISABLED", "1");
    arena::logged("the page of Next", build.current_dir(directory.join("next")), &log("next.log"))?;
    // Last, so that what was interrupted is made anew.
    Ok(fs::write(note, wanted)?)
}

/// Names and contents of all files of the sources, one after another.
fn everything(root: &Path, directory: &Path) -> Result<String> {
    let mut paths: Vec<PathBuf> =
        fs::read_dir(directory)?.map(|entry| entry.map(|entry| entry.path())).collect::<Result<_, _>>()?;
    paths.sort_unstable();
    let mut text = String::new();
    for path in paths {
        if path.is_dir() {
            text += &everything(root, &path)?;
        } else {
            let name = path.strip_prefix(root)?.display();
            text += &format!("== {name}\n{}", fs::read_to_string(&path)?);
        }
    }
    Ok(text)
}

/// Caddy as `bench/arena/caddy` pins it, which is newer than a distribution's; that one if there is no compiler.
pub(super) fn caddy(bench: &Bench) -> Result<PathBuf> {
    arena::caddy(bench).or_else(|why| if installed("caddy") { Ok("caddy".into()) } else { Err(why) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_in_any_file_is_seen() {
        let directory = tempfile::tempdir().unwrap();
        let below = directory.path().join("below");
        fs::create_dir(&below).unwrap();
        fs::write(below.join("a"), "1").unwrap();
        let first = everything(directory.path(), directory.path()).unwrap();
        assert_eq!(first, "== below/a\n1");
        fs::write(below.join("a"), "2").unwrap();
        assert_ne!(everything(directory.path(), directory.path()).unwrap(), first);
    }
}
