//! What everything else stands on: files, threads, memory, the time, numbers for people. Nothing
//! here knows what a blocklist is.

pub mod access;
pub mod clock;
pub mod day;
pub mod file_state;
pub mod last_good;
pub mod lock;
pub mod memory;
pub mod named;
pub mod numbers;
pub mod parallel;
pub mod path;
pub mod replacement;
pub mod throttle;
pub mod whole_file;
