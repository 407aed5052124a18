//! The packages of npm: `maitred` with the Node.js adapter and a launcher, and one for each platform with the server's
//! executable, of which npm installs the fitting one (`optionalDependencies`, `os`, `cpu`). No script runs on installation.

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};

use crate::Result;
use crate::dist::components::TEXTS;
use crate::dist::elf::{self, Libc};
use crate::dist::{LICENSES, VERSION};
use xtask::root;

/// The package of the platform that is built for; an npm scope would have to belong to an organisation.
pub(crate) const PLATFORM: &str = "maitred-linux-x64";

/// Packs both in this directory, and returns the paths: the platform's, and the adapter's.
///
/// # Errors
/// What could not be read or written, or what npm says.
pub(crate) fn build(executable: &Path, licenses: &str, directory: &Path) -> Result<[PathBuf; 2]> {
    let stage = tempfile::tempdir()?;
    std::fs::create_dir_all(directory)?;
    let directory = directory.canonicalize()?;
    let platform = stage.path().join("platform");
    stage_platform(executable, licenses, &platform)?;
    let adapter = stage.path().join("adapter");
    stage_adapter(&adapter)?;
    Ok([pack(&platform, PLATFORM, &directory)?, pack(&adapter, "maitred", &directory)?])
}

fn stage_platform(executable: &Path, texts: &str, directory: &Path) -> Result<()> {
    std::fs::create_dir_all(directory.join("bin"))?;
    let program = directory.join("bin/maitred");
    std::fs::copy(executable, &program)?;
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755))?;
    let elf = elf::read(executable)?;
    if elf.architecture != "x86_64" {
        return Err(format!("{}: the package {PLATFORM} is for x86-64", executable.display()).into());
    }
    let mut description = json!({
        "name": PLATFORM,
        "version": VERSION,
        "description": "The executable of the web server Maitred for Linux on x86-64; install the package maitred",
        "license": "MIT OR Apache-2.0",
        "os": ["linux"],
        "cpu": ["x64"],
        "files": ["bin", "LICENSE-*", TEXTS],
        "preferUnplugged": true,
    });
    // Without this, it is installed where musl is the C library, too.
    if elf.libc != Libc::Static {
        description["libc"] = json!(["glibc"]);
    }
    write_description(directory, &description)?;
    let readme =
        "# Maitred for Linux on x86-64\n\nThe executable for the package `maitred`, which installs it.\n";
    std::fs::write(directory.join("README.md"), readme)?;
    std::fs::write(directory.join(TEXTS), texts)?;
    licenses(directory)
}

fn stage_adapter(directory: &Path) -> Result<()> {
    let adapter = root().join("adapters/node");
    for part in ["lib", "bin"] {
        std::fs::create_dir_all(directory.join(part))?;
        for entry in std::fs::read_dir(adapter.join(part))? {
            let entry = entry?;
            std::fs::copy(entry.path(), directory.join(part).join(entry.file_name()))?;
        }
    }
    std::fs::copy(adapter.join("README.md"), directory.join("README.md"))?;
    let mut description: Value = serde_json::from_slice(&std::fs::read(adapter.join("package.json"))?)?;
    if description["version"] != VERSION {
        return Err(format!(
            "adapters/node/package.json: version {}, Maitred is {VERSION}",
            description["version"]
        )
        .into());
    }
    let Some(fields) = description.as_object_mut() else {
        return Err("adapters/node/package.json is no object".into());
    };
    fields.retain(|name, _| name != "devDependencies" && name != "scripts");
    fields.insert("optionalDependencies".to_owned(), json!({ PLATFORM: VERSION }));
    write_description(directory, &description)?;
    licenses(directory)
}

fn write_description(directory: &Path, description: &Value) -> Result<()> {
    Ok(std::fs::write(directory.join("package.json"), serde_json::to_vec_pretty(description)?)?)
}

fn licenses(directory: &Path) -> Result<()> {
    for license in LICENSES {
        std::fs::copy(root().join(license), directory.join(license))?;
    }
    Ok(())
}

/// npm's own tarballs have fixed times and owners.
fn pack(from: &Path, name: &str, to: &Path) -> Result<PathBuf> {
    let mut npm = Command::new("npm");
    npm.args(["pack", "--silent", "--ignore-scripts", "--offline", "--pack-destination"])
        .arg(to)
        .current_dir(from);
    let output = npm.output().map_err(|error| format!("npm: {error} (Debian's package npm)"))?;
    if !output.status.success() {
        return Err(format!("npm pack of {name}: {}", String::from_utf8_lossy(&output.stderr)).into());
    }
    Ok(to.join(format!("{name}-{VERSION}.tgz")))
}
