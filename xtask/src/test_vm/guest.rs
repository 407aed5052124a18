//! One machine: its file system is an archive in memory, its console a pipe.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::Test;
use super::kernels::{Kernel, run};
use crate::Result;

/// Process 1, and what it starts the server with.
const INIT: &str = include_str!("../../vm/guest.sh");
const CONFIGURATION: &str = include_str!("../../vm/maitred.toml");
const ACCOUNTS: &str = "root:x:0:0::/:/bin/sh\nwww-data:x:33:33::/:/bin/sh\napp:x:34:34::/:/bin/sh\n";
const GROUPS: &str = "root:x:0:\nwww-data:x:33:\napp:x:34:\n";
/// Seconds until a machine without a result is stopped: most take ten, those of eight processors a minute, and busy hosts
/// several times as long.
const SECONDS_MAX: &str = "600";
/// More than the server keeps in memory, and no multiple of anything.
const LARGE_BYTES: u32 = 300_007;
/// What the last line of a test that has passed says.
const PASSED: &str = "VM 0";

/// A machine that is about to boot.
pub(crate) struct Guest<'a> {
    pub(crate) kernel: &'a Kernel,
    pub(crate) programs: &'a [PathBuf],
    pub(crate) test: &'a Test,
}

impl Guest<'_> {
    /// Boots it and runs the test.
    pub(crate) fn run(&self) -> Result<()> {
        let scratch = tempfile::tempdir()?;
        self.fill(&scratch.path().join("root"))?;
        let archive = pack(&scratch.path().join("root"))?;
        let machine = ["-m", "512"].into_iter().chain(self.test.machine.iter().copied());
        run_machine(self.kernel, &archive, machine, "quiet", SECONDS_MAX)?.judge()
    }

    /// The file system.
    fn fill(&self, root: &Path) -> Result<()> {
        for directory in ["bin", "etc", "srv", "run", "tmp", "proc", "sys", "dev", "modules"] {
            fs::create_dir_all(root.join(directory))?;
        }
        for program in self.programs.iter().map(PathBuf::as_path).chain([Path::new("/bin/busybox")]) {
            fs::copy(program, root.join("bin").join(program.file_name().unwrap_or_default()))?;
            copy_libraries(program, root)?;
        }
        for module in self.test.modules {
            self.kernel.unpack_module(module, &root.join("modules"))?;
        }
        let files = [
            ("etc/passwd", ACCOUNTS),
            ("etc/group", GROUPS),
            ("etc/maitred.toml", CONFIGURATION),
            ("srv/index.html", "hello\n"),
            ("test.sh", self.test.script),
            ("init", INIT),
        ];
        for (name, text) in files {
            fs::write(root.join(name), text)?;
        }
        let large: Vec<u8> = (0..LARGE_BYTES).map(|n| (n.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
        fs::write(root.join("srv/large"), large)?;
        fs::set_permissions(root.join("init"), fs::Permissions::from_mode(0o755))?;
        Ok(())
    }
}

/// Makes the archive beside a directory that the kernel begins with.
pub(crate) fn pack(root: &Path) -> Result<PathBuf> {
    let pack = "find . | cpio --create --format=newc --quiet | gzip -1 >../initrd";
    run("cpio", Command::new("sh").args(["-ec", pack]).current_dir(root))?;
    Ok(root.with_file_name("initrd"))
}

/// What a machine has left behind.
pub(crate) struct Console {
    pub(crate) said: String,
    /// Why it has ended, if it has not said so itself.
    ended: String,
}

impl Console {
    /// The last line that begins so: `VM STATUS REASON`.
    pub(crate) fn result(&self) -> Result<()> {
        let lines = self.said.lines().filter_map(|line| line.find("VM ").and_then(|at| line.get(at..)));
        match lines.map(str::trim_end).next_back() {
            Some(PASSED) => Ok(()),
            Some(result) => Err(result.to_owned().into()),
            None => Err(self.ended.clone().into()),
        }
    }

    /// The same, and shows everything if it has failed.
    pub(crate) fn judge(&self) -> Result<()> {
        self.result().inspect_err(|_| println!("{}", self.said))
    }
}

/// Boots a machine and waits for its end. `machine` is more for QEMU, `words` for the kernel.
pub(crate) fn run_machine<'a>(
    kernel: &Kernel,
    archive: &Path,
    machine: impl Iterator<Item = &'a str>,
    words: &str,
    seconds_max: &str,
) -> Result<Console> {
    let mut qemu = Command::new("timeout");
    qemu.args([seconds_max, "qemu-system-x86_64", "-accel", "tcg,thread=multi"]);
    qemu.args(["-nodefaults", "-no-user-config", "-no-reboot", "-display", "none"]);
    // A file, so that one can watch it.
    let console = archive.with_file_name("console");
    qemu.arg("-serial").arg(format!("file:{}", console.display()));
    qemu.args(machine).arg("-kernel").arg(&kernel.image).arg("-initrd").arg(archive);
    qemu.args(["-append", &format!("console=ttyS0 panic=-1 mitigations=off {words}")]);
    let output = qemu.stdin(Stdio::null()).output()?;
    let said = printable(&fs::read(&console).unwrap_or_default());
    let ended = match output.status.code() {
        Some(124) => format!("no result after {seconds_max} s"),
        _ => {
            let stderr = String::from_utf8_lossy(&output.stderr);
            format!("it has ended without a result, {}: {}", output.status, stderr.trim())
        }
    };
    Ok(Console { said, ended })
}

/// The shared libraries of a program, where it looks for them; a static one has none.
fn copy_libraries(program: &Path, root: &Path) -> Result<()> {
    let Ok(listing) = run("ldd", Command::new("ldd").arg(program)) else { return Ok(()) };
    for path in listing.split_whitespace().filter(|word| word.starts_with('/')) {
        let to = root.join(path.trim_start_matches('/'));
        if let Some(directory) = to.parent() {
            fs::create_dir_all(directory)?;
        }
        fs::copy(path, to)?;
    }
    Ok(())
}

/// What came over the console, as far as a log may have it.
fn printable(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    text.chars().filter(|char| *char == '\n' || !char.is_control()).collect()
}
