//! `maitred init`: a configuration for what a directory holds.

use std::fs::OpenOptions;
use std::io::{ErrorKind, Write as _};
use std::path::Path;

use super::exit::Error;
use super::runtime::{self, NODE_ADAPTER, PYTHON_ADAPTER};
use super::{DEFAULT_CONFIG, Init};
use crate::detect::configuration::{Settings, text};
use crate::detect::directory::{self, Around};
use crate::detect::php::{FPM_SOCKETS, fpm_socket};
use crate::detect::place::Place;
use crate::detect::{Application, Kind};

/// Where the written file listens, and where it does if the application has that port.
const LISTEN: [&str; 2] = ["127.0.0.1:8080", "127.0.0.1:8000"];

/// Writes the file, and says what it is for. An existing file stays as it is.
pub fn run(arguments: &Init) -> Result<String, Error> {
    let around = Around { python: runtime::python(), socket: fpm_socket(Path::new(FPM_SOCKETS)) };
    let found = directory::application(Path::new("."), &around).ok_or_else(|| {
        Error::failed(
            "nothing in this directory is known: no application of Python, Node.js, PHP, Ruby, Go, Java or another language \
             that `maitred init` looks for, and no index.html",
            "docs/one-line.md lists what it looks for; begin with one of examples/, or with docs/configuration.md",
        )
    })?;
    let mut application = found.map_err(|advice| Error::failed(advice.why, advice.help))?;
    runtime::use_node(&mut application);
    runtime::name_relatively(&mut application);
    write(&arguments.output, &text(&application, &settings(&application)))?;
    let path = arguments.output.display();
    let mut said = format!("{}, because of {}: wrote {path}\n", application.name, application.because);
    for step in steps(&application) {
        said.push_str(&format!("next: {step}\n"));
    }
    Ok(match arguments.output.as_os_str() == DEFAULT_CONFIG {
        true => format!("{said}next: maitred check && maitred run"),
        false => format!("{said}next: maitred check -c {path} && maitred run -c {path}"),
    })
}

fn settings(application: &Application) -> Settings {
    let [usual, other] = LISTEN;
    let is_taken = matches!(&application.kind, Kind::Server { url, .. } if url.ends_with(":8080"));
    Settings { listen: if is_taken { other } else { usual }.to_owned(), ..Settings::default() }
}

fn write(path: &Path, text: &str) -> Result<(), Error> {
    let file = OpenOptions::new().write(true).create_new(true).open(path);
    let mut file = file.map_err(|error| match error.kind() {
        ErrorKind::AlreadyExists => Error::failed(
            format!("{} exists, and is not overwritten", path.display()),
            "name another file with --output",
        ),
        _ => Error::failed(
            format!("cannot write {}: {error}", path.display()),
            "name another file with --output",
        ),
    })?;
    file.write_all(text.as_bytes()).map_err(|error| {
        Error::failed(format!("cannot write {}: {error}", path.display()), "remove it, and try again")
    })
}

/// What is to be done before the server is started.
fn steps(application: &Application) -> Vec<String> {
    let mut steps = application.first.clone();
    match &application.kind {
        Kind::Command(command) => steps.extend(adapter_to_install(application, command)),
        Kind::Server { start, .. } => steps.push(format!("start the application: {start}")),
        Kind::Php { socket, .. } if !socket.exists() => {
            steps.push(format!("start php-fpm, which has no socket at {}", socket.display()));
        }
        _ => {}
    }
    steps
}

/// The adapter that is not where the command will look for it, as far as files tell.
fn adapter_to_install(application: &Application, command: &[String]) -> Option<String> {
    let cwd = Path::new(application.cwd.as_deref().unwrap_or("."));
    match command {
        [python, dash, module, ..] if dash == "-m" && module == "maitred" => {
            let environment = python.strip_suffix("/bin/python3")?;
            let (libraries, mark) =
                (cwd.join(environment).join("lib"), cwd.join(environment).join("pyvenv.cfg"));
            let mut versions = Place::new(&libraries).directories().into_iter();
            let has_adapter =
                versions.any(|version| libraries.join(version).join("site-packages/maitred").is_dir());
            // An environment that is still to be made, or a virtual one (PEP 405): others have their packages elsewhere.
            let is_known = mark.is_file() || !cwd.join(environment).exists();
            (is_known && !has_adapter)
                .then(|| format!("install the adapter into {environment}: {PYTHON_ADAPTER}"))
        }
        [_, require, ..] if require == "--require" => (!cwd.join("node_modules/maitred").exists())
            .then(|| format!("install the adapter: npm install FILE FILE, {NODE_ADAPTER}")),
        _ => None,
    }
}
