//! A whole Debian with systemd as process 1, in which the unit is tested as it is installed. The disk is made once for each
//! release, with what `mmdebstrap` gets from the package sources of this machine; what is tested comes with the archive from
//! which the kernel starts.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use super::guest::{Console, pack, run_machine};
use super::kernels::{Kernel, Suite, run, write_sources};
use crate::Result;

/// What Debian's smallest variant does not have.
pub(crate) const PACKAGES: &str =
    "systemd-sysv,dbus,curl,procps,nodejs,php-cli,default-jre-headless,libbsh-java";
/// What a machine of two minutes does not need.
const MASKED: &[&str] = &[
    "apt-daily.timer",
    "apt-daily-upgrade.timer",
    "dpkg-db-backup.timer",
    "e2scrub_all.timer",
    "e2scrub_reap.service",
    "fstrim.timer",
    "getty@tty1.service",
    "serial-getty@ttyS0.service",
    "modprobe@drm.service",
    "modprobe@fuse.service",
    "modprobe@loop.service",
    "modprobe@efi_pstore.service",
    "modprobe@dm_mod.service",
    "phpsessionclean.timer",
    "systemd-logind.service",
    "systemd-pstore.service",
];
/// Modules that a disk takes, where they are not built into the kernel.
const MODULES: &[&str] = &[
    "drivers/virtio/virtio.ko",
    "drivers/virtio/virtio_ring.ko",
    "drivers/virtio/virtio_pci_legacy_dev.ko",
    "drivers/virtio/virtio_pci_modern_dev.ko",
    "drivers/virtio/virtio_pci.ko",
    "drivers/block/virtio_blk.ko",
    "crypto/crc32c_generic.ko",
    "lib/crc16.ko",
    "fs/mbcache.ko",
    "fs/jbd2/jbd2.ko",
    "fs/ext4/ext4.ko",
];
const DISK_BYTES: u64 = 3 << 30;
/// Seconds until a machine without a result is stopped: most take two minutes, and busy hosts several times as long.
const SECONDS_MAX: &str = "1500";
/// The parts of the test, by their paths in the machine.
const FILES: &[(&str, &str)] = &[
    ("test.sh", include_str!("../../vm/debian/test.sh")),
    ("etc/systemd/system/test.service", include_str!("../../vm/debian/test.service")),
    ("etc/maitred/maitred.toml", include_str!("../../vm/debian/maitred.toml")),
    ("root/compilers.toml", include_str!("../../vm/debian/compilers.toml")),
    ("srv/site/index.html", "hello\n"),
    ("srv/compilers/index.php", include_str!("../../vm/debian/index.php")),
    ("srv/compilers/server.js", include_str!("../../vm/debian/server.js")),
    ("srv/compilers/server.bsh", include_str!("../../vm/debian/server.bsh")),
    ("etc/systemd/system/maitred.service", include_str!("../../../pkg/maitred.service")),
    ("usr/lib/sysusers.d/maitred.conf", include_str!("../../../pkg/maitred.sysusers")),
    ("usr/lib/tmpfiles.d/maitred.conf", include_str!("../../../pkg/maitred.tmpfiles")),
    ("root/unprivileged.conf", include_str!("../../../pkg/unprivileged.conf")),
    ("root/acme.toml", include_str!("../../vm/debian/acme.toml")),
];

/// A machine that can be booted.
pub(crate) struct Debian {
    kernel: Kernel,
    disk: PathBuf,
}

impl Debian {
    /// What is in the directory already, if it was made in the same way. Delete it to get newer packages.
    pub(crate) fn fetch(suite: &Suite, kernel: Kernel, directory: &Path, packages: &str) -> Result<Debian> {
        let directory = std::path::absolute(directory)?;
        let (disk, recipe) = (directory.join("disk.img"), directory.join("recipe"));
        let wanted =
            format!("{packages}\n{}\n{DISK_BYTES}\n{}\n", kernel.modules.display(), MASKED.join("\n"));
        if disk.exists() && fs::read_to_string(&recipe).is_ok_and(|made| made == wanted) {
            return Ok(Debian { kernel, disk });
        }
        let began = Instant::now();
        // An earlier run may have been ended at any point.
        let _ = fs::remove_dir_all(&directory);
        let (sources, root) = (directory.join("sources"), directory.join("root"));
        fs::create_dir_all(&sources)?;
        if write_sources(suite, &sources)? == 0 {
            return Err("this machine has no package sources of Debian".into());
        }
        let sources = fs::read_dir(&sources)?.flatten().map(|entry| entry.path());
        let mut make = Command::new("mmdebstrap");
        make.args(["--variant=minbase", "--mode=root", "--quiet", &format!("--include={packages}")]);
        make.args(["--dpkgopt=path-exclude=/usr/share/doc/*", "--dpkgopt=path-exclude=/usr/share/locale/*"]);
        run("mmdebstrap", make.arg(suite.name).arg(&root).args(sources))?;
        finish(&root)?;
        if packages.contains("kmod") {
            copy_modules(&kernel, &root)?;
        }
        fs::File::create(&disk)?.set_len(DISK_BYTES)?;
        let mut fill = Command::new("mkfs.ext4");
        fill.args(["-q", "-F", "-O", "^has_journal", "-E", "lazy_itable_init=1,root_owner=0:0", "-d"]);
        run("mkfs.ext4", fill.arg(&root).arg(&disk))?;
        fs::remove_dir_all(&root)?;
        fs::write(&recipe, wanted)?;
        println!("{suite}: its disk was made in {} s", began.elapsed().as_secs());
        Ok(Debian { kernel, disk })
    }

    /// Boots it and runs the test.
    pub(crate) fn run(&self, programs: &[PathBuf]) -> Result<()> {
        self.boot(&["-smp", "2", "-m", "1024"], "", SECONDS_MAX, |root| install(programs, root))?.judge()
    }

    /// Boots it, with files of this run (`install` puts them into a directory), and returns what it has said at its end.
    /// `machine` is more for QEMU, `words` for the kernel.
    pub(crate) fn boot(
        &self,
        machine: &[&str],
        words: &str,
        seconds_max: &str,
        install: impl FnOnce(&Path) -> Result<()>,
    ) -> Result<Console> {
        let scratch = tempfile::tempdir()?;
        let root = scratch.path().join("root");
        let drive =
            format!("file={},format=raw,if=none,id=disk,snapshot=on,cache=unsafe", self.disk.display());
        for directory in ["bin", "modules", "files"] {
            fs::create_dir_all(root.join(directory))?;
        }
        fs::copy("/bin/busybox", root.join("bin/busybox"))?;
        let mut names = String::new();
        for module in MODULES.iter().filter(|module| self.kernel.has_module(module)) {
            self.kernel.unpack_module(module, &root.join("modules"))?;
            names.push_str(module.rsplit('/').next().unwrap_or_default());
            names.push('\n');
        }
        fs::write(root.join("modules/names"), names)?;
        fs::write(root.join("init"), include_str!("../../vm/debian/init.sh"))?;
        fs::set_permissions(root.join("init"), fs::Permissions::from_mode(0o755))?;
        install(&root.join("files"))?;
        let disk = ["-cpu", "max", "-drive", &drive, "-device", "virtio-blk-pci,drive=disk"];
        let machine = machine.iter().copied().chain(disk);
        let words = format!("quiet loglevel=4 systemd.show_status=0 {words}");
        run_machine(&self.kernel, &pack(&root)?, machine, &words, seconds_max)
    }
}

/// What of the kernel's modules is kept, where the machine's own `modprobe` looks for it.
fn copy_modules(kernel: &Kernel, root: &Path) -> Result<()> {
    let version = kernel.modules.parent().ok_or("a kernel without a version")?;
    let name = version.file_name().unwrap_or_default();
    let to = root.join("lib/modules");
    fs::create_dir_all(&to)?;
    run("cp", Command::new("cp").arg("-a").arg(version).arg(&to))?;
    run("depmod", Command::new("chroot").arg(root).arg("depmod").arg(name))?;
    Ok(())
}

/// Makes a machine of a file system with packages.
fn finish(root: &Path) -> Result<()> {
    fs::write(root.join("etc/hostname"), "debian\n")?;
    fs::write(root.join("etc/hosts"), "127.0.0.1 localhost debian\n::1 localhost\n")?;
    let units = root.join("etc/systemd/system");
    for unit in MASKED {
        let _ = fs::remove_file(units.join(unit));
        symlink("/dev/null", units.join(unit))?;
    }
    let wanted = units.join("multi-user.target.wants");
    fs::create_dir_all(&wanted)?;
    symlink("../test.service", wanted.join("test.service"))?;
    Ok(())
}

/// What is tested, where a package would put it.
fn install(programs: &[PathBuf], root: &Path) -> Result<()> {
    for (name, text) in FILES {
        let path = root.join(name);
        fs::create_dir_all(path.parent().unwrap_or(root))?;
        fs::write(path, text)?;
    }
    for program in programs {
        let name = program.file_name().unwrap_or_default();
        let directory = root.join(if name == "maitred" { "usr/bin" } else { "usr/local/bin" });
        fs::create_dir_all(&directory)?;
        fs::copy(program, directory.join(name))?;
    }
    Ok(())
}
