//! Tests of the Python adapter with the real gunicorn and uvicorn, and with applications of the usual frameworks. Servers and
//! frameworks come from the package index into a virtual environment, which is kept under the target directory.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::LazyLock;

use crate::Result;
use crate::skips::{Kind, skip};
use crate::step::{cargo, compilation, step};

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

/// The reference applications of the conformance kit.
const WSGI: &str = "tests.reference:application";
const ASGI: &str = "tests.asgi_reference:application";
const RSGI: &str = "tests.rsgi_reference:application";
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

/// The manifest of the adapter's compiled part, a workspace of its own.
pub(crate) const NATIVE: &str = "adapters/python/native/Cargo.toml";
/// Where Python finds it: beside the modules. Git ignores it there.
const LIBRARY: &str = "adapters/python/maitred/_native.abi3.so";
/// Has the adapter do without it.
const PURE: &str = "MAITRED_PURE";

/// Compiles the adapter's compiled part, and puts it where Python finds it.
///
/// # Errors
/// When it does not compile, or cannot be put there.
pub fn native() -> Result<PathBuf> {
    let target = crate::target().join("python-native");
    let mut build = cargo();
    build.args(["build", "--release", "--manifest-path", NATIVE, "--target-dir"]).arg(&target);
    compilation("the Python adapter's compiled part", &mut build)?;
    let built = std::fs::read(target.join("release/libmaitred_native.so"))?;
    let library = crate::root().join(LIBRARY);
    if !std::fs::read(&library).is_ok_and(|there| there == built) {
        // In one step: another process may be about to load it.
        let new = library.with_extension(format!("{}.new", std::process::id()));
        std::fs::write(&new, built)?;
        std::fs::rename(new, &library)?;
    }
    Ok(library)
}

/// Whether Python has the compiled part that is tested, and no other reason to pass.
const IS_NATIVE: &str = "from maitred import native; assert native.library is not None, native.why_not";
/// What goes through the compiled part.
const SANITIZED: &[&str] =
    &["tests.test_native", "tests.test_wsgi", "tests.test_asgi", "tests.test_rsgi", "tests.test_streamed"];

/// Tests of the compiled part under AddressSanitizer, in a copy of the package, because others use the one of the checkout. The
/// runtime is GCC's, which is loaded before everything else: the interpreter has none, and the library does not load without.
pub(crate) fn sanitized(target: &Path) -> Result<()> {
    let name = "Python adapter's compiled part under AddressSanitizer";
    let Some(runtime) = sanitizer() else {
        skip(Kind::Missing, name, "there is no libasan.so of GCC (Debian: gcc)");
        return Ok(());
    };
    let directory = std::path::absolute(target.join("python-asan"))?;
    // With a target, what runs in the build itself is not instrumented.
    let triple = format!("{}-unknown-linux-gnu", std::env::consts::ARCH);
    let mut build = cargo();
    build.args(["build", "--manifest-path", NATIVE, "--target", &triple, "--target-dir"]).arg(&directory);
    // The compiler is the pinned one, which has the sanitizer as an unstable option.
    build.env("RUSTC_BOOTSTRAP", "1").env("RUSTFLAGS", "-Zsanitizer=address");
    compilation(name, &mut build)?;
    let package = directory.join("package");
    for part in ["maitred", "tests"] {
        copy_modules(&crate::root().join(DIRECTORY).join(part), &package.join(part))?;
    }
    let built = directory.join(triple).join("debug/libmaitred_native.so");
    std::fs::copy(built, package.join("maitred/_native.abi3.so"))?;
    let run = |arguments: &[&str]| {
        let mut command = Command::new("python3");
        command.args(arguments).current_dir(&package).env("PYTHONPATH", &package).env_remove(PURE);
        // The interpreter keeps memory until its end.
        command.env("LD_PRELOAD", &runtime).env("ASAN_OPTIONS", "detect_leaks=0");
        command
    };
    step(&format!("{name}: it is loaded"), &mut run(&["-c", IS_NATIVE]))?;
    step(name, &mut run(&[&["-m", "unittest"], SANITIZED].concat()))
}

/// The runtime of GCC's AddressSanitizer as a shared library.
fn sanitizer() -> Option<PathBuf> {
    let output = Command::new("gcc").arg("-print-file-name=libasan.so").output().ok()?;
    let path = PathBuf::from(String::from_utf8(output.stdout).ok()?.trim());
    // A name alone is one that was not found.
    (path.is_absolute() && path.exists()).then_some(path)
}

/// The modules of one directory, and nothing else, in another one.
fn copy_modules(from: &Path, to: &Path) -> Result<()> {
    if to.exists() {
        std::fs::remove_dir_all(to)?;
    }
    std::fs::create_dir_all(to)?;
    for entry in std::fs::read_dir(from)? {
        let path = entry?.path();
        if let Some(name) = path.file_name().filter(|_| path.extension().is_some_and(|end| end == "py")) {
            std::fs::copy(&path, to.join(name))?;
        }
    }
    Ok(())
}

/// The conformance of one interface, by the arguments of `python3 -m maitred`.
fn conformance(interface: &str, arguments: &[&str], is_pure: bool) -> Result<()> {
    let form = if is_pure { ", without its compiled part" } else { "" };
    let name = format!("Python adapter, conformance of {interface}{form}");
    let kit = ["../conformance/run.py", "--", "python3", "-m", "maitred"];
    step(&name, in_form(&mut python(&[&kit, arguments].concat()), is_pure))
}

fn in_form(command: &mut Command, is_pure: bool) -> &mut Command {
    if is_pure { command.env(PURE, "1") } else { command.env_remove(PURE) }
}

/// Tests of the adapter without any package: what needs one is left out here, and runs in the environment that has it.
pub(crate) fn bare() -> Result<()> {
    crate::test::built()?;
    native()?;
    let tests = ["-m", "unittest", "discover", "-s", "tests", "-t", "."];
    step("Python adapter", in_form(&mut python(&tests), false))?;
    step("Python adapter without its compiled part", in_form(&mut python(&tests), true))?;
    conformance("WSGI", &[WSGI], false)?;
    conformance("ASGI", &[ASGI], false)
}

/// Tests with the packages of others, or why not.
pub(crate) fn frameworks(target: &Path) -> Result<()> {
    crate::test::built()?;
    native()?;
    conformance("WSGI in threads", &["--threads", "60", WSGI], false)?;
    conformance("WSGI", &[WSGI], true)?;
    conformance("ASGI", &[ASGI], true)?;
    conformance("RSGI", &[RSGI], false)?;
    conformance("RSGI", &[RSGI], true)?;
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
    let forms: [&[&str]; 3] =
        [&["maitred.gunicorn", WSGI], &["maitred.uvicorn", ASGI], &["maitred", "--loop", "uvloop", ASGI]];
    for form in forms {
        let kit = ["../conformance/run.py", "--", &python, "-m"];
        let name = format!("python3 -m {}, conformance", form.join(" "));
        step(&name, &mut run(DIRECTORY, &[&kit, form].concat()))?;
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
