//! Starting processes with chosen descriptors and identity, and watching them by descriptor (pidfd_open(2)).
//!
//! `std::process::Command` cannot do this: its own error pipe may sit on a number that the child is to use.

use std::ffi::{CString, OsStr, OsString};
use std::fmt;
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use rustix::process::{Pid, PidfdFlags, Signal, WaitId, WaitIdOptions};

mod environment;
mod orphans;

pub use self::environment::PASSED_ON;
use self::orphans::waited_for;
pub use self::orphans::{Orphans, reap_orphans};

/// The number that the first of [`Command::descriptor`] gets in the child.
pub const FIRST_DESCRIPTOR: RawFd = 3;
/// Where programs are sought when the environment has no `PATH`.
const PATH_DEFAULT: &str = "/usr/local/bin:/usr/bin:/bin";
/// The most supplementary groups of an account: `NGROUPS_MAX` of Linux.
const GROUPS_MAX: usize = 65536;

/// An account to run as, with its supplementary groups.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Account {
    uid: u32,
    gid: u32,
    groups: Vec<libc::gid_t>,
}

impl Account {
    /// Looks up the supplementary groups of `name`, as initgroups(3) would. Reads files, and may ask name services.
    ///
    /// # Errors
    /// `InvalidInput` for a name with a zero byte.
    pub fn new(name: &str, uid: u32, gid: u32) -> io::Result<Self> {
        let name = CString::new(name)?;
        let mut groups: Vec<libc::gid_t> = vec![0; 64];
        loop {
            let mut count = libc::c_int::try_from(groups.len()).unwrap_or(libc::c_int::MAX);
            // SAFETY: `name` is a C string, and `groups` has room for `count` entries.
            let found = unsafe { libc::getgrouplist(name.as_ptr(), gid, groups.as_mut_ptr(), &mut count) };
            if found >= 0 {
                groups.truncate(usize::try_from(count).unwrap_or(0));
                return Ok(Account { uid, gid, groups });
            }
            if groups.len() >= GROUPS_MAX {
                return Err(io::Error::other(format!("{name:?} is in too many groups")));
            }
            groups.resize(groups.len() * 2, 0);
        }
    }

    /// An account whose groups are known already.
    pub fn of(uid: u32, gid: u32, groups: Vec<u32>) -> Self {
        Account { uid, gid, groups }
    }

    /// The number of the user.
    pub fn uid(&self) -> u32 {
        self.uid
    }

    /// The number of the group.
    pub fn gid(&self) -> u32 {
        self.gid
    }

    /// The supplementary groups of the account.
    pub fn groups(&self) -> &[u32] {
        &self.groups
    }

    /// Has this process run as it from now on, for good: no capability is left unless it is root.
    ///
    /// # Errors
    /// What setgroups(2), setresgid(2) or setresuid(2) say; the process may then have a part of both, and has to end.
    pub fn assume(&self) -> io::Result<()> {
        // SAFETY: `groups` has as many entries as are named; the other calls take numbers. The C library changes all threads.
        let failed = unsafe {
            libc::setgroups(self.groups.len(), self.groups.as_ptr()) < 0
                || libc::setresgid(self.gid, self.gid, self.gid) < 0
                || libc::setresuid(self.uid, self.uid, self.uid) < 0
        };
        if failed { Err(io::Error::last_os_error()) } else { Ok(()) }
    }
}

/// A program to start. Standard input is `/dev/null`; every descriptor but those named here is closed; signal mask and
/// dispositions are the system's defaults.
#[derive(Debug)]
pub struct Command<'fd> {
    program: PathBuf,
    arguments: Vec<OsString>,
    environment: Vec<(OsString, OsString)>,
    directory: Option<PathBuf>,
    descriptors: Vec<BorrowedFd<'fd>>,
    stdout: Option<BorrowedFd<'fd>>,
    stderr: Option<BorrowedFd<'fd>>,
    account: Option<Account>,
    no_new_privs: bool,
    new_group: bool,
    listen_pid: bool,
    death_signal: Option<Signal>,
}

impl<'fd> Command<'fd> {
    /// A program by path, or by name to be sought in `PATH`. The arguments begin with the program's own name; of this process's
    /// environment it gets what is in [`PASSED_ON`].
    pub fn new(program: impl Into<PathBuf>) -> Self {
        let program = program.into();
        Command {
            arguments: vec![program.clone().into()],
            program,
            environment: environment::passed_on(),
            directory: None,
            descriptors: Vec::new(),
            stdout: None,
            stderr: None,
            account: None,
            no_new_privs: false,
            new_group: false,
            listen_pid: false,
            death_signal: None,
        }
    }

    /// Replaces the program's own name, the first argument.
    pub fn arg0(&mut self, name: impl Into<OsString>) -> &mut Self {
        if let Some(first) = self.arguments.first_mut() {
            *first = name.into();
        }
        self
    }

    /// Adds an argument.
    pub fn arg(&mut self, argument: impl Into<OsString>) -> &mut Self {
        self.arguments.push(argument.into());
        self
    }

    /// Sets a variable of the environment.
    pub fn env(&mut self, name: impl Into<OsString>, value: impl Into<OsString>) -> &mut Self {
        let name = name.into();
        self.env_remove(&name);
        self.environment.push((name, value.into()));
        self
    }

    /// Passes on variables of this process: a name, or the beginning of names and `*`, which changes none that is set already.
    /// What this process does not have is left out.
    pub fn inherit(&mut self, pattern: &str) -> &mut Self {
        for (name, value) in environment::named(pattern) {
            let is_set = || self.environment.iter().any(|(present, _)| *present == name);
            if !pattern.ends_with('*') || !is_set() {
                self.env(name, value);
            }
        }
        self
    }

    /// Removes a variable from the environment.
    pub fn env_remove(&mut self, name: impl AsRef<OsStr>) -> &mut Self {
        self.environment.retain(|(present, _)| present != name.as_ref());
        self
    }

    /// Sets the working directory.
    pub fn directory(&mut self, directory: impl Into<PathBuf>) -> &mut Self {
        self.directory = Some(directory.into());
        self
    }

    /// Adds a descriptor: the first becomes [`FIRST_DESCRIPTOR`], the next one more, and so on.
    pub fn descriptor(&mut self, descriptor: BorrowedFd<'fd>) -> &mut Self {
        self.descriptors.push(descriptor);
        self
    }

    /// Sets standard output; without this it is inherited.
    pub fn stdout(&mut self, descriptor: BorrowedFd<'fd>) -> &mut Self {
        self.stdout = Some(descriptor);
        self
    }

    /// Sets standard error; without this it is inherited.
    pub fn stderr(&mut self, descriptor: BorrowedFd<'fd>) -> &mut Self {
        self.stderr = Some(descriptor);
        self
    }

    /// Runs it as another account; needs root.
    pub fn account(&mut self, account: Account) -> &mut Self {
        self.account = Some(account);
        self
    }

    /// Sets `no_new_privs`: no program that it starts can gain privileges (prctl(2), `PR_SET_NO_NEW_PRIVS`). Ambient
    /// capabilities of ours are not passed on, either.
    pub fn no_new_privs(&mut self) -> &mut Self {
        self.no_new_privs = true;
        self
    }

    /// Puts it into a process group of its own, out of reach of the terminal's Ctrl-C.
    pub fn new_group(&mut self) -> &mut Self {
        self.new_group = true;
        self
    }

    /// Sets `LISTEN_PID` to the process id that it will have, as sd_listen_fds(3) requires.
    pub fn listen_pid(&mut self) -> &mut Self {
        self.env_remove("LISTEN_PID");
        self.listen_pid = true;
        self
    }

    /// Has the kernel send it this signal when the thread that starts it ends (prctl(2), `PR_SET_PDEATHSIG`).
    pub fn death_signal(&mut self, signal: Signal) -> &mut Self {
        self.death_signal = Some(signal);
        self
    }

    /// Starts it, and returns when the program runs or could not be started.
    ///
    /// # Errors
    /// The system's error with what failed in words: no such program, no permission, too many processes.
    pub fn spawn(&self) -> io::Result<Child> {
        let mut prepared = Prepared::new(self)?;
        let (errors, writer) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)?;
        let child_errors = above(writer.as_fd(), prepared.limit)?;
        drop(writer);
        // Nothing may be delivered to the child while it still has our handlers; it sets its own mask at the end.
        let blocked = BlockAll::new()?;
        // From the fork on, its `Child` waits for it.
        let mut waited_for = waited_for();
        // SAFETY: the child only calls async-signal-safe functions on memory prepared before (fork(2), signal-safety(7)),
        // and ends in exec or _exit.
        let pid = unsafe { libc::fork() };
        if pid == 0 {
            // SAFETY: this is the child of a fork, with nothing allocated or dropped since.
            unsafe { prepared.run(child_errors.as_raw_fd()) };
        }
        drop(blocked);
        let pid = Pid::from_raw(pid).filter(|pid| !pid.is_init());
        let Some(pid) = pid else { return Err(explain("fork", io::Error::last_os_error())) };
        drop(child_errors);
        // The child is not reaped before we do it, so the number cannot have gone to another process.
        let pidfd = rustix::process::pidfd_open(pid, PidfdFlags::empty())?;
        waited_for.insert(pid.as_raw_nonzero().get());
        drop(waited_for);
        let child = Child { pid, pidfd, leads_group: self.new_group };
        let mut report = Vec::new();
        File::from(errors).read_to_end(&mut report)?;
        let Some(failure) = Failure::decode(&report) else { return Ok(child) };
        child.wait()?;
        Err(self.explain_failure(failure))
    }

    fn explain_failure(&self, failure: Failure) -> io::Error {
        let directory = || self.directory.as_deref().unwrap_or(Path::new(".")).display().to_string();
        let what = match failure.stage {
            Stage::Descriptors => "placing its descriptors".to_owned(),
            Stage::Account => "changing to its account".to_owned(),
            Stage::Directory => format!("changing to directory {}", directory()),
            Stage::Exec => "executing it".to_owned(),
        };
        let error = io::Error::from_raw_os_error(failure.errno);
        explain(&format!("{}: {what}", self.program.display()), error)
    }
}

fn explain(what: &str, error: io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{what}: {error}"))
}

/// A copy of a descriptor with a number that no target of dup2(2) can hit.
fn above(descriptor: BorrowedFd<'_>, limit: RawFd) -> io::Result<OwnedFd> {
    Ok(rustix::io::fcntl_dupfd_cloexec(descriptor, limit)?)
}

/// Where in the child something failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    Descriptors,
    Account,
    Directory,
    Exec,
}

/// What the child reports before it exits.
struct Failure {
    stage: Stage,
    errno: i32,
}

impl Failure {
    fn encode(&self) -> [u8; 5] {
        let [a, b, c, d] = self.errno.to_ne_bytes();
        [self.stage as u8, a, b, c, d]
    }

    fn decode(report: &[u8]) -> Option<Failure> {
        let &[stage, a, b, c, d] = report else { return None };
        let stages = [Stage::Descriptors, Stage::Account, Stage::Directory];
        let stage = stages.into_iter().find(|known| *known as u8 == stage).unwrap_or(Stage::Exec);
        Some(Failure { stage, errno: i32::from_ne_bytes([a, b, c, d]) })
    }
}

/// All that the child needs, made before the fork, since it may not allocate.
struct Prepared {
    /// Every source is at or above this; every target is below.
    limit: RawFd,
    moves: Vec<(OwnedFd, RawFd)>,
    candidates: Vec<CString>,
    _arguments: Vec<CString>,
    argument_pointers: Vec<*const libc::c_char>,
    _environment: Vec<CString>,
    environment_pointers: Vec<*const libc::c_char>,
    death_signal: Option<libc::c_int>,
    /// Which of them is `LISTEN_PID`.
    listen_pid: Option<usize>,
    directory: Option<CString>,
    account: Option<Account>,
    no_new_privs: bool,
    new_group: bool,
}

impl Prepared {
    fn new(command: &Command<'_>) -> io::Result<Self> {
        let count = RawFd::try_from(command.descriptors.len()).map_err(|_| io::ErrorKind::InvalidInput)?;
        let limit = FIRST_DESCRIPTOR + count;
        let null = File::options().read(true).open("/dev/null")?;
        let mut moves = vec![(above(null.as_fd(), limit)?, 0)];
        for (descriptor, target) in [(command.stdout, 1), (command.stderr, 2)] {
            if let Some(descriptor) = descriptor {
                moves.push((above(descriptor, limit)?, target));
            }
        }
        for (descriptor, target) in command.descriptors.iter().zip(FIRST_DESCRIPTOR..) {
            moves.push((above(*descriptor, limit)?, target));
        }
        let arguments = command
            .arguments
            .iter()
            .map(|one| CString::new(one.as_bytes()))
            .collect::<Result<Vec<_>, _>>()?;
        let environment = command.environment.iter().map(variable).collect::<Result<Vec<_>, _>>()?;
        let mut environment_pointers = pointers(&environment);
        let listen_pid = command.listen_pid.then_some(environment.len());
        if listen_pid.is_some() {
            // The place of the variable, which the child fills in; and one more null for the end.
            environment_pointers.push(std::ptr::null());
        }
        Ok(Prepared {
            limit,
            moves,
            candidates: candidates(command)?,
            argument_pointers: pointers(&arguments),
            _arguments: arguments,
            environment_pointers,
            listen_pid,
            death_signal: command.death_signal.map(Signal::as_raw),
            _environment: environment,
            directory: command
                .directory
                .as_ref()
                .map(|path| CString::new(path.as_os_str().as_bytes()))
                .transpose()?,
            account: command.account.clone(),
            no_new_privs: command.no_new_privs,
            new_group: command.new_group,
        })
    }

    /// The child: becomes the program, or reports and ends.
    ///
    /// # Safety
    /// Only in the child of a fork, with all signals blocked.
    unsafe fn run(&mut self, errors: RawFd) -> ! {
        // SAFETY: as the caller promises.
        let stage = unsafe { self.become_program() };
        let failure =
            Failure { stage, errno: io::Error::last_os_error().raw_os_error().unwrap_or(0) }.encode();
        // SAFETY: writes from a buffer on the stack, and ends the process without running destructors.
        unsafe {
            libc::write(errors, failure.as_ptr().cast(), failure.len());
            libc::_exit(127);
        }
    }

    /// Returns only if something failed, with `errno` set.
    ///
    /// # Safety
    /// As [`Prepared::run`].
    unsafe fn become_program(&mut self) -> Stage {
        // SAFETY: only async-signal-safe functions; all pointers are to C strings and null-terminated arrays that
        // `self` keeps alive; the sets and actions are initialised before they are read.
        unsafe {
            default_dispositions();
            if self.new_group {
                libc::setpgid(0, 0);
            }
            for (source, target) in &self.moves {
                if libc::dup2(source.as_raw_fd(), *target) < 0 {
                    return Stage::Descriptors;
                }
            }
            // For descriptors that this process inherited from a parent without close-on-exec. Linux before
            // 5.11 has no such flag; there everything that we open ourselves is close-on-exec all the same.
            libc::syscall(libc::SYS_close_range, self.limit, u32::MAX, libc::CLOSE_RANGE_CLOEXEC);
            if let Some(account) = &self.account
                && (libc::setgroups(account.groups.len(), account.groups.as_ptr()) < 0
                    || libc::setresgid(account.gid, account.gid, account.gid) < 0
                    || libc::setresuid(account.uid, account.uid, account.uid) < 0)
            {
                return Stage::Account;
            }
            // After the account: changing that takes it away again.
            if let Some(signal) = self.death_signal
                && libc::prctl(libc::PR_SET_PDEATHSIG, signal) < 0
            {
                return Stage::Account;
            }
            if self.no_new_privs {
                if libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 {
                    return Stage::Account;
                }
                // A service manager may have given this process some, which execve(2) would pass on (capabilities(7)). The call
                // fails where a kernel has none.
                libc::prctl(libc::PR_CAP_AMBIENT, libc::PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
            }
            if let Some(directory) = &self.directory
                && libc::chdir(directory.as_ptr()) < 0
            {
                return Stage::Directory;
            }
            let mut none = std::mem::zeroed::<libc::sigset_t>();
            libc::sigemptyset(&mut none);
            libc::sigprocmask(libc::SIG_SETMASK, &none, std::ptr::null_mut());
            self.exec();
        }
        Stage::Exec
    }

    /// Tries each candidate as execvp(3) does: a place where the program is not, or may not be executed, is passed
    /// over; a refusal is what is reported in the end.
    ///
    /// # Safety
    /// As [`Prepared::run`].
    unsafe fn exec(&mut self) {
        let mut variable = *b"LISTEN_PID=\0\0\0\0\0\0\0\0\0\0\0";
        if let Some(pointer) = self.listen_pid.and_then(|at| self.environment_pointers.get_mut(at)) {
            // SAFETY: getpid(2) cannot fail.
            write_number(&mut variable["LISTEN_PID=".len()..], unsafe { libc::getpid() }.unsigned_abs());
            *pointer = variable.as_ptr().cast();
        }
        let mut refused = false;
        for candidate in &self.candidates {
            // SAFETY: C strings and null-terminated arrays that `self` keeps alive.
            unsafe {
                libc::execve(
                    candidate.as_ptr(),
                    self.argument_pointers.as_ptr(),
                    self.environment_pointers.as_ptr(),
                );
            }
            match io::Error::last_os_error().raw_os_error() {
                Some(libc::EACCES) => refused = true,
                Some(libc::ENOENT | libc::ENOTDIR) => {}
                _ => return,
            }
        }
        if refused {
            // SAFETY: the address of this thread's errno.
            unsafe { *libc::__errno_location() = libc::EACCES };
        }
    }
}

/// Ignored signals stay ignored over exec; a program expects the defaults, and Rust ignores SIGPIPE.
///
/// # Safety
/// As [`Prepared::run`].
unsafe fn default_dispositions() {
    // SAFETY: an all-zero sigaction is SIG_DFL without flags; sigaction(2) refuses the numbers that cannot be set.
    unsafe {
        let action = std::mem::zeroed::<libc::sigaction>();
        for number in 1..=64 {
            libc::sigaction(number, &action, std::ptr::null_mut());
        }
    }
}

/// A number in digits, from the start of what is zero now. Eleven bytes are enough, and leave a zero at the end.
fn write_number(to: &mut [u8], number: u32) {
    let mut divisor = 1;
    while number / divisor >= 10 {
        divisor *= 10;
    }
    for place in to {
        *place = b'0' + (number / divisor % 10) as u8;
        if divisor == 1 {
            return;
        }
        divisor /= 10;
    }
}

fn pointers(strings: &[CString]) -> Vec<*const libc::c_char> {
    strings.iter().map(|one| one.as_ptr()).chain([std::ptr::null()]).collect()
}

fn variable((name, value): &(OsString, OsString)) -> Result<CString, std::ffi::NulError> {
    let mut text = name.clone().into_vec();
    text.push(b'=');
    text.extend_from_slice(value.as_bytes());
    CString::new(text)
}

/// Where the program may be, in the order in which to try.
fn candidates(command: &Command<'_>) -> io::Result<Vec<CString>> {
    let program = command.program.as_os_str();
    if program.as_bytes().contains(&b'/') {
        return Ok(vec![CString::new(program.as_bytes())?]);
    }
    let path = command.environment.iter().find(|(name, _)| name == "PATH");
    let path = path.map_or(OsStr::new(PATH_DEFAULT), |(_, value)| value);
    std::env::split_paths(path)
        .map(|directory| Ok(CString::new(directory.join(program).into_os_string().into_vec())?))
        .collect()
}

/// All signals blocked in this thread, until dropped.
struct BlockAll {
    before: libc::sigset_t,
}

impl BlockAll {
    fn new() -> io::Result<Self> {
        // SAFETY: sigfillset(3) initialises the set that pthread_sigmask(3) reads; `before` is a plain bit set, written
        // by the kernel.
        unsafe {
            let mut all = std::mem::zeroed::<libc::sigset_t>();
            let mut before = std::mem::zeroed::<libc::sigset_t>();
            libc::sigfillset(&mut all);
            match libc::pthread_sigmask(libc::SIG_SETMASK, &all, &mut before) {
                0 => Ok(BlockAll { before }),
                error => Err(io::Error::from_raw_os_error(error)),
            }
        }
    }
}

impl Drop for BlockAll {
    fn drop(&mut self) {
        // SAFETY: the set is the one that the kernel gave before. The call cannot fail with a valid first argument.
        unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &self.before, std::ptr::null_mut()) };
    }
}

/// How a process ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    /// The process said so, with this status.
    Status(i32),
    /// A signal ended the process.
    Signal(i32),
}

impl fmt::Display for Exit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Exit::Status(status) => write!(f, "exited with status {status}"),
            Exit::Signal(number) => match signal_name(*number) {
                Some(name) => write!(f, "was killed by {name}"),
                None => write!(f, "was killed by signal {number}"),
            },
        }
    }
}

fn signal_name(number: i32) -> Option<&'static str> {
    Some(match number {
        libc::SIGHUP => "SIGHUP",
        libc::SIGINT => "SIGINT",
        libc::SIGQUIT => "SIGQUIT",
        libc::SIGILL => "SIGILL",
        libc::SIGABRT => "SIGABRT",
        libc::SIGBUS => "SIGBUS",
        libc::SIGFPE => "SIGFPE",
        libc::SIGKILL => "SIGKILL",
        libc::SIGSEGV => "SIGSEGV",
        libc::SIGPIPE => "SIGPIPE",
        libc::SIGALRM => "SIGALRM",
        libc::SIGTERM => "SIGTERM",
        libc::SIGSYS => "SIGSYS",
        _ => return None,
    })
}

/// A started process. The descriptor ([`AsFd`]) becomes readable when the process has ended. Dropping this neither ends nor
/// reaps the process; from then on it may be reaped by [`reap_orphans`].
#[derive(Debug)]
pub struct Child {
    pid: Pid,
    pidfd: OwnedFd,
    /// Whether the process was started in a process group of its own.
    leads_group: bool,
}

impl Child {
    /// A child that this process started before another program was put into it ([`crate::replace`]). Until it is reaped, which
    /// only this does, its number is no other process's.
    ///
    /// # Errors
    /// What pidfd_open(2) or waitid(2) say: `ESRCH` or `ECHILD` for a process that is no child, or was reaped.
    pub fn adopt(pid: u32) -> io::Result<Self> {
        let known = i32::try_from(pid).ok().and_then(Pid::from_raw).filter(|pid| !pid.is_init());
        let pid = known.ok_or(io::ErrorKind::InvalidInput)?;
        let mut waited_for = waited_for();
        let pidfd = rustix::process::pidfd_open(pid, PidfdFlags::empty())?;
        waited_for.insert(pid.as_raw_nonzero().get());
        drop(waited_for);
        let leads_group = rustix::process::getpgid(Some(pid)).is_ok_and(|group| group == pid);
        let child = Child { pid, pidfd, leads_group };
        child.wait_with(WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT)?;
        Ok(child)
    }

    /// The process id, to show.
    pub fn pid(&self) -> u32 {
        self.pid.as_raw_nonzero().get().unsigned_abs()
    }

    /// Asks it to end (`SIGTERM`). A process that has ended already is no error.
    ///
    /// # Errors
    /// What pidfd_send_signal(2) says.
    pub fn terminate(&self) -> io::Result<()> {
        self.send(Signal::TERM)
    }

    /// Sends it this signal. A process that has ended already is no error.
    ///
    /// # Errors
    /// What pidfd_send_signal(2) says.
    pub fn signal(&self, signal: Signal) -> io::Result<()> {
        self.send(signal)
    }

    /// Ends it (`SIGKILL`). A process that has ended already is no error.
    ///
    /// # Errors
    /// What pidfd_send_signal(2) says.
    pub fn kill(&self) -> io::Result<()> {
        self.send(Signal::KILL)
    }

    fn send(&self, signal: Signal) -> io::Result<()> {
        match rustix::process::pidfd_send_signal(&self.pidfd, signal) {
            Ok(()) | Err(rustix::io::Errno::SRCH) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Reaps it if it has ended. What is left of its process group, if it has one of its own, is asked to end (`SIGTERM`): a
    /// program that has gone into the background would otherwise stay for ever.
    ///
    /// # Errors
    /// What waitid(2) says: `ECHILD` after it was reaped.
    pub fn try_wait(&self) -> io::Result<Option<Exit>> {
        let look = WaitIdOptions::EXITED | WaitIdOptions::NOHANG;
        if self.wait_with(look | WaitIdOptions::NOWAIT)?.is_none() {
            return Ok(None);
        }
        // Until it is reaped, its number cannot be that of another group.
        if self.leads_group {
            let _ = rustix::process::kill_process_group(self.pid, Signal::TERM);
        }
        self.wait_with(look)
    }

    /// Waits until it ends, and reaps it.
    ///
    /// # Errors
    /// What waitid(2) says: `ECHILD` after it was reaped.
    pub fn wait(&self) -> io::Result<Exit> {
        match self.wait_with(WaitIdOptions::EXITED)? {
            Some(exit) => Ok(exit),
            None => Err(io::Error::other("waitid returned without a status")),
        }
    }

    fn wait_with(&self, options: WaitIdOptions) -> io::Result<Option<Exit>> {
        loop {
            match rustix::process::waitid(WaitId::PidFd(self.pidfd.as_fd()), options) {
                Ok(None) => return Ok(None),
                Ok(Some(status)) => {
                    let exit = status.exit_status().map(Exit::Status);
                    return Ok(exit.or(status.terminating_signal().map(Exit::Signal)));
                }
                Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        waited_for().remove(&self.pid.as_raw_nonzero().get());
    }
}

impl AsFd for Child {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.pidfd.as_fd()
    }
}

#[cfg(test)]
mod tests;
