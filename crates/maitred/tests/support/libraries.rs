//! Builds the libraries that tests load as modules.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

/// The directory of the crate `maitred-module`.
fn home() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../maitred-module").canonicalize().unwrap()
}

/// The directory that has the libraries of the examples in Rust, built with the profile of this test.
pub(crate) fn examples() -> &'static Path {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(|| {
        let own = std::env::current_exe().unwrap();
        let profile = own.ancestors().nth(2).unwrap();
        let target = profile.parent().unwrap();
        // Only `dev` has a directory of another name.
        let name = profile.file_name().and_then(OsStr::to_str).unwrap();
        let name = if name == "debug" { "dev" } else { name };
        let mut cargo = Command::new(env!("CARGO"));
        // What this test was built with is there: nothing is fetched.
        cargo.args(["build", "--locked", "--offline", "-p", "maitred-module", "--examples"]);
        cargo.args(["--profile", name, "--target-dir"]).arg(target).current_dir(home());
        // `cargo xtask test` has built all examples of the workspace.
        if std::env::var_os("MAITRED_XTASK_BUILT").is_none() {
            run(&mut cargo);
        }
        profile.join("examples")
    })
}

/// The library of an example in Rust.
pub(crate) fn example(name: &str) -> PathBuf {
    examples().join(format!("lib{name}.so"))
}

/// The module that does what none should do, compiled into this directory.
pub(crate) fn faulty(directory: &Path) -> PathBuf {
    library(directory, &home().join("tests/modules/faulty.c"))
}

/// The module that does what requests say, compiled into this directory.
pub(crate) fn probe(directory: &Path) -> PathBuf {
    library(directory, &Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/processes/in_process/probe.c"))
}

/// The example in C, compiled into this directory.
pub(crate) fn hello_in_c(directory: &Path) -> PathBuf {
    library(directory, &home().join("examples/c/hello.c"))
}

/// Compiles a text into a shared library of this directory.
pub(crate) fn library_of(directory: &Path, name: &str, source: &str) -> PathBuf {
    let path = directory.join(format!("{name}.c"));
    std::fs::write(&path, source).unwrap();
    library(directory, &path)
}

fn library(directory: &Path, source: &Path) -> PathBuf {
    let name = source.file_stem().and_then(OsStr::to_str).unwrap();
    let library = directory.join(format!("lib{name}.so"));
    let mut cc = Command::new("cc");
    cc.args(["-std=c99", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-O1", "-g"]);
    cc.args(["-fPIC", "-fvisibility=hidden", "-shared", "-pthread", "-I"]).arg(home().join("include"));
    run(cc.arg("-o").arg(&library).arg(source));
    library
}

/// Runs a program that has to succeed.
pub(crate) fn run(command: &mut Command) {
    let output = command.stdin(Stdio::null()).output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {}\n{said}", output.status);
}
