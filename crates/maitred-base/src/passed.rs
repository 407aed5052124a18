//! Descriptors that application processes have passed. What they lead to is not known: fstat(2), read(2) and close(2) of one
//! may wait for any time (a file of FUSE or NFS, a socket that lingers). So all three are done by helper threads that each
//! pool has of its own, and of which one process never holds more than one.
//!
//! The frames behind a descriptor that is being checked wait. What all passed descriptors take up is bounded by the caller
//! (`Shared::descriptors`, `Shared::unsent_files` of the worker).

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::io::{self, IoSliceMut};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, LazyLock, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use maitred_sys::closing::Closer;
use rustix::io::{Errno, ReadWriteFlags};

use crate::budget::Permit;
use crate::residency::{self, OpenFile};

/// The most threads that a pool has. With two, a process that holds one up leaves the others of its pool another; more serve
/// disks that are slow.
pub(crate) const THREADS_MAX: u16 = 4;
/// Jobs that may wait for one process: its files are as far behind then as disk helpers may be.
pub(crate) const JOBS_MAX: usize = 1024;
/// Descriptors of one process that may wait to be closed. One message brings 253, which are closed within a millisecond;
/// a process of which more wait passes what cannot be closed.
pub(crate) const CLOSES_MAX: usize = 512;
/// Bytes of a file that are read at a time for a client, where that has to be done by a helper.
pub const FETCH_BYTES: usize = 256 * 1024;

/// Work for a helper thread.
pub(crate) type Job = Box<dyn FnOnce() + Send>;

/// The helper threads of one pool; a handle that clones cheaply. The threads end when the last handle is gone and nothing
/// waits.
#[derive(Clone)]
pub struct Helpers {
    owner: Arc<Owner>,
}

/// The way to the helper threads for one process.
#[derive(Debug, Clone)]
pub struct Lane {
    helpers: Helpers,
    slot: u16,
}

struct Owner {
    shared: Arc<Shared>,
    threads: usize,
    /// Closes what is to be closed, if there is one; the threads do what it has no room for.
    apart: Option<Closer>,
}

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    wake: Condvar,
}

#[derive(Default)]
struct State {
    /// What waits, by slot; a slot without anything is not there.
    lanes: HashMap<u16, Queue>,
    /// Slots with something to do that no thread is at.
    ready: VecDeque<u16>,
    closed: bool,
}

#[derive(Default)]
struct Queue {
    work: VecDeque<Work>,
    /// How many of these are jobs.
    jobs: usize,
    /// How many are descriptors that the process has passed.
    closes: usize,
    /// A thread is at it, or it is in `ready`.
    taken: bool,
}

enum Work {
    Do(Job),
    Close(OwnedFd, Holder),
}

/// Which process has made what a descriptor leads to, and its place among those of the worker process.
#[derive(Debug)]
enum Holder {
    /// The worker process: its end of something that the process has the other end of.
    Here(Option<Permit>),
    /// The process, or another one: a place of a descriptor, and bytes of a file that cannot be reached otherwise.
    There(Option<Permit>, Option<Permit>),
}

impl Work {
    /// What it counts as: jobs, and descriptors that were passed.
    fn counts(&self) -> (usize, usize) {
        match self {
            Work::Do(_) => (1, 0),
            Work::Close(_, Holder::Here(_)) => (0, 0),
            Work::Close(_, Holder::There(..)) => (0, 1),
        }
    }
}

impl Helpers {
    /// Starts so many threads. The threads inherit affinity and signal mask of the caller. Threads that cannot be started are
    /// missing and logged.
    pub fn new(threads: u16) -> Helpers {
        let shared = Arc::new(Shared::default());
        let started = (0..threads.min(THREADS_MAX)).filter(|_| start_thread(&shared)).count();
        Helpers { owner: Arc::new(Owner { shared, threads: started, apart: None }) }
    }

    /// Helpers whose work is done by [`Helpers::work_once`] alone.
    #[doc(hidden)]
    pub fn by_hand() -> Helpers {
        Helpers { owner: Arc::new(Owner { shared: Arc::default(), threads: 1, apart: None }) }
    }

    /// Whether jobs wait.
    #[doc(hidden)]
    pub fn has_jobs(&self) -> bool {
        self.owner.shared.lock().lanes.values().any(|queue| queue.jobs > 0)
    }

    /// Does the next piece of work. False if there is none.
    #[doc(hidden)]
    pub fn work_once(&self) -> bool {
        let taken = self.owner.shared.lock().take();
        let Some((slot, work)) = taken else { return false };
        match work {
            Work::Do(job) => job(),
            Work::Close(descriptor, holder) => {
                close(descriptor);
                drop(holder);
            }
        }
        self.owner.shared.lock().put_back(slot);
        true
    }

    /// The way for the process in this slot of the pool.
    pub fn lane(&self, slot: u16) -> Lane {
        Lane { helpers: self.clone(), slot }
    }
}

impl Lane {
    /// Queues a job behind those of the same process. False when too many wait, or there is no thread.
    pub fn submit(&self, job: Job) -> bool {
        let owner = &self.helpers.owner;
        let mut state = owner.shared.lock();
        let waiting = state.lanes.get(&self.slot).map_or(0, |queue| queue.jobs);
        if owner.threads == 0 || waiting >= JOBS_MAX {
            return false;
        }
        state.push(self.slot, Work::Do(job));
        drop(state);
        owner.shared.wake.notify_one();
        true
    }

    /// Whether more descriptors of the process wait to be closed than a well-behaved one ever causes.
    pub fn is_behind(&self) -> bool {
        let state = self.helpers.owner.shared.lock();
        state.lanes.get(&self.slot).is_some_and(|queue| queue.closes > CLOSES_MAX)
    }

    fn close(&self, descriptor: OwnedFd, holder: Holder) {
        let owner = &self.helpers.owner;
        let descriptor = match &owner.apart {
            None => descriptor,
            Some(apart) => match apart.close(descriptor) {
                Ok(()) => return,
                Err(descriptor) => descriptor,
            },
        };
        if owner.threads == 0 {
            // The pool has no helper thread.
            return close(descriptor);
        }
        owner.shared.lock().push(self.slot, Work::Close(descriptor, holder));
        owner.shared.wake.notify_one();
    }
}

impl fmt::Debug for Helpers {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Helpers").field("threads", &self.owner.threads).finish_non_exhaustive()
    }
}

impl Drop for Owner {
    fn drop(&mut self) {
        self.shared.lock().closed = true;
        self.shared.wake.notify_all();
    }
}

impl State {
    fn push(&mut self, slot: u16, work: Work) {
        let queue = self.lanes.entry(slot).or_default();
        let (jobs, closes) = work.counts();
        (queue.jobs, queue.closes) = (queue.jobs + jobs, queue.closes + closes);
        queue.work.push_back(work);
        if !std::mem::replace(&mut queue.taken, true) {
            self.ready.push_back(slot);
        }
    }

    /// The next piece of work of the first slot in the queue, and that slot, which no other thread takes until
    /// [`State::put_back`].
    fn take(&mut self) -> Option<(u16, Work)> {
        let slot = self.ready.pop_front()?;
        let queue = self.lanes.get_mut(&slot)?;
        let work = queue.work.pop_front()?;
        let (jobs, closes) = work.counts();
        (queue.jobs, queue.closes) = (queue.jobs - jobs, queue.closes - closes);
        Some((slot, work))
    }

    fn put_back(&mut self, slot: u16) {
        match self.lanes.get(&slot) {
            Some(queue) if !queue.work.is_empty() => self.ready.push_back(slot),
            _ => drop(self.lanes.remove(&slot)),
        }
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        // Nothing that can panic runs under the lock, so a poisoned state is still whole.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for work, having done that of `done`; `None` once there will be none.
    fn next(&self, done: Option<u16>) -> Option<(u16, Work)> {
        let mut state = self.lock();
        if let Some(slot) = done {
            state.put_back(slot);
        }
        loop {
            if let Some(next) = state.take() {
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
        let mut done = None;
        while let Some((slot, work)) = shared.next(done) {
            // A panic of one job must not take the thread from all others.
            let outcome = catch_unwind(AssertUnwindSafe(|| match work {
                Work::Do(job) => job(),
                Work::Close(descriptor, holder) => {
                    close(descriptor);
                    drop(holder);
                }
            }));
            if outcome.is_err() {
                tracing::error!(slot, "a job about a passed descriptor panicked");
            }
            done = Some(slot);
        }
    };
    let started = std::thread::Builder::new().name("maitred-passed".to_owned()).spawn(run);
    if let Err(error) = &started {
        tracing::error!(%error, "cannot start a thread for passed descriptors");
    }
    started.is_ok()
}

/// Closes what may be anything. A socket that lingers would hold this thread for hours, and its unsent bytes are of no use.
fn close(descriptor: OwnedFd) {
    // Anything but a socket refuses this, without asking whatever file system it is of.
    let _ = rustix::net::sockopt::set_socket_linger(&descriptor, None);
    drop(descriptor);
}

/// A descriptor that helpers close when it is dropped: one that an application process has passed, or that it may have passed
/// others through.
#[derive(Debug)]
pub struct Passed {
    descriptor: Option<OwnedFd>,
    holder: Holder,
    lane: Lane,
    /// Whether the descriptor was found to be a file without a name.
    nameless: bool,
}

impl Passed {
    /// Takes charge of a descriptor. `permit` is its place among those of the worker process; `None` if there was none left.
    pub fn new(descriptor: OwnedFd, permit: Option<Permit>, lane: Lane) -> Passed {
        Passed { descriptor: Some(descriptor), holder: Holder::There(permit, None), lane, nameless: false }
    }

    /// The same for a socket whose other end the process has: closing it closes whatever was passed through it and not received.
    pub fn own(socket: OwnedFd, permit: Option<Permit>, lane: Lane) -> Passed {
        Passed { descriptor: Some(socket), holder: Holder::Here(permit), lane, nameless: false }
    }

    /// Whether there was room for it.
    pub fn has_permit(&self) -> bool {
        matches!(self.holder, Holder::Here(Some(_)) | Holder::There(Some(_), _))
    }

    /// The way to the helpers that may wait for it.
    pub fn lane(&self) -> &Lane {
        &self.lane
    }

    /// Whether it is a file that lives in memory (a memfd, tmpfs), which never waits. Only such a file has seals, and
    /// `F_GET_SEALS` (fcntl(2)) is answered without asking any file system.
    pub fn is_in_memory(&self) -> bool {
        self.descriptor.as_ref().is_some_and(|descriptor| rustix::fs::fcntl_get_seals(descriptor).is_ok())
    }

    /// Whether it is a file that no directory names, so that only the processes that have it open know what it takes up. Of
    /// one that does not live in memory, [`Passed::judge`] has to have found that out.
    pub fn is_nameless(&self, reading: Reading) -> bool {
        match (reading, &self.descriptor) {
            (Reading::InMemory, Some(descriptor)) => {
                rustix::fs::fstat(descriptor).is_ok_and(|stat| stat.st_nlink == 0)
            }
            _ => self.nameless,
        }
    }

    /// Has it keep what it takes up until it is closed.
    pub fn keep(&mut self, bytes: Permit) {
        if let Holder::There(_, kept) = &mut self.holder {
            *kept = Some(bytes);
        }
    }

    /// How it can be read; `None` if it is no regular file. To be called where that may wait.
    pub fn judge(&mut self) -> Option<Reading> {
        let descriptor = self.descriptor.as_ref()?;
        let stat = rustix::fs::fstat(descriptor).ok()?;
        if !rustix::fs::FileType::from_raw_mode(stat.st_mode).is_file() {
            return None;
        }
        if self.is_in_memory() {
            return Some(Reading::InMemory);
        }
        self.nameless = stat.st_nlink == 0;
        let mut byte = [0; 1];
        let probe =
            rustix::io::preadv2(descriptor, &mut [IoSliceMut::new(&mut byte)], 0, ReadWriteFlags::NOWAIT);
        Some(match probe {
            Err(Errno::OPNOTSUPP | Errno::NOSYS) => Reading::ByHelper,
            Ok(_) | Err(_) => Reading::Probed,
        })
    }
}

impl AsFd for Passed {
    fn as_fd(&self) -> BorrowedFd<'_> {
        // The descriptor is there until the value is dropped; and all that is done with `AT_FDCWD` here fails.
        self.descriptor.as_ref().map_or(rustix::fs::CWD, AsFd::as_fd)
    }
}

impl Drop for Passed {
    fn drop(&mut self) {
        if let Some(descriptor) = self.descriptor.take() {
            self.lane.close(descriptor, std::mem::replace(&mut self.holder, Holder::Here(None)));
        }
    }
}

/// The way to a thread of this process that closes what belongs to no pool. The thread is started with the first call, which
/// has to come before a sandbox that allows no more threads.
pub fn closer() -> &'static Lane {
    static CLOSER: LazyLock<Lane> = LazyLock::new(|| Helpers::new(1).lane(0));
    &CLOSER
}

/// The same for the master, which forks: what is closed there is at once in no table that a child could get, whose exec(2) would
/// wait in its stead.
pub fn closer_apart() -> &'static Lane {
    static CLOSER: LazyLock<Lane> = LazyLock::new(|| {
        let mut owner = Owner { shared: Arc::default(), threads: 0, apart: None };
        owner.threads = usize::from(start_thread(&owner.shared));
        match Closer::start("maitred-closer") {
            Ok(apart) => owner.apart = Some(apart),
            Err(error) => {
                tracing::warn!(%error, "what application processes pass cannot be closed apart; a new process may wait for it");
            }
        }
        Helpers { owner: Arc::new(owner) }.lane(0)
    });
    &CLOSER
}

/// How a regular file can be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reading {
    /// At any time: it is in memory.
    InMemory,
    /// By the event loop, once it was found to be in memory.
    Probed,
    /// By a helper only: its file system does not promise never to wait.
    ByHelper,
}

/// A file that a response is sent from.
#[derive(Debug)]
pub enum ServedFile {
    /// A file that was opened here.
    Own(OpenFile),
    /// A file that an application process has passed.
    Passed(Passed, Reading),
}

impl ServedFile {
    /// How it can be read.
    pub fn reading(&self) -> Reading {
        match self {
            ServedFile::Own(_) => Reading::Probed,
            ServedFile::Passed(_, reading) => *reading,
        }
    }

    /// Since when these bytes are known to be in memory, so that sending them waits for no disk; `None` if they are not.
    pub fn resident_since(&self, offset: u64, len: u64, now: Instant) -> Option<Instant> {
        match self {
            ServedFile::Own(file) => file.resident_since(offset, len, now),
            ServedFile::Passed(_, Reading::InMemory) => Some(now),
            ServedFile::Passed(..) => residency::resident(self.as_fd(), offset, len).then_some(now),
        }
    }

    /// A helper thread has read these bytes.
    pub fn was_read(&self, offset: u64, len: u64, now: Instant) {
        if let ServedFile::Own(file) = self {
            file.was_read(offset, len, now);
        }
    }

    /// The way to the helpers that read it, if these are not the disk helpers.
    pub fn lane(&self) -> Option<&Lane> {
        match self {
            ServedFile::Own(_) => None,
            ServedFile::Passed(passed, _) => Some(passed.lane()),
        }
    }

    /// A duplicate of the descriptor. Of one that was passed, it is closed by helpers as well; it has no place of its own.
    ///
    /// # Errors
    /// What fcntl(2) says.
    pub fn try_clone(&self) -> io::Result<ServedFile> {
        let copy = rustix::io::fcntl_dupfd_cloexec(self, 0)?;
        Ok(match self {
            ServedFile::Own(_) => ServedFile::Own(OpenFile::new(copy)),
            ServedFile::Passed(passed, reading) => {
                ServedFile::Passed(Passed::new(copy, None, passed.lane.clone()), *reading)
            }
        })
    }

    /// Up to [`FETCH_BYTES`] from `offset` on; fewer at the end of the file. To be called where that may wait.
    ///
    /// # Errors
    /// What pread(2) says.
    pub fn fetch(&self, offset: u64, bytes: u64) -> io::Result<Vec<u8>> {
        let mut fetched = vec![0; usize::try_from(bytes).unwrap_or(FETCH_BYTES).min(FETCH_BYTES)];
        let read = rustix::io::retry_on_intr(|| rustix::io::pread(self, &mut fetched[..], offset))?;
        fetched.truncate(read);
        Ok(fetched)
    }

    /// The same, if nothing has to be waited for; `None` if that is not certain.
    pub fn read_now(&self, into: &mut [u8], offset: u64) -> Option<io::Result<usize>> {
        let flags = match self.reading() {
            Reading::ByHelper => return None,
            Reading::InMemory => ReadWriteFlags::empty(),
            Reading::Probed => ReadWriteFlags::NOWAIT,
        };
        match rustix::io::preadv2(self, &mut [IoSliceMut::new(into)], offset, flags) {
            Ok(read) => Some(Ok(read)),
            Err(Errno::AGAIN | Errno::INTR | Errno::OPNOTSUPP | Errno::NOSYS) => None,
            Err(error) => Some(Err(error.into())),
        }
    }
}

impl AsFd for ServedFile {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            ServedFile::Own(descriptor) => descriptor.as_fd(),
            ServedFile::Passed(passed, _) => passed.as_fd(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Seek, Write};
    use std::sync::mpsc;
    use std::time::Duration;

    use super::*;
    use crate::budget::Budget;

    /// After this, something hangs.
    const TIMEOUT: Duration = Duration::from_secs(30);

    fn passed(file: impl Into<OwnedFd>, lane: &Lane) -> Passed {
        Passed::new(file.into(), None, lane.clone())
    }

    #[test]
    fn what_a_descriptor_leads_to_decides_how_it_is_read() {
        let lane = Helpers::new(1).lane(0);
        let judge = |path: &str| passed(std::fs::File::open(path).unwrap(), &lane).judge();
        assert_eq!(judge("/proc/version"), Some(Reading::ByHelper));
        assert_eq!(judge("/"), None);
        assert_eq!(judge("/dev/null"), None);
        let (reader, writer) = io::pipe().unwrap();
        assert_eq!((passed(reader, &lane).judge(), passed(writer, &lane).judge()), (None, None));
        let memory = rustix::fs::memfd_create("m", rustix::fs::MemfdFlags::CLOEXEC).unwrap();
        let mut memory = passed(memory, &lane);
        assert!(memory.is_in_memory());
        assert_eq!(memory.judge(), Some(Reading::InMemory));
        assert!(memory.is_nameless(Reading::InMemory));
    }

    #[test]
    fn what_no_directory_names_is_known() {
        let lane = Helpers::new(1).lane(0);
        let of = |file: std::fs::File| {
            let mut file = passed(file, &lane);
            let reading = file.judge().unwrap();
            file.is_nameless(reading)
        };
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("file");
        assert!(!of(std::fs::File::create_new(&path).unwrap()));
        let file = std::fs::File::open(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        assert!(of(file), "it has lost its name");
        assert!(of(tempfile::tempfile().unwrap()));
    }

    #[test]
    fn a_process_holds_one_thread_and_keeps_its_order() {
        let helpers = Helpers::new(2);
        let (open, gate) = mpsc::channel::<()>();
        let (sender, receiver) = mpsc::channel();
        let (stuck, other) = (helpers.lane(7), helpers.lane(8));
        let hold = sender.clone();
        assert!(stuck.submit(Box::new(move || {
            let _ = gate.recv_timeout(TIMEOUT);
            hold.send((7, 0)).unwrap();
        })));
        for nth in 1..20 {
            let sender = sender.clone();
            assert!(stuck.submit(Box::new(move || sender.send((7, nth)).unwrap())));
        }
        for nth in 0..20 {
            let sender = sender.clone();
            assert!(other.submit(Box::new(move || sender.send((8, nth)).unwrap())));
        }
        let next = |count: usize| -> Vec<(i32, i32)> {
            (0..count).map(|_| receiver.recv_timeout(TIMEOUT).unwrap()).collect()
        };
        assert_eq!(next(20), (0..20).map(|nth| (8, nth)).collect::<Vec<_>>());
        drop(open);
        assert_eq!(next(20), (0..20).map(|nth| (7, nth)).collect::<Vec<_>>());
    }

    #[test]
    fn a_panic_costs_neither_the_thread_nor_the_place() {
        let lane = Helpers::new(1).lane(0);
        assert!(lane.submit(Box::new(|| panic!("of the test"))));
        let (sender, receiver) = mpsc::channel();
        assert!(lane.submit(Box::new(move || sender.send(()).unwrap())));
        receiver.recv_timeout(TIMEOUT).unwrap();
    }

    #[test]
    fn too_much_is_refused_and_noticed() {
        let none = Helpers::new(0).lane(0);
        assert!(!none.submit(Box::new(|| ())));
        let lane = Helpers::new(1).lane(0);
        let (open, gate) = mpsc::channel::<()>();
        let (started, has_started) = mpsc::channel();
        assert!(lane.submit(Box::new(move || {
            started.send(()).unwrap();
            let _ = gate.recv_timeout(TIMEOUT);
        })));
        has_started.recv_timeout(TIMEOUT).unwrap();
        for _ in 0..JOBS_MAX {
            assert!(lane.submit(Box::new(|| ())));
        }
        assert!(!lane.submit(Box::new(|| ())));
        let budget = Budget::new(10_000);
        let dev_null = std::fs::File::open("/dev/null").unwrap();
        let copy = || rustix::io::fcntl_dupfd_cloexec(&dev_null, 0).unwrap();
        for _ in 0..CLOSES_MAX {
            drop(Passed::own(copy(), None, lane.clone()));
            drop(Passed::new(copy(), budget.take(1), lane.clone()));
        }
        assert!(!lane.is_behind(), "its own ends of sockets are not the fault of the process");
        drop(Passed::new(copy(), budget.take(1), lane.clone()));
        assert!(lane.is_behind());
        assert_eq!(budget.used(), CLOSES_MAX as u64 + 1, "they have their places until they are closed");
        drop(open);
        let (sender, receiver) = mpsc::channel();
        while !lane.submit(Box::new({
            let sender = sender.clone();
            move || sender.send(()).unwrap()
        })) {
            std::thread::yield_now();
        }
        receiver.recv_timeout(TIMEOUT).unwrap();
        assert_eq!(budget.used(), 0);
    }

    #[test]
    fn pieces_are_read_at_once_or_not_at_all() {
        let lane = Helpers::new(1).lane(0);
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(b"0123456789").unwrap();
        file.rewind().unwrap();
        let mut file = passed(file, &lane);
        let reading = file.judge().unwrap();
        let file = ServedFile::Passed(file, reading);
        assert_eq!(file.fetch(4, 100).unwrap(), b"456789");
        assert_eq!(file.fetch(10, 100).unwrap(), b"");
        let mut room = [0; 4];
        if reading != Reading::ByHelper {
            assert_eq!(file.read_now(&mut room, 2).unwrap().unwrap(), 4);
            assert_eq!(&room, b"2345");
        }
        let other = ServedFile::Passed(
            passed(std::fs::File::open("/proc/version").unwrap(), &lane),
            Reading::ByHelper,
        );
        assert!(other.read_now(&mut room, 0).is_none());
        assert!(!other.try_clone().unwrap().fetch(0, 10).unwrap().is_empty());
    }
}
