//! Helper threads that wait for disks, so that event loops never do.

use std::collections::VecDeque;
use std::fmt;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use rustix::io::Errno;

use super::DiskJob;
use super::files::{self, EncodingPlace};

/// Jobs that may wait in a pool. Each belongs to one connection that waits for it, so connections bound it too; past
/// this number the disks are so far behind that a client is asked to retry later.
pub(crate) const DISK_QUEUE_MAX: usize = 4096;

/// The threads a worker process has unless told otherwise: enough to keep a disk's queue filled.
pub const DISK_THREADS_DEFAULT: usize = 4;

/// Bytes that one read of a helper thread takes. What is read is thrown away: all that counts is that the page cache
/// has it, and a small buffer stays in the CPU's cache.
const SCRATCH_BYTES: usize = 128 * 1024;

/// The most that one [`DiskJob::Read`] reads; more is left out, so that one client's file cannot hold a thread.
pub(crate) const READ_BYTES_MAX: u64 = 512 * 1024;

/// Called on a helper thread once the job is done, with its outcome.
pub type Done = Box<dyn FnOnce(io::Result<()>) + Send>;

/// A pool of helper threads; a handle that clones cheaply. The threads end when the last handle is gone and the queue
/// is empty.
#[derive(Clone)]
pub struct DiskPool {
    owner: Arc<Owner>,
}

struct Owner {
    shared: Arc<Shared>,
    threads: usize,
}

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    wake: Condvar,
    /// Something is being encoded.
    encodes: Arc<AtomicBool>,
}

#[derive(Default)]
struct State {
    queue: VecDeque<(DiskJob, Done)>,
    closed: bool,
}

impl DiskPool {
    /// Starts the threads. The threads inherit affinity and signal mask of the caller, so call this before pinning. Threads
    /// that cannot be started are missing and logged; without any, every job is refused.
    pub fn new(threads: usize) -> DiskPool {
        let shared = Arc::new(Shared::default());
        let started = (0..threads).filter(|_| start_thread(&shared)).count();
        DiskPool { owner: Arc::new(Owner { shared, threads: started }) }
    }

    /// Queues a job. `done` runs on a helper thread.
    ///
    /// # Errors
    /// Gives the job back when [`DISK_QUEUE_MAX`] jobs wait already, or no thread could be started.
    pub fn submit(&self, job: DiskJob, done: Done) -> Result<(), DiskJob> {
        let mut state = self.owner.shared.lock();
        if self.owner.threads == 0 || state.queue.len() >= DISK_QUEUE_MAX {
            return Err(job);
        }
        state.queue.push_back((job, done));
        drop(state);
        self.owner.shared.wake.notify_one();
        Ok(())
    }

    /// The place for something to be encoded, if nothing is.
    pub fn encoding_place(&self) -> Option<EncodingPlace> {
        EncodingPlace::take(&self.owner.shared.encodes)
    }

    /// A pool whose jobs are done by [`DiskPool::work_once`] alone.
    #[doc(hidden)]
    pub fn by_hand() -> DiskPool {
        DiskPool { owner: Arc::new(Owner { shared: Arc::default(), threads: 1 }) }
    }

    /// Does one of the jobs that wait. False if there is none.
    #[doc(hidden)]
    pub fn work_once(&self, place: usize) -> bool {
        let mut state = self.owner.shared.lock();
        let waiting = state.queue.len().max(1);
        let Some((job, done)) = state.queue.remove(place % waiting) else { return false };
        drop(state);
        let result = job.run();
        drop(job);
        done(result);
        true
    }

    /// Jobs that no thread has taken yet.
    pub fn queued(&self) -> usize {
        self.owner.shared.lock().queue.len()
    }
}

impl fmt::Debug for DiskPool {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("DiskPool").field("threads", &self.owner.threads).finish_non_exhaustive()
    }
}

impl Drop for Owner {
    fn drop(&mut self) {
        self.shared.lock().closed = true;
        self.shared.wake.notify_all();
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        // Nothing that can panic runs under the lock, so a poisoned state is still whole.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for a job; `None` once the pool is closed and empty.
    fn next(&self) -> Option<(DiskJob, Done)> {
        let mut state = self.lock();
        loop {
            if let Some(next) = state.queue.pop_front() {
                return Some(next);
            }
            if state.closed {
                return None;
            }
            state = self.wake.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

fn start_thread(shared: &Arc<Shared>) -> bool {
    let shared = Arc::clone(shared);
    let run = move || {
        let mut scratch = vec![0; SCRATCH_BYTES];
        while let Some((job, done)) = shared.next() {
            // A panic of one job must not take the thread from all others.
            let result = catch_unwind(AssertUnwindSafe(|| run(&job, &mut scratch).map_err(io::Error::from)));
            let panicked = result.is_err();
            let result = result.unwrap_or_else(|_| Err(io::Error::other("a job has panicked")));
            if panicked {
                tracing::error!(?job, "a disk job panicked");
            }
            // What the job holds is given back before its end is known: a descriptor may hold the space of a file.
            drop(job);
            if catch_unwind(AssertUnwindSafe(|| done(result))).is_err() {
                tracing::error!("the end of a disk job panicked");
            }
        }
    };
    let started = std::thread::Builder::new().name("maitred-disk".to_owned()).spawn(run);
    if let Err(error) = &started {
        tracing::error!(%error, "cannot start a disk thread");
    }
    started.is_ok()
}

impl DiskJob {
    /// Does it on this thread, which may have to wait.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn run(&self) -> io::Result<()> {
        run(self, &mut [0; SCRATCH_BYTES / 8]).map_err(io::Error::from)
    }
}

fn run(job: &DiskJob, scratch: &mut [u8]) -> Result<(), Errno> {
    match job {
        DiskJob::Read { file, offset, len } => {
            read(file.as_fd(), *offset, (*len).min(READ_BYTES_MAX), scratch)
        }
        DiskJob::Append { file, bytes } => {
            let mut rest = bytes.as_slice();
            while !rest.is_empty() {
                let written = rustix::io::retry_on_intr(|| rustix::io::write(file, rest))?;
                rest = rest.get(written..).unwrap_or_default();
            }
            Ok(())
        }
        DiskJob::Task(task) => {
            task.run();
            Ok(())
        }
        DiskJob::Encode(encoding) => {
            encoding.run();
            Ok(())
        }
        DiskJob::Lookup { set, wanted, inline_bytes_max } => {
            files::warm(set, wanted, *inline_bytes_max, &mut |file, len| read(file, 0, len, scratch))
        }
    }
}

/// Reads `offset..offset + len`, or up to the end of the file.
fn read(file: BorrowedFd<'_>, offset: u64, len: u64, scratch: &mut [u8]) -> Result<(), Errno> {
    let end = offset.saturating_add(len);
    let mut at = offset;
    while at < end {
        let want = usize::try_from(end - at).unwrap_or(usize::MAX).min(scratch.len());
        let Some(room) = scratch.get_mut(..want) else { return Ok(()) };
        match rustix::io::pread(file, room, at) {
            Ok(0) => return Ok(()),
            Ok(read) => at += read as u64,
            Err(Errno::INTR) => {}
            Err(errno) => return Err(errno),
        }
    }
    Ok(())
}

#[cfg(test)]
pub(super) mod tests {
    use std::io::Write;
    use std::sync::mpsc;

    use super::*;
    use crate::OpenFile;
    use crate::ServedFile;

    /// Does a job on this thread.
    pub(crate) fn run_here(job: &DiskJob) {
        run(job, &mut [0; 4096]).unwrap();
    }

    fn read_job(file: &std::fs::File, len: u64) -> DiskJob {
        DiskJob::Read {
            file: ServedFile::Own(OpenFile::new(file.try_clone().unwrap().into())),
            offset: 0,
            len,
        }
    }

    #[test]
    fn every_job_is_done_and_reported_once() {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&[1; 300_000]).unwrap();
        let pool = DiskPool::new(2);
        let (sender, receiver) = mpsc::channel();
        for nth in 0..50 {
            let sender = sender.clone();
            let done: Done = Box::new(move |outcome| sender.send((nth, outcome.is_ok())).unwrap());
            pool.submit(read_job(&file, 1 << 40), done).unwrap();
        }
        drop(sender);
        // Dropping the pool must not lose what was queued.
        drop(pool);
        let mut seen: Vec<_> = receiver.iter().collect();
        seen.sort_unstable();
        assert_eq!(seen, (0..50).map(|nth| (nth, true)).collect::<Vec<_>>());
    }

    #[test]
    fn errors_are_reported_and_a_panic_does_not_cost_the_thread() {
        let pool = DiskPool::new(1);
        let (sender, receiver) = mpsc::channel();
        let file = tempfile::tempfile().unwrap();
        pool.submit(read_job(&file, 1), Box::new(|_| panic!("of the test"))).unwrap();
        let (reader, _writer) = io::pipe().unwrap();
        let job = DiskJob::Read { file: ServedFile::Own(OpenFile::new(reader.into())), offset: 0, len: 1 };
        pool.submit(job, Box::new(move |outcome| sender.send(outcome.is_err()).unwrap())).unwrap();
        assert!(receiver.recv().unwrap());
    }

    #[test]
    fn a_full_queue_gives_the_job_back() {
        let pool = DiskPool::new(1);
        let (open, gate) = mpsc::channel::<()>();
        let (started, has_started) = mpsc::channel();
        let file = tempfile::tempfile().unwrap();
        let hold: Done = Box::new(move |_| {
            started.send(()).unwrap();
            let _ = gate.recv();
        });
        pool.submit(read_job(&file, 1), hold).unwrap();
        has_started.recv().unwrap();
        // One descriptor per job would need more of them than a test may open.
        let root = tempfile::tempdir().unwrap();
        let set = files::testing::set(root.path());
        let lookup = || DiskJob::Lookup {
            set: set.clone(),
            wanted: files::Wanted::Request(Box::from(*b"/")),
            inline_bytes_max: 0,
        };
        for _ in 0..DISK_QUEUE_MAX {
            pool.submit(lookup(), Box::new(|_| ())).unwrap();
        }
        assert_eq!(pool.queued(), DISK_QUEUE_MAX);
        assert!(pool.submit(lookup(), Box::new(|_| ())).is_err());
        drop(open);
    }

    #[test]
    fn a_pool_without_threads_refuses() {
        let file = tempfile::tempfile().unwrap();
        assert!(DiskPool::new(0).submit(read_job(&file, 1), Box::new(|_| ())).is_err());
    }
}
