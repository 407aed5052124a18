//! `maitred init`: a configuration for what a directory holds.

use std::fs::OpenOptions;
use std::io::{ErrorKind, Write as _};
use std::path::Path;

use super::Init;
use super::exit::Error;
use crate::detect::configuration::{Settings, text};
use crate::detect::{FPM_SOCKETS, Kind, directory, fpm_socket};

/// Writes the file, and says what it is for. An existing file stays as it is.
pub fn run(arguments: &Init) -> Result<String, Error> {
    let environment = std::env::var_os("VIRTUAL_ENV");
    let socket = fpm_socket(Path::new(FPM_SOCKETS));
    let found = directory::application(Path::new("."), environment.as_deref().map(Path::new), socket);
    let application = found.ok_or_else(|| {
        Error::failed(
            "nothing in this directory is known: no Django, Flask, FastAPI, Express, Next.js, Rails, PHP, no index.html",
            "start from the examples in docs/configuration.md",
        )
    })?;
    let settings = Settings { listen: "127.0.0.1:8080".to_owned(), ..Settings::default() };
    let path = &arguments.output;
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
    file.write_all(text(&application, &settings).as_bytes()).map_err(|error| {
        Error::failed(format!("cannot write {}: {error}", path.display()), "remove it, and try again")
    })?;
    let (name, because, path) = (application.name, &application.because, path.display());
    let first = match &application.kind {
        Kind::Server { start, .. } => format!("next: start the application: {start}\n"),
        Kind::Php { socket, .. } if !socket.exists() => {
            format!("next: start php-fpm, which has no socket at {}\n", socket.display())
        }
        _ => String::new(),
    };
    Ok(format!(
        "{name}, because of {because}: wrote {path}\n{first}next: maitred check -c {path} && maitred run -c {path}"
    ))
}
