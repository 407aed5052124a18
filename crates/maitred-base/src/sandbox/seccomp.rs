//! Which system calls a process may make (seccomp(2)): a list, and any other one ends the process.
//!
//! An attacker who controls the memory of a process is limited to the list: no program can be started (execve(2)), no
//! process traced, no file system, kernel module, key or BPF program touched. The list is what the black-box tests make the
//! processes call, and what the C library may call instead on another kernel. Arguments are not looked at, so that the kernel
//! (5.11 and newer) answers from a bitmap and runs no filter; what the calls may reach is bounded by Landlock and the account.

use std::io;

use seccompiler::{BpfProgram, SeccompAction, SeccompFilter, TargetArch};

/// What every process of this program calls while it runs: memory, threads, time, signals to itself.
const RUNTIME: &[libc::c_long] = &[
    libc::SYS_brk,
    libc::SYS_clock_getres,
    libc::SYS_clock_gettime,
    libc::SYS_clock_nanosleep,
    libc::SYS_clone,
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
/// master is being replaced, and the files of the cache, which get their names when they are whole.
const WORKER: &[libc::c_long] = &[
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

/// The process that asks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Process {
    /// A worker process.
    Worker,
    /// The agent for certificates.
    Agent,
}

/// Lets the calling thread, and all that it starts later, make the system calls of such a process only. Any other one ends
/// the process with `SIGSYS`, and leaves a line in the kernel's log. Sets `no_new_privs`.
///
/// # Errors
/// When the kernel refuses, or has no seccomp.
pub fn confine(process: Process) -> io::Result<()> {
    let own = match process {
        Process::Worker => WORKER,
        Process::Agent => AGENT,
    };
    let all = [RUNTIME, DESCRIPTORS, FILES, SOCKETS, OLDER, own];
    let program = program(&all).map_err(io::Error::other)?;
    seccompiler::apply_filter(&program).map_err(io::Error::other)
}

fn program(calls: &[&[libc::c_long]]) -> Result<BpfProgram, seccompiler::BackendError> {
    let rules = calls.iter().copied().flatten().map(|call| (*call, Vec::new())).collect();
    let arch = TargetArch::try_from(std::env::consts::ARCH)?;
    SeccompFilter::new(rules, SeccompAction::KillProcess, SeccompAction::Allow, arch)?.try_into()
}

#[cfg(test)]
mod tests {
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

    /// Set in the process that [`a_call_that_is_not_in_the_list_ends_the_process`] starts.
    const CONFINED: &str = "MAITRED_TEST_CONFINED";

    #[test]
    fn a_call_that_is_not_in_the_list_ends_the_process() {
        if let Some(forbidden) = std::env::var_os(CONFINED) {
            confine(Process::Worker).unwrap();
            std::fs::metadata("/").unwrap();
            if forbidden == "yes" {
                let _ = std::os::unix::fs::symlink("/no such file", "/no such directory/link");
            }
            return;
        }
        let run = |forbidden: &str| {
            let mut again = std::process::Command::new(std::env::current_exe().unwrap());
            again.args([
                "--exact",
                "sandbox::seccomp::tests::a_call_that_is_not_in_the_list_ends_the_process",
            ]);
            again.env(CONFINED, forbidden).output().unwrap().status
        };
        assert!(run("no").success());
        let status = run("yes");
        let killed = std::os::unix::process::ExitStatusExt::signal(&status);
        assert_eq!(killed, Some(libc::SIGSYS), "{status}");
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
