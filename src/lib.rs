//! A milter that rejects mail from listed senders.
//!
//! Two paths cross this crate. They meet in exactly two places, [`address`] and
//! [`filter`], so that what a list names and what a message names are compared to
//! the byte.
//!
//! * **A sender, from the socket to the verdict:** [`daemon`] reads bytes, [`milter`]
//!   makes commands of them, [`screen`] keeps one message, [`sender`] finds the
//!   addresses, [`address`] gives each its one canonical form, [`filter`] says whether
//!   it is listed, [`policy`] decides.
//! * **A line of a blocklist, from the text to a bit:** [`list`] reads lines, [`address`]
//!   makes entries of them, [`compile`] sorts their keys and writes a [`filter`] file.
//!
//! The modules in reading order; each imports only from lines above its own
//! (`tests/layers.rs` checks it):
//!
//! | modules | about |
//! |---|---|
//! | `parallel` | the same work on several threads |
//! | [`address`], [`filter`], [`list`], [`milter`], [`endpoint`] | an address, a compiled list, a text list, the protocol, where to listen; they know nothing of each other |
//! | [`sender`], [`compile`], [`daemon`] | whom a message names; lists to filters; sockets, signals, watched files |
//! | [`policy`] | senders and lists to a verdict |
//! | [`config`] | the configuration file |
//! | [`snapshot`] | all that is in force, replaced as one |
//! | [`screen`] | one message from MAIL to verdict |
//! | [`explain`], [`serve`] | the same for a stored message; for the daemon |
//! | [`demo`] | the whole way at work |
//! | [`cli`] | the command lines |
#![forbid(unsafe_code)]

pub mod address;
pub mod cli;
pub mod compile;
pub mod config;
pub mod daemon;
pub mod demo;
pub mod endpoint;
pub mod explain;
pub mod filter;
pub mod list;
pub mod milter;
mod parallel;
pub mod policy;
pub mod screen;
pub mod sender;
pub mod serve;
pub mod snapshot;
