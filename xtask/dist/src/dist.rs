//! `cargo xtask dist`: everything that a release consists of, in `target/dist`, with its sums. Each kind of artefact is a module
//! with a function `pack`, which turns a [`Release`] and a [`Tree`] into a name and bytes, and reads no clock. The same commit
//! and the same binary give the same bytes.

mod calendar;
mod components;
pub(crate) mod crates;
mod deb;
pub(crate) mod elf;
mod go;
pub(crate) mod npm;
mod oci;
mod rpm;
mod sbom;
mod tarball;
mod tree;
mod used;
pub(crate) mod wheel;
pub(crate) mod zip;

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::Result;
use elf::Libc;
use tree::{Release, Tree};
use xtask::root;

/// The version of everything that is packaged.
pub(crate) const VERSION: &str = env!("CARGO_PKG_VERSION");
/// The licences' texts, which are in each package.
pub(crate) const LICENSES: [&str; 2] = ["LICENSE-APACHE", "LICENSE-MIT"];

/// Symbols and line tables of the executable, which debuggers find by the name that it has for them.
const DEBUG: &str = "maitred.debug";

/// The authorities that this machine trusts, and with it the image.
const CERTIFICATES: &str = "/etc/ssl/certs/ca-certificates.crt";

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Pack this binary, instead of building one that is static, and for Debian one that is not, with the profile `dist`
    #[arg(long, value_name = "PATH")]
    binary: Option<PathBuf>,
    /// Do it twice, and fail if a byte differs
    #[arg(long)]
    check: bool,
    /// Use what was made as its users do: check it with other programs, unpack it, start it
    #[arg(long)]
    test: bool,
    /// The address of the Go module
    #[arg(long, value_name = "PATH", default_value = go::MODULE)]
    go_module: String,
}

/// Name and content of each artefact.
type Artefacts = Vec<(String, Vec<u8>)>;

/// Builds, packs, and writes the artefacts.
pub(crate) fn run(target: &Path, arguments: &Arguments) -> Result<()> {
    let time = time()?;
    let once = |place: &str| -> Result<Artefacts> {
        println!("\n== artefacts of {VERSION} into {}", target.join("dist").display());
        let (stage, debian_stage) = (tempfile::tempdir()?, tempfile::tempdir()?);
        let (all, debian) = match &arguments.binary {
            Some(path) => (packed(path, stage.path())?, packed(path, debian_stage.path())?),
            None => {
                let all = build(&target.join(place), time, Linkage::Static)?;
                let debian = build(&target.join(place), time, Linkage::Dynamic)?;
                (packed(&all, stage.path())?, packed(&debian, debian_stage.path())?)
            }
        };
        if arguments.binary.is_none() && (all.elf.libc == Libc::Static) == (debian.elf.libc == Libc::Static) {
            return Err("one build was to be static and the other was not, and they are alike".into());
        }
        if all.elf.libc != Libc::Static {
            println!("not static, so that no image is made, and packages need its glibc");
        }
        let architecture = all.elf.architecture;
        let release = Release { version: VERSION.to_owned(), architecture: architecture.to_owned(), time };
        println!("== licences of all that is linked");
        let linked = components::linked(root(), architecture)?;
        println!("== archive, packages for Debian and Fedora, list of components, image");
        let mut artefacts = pack(root(), &release, &linked, [&all.contents()?, &debian.contents()?])?;
        let texts = components::texts(&linked)?;
        println!("== wheels and packages of npm");
        artefacts.extend(languages(&all.path, &texts, &stage.path().join("languages"))?);
        println!("== Go module");
        artefacts.push(go::pack(&release, &arguments.go_module)?);
        for (executable, name) in [(&all, "linux"), (&debian, "debian")] {
            let name = format!("maitred-{}-{architecture}-{name}.debug", release.version);
            artefacts.push((name, std::fs::read(executable.path.with_file_name(DEBUG))?));
        }
        Ok(artefacts)
    };
    let artefacts = once("dist-build")?;
    if arguments.check {
        compare(&artefacts, &once("dist-build-again")?)?;
    }
    let directory = std::path::absolute(target.join("dist"))?;
    write(&directory, &artefacts)?;
    if arguments.test { used::test(&directory) } else { Ok(()) }
}

/// Whether an executable loads libraries.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Linkage {
    Static,
    /// The executable loads the C library, and so can load modules.
    Dynamic,
}

/// An executable without symbols, whose symbols are beside it.
struct Packed {
    path: PathBuf,
    elf: elf::Elf,
}

/// What of an executable goes into an artefact.
struct Contents {
    libc: Libc,
    bytes: Vec<u8>,
}

impl Packed {
    fn contents(&self) -> Result<Contents> {
        Ok(Contents { libc: self.elf.libc, bytes: std::fs::read(&self.path)? })
    }
}

fn packed(binary: &Path, stage: &Path) -> Result<Packed> {
    let path = stripped(binary, stage)?;
    Ok(Packed { elf: elf::read(&path)?, path })
}

/// The package for Debian of this binary, in this directory.
pub(crate) fn debian(binary: &Path, directory: &Path) -> Result<()> {
    let stage = tempfile::tempdir()?;
    let executable = stripped(binary, stage.path())?;
    let elf = elf::read(&executable)?;
    let release =
        Release { version: VERSION.to_owned(), architecture: elf.architecture.to_owned(), time: time()? };
    let tree = installed(root(), &std::fs::read(&executable)?, &licenses()?)?;
    let (name, content) = deb::pack(&release, &tree, elf.libc)?;
    Ok(std::fs::write(directory.join(name), content)?)
}

/// The image of this executable and of the libraries that it needs, in this directory.
pub(crate) fn image(executable: &Path, libraries: &[PathBuf], directory: &Path) -> Result<PathBuf> {
    let elf = elf::read(executable)?;
    let release =
        Release { version: VERSION.to_owned(), architecture: elf.architecture.to_owned(), time: time()? };
    let mut tree = container(root(), &std::fs::read(executable)?, &licenses()?, Path::new(CERTIFICATES))?;
    for library in libraries {
        tree.copy(library.to_string_lossy().trim_start_matches('/'), 0o755, library)?;
    }
    let (name, content) = oci::pack(&release, &tree)?;
    let path = directory.join(name);
    std::fs::write(&path, content)?;
    Ok(path)
}

/// The texts of the licences of all that is linked on this machine's architecture.
pub(crate) fn licenses() -> Result<String> {
    components::texts(&components::linked(root(), std::env::consts::ARCH)?)
}

/// Fails if a byte differs.
fn compare(artefacts: &Artefacts, again: &Artefacts) -> Result<()> {
    let names = |artefacts: &Artefacts| artefacts.iter().map(|(name, _)| name.clone()).collect::<Vec<_>>();
    if names(artefacts) != names(again) {
        return Err(format!("first {:?}, then {:?}", names(artefacts), names(again)).into());
    }
    let differs = artefacts.iter().zip(again).find(|(one, other)| one.1 != other.1);
    differs.map_or(Ok(()), |((name, _), _)| {
        Err(format!("{name}: the same sources have given other bytes").into())
    })
}

/// When the commit was made that is checked out.
fn time() -> Result<u64> {
    let time = match std::env::var("SOURCE_DATE_EPOCH") {
        Ok(time) => time,
        Err(_) => {
            let output = Command::new("git").args(["log", "-1", "--format=%ct"]).current_dir(root()).output();
            let output = output.map_err(|error| format!("git: {error}; or set SOURCE_DATE_EPOCH"))?;
            String::from_utf8(output.stdout)?
        }
    };
    let time = time.trim().parse();
    Ok(time.map_err(|_| "there is no commit; set SOURCE_DATE_EPOCH (seconds since 1970)")?)
}

/// Builds a binary. With `--target`, its flags do not reach build scripts and procedural macros.
fn build(directory: &Path, time: u64, linkage: Linkage) -> Result<PathBuf> {
    let triple = format!("{}-unknown-linux-gnu", std::env::consts::ARCH);
    let sources = root();
    let (kind, feature) = match linkage {
        Linkage::Static => ("static", "+crt-static"),
        Linkage::Dynamic => ("dynamic", "-crt-static"),
    };
    let directory = std::path::absolute(directory)?.join(kind);
    let home = std::env::var("CARGO_HOME")
        .or_else(|_| std::env::var("HOME").map(|home| format!("{home}/.cargo")))?;
    let flags = [
        format!("-Ctarget-feature={feature}"),
        format!("--remap-path-prefix={}=/maitred", sources.display()),
        format!("--remap-path-prefix={home}=/cargo"),
    ];
    let mut command = xtask::step::cargo();
    command.args([
        "build",
        "--locked",
        "--profile",
        "dist",
        "--package",
        "maitred",
        "--bin",
        "maitred",
        "--target",
        &triple,
    ]);
    command.arg("--target-dir").arg(&directory).current_dir(sources);
    command.env("CARGO_ENCODED_RUSTFLAGS", flags.join("\u{1f}")).env("SOURCE_DATE_EPOCH", time.to_string());
    xtask::step::step(&format!("{kind} binary"), &mut command)?;
    Ok(directory.join(triple).join("dist/maitred"))
}

/// The binary without symbols and line tables, in this directory; [`DEBUG`] beside it has these.
fn stripped(binary: &Path, directory: &Path) -> Result<PathBuf> {
    if !binary.is_file() {
        return Err(
            format!("{}: there is no such file; build it, or leave out --binary", binary.display()).into()
        );
    }
    let place = directory.join("maitred");
    let paths = [binary, Path::new(DEBUG)];
    binutils("objcopy", &["--only-keep-debug", "--compress-debug-sections"], &paths, directory)?;
    binutils("strip", &["-o", "maitred"], &[binary], directory)?;
    binutils("objcopy", &[&format!("--add-gnu-debuglink={DEBUG}")], &[&place], directory)?;
    Ok(place)
}

/// Runs a program of binutils in this directory.
fn binutils(program: &str, arguments: &[&str], paths: &[&Path], directory: &Path) -> Result<()> {
    let paths: Vec<PathBuf> = paths
        .iter()
        .map(|path| if path.is_file() { std::path::absolute(path) } else { Ok((*path).to_owned()) })
        .collect::<std::io::Result<_>>()?;
    let output = Command::new(program).args(arguments).args(&paths).current_dir(directory).output();
    let output =
        output.map_err(|error| format!("{program}: {error}; it is in the Debian package binutils"))?;
    match output.status.success() {
        true => Ok(()),
        false => Err(format!("{program}: {}", String::from_utf8_lossy(&output.stderr)).into()),
    }
}

/// What is made of the sources in `root` and of two binaries: one for all, and one for Debian. There is an image of a static
/// binary only.
fn pack(
    root: &Path,
    release: &Release,
    linked: &[components::Component],
    [all, debian]: [&Contents; 2],
) -> Result<Artefacts> {
    let lock =
        std::fs::read_to_string(root.join("Cargo.lock")).map_err(|error| format!("Cargo.lock: {error}"))?;
    let texts = components::texts(linked)?;
    let tree = installed(root, &all.bytes, &texts)?;
    let mut licenses = Tree::default();
    for license in LICENSES {
        licenses.copy(license, 0o644, &root.join(license))?;
    }
    let mut artefacts = vec![
        tarball::pack(release, &tree, &licenses)?,
        deb::pack(release, &installed(root, &debian.bytes, &texts)?, debian.libc)?,
        rpm::pack(release, &tree, &licenses, all.libc)?,
        sbom::pack(release, linked, &lock)?,
    ];
    if all.libc == Libc::Static {
        artefacts.push(oci::pack(release, &container(root, &all.bytes, &texts, Path::new(CERTIFICATES))?)?);
    }
    Ok(artefacts)
}

/// The wheels, with the adapter's compiled part and without it, and the packages of npm.
fn languages(executable: &Path, licenses: &str, directory: &Path) -> Result<Artefacts> {
    let [platform, adapter] = npm::build(executable, licenses, directory)?;
    let mut artefacts = Artefacts::new();
    let library = xtask::test_python::native()?;
    let wheels = [
        wheel::build(executable, Some(&library), licenses, directory)?,
        wheel::build(executable, None, licenses, directory)?,
    ];
    for path in wheels.into_iter().chain([platform, adapter]) {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        artefacts.push((name, std::fs::read(&path)?));
    }
    Ok(artefacts)
}

/// What packages install.
fn installed(root: &Path, binary: &[u8], licenses: &str) -> Result<Tree> {
    let mut tree = Tree::default();
    tree.file("usr/bin/maitred", 0o755, binary);
    tree.file(&format!("usr/share/doc/maitred/{}", components::TEXTS), 0o644, licenses);
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
        tree.copy(path, 0o644, &root.join(from))?;
    }
    let manual =
        std::fs::read(root.join("docs/maitred.1")).map_err(|error| format!("docs/maitred.1: {error}"))?;
    tree.file("usr/share/man/man1/maitred.1.gz", 0o644, tree::gzip(&manual)?);
    Ok(tree)
}

/// The root of a container.
fn container(root: &Path, binary: &[u8], licenses: &str, certificates: &Path) -> Result<Tree> {
    let mut tree = Tree::default();
    tree.file("usr/bin/maitred", 0o755, binary);
    tree.copy("etc/maitred/maitred.toml", 0o644, &root.join("pkg/container.toml"))?;
    tree.copy("usr/share/maitred/site/index.html", 0o644, &root.join("pkg/site/index.html"))?;
    for license in LICENSES {
        tree.copy(&format!("usr/share/doc/maitred/{license}"), 0o644, &root.join(license))?;
    }
    tree.file(&format!("usr/share/doc/maitred/{}", components::TEXTS), 0o644, licenses);
    tree.copy("etc/ssl/certs/ca-certificates.crt", 0o644, certificates).map_err(|error| {
        format!("{error}; the image needs these certificates (Debian's package ca-certificates)")
    })?;
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
