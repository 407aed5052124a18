//! Which interpreters start an application: those that the launchers of Python and Node.js run by, before any other.

use std::env;
use std::path::{Path, PathBuf};

use crate::detect::{Application, Kind};

/// Set by `python3 -m maitred`, to its own interpreter.
const PYTHON: &str = "MAITRED_PYTHON";
/// Set by the `maitred` of npm, to its own Node.js.
const NODE: &str = "MAITRED_NODE";

/// Where the adapter for Python is to be had, as long as no registry has it.
pub(super) const PYTHON_ADAPTER: &str =
    "the wheel that `cargo xtask dist` makes in target/dist, or adapters/python of a checkout";
/// The same for Node.js.
pub(super) const NODE_ADAPTER: &str = "maitred-linux-x64-VERSION.tgz and maitred-VERSION.tgz, which `cargo xtask dist` makes in \
                                       target/dist, or adapters/node of a checkout";

/// The interpreter of Python that is meant: that of the launcher, of the virtual environment that this executable is
/// installed in, or of the active one. `None` leaves it to the directory of the application.
pub(super) fn python() -> Option<PathBuf> {
    let given = |name: &str| env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let own = env::current_exe().ok().and_then(|program| of_environment(program.parent()?.parent()?));
    let active =
        || given("VIRTUAL_ENV").map(|active| active.join("bin/python3")).filter(|python| python.is_file());
    given(PYTHON).or(own).or_else(active)
}

/// Has the processes of an application be started by the Node.js of the launcher, if it is one of Node.js.
pub(super) fn use_node(application: &mut Application) {
    let Some(node) = env::var(NODE).ok().filter(|node| !node.is_empty()) else { return };
    if let Kind::Command(command) = &mut application.kind
        && let Some(program) = command.first_mut().filter(|program| *program == "node")
    {
        *program = node;
    }
}

/// Has the command of an application name its interpreter as a file in this directory can, if it is below: relative to where the
/// processes are started.
pub(super) fn name_relatively(application: &mut Application) {
    let cwd = application.cwd.as_deref();
    if let (Kind::Command(command), Ok(here)) = (&mut application.kind, env::current_dir())
        && let Some(program) = command.first_mut()
        && let Some(path) = below(program, &here, cwd)
    {
        *program = path;
    }
}

fn below(program: &str, here: &Path, cwd: Option<&str>) -> Option<String> {
    let path = Path::new(program).strip_prefix(here).ok()?;
    let up = cwd.map_or(0, |cwd| cwd.split('/').count());
    Some(format!("{}{}", "../".repeat(up), path.display()))
}

/// The interpreter of a virtual environment (PEP 405).
fn of_environment(environment: &Path) -> Option<PathBuf> {
    let python = environment.join("bin/python3");
    (environment.join("pyvenv.cfg").is_file() && python.is_file()).then_some(python)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_virtual_environment_has_an_interpreter_of_its_own() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("bin")).unwrap();
        std::fs::write(dir.path().join("bin/python3"), "").unwrap();
        assert_eq!(of_environment(dir.path()), None);
        std::fs::write(dir.path().join("pyvenv.cfg"), "").unwrap();
        assert_eq!(of_environment(dir.path()), Some(dir.path().join("bin/python3")));
    }

    #[test]
    fn what_is_below_this_directory_is_relative() {
        let of = |program: &str, cwd: Option<&str>| below(program, Path::new("/srv/shop"), cwd);
        assert_eq!(of("/srv/shop/venv/bin/python3", None).as_deref(), Some("venv/bin/python3"));
        assert_eq!(of("/srv/shop/venv/bin/python3", Some("a/b")).as_deref(), Some("../../venv/bin/python3"));
        assert_eq!(of("/usr/bin/python3", None), None);
        assert_eq!(of("python3", None), None);
    }
}
