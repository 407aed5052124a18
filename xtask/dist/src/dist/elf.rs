//! What an executable needs of the machine that it runs on, as `readelf` says it.

use std::path::Path;
use std::process::Command;

use crate::Result;

/// The C library that an executable loads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Libc {
    /// The executable loads no library at all.
    Static,
    /// glibc, 2 point this or newer.
    Glibc(u32),
}

/// Where an executable runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Elf {
    /// As Rust names it.
    pub(crate) architecture: &'static str,
    pub(crate) libc: Libc,
}

/// Reads an executable's headers.
///
/// # Errors
/// When it is no executable, or one that nothing here packs.
pub(crate) fn read(executable: &Path) -> Result<Elf> {
    let output =
        Command::new("readelf").args(["-W", "-h", "-d", "-V"]).arg(executable).env("LC_ALL", "C").output();
    let output = output.map_err(|error| format!("readelf: {error} (Debian's package binutils)"))?;
    if !output.status.success() {
        let why = String::from_utf8_lossy(&output.stderr).into_owned();
        return Err(format!("{} is no executable: {why}", executable.display()).into());
    }
    parse(&String::from_utf8_lossy(&output.stdout))
        .map_err(|why| format!("{}: {why}", executable.display()).into())
}

fn parse(said: &str) -> Result<Elf> {
    let architecture = if said.contains("X86-64") {
        "x86_64"
    } else if said.contains("AArch64") {
        "aarch64"
    } else {
        return Err("the executable is neither for x86-64 nor for AArch64".into());
    };
    if !said.contains("(NEEDED)") {
        return Ok(Elf { architecture, libc: Libc::Static });
    }
    if said.contains("libc.musl") {
        return Err(
            "the executable needs musl's shared library: link it statically, and it runs everywhere".into()
        );
    }
    let versions = said.split("Name: GLIBC_2.").skip(1);
    let minor = |text: &str| text.split(|c: char| !c.is_ascii_digit()).next()?.parse::<u32>().ok();
    let newest =
        versions.filter_map(minor).max().ok_or("the executable needs shared libraries, but not glibc's")?;
    Ok(Elf { architecture, libc: Libc::Glibc(newest) })
}

#[cfg(test)]
mod tests {
    use super::*;

    const X86: &str = "  Machine: Advanced Micro Devices X86-64\n";
    const NEEDED: &str = " 0x0000000000000001 (NEEDED)  Shared library: [libc.so.6]\n";

    #[test]
    fn what_an_executable_needs_is_read() {
        let glibc = format!("{X86}{NEEDED}  Name: GLIBC_2.4  Flags: none\n  Name: GLIBC_2.34  Flags: none\n");
        assert_eq!(parse(&glibc).unwrap(), Elf { architecture: "x86_64", libc: Libc::Glibc(34) });
        let of_arm = Elf { architecture: "aarch64", libc: Libc::Static };
        assert_eq!(parse("  Machine: AArch64\n").unwrap(), of_arm);
        assert!(parse("  Machine: RISC-V\n").is_err());
        let musl = format!("{X86} (NEEDED)  Shared library: [libc.musl-x86_64.so.1]\n");
        assert!(parse(&musl).unwrap_err().to_string().contains("statically"));
        let own = read(&std::env::current_exe().unwrap()).unwrap();
        assert_eq!(own.architecture, std::env::consts::ARCH);
        assert!(read(Path::new("/proc/self/status")).is_err());
    }
}
