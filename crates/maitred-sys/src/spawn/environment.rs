//! What a program that is started gets of this process's environment.
//!
//! The environment may have brought this process secrets, and the program may be another account's, or may show its environment
//! to others. So there is a list, and what is not in it is passed on only if it is named.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt as _;

/// Variables with their values.
pub(super) type Variables = Vec<(OsString, OsString)>;

/// What every program gets, if this process has it: where programs (`PATH`) and the libraries of interpreters (`PYTHONPATH` and
/// the like) are found by name, language and encoding of texts (`LANG`, `LANGUAGE`, `LC_…`), and the time zone with the place of
/// its tables (`TZ`, `TZDIR`).
pub const PASSED_ON: [&str; 12] = [
    "PATH",
    "PYTHONPATH",
    "VIRTUAL_ENV",
    "NODE_PATH",
    "GEM_HOME",
    "GEM_PATH",
    "PERL5LIB",
    "LANG",
    "LANGUAGE",
    "LC_*",
    "TZ",
    "TZDIR",
];

/// The variables of this process that [`PASSED_ON`] names.
pub(super) fn passed_on() -> Variables {
    of_this_process(|name| PASSED_ON.iter().any(|pattern| matches(pattern, name)))
}

/// The variables that a pattern names: a name, or the beginning of names and `*`.
pub(super) fn named(pattern: &str) -> Variables {
    of_this_process(|name| matches(pattern, name))
}

fn of_this_process(wanted: impl Fn(&OsStr) -> bool) -> Variables {
    std::env::vars_os().filter(|(name, _)| wanted(name)).collect()
}

fn matches(pattern: &str, name: &OsStr) -> bool {
    match pattern.strip_suffix('*') {
        Some(beginning) => name.as_bytes().starts_with(beginning.as_bytes()),
        None => name == pattern,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_is_a_name_or_a_beginning() {
        let matches = |pattern, name: &str| matches(pattern, OsStr::new(name));
        assert!(
            matches("LC_*", "LC_ALL") && matches("LC_*", "LC_") && matches("*", "ANY") && matches("TZ", "TZ")
        );
        assert!(!matches("LC_*", "LANG") && !matches("TZ", "TZDIR") && !matches("TZDIR", "TZ"));
    }
}
