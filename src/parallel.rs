//! Work on several threads that end before the caller goes on.

use std::num::NonZero;
use std::panic::resume_unwind;
use std::thread;

/// Threads that the system runs at once for this process, at least one.
pub(crate) fn processors() -> usize {
    thread::available_parallelism().map_or(1, NonZero::get)
}

/// Does each task on a thread of its own; what came of them, in the order of the tasks.
///
/// # Panics
/// When one of them panics, after all have ended.
pub(crate) fn on_threads<T: Send, R: Send>(
    tasks: impl IntoIterator<Item = T>,
    work: impl Fn(T) -> R + Sync,
) -> Vec<R> {
    let work = &work;
    thread::scope(|scope| {
        let threads: Vec<_> = tasks
            .into_iter()
            .map(|task| scope.spawn(move || work(task)))
            .collect();
        threads
            .into_iter()
            .map(|thread| thread.join().unwrap_or_else(|panic| resume_unwind(panic)))
            .collect()
    })
}
