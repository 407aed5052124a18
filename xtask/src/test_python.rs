//! Tests of the Python adapter with the real gunicorn and uvicorn, and with applications of the usual frameworks. They come
//! from the package index into a virtual environment, which is kept under the target directory.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::Result;
use crate::test::step;

const DIRECTORY: &str = "adapters/python";
const REQUIREMENTS: &str = "adapters/python/tests/requirements.txt";

/// Files of `adapters/differential` that need this environment.
const DIFFERENTIAL: &[&str] = &[
    "python-wsgi",
    "python-http",
    "python-asgi",
    "gunicorn-pool",
    "gunicorn-arbiter",
    "uvicorn",
    "flask",
    "django",
    "fastapi",
    "starlette",
];

/// Runs them, or says why not.
pub(crate) fn run(target: &Path) -> Result<()> {
    let python = match environment(&target.join("python")) {
        Ok(python) => python,
        Err(why) => {
            println!("\n== Python adapter with gunicorn, uvicorn and frameworks: SKIPPED: {why}");
            return Ok(());
        }
    };
    let run = |directory: &str, arguments: &[&str]| {
        let mut command = Command::new(&python);
        command.args(arguments).current_dir(directory);
        command
    };
    let discover = ["-m", "unittest", "discover", "-s", "tests", "-t", "."];
    step("Python adapter with gunicorn, uvicorn and frameworks", &mut run(DIRECTORY, &discover))?;
    let mut listening = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    listening.args(["test", "-p", "maitred", "--test", "listen_pools", "gunicorn"]);
    step("listen pools: gunicorn", &mut listening)?;
    let python = python.to_string_lossy();
    for (module, application) in [
        ("maitred.gunicorn", "tests.reference:application"),
        ("maitred.uvicorn", "tests.asgi_reference:application"),
    ] {
        let conformance = ["../conformance/run.py", "--", &python, "-m", module, application];
        step(&format!("{module}, conformance"), &mut run(DIRECTORY, &conformance))?;
    }
    let differential = "adapters/differential";
    step("differential test, its own tests", &mut run(differential, &["-m", "unittest"]))?;
    for name in DIFFERENTIAL {
        step(&format!("differential test: {name}"), &mut run(differential, &["run.py", "--adapter", name]))?;
    }
    Ok(())
}

/// The interpreter of a virtual environment with everything in it; made anew when the requirements have changed.
pub(crate) fn environment(directory: &Path) -> Result<PathBuf> {
    let wanted = std::fs::read_to_string(REQUIREMENTS)?;
    let python = std::path::absolute(directory.join("bin/python3"))?;
    let note = directory.join("requirements.txt");
    if std::fs::read_to_string(&note).is_ok_and(|found| found == wanted) {
        return Ok(python);
    }
    let mut venv = Command::new("python3");
    step("Python environment", venv.args(["-m", "venv", "--clear"]).arg(directory))?;
    let mut pip = Command::new(&python);
    let install =
        ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--requirement", REQUIREMENTS];
    step("Python packages", pip.args(install))?;
    std::fs::write(note, wanted)?;
    Ok(python)
}
