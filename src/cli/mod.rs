//! The command lines of both programs, apart from what they do, so that man pages are
//! made from the same definitions.

pub mod compile;
pub mod milter;
mod progress;
