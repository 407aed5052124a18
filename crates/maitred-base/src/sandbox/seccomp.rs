//! Which system calls a process may make (seccomp(2)): a list, and any other one ends the process.
//!
//! An attacker who controls the memory of a process is limited to the list: no program can be started (execve(2)), no
//! process traced, no file system, kernel module, key or BPF program touched. The list is what the black-box tests make the
//! processes call, and what the C library may call instead on another kernel.
//!
//! Arguments are looked at only in calls that are rare: threads are made, and neither processes nor namespaces; sockets are of
//! families that the process uses. For all other calls the kernel (5.11 and newer) answers from a bitmap and runs no filter; what
//! they may reach is bounded by Landlock and the account.

use std::io;

use seccompiler::{
    BackendError, BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule, TargetArch,
};

/// What every process of this program calls while it runs: memory, threads, time, signals to itself.
const RUNTIME: &[libc::c_long] = &[
    libc::SYS_brk,
    libc::SYS_clock_getres,
    libc::SYS_clock_gettime,
    libc::SYS_clock_nanosleep,
    libc::SYS_clone3,
    libc::SYS_exit,
    libc::SYS_exit_group,
    libc::SYS_futex,
    libc::SYS_getcpu,
    libc::SYS_getegid,
    libc::SYS_geteuid,
    libc::SYS_getgid,
    libc::SYS_getpid,
    libc::SYS_getppid,
    libc::SYS_getrandom,
    libc::SYS_getrusage,
    libc::SYS_gettid,
    libc::SYS_getuid,
    libc::SYS_madvise,
    libc::SYS_membarrier,
    libc::SYS_mmap,
    libc::SYS_mprotect,
    libc::SYS_mremap,
    libc::SYS_munmap,
    libc::SYS_nanosleep,
    libc::SYS_prctl,
    libc::SYS_prlimit64,
    libc::SYS_restart_syscall,
    libc::SYS_rseq,
    libc::SYS_rt_sigaction,
    libc::SYS_rt_sigprocmask,
    libc::SYS_rt_sigreturn,
    libc::SYS_rt_sigtimedwait,
    libc::SYS_sched_getaffinity,
    libc::SYS_sched_getparam,
    libc::SYS_sched_getscheduler,
    libc::SYS_sched_setaffinity,
    libc::SYS_sched_setscheduler,
    libc::SYS_sched_yield,
    libc::SYS_set_robust_list,
    libc::SYS_set_tid_address,
    libc::SYS_sigaltstack,
    libc::SYS_sysinfo,
    libc::SYS_tgkill,
    libc::SYS_uname,
];
/// Descriptors of all kinds.
const DESCRIPTORS: &[libc::c_long] = &[
    libc::SYS_close,
    libc::SYS_close_range,
    libc::SYS_dup,
    libc::SYS_dup3,
    libc::SYS_epoll_create1,
    libc::SYS_epoll_ctl,
    libc::SYS_epoll_pwait,
    libc::SYS_epoll_pwait2,
    libc::SYS_eventfd2,
    libc::SYS_fcntl,
    libc::SYS_ioctl,
    libc::SYS_pipe2,
    libc::SYS_ppoll,
    libc::SYS_pread64,
    libc::SYS_preadv,
    libc::SYS_preadv2,
    libc::SYS_pwrite64,
    libc::SYS_pwritev,
    libc::SYS_read,
    libc::SYS_readv,
    libc::SYS_timerfd_create,
    libc::SYS_timerfd_gettime,
    libc::SYS_timerfd_settime,
    libc::SYS_write,
    libc::SYS_writev,
];
/// Files.
const FILES: &[libc::c_long] = &[
    libc::SYS_faccessat,
    libc::SYS_faccessat2,
    libc::SYS_fadvise64,
    libc::SYS_fallocate,
    libc::SYS_fdatasync,
    libc::SYS_flock,
    libc::SYS_fstat,
    libc::SYS_fstatfs,
    libc::SYS_fsync,
    libc::SYS_ftruncate,
    libc::SYS_getcwd,
    libc::SYS_getdents64,
    libc::SYS_lseek,
    libc::SYS_newfstatat,
    libc::SYS_openat,
    libc::SYS_openat2,
    libc::SYS_readahead,
    libc::SYS_readlinkat,
    libc::SYS_sendfile,
    libc::SYS_statfs,
    libc::SYS_statx,
    // cachestat(2), Linux 6.5, on both machines; the C library's headers may be older.
    451,
];
/// Sockets.
const SOCKETS: &[libc::c_long] = &[
    libc::SYS_accept4,
    libc::SYS_connect,
    libc::SYS_getpeername,
    libc::SYS_getsockname,
    libc::SYS_getsockopt,
    libc::SYS_recvfrom,
    libc::SYS_recvmmsg,
    libc::SYS_recvmsg,
    libc::SYS_sendmmsg,
    libc::SYS_sendmsg,
    libc::SYS_sendto,
    libc::SYS_setsockopt,
    libc::SYS_shutdown,
    libc::SYS_socket,
    libc::SYS_socketpair,
];
/// What the worker process alone does: memory files for bodies and channels, the end of application processes while its
/// master is being replaced, and the files of the cache, which get their names when they are whole. With modules, it takes the
/// rights to files from itself when it has this list already.
const WORKER: &[libc::c_long] = &[
    libc::SYS_landlock_add_rule,
    libc::SYS_landlock_create_ruleset,
    libc::SYS_landlock_restrict_self,
    libc::SYS_linkat,
    libc::SYS_memfd_create,
    libc::SYS_mkdirat,
    libc::SYS_pidfd_open,
    libc::SYS_pidfd_send_signal,
    libc::SYS_renameat,
    libc::SYS_renameat2,
    libc::SYS_unlinkat,
    libc::SYS_waitid,
];
/// What the agent for certificates alone does: files that are replaced as wholes, and looking names up.
const AGENT: &[libc::c_long] = &[
    libc::SYS_bind,
    libc::SYS_fchmod,
    libc::SYS_fchmodat,
    libc::SYS_mkdirat,
    libc::SYS_renameat,
    libc::SYS_renameat2,
    libc::SYS_umask,
    libc::SYS_unlinkat,
];
/// The older calls that x86_64 has beside those above.
#[cfg(target_arch = "x86_64")]
const OLDER: &[libc::c_long] = &[
    libc::SYS_access,
    libc::SYS_arch_prctl,
    libc::SYS_chmod,
    libc::SYS_dup2,
    libc::SYS_epoll_wait,
    libc::SYS_getdents,
    libc::SYS_lstat,
    libc::SYS_mkdir,
    libc::SYS_open,
    libc::SYS_poll,
    libc::SYS_readlink,
    libc::SYS_rename,
    libc::SYS_stat,
    libc::SYS_time,
    libc::SYS_unlink,
];
#[cfg(not(target_arch = "x86_64"))]
const OLDER: &[libc::c_long] = &[];

/// Flags of clone(2) that make a namespace, in which the process would have all capabilities, and with them much of the kernel
/// that it cannot reach otherwise. `CLONE_NEWTIME` is for clone3(2) alone.
const NAMESPACES: libc::c_int = libc::CLONE_NEWCGROUP
    | libc::CLONE_NEWIPC
    | libc::CLONE_NEWNET
    | libc::CLONE_NEWNS
    | libc::CLONE_NEWPID
    | libc::CLONE_NEWUSER
    | libc::CLONE_NEWUTS;
/// The families of sockets that a worker process makes: to servers of pools, and to other processes.
const FAMILIES: &[libc::c_int] = &[libc::AF_UNIX, libc::AF_INET, libc::AF_INET6];
/// An agent looks names up besides, for which the C library asks the kernel for its addresses.
const FAMILIES_OF_AGENT: &[libc::c_int] = &[libc::AF_UNIX, libc::AF_INET, libc::AF_INET6, libc::AF_NETLINK];

/// The process that asks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Process {
    /// A worker process.
    Worker,
    /// The agent for certificates.
    Agent,
}

/// Lets the calling thread, and all that it starts later, make the system calls of such a process only. Any other one ends
/// the process with `SIGSYS`, and leaves a line in the kernel's log. A socket of another family is an error. Sets `no_new_privs`.
///
/// # Errors
/// When the kernel refuses, or has no seccomp.
pub fn confine(process: Process) -> io::Result<()> {
    let (own, families) = match process {
        Process::Worker => (WORKER, FAMILIES),
        Process::Agent => (AGENT, FAMILIES_OF_AGENT),
    };
    // The kernel takes the strictest answer of all. The list comes last: it has no call for further ones.
    let programs = [
        without_clone3(),
        of_families(families),
        program(&[RUNTIME, DESCRIPTORS, FILES, SOCKETS, OLDER, own]),
    ];
    for program in programs {
        seccompiler::apply_filter(&program.map_err(io::Error::other)?).map_err(io::Error::other)?;
    }
    Ok(())
}

/// The list: threads, and none of its other calls but these.
fn program(calls: &[&[libc::c_long]]) -> Result<BpfProgram, BackendError> {
    let free = calls.iter().copied().flatten().map(|call| (*call, Vec::new()));
    let (thread, looked_at) = (libc::CLONE_THREAD as u64, (libc::CLONE_THREAD | NAMESPACES) as u64);
    let threads = SeccompRule::new(vec![first(SeccompCmpOp::MaskedEq(looked_at), thread)?])?;
    filter(free.chain([(libc::SYS_clone, vec![threads])]), SeccompAction::KillProcess, SeccompAction::Allow)
}

/// The flags of clone3(2) stand in memory, where a filter cannot see them. The C library makes do with clone(2) where there is
/// no such call.
fn without_clone3() -> Result<BpfProgram, BackendError> {
    let missing = SeccompAction::Errno(libc::ENOSYS as u32);
    filter([(libc::SYS_clone3, Vec::new())], SeccompAction::Allow, missing)
}

/// Sockets of other families than these are refused, as by a kernel that does not have them.
fn of_families(families: &[libc::c_int]) -> Result<BpfProgram, BackendError> {
    let others = families.iter().map(|family| first(SeccompCmpOp::Ne, *family as u64));
    let others = SeccompRule::new(others.collect::<Result<_, _>>()?)?;
    let no_pair = SeccompRule::new(vec![first(SeccompCmpOp::Ne, libc::AF_UNIX as u64)?])?;
    let rules = [(libc::SYS_socket, vec![others]), (libc::SYS_socketpair, vec![no_pair])];
    filter(rules, SeccompAction::Allow, SeccompAction::Errno(libc::EAFNOSUPPORT as u32))
}

/// A condition about the first argument, which the kernel takes for a number of 32 bits in all calls that are looked at.
fn first(compared: SeccompCmpOp, with: u64) -> Result<SeccompCondition, BackendError> {
    SeccompCondition::new(0, SeccompCmpArgLen::Dword, compared, with)
}

fn filter(
    rules: impl IntoIterator<Item = (libc::c_long, Vec<SeccompRule>)>,
    otherwise: SeccompAction,
    then: SeccompAction,
) -> Result<BpfProgram, BackendError> {
    let arch = TargetArch::try_from(std::env::consts::ARCH)?;
    SeccompFilter::new(rules.into_iter().collect(), otherwise, then, arch)?.try_into()
}

#[cfg(test)]
mod tests {
    use rustix::net::{AddressFamily, SocketType};

    use super::*;

    /// The kernel takes no longer program (`BPF_MAXINSNS`).
    const INSTRUCTIONS_MAX: usize = 4096;

    #[test]
    fn the_lists_make_programs_that_the_kernel_takes() {
        for own in [WORKER, AGENT] {
            let program = program(&[RUNTIME, DESCRIPTORS, FILES, SOCKETS, OLDER, own]).unwrap();
            assert!(program.len() <= INSTRUCTIONS_MAX, "{}", program.len());
        }
    }

    /// Set in the process that [`calls_that_are_not_in_the_list_end_the_process`] starts.
    const CONFINED: &str = "MAITRED_TEST_CONFINED";

    /// What a confined process does.
    fn do_confined(what: &str) {
        confine(Process::Worker).unwrap();
        std::fs::metadata("/").unwrap();
        match what {
            "symlink" => drop(std::os::unix::fs::symlink("/no such file", "/no such directory/link")),
            "process" => drop(std::process::Command::new("true").spawn()),
            _ => {
                assert_eq!(std::thread::spawn(|| 1).join().unwrap(), 1);
                let socket = |family: i32| {
                    let family = AddressFamily::from_raw(u16::try_from(family).unwrap());
                    rustix::net::socket(family, SocketType::DGRAM, None)
                };
                FAMILIES.iter().for_each(|family| drop(socket(*family).unwrap()));
                for family in [libc::AF_NETLINK, libc::AF_PACKET, libc::AF_VSOCK, libc::AF_ALG, 255] {
                    assert_eq!(socket(family).unwrap_err(), rustix::io::Errno::AFNOSUPPORT, "{family}");
                }
            }
        }
    }

    #[test]
    fn calls_that_are_not_in_the_list_end_the_process() {
        if let Ok(what) = std::env::var(CONFINED) {
            return do_confined(&what);
        }
        let run = |what: &str| {
            let mut again = std::process::Command::new(std::env::current_exe().unwrap());
            again
                .args(["--exact", "sandbox::seccomp::tests::calls_that_are_not_in_the_list_end_the_process"]);
            again.env(CONFINED, what).output().unwrap()
        };
        let well = run("threads and sockets");
        assert!(well.status.success(), "{}", String::from_utf8_lossy(&well.stdout));
        for what in ["symlink", "process"] {
            let status = run(what).status;
            let killed = std::os::unix::process::ExitStatusExt::signal(&status);
            assert_eq!(killed, Some(libc::SIGSYS), "{what}: {status}");
        }
    }

    #[test]
    fn no_list_lets_a_program_be_started_or_a_process_be_traced() {
        let forbidden = [
            libc::SYS_execve,
            libc::SYS_execveat,
            libc::SYS_ptrace,
            libc::SYS_process_vm_readv,
            libc::SYS_process_vm_writev,
            libc::SYS_bpf,
            libc::SYS_io_uring_setup,
            libc::SYS_setuid,
            libc::SYS_setresuid,
            libc::SYS_mount,
            libc::SYS_unshare,
            libc::SYS_userfaultfd,
            libc::SYS_keyctl,
            libc::SYS_listen,
        ];
        for list in [RUNTIME, DESCRIPTORS, FILES, SOCKETS, WORKER, AGENT, OLDER] {
            assert!(forbidden.iter().all(|call| !list.contains(call)));
        }
    }
}
