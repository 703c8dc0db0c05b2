//! Work on several threads that end before the caller goes on.

use std::num::NonZero;
use std::panic::resume_unwind;
use std::sync::{Mutex, PoisonError};
use std::thread;

/// Threads that the system runs at once for this process, at least one.
pub(crate) fn processors() -> usize {
    thread::available_parallelism().map_or(1, NonZero::get)
}

/// Does each task on a thread of its own; what came of them, in the order of the tasks. Where the system gives no
/// more threads, the calling one does what is left: one after the other, and slower.
///
/// # Panics
/// When one of them panics, after all have ended.
pub(crate) fn on_threads<T: Send, R: Send>(
    tasks: impl IntoIterator<Item = T>,
    work: impl Fn(T) -> R + Sync,
) -> Vec<R> {
    let tasks: Vec<_> = tasks
        .into_iter()
        .map(|task| Mutex::new(Some(task)))
        .collect();
    let run = |task: &Mutex<Option<T>>| {
        let task = task.lock().unwrap_or_else(PoisonError::into_inner).take();
        work(task.expect("each is taken once"))
    };
    let run = &run;
    thread::scope(|scope| {
        let threads: Vec<_> = tasks
            .iter()
            .map(|task| {
                let started = thread::Builder::new().spawn_scoped(scope, move || run(task));
                (task, started.ok())
            })
            .collect();
        threads
            .into_iter()
            .map(|(task, thread)| match thread {
                Some(thread) => thread.join().unwrap_or_else(|panic| resume_unwind(panic)),
                None => run(task),
            })
            .collect()
    })
}
