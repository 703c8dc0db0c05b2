//! A milter that rejects mail from listed senders.
//!
//! Two paths cross this crate. They meet in exactly two places, `address` and
//! `filter`, so that what a list names and what a message names are compared to
//! the byte.
//!
//! * **A sender, from the socket to the verdict:** `daemon` reads bytes, `milter`
//!   makes commands of them, `screen` keeps one message, `sender` finds the
//!   addresses, `address` gives each its one canonical form, `filter` says whether
//!   it is listed, `policy` decides.
//! * **A line of a blocklist, from the text to a bit:** `list` reads lines, `address`
//!   makes entries of them, `compile` sorts their keys and writes a `filter` file.
//!
//! Nothing below `daemon` opens a socket or waits; nothing but `filter`, `compile`
//! and `daemon` touches a file.
#![forbid(unsafe_code)]

pub mod address;
pub mod cli;
pub mod compile;
pub mod config;
pub mod daemon;
pub mod demo;
pub mod explain;
pub mod filter;
pub mod list;
pub mod milter;
pub mod policy;
pub mod screen;
pub mod sender;
pub mod serve;
pub mod snapshot;
