//! Applications: what was named on a command line or lies in a directory, and the configuration that serves it.
//!
//! - [`directory`]: what kind of application a directory holds, by its files; nothing of it is run
//! - [`configuration`]: the TOML for it, which `maitred check` accepts

pub mod configuration;
pub mod directory;

use std::path::{Path, PathBuf};

/// What answers requests.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Kind {
    /// Processes that the server starts, by this command.
    Command(Vec<String>),
    /// A server that the operator starts: its URL, and the command that starts it.
    Server {
        /// As in `connect` of a pool.
        url: String,
        /// For people to run.
        start: String,
    },
    /// php-fpm, on a socket; it runs scripts below a directory.
    Php {
        /// The directory, relative to that of the configuration.
        root: String,
        /// The socket of php-fpm.
        socket: PathBuf,
    },
    /// Files below a directory, relative to that of the configuration.
    Files(String),
}

/// An application, and why it is taken for one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Application {
    /// Its name, for people: "Django".
    pub name: &'static str,
    /// What it was found by: "manage.py".
    pub because: String,
    /// How it is served.
    pub kind: Kind,
    /// Directories of files beside it, with the path that they have for clients: `("/static/", "static")`. Those at `"/"` are
    /// looked for first, and what is no file is the application's.
    pub assets: Vec<(&'static str, String)>,
}

/// Directories of files beside an application of Python, by convention, with the paths that clients know them by.
pub const PYTHON_ASSETS: &[(&str, &str)] = &[("/static/", "static"), ("/public/", "public")];
/// The same for Node.js, whose frameworks have the files of `public` at the root of the site.
pub const NODE_ASSETS: &[(&str, &str)] = &[("/static/", "static"), ("/", "public")];

/// Those of `known` that a directory has.
pub fn assets(dir: &Path, known: &[(&'static str, &str)]) -> Vec<(&'static str, String)> {
    let there = known.iter().filter(|(_, name)| dir.join(name).is_dir());
    there.map(|(path, name)| (*path, (*name).to_owned())).collect()
}

/// The Python that an application of a directory has: that of the active virtual environment, of its own, or the system's.
pub fn python(dir: &Path, active: Option<&Path>) -> String {
    let own = [dir.join(".venv"), dir.join("venv")];
    let environments = active.map(Path::to_owned).into_iter().chain(own);
    let found =
        environments.map(|environment| environment.join("bin/python3")).find(|python| python.is_file());
    found.map_or_else(|| "python3".to_owned(), |python| python.display().to_string())
}

/// Where Debian's php-fpm has its sockets.
pub const FPM_SOCKETS: &str = "/run/php";

/// The sockets of php-fpm in a directory such as `/run/php`; the one without a version first, then the newest.
pub fn fpm_socket(dir: &Path) -> Option<PathBuf> {
    let entries = std::fs::read_dir(dir).ok()?.filter_map(Result::ok).map(|entry| entry.path());
    let is_fpm = |path: &PathBuf| path.to_string_lossy().ends_with("fpm.sock");
    let mut found: Vec<PathBuf> = entries.filter(is_fpm).collect();
    found.sort();
    let plain = dir.join("php-fpm.sock");
    if found.contains(&plain) { Some(plain) } else { found.pop() }
}
