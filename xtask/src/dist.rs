//! `cargo xtask dist`: everything that a release consists of, in `target/dist`, with its sums. Each kind of artefact is a module
//! with a function `pack`, which turns a [`Release`] and a [`Tree`] into a name and bytes, and reads no clock. The same commit
//! and the same binary give the same bytes.

pub(crate) mod crates;
mod deb;
pub(crate) mod npm;
mod oci;
mod sbom;
mod tarball;
mod tree;
pub(crate) mod wheel;
pub(crate) mod zip;

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::Result;
use tree::{Release, Tree};

/// The version of everything that is packaged.
pub(crate) const VERSION: &str = env!("CARGO_PKG_VERSION");
/// The licences' texts, which are in each package.
pub(crate) const LICENSES: [&str; 2] = ["LICENSE-APACHE", "LICENSE-MIT"];

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Pack this binary, instead of building a static one with the release profile
    #[arg(long, value_name = "PATH")]
    binary: Option<PathBuf>,
    /// Do it twice, and fail if a byte differs
    #[arg(long)]
    check: bool,
}

/// Name and content of each artefact.
type Artefacts = Vec<(String, Vec<u8>)>;

/// Builds, packs, and writes the artefacts.
pub(crate) fn run(target: &Path, arguments: &Arguments) -> Result<()> {
    let release = release()?;
    let once = |place: &str| -> Result<Artefacts> {
        let binary = match &arguments.binary {
            Some(path) => path.clone(),
            None => build(&target.join(place), &release)?,
        };
        pack(&release, &stripped(&binary)?)
    };
    let artefacts = once("dist-build")?;
    if arguments.check {
        let again = once("dist-build-again")?;
        for ((name, first), (_, second)) in artefacts.iter().zip(&again) {
            if first != second {
                return Err(format!("{name}: the same sources have given other bytes").into());
            }
        }
    }
    write(&target.join("dist"), &artefacts)
}

/// Version, architecture and time of what is checked out.
fn release() -> Result<Release> {
    let manifest: toml::Table = std::fs::read_to_string("Cargo.toml")
        .map_err(|error| format!("Cargo.toml: {error}; run this in the root of the sources"))?
        .parse()?;
    let version = manifest.get("workspace").and_then(|table| table.get("package")?.get("version")?.as_str());
    let time = match std::env::var("SOURCE_DATE_EPOCH") {
        Ok(time) => time,
        Err(_) => {
            let output = Command::new("git").args(["log", "-1", "--format=%ct"]).output();
            let output = output.map_err(|error| format!("git: {error}; or set SOURCE_DATE_EPOCH"))?;
            String::from_utf8(output.stdout)?
        }
    };
    Ok(Release {
        version: version.ok_or("Cargo.toml: there is no workspace.package.version")?.to_owned(),
        architecture: std::env::consts::ARCH.to_owned(),
        time: time
            .trim()
            .parse()
            .map_err(|_| "there is no commit; set SOURCE_DATE_EPOCH (seconds since 1970)")?,
    })
}

/// Builds a static binary. With `--target`, its flags do not reach build scripts and procedural macros.
fn build(directory: &Path, release: &Release) -> Result<PathBuf> {
    let triple = format!("{}-unknown-linux-gnu", release.architecture);
    let sources = std::env::current_dir()?;
    let home = std::env::var("CARGO_HOME")
        .or_else(|_| std::env::var("HOME").map(|home| format!("{home}/.cargo")))?;
    let flags = [
        "-Ctarget-feature=+crt-static".to_owned(),
        format!("--remap-path-prefix={}=/maitred", sources.display()),
        format!("--remap-path-prefix={home}=/cargo"),
    ];
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.args([
        "build",
        "--locked",
        "--release",
        "--package",
        "maitred",
        "--bin",
        "maitred",
        "--target",
        &triple,
    ]);
    command.arg("--target-dir").arg(directory);
    command
        .env("CARGO_ENCODED_RUSTFLAGS", flags.join("\u{1f}"))
        .env("SOURCE_DATE_EPOCH", release.time.to_string());
    crate::step::step("static binary", &mut command)?;
    Ok(directory.join(triple).join("release/maitred"))
}

/// The binary without symbols and line tables.
fn stripped(binary: &Path) -> Result<Vec<u8>> {
    if !binary.is_file() {
        return Err(
            format!("{}: there is no such file; build it, or leave out --binary", binary.display()).into()
        );
    }
    let place = tempfile::NamedTempFile::new()?;
    let output = Command::new("strip").arg("-o").arg(place.path()).arg(binary).output();
    let output = output.map_err(|error| format!("strip: {error}; it is in the Debian package binutils"))?;
    if !output.status.success() {
        return Err(format!("{}: {}", binary.display(), String::from_utf8_lossy(&output.stderr)).into());
    }
    Ok(std::fs::read(place.path())?)
}

/// All artefacts, from the files of the current directory and a binary.
fn pack(release: &Release, binary: &[u8]) -> Result<Artefacts> {
    let lock = std::fs::read_to_string("Cargo.lock").map_err(|error| format!("Cargo.lock: {error}"))?;
    let tree = installed(binary)?;
    Ok(vec![
        tarball::pack(release, &tree)?,
        deb::pack(release, &tree)?,
        oci::pack(release, &container(binary)?)?,
        sbom::pack(release, &lock)?,
    ])
}

/// What packages install.
fn installed(binary: &[u8]) -> Result<Tree> {
    let mut tree = Tree::default();
    tree.file("usr/bin/maitred", 0o755, binary);
    for (path, from) in [
        ("etc/maitred/maitred.toml", "pkg/maitred.toml"),
        ("etc/logrotate.d/maitred", "pkg/maitred.logrotate"),
        ("usr/lib/systemd/system/maitred.service", "pkg/maitred.service"),
        ("usr/lib/sysusers.d/maitred.conf", "pkg/maitred.sysusers"),
        ("usr/lib/tmpfiles.d/maitred.conf", "pkg/maitred.tmpfiles"),
        ("usr/share/maitred/site/index.html", "pkg/site/index.html"),
        ("usr/share/bash-completion/completions/maitred", "docs/completions/maitred.bash"),
        ("usr/share/fish/vendor_completions.d/maitred.fish", "docs/completions/maitred.fish"),
        ("usr/share/zsh/vendor-completions/_maitred", "docs/completions/maitred.zsh"),
    ] {
        tree.copy(path, 0o644, Path::new(from))?;
    }
    let manual = std::fs::read("docs/maitred.1").map_err(|error| format!("docs/maitred.1: {error}"))?;
    tree.file("usr/share/man/man1/maitred.1.gz", 0o644, tree::gzip(&manual)?);
    Ok(tree)
}

/// The root of a container.
fn container(binary: &[u8]) -> Result<Tree> {
    let mut tree = Tree::default();
    tree.file("usr/bin/maitred", 0o755, binary);
    tree.copy("etc/maitred/maitred.toml", 0o644, Path::new("pkg/container.toml"))?;
    tree.copy("usr/share/maitred/site/index.html", 0o644, Path::new("pkg/site/index.html"))?;
    let certificates = Path::new("/etc/ssl/certs/ca-certificates.crt");
    tree.copy("etc/ssl/certs/ca-certificates.crt", 0o644, certificates)?;
    Ok(tree)
}

/// Writes the artefacts and SHA256SUMS, in place of those of an earlier run.
fn write(directory: &Path, artefacts: &Artefacts) -> Result<()> {
    if directory.exists() {
        std::fs::remove_dir_all(directory).map_err(|error| format!("{}: {error}", directory.display()))?;
    }
    std::fs::create_dir_all(directory).map_err(|error| format!("{}: {error}", directory.display()))?;
    let mut sums = String::new();
    for (name, content) in artefacts {
        std::fs::write(directory.join(name), content).map_err(|error| format!("{name}: {error}"))?;
        sums += &format!("{}  {name}\n", oci::sha256(content));
    }
    std::fs::write(directory.join("SHA256SUMS"), &sums)?;
    print!("{sums}");
    Ok(())
}

#[cfg(test)]
mod tests;
