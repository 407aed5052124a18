//! Kernels of Debian's releases, from the package sources of this machine.

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::Result;

/// A release and the series of its kernel.
pub(crate) struct Suite {
    pub(crate) name: &'static str,
    series: &'static str,
    /// The version of its systemd, where the unit is tested under that.
    pub(crate) systemd: Option<&'static str>,
}

/// The oldest kernel that is supported, one with Landlock but without `PR_GET_AUXV` and cachestat, and a recent one.
pub(crate) const SUITES: &[Suite] = &[
    Suite { name: "bullseye", series: "5.10", systemd: None },
    Suite { name: "bookworm", series: "6.1", systemd: Some("252") },
    Suite { name: "trixie", series: "6.12", systemd: Some("257") },
];
/// Always depends on the newest kernel of its release.
const PACKAGE: &str = "linux-image-amd64";
/// What is kept of its modules: what tests are about, and what a machine with a disk takes.
const MODULES: &str = "'*/kernel/fs/overlayfs/*' '*/kernel/drivers/virtio/*' '*/kernel/drivers/block/virtio_blk.ko*' \
                       '*/kernel/fs/ext4/*' '*/kernel/fs/jbd2/*' '*/kernel/fs/mbcache.ko*' \
                       '*/kernel/crypto/*' '*/kernel/lib/*' '*/kernel/fs/xfs/*' '*/kernel/fs/btrfs/*' \
                       '*/kernel/net/sched/*' '*/kernel/drivers/block/loop.ko*' '*/kernel/arch/x86/crypto/*' \
                       '*/modules.builtin*' '*/modules.order'";
/// What the oldest of the kernels does not have as a module.
const NEWER_MODULES: &str = "'*/kernel/net/tls/*'";
/// One of the modules, by which a directory that was filled with fewer is recognised.
const LAST_MODULE: &str = "kernel/fs/btrfs";

impl fmt::Display for Suite {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "Debian {} (Linux {})", self.name, self.series)
    }
}

/// A kernel whose package was unpacked.
pub(crate) struct Kernel {
    pub(crate) image: PathBuf,
    /// `lib/modules/VERSION/kernel`
    pub(crate) modules: PathBuf,
}

impl Kernel {
    /// What is in the directory already, or else the newest one of the release. Delete the directory to get a newer one.
    pub(crate) fn fetch(suite: &Suite, directory: &Path) -> Result<Kernel> {
        if let Some(kernel) = Kernel::find(suite, directory) {
            return Ok(kernel);
        }
        let apt = Apt::new(suite, directory)?;
        let depends = apt.run("apt-cache", &["depends", PACKAGE], directory)?;
        let newest = depends.lines().find_map(|line| line.trim().strip_prefix("Depends: linux-image-"));
        let package = format!("linux-image-{}", newest.ok_or("its sources have no kernel")?);
        apt.run("apt-get", &["download", &package], directory)?;
        let unpack = format!(
            "for package in {package}_*.deb; do dpkg-deb --fsys-tarfile $package | \
             tar x --wildcards './boot/vmlinuz-*' {MODULES}; dpkg-deb --fsys-tarfile $package | \
             tar x --wildcards {NEWER_MODULES} 2>&1 || echo {package} has no TLS; rm $package; done"
        );
        run("sh", Command::new("sh").args(["-ec", &unpack]).current_dir(directory))?;
        Kernel::find(suite, directory)
            .ok_or_else(|| format!("{package} is no kernel {}", suite.series).into())
    }

    fn find(suite: &Suite, directory: &Path) -> Option<Kernel> {
        let image_name = format!("vmlinuz-{}.", suite.series);
        let image = first(&directory.join("boot"), &image_name)?;
        let roots = ["lib/modules", "usr/lib/modules"].into_iter();
        let modules = roots.filter_map(|root| first(&directory.join(root), suite.series)).next()?;
        modules.join(LAST_MODULE).exists().then(|| Kernel { image, modules: modules.join("kernel") })
    }

    /// Whether this is a module of its own, and not built in.
    pub(crate) fn has_module(&self, module: &str) -> bool {
        let path = self.modules.join(module);
        path.exists() || PathBuf::from(format!("{}.xz", path.display())).exists()
    }

    /// Copies a module. Newer kernels come with compressed ones, which busybox need not be able to read.
    pub(crate) fn unpack_module(&self, module: &str, to: &Path) -> Result<()> {
        let path = self.modules.join(module);
        let name = path.file_name().unwrap_or_default();
        if path.exists() {
            fs::copy(&path, to.join(name))?;
            return Ok(());
        }
        let packed = format!("{}.xz", path.display());
        let unpacked = Command::new("xz").args(["-dc", &packed]).stdin(Stdio::null()).output()?;
        if !unpacked.status.success() {
            return Err(format!("xz: {packed}: {}", String::from_utf8_lossy(&unpacked.stderr)).into());
        }
        fs::write(to.join(name), unpacked.stdout)?;
        Ok(())
    }
}

/// The entry of a directory whose name begins so.
fn first(directory: &Path, begin: &str) -> Option<PathBuf> {
    let mut entries = fs::read_dir(directory).ok()?.flatten().map(|entry| entry.path());
    entries.find(|path| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(begin)))
}

/// Apt for another release than this machine's, with everything that it keeps in a directory of its own.
pub(crate) struct Apt {
    options: Vec<String>,
}

impl Apt {
    pub(crate) fn new(suite: &Suite, directory: &Path) -> Result<Apt> {
        let state = std::path::absolute(directory)?.join("apt");
        for part in ["sources", "lists/partial", "archives/partial"] {
            fs::create_dir_all(state.join(part))?;
        }
        fs::write(state.join("status"), "")?;
        let found = write_sources(suite, &state.join("sources"))?;
        if found == 0 {
            return Err("this machine has no package sources of Debian".into());
        }
        let at = |key: &str, part: &str| format!("{key}={}", state.join(part).display());
        let options = vec![
            "Dir::Etc::SourceList=/dev/null".to_owned(),
            at("Dir::Etc::SourceParts", "sources"),
            at("Dir::State::Lists", "lists"),
            at("Dir::State::status", "status"),
            at("Dir::Cache", "."),
            at("Dir::Cache::Archives", "archives"),
            // The sandbox's user need not have access to the directory.
            "APT::Sandbox::User=".to_owned(),
            "Acquire::Languages=none".to_owned(),
            "Acquire::IndexTargets::deb::DEP-11::DefaultEnabled=false".to_owned(),
            // The indexes of an old release are not signed anew.
            "Acquire::Check-Valid-Until=false".to_owned(),
            "Acquire::Retries=3".to_owned(),
        ];
        let apt = Apt { options };
        // One source that does not answer leaves those of the others.
        if let Err(why) = apt.run("apt-get", &["update", "-qq"], directory) {
            println!("{suite}: {why}");
        }
        Ok(apt)
    }

    fn run(&self, program: &str, arguments: &[&str], directory: &Path) -> Result<String> {
        let mut command = Command::new(program);
        command.args(self.options.iter().flat_map(|option| ["-o", option]));
        run(program, command.args(arguments).current_dir(directory))
    }
}

/// The sources of this machine, with the name of the other release. Returns how many files there are.
pub(crate) fn write_sources(suite: &Suite, directory: &Path) -> Result<usize> {
    let release = fs::read_to_string("/etc/os-release")?;
    let field = |name: &str| {
        let value = release.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix('='))?;
        Some(value.trim_matches('"').to_owned())
    };
    if field("ID").as_deref() != Some("debian") {
        return Ok(0);
    }
    let Some(host) = field("VERSION_CODENAME") else { return Ok(0) };
    let parts = fs::read_dir("/etc/apt/sources.list.d").into_iter().flatten().flatten();
    let paths = parts.map(|entry| entry.path()).chain([PathBuf::from("/etc/apt/sources.list")]);
    let mut found = 0;
    for path in paths {
        let ending = path.extension().unwrap_or_default().to_string_lossy().into_owned();
        let Ok(text) = fs::read_to_string(&path) else { continue };
        let Some(text) = translate(&text, &ending, &host, suite.name) else { continue };
        fs::write(directory.join(format!("{found}.{ending}")), text)?;
        found += 1;
    }
    Ok(found)
}

/// A file of sources for another release; `None` if it has nothing of this machine's release.
fn translate(text: &str, ending: &str, host: &str, suite: &str) -> Option<String> {
    let is_source = |line: &str| match ending {
        "list" => line.starts_with("deb "),
        "sources" => line.starts_with("Suites:"),
        _ => false,
    };
    let named =
        |word: &str| word == host || word.strip_prefix(host).is_some_and(|rest| rest.starts_with('-'));
    let mut found = false;
    let mut lines = Vec::new();
    for line in text.lines() {
        if !is_source(line) {
            lines.push(line.to_owned());
            continue;
        }
        let words = line.split_whitespace().map(|word| {
            found |= named(word);
            if named(word) { word.replacen(host, suite, 1) } else { word.to_owned() }
        });
        lines.push(words.collect::<Vec<_>>().join(" "));
    }
    lines.push(String::new());
    found.then(|| lines.join("\n"))
}

/// Runs a command; its output, or what it said when it failed.
pub(crate) fn run(name: &str, command: &mut Command) -> Result<String> {
    let output = command.stdin(Stdio::null()).output().map_err(|error| format!("{name}: {error}"))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    Err(format!("{name}: {}: {}", output.status, said.trim()).into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sources_of_another_release() {
        let list = "# deb-src x\ndeb [arch=amd64] http://a/debian bookworm main\ndeb http://a/s bookworm-security main\n";
        let expected = "# deb-src x\ndeb [arch=amd64] http://a/debian trixie main\ndeb http://a/s trixie-security main\n";
        assert_eq!(translate(list, "list", "bookworm", "trixie").as_deref(), Some(expected));
        let sources = "Types: deb\nURIs: http://a/bookworm\nSuites: bookworm bookworm-updates\n";
        let expected = "Types: deb\nURIs: http://a/bookworm\nSuites: trixie trixie-updates\n";
        assert_eq!(translate(sources, "sources", "bookworm", "trixie").as_deref(), Some(expected));
        assert_eq!(translate("deb http://a stable main\n", "list", "bookworm", "trixie"), None);
        assert_eq!(translate(list, "list.disabled", "bookworm", "trixie"), None);
    }
}
