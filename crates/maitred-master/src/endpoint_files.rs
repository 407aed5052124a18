//! Files with servers (`endpoints` of a pool), read again when they change.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde::Deserialize;

use maitred_base::bounds::SERVERS_MAX;
use maitred_config::{Address, Config};
use maitred_control::servers::{NAME_BYTES_MAX, ServerEntry, ServerState};
use maitred_tls::watch::Stamps;

/// How often the files are looked at. Looking is a stat(2) of each.
pub(crate) const LOOK_EVERY: Duration = Duration::from_secs(1);
/// The largest file, in bytes: the most servers take a quarter of it.
pub(crate) const FILE_BYTES_MAX: u64 = 512 * 1024;

/// A server as it stands in a file.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    address: Address,
    #[serde(default)]
    name: Option<String>,
    #[serde(default = "least")]
    weight: u16,
    #[serde(default)]
    backup: bool,
    #[serde(default)]
    max_connections: Option<u32>,
    #[serde(default)]
    drain: bool,
}

fn least() -> u16 {
    ServerEntry::WEIGHT_MIN
}

/// The files of the configuration in force.
#[derive(Debug, Default)]
pub(crate) struct EndpointFiles {
    files: Vec<Watched>,
    looked_at: Option<Instant>,
}

#[derive(Debug)]
struct Watched {
    path: PathBuf,
    /// As it was when it was last read; `None` before the first look.
    stamps: Option<Stamps>,
    /// What was wrong with it then, if it was; whether the log has it.
    broken: Option<bool>,
}

impl EndpointFiles {
    /// The files of these configurations. Each is looked at at once.
    pub(crate) fn new<'a>(configs: impl Iterator<Item = &'a Config>) -> EndpointFiles {
        let pools = configs.flat_map(|config| &config.pools);
        let paths: BTreeSet<&Path> = pools.filter_map(|pool| pool.discovery.file.as_deref()).collect();
        let watched = |path: &Path| Watched { path: path.to_owned(), stamps: None, broken: None };
        EndpointFiles { files: paths.into_iter().map(watched).collect(), looked_at: None }
    }

    /// When the files are to be looked at next; `None` if there are none.
    pub(crate) fn next_look(&self, now: Instant) -> Option<Instant> {
        (!self.files.is_empty()).then(|| self.looked_at.map_or(now, |at| at + LOOK_EVERY))
    }

    /// Looks whether files have changed, and reads those that have. Gives back what they say now.
    ///
    /// A file may be in the middle of being written: an error is reported when it is still there at the next look, and then once.
    pub(crate) fn look(&mut self, now: Instant) -> Vec<(PathBuf, Vec<ServerEntry>)> {
        self.looked_at = Some(now);
        self.files.iter_mut().filter_map(|file| Some((file.path.clone(), file.look()?))).collect()
    }
}

impl Watched {
    fn look(&mut self) -> Option<Vec<ServerEntry>> {
        let stamps = Stamps::of_file(&self.path);
        let changed = self.stamps.as_ref() != Some(&stamps);
        if !changed && self.broken != Some(false) {
            return None;
        }
        self.stamps = Some(stamps);
        match contents(&self.path).and_then(|text| parse(&text)) {
            Ok(servers) => {
                self.broken = None;
                Some(servers)
            }
            Err(why) => {
                if !changed {
                    tracing::error!(
                        "{} cannot be used; its servers stay as they are: {why}",
                        self.path.display()
                    );
                }
                self.broken = Some(!changed);
                None
            }
        }
    }
}

/// Only a regular file: a pipe would be waited for.
fn contents(path: &Path) -> Result<Vec<u8>, String> {
    let read = || -> io::Result<Vec<u8>> {
        if !std::fs::metadata(path)?.is_file() {
            return Err(io::Error::other("it is not a regular file"));
        }
        let mut text = Vec::new();
        File::open(path)?.take(FILE_BYTES_MAX + 1).read_to_end(&mut text)?;
        Ok(text)
    };
    let text = read().map_err(|error| error.to_string())?;
    match text.len() as u64 > FILE_BYTES_MAX {
        true => Err(format!("it has more than {FILE_BYTES_MAX} bytes")),
        false => Ok(text),
    }
}

/// The servers in such a file.
///
/// # Errors
/// What is wrong with it.
pub(crate) fn parse(text: &[u8]) -> Result<Vec<ServerEntry>, String> {
    let entries: Vec<Entry> = serde_json::from_slice(text).map_err(|error| error.to_string())?;
    if entries.len() > SERVERS_MAX {
        return Err(format!("it has {} servers; a pool has at most {SERVERS_MAX}", entries.len()));
    }
    entries.into_iter().map(Entry::checked).collect()
}

impl Entry {
    fn checked(self) -> Result<ServerEntry, String> {
        let Entry { address, name, weight, backup, max_connections, drain } = self;
        let at = match &address {
            Address::Inet(inet) if inet.port() != 0 => inet.to_string(),
            Address::Unix(path)
                if path.is_absolute() && path.as_os_str().len() <= Address::PATH_BYTES_MAX =>
            {
                String::new()
            }
            _ => return Err(format!("{address}: it takes an address with a port, or \"unix:/path\"")),
        };
        if !(ServerEntry::WEIGHT_MIN..=ServerEntry::WEIGHT_MAX).contains(&weight) {
            return Err(format!("{address}: `weight` takes 1 to 1000"));
        }
        if max_connections == Some(0) {
            return Err(format!("{address}: `max_connections` is at least 1"));
        }
        let name = name.unwrap_or(at);
        let known = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~[]:".contains(&byte);
        if name.len() > NAME_BYTES_MAX || !name.bytes().all(known) {
            return Err(format!("{address}: `name` is not the name of a host"));
        }
        let state = if drain { ServerState::Draining } else { ServerState::Active };
        Ok(ServerEntry { address, name, weight, backup, max_connections, state, unwell: false })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_file_says_all_of_a_server_or_only_its_address() {
        let text = r#"[{"address": "192.0.2.7:80"}, {"address": "unix:/s", "name": "app.internal", "weight": 7, "backup": true,
                       "max_connections": 9, "drain": true}]"#;
        let servers = parse(text.as_bytes()).unwrap();
        let plain = ServerEntry::plain("192.0.2.7:80".parse().unwrap(), "192.0.2.7:80".to_owned());
        let full = ServerEntry {
            address: Address::Unix("/s".into()),
            name: "app.internal".to_owned(),
            weight: 7,
            backup: true,
            max_connections: Some(9),
            state: ServerState::Draining,
            unwell: false,
        };
        assert_eq!(servers, [plain, full]);
        assert_eq!(parse(b"[]").unwrap(), []);
    }

    #[test]
    fn what_is_wrong_is_said_and_nothing_of_the_file_is_used() {
        for (entry, why) in [
            ("{}", "missing field"),
            (r#"{"address": "example.com:80"}"#, "invalid"),
            (r#"{"address": "192.0.2.7:0"}"#, "with a port"),
            (r#"{"address": "unix:s"}"#, "with a port"),
            (r#"{"address": "192.0.2.7:80", "weigth": 1}"#, "unknown field"),
            (r#"{"address": "192.0.2.7:80", "weight": 0}"#, "1 to 1000"),
            (r#"{"address": "192.0.2.7:80", "max_connections": 0}"#, "at least 1"),
            (r#"{"address": "192.0.2.7:80", "name": "a b"}"#, "name of a host"),
        ] {
            let text = format!(r#"[{{"address": "192.0.2.8:80"}}, {entry}]"#);
            let said = parse(text.as_bytes()).unwrap_err();
            assert!(said.contains(why), "{entry}: {said}");
        }
        let one = r#"{"address": "192.0.2.7:80"}"#;
        let many = format!("[{}]", vec![one; SERVERS_MAX + 1].join(","));
        assert!(parse(many.as_bytes()).unwrap_err().contains("at most 256"));
    }

    #[test]
    fn a_file_without_end_is_not_read() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("servers.json");
        std::fs::write(&path, vec![b' '; FILE_BYTES_MAX as usize + 1]).unwrap();
        assert!(contents(&path).unwrap_err().contains("more than"));
        assert!(contents(dir.path()).unwrap_err().contains("regular file"));
        assert!(contents(Path::new("/dev/zero")).is_err());
    }

    proptest! {
        #[test]
        fn no_text_is_too_much(text in "[\\[\\]{}\":,a-z0-9 ]{0,80}") {
            let _ = parse(text.as_bytes());
        }
    }
}
