//! Builds what the tests load.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

use maitred_sys::module::host::Module;

use crate::server::serve;

/// The crate's directory.
pub(crate) fn home() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The directory that has the libraries of the examples, built with the profile of this test.
fn examples() -> &'static Path {
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
        cargo.args([
            "build",
            "--locked",
            "--offline",
            "-p",
            "maitred-module",
            "--examples",
            "--profile",
            name,
        ]);
        cargo.arg("--target-dir").arg(target).current_dir(home());
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

/// A module of an example, which has to begin.
pub(crate) fn begin(name: &str, config: &str) -> Module {
    serve();
    Module::open(&example(name), config, 1).unwrap()
}

/// What the module of an example says against a configuration.
pub(crate) fn refusal(name: &str, config: &str) -> String {
    serve();
    Module::open(&example(name), config, 1).unwrap_err()
}

/// Compiles C into a shared library of this directory.
pub(crate) fn library(directory: &Path, source: &Path) -> PathBuf {
    let name = source.file_stem().and_then(OsStr::to_str).unwrap();
    let library = directory.join(format!("lib{name}.so"));
    let mut cc = Command::new("cc");
    cc.args(["-std=c99", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-O1", "-g"]);
    cc.args(["-fPIC", "-fvisibility=hidden", "-shared", "-pthread", "-I"]).arg(home().join("include"));
    run(cc.arg("-o").arg(&library).arg(source));
    library
}

/// The same of a text.
pub(crate) fn library_of(directory: &Path, name: &str, source: &str) -> PathBuf {
    let path = directory.join(format!("{name}.c"));
    std::fs::write(&path, source).unwrap();
    library(directory, &path)
}

/// Runs a program that has to succeed, and gives back its output.
pub(crate) fn run(command: &mut Command) -> String {
    let output = command.stdin(Stdio::null()).output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {}\n{said}", output.status);
    String::from_utf8(output.stdout).unwrap()
}

/// Says that a test is left out because a program is missing: in the list that `cargo xtask test` prints.
pub(crate) fn skip_missing(why: &str) {
    use std::io::Write as _;

    eprintln!("SKIPPED: {why}");
    let Some(path) = std::env::var_os("MAITRED_SKIPS") else { return };
    let thread = std::thread::current();
    let line = format!("missing\t{}\t{why}\n", thread.name().unwrap_or("a test"));
    let mut file = std::fs::OpenOptions::new().append(true).create(true).open(path).unwrap();
    file.write_all(line.as_bytes()).unwrap();
}

/// Whether there is a program of this name.
pub(crate) fn is_there(program: &str) -> bool {
    Command::new(program).arg("--version").stdin(Stdio::null()).output().is_ok()
}
