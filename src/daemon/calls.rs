//! The system calls that the running daemon may make; the kernel refuses all others.
//!
//! The list was made from the calls of all threads (`strace -f -c`), with their variants, which another C library or
//! another version may use instead. Not on the list, on purpose:
//!
//! - programs: no `execve`, no `fork`; `clone` for threads only;
//! - sockets: unix ones only; no `bind`, no `listen`;
//! - code: no memory that can be executed;
//! - modes, owners, links, devices, mounts, namespaces, users, keys, modules, the clock;
//! - other processes: no `ptrace`, no signals.
//!
//! A refused call returns `ENOSYS`, as from a kernel that does not have it: C libraries then use an older call. For
//! example, they use `clone` instead of `clone3`, whose arguments a filter cannot see. No call kills the process: one that
//! was forgotten here must not stop mail.

use super::confine::Confined;

/// Limits all threads of this process to these calls. There is no way back.
pub fn limit_calls() -> Confined {
    match filter::apply() {
        Ok(()) => Confined::Fully,
        Err(why) => Confined::Not(format!("seccomp: {why}")),
    }
}

#[cfg(not(any(
    target_arch = "x86_64",
    target_arch = "aarch64",
    target_arch = "riscv64"
)))]
mod filter {
    pub(super) fn apply() -> Result<(), String> {
        Err("not for this kind of processor".to_owned())
    }
}

#[cfg(any(
    target_arch = "x86_64",
    target_arch = "aarch64",
    target_arch = "riscv64"
))]
mod filter {
    use std::collections::BTreeMap;

    use libc::c_long;
    use seccompiler::{
        BackendError, BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition,
        SeccompFilter, SeccompRule,
    };

    /// Allowed with any arguments.
    const CALLS: [c_long; 105] = [
        // Descriptors.
        libc::SYS_close,
        libc::SYS_close_range,
        libc::SYS_dup,
        libc::SYS_dup3,
        libc::SYS_fcntl,
        libc::SYS_flock,
        libc::SYS_lseek,
        libc::SYS_pipe2,
        libc::SYS_memfd_create,
        libc::SYS_read,
        libc::SYS_readv,
        libc::SYS_pread64,
        libc::SYS_preadv,
        libc::SYS_preadv2,
        libc::SYS_write,
        libc::SYS_writev,
        libc::SYS_pwrite64,
        libc::SYS_pwritev,
        // Files.
        libc::SYS_openat,
        libc::SYS_openat2,
        libc::SYS_fstat,
        libc::SYS_newfstatat,
        libc::SYS_statx,
        libc::SYS_statfs,
        libc::SYS_fstatfs,
        libc::SYS_faccessat,
        libc::SYS_faccessat2,
        libc::SYS_readlinkat,
        libc::SYS_getdents64,
        libc::SYS_getcwd,
        libc::SYS_fadvise64,
        libc::SYS_readahead,
        libc::SYS_ftruncate,
        libc::SYS_fsync,
        libc::SYS_fdatasync,
        libc::SYS_renameat2,
        libc::SYS_unlinkat,
        libc::SYS_utimensat,
        libc::SYS_inotify_init1,
        libc::SYS_inotify_add_watch,
        libc::SYS_inotify_rm_watch,
        // Sockets.
        libc::SYS_accept,
        libc::SYS_accept4,
        libc::SYS_connect,
        libc::SYS_getpeername,
        libc::SYS_getsockname,
        libc::SYS_getsockopt,
        libc::SYS_setsockopt,
        libc::SYS_recvfrom,
        libc::SYS_recvmsg,
        libc::SYS_recvmmsg,
        libc::SYS_sendto,
        libc::SYS_sendmsg,
        libc::SYS_sendmmsg,
        libc::SYS_shutdown,
        // Waiting.
        libc::SYS_epoll_create1,
        libc::SYS_epoll_ctl,
        libc::SYS_epoll_pwait,
        libc::SYS_epoll_pwait2,
        libc::SYS_eventfd2,
        libc::SYS_ppoll,
        libc::SYS_pselect6,
        libc::SYS_futex,
        libc::SYS_nanosleep,
        libc::SYS_clock_nanosleep,
        libc::SYS_timerfd_create,
        libc::SYS_timerfd_settime,
        libc::SYS_timerfd_gettime,
        libc::SYS_restart_syscall,
        // Time and facts.
        libc::SYS_clock_gettime,
        libc::SYS_clock_getres,
        libc::SYS_gettimeofday,
        libc::SYS_getrandom,
        libc::SYS_getpid,
        libc::SYS_getppid,
        libc::SYS_gettid,
        libc::SYS_getuid,
        libc::SYS_geteuid,
        libc::SYS_getgid,
        libc::SYS_getegid,
        libc::SYS_getgroups,
        libc::SYS_getrusage,
        libc::SYS_getcpu,
        libc::SYS_sysinfo,
        libc::SYS_uname,
        libc::SYS_sched_getaffinity,
        // Memory.
        libc::SYS_brk,
        libc::SYS_munmap,
        libc::SYS_mremap,
        libc::SYS_madvise,
        libc::SYS_membarrier,
        // Threads.
        libc::SYS_set_robust_list,
        libc::SYS_set_tid_address,
        libc::SYS_rseq,
        libc::SYS_prctl,
        libc::SYS_sched_yield,
        libc::SYS_setpriority,
        libc::SYS_ioprio_set,
        libc::SYS_exit,
        libc::SYS_exit_group,
        // Signals.
        libc::SYS_rt_sigaction,
        libc::SYS_rt_sigprocmask,
        libc::SYS_rt_sigreturn,
        libc::SYS_rt_sigtimedwait,
        libc::SYS_sigaltstack,
    ];

    /// Older variants, which newer processor architectures do not have.
    #[cfg(target_arch = "x86_64")]
    const OLDER: &[c_long] = &[
        libc::SYS_access,
        libc::SYS_dup2,
        libc::SYS_epoll_wait,
        libc::SYS_getdents,
        libc::SYS_lstat,
        libc::SYS_open,
        libc::SYS_pipe,
        libc::SYS_poll,
        libc::SYS_readlink,
        libc::SYS_rename,
        libc::SYS_renameat,
        libc::SYS_select,
        libc::SYS_stat,
        libc::SYS_time,
        libc::SYS_unlink,
    ];
    #[cfg(target_arch = "aarch64")]
    const OLDER: &[c_long] = &[libc::SYS_renameat];
    #[cfg(target_arch = "riscv64")]
    const OLDER: &[c_long] = &[];

    pub(super) fn apply() -> Result<(), String> {
        let program = program().map_err(|error| error.to_string())?;
        seccompiler::apply_filter_all_threads(&program).map_err(|error| error.to_string())
    }

    fn program() -> Result<BpfProgram, BackendError> {
        let mut rules: BTreeMap<i64, Vec<SeccompRule>> = BTreeMap::new();
        for call in CALLS.iter().chain(OLDER) {
            rules.insert(*call, Vec::new());
        }
        let unix = condition(0, SeccompCmpOp::Eq, number(libc::AF_UNIX))?;
        for call in [libc::SYS_socket, libc::SYS_socketpair] {
            rules.insert(call, vec![SeccompRule::new(vec![unix.clone()])?]);
        }
        // Only a thread of this process, not a new process.
        let thread = number(libc::CLONE_THREAD);
        let thread = condition(0, SeccompCmpOp::MaskedEq(thread), thread)?;
        rules.insert(libc::SYS_clone, vec![SeccompRule::new(vec![thread])?]);
        let execute = number(libc::PROT_EXEC);
        let no_code = condition(2, SeccompCmpOp::MaskedEq(execute), 0)?;
        for call in [libc::SYS_mmap, libc::SYS_mprotect] {
            rules.insert(call, vec![SeccompRule::new(vec![no_code.clone()])?]);
        }
        // Only its own threads and limits.
        let own = condition(0, SeccompCmpOp::Eq, u64::from(std::process::id()))?;
        rules.insert(libc::SYS_tgkill, vec![SeccompRule::new(vec![own])?]);
        let itself = condition(0, SeccompCmpOp::Eq, 0)?;
        rules.insert(libc::SYS_prlimit64, vec![SeccompRule::new(vec![itself])?]);
        let requests = [
            libc::FIOCLEX,
            libc::FIONBIO,
            libc::FIONREAD,
            libc::TCGETS,
            libc::TCGETS2,
            // For copies of filters, if the file system can share blocks.
            libc::FICLONE,
        ];
        let requests = requests.into_iter().map(|request| {
            #[allow(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                trivial_numeric_casts,
                reason = "an unsigned long with GNU's C library, an int with musl: four bytes are compared"
            )]
            let request = u64::from(request as u32);
            SeccompRule::new(vec![condition(1, SeccompCmpOp::Eq, request)?])
        });
        rules.insert(libc::SYS_ioctl, requests.collect::<Result<_, _>>()?);
        let refused = SeccompAction::Errno(libc::ENOSYS.unsigned_abs());
        let here = std::env::consts::ARCH.try_into()?;
        SeccompFilter::new(rules, refused, SeccompAction::Allow, here)?.try_into()
    }

    /// Compares four bytes, as the kernel does for these arguments.
    fn condition(
        argument: u8,
        is: SeccompCmpOp,
        value: u64,
    ) -> Result<SeccompCondition, BackendError> {
        SeccompCondition::new(argument, SeccompCmpArgLen::Dword, is, value)
    }

    fn number(flag: i32) -> u64 {
        u64::from(flag.unsigned_abs())
    }
}
