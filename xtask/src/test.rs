//! All tests of the project, in the order in which they are cheapest to fail. Installs what they need beyond Rust, a C
//! compiler and Python 3.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::Result;
use crate::skips::{self, Kind};
use crate::step::{TESTS_MAX, step, step_within};

/// What has failed so far. No failure ends the run: CI's machine is not at hand, and one report of it has to say all.
#[derive(Default)]
struct Report {
    failures: Vec<String>,
}

impl Report {
    fn take(&mut self, result: Result<()>) {
        if let Err(error) = result {
            println!("\n== FAILED: {error}");
            self.failures.push(error.to_string());
        }
    }

    fn step(&mut self, name: &str, command: &mut Command) {
        self.take(step(name, command));
    }

    /// Lists what was left out, and what failed.
    fn end(mut self, in_ci: bool) -> Result<()> {
        let skipped = skips::read()?;
        if !skipped.is_empty() {
            println!("\n{} left out:", skipped.len());
        }
        for skip in skipped {
            println!("  {skip}");
            if in_ci && skip.kind == Kind::Missing {
                self.failures.push(format!("left out, and CI has to have what it needs: {skip}"));
            }
        }
        match self.failures.len() {
            0 => {
                println!("\nall steps passed");
                Ok(())
            }
            steps => Err(format!("{steps} failed:\n  {}", self.failures.join("\n  ")).into()),
        }
    }
}

/// Runs everything, and fails at the end if anything has failed.
pub(crate) fn run() -> Result<()> {
    let mut report = Report::default();
    skips::start()?;
    crate::test_packages::install_missing();
    let target = &crate::target();
    // Tests of the workspace use all of these.
    let pebble = crate::test_acme::install(target);
    let oauth2_proxy = crate::test_oauth2_proxy::install(target);
    let python = crate::test_python::environment(&target.join("python"));
    report.take(crate::test_deny::run());
    let programs = [
        ("MAITRED_PEBBLE", pebble),
        ("MAITRED_OAUTH2_PROXY", oauth2_proxy),
        ("MAITRED_GRPC_INTEROP", crate::test_grpc::install(target)),
        ("MAITRED_GRPC_WEB", crate::test_grpc::install_web(target)),
    ];
    workspace(&mut report, programs);
    python_adapter(&mut report);
    report.take(rust_examples(target));
    apache_adapter(&mut report);
    report.take(crate::test_instructions::run(target));
    let maitred = target.join("debug/maitred").canonicalize().map_err(Into::into);
    report.take(maitred.and_then(|maitred| crate::test_go::run(&maitred)));
    report.take(crate::test_python::run(python));
    report.take(crate::test_h2::run(target));
    report.take(crate::test_h3::run(target));
    report.take(crate::test_node::run());
    report.take(crate::dist::test(target));
    report.take(crate::test_installed::run(target));
    report.take(crate::test_cache::run(target));
    report.take(crate::trials::run(target));
    report.take(crate::test_vm::run(target));
    report.take(crate::vm_test::test(target));
    report.end(std::env::var_os("CI").is_some())
}

fn cargo(arguments: &[&str]) -> Command {
    let mut command = crate::step::cargo();
    command.args(arguments);
    command
}

/// `programs`: variables that name what was installed for tests, if it was.
fn workspace(report: &mut Report, programs: [(&str, Option<PathBuf>); 4]) {
    report.step("format", &mut cargo(&["fmt", "--all", "--check"]));
    report.step(
        "lints",
        &mut cargo(&["clippy", "--workspace", "--all-targets", "--quiet", "--", "-D", "warnings"]),
    );
    report
        .step("fuzz targets' source", &mut cargo(&["fmt", "--check", "--manifest-path", "fuzz/Cargo.toml"]));
    report.step(
        "documentation",
        cargo(&["doc", "--workspace", "--no-deps", "--quiet", "--document-private-items"])
            .env("RUSTDOCFLAGS", "-D warnings"),
    );
    // A step of its own: what does not end is a test then, and a slow compiler takes nothing of its time.
    report.step("tests, build", &mut cargo(&["test", "--workspace", "--no-run", "--quiet"]));
    let mut tests = cargo(&["test", "--workspace", "--no-fail-fast"]);
    for (variable, place) in programs {
        place.into_iter().for_each(|place| _ = tests.env(variable, place));
    }
    report.take(step_within("tests", &mut tests, TESTS_MAX));
}

/// Python in the directory of its adapter.
fn python(arguments: &[&str]) -> Command {
    let mut command = Command::new("python3");
    command.args(arguments).current_dir("adapters/python");
    command
}

fn python_adapter(report: &mut Report) {
    // Without any package: what needs one is left out here, and runs in the environment that has it.
    let mut bare = python(&["-m", "unittest", "discover", "-s", "tests", "-t", "."]);
    report.step("Python adapter", &mut bare);
    let wsgi = "tests.reference:application";
    for (interface, arguments) in [
        ("WSGI", &[wsgi][..]),
        ("WSGI in threads", &["--threads", "60", wsgi]),
        ("ASGI", &["tests.asgi_reference:application"]),
    ] {
        let name = format!("Python adapter, conformance of {interface}");
        let conformance = [&["../conformance/run.py", "--", "python3", "-m", "maitred"], arguments].concat();
        report.step(&name, &mut python(&conformance));
    }
}

fn rust_examples(target: &Path) -> Result<()> {
    let build = ["build", "--package", "maitred-handoff", "--example", "worker", "--example", "tower"];
    step("Rust examples", &mut cargo(&build))?;
    for example in ["worker", "tower"] {
        let path = target.join("debug/examples").join(example).canonicalize()?;
        let name = format!("Rust example {example}, conformance");
        step(&name, &mut python(&["../conformance/run.py", "--", &path.to_string_lossy()]))?;
    }
    Ok(())
}

fn apache_adapter(report: &mut Report) {
    let apache = |arguments: &[&str]| {
        let mut command = Command::new("python3");
        command.args(arguments).current_dir("adapters/apache/tests");
        command
    };
    report.step("Apache adapter, conformance with each MPM", &mut apache(&["conformance.py"]));
    let runner = crate::test_python::UNITTEST.to_string_lossy();
    report.step("Apache adapter, sites and restarts", &mut apache(&[&runner]));
    if crate::test_packages::has_php_module() {
        let mut differential = Command::new("python3");
        differential.args(["run.py", "--adapter", "apache"]).current_dir("adapters/differential");
        report.step("differential test: apache", &mut differential);
    } else {
        let why = "there is no libphp*.so (Debian: libapache2-mod-php)";
        skips::skip(Kind::Missing, "differential test: apache", why);
    }
}
