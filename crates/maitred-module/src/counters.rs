//! Numbers that all worker processes share.

use std::io;
use std::path::Path;
use std::sync::atomic::AtomicU64;

use maitred_sys::counter_file::CounterFile;

/// Counters in a file, which all threads, worker processes and other programs share that open it: also after a reload, an upgrade
/// or a crash, for as long as the file is there. In `/dev/shm` it lasts until the machine restarts.
///
/// ```
/// use std::sync::atomic::Ordering::Relaxed;
///
/// use maitred_module::Counters;
///
/// # let directory = tempfile::tempdir()?;
/// # let path = directory.path().join("counters");
/// let counters = Counters::open(&path, 2)?;
/// if let Some(hits) = counters.get(0) {
///     hits.fetch_add(1, Relaxed);
/// }
/// assert!(counters.get(2).is_none());
/// # Ok::<(), std::io::Error>(())
/// ```
///
/// Counters that different threads change all the time are faster at a distance of 8, so that they do not share a line of the
/// CPUs' caches.
///
/// The file must not be made shorter while it is mapped (truncate(1), `cp` or `>` onto it): the next use of a counter would end
/// the worker process by SIGBUS. To begin at 0, remove the file and reload.
#[derive(Debug)]
pub struct Counters(CounterFile);

impl Counters {
    /// Opens so many counters; a file that is not there is created (mode 0600), and one that is shorter made longer. To be
    /// called where a module begins: a confined process may not open it any more. `maitred check` creates the file, too, with
    /// the account of the worker process if it can.
    ///
    /// # Errors
    /// `InvalidInput` for none, or more than 1,048,576 of them. `PermissionDenied` for a file that other accounts may write.
    /// `InvalidData` for a file that holds something else. Otherwise what the kernel says; symbolic links are not followed.
    pub fn open(path: impl AsRef<Path>, count: usize) -> io::Result<Counters> {
        CounterFile::open(path.as_ref(), count).map(Counters)
    }

    /// The counter at this index, from 0.
    pub fn get(&self, index: usize) -> Option<&AtomicU64> {
        self.0.get(index)
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.0.len()
    }
}
