//! The crates that are linked into the executable, as Cargo resolves them, with the licences that they are under: for the bill
//! of materials, and for the texts that go with every artefact. What only tests, build scripts or other systems need is not
//! among them.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use serde::Deserialize;

use crate::Result;

/// The file in each artefact.
pub(crate) const TEXTS: &str = "THIRD-PARTY-LICENSES";
/// How names of files begin that hold a licence or a notice that has to be passed on.
const BEGINNINGS: [&str; 6] = ["LICENSE", "LICENCE", "COPYING", "COPYRIGHT", "NOTICE", "UNLICENSE"];
/// What is linked beside crates.
const LIBRARIES: &str = "\
The executable contains parts of Rust's standard library (MIT OR Apache-2.0, the Rust project's developers). A static executable
contains parts of the GNU C Library, too (LGPL-2.1-or-later, the Free Software Foundation and others; its sources are at
https://sourceware.org/glibc/): the sources of Maitred, whose licences allow it, are all that is needed to link it with another
version of that library.
";

/// A crate that is linked.
#[derive(Debug)]
pub(crate) struct Component {
    pub(crate) name: String,
    pub(crate) version: String,
    /// An expression of SPDX, as its author wrote it.
    pub(crate) license: String,
    directory: PathBuf,
}

#[derive(Deserialize)]
struct Metadata {
    packages: Vec<Package>,
    resolve: Resolve,
}

#[derive(Deserialize)]
struct Package {
    id: String,
    name: String,
    version: String,
    license: Option<String>,
    /// None of a member of the workspace.
    source: Option<String>,
    manifest_path: PathBuf,
}

#[derive(Deserialize)]
struct Resolve {
    nodes: Vec<Node>,
}

#[derive(Deserialize)]
struct Node {
    id: String,
    deps: Vec<Dependency>,
}

#[derive(Deserialize)]
struct Dependency {
    pkg: String,
    dep_kinds: Vec<Kind>,
}

#[derive(Deserialize)]
struct Kind {
    /// `dev`, `build`, or none.
    kind: Option<String>,
}

/// All of them, by name and version.
///
/// # Errors
/// What Cargo says, or a crate that names no licence.
pub(crate) fn linked(root: &Path, architecture: &str) -> Result<Vec<Component>> {
    linked_into("maitred", root, architecture)
}

/// The same of another package of ours: `root` is a directory of its workspace.
///
/// # Errors
/// As [`linked`].
pub(crate) fn linked_into(package: &str, root: &Path, architecture: &str) -> Result<Vec<Component>> {
    let mut cargo = xtask::step::cargo();
    cargo.args(["metadata", "--format-version", "1", "--locked", "--filter-platform"]);
    let output = cargo.arg(format!("{architecture}-unknown-linux-gnu")).current_dir(root).output()?;
    if !output.status.success() {
        return Err(format!("cargo metadata: {}", String::from_utf8_lossy(&output.stderr)).into());
    }
    select(package, serde_json::from_slice(&output.stdout)?)
}

fn select(package: &str, metadata: Metadata) -> Result<Vec<Component>> {
    let nodes: BTreeMap<_, _> = metadata.resolve.nodes.iter().map(|node| (node.id.as_str(), node)).collect();
    let start = metadata.packages.iter().find(|found| found.source.is_none() && found.name == package);
    let start = start.ok_or_else(|| format!("the workspace has no package {package}"))?;
    let mut open = vec![start.id.as_str()];
    let mut seen = BTreeSet::new();
    while let Some(id) = open.pop() {
        if seen.insert(id) {
            let linked = nodes.get(id).into_iter().flat_map(|node| &node.deps);
            let linked = linked.filter(|one| one.dep_kinds.iter().any(|kind| kind.kind.is_none()));
            open.extend(linked.map(|one| one.pkg.as_str()));
        }
    }
    let mut components = Vec::new();
    for package in &metadata.packages {
        if package.source.is_none() || !seen.contains(package.id.as_str()) {
            continue;
        }
        let license = package.license.clone();
        components.push(Component {
            name: package.name.clone(),
            version: package.version.clone(),
            license: license.ok_or_else(|| format!("the crate {} names no licence", package.name))?,
            directory: package.manifest_path.parent().unwrap_or(Path::new("/")).to_owned(),
        });
    }
    components.sort_by(|a, b| (&a.name, &a.version).cmp(&(&b.name, &b.version)));
    Ok(components)
}

/// The texts of all licences and notices, each once, with the crates that bring it; then the crates that bring none.
///
/// # Errors
/// A crate's directory cannot be read.
pub(crate) fn texts(components: &[Component]) -> Result<String> {
    let mut by_text: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let mut without = Vec::new();
    let mut all = format!("Licences of what this part of Maitred is linked with\n\n{LIBRARIES}\nCrates:\n");
    for component in components {
        let name = format!("{} {} ({})", component.name, component.version, component.license);
        _ = writeln!(all, "- {name}");
        let found = files(&component.directory)?;
        if found.is_empty() {
            without.push(name.clone());
        }
        for text in found {
            let users = by_text.entry(text).or_default();
            if users.last() != Some(&name) {
                users.push(name.clone());
            }
        }
    }
    let mut by_text: Vec<_> = by_text.into_iter().collect();
    by_text.sort_by(|a, b| a.1.cmp(&b.1).then_with(|| a.0.cmp(&b.0)));
    for (text, users) in by_text {
        _ = write!(all, "\n{}\n{}\n\n{}\n", "=".repeat(79), users.join("\n"), text.trim_end());
    }
    if !without.is_empty() {
        _ = write!(all, "\n{}\nWithout a text of their own:\n{}\n", "=".repeat(79), without.join("\n"));
    }
    Ok(all)
}

fn files(directory: &Path) -> Result<Vec<String>> {
    let entries =
        std::fs::read_dir(directory).map_err(|error| format!("{}: {error}", directory.display()))?;
    let mut paths = Vec::new();
    for entry in entries {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().to_uppercase();
        if path.is_file() && BEGINNINGS.iter().any(|begin| name.starts_with(begin)) {
            paths.push(path);
        }
    }
    paths.sort();
    let mut texts = Vec::new();
    for path in paths {
        let content = std::fs::read(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        texts.push(String::from_utf8_lossy(&content).replace("\r\n", "\n"));
    }
    Ok(texts)
}

#[cfg(test)]
mod tests {
    use super::*;
    use xtask::root;

    #[test]
    fn linked_crates_come_with_their_texts() {
        let components = linked(root(), "x86_64").unwrap();
        let names: Vec<_> = components.iter().map(|one| one.name.as_str()).collect();
        assert!(names.contains(&"rustls") && names.contains(&"aws-lc-sys"), "{names:?}");
        // A dependency of tests, one of a build script, and one of xtask.
        assert!(
            !names.contains(&"proptest") && !names.contains(&"cmake") && !names.contains(&"tar"),
            "{names:?}"
        );
        let texts = texts(&components).unwrap();
        for part in ["Permission is hereby granted", "Apache License", "aws-lc-sys", "GNU C Library"] {
            assert!(texts.contains(part), "{part}");
        }
    }

    #[test]
    fn only_what_is_linked_is_selected_and_its_licence_is_needed() {
        let metadata = |license: Option<&str>| {
            let package = |id: &str, source: Option<&str>| {
                serde_json::json!({"id": id, "name": id, "version": "1.0.0", "license": license, "source": source,
                    "manifest_path": format!("/{id}/Cargo.toml")})
            };
            let dependency =
                |id: &str, kind: Option<&str>| serde_json::json!({"pkg": id, "dep_kinds": [{"kind": kind}]});
            let json = serde_json::json!({
                "packages": [package("maitred", None), package("a", Some("r")), package("b", Some("r")), package("c", Some("r"))],
                "resolve": {"nodes": [
                    {"id": "maitred", "deps": [dependency("a", None), dependency("c", Some("dev"))]},
                    {"id": "a", "deps": [dependency("b", Some("build"))]}, {"id": "b", "deps": []}, {"id": "c", "deps": []},
                ]},
            });
            serde_json::from_value::<Metadata>(json).unwrap()
        };
        let components = select("maitred", metadata(Some("MIT"))).unwrap();
        assert_eq!(components.len(), 1);
        assert_eq!((components[0].name.as_str(), components[0].directory.to_str()), ("a", Some("/a")));
        assert!(
            select("maitred", metadata(None)).unwrap_err().to_string().contains("crate a names no licence")
        );
    }
}
