//! Compiles blocklists of senders to filters: the command `blocklist-compile`.
//!
//! A line of a blocklist, from the text to a bit: [`list`] reads lines, [`address`](blocklist_filter::address)
//! parses them into entries, [`compile`] sorts their keys and writes a [`filter`](blocklist_filter::filter) file.
//!
//! The modules in reading order; each imports only from the rows above its own:
//!
//! | modules | about |
//! |---|---|
//! | [`unpack`], `settings`, `console` | compressed files and archives; settings in TOML; what the command lines of all programs share |
//! | [`list`] | a text list |
//! | [`compile`] | compiling lists to filters |
//! | [`inspect`] | queries and reports about filters |
//! | [`cli`] | the command line |
#![forbid(unsafe_code)]

pub mod cli;
pub mod compile;
#[doc(hidden)]
pub mod console;
pub mod inspect;
pub mod list;
#[doc(hidden)]
pub mod settings;
pub mod unpack;
