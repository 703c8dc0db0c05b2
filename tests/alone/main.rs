//! Tests beside which no other may run: some own the allocator of their process, to count the memory of all its threads,
//! some count instructions, to which the daemon adds its own upkeep where they take long. Each takes [`one_at_a_time`].
#![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

mod costs;
mod idle;
mod memory;

#[path = "../support/mod.rs"]
mod support;

use std::sync::{Mutex, MutexGuard, PoisonError};

use peak_alloc::PeakAlloc;

#[global_allocator]
static MEMORY: PeakAlloc = PeakAlloc;

/// Waits until no other test runs, and returns what keeps them waiting.
fn one_at_a_time() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}
