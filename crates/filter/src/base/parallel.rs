//! Runs work on several threads, and waits for all of them.

use std::num::NonZero;
use std::panic::resume_unwind;
use std::sync::Mutex;
use std::thread;

use super::lock::lock;

pub fn processors() -> usize {
    thread::available_parallelism().map_or(1, NonZero::get)
}

/// Divides a block into parts of whole lines, one for each processor, but no shorter than `min_bytes`.
pub fn line_parts(block: &[u8], min_bytes: usize) -> Vec<&[u8]> {
    let wanted = block.len().div_ceil(processors()).max(min_bytes);
    let (mut parts, mut left) = (Vec::new(), block);
    while !left.is_empty() {
        let end = left
            .get(wanted..)
            .and_then(|rest| memchr::memchr(b'\n', rest));
        let (part, rest) = left.split_at(end.map_or(left.len(), |at| wanted + at + 1));
        parts.push(part);
        left = rest;
    }
    parts
}

/// Does each task on its own thread, and returns the results in the order of the tasks. If the
/// system cannot start more threads, the calling thread does the remaining tasks one after the
/// other.
///
/// # Panics
/// If one of them panics, after all have ended.
pub fn on_threads<T: Send, R: Send>(
    tasks: impl IntoIterator<Item = T>,
    work: impl Fn(T) -> R + Sync,
) -> Vec<R> {
    let tasks: Vec<_> = tasks
        .into_iter()
        .map(|task| Mutex::new(Some(task)))
        .collect();
    let run = |task: &Mutex<Option<T>>| {
        let task = lock(task).take();
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
