//! What a person reads who started an application by one line (`maitred app`): its own words as they are, and each thing once.
//!
//! A process that fails to start says the same as the one before it, and the log says of each that it has failed. Of such
//! repetitions nothing is shown until something has changed: a process has become ready, or a file was saved.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::{Mutex, PoisonError};

/// Lines of a start that are compared: what comes later is shown in any case.
const LINES_MAX: usize = 1000;

static CONSOLE: Mutex<Option<Console>> = Mutex::new(None);

/// What was shown.
#[derive(Debug, Default)]
struct Console {
    /// The lines of the process that has said most before it was ready, as hashes.
    known: Vec<u64>,
    /// How many lines each process has said that is not ready; `None` once it has said something else than the one before.
    said: HashMap<String, Option<usize>>,
    /// Messages of the log.
    messages: Vec<String>,
}

impl Console {
    fn begins(&mut self, name: &str) {
        self.said.insert(name.to_owned(), Some(0));
    }

    /// Whether a line of this process is to be shown.
    fn line(&mut self, name: &str, line: &[u8]) -> bool {
        if self.said.contains_key(name) && is_foreign(&String::from_utf8_lossy(line)) {
            return false;
        }
        let Some(Some(number)) = self.said.get_mut(name) else { return true };
        let mut hasher = DefaultHasher::new();
        line.hash(&mut hasher);
        let (hash, at) = (hasher.finish(), *number);
        *number += 1;
        match self.known.get(at) {
            Some(known) if *known == hash => return false,
            None if at < LINES_MAX => self.known.push(hash),
            // The process says something else, or too much.
            _ => {
                self.said.insert(name.to_owned(), None);
            }
        }
        true
    }

    /// Whether a message of the log is to be shown: figures in it, as times, make no other one of it.
    fn message(&mut self, text: &str) -> bool {
        let plain: String = text.chars().filter(|char| !char.is_ascii_digit() && *char != '.').collect();
        let plain = plain.replace(" ms", " s");
        if self.messages.contains(&plain) {
            return false;
        }
        if self.messages.len() < LINES_MAX {
            self.messages.push(plain);
        }
        true
    }

    fn is_ready(&mut self, name: &str) {
        self.said.remove(name);
        self.messages.clear();
    }

    fn forget(&mut self) {
        self.known.clear();
        self.messages.clear();
    }
}

/// Whether a line is a frame of Node.js itself, or of an installed package, in the trace of an error: what a person looks for is
/// in the others. The adapter for Python leaves such frames out itself.
pub fn is_foreign(line: &str) -> bool {
    line.trim_start().starts_with("at ") && (line.contains("node:") || line.contains("/node_modules/"))
}

/// From now on, this process shows what it has to say to a person.
pub fn enable() {
    *CONSOLE.lock().unwrap_or_else(PoisonError::into_inner) = Some(Console::default());
}

/// A process of an application is started, by this name.
pub fn begins(name: &str) {
    with(|console| console.begins(name));
}

/// Notes that the process is ready: what it says from now on is shown.
pub fn is_ready(name: &str) {
    with(|console| console.is_ready(name));
}

/// Something has changed: what was said before may be said again.
pub fn forget() {
    with(Console::forget);
}

/// Whether a line of a process is to be shown as it is; `None` if there is no person to read it.
pub(crate) fn line(name: &str, line: &[u8]) -> Option<bool> {
    with(|console| console.line(name, line))
}

/// Whether a message of the log is to be shown; `None` if there is no person to read it.
pub(crate) fn message(text: &str) -> Option<bool> {
    with(|console| console.message(text))
}

fn with<T>(act: impl FnOnce(&mut Console) -> T) -> Option<T> {
    CONSOLE.lock().unwrap_or_else(PoisonError::into_inner).as_mut().map(act)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_next_process_repeats_is_not_shown() {
        let mut console = Console::default();
        for (name, shown) in [("web/0", true), ("web/1", false), ("web/0", false)] {
            console.begins(name);
            for line in ["Traceback", "SyntaxError"] {
                assert_eq!(console.line(name, line.as_bytes()), shown, "{name}");
            }
        }
        console.begins("web/0");
        assert!(!console.line("web/0", b"Traceback"));
        assert!(console.line("web/0", b"NameError"), "another error");
        assert!(console.line("web/0", b"SyntaxError"), "and all behind it");
        console.forget();
        console.begins("web/0");
        assert!(console.line("web/0", b"Traceback"));
    }

    #[test]
    fn a_process_that_is_ready_is_shown_whatever_it_says() {
        let mut console = Console::default();
        for name in ["web/0", "web/1"] {
            console.begins(name);
            console.line(name, b"started");
            console.is_ready(name);
            assert!(console.line(name, b"a request"));
            assert!(console.line(name, b"a request"));
        }
    }

    #[test]
    fn frames_of_others_are_not_shown_until_a_process_is_ready() {
        let mut console = Console::default();
        console.begins("web/0");
        let internal = b"    at Module._load (node:internal/modules/cjs/loader:1091:12)";
        assert!(console.line("web/0", b"    at Object.<anonymous> (/srv/shop/server.js:1:35)"));
        assert!(!console.line("web/0", internal));
        assert!(!console.line("web/0", b"    at next (/srv/shop/node_modules/router/index.js:2:1)"));
        console.is_ready("web/0");
        assert!(console.line("web/0", internal));
    }

    #[test]
    fn a_message_is_shown_once_whatever_its_figures() {
        let mut console = Console::default();
        assert!(console.message("web/0 exited with status 1; the next one starts in 0.1 s"));
        assert!(!console.message("web/0 exited with status 1; the next one starts in 0.2 s"));
        assert!(!console.message("web/0 exited with status 1; the next one starts in 99 ms"));
        assert!(console.message("web/0 was killed"));
        console.is_ready("web/0");
        assert!(console.message("web/0 was killed"));
    }
}
