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
//! A refused call returns `ENOSYS`, as from a kernel that does not have it: C libraries then use an older one, such as `clone`
//! instead of `clone3`, whose arguments a filter cannot see. No call kills the process: one that was forgotten here must not
//! stop mail.

/// Limits all threads of this process to these calls. There is no way back.
///
/// # Errors
/// Why they are not limited.
pub fn limit_calls() -> Result<(), String> {
    filter::apply().map_err(|why| format!("seccomp: {why}"))
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

    macro_rules! calls {
        ($($name:ident)*) => { &[$(libc::$name),*] };
    }

    /// Allowed with any arguments.
    const CALLS: &[c_long] = calls! {
        // Descriptors.
        SYS_close SYS_close_range SYS_dup SYS_dup3 SYS_fcntl SYS_flock SYS_lseek SYS_pipe2
        SYS_memfd_create SYS_read SYS_readv SYS_pread64 SYS_preadv SYS_preadv2 SYS_write
        SYS_writev SYS_pwrite64 SYS_pwritev
        // Files.
        SYS_openat SYS_openat2 SYS_fstat SYS_newfstatat SYS_statx SYS_statfs SYS_fstatfs
        SYS_faccessat SYS_faccessat2 SYS_readlinkat SYS_getdents64 SYS_getcwd SYS_fadvise64
        SYS_readahead SYS_ftruncate SYS_fsync SYS_fdatasync SYS_renameat2 SYS_unlinkat
        SYS_utimensat SYS_inotify_init1 SYS_inotify_add_watch SYS_inotify_rm_watch
        // Sockets.
        SYS_accept SYS_accept4 SYS_connect SYS_getpeername SYS_getsockname SYS_getsockopt
        SYS_setsockopt SYS_recvfrom SYS_recvmsg SYS_recvmmsg SYS_sendto SYS_sendmsg SYS_sendmmsg
        SYS_shutdown
        // Waiting.
        SYS_epoll_create1 SYS_epoll_ctl SYS_epoll_pwait SYS_epoll_pwait2 SYS_eventfd2 SYS_ppoll
        SYS_pselect6 SYS_futex SYS_nanosleep SYS_clock_nanosleep SYS_timerfd_create
        SYS_timerfd_settime SYS_timerfd_gettime SYS_restart_syscall
        // Time and facts.
        SYS_clock_gettime SYS_clock_getres SYS_gettimeofday SYS_getrandom SYS_getpid SYS_getppid
        SYS_gettid SYS_getuid SYS_geteuid SYS_getgid SYS_getegid SYS_getgroups SYS_getrusage
        SYS_getcpu SYS_sysinfo SYS_uname SYS_sched_getaffinity
        // Memory.
        SYS_brk SYS_munmap SYS_mremap SYS_madvise SYS_membarrier
        // Threads.
        SYS_set_robust_list SYS_set_tid_address SYS_rseq SYS_prctl SYS_sched_yield
        SYS_setpriority SYS_ioprio_set SYS_exit SYS_exit_group
        // Signals.
        SYS_rt_sigaction SYS_rt_sigprocmask SYS_rt_sigreturn SYS_rt_sigtimedwait SYS_sigaltstack
    };

    /// Older variants, which newer processor architectures do not have.
    #[cfg(target_arch = "x86_64")]
    const OLDER: &[c_long] = calls! {
        SYS_access SYS_dup2 SYS_epoll_wait SYS_getdents SYS_lstat SYS_open SYS_pipe SYS_poll
        SYS_readlink SYS_rename SYS_renameat SYS_select SYS_stat SYS_time SYS_unlink
    };
    #[cfg(target_arch = "aarch64")]
    const OLDER: &[c_long] = calls! { SYS_renameat };
    #[cfg(target_arch = "riscv64")]
    const OLDER: &[c_long] = calls! {};

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
