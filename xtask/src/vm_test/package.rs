//! Two packages of one executable: `first.deb`, and `second.deb` with a higher version. The packages are what
//! `cargo xtask dist` makes of the debug build, or a package that was made elsewhere.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::test_vm::kernels::run;
use crate::{Result, harness};

/// The package of this executable, as `cargo xtask dist` makes it.
fn debian(executable: &Path, directory: &Path) -> Result<PathBuf> {
    let places = [executable.to_string_lossy(), directory.to_string_lossy()];
    harness::run_step(harness::DIST, "debian", &[&places[0], &places[1]])?;
    let is_package = |path: &PathBuf| path.extension().is_some_and(|ending| ending == "deb");
    let made = fs::read_dir(directory)?.flatten().map(|entry| entry.path()).find(is_package);
    Ok(made.ok_or("no package was made")?)
}

/// Returns both.
pub(crate) fn make(target: &Path, programs: &[PathBuf], deb: Option<&Path>) -> Result<Vec<PathBuf>> {
    let directory = target.join("vm/debs");
    let _ = fs::remove_dir_all(&directory);
    let tree = directory.join("tree");
    fs::create_dir_all(&directory)?;
    let deb = match deb {
        Some(deb) => deb.to_owned(),
        None => {
            let server = programs.iter().find(|program| program.ends_with("maitred"));
            debian(server.ok_or("the server was not built")?, &directory)?
        }
    };
    run("dpkg-deb", Command::new("dpkg-deb").arg("-R").arg(deb).arg(&tree))?;
    let control = tree.join("DEBIAN/control");
    let text = fs::read_to_string(&control)?;
    let version =
        text.lines().find_map(|line| line.strip_prefix("Version: ")).ok_or("a package without a version")?;
    let mut made = Vec::new();
    for (name, version) in [("first.deb", version.to_owned()), ("second.deb", format!("{version}+later"))] {
        let lines = text.lines().map(|line| match line.starts_with("Version: ") {
            true => format!("Version: {version}\n"),
            false => format!("{line}\n"),
        });
        fs::write(&control, lines.collect::<String>())?;
        let path = directory.join(name);
        let mut build = Command::new("dpkg-deb");
        build.args(["--build", "--root-owner-group", "-Zgzip", "-z1"]).arg(&tree).arg(&path);
        run("dpkg-deb", &mut build)?;
        made.push(path);
    }
    fs::remove_dir_all(&tree)?;
    Ok(made)
}
