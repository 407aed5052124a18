//! Artefacts as their users use them: by other programs, on this machine.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::Result;
use crate::dist::{VERSION, crates, go};
use xtask::skips::{Kind, skip};
use xtask::step::step;
use xtask::test_packages::has_program;

/// With its version, as pip takes it.
const AUDITWHEEL: &str = "auditwheel==6.8.2";

/// The sums, Debian's own check of its package, the installed trees of both packages, the image, the wheel's
/// platform, the crates, and the Go module.
///
/// # Errors
/// The first that fails.
pub(crate) fn test(dist: &Path) -> Result<()> {
    let mut sums = Command::new("sha256sum");
    step("sums of artefacts", sums.args(["--check", "SHA256SUMS"]).current_dir(dist))?;
    lintian(dist)?;
    let stage = tempfile::tempdir()?;
    let deb = stage.path().join("deb");
    step(
        "unpacked package of Debian",
        Command::new("dpkg-deb").arg("-x").arg(named(dist, ".deb")?).arg(&deb),
    )?;
    starts(&deb)?;
    let rpm = stage.path().join("rpm");
    std::fs::create_dir(&rpm)?;
    let unpack = "rpm2cpio \"$0\" | cpio --quiet --extract --make-directories";
    let mut shell = Command::new("sh");
    step("unpacked RPM", shell.args(["-ec", unpack]).arg(named(dist, ".rpm")?).current_dir(&rpm))?;
    starts(&rpm)?;
    for interpreter in ["cp39-abi3", "py3-none"] {
        audit_wheel(&wheel_for(dist, interpreter)?, stage.path())?;
    }
    let copy = stage.path().join("sources");
    std::fs::create_dir(&copy)?;
    crates::package(&copy)?;
    // An executable that needs a C library has no image.
    if let Ok(image) = named(dist, ".oci.tar") {
        container(&image, stage.path())?;
    }
    if has_program("go") {
        return go_module(dist, stage.path());
    }
    skip(Kind::Missing, "Go module", "there is no Go (Debian's package golang-go)");
    Ok(())
}

/// The artefact whose name ends so.
fn named(dist: &Path, end: &str) -> Result<PathBuf> {
    let mut found = std::fs::read_dir(dist)?.flatten().map(|entry| entry.path());
    let path = found.find(|path| path.to_string_lossy().ends_with(end));
    path.ok_or_else(|| format!("{}: there is no *{end}", dist.display()).into())
}

fn wheel_for(dist: &Path, interpreter: &str) -> Result<PathBuf> {
    let wheels = std::fs::read_dir(dist)?.flatten().map(|entry| entry.path());
    let mut wheels = wheels.filter(|path| path.extension().is_some_and(|extension| extension == "whl"));
    let path = wheels.find(|path| path.to_string_lossy().contains(interpreter));
    path.ok_or_else(|| format!("{}: there is no wheel for {interpreter}", dist.display()).into())
}

fn lintian(dist: &Path) -> Result<()> {
    if !has_program("lintian") {
        skip(Kind::Missing, "package of Debian", "there is no lintian (Debian's package of this name)");
        return Ok(());
    }
    let mut lintian = Command::new("lintian");
    lintian.args(["--allow-root", "--fail-on", "error,warning", "--tag-display-limit", "0"]);
    step("lintian", lintian.arg(named(dist, ".deb")?))
}

/// PyPA's own judge of the platforms that a wheel runs on says what the wheel's name says.
fn audit_wheel(wheel: &Path, stage: &Path) -> Result<()> {
    let venv = stage.join("venv");
    step("environment of Python", Command::new("python3").args(["-m", "venv"]).arg(&venv))?;
    let mut pip = Command::new(venv.join("bin/pip"));
    pip.args(["install", "--quiet", "--disable-pip-version-check", AUDITWHEEL]);
    if let Err(error) = step("auditwheel, installed", &mut pip) {
        skip(Kind::Missing, "platform of the wheel", &format!("{AUDITWHEEL} cannot be installed ({error})"));
        return Ok(());
    }
    let output = Command::new(venv.join("bin/auditwheel")).arg("show").arg(wheel).output()?;
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let name = wheel.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let Some(minor) = judged(&said) else {
        return Err(format!("auditwheel names no platform for {name}:\n{said}").into());
    };
    // Older ones than 2.17 (2014) no name of ours has.
    if name.contains(&format!("manylinux_2_{}_", minor.max(17))) {
        println!("auditwheel: glibc 2.{minor}, as {name} says");
        return Ok(());
    }
    Err(format!("{name}: auditwheel judges otherwise:\n{said}").into())
}

/// The minor version of glibc in the first platform that is named in quotes.
fn judged(said: &str) -> Option<u32> {
    let platform = said.split("\"manylinux_2_").nth(1)?;
    platform.split('_').next()?.parse().ok()
}

/// The executable in an unpacked package starts, and takes the package's configuration for right.
fn starts(root: &Path) -> Result<()> {
    let program = root.join("usr/bin/maitred");
    let output = Command::new(&program).arg("--version").output();
    let output = output.map_err(|error| format!("{}: {error}", program.display()))?;
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    if !said.starts_with(&format!("maitred {VERSION}")) {
        return Err(format!("{}: --version says {said:?}", program.display()).into());
    }
    // The configuration's paths and its account are those of an installed package, which this machine does not have.
    let configuration = std::fs::read_to_string(root.join("etc/maitred/maitred.toml"))?;
    let here = root.join("maitred.toml");
    let moved = configuration.replace("/usr/share/", &format!("{}/usr/share/", root.display()));
    std::fs::write(&here, moved.replace("[server]", "[server]\nshare_user = true"))?;
    step("configuration of the package", Command::new(&program).args(["check", "-c"]).arg(&here))
}

/// The image in namespaces of its own: `container.sh` beside `src`. A runtime for containers (crun) cannot start on every machine
/// that tests run on: without the second version of control groups, for one.
fn container(image: &Path, stage: &Path) -> Result<()> {
    for (program, package) in
        [("skopeo", "skopeo"), ("umoci", "umoci"), ("unshare", "util-linux"), ("ip", "iproute2")]
    {
        if !has_program(program) {
            return Err(
                format!("the image cannot be run without {program} (Debian's package {package})").into()
            );
        }
    }
    let layout = stage.join("layout");
    let mut copy = Command::new("skopeo");
    copy.arg("copy").arg(format!("oci-archive:{}", image.display()));
    step("image, copied", copy.arg(format!("oci:{}:test", layout.display())))?;
    let bundle = stage.join("bundle");
    let mut unpack = Command::new("umoci");
    unpack.args(["unpack", "--image"]).arg(format!("{}:test", layout.display())).arg(&bundle);
    step("image, unpacked", &mut unpack)?;
    let mut run = Command::new("timeout");
    run.args(["60", "unshare", "--mount", "--pid", "--net", "--fork", "sh"]);
    run.arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("container.sh")).arg(bundle.join("rootfs"));
    step("image, run", &mut run)
}

const PROGRAM: &str = r#"package main

import (
	"net/http"

	"MODULE"
)

func main() {
	_ = maitred.ListenAndServe("127.0.0.1:0", http.NotFoundHandler())
}
"#;

/// A program that fetches the module from the unpacked artefact, as `go get` fetches it from a network.
fn go_module(dist: &Path, stage: &Path) -> Result<()> {
    let archive = named(dist, &format!("maitred-go-{VERSION}.tar.gz"))?;
    step("unpacked Go module", Command::new("tar").arg("-xzf").arg(archive).arg("-C").arg(stage))?;
    let program = stage.join("program");
    std::fs::create_dir(&program)?;
    std::fs::write(program.join("main.go"), PROGRAM.replace("MODULE", go::MODULE))?;
    for arguments in [
        &["mod", "init", "example.test/program"][..],
        &["get", &format!("{}@v{VERSION}", go::MODULE)],
        &["vet", &format!("{}/...", go::MODULE)],
        &["build", "-o", "program", "."],
    ] {
        let mut go = Command::new("go");
        go.args(arguments).current_dir(&program);
        go.env("GOPROXY", format!("file://{}", stage.join("maitred-go").display()));
        go.env("GONOSUMDB", go::MODULE)
            .env("GOFLAGS", "-modcacherw")
            .env("GOMODCACHE", stage.join("modules"));
        go.env("GOTOOLCHAIN", "local");
        step(&format!("go {}", arguments.join(" ")), &mut go)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::judged;

    #[test]
    fn the_platform_is_read_from_what_auditwheel_says() {
        let constrained = "This constrains the platform tag to \"manylinux_2_34_x86_64\". In order";
        assert_eq!(judged(constrained), Some(34));
        assert_eq!(
            judged("is consistent with the following platform tag: \"manylinux_2_5_x86_64\"."),
            Some(5)
        );
        assert_eq!(judged("\"linux_x86_64\""), None);
    }
}
