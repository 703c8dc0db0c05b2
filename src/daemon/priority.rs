//! A lower priority for threads that may wait. If the machine is overloaded, the workers, which serve mail, run first.

/// How much lower it is (`man 7 sched`: "The nice value").
const NICE: i32 = 10;

/// Lowers the priority of the calling thread; `what` names it for the log.
pub(super) fn lower(what: &str) {
    // On Linux, this applies only to the calling thread; on other systems, to the whole process.
    if cfg!(target_os = "linux")
        && let Err(error) = rustix::process::setpriority_process(None, NICE)
    {
        tracing::warn!(thread = what, %error, "cannot lower the priority of a thread");
    }
}
