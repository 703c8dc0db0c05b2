//! Runs work on several threads, and waits for all of them.

use std::num::NonZero;
use std::panic::resume_unwind;
use std::sync::{Mutex, PoisonError};
use std::thread;

/// Returns the number of threads that the system can run at once for this process, at least one.
pub(crate) fn processors() -> usize {
    thread::available_parallelism().map_or(1, NonZero::get)
}

/// Does each task on its own thread, and returns the results in the order of the tasks. If the
/// system cannot start more threads, the calling thread does the remaining tasks one after the
/// other.
///
/// # Panics
/// If one of them panics, after all have ended.
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
