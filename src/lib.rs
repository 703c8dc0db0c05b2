//! A milter that rejects mail from listed senders.
//!
//! Two paths cross the crates. They share [`address`] and [`filter`] only, so that
//! an address in a list and the same address in a message become the same bytes.
//!
//! * **A sender, from the socket to the verdict:** [`daemon`] reads bytes, [`milter`]
//!   decodes them to commands, [`screen`] holds the state of one message, [`sender`] finds the
//!   addresses, [`address`] reduces each to its canonical form, [`lookup`] asks each
//!   [`filter`] whether it is listed, [`policy`] decides.
//! * **A line of a blocklist, from the text to a bit:** [`list`] reads lines, [`address`]
//!   parses them into entries, [`compile`] sorts their keys and writes a [`filter`] file.
//!
//! | crate | about |
//! |---|---|
//! | `crates/filter`: [`blocklist_filter`] | addresses, filters, look-ups |
//! | `crates/compile`: [`blocklist_compile`] | lists, and compiling them to filters |
//! | `crates/fetch`: `blocklist-fetch`, `blocklist-publish` | filters by way of a store |
//! | this one | the daemon and its commands |
//!
//! The modules in reading order. Each imports only from the rows above its own;
//! `tests/pure/layers.rs` reads this table, and those of the other crates, and checks them:
//!
//! | modules | about |
//! |---|---|
//! | [`metrics`], `paint` | counters; colours and columns on a terminal |
//! | [`milter`], [`endpoint`] | the milter protocol; where to listen. These do not import each other |
//! | `journal`, [`door`] | logs of syslog and the systemd journal; policy delegation, socketmap and rspamd maps for mail servers without milters |
//! | [`sender`], [`daemon`] | the senders of a message; sockets, signals, watched files |
//! | [`policy`] | from senders and lists to a verdict |
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
//! | a list format | a file in `crates/compile/src/list/formats/`; a variant of [`list::Format`], and its row in `list/registry.rs` with its names, its mark and its reader | a pair in `tests/lists/` |
//! | an action | its name in `policy/action.rs`, in the order of strength; the compiler names the places that must know it (`screen/`) | `tests/verdicts.toml`, `tests/support/scenario.rs` |
//! | a provider's rule | a row in `crates/filter/src/address/providers.rs`, with its source; raise [`address::RULES_VERSION`] | `tests/addresses.txt` |
//! | a setting | its field and default in `config/settings.rs`, its row in `config/rows.rs`; `contrib/blocklist-milter.toml` and its manual, which tests compare | `tests/pure/config.rs` |
//! | a command, an option | `args.rs` of the program in `cli/`, a function next to it; the manual by `UPDATE_MANUALS=1 cargo test --test pure manuals::` | `tests/commands/` |
//!
//! [`address`]: blocklist_filter::address
//! [`address::RULES_VERSION`]: blocklist_filter::address::RULES_VERSION
//! [`compile`]: blocklist_compile::compile
//! [`filter`]: blocklist_filter::filter
//! [`list`]: blocklist_compile::list
//! [`list::Format`]: blocklist_compile::list::Format
//! [`lookup`]: blocklist_filter::lookup
#![forbid(unsafe_code)]

pub mod cli;
pub mod config;
mod correspondents;
pub mod daemon;
pub mod demo;
pub mod door;
pub mod endpoint;
pub mod explain;
mod journal;
mod junk;
pub mod logs;
pub mod metrics;
pub mod milter;
mod paint;
pub mod policy;
pub mod screen;
pub mod sender;
pub mod serve;
pub mod setup_check;
pub mod snapshot;
pub mod status;
pub mod undo;
