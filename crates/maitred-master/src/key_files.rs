//! Files with keys of tokens (`jwks_file`) and with users (`users_file`), read again when they change.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use maitred_base::jwt::keys::{Key, KeySet};
use maitred_base::passwords;
use maitred_base::pki::files;
use maitred_config::{Config, KeySource};
use maitred_tls::watch::Stamps;

/// How often the files are looked at. Looking is a stat(2) of each.
pub(crate) const LOOK_EVERY: Duration = Duration::from_secs(2);

/// The files of the configuration in force.
#[derive(Debug, Default)]
pub(crate) struct KeyFiles {
    files: Vec<Watched>,
    looked_at: Option<Instant>,
}

/// What a file consists of now.
#[derive(Debug)]
pub(crate) enum Content {
    /// The keys of this set of the configuration.
    Keys(usize, Vec<Key>),
    /// The users of this file of the configuration: names and hashes.
    Users(usize, Vec<(String, String)>),
}

/// What a file has, with its index in the configuration.
#[derive(Debug, Clone, Copy)]
enum Kind {
    Keys(usize),
    Users(usize),
}

#[derive(Debug)]
struct Watched {
    kind: Kind,
    path: PathBuf,
    /// As it was when it was last read; `None` before the first look, at which it is read once more: it may have changed
    /// since the configuration was read.
    stamps: Option<Stamps>,
    /// What was wrong with it then, if it was; whether the log has it.
    broken: Option<bool>,
}

impl KeyFiles {
    /// The files of a configuration.
    pub(crate) fn new(config: &Config) -> KeyFiles {
        let file = |kind, path: &PathBuf| Watched { kind, path: path.clone(), stamps: None, broken: None };
        let sources = config.key_sets.iter().map(|set| &set.source).enumerate();
        let keys = sources.filter_map(|(set, source)| match source {
            KeySource::File(path) => Some(file(Kind::Keys(set), path)),
            KeySource::Url(_) => None,
        });
        let lists = config.users_files.iter().enumerate();
        let users = lists.map(|(index, list)| file(Kind::Users(index), &list.path));
        KeyFiles { files: keys.chain(users).collect(), looked_at: Some(Instant::now()) }
    }

    /// When the files are to be looked at next; `None` if there are none.
    pub(crate) fn next_look(&self) -> Option<Instant> {
        self.looked_at.filter(|_| !self.files.is_empty()).map(|at| at + LOOK_EVERY)
    }

    /// Looks whether files have changed, and reads those that have. Gives back what they consist of now.
    ///
    /// A file may be in the middle of being written: an error is reported when it is still there at the next look, and then once.
    pub(crate) fn look(&mut self, now: Instant) -> Vec<Content> {
        self.looked_at = Some(now);
        self.files.iter_mut().filter_map(Watched::look).collect()
    }
}

impl Kind {
    /// What the text of a file says, which has changed since the last look, or has not.
    fn read(self, text: &[u8], changed: bool) -> Result<Content, String> {
        match self {
            Kind::Keys(set) => KeySet::read(text).map(|read| Content::Keys(set, read.keys)),
            Kind::Users(index) => match passwords::read(text)? {
                // What writes a file anew empties it first: all users are gone if that is still so at the next look.
                users if users.is_empty() && changed => Err("it has no users".to_owned()),
                users => Ok(Content::Users(index, users)),
            },
        }
    }
}

impl Watched {
    fn look(&mut self) -> Option<Content> {
        let stamps = Stamps::of_file(&self.path);
        let changed = self.stamps.as_ref() != Some(&stamps);
        if !changed && self.broken != Some(false) {
            return None;
        }
        self.stamps = Some(stamps);
        let read = files::read(&self.path).map_err(|error| error.to_string());
        match read.and_then(|text| self.kind.read(&text, changed)) {
            Ok(content) => {
                self.broken = None;
                Some(content)
            }
            Err(why) => {
                if !changed {
                    tracing::error!(
                        "{} has changed, but cannot be used; the previous {} stay in use: {why}",
                        self.path.display(),
                        match self.kind {
                            Kind::Keys(_) => "keys",
                            Kind::Users(_) => "users",
                        }
                    );
                }
                self.broken = Some(!changed);
                None
            }
        }
    }
}
