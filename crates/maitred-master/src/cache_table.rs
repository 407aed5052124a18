//! The index of the cache: a memory file of the master, so that what is kept is known to the next worker process, whatever has
//! become of the one before; and the directory of its files.

use std::fs::DirBuilder;
use std::io;
use std::os::fd::BorrowedFd;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

use super::own_files::{may_make, may_search};
use maitred_cache::Table;
use maitred_config::{CacheStore, Identity};
use maitred_control::{Descriptor, account};

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct CacheTable(Option<Kept>);

#[derive(Debug)]
struct Kept {
    /// Where the files are that it is about.
    directory: PathBuf,
    table: Table,
}

impl CacheTable {
    /// Makes the index for this store, unless there is one.
    ///
    /// # Errors
    /// What the system says about memory files.
    pub(crate) fn prepare(&mut self, store: Option<&CacheStore>) -> io::Result<()> {
        let Some(store) = store else { return Ok(()) };
        let fits = |kept: &Kept| kept.directory == store.directory && kept.table.is_for(store.entries_max);
        if !self.0.as_ref().is_some_and(fits) {
            let table = Table::create(store.entries_max, boot())?;
            self.0 = Some(Kept { directory: store.directory.clone(), table });
        }
        Ok(())
    }

    /// What a worker process gets of it.
    pub(crate) fn descriptor(&self, store: Option<&CacheStore>) -> Option<(Descriptor, BorrowedFd<'_>)> {
        store.and(self.0.as_ref()).map(|kept| (Descriptor::Cache, kept.table.file()))
    }

    /// Drops it if nothing is kept any more.
    pub(crate) fn retain(&mut self, store: Option<&CacheStore>) {
        self.0.take_if(|_| store.is_none());
    }

    /// The table, for the next executable, and the directory of the cache's files.
    pub(crate) fn file(&self) -> Option<(&Path, BorrowedFd<'_>)> {
        self.0.as_ref().map(|kept| (kept.directory.as_path(), kept.table.file()))
    }

    /// Takes over the one that the executable before has left.
    pub(crate) fn adopt(&mut self, directory: PathBuf, table: Table) {
        self.0 = Some(Kept { directory, table });
    }
}

/// Makes the directory of the files, for this account, if it is missing.
///
/// # Errors
/// A text for the operator.
pub(crate) fn make_directory(store: Option<&CacheStore>, user: Option<&Identity>) -> Result<(), String> {
    let Some(directory) = store.map(|store| store.directory.as_path()) else { return Ok(()) };
    let failed = |error: io::Error| unmade(directory, &error);
    match DirBuilder::new().mode(0o700).create(directory) {
        Ok(()) => {}
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => return Ok(()),
        Err(error) => return Err(failed(error)),
    }
    match user {
        Some(user) => std::os::unix::fs::chown(directory, Some(user.uid), Some(user.gid)).map_err(failed),
        None => Ok(()),
    }
}

/// Whether [`make_directory`] would succeed, and whether a worker process could use what is there.
///
/// # Errors
/// What they would say.
pub(crate) fn judge_directory(store: Option<&CacheStore>, user: Option<&Identity>) -> Result<(), String> {
    let Some(directory) = store.map(|store| store.directory.as_path()) else { return Ok(()) };
    let judged = match directory.metadata() {
        Ok(found) if !found.is_dir() => Err(io::Error::from(rustix::io::Errno::NOTDIR)),
        Ok(_) => match account(user) {
            Ok(Some(account)) if !may_search(&account, directory) => Err(rustix::io::Errno::ACCESS.into()),
            Ok(_) => Ok(()),
            Err(error) => Err(error),
        },
        Err(_) => may_make(directory),
    };
    judged.map_err(|error| unmade(directory, &error))
}

fn unmade(directory: &Path, error: &io::Error) -> String {
    format!("`directory` of [cache], {}: {error}; make it writable, or set another one", directory.display())
}

/// A number of this start of the system.
fn boot() -> u64 {
    let text = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    let digits: String = text.chars().filter(char::is_ascii_hexdigit).take(16).collect();
    u64::from_str_radix(&digits, 16).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn store(directory: &str, entries_max: u32) -> CacheStore {
        CacheStore { directory: directory.into(), bytes_max: 1 << 20, entries_max, memory_bytes_max: 1 << 20 }
    }

    #[test]
    fn the_index_stays_with_its_directory() {
        let mut table = CacheTable::default();
        let file = |table: &CacheTable| rustix::fs::fstat(table.file().unwrap().1).unwrap().st_ino;
        table.prepare(Some(&store("/a", 100))).unwrap();
        let first = file(&table);
        table.prepare(Some(&store("/a", 100))).unwrap();
        assert_eq!(file(&table), first);
        for other in [store("/b", 100), store("/b", 200)] {
            let before = file(&table);
            table.prepare(Some(&other)).unwrap();
            assert_ne!(file(&table), before, "it is about other files");
        }
        assert!(table.descriptor(None).is_none() && table.descriptor(Some(&store("/b", 200))).is_some());
        table.retain(None);
        assert!(table.file().is_none());
    }

    #[test]
    fn a_missing_directory_is_made_for_the_server_alone() {
        use std::os::unix::fs::PermissionsExt as _;
        let around = tempfile::tempdir().unwrap();
        let wanted = around.path().join("cache");
        let of = |path: &Path| store(path.to_str().unwrap(), 1);
        make_directory(Some(&of(&wanted)), None).unwrap();
        assert_eq!(std::fs::metadata(&wanted).unwrap().permissions().mode() & 0o777, 0o700);
        make_directory(Some(&of(&wanted)), None).unwrap();
        let error = make_directory(Some(&of(&around.path().join("a/b"))), None).unwrap_err();
        assert!(error.contains("`directory` of [cache]") && error.contains("a/b"), "{error}");
    }
}
