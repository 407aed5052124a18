//! Applications that keep their users in memory, and pools that would divide them among processes: a warning.
//!
//! Only what is certain enough is said: the application's command, the file that it names, or the list of packages beside it
//! names one of a few packages. Nothing is started to find out.

use std::path::{Path, PathBuf};

use super::super::lookup::Lookup;
use super::super::meaning::{Pool, Source};
use super::super::reader::Section;

/// Packages that keep users in memory unless they are configured otherwise, as programs import them. NiceGUI was tried with
/// several processes: by polling, five of six users failed. Of the others it is known how they work, and it was not tried.
const PACKAGES: &[&str] =
    &["flask_socketio", "gradio", "marimo", "nicegui", "shiny", "socket.io", "socketio", "streamlit"];

/// Lists of packages that lie beside an application.
const LISTS: &[&str] = &["package.json", "pyproject.toml", "requirements.txt"];

/// Warns of a pool whose application seems to need `sticky`, or one process.
pub(super) fn question(section: &Section<'_>, pool: &Pool) {
    let Source::Command(command) = &pool.source else { return };
    if pool.workers.max < 2 || pool.sticky.is_some() {
        return;
    }
    let Some((package, place)) = found(command, &pool.cwd, section.cx.lookup) else { return };
    let span = section.given("workers").or_else(|| section.given("command")).unwrap_or(section.span.clone());
    section.cx.warn(
        &span,
        format!("{} has up to {} processes, and {place} names {package}", section.label, pool.workers.max),
        "it keeps its users in memory: set `workers = 1`, or `sticky = \"cookie\"` (docs/applications.md)",
    );
}

/// A package, and where it is named.
fn found(command: &[String], cwd: &Path, lookup: &dyn Lookup) -> Option<(&'static str, String)> {
    let line = command.join(" ");
    if let Some(package) = PACKAGES.iter().find(|package| has_word(&line, package)) {
        return Some((package, "its command".to_owned()));
    }
    let programs = command.iter().flat_map(|word| sources(word));
    let files = programs.chain(LISTS.iter().map(PathBuf::from));
    files.into_iter().find_map(|name| {
        let text = lookup.source(&cwd.join(&name))?;
        let package = PACKAGES.iter().find(|package| text.lines().any(|line| names(line, package)))?;
        Some((*package, name.display().to_string()))
    })
}

/// The files that a word of a command may mean: itself, or a Python module (`app:app`, `site.app`).
fn sources(word: &str) -> Vec<PathBuf> {
    if word.ends_with(".py") || word.ends_with(".js") || word.ends_with(".mjs") {
        return vec![PathBuf::from(word)];
    }
    let module = word.split(':').next().unwrap_or_default();
    let plain = module.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'.');
    match plain && word.contains(':') {
        true => vec![PathBuf::from(format!("{}.py", module.replace('.', "/")))],
        false => Vec::new(),
    }
}

/// Whether a line imports a package, or lists it.
fn names(line: &str, package: &str) -> bool {
    let line = line.trim_start();
    let imports = ["import ", "from ", "const ", "var ", "let "].iter().any(|word| line.starts_with(word));
    let lists = line.starts_with(package) || line.starts_with(['"', '\'']);
    (imports || lists) && has_word(line, package)
}

/// Whether a word stands in a text, with nothing around it that would make it another one.
fn has_word(text: &str, word: &str) -> bool {
    let others = |letter: char| letter.is_alphanumeric() || matches!(letter, '_' | '-' | '.' | '/');
    text.match_indices(word).any(|(at, _)| {
        let before = text.get(..at).and_then(|text| text.chars().next_back());
        let after = text.get(at + word.len()..).and_then(|text| text.chars().next());
        !before.is_some_and(others) && !after.is_some_and(|letter| others(letter) && letter != '.')
    })
}

#[cfg(test)]
mod tests {
    use super::super::super::lookup::System;
    use super::*;

    fn package(command: &[&str], file: &str, text: &str) -> Option<(&'static str, String)> {
        let directory = tempfile::tempdir().unwrap();
        std::fs::write(directory.path().join(file), text).unwrap();
        let command: Vec<String> = command.iter().map(|word| (*word).to_owned()).collect();
        found(&command, directory.path(), &System)
    }

    #[test]
    fn packages_are_found_where_programs_name_them() {
        let python = ["python3", "-m", "maitred.uvicorn", "app:app"];
        for (command, file, text, expected) in [
            (&python[..], "app.py", "import gradio as gr\n", Some("gradio")),
            (&python, "app.py", "from nicegui import ui\n", Some("nicegui")),
            (&python, "app.py", "# see nicegui\nimport nicegui_extras\n", None),
            (&python, "requirements.txt", "flask\ngradio==6.31\n", Some("gradio")),
            (&python, "pyproject.toml", "dependencies = [\n  \"streamlit>=1\",\n]\n", Some("streamlit")),
            (
                &["node", "server.js"],
                "server.js",
                "const io = require(\"socket.io\")(server)\n",
                Some("socket.io"),
            ),
            (&["node", "server.js"], "package.json", "{\n  \"socket.io\": \"^4\"\n}\n", Some("socket.io")),
            (&["node", "server.js"], "package.json", "{\n  \"socket.io-client\": \"^4\"\n}\n", None),
            (&["streamlit", "run", "x"], "none", "", Some("streamlit")),
            (&python, "app.py", "from flask_socketio import SocketIO\n", Some("flask_socketio")),
            (&python, "app.py", "from shiny import App, ui\n", Some("shiny")),
            (&python, "app.py", "import marimo\n", Some("marimo")),
            (&python, "app.py", "import flask\n", None),
        ] {
            let found = package(command, file, text).map(|(package, _)| package);
            assert_eq!(found, expected, "{command:?} {file} {text}");
        }
    }

    #[test]
    fn what_is_no_file_is_not_read() {
        let directory = tempfile::tempdir().unwrap();
        std::fs::create_dir(directory.path().join("app.py")).unwrap();
        assert_eq!(found(&["python3".to_owned(), "app:app".to_owned()], directory.path(), &System), None);
    }
}
