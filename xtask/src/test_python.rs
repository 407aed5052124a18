//! Tests of the Python adapter with the real gunicorn and uvicorn, and with applications of the usual frameworks. Servers and
//! frameworks come from the package index into a virtual environment, which is kept under the target directory.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::LazyLock;

use crate::Result;
use crate::skips::{Kind, skip};
use crate::step::step;

const DIRECTORY: &str = "adapters/python";

/// `PATH` with the directory of the interpreter first. `python3` may be a script of a version manager, which takes seven times as
/// long to start as the interpreter itself, and tests start it hundreds of times.
pub(crate) fn path() -> Option<OsString> {
    let script = "import os, sys; print(os.path.dirname(sys.executable))";
    let output = Command::new("python3").args(["-c", script]).output().ok()?;
    let directory = String::from_utf8(output.stdout).ok()?;
    let directory = directory.trim();
    let rest = std::env::var_os("PATH")?;
    let all = std::iter::once(PathBuf::from(directory)).chain(std::env::split_paths(&rest));
    if directory.is_empty() { None } else { std::env::join_paths(all).ok() }
}

/// The reference application of the conformance kit.
const WSGI: &str = "tests.reference:application";
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

/// Python in the directory of its adapter.
pub(crate) fn python(arguments: &[&str]) -> Command {
    let mut command = Command::new("python3");
    command.args(arguments).current_dir(DIRECTORY);
    command
}

/// The conformance of one interface, by the arguments of `python3 -m maitred`.
fn conformance(interface: &str, arguments: &[&str]) -> Result<()> {
    let name = format!("Python adapter, conformance of {interface}");
    let kit = ["../conformance/run.py", "--", "python3", "-m", "maitred"];
    step(&name, &mut python(&[&kit, arguments].concat()))
}

/// Tests of the adapter without any package: what needs one is left out here, and runs in the environment that has it.
pub(crate) fn bare() -> Result<()> {
    crate::test::built()?;
    step("Python adapter", &mut python(&["-m", "unittest", "discover", "-s", "tests", "-t", "."]))?;
    conformance("WSGI", &[WSGI])?;
    conformance("ASGI", &["tests.asgi_reference:application"])
}

/// Tests with the packages of others, or why not.
pub(crate) fn frameworks(target: &Path) -> Result<()> {
    crate::test::built()?;
    conformance("WSGI in threads", &["--threads", "60", WSGI])?;
    let name = "Python adapter with gunicorn, uvicorn and frameworks";
    let python = match environment(&target.join("python")) {
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
    for (module, application) in
        [("maitred.gunicorn", WSGI), ("maitred.uvicorn", "tests.asgi_reference:application")]
    {
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
pub fn environment_of(directory: &Path, requirements: &str) -> Result<PathBuf> {
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
