//! `maitred init`: a configuration for what a directory holds.

use std::fs::OpenOptions;
use std::io::{ErrorKind, Write as _};
use std::path::Path;

use super::exit::Error;
use super::{DEFAULT_CONFIG, Init, runtime};
use crate::detect::configuration::{Settings, text};
use crate::detect::directory::{self, Around};
use crate::detect::php::{FPM_SOCKETS, fpm_socket};
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
        Kind::Server { start, .. } => steps.push(format!("start the application: {start}")),
        Kind::Php { socket, .. } if !socket.exists() => {
            steps.push(format!("start php-fpm, which has no socket at {}", socket.display()));
        }
        _ => {}
    }
    steps
}
