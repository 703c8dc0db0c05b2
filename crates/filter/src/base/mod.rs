//! What everything else stands on: files, threads, memory, the time, numbers for people. Nothing
//! here knows what a blocklist is.

pub mod access;
pub mod clock;
pub mod day;
pub mod file_state;
pub(crate) mod last_good;
pub(crate) mod lock;
pub(crate) mod memory;
pub(crate) mod named;
pub mod numbers;
pub mod paint;
pub(crate) mod parallel;
pub mod path;
pub mod replacement;
pub mod settings;
pub(crate) mod throttle;
pub mod whole_file;
