//! The directions of dependencies: crates by their manifests, modules and files by their real imports and calls.
//!
//! | module | what it tests |
//! |---|---|
//! | [`crates`] | a crate depends on crates below its line |
//! | [`modules`] | a module imports what stands below its line |
//! | [`layers`] | the layers of the worker's threads; connections do no I/O |
//! | [`circles`] | circles among files only become fewer and smaller |
//! | [`architecture`] | the map of the code shows the crates, names code that is there, and is short |
//! | [`source`], [`calls`] | how imports and calls are read |

#![allow(clippy::expect_used, reason = "helpers of tests, which clippy.toml does not know to be such")]

mod architecture;
mod calls;
mod circles;
mod crates;
mod layers;
mod modules;
mod source;

use maitred_tidy::root;
use source::Crate;

/// The packages below `crates/`, sorted.
fn packages() -> Vec<String> {
    let entries = std::fs::read_dir(root().join("crates")).expect("the directory can be read");
    let name = |entry: std::io::Result<std::fs::DirEntry>| {
        let path = entry.expect("its entries can be read").path();
        path.join("Cargo.toml").exists().then(|| path.file_name()?.to_str().map(str::to_owned)).flatten()
    };
    let mut packages: Vec<String> = entries.filter_map(name).collect();
    packages.sort();
    assert!(packages.len() > 20, "{packages:?}: are they all there?");
    packages
}

fn read(package: &str) -> Crate {
    let src = root().join("crates").join(package).join("src");
    Crate::read(&src).unwrap_or_else(|error| panic!("{package}: {error}"))
}
