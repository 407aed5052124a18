//! The wheel: the Python adapter and the server's executable, for one platform. Same input, same bytes: names are sorted, and
//! times are fixed. The format is that of the binary distribution format of Python packages, version 1.0 (PEP 427, PEP 491).

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use serde::Deserialize;
use sha2::{Digest as _, Sha256};

use crate::Result;
use crate::dist::components::{self, TEXTS};
use crate::dist::elf::{self, Elf, Libc};
use crate::dist::zip::{self, File};
use crate::dist::{LICENSES, VERSION};
use xtask::root;

/// The adapter's compiled part in the wheel.
const LIBRARY: &str = "maitred/_native.abi3.so";

/// What of `pyproject.toml` stands in the wheel, too.
#[derive(Debug, Deserialize)]
struct Pyproject {
    project: Project,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
struct Project {
    name: String,
    version: String,
    description: String,
    requires_python: String,
    keywords: Vec<String>,
    classifiers: Vec<String>,
    optional_dependencies: std::collections::BTreeMap<String, Vec<String>>,
    scripts: std::collections::BTreeMap<String, String>,
}

/// Builds the wheel of a (stripped) executable in this directory, and returns its path. With the adapter's compiled part it is
/// for CPython and the C library of that part; without it, for every Python and all that the executable runs on.
///
/// # Errors
/// What could not be read or written, or why the executable runs on no platform that wheels have a tag for.
pub(crate) fn build(
    executable: &Path,
    library: Option<&Path>,
    licenses: &str,
    directory: &Path,
) -> Result<PathBuf> {
    let adapter = root().join("adapters/python");
    let Pyproject { project } = toml::from_str(&std::fs::read_to_string(adapter.join("pyproject.toml"))?)?;
    if project.version != VERSION {
        return Err(format!(
            "adapters/python/pyproject.toml: version {}, Maitred is {VERSION}",
            project.version
        )
        .into());
    }
    let stem = format!("{}-{}", project.name, project.version);
    let info = format!("{stem}.dist-info");
    let mut elf = elf::read(executable)?;
    let mut interpreter = "py3-none";
    let mut files = modules(&adapter.join("maitred"))?;
    if let Some(library) = library {
        interpreter = "cp39-abi3";
        elf.libc = newer(elf.libc, elf::read(library)?.libc);
        files.push(File { name: LIBRARY.to_owned(), content: std::fs::read(library)?, mode: 0o755 });
        let linked =
            components::linked_into("maitred-python", &adapter.join("native"), std::env::consts::ARCH)?;
        files.push(File::new(format!("{info}/licenses/{TEXTS}-PYTHON"), components::texts(&linked)?));
    }
    let tags: Vec<String> = tags(elf).iter().map(|tag| format!("{interpreter}-{tag}")).collect();
    let platforms = tags.join(".").replace(&format!(".{interpreter}-"), ".");
    let program = File {
        name: format!("{stem}.data/scripts/maitred"),
        content: std::fs::read(executable)?,
        mode: 0o755,
    };
    files.push(program);
    let info = |name: &str| format!("{info}/{name}");
    for license in LICENSES {
        files.push(File::new(info(&format!("licenses/{license}")), std::fs::read(root().join(license))?));
    }
    files.push(File::new(info(&format!("licenses/{TEXTS}")), licenses));
    let readme = std::fs::read_to_string(adapter.join("README.md"))?;
    files.push(File::new(info("METADATA"), metadata(&project, &readme)));
    files.push(File::new(info("WHEEL"), wheel(&tags)));
    files.push(File::new(info("entry_points.txt"), entry_points(&project)));
    files.sort_by(|a, b| a.name.cmp(&b.name));
    let record = info("RECORD");
    files.push(File::new(record.clone(), recorded(&files, &record)));
    let path = directory.join(format!("{stem}-{platforms}.whl"));
    std::fs::create_dir_all(directory)?;
    std::fs::write(&path, zip::archive(&files)?)?;
    Ok(path)
}

fn modules(directory: &Path) -> Result<Vec<File>> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(directory)? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "py") {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            files.push(File::new(format!("maitred/{name}"), std::fs::read(&path)?));
        }
    }
    Ok(files)
}

fn metadata(project: &Project, readme: &str) -> String {
    let mut text = format!(
        "Metadata-Version: 2.4\nName: {}\nVersion: {}\nSummary: {}\nKeywords: {}\nRequires-Python: {}\n\
         License-Expression: MIT OR Apache-2.0\n",
        project.name,
        project.version,
        project.description,
        project.keywords.join(","),
        project.requires_python
    );
    let licenses = LICENSES.iter().chain([&TEXTS]);
    licenses.for_each(|license| _ = writeln!(text, "License-File: {license}"));
    project.classifiers.iter().for_each(|classifier| _ = writeln!(text, "Classifier: {classifier}"));
    for (extra, requirements) in &project.optional_dependencies {
        _ = writeln!(text, "Provides-Extra: {extra}");
        requirements.iter().for_each(|one| _ = writeln!(text, "Requires-Dist: {one}; extra == \"{extra}\""));
    }
    text + "Description-Content-Type: text/markdown\n\n" + readme
}

fn wheel(tags: &[String]) -> String {
    let mut text = "Wheel-Version: 1.0\nGenerator: maitred-xtask\nRoot-Is-Purelib: false\n".to_owned();
    tags.iter().for_each(|tag| _ = writeln!(text, "Tag: {tag}"));
    text
}

fn entry_points(project: &Project) -> String {
    let mut text = "[console_scripts]\n".to_owned();
    project.scripts.iter().for_each(|(name, function)| _ = writeln!(text, "{name} = {function}"));
    text
}

/// Name, hash and size of all files; its own line has only a name.
fn recorded(files: &[File], own: &str) -> String {
    let mut text = String::new();
    for File { name, content, .. } in files {
        let hash = BASE64_URL_SAFE_NO_PAD.encode(Sha256::digest(content));
        _ = writeln!(text, "{name},sha256={hash},{}", content.len());
    }
    text + own + ",,\n"
}

/// What both of two files need.
fn newer(one: Libc, other: Libc) -> Libc {
    match (one, other) {
        (Libc::Glibc(one), Libc::Glibc(other)) => Libc::Glibc(one.max(other)),
        (Libc::Static, other) => other,
        (one, Libc::Static) => one,
    }
}

/// The platforms' names. An executable without shared libraries needs no C library, neither glibc nor musl; the kernel that it
/// needs (5.10) no tag can say.
fn tags(elf: Elf) -> Vec<String> {
    let machine = elf.architecture;
    match elf.libc {
        Libc::Static => {
            let tags = ["manylinux_2_17", "manylinux2014", "musllinux_1_1"];
            tags.iter().map(|tag| format!("{tag}_{machine}")).collect()
        }
        Libc::Glibc(minor) => vec![format!("manylinux_2_{}_{machine}", minor.max(17))],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tag_is_what_the_executable_needs() {
        let tags = |architecture, libc| tags(Elf { architecture, libc });
        assert_eq!(tags("x86_64", Libc::Glibc(34)), ["manylinux_2_34_x86_64"]);
        assert_eq!(tags("x86_64", Libc::Glibc(2)), ["manylinux_2_17_x86_64"]);
        let everywhere = ["manylinux_2_17_aarch64", "manylinux2014_aarch64", "musllinux_1_1_aarch64"];
        assert_eq!(tags("aarch64", Libc::Static), everywhere);
    }

    #[test]
    fn a_wheel_with_the_compiled_part_is_for_its_c_library() {
        let directory = tempfile::tempdir().unwrap();
        let executable = std::env::current_exe().unwrap();
        // Any library of this machine's C library stands for it.
        let path = build(&executable, Some(&executable), "MIT", directory.path()).unwrap();
        let name = path.file_name().unwrap().to_str().unwrap();
        let stem = format!("maitred-{VERSION}-cp39-abi3-manylinux_2_");
        assert!(name.starts_with(&stem) && !name.contains("py3-none"), "{name}");
        assert_eq!(newer(Libc::Static, Libc::Glibc(34)), Libc::Glibc(34));
        assert_eq!(newer(Libc::Glibc(36), Libc::Glibc(34)), Libc::Glibc(36));
    }

    #[test]
    fn a_wheel_is_the_same_every_time_and_records_each_file() {
        let (one, two) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let executable = std::env::current_exe().unwrap();
        let first = std::fs::read(build(&executable, None, "MIT", one.path()).unwrap()).unwrap();
        let second = std::fs::read(build(&executable, None, "MIT", two.path()).unwrap()).unwrap();
        assert!(first == second);
        let text = String::from_utf8_lossy(&first);
        let recorded = [File::new("a/b.py".to_owned(), "x")];
        let lines = "a/b.py,sha256=LXEWQrcmsEQBYnyp-6wy9chTD7GQPMTbAiWHF5IaSIE,1\nRECORD,,\n";
        assert_eq!(super::recorded(&recorded, "RECORD"), lines);
        assert!(text.contains(&format!("maitred-{VERSION}.dist-info/licenses/LICENSE-APACHE")));
    }
}
