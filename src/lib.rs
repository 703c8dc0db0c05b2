//! A milter that rejects mail from listed senders.
//!
//! Two paths cross this crate. They share [`address`] and [`filter`] only, so that
//! an address in a list and the same address in a message become the same bytes.
//!
//! * **A sender, from the socket to the verdict:** [`daemon`] reads bytes, [`milter`]
//!   decodes them to commands, [`screen`] holds the state of one message, [`sender`] finds the
//!   addresses, [`address`] reduces each to its canonical form, [`lookup`] asks each
//!   [`filter`] whether it is listed, [`policy`] decides.
//! * **A line of a blocklist, from the text to a bit:** [`list`] reads lines, [`address`]
//!   parses them into entries, [`compile`] sorts their keys and writes a [`filter`] file.
//!
//! The modules in reading order. Each imports only from the rows above its own;
//! `tests/pure/layers.rs` reads this table and checks it:
//!
//! | modules | about |
//! |---|---|
//! | [`base`], [`metrics`], `rfc5322` | what everything stands on: files, threads, memory, the time, numbers for people; counters; quoting and comments in addresses |
//! | [`unpack`] | compressed files and archives |
//! | [`address`], [`filter`], [`list`], [`milter`], [`endpoint`] | an address; a compiled list; a text list; the milter protocol; where to listen. These do not import each other |
//! | [`lookup`], `journal`, [`door`] | whether a filter lists a sender (nothing else decides this); logs of syslog and the systemd journal; policy delegation, socketmap and rspamd maps for mail servers without milters |
//! | [`sender`], [`compile`], [`daemon`] | the senders of a message; compiling lists to filters; sockets, signals, watched files |
//! | [`inspect`], [`policy`] | queries and reports about filters; from senders and lists to a verdict |
//! | [`config`] | the configuration file |
//! | [`snapshot`], [`undo`] | the configuration and filters in effect, replaced in one step; the commands that accept a refused sender |
//! | [`screen`], [`status`] | one message from MAIL to the verdict; the status page and the metrics |
//! | [`explain`] | what would happen to a message, and why |
//! | [`serve`], [`logs`] | running the daemon; summarizing its log |
//! | [`demo`], `correspondents`, `junk` | a demonstration of the daemon with messages as a mail server sends them; the addresses that local users write to; the messages that they report |
//! | [`setup_check`] | whether this machine's mail server and the milter are configured to work together |
//! | [`cli`] | the command lines |
//!
//! Where a change goes:
//!
//! | to add | write | test |
//! |---|---|---|
//! | a list format | a file in `list/formats/`; a variant of [`list::Format`], and its row in `list/registry.rs` with its names, its mark and its reader | a pair in `tests/lists/` |
//! | an action | its name in `policy/action.rs`, in the order of strength; the compiler names the places that must know it (`screen/`) | `tests/verdicts.toml`, `tests/support/scenario.rs` |
//! | a provider's rule | a row in `address/providers.rs`, with its source; raise [`address::RULES_VERSION`] | `tests/addresses.txt` |
//! | a setting | its field and default in `config/settings.rs`, its row in `config/rows.rs`; `contrib/blocklist-milter.toml` and its manual, which tests compare | `tests/pure/config.rs` |
//! | a command, an option | `args.rs` of the program in `cli/`, a function next to it; the manual by `UPDATE_MANUALS=1 cargo test --test pure manuals::` | `tests/commands/` |
#![forbid(unsafe_code)]

pub mod address;
pub mod base;
pub mod cli;
pub mod compile;
pub mod config;
mod correspondents;
pub mod daemon;
pub mod demo;
pub mod door;
pub mod endpoint;
pub mod explain;
pub mod filter;
pub mod inspect;
mod journal;
mod junk;
pub mod list;
pub mod logs;
pub mod lookup;
pub mod metrics;
pub mod milter;
pub mod policy;
mod rfc5322;
pub mod screen;
pub mod sender;
pub mod serve;
pub mod setup_check;
pub mod snapshot;
pub mod status;
pub mod undo;
pub mod unpack;
