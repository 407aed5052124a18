//! What the argument of `maitred app` names: a module, a program, a file that stands for its directory, or a directory.

use std::ffi::OsStr;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use super::super::runtime;
use crate::detect::directory::{self, Around, below};
use crate::detect::layouts::{NODE_ASSETS, PYTHON_ASSETS};
use crate::detect::php::{FPM_SOCKETS, fpm_socket};
use crate::detect::place::Place;
use crate::detect::{Advice, Application, Files, Kind, executable, node, python};

/// Files by which a directory is named: what it holds is looked for as `maitred init` does.
const STAND_FOR_DIRECTORY: &[&str] = &[
    "manage.py",
    "package.json",
    "pyproject.toml",
    "go.mod",
    "Cargo.toml",
    "pom.xml",
    "composer.json",
    "config.ru",
];
/// What can be named, for people.
const KNOWN: &str = "module:callable or module:factory() (Python: WSGI, ASGI or RSGI), manage.py, package.json, a program of \
                     Node.js (server.js), a program with an adapter (./app), or a directory";

/// What the argument names, ready to be started.
pub(super) fn application(name: &str, fpm: Option<PathBuf>) -> Result<Application, Advice> {
    let path = Path::new(name);
    let mut found = if path.is_dir() {
        directory(path, fpm)?
    } else if STAND_FOR_DIRECTORY.iter().any(|file| path.file_name() == Some(OsStr::new(file)))
        && path.is_file()
    {
        held(path.parent().unwrap_or(Path::new("")), fpm)?.ok_or_else(|| unknown(name))?
    } else if node::ENDINGS.iter().any(|end| name.ends_with(end)) {
        program_of_node(name)?
    } else if let Some(target) = target(name) {
        module(name, &target)
    } else {
        program(name)?
    };
    runtime::use_node(&mut found);
    name_absolutely(&mut found)?;
    found.because = format!("the argument {name}");
    if let Kind::Server { url, start } = &found.kind {
        return Err(Advice::new(
            format!("{name} is started by a program of its own ({}), which listens by itself", found.name),
            format!(
                "start it: {start}; and write where it listens: [pool.web] connect = \"{url}\": `maitred init` writes such a file"
            ),
        ));
    }
    Ok(found)
}

/// A directory whose scripts php-fpm runs.
pub(super) fn php(dir: &Path, fpm: Option<PathBuf>) -> Result<Application, Advice> {
    if !dir.is_dir() {
        let why = format!("--php: there is no directory {}", dir.display());
        return Err(Advice::new(why, "name the directory with the files of the site"));
    }
    let found = fpm.or_else(|| fpm_socket(Path::new(FPM_SOCKETS)));
    let socket = found.ok_or_else(|| {
        Advice::new(
            format!("{} is PHP, and php-fpm has no socket in {FPM_SOCKETS}", dir.display()),
            "start php-fpm, or name its socket: --php DIR --fpm SOCKET",
        )
    })?;
    let kind = Kind::Php { root: dir.display().to_string(), socket };
    Ok(Application::new("PHP", format!("the argument --php {}", dir.display()), kind))
}

/// What a directory holds: scripts of PHP, a page, or an application; otherwise its files are served.
fn directory(dir: &Path, fpm: Option<PathBuf>) -> Result<Application, Advice> {
    if dir.join("index.php").is_file() {
        return php(dir, fpm);
    }
    let root = dir.display().to_string();
    let files = || Application::new("Files", "", Kind::Files(Files { root, tries: Vec::new() }));
    if dir.join("index.html").is_file() {
        return Ok(files());
    }
    // A directory of files may have anything in it: advice about what is not built is for those who ask for more.
    let found = held(dir, fpm).ok().flatten().filter(|found| !matches!(found.kind, Kind::Files(_)));
    Ok(found.unwrap_or_else(files))
}

/// What `maitred init` finds in a directory, as seen from this one.
fn held(dir: &Path, fpm: Option<PathBuf>) -> Result<Option<Application>, Advice> {
    let socket = fpm.or_else(|| fpm_socket(Path::new(FPM_SOCKETS)));
    let here = dir.components().all(|part| part == std::path::Component::CurDir);
    let around = Around { python: runtime::python(), socket };
    let found = directory::application(if here { Path::new(".") } else { dir }, &around).transpose()?;
    let name = dir.strip_prefix("./").unwrap_or(dir).display().to_string();
    Ok(found.map(|found| {
        if here { found } else { below(name.trim_end_matches('/'), found, Place::new(Path::new("."))) }
    }))
}

fn program_of_node(name: &str) -> Result<Application, Advice> {
    let here = Place::new(Path::new("."));
    if !here.has(name) {
        return Err(Advice::new(
            format!("there is no file {name}"),
            "name a program of Node.js, from this directory",
        ));
    }
    let mut found = Application::new("Node.js", "", Kind::Command(node::command(here, &[name])));
    found.assets = here.assets(NODE_ASSETS);
    Ok(found)
}

fn module(name: &str, target: &str) -> Application {
    let here = Place::new(Path::new("."));
    let python = python::interpreter(here, runtime::python().as_deref());
    let command = [python.as_str(), "-m", "maitred", target].map(str::to_owned).to_vec();
    let mut found = Application::new("Python", name, Kind::Command(command));
    found.assets = here.assets(PYTHON_ASSETS);
    found
}

/// The module, and what of it, that the adapter for Python is given; `None` if this names none.
fn target(name: &str) -> Option<String> {
    if let Some(file) = name.strip_suffix(".py").filter(|_| Path::new(name).is_file()) {
        return Some(file.strip_prefix("./").unwrap_or(file).replace('/', "."));
    }
    let (module, callable) = name.split_once(':').unwrap_or((name, ""));
    let is_word = |word: &str| !word.is_empty() && word.chars().all(|c| c.is_alphanumeric() || c == '_');
    let is_module = module.split('.').all(is_word);
    let is_there = || {
        let path = module.replace('.', "/");
        Path::new(&format!("{path}.py")).is_file() || Path::new(&path).join("__init__.py").is_file()
    };
    let is_file = Path::new(name).exists();
    (is_module && !is_file && (!callable.is_empty() || module.contains('.') || is_there()))
        .then(|| name.to_owned())
}

/// A program that is executed as it is.
fn program(name: &str) -> Result<Application, Advice> {
    let path = Path::new(name);
    let Ok(meta) = path.metadata() else { return Err(unknown(name)) };
    if name.ends_with(".jar") {
        return Err(Advice::new(
            format!("{name} has no adapter for Maitred, so it listens by itself"),
            format!(
                "start it: java -jar {name} --server.address=127.0.0.1 --server.port=9000; and write a pool with its address: \
                 [pool.web] connect = \"http://127.0.0.1:9000\" (docs/upstreams.md)"
            ),
        ));
    }
    if meta.permissions().mode() & 0o111 == 0 {
        return Err(Advice::new(
            format!("{name:?} is none of these: {KNOWN}"),
            format!("a program needs the right to be executed: chmod +x {name}"),
        ));
    }
    let program = if name.contains('/') { name.to_owned() } else { format!("./{name}") };
    if executable::is_program(path) && !executable::speaks_to_maitred(path) {
        return Err(executable::listens(&program));
    }
    Ok(Application::new("Program", "", Kind::Command(vec![program])))
}

fn unknown(name: &str) -> Advice {
    Advice::new(format!("{name:?} is none of these: {KNOWN}"), "docs/one-line.md has an example of each")
}

/// Has the command name its program by a path that holds wherever it is started.
fn name_absolutely(found: &mut Application) -> Result<(), Advice> {
    let cwd = found.cwd.clone().unwrap_or_default();
    if let Kind::Command(command) = &mut found.kind
        && let Some(program) = command.first_mut().filter(|program| program.contains('/'))
    {
        let path = std::path::absolute(Path::new(&cwd).join(&*program));
        let path = path
            .map_err(|error| Advice::new(format!("cannot find {program}: {error}"), "start it elsewhere"))?;
        *program = path.display().to_string();
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modules_are_told_from_other_names() {
        for module in ["app:app", "shop.wsgi", "a.b:create_app()", "a:create_app('x y', debug=True)"] {
            assert_eq!(target(module).as_deref(), Some(module));
        }
        for other in ["./a:b", "a/b.wsgi", "none", "a-b:c", "", ":app"] {
            assert_eq!(target(other), None, "{other}");
        }
    }
}
