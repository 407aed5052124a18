//! What a test leaves out on this machine. The test harness shows nothing of a test that passes, so `cargo xtask test` collects
//! these lines in a file, lists them at its end, and in CI fails for those that lack a package.

use std::fmt::Display;
use std::io::Write as _;

/// Says that the test is left out because something is not installed; CI installs it.
pub(crate) fn skip_missing(why: impl Display) {
    note("missing", &why);
}

/// Says that the test is left out because the machine is not of the kind that it is about.
pub(crate) fn skip_here(why: impl Display) {
    note("surroundings", &why);
}

fn note(kind: &str, why: &dyn Display) {
    eprintln!("SKIPPED: {why}");
    let Some(path) = std::env::var_os("MAITRED_SKIPS") else { return };
    let thread = std::thread::current();
    let line = format!("{kind}\t{}\t{why}\n", thread.name().unwrap_or("a test"));
    let mut file = std::fs::OpenOptions::new().append(true).create(true).open(path).unwrap();
    file.write_all(line.as_bytes()).unwrap();
}
