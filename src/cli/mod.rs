//! The command lines of both programs, apart from what they do, so that man pages are made from them.

pub mod milter;
