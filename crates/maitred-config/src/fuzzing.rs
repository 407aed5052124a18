//! What the fuzz target and a seeded test throw arbitrary bytes at.

use std::io;
use std::path::{Path, PathBuf};

use super::{Identity, Lookup, Origin};

/// A machine where some accounts and directories exist: enough to get past those checks.
struct Anything;

impl Lookup for Anything {
    fn user(&self, name: &str) -> io::Result<Option<Identity>> {
        Ok(name.len().is_multiple_of(2).then(|| Identity::new(name, 1000, 1000)))
    }

    fn is_root(&self) -> bool {
        false
    }

    fn directory(&self, path: &Path) -> io::Result<()> {
        match path.as_os_str().len() % 2 {
            0 => Ok(()),
            _ => Err(io::ErrorKind::NotFound.into()),
        }
    }
}

/// Reads any bytes as a configuration.
///
/// # Panics
/// If an error or a warning has a place that is not in the text, or there is neither a configuration nor an error:
/// that is what fuzzing looks for.
pub fn read(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let origin = Origin { name: "fuzz.toml".into(), base: PathBuf::from("/fuzz") };
    let problems = match super::read(text, &origin, &Anything) {
        Ok((config, warnings)) => {
            assert!(!config.sites.is_empty() && !config.listens.is_empty());
            warnings.into_iter().map(|warning| warning.0).collect()
        }
        Err(errors) => {
            assert!(!errors.0.is_empty());
            assert!(errors.to_string().contains("fuzz.toml"));
            errors.0
        }
    };
    for problem in problems {
        for place in std::iter::once(&problem.place).chain(problem.related.as_ref().map(|(_, place)| place)) {
            assert!(text.get(place.span.clone()).is_some(), "{place:?}");
            assert!(place.line >= 1 && place.column >= 1 && place.width >= 1);
            assert_eq!(
                text.split('\n').nth(place.line - 1).map(|line| line.trim_end_matches('\r')),
                Some(place.text.as_str())
            );
        }
    }
}
