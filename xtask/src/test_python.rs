//! Tests of the Python adapter with the real gunicorn and uvicorn, and with applications of the usual frameworks. They come
//! from the package index into a virtual environment, which is kept under the target directory.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::LazyLock;

use crate::Result;
use crate::skips::{Kind, skip};
use crate::step::step;

const DIRECTORY: &str = "adapters/python";
const REQUIREMENTS: &str = "adapters/python/tests/requirements.txt";

/// Runs Python's unit tests, and notes what they leave out ([`crate::skips`]).
pub(crate) static UNITTEST: LazyLock<PathBuf> =
    LazyLock::new(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("unittest_noting_skips.py"));
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
pub(crate) fn run(environment: Result<PathBuf>) -> Result<()> {
    let name = "Python adapter with gunicorn, uvicorn and frameworks";
    let python = match environment {
        Ok(python) => python,
        Err(why) => {
            skip(Kind::Missing, name, &why.to_string());
            return Ok(());
        }
    };
    let run = |directory: &str, arguments: &[&str]| {
        let mut command = Command::new(&python);
        command.args(arguments).current_dir(directory);
        command
    };
    let runner = UNITTEST.to_string_lossy();
    step(name, &mut run(DIRECTORY, &[&runner, "discover", "-s", "tests", "-t", "."]))?;
    let python = python.to_string_lossy();
    for (module, application) in [
        ("maitred.gunicorn", "tests.reference:application"),
        ("maitred.uvicorn", "tests.asgi_reference:application"),
    ] {
        let conformance = ["../conformance/run.py", "--", &python, "-m", module, application];
        step(&format!("{module}, conformance"), &mut run(DIRECTORY, &conformance))?;
    }
    let differential = "adapters/differential";
    step("differential test, its own tests", &mut run(differential, &[&runner]))?;
    for name in DIFFERENTIAL {
        step(&format!("differential test: {name}"), &mut run(differential, &["run.py", "--adapter", name]))?;
    }
    Ok(())
}

/// The interpreter of a virtual environment with everything in it; made anew when the requirements have changed.
pub(crate) fn environment(directory: &Path) -> Result<PathBuf> {
    environment_of(directory, REQUIREMENTS)
}

/// The same with what another file requires.
pub(crate) fn environment_of(directory: &Path, requirements: &str) -> Result<PathBuf> {
    let wanted = std::fs::read_to_string(requirements)?;
    let python = std::path::absolute(directory.join("bin/python3"))?;
    let note = directory.join("requirements.txt");
    if std::fs::read_to_string(&note).is_ok_and(|found| found == wanted) {
        return Ok(python);
    }
    let mut venv = Command::new("python3");
    step("Python environment", venv.args(["-m", "venv", "--clear"]).arg(directory))?;
    let mut pip = Command::new(&python);
    let install =
        ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--requirement", requirements];
    step("Python packages", pip.args(install))?;
    std::fs::write(note, wanted)?;
    Ok(python)
}
