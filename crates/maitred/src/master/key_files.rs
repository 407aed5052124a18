//! Files with keys of tokens (`jwks_file`), read again when they change.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use crate::config::{Config, KeySource};
use crate::jwt::keys::{Key, KeySet};
use crate::pki::files;
use crate::tls::watch::Stamps;

/// How often the files are looked at. Looking is a stat(2) of each.
pub const LOOK_EVERY: Duration = Duration::from_secs(2);

/// The files of the configuration in force.
#[derive(Debug, Default)]
pub struct KeyFiles {
    files: Vec<Watched>,
    looked_at: Option<Instant>,
}

#[derive(Debug)]
struct Watched {
    /// Index of the set of keys.
    set: usize,
    path: PathBuf,
    /// As it was when it was last read; `None` before the first look, at which it is read once more: it may have changed
    /// since the configuration was read.
    stamps: Option<Stamps>,
    /// What was wrong with it then, if it was; whether the log has it.
    broken: Option<bool>,
}

impl KeyFiles {
    /// Those of a configuration.
    pub fn new(config: &Config) -> KeyFiles {
        let file = |(set, source): (usize, &KeySource)| match source {
            KeySource::File(path) => Some(Watched { set, path: path.clone(), stamps: None, broken: None }),
            KeySource::Url(_) => None,
        };
        let sources = config.key_sets.iter().map(|set| &set.source).enumerate();
        KeyFiles { files: sources.filter_map(file).collect(), looked_at: Some(Instant::now()) }
    }

    /// When the files are to be looked at next; `None` if there are none.
    pub fn next_look(&self) -> Option<Instant> {
        self.looked_at.filter(|_| !self.files.is_empty()).map(|at| at + LOOK_EVERY)
    }

    /// Looks whether files have changed, and reads those that have. Gives back what sets consist of now.
    ///
    /// A file may be in the middle of being written: an error is reported when it is still there at the next look, and then once.
    pub fn look(&mut self, now: Instant) -> Vec<(usize, Vec<Key>)> {
        self.looked_at = Some(now);
        self.files.iter_mut().filter_map(|file| Some((file.set, file.look()?))).collect()
    }
}

impl Watched {
    fn look(&mut self) -> Option<Vec<Key>> {
        let stamps = Stamps::of_file(&self.path);
        let changed = self.stamps.as_ref() != Some(&stamps);
        if !changed && self.broken != Some(false) {
            return None;
        }
        self.stamps = Some(stamps);
        let read = files::read(&self.path).map_err(|error| error.to_string());
        match read.and_then(|text| KeySet::read(&text)) {
            Ok(set) => {
                self.broken = None;
                Some(set.keys)
            }
            Err(why) => {
                if !changed {
                    tracing::error!(
                        "{} has changed, but cannot be used; the previous keys stay in use: {why}",
                        self.path.display()
                    );
                }
                self.broken = Some(!changed);
                None
            }
        }
    }
}
