//! The containers of `docs/containers.md`: `containers.py` beside `src` has Buildah build their images from the files in
//! `examples/container`, and runs them.

use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::Result;
use crate::dist::{self, wheel};
use xtask::skips::{Kind, skip};
use xtask::step::step;
use xtask::test_packages::has_program;

const NAME: &str = "containers";
/// What images are built and run with, and the Debian packages that have it.
const TOOLS: [(&str, &str); 6] = [
    ("buildah", "buildah"),
    ("mmdebstrap", "mmdebstrap"),
    ("unshare", "util-linux"),
    ("nsenter", "util-linux"),
    ("ip", "iproute2"),
    ("ldd", "libc-bin"),
];
/// What stands in for `python:3.13-slim`: a small Debian with Python.
const PACKAGES: &str = "python3,python3-venv";

/// Which executable, and where images go.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// The executable in the wheel and in the image, as it is; otherwise the debug build, without its symbols
    #[arg(long, value_name = "FILE")]
    executable: Option<PathBuf>,
    /// Where the base image is kept, and images are built
    #[arg(long, value_name = "DIR", default_value = "target/containers")]
    output: PathBuf,
}

/// Makes what the images are built from, and has them built and run.
pub(crate) fn run(target: &Path, arguments: &Arguments) -> Result<()> {
    // The effective account owns the directory of a process.
    if std::fs::metadata("/proc/self")?.uid() != 0 {
        skip(Kind::Surroundings, NAME, "mounts and other accounts take root");
        return Ok(());
    }
    if let Some((program, package)) = TOOLS.iter().find(|tool| !has_program(tool.0)) {
        skip(Kind::Missing, NAME, &format!("there is no {program} (Debian: {package})"));
        return Ok(());
    }
    std::fs::create_dir_all(&arguments.output)?;
    let output = std::path::absolute(&arguments.output)?;
    let executable = match &arguments.executable {
        Some(executable) => executable.clone(),
        None => {
            xtask::test::built()?;
            stripped(&target.join("debug/maitred"), &output.join("maitred"))?
        }
    };
    let base = match base(&output) {
        Ok(base) => base,
        Err(why) => {
            skip(Kind::Missing, NAME, &format!("no base image can be made: {why}"));
            return Ok(());
        }
    };
    let library = xtask::test_python::native()?;
    let wheel = wheel::build(&executable, Some(&library), &dist::licenses()?, &output)?;
    let image = dist::image(&executable, &libraries(&executable)?, &output)?;
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("containers.py");
    // What an earlier run has built would only take space.
    let storage = output.join("storage");
    let _ = std::fs::remove_dir_all(&storage);
    // A network of its own, in which any port is free, and on which nothing of this machine listens.
    let mut python = Command::new("unshare");
    python.args(["--net", "sh", "-ec", "ip link set lo up; exec python3 \"$0\""]).arg(script);
    python.env("MAITRED_WHEEL", wheel).env("MAITRED_IMAGE", image).env("MAITRED_BASE", base);
    step(NAME, python.env("MAITRED_STORAGE", &storage))?;
    Ok(std::fs::remove_dir_all(storage)?)
}

fn stripped(from: &Path, to: &Path) -> Result<PathBuf> {
    let mut strip = Command::new("strip");
    step("strip", strip.arg("-o").arg(to).arg(from))?;
    Ok(to.to_owned())
}

/// The file system of the base image, as an archive: what is there already, if it was made of the same packages. The base is of
/// this machine's release, whose C library the executable was linked with.
fn base(output: &Path) -> Result<PathBuf> {
    let release = std::fs::read_to_string("/etc/os-release")?;
    let suite = release.lines().find_map(|line| line.strip_prefix("VERSION_CODENAME="));
    let suite = suite.ok_or("this machine is no Debian")?;
    let (base, recipe) = (output.join("base.tar"), output.join("recipe"));
    let wanted = format!("{suite} {PACKAGES}\n");
    if base.exists() && std::fs::read_to_string(&recipe).is_ok_and(|made| made == wanted) {
        return Ok(base);
    }
    let sources = std::fs::read_dir("/etc/apt/sources.list.d").into_iter().flatten().flatten();
    let sources = sources.map(|entry| entry.path()).chain([PathBuf::from("/etc/apt/sources.list")]);
    let of_release = |path: &PathBuf| std::fs::read_to_string(path).is_ok_and(|text| text.contains(suite));
    let mut make = Command::new("mmdebstrap");
    make.args(["--variant=minbase", "--mode=root", "--quiet", &format!("--include={PACKAGES}")]);
    make.args(["--dpkgopt=force-unsafe-io", "--dpkgopt=path-exclude=/usr/share/doc/*"]);
    make.args(["--dpkgopt=path-exclude=/usr/share/locale/*", "--dpkgopt=path-exclude=/usr/share/man/*"]);
    step("base image", make.arg(suite).arg(&base).args(sources.filter(of_release)))?;
    std::fs::write(&recipe, wanted)?;
    Ok(base)
}

/// What a dynamic executable is loaded with; none where it is static, as the one of releases is.
fn libraries(executable: &Path) -> Result<Vec<PathBuf>> {
    let output = Command::new("ldd").arg(executable).output()?;
    Ok(paths(&String::from_utf8_lossy(&output.stdout)))
}

/// The absolute paths in what ldd(1) says.
fn paths(said: &str) -> Vec<PathBuf> {
    let words = said.split_whitespace().filter(|word| word.starts_with('/'));
    words.map(|word| PathBuf::from(word.trim_end_matches(':'))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn libraries_are_those_that_the_loader_finds() {
        let said = "\tlinux-vdso.so.1 (0x00007ffd)\n\tlibm.so.6 => /lib/x86_64-linux-gnu/libm.so.6 (0x00007f5c)\n\
                    \t/lib64/ld-linux-x86-64.so.2 (0x00007f5d)\n";
        let found = ["/lib/x86_64-linux-gnu/libm.so.6", "/lib64/ld-linux-x86-64.so.2"].map(PathBuf::from);
        assert_eq!(paths(said), found);
        assert_eq!(paths("\tstatically linked\n"), Vec::<PathBuf>::new());
    }
}
