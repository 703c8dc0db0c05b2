//! A lower priority for threads that may wait: the workers, on which mail waits, come first where processors
//! are short.

/// How much lower it is (`man 7 sched`: "The nice value").
const NICE: i32 = 10;

/// Lowers the priority of the calling thread; `what` names it for the log.
pub(super) fn lower(what: &str) {
    // Of this thread alone in Linux, of the whole process elsewhere.
    if cfg!(target_os = "linux")
        && let Err(error) = rustix::process::setpriority_process(None, NICE)
    {
        tracing::warn!(thread = what, %error, "cannot lower the priority of a thread");
    }
}
