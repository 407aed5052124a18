//! The store of responses, as a worker process opens it.

use std::io;
use std::os::fd::OwnedFd;

use super::shared::Shared;
use maitred_cache::{Settings, Store};
use maitred_control::Start;

/// Larger bodies are sent from their files: as those of files are (`inline_file_bytes_max`).
pub(super) const INLINE_BYTES_MAX: u32 = 64 * 1024;

/// Files of hot responses that are open at most. The number is a small part of what a process may have open unless that is
/// little.
const FILES_MAX: u32 = 1024;

/// Opens the store, if a route keeps responses, with the index of the master. The store may have so many files open.
///
/// # Errors
/// What the system says about the directory.
pub(super) fn open(start: &Start, table: Option<OwnedFd>, files: u32) -> io::Result<Option<Store>> {
    let (Some(settings), Some(table)) = (&start.config.cache, table) else { return Ok(None) };
    let settings = Settings {
        directory: settings.directory.clone(),
        bytes_max: settings.bytes_max,
        entries_max: settings.entries_max,
        memory_bytes_max: settings.memory_bytes_max,
        inline_bytes_max: INLINE_BYTES_MAX,
        files_max: files.min(FILES_MAX),
    };
    let wrong = |error: io::Error| {
        let place = settings.directory.display();
        io::Error::new(error.kind(), format!("`directory` of [cache], {place}: {error}"))
    };
    Store::open(settings.clone(), table).map(Some).map_err(wrong)
}

/// Has a helper thread read the directory into the index, as far as the index does not know it yet. Requests are answered
/// meanwhile. `now` is in seconds since 1970.
pub(super) fn begin(shared: &'static Shared, now: u64) {
    let Some(store) = &shared.cache else { return };
    if !shared.run_cache_job(store.rebuild(now)) {
        tracing::warn!(
            "the directory of the cache is not read: there are no helper threads for disks (cache)"
        );
    }
}
