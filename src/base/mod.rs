//! What everything else stands on: files, threads, memory, the time, numbers for people. Nothing
//! here knows what a blocklist is.
//!
//! | module | about |
//! |---|---|
//! | [`access`] | who can read or write a file, or connect to a socket, and what prevents it |
//! | [`clock`] | the time in the units of lists and reports |
//! | [`day`] | a day, as lists and filters have it |
//! | [`file_state`] | whether the file at a path is still the same |
//! | `lock` | mutexes that a panic does not close |
//! | `memory` | how much more memory this process can use |
//! | `named` | closed sets whose members have names |
//! | [`numbers`] | numbers as people read and write them |
//! | `parallel` | one task on several threads |
//! | [`path`] | what is at a path |
//! | [`settings`] | files of settings in TOML, with every error at its line and column |
//! | `throttle` | what is done only now and then |
//! | [`whole_file`] | files that are read whole or refused |
//! | [`replacement`] | a temporary file that replaces the old one when it is complete |

pub mod access;
pub mod clock;
pub mod day;
pub mod file_state;
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
