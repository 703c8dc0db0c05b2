//! Mutexes whose content is used whatever has happened to the thread that held it: a panic in the daemon is logged, and must
//! not stop the others; one in a compilation ends it anyway.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Gives up a lock until somebody notifies.
pub fn wait<'m, T>(condition: &Condvar, held: MutexGuard<'m, T>) -> MutexGuard<'m, T> {
    let woken = condition.wait(held);
    woken.unwrap_or_else(PoisonError::into_inner)
}
