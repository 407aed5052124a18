//! The files of automatic certificates, in the state directory of the server:
//!
//! | file | what |
//! |---|---|
//! | `certificates/NAME.pem` | key and certificates of a site, the key first; `NAME` is the first of the site's names |
//! | `certificates/NAME.json` | [`Notes`] about it |
//! | `accounts/HASH.json` | the account at an authority, with its key |
//! | `dns/records.json` | records in the DNS that are to be removed |
//! | `lock` | held by the agent that works here |
//!
//! Directories have mode 0700, files 0600. A file is replaced as a whole: written beside, synchronised, renamed; the directory is
//! synchronised last. Key and certificate are one file, so that they cannot be taken from two different renewals.

use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind, Write as _};
use std::os::unix::fs::{
    DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _, lchown,
};
use std::path::{Path, PathBuf};

use maitred_sys::spawn::Account;
use rustix::fs::FlockOperation;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use maitred_config::certificate_path;

/// The file of records.
const RECORDS: &str = "dns/records.json";
/// Largest file that is read: a hundred times a long chain.
const FILE_BYTES_MAX: u64 = 1024 * 1024;

/// What is stored of a site besides its certificate.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Notes {
    /// Failures in a row.
    pub failures: u32,
    /// The wall clock when the next order is allowed, in seconds of Unix time.
    pub allowed_unix: u64,
    /// Why the last order failed.
    pub error: Option<String>,
}

/// A record in the DNS.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Record {
    /// The record's name, without the last dot.
    pub name: String,
    /// What it says.
    pub text: String,
}

/// The state directory of an agent, which has it to itself.
#[derive(Debug)]
pub(crate) struct Store {
    state: PathBuf,
    /// Held as long as it is open.
    _lock: File,
}

impl Store {
    /// Makes the directories if need be, and takes the lock.
    ///
    /// # Errors
    /// What the system says, with the path; [`ErrorKind::WouldBlock`] when another agent has the lock.
    pub(crate) fn open(state: &Path) -> io::Result<Store> {
        for directory in
            [state.to_owned(), state.join("certificates"), state.join("accounts"), state.join("dns")]
        {
            make_directory(&directory).map_err(|error| with_path(&error, &directory))?;
        }
        let path = state.join("lock");
        let lock = private().create(true).truncate(false).open(&path);
        let lock = lock.map_err(|error| with_path(&error, &path))?;
        match rustix::fs::flock(&lock, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(Store { state: state.to_owned(), _lock: lock }),
            Err(error) => Err(with_path(&error.into(), &path)),
        }
    }

    /// Key and certificates of a site, in PEM; `None` if there are none.
    ///
    /// # Errors
    /// What the system says, with the path.
    pub(crate) fn certificate(&self, site: &str) -> io::Result<Option<String>> {
        read(&certificate_path(&self.state, site))
    }

    /// Keeps key and certificates of a site.
    ///
    /// # Errors
    /// What the system says, with the path; the old ones are there then.
    pub(crate) fn keep_certificate(&self, site: &str, pem: &str) -> io::Result<()> {
        write(&certificate_path(&self.state, site), pem.as_bytes())
    }

    /// What is stored of a site; nothing if the file cannot be read, since no certificate depends on it.
    pub(crate) fn notes(&self, site: &str) -> Notes {
        self.json(&self.notes_path(site)).unwrap_or_default()
    }

    /// Stores something of a site.
    ///
    /// # Errors
    /// What the system says, with the path.
    pub(crate) fn keep_notes(&self, site: &str, notes: &Notes) -> io::Result<()> {
        write(&self.notes_path(site), &serde_json::to_vec_pretty(notes)?)
    }

    /// The account of this key.
    pub(crate) fn account<T: DeserializeOwned>(&self, key: &str) -> Option<T> {
        self.json(&self.account_path(key))
    }

    /// Keeps an account.
    ///
    /// # Errors
    /// What the system says, with the path.
    pub(crate) fn keep_account(&self, key: &str, account: &impl Serialize) -> io::Result<()> {
        write(&self.account_path(key), &serde_json::to_vec_pretty(account)?)
    }

    /// Puts an account aside that the authority does not know any more.
    ///
    /// # Errors
    /// What the system says, with the path.
    pub(crate) fn put_account_aside(&self, key: &str) -> io::Result<()> {
        let path = self.account_path(key);
        std::fs::rename(&path, path.with_extension("unknown")).map_err(|error| with_path(&error, &path))
    }

    /// The records that an agent has left in the DNS.
    pub(crate) fn records(&self) -> Vec<Record> {
        self.json(&self.state.join(RECORDS)).unwrap_or_default()
    }

    /// Keeps what is in the DNS.
    ///
    /// # Errors
    /// What the system says, with the path.
    pub(crate) fn keep_records(&self, records: &[Record]) -> io::Result<()> {
        write(&self.state.join(RECORDS), &serde_json::to_vec_pretty(records)?)
    }

    fn account_path(&self, key: &str) -> PathBuf {
        self.state.join("accounts").join(format!("{key}.json"))
    }

    fn notes_path(&self, site: &str) -> PathBuf {
        certificate_path(&self.state, site).with_extension("json")
    }

    /// A file that was altered is treated as missing, but that is logged.
    fn json<T: DeserializeOwned>(&self, path: &Path) -> Option<T> {
        let text = match read(path) {
            Ok(text) => text?,
            Err(error) => {
                tracing::warn!("{error}");
                return None;
            }
        };
        match serde_json::from_str(&text) {
            Ok(value) => Some(value),
            Err(error) => {
                tracing::warn!("{}: {error}", path.display());
                None
            }
        }
    }
}

/// Gives the state directory to the account of the agent, with what an agent that was root has left there; makes it if need be.
/// A directory that another account has, or that holds other things, is left alone: the master is root, and could take it from
/// its owner.
///
/// # Errors
/// What the system says, with the path; a text if the directory is not the agent's.
pub fn give(state: &Path, account: &Account) -> io::Result<()> {
    let failed = |error: io::Error| with_path(&error, state);
    make_parents(state).map_err(failed)?;
    let found = std::fs::symlink_metadata(state).map_err(failed)?;
    if found.is_dir() && found.uid() == account.uid() {
        return Ok(());
    }
    let not_ours = |what: &str| {
        let text =
            format!("{}: {what}: give it to the account of the process for certificates", state.display());
        Err(io::Error::other(text))
    };
    if !found.is_dir() || found.uid() != 0 {
        return not_ours("this is not a directory of root");
    }
    // While it is root's, no other account can change what is in it.
    make_directory(state).map_err(failed)?;
    let entries = |path: &Path| -> io::Result<Vec<PathBuf>> {
        std::fs::read_dir(path)?.map(|entry| Ok(entry?.path())).collect()
    };
    let own = entries(state).map_err(failed)?;
    let names = ["certificates", "accounts", "dns", "lock"].map(|name| state.join(name));
    if !own.iter().all(|path| names.contains(path)) {
        return not_ours("there are other files in it");
    }
    for path in own {
        if std::fs::symlink_metadata(&path)?.is_dir() {
            for inside in entries(&path)? {
                lchown(&inside, Some(account.uid()), Some(account.gid()))?;
            }
        }
        lchown(&path, Some(account.uid()), Some(account.gid()))?;
    }
    lchown(state, Some(account.uid()), Some(account.gid())).map_err(failed)
}

fn make_parents(state: &Path) -> io::Result<()> {
    match std::fs::symlink_metadata(state) {
        Ok(_) => Ok(()),
        Err(_) => {
            state.parent().map_or(Ok(()), std::fs::create_dir_all)?;
            std::fs::DirBuilder::new().mode(0o700).create(state)
        }
    }
}

/// Makes a directory that is for its owner only, and closes one that was there.
///
/// # Errors
/// What the system says.
pub(crate) fn make_directory(path: &Path) -> io::Result<()> {
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(path)?;
    // A directory that was there may be open to others.
    let mode = std::fs::metadata(path)?.permissions().mode();
    if mode & 0o077 != 0 {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o700))?;
    }
    Ok(())
}

fn private() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.write(true).mode(0o600);
    options
}

fn read(path: &Path) -> io::Result<Option<String>> {
    use std::io::Read as _;
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(with_path(&error, path)),
    };
    let mut text = String::new();
    file.take(FILE_BYTES_MAX).read_to_string(&mut text).map_err(|error| with_path(&error, path))?;
    Ok(Some(text))
}

/// Replaces a file as a whole, and returns when that would outlast a loss of power.
fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    replace(path, bytes).map_err(|error| with_path(&error, path))
}

fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut beside = path.as_os_str().to_owned();
    beside.push(".new");
    let beside = PathBuf::from(beside);
    // What an agent that was killed has left may have another mode.
    match std::fs::remove_file(&beside) {
        Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut file = private().create_new(true).open(&beside)?;
    file.write_all(bytes)?;
    file.sync_all()?;
    std::fs::rename(&beside, path)?;
    match path.parent() {
        Some(directory) => File::open(directory)?.sync_all(),
        None => Ok(()),
    }
}

fn with_path(error: &io::Error, path: &Path) -> io::Error {
    io::Error::new(error.kind(), format!("{}: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mode(path: &Path) -> u32 {
        std::fs::metadata(path).unwrap().permissions().mode() & 0o777
    }

    #[test]
    fn what_is_kept_is_private_and_comes_back() {
        let directory = tempfile::tempdir().unwrap();
        let state = directory.path().join("state");
        let store = Store::open(&state).unwrap();
        assert_eq!(store.certificate("a.example").unwrap(), None);
        store.keep_certificate("a.example", "one").unwrap();
        store.keep_certificate("a.example", "two").unwrap();
        assert_eq!(store.certificate("a.example").unwrap().as_deref(), Some("two"));
        let notes = Notes { failures: 3, error: Some("why".into()), ..Notes::default() };
        store.keep_notes("a.example", &notes).unwrap();
        assert_eq!(store.notes("a.example"), notes);
        store.keep_account("x", &vec![1, 2]).unwrap();
        assert_eq!(store.account("x"), Some(vec![1, 2]));
        store.put_account_aside("x").unwrap();
        assert_eq!(store.account::<Vec<u8>>("x"), None);
        for path in
            ["certificates/a.example.pem", "certificates/a.example.json", "lock", "accounts/x.unknown"]
        {
            assert_eq!(mode(&state.join(path)), 0o600, "{path}");
        }
        for path in ["", "certificates", "accounts"] {
            assert_eq!(mode(&state.join(path)), 0o700, "{path}");
        }
    }

    #[test]
    fn a_directory_that_others_may_read_is_closed() {
        let directory = tempfile::tempdir().unwrap();
        std::fs::set_permissions(directory.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
        let _store = Store::open(directory.path()).unwrap();
        assert_eq!(mode(directory.path()), 0o700);
    }

    #[test]
    fn there_is_one_agent_to_a_directory() {
        let directory = tempfile::tempdir().unwrap();
        let store = Store::open(directory.path()).unwrap();
        assert_eq!(Store::open(directory.path()).unwrap_err().kind(), ErrorKind::WouldBlock);
        drop(store);
        Store::open(directory.path()).unwrap();
    }

    #[test]
    fn what_was_left_half_written_is_no_obstacle() {
        let directory = tempfile::tempdir().unwrap();
        let store = Store::open(directory.path()).unwrap();
        std::fs::write(directory.path().join("certificates/a.pem.new"), "hal").unwrap();
        assert_eq!(store.certificate("a").unwrap(), None);
        store.keep_certificate("a", "whole").unwrap();
        assert_eq!(mode(&certificate_path(directory.path(), "a")), 0o600);
        std::fs::write(directory.path().join("certificates/a.json"), "{\"failures\":").unwrap();
        assert_eq!(store.notes("a"), Notes::default());
    }
}
