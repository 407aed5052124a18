//! Artefacts as their users use them: by other programs, on this machine.

use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::Result;
use crate::dist::{VERSION, go};
use crate::skips::{Kind, skip};
use crate::step::step;
use crate::test_packages::has_program;

/// The sums, Debian's own check of its package, the installed trees of both packages, the image, and the Go module.
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
    // There is none of an executable that needs a C library.
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

fn lintian(dist: &Path) -> Result<()> {
    if !has_program("lintian") {
        skip(Kind::Missing, "package of Debian", "there is no lintian (Debian's package of this name)");
        return Ok(());
    }
    let mut lintian = Command::new("lintian");
    lintian.args(["--allow-root", "--fail-on", "error,warning", "--tag-display-limit", "0"]);
    step("lintian", lintian.arg(named(dist, ".deb")?))
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
    // Its paths and its account are those of an installed package, which this machine does not have.
    let configuration = std::fs::read_to_string(root.join("etc/maitred/maitred.toml"))?;
    let here = root.join("maitred.toml");
    let moved = configuration.replace("/usr/share/", &format!("{}/usr/share/", root.display()));
    std::fs::write(&here, moved.replace("[server]", "[server]\nshare_user = true"))?;
    step("configuration of the package", Command::new(&program).args(["check", "-c"]).arg(&here))
}

/// The image in a container without a daemon, which answers to the image's own health check. The container has the network of
/// this machine, as it need not be possible to make another.
fn container(image: &Path, stage: &Path) -> Result<()> {
    let layout = format!("oci:{}:test", stage.join("layout").display());
    step(
        "image, copied",
        Command::new("skopeo").arg("copy").arg(format!("oci-archive:{}", image.display())).arg(&layout),
    )?;
    let bundle = stage.join("bundle");
    let source = format!("{}:test", stage.join("layout").display());
    step("image, unpacked", Command::new("umoci").args(["unpack", "--image", &source]).arg(&bundle))?;
    let path = bundle.join("config.json");
    let mut config: Value = serde_json::from_slice(&std::fs::read(&path)?)?;
    config["process"]["terminal"] = Value::Bool(false);
    if let Some(namespaces) = config["linux"]["namespaces"].as_array_mut() {
        namespaces.retain(|one| one["type"] != "network" && one["type"] != "cgroup");
    }
    std::fs::write(&path, serde_json::to_vec(&config)?)?;
    let name = format!("maitred-test-{}", std::process::id());
    let crun = |arguments: &[&str]| {
        let mut crun = Command::new("crun");
        crun.args(["--root"]).arg(stage.join("crun")).args(arguments);
        crun
    };
    let mut running = crun(&["run", "--bundle", &bundle.to_string_lossy(), &name]).spawn()?;
    let healthy = answered(&mut running, || {
        let mut status =
            crun(&["exec", &name, "/usr/bin/maitred", "status", "-c", "/etc/maitred/maitred.toml"]);
        status.output().is_ok_and(|output| output.status.success())
    });
    let ended = step("container, ended", &mut crun(&["kill", &name, "TERM"]));
    let code = running.wait()?;
    healthy.and(ended)?;
    if code.success() { Ok(()) } else { Err(format!("the container ended with {code}").into()) }
}

/// Waits until the container answers, as long as it runs, but no longer than a minute.
fn answered(running: &mut Child, ask: impl Fn() -> bool) -> Result<()> {
    let end = Instant::now() + Duration::from_secs(60);
    while !ask() {
        if let Some(code) = running.try_wait()? {
            return Err(format!("the container ended at its start with {code}").into());
        }
        if Instant::now() > end {
            return Err("the container did not answer within a minute".into());
        }
    }
    println!("the container answers");
    Ok(())
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
