//! The package for Fedora, openSUSE and their like, which `rpmbuild` makes (Debian's package `rpm` has it). Times, names of
//! machines and of users are taken out of it.

use std::fmt::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;

use crate::Result;
use crate::dist::elf::Libc;
use crate::dist::tree::{Release, Tree};

/// What an operator may change, and an update keeps.
const CONFIGURATION: &str = "etc/";

/// The file's name and content. `tree` has what every package installs; `licenses` are Maitred's own.
///
/// # Errors
/// When `rpmbuild` is not there, or fails: what it says.
pub(crate) fn pack(release: &Release, tree: &Tree, licenses: &Tree, libc: Libc) -> Result<(String, Vec<u8>)> {
    let stage = tempfile::tempdir()?;
    let stage = stage.path();
    let mut tree = tree.clone();
    licenses
        .files()
        .for_each(|(path, mode, content)| tree.file(&format!("usr/share/doc/maitred/{path}"), mode, content));
    let files = tree.files().map(|(path, ..)| path.to_owned()).collect::<Vec<_>>();
    for (path, mode, content) in tree.files() {
        let place = stage.join("SOURCES/root").join(path);
        place.parent().map_or(Ok(()), std::fs::create_dir_all)?;
        std::fs::write(&place, content)?;
        std::fs::set_permissions(&place, std::fs::Permissions::from_mode(mode))?;
    }
    let spec = stage.join("maitred.spec");
    std::fs::write(&spec, describe(release, &files, libc))?;
    build(release, stage, &spec)?;
    let name = format!("maitred-{}-1.{}.rpm", release.version, release.architecture);
    let path = stage.join("RPMS").join(&release.architecture).join(&name);
    let content = std::fs::read(&path).map_err(|error| format!("{}: {error}", path.display()))?;
    Ok((name, content))
}

fn describe(release: &Release, files: &[String], libc: Libc) -> String {
    let requires = match libc {
        Libc::Static => String::new(),
        Libc::Glibc(minor) => format!("Requires: glibc >= 2.{minor}\nRequires: libgcc"),
    };
    let mut list = "%defattr(-,root,root,-)\n%dir %attr(0755,root,root) /etc/maitred\n".to_owned();
    for path in files {
        let mark = if path.starts_with(CONFIGURATION) { "%config(noreplace) " } else { "" };
        _ = writeln!(list, "{mark}\"/{path}\"");
    }
    include_str!("../../../../pkg/rpm/maitred.spec")
        .replace("@VERSION@", &release.version)
        .replace("@ARCHITECTURE@", &release.architecture)
        .replace("@REQUIRES@", &requires)
        .replace("@FILES@", &list)
}

fn build(release: &Release, stage: &Path, spec: &Path) -> Result<()> {
    let mut rpmbuild = Command::new("rpmbuild");
    rpmbuild.args(["-bb", "--quiet", "--nodeps", "--target", &release.architecture]);
    for (name, value) in [
        ("_topdir", stage.to_string_lossy().as_ref()),
        ("_buildhost", "localhost"),
        ("use_source_date_epoch_as_buildtime", "1"),
        ("clamp_mtime_to_source_date_epoch", "1"),
    ] {
        rpmbuild.arg("--define").arg(format!("{name} {value}"));
    }
    // Older than any time of the commit, the files' own times would stay.
    rpmbuild.arg(spec).env("SOURCE_DATE_EPOCH", release.time.to_string());
    let output =
        rpmbuild.output().map_err(|error| format!("rpmbuild: {error}; it is in the Debian package rpm"))?;
    if output.status.success() {
        return Ok(());
    }
    Err(format!("rpmbuild: {}", String::from_utf8_lossy(&output.stderr)).into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn configuration_is_kept_and_the_c_library_is_asked_for() {
        let release = Release { version: "1.2.3".into(), architecture: "x86_64".into(), time: 1 };
        let files = ["etc/maitred/maitred.toml", "usr/bin/maitred"].map(str::to_owned);
        let spec = describe(&release, &files, Libc::Glibc(34));
        for line in [
            "Version: 1.2.3",
            "Requires: glibc >= 2.34",
            "%config(noreplace) \"/etc/maitred/maitred.toml\"",
            "\"/usr/bin/maitred\"",
        ] {
            assert!(spec.lines().any(|one| one == line), "{line}\n{spec}");
        }
        assert!(!describe(&release, &files, Libc::Static).contains("glibc"));
        assert!(!spec.contains('@'), "{spec}");
    }
}
