//! All tests of the project, in the order in which they are cheapest to fail. Installs what they need beyond Rust, a C
//! compiler and Python 3.

use std::path::Path;
use std::process::{Command, Stdio};

use crate::Result;

/// Runs everything; the first step that fails ends it.
pub(crate) fn run() -> Result<()> {
    crate::test_packages::install_missing();
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let cargo = |arguments: &[&str]| {
        let mut command = Command::new(&cargo);
        command.args(arguments);
        command
    };
    step("format", &mut cargo(&["fmt", "--all", "--check"]))?;
    step(
        "lints",
        &mut cargo(&["clippy", "--workspace", "--all-targets", "--quiet", "--", "-D", "warnings"]),
    )?;
    step("fuzz targets' source", &mut cargo(&["fmt", "--check", "--manifest-path", "fuzz/Cargo.toml"]))?;
    step(
        "documentation",
        cargo(&["doc", "--workspace", "--no-deps", "--quiet", "--document-private-items"])
            .env("RUSTDOCFLAGS", "-D warnings"),
    )?;
    step("tests", &mut cargo(&["test", "--workspace"]))?;
    let python = |arguments: &[&str]| {
        let mut command = Command::new("python3");
        command.args(arguments).current_dir("adapters/python");
        command
    };
    step("Python adapter", &mut python(&["-m", "unittest", "discover", "-s", "tests", "-t", "."]))?;
    let reference =
        ["../conformance/run.py", "--", "python3", "-m", "maitred", "tests.reference:application"];
    step("Python adapter, conformance of WSGI", &mut python(&reference))?;
    let reference =
        ["../conformance/run.py", "--", "python3", "-m", "maitred", "tests.asgi_reference:application"];
    step("Python adapter, conformance of ASGI", &mut python(&reference))?;
    step(
        "Rust examples",
        &mut cargo(&["build", "--package", "maitred-handoff", "--example", "worker", "--example", "tower"]),
    )?;
    let target = std::env::var("CARGO_TARGET_DIR").unwrap_or_else(|_| "target".to_owned());
    for example in ["worker", "tower"] {
        let path = Path::new(&target).join("debug/examples").join(example).canonicalize()?;
        let name = format!("Rust example {example}, conformance");
        step(&name, &mut python(&["../conformance/run.py", "--", &path.to_string_lossy()]))?;
    }
    let apache = |arguments: &[&str]| {
        let mut command = Command::new("python3");
        command.args(arguments).current_dir("adapters/apache/tests");
        command
    };
    step("Apache adapter, conformance with each MPM", &mut apache(&["conformance.py"]))?;
    step("Apache adapter, sites and restarts", &mut apache(&["-m", "unittest"]))?;
    if crate::test_packages::has_php_module() {
        let mut differential = Command::new("python3");
        differential.args(["run.py", "--adapter", "apache"]).current_dir("adapters/differential");
        step("differential test: apache", &mut differential)?;
    } else {
        println!(
            "\n== differential test: apache: SKIPPED: there is no libphp*.so (Debian: libapache2-mod-php)"
        );
    }
    crate::test_instructions::run(Path::new(&target))?;
    crate::test_go::run(&Path::new(&target).join("debug/maitred").canonicalize()?)?;
    crate::test_acme::run(Path::new(&target))?;
    crate::test_python::run(Path::new(&target))?;
    crate::test_h2::run(Path::new(&target))?;
    crate::test_node::run()?;
    println!("\nall steps passed");
    Ok(())
}

/// Runs one step; its failure is the end of all.
pub(crate) fn step(name: &str, command: &mut Command) -> Result<()> {
    println!("\n== {name}");
    let status = command.stdin(Stdio::null()).status().map_err(|error| format!("{name}: {error}"))?;
    if status.success() { Ok(()) } else { Err(format!("{name}: {status}").into()) }
}
