//! A milter that rejects mail from listed senders.
//!
//! Two paths cross this crate. They meet in [`address`] and [`filter`] only, so that
//! an address in a list and an address in a message become the same bytes.
//!
//! * **A sender, from the socket to the verdict:** [`daemon`] reads bytes, [`milter`]
//!   makes commands of them, [`screen`] keeps one message, [`sender`] finds the
//!   addresses, [`address`] gives each its one canonical form, [`lookup`] asks each
//!   [`filter`] whether it is listed, [`policy`] decides.
//! * **A line of a blocklist, from the text to a bit:** [`list`] reads lines, [`address`]
//!   makes entries of them, [`compile`] sorts their keys and writes a [`filter`] file.
//!
//! The modules in reading order; each imports only from rows above its own
//! (`tests/layers.rs` reads this table and checks it):
//!
//! | modules | about |
//! |---|---|
//! | [`access`], `file_state`, [`replacement`], [`clock`], `parallel`, `memory`, `numbers`, [`metrics`], `rfc5322` | who may read a file; whether it has changed; a new file in place of an old one; the time; the same work on several threads; how much memory may still be taken; numbers for people; counters; quotes and comments of addresses |
//! | [`address`], [`filter`], [`list`], [`milter`], [`endpoint`] | an address, a compiled list, a text list, the protocol, where to listen; they do not import each other |
//! | [`lookup`], [`journal`] | whether a filter lists a sender: the one place that answers; logs of syslog and the journal |
//! | [`sender`], [`compile`], [`daemon`] | the senders of a message; lists to filters; sockets, signals, watched files |
//! | [`inspect`], [`policy`] | what people ask of filters; senders and lists to a verdict |
//! | [`config`] | the configuration file |
//! | [`snapshot`] | configuration and filters in effect, replaced in one step |
//! | [`screen`], [`status`] | one message from MAIL to verdict; what the daemon says of itself |
//! | [`explain`], [`serve`], [`digest`] | the same for a stored message; for the daemon; its log, read again |
//! | [`demo`], [`correspondents`], [`junk`] | the daemon at work, with messages as a mail server sends them; the addresses that our users write to; the messages that they report |
//! | [`setup_check`] | whether this machine's mail server and the milter are set up to work together |
//! | [`cli`] | the command lines |
//!
//! Where a change goes:
//!
//! | to add | write | test |
//! |---|---|---|
//! | a list format | a file in `list/`; a variant of [`list::Format`] and its name in `list/format.rs`, an arm in `list/reader.rs`, its detection in `list/guess.rs` | a pair in `tests/lists/` |
//! | an action | its row in `policy/action.rs`, in the order of strength; if it has a new [`policy::Effect`], the compiler names the places that must know it (`screen/`) | `tests/policy.rs`, `tests/support/scenarios.rs` |
//! | a provider's rule | a row in `address/providers.rs`, with its source; raise [`address::RULES_VERSION`] | `tests/addresses.txt` |
//! | a setting | `config/settings.rs`, `config/sections.rs`, `config/print.rs`; `contrib/blocklist-milter.toml` and its manual, which tests compare | `tests/config.rs` |
//! | a command, an option | `args.rs` of the program in `cli/`, a function next to it; the manual by `UPDATE_MANUALS=1 cargo test --test manuals` | `tests/commands/` |
#![forbid(unsafe_code)]

pub mod access;
pub mod address;
pub mod cli;
pub mod clock;
pub mod compile;
pub mod config;
pub mod correspondents;
pub mod daemon;
pub mod demo;
pub mod digest;
pub mod endpoint;
pub mod explain;
mod file_state;
pub mod filter;
pub mod inspect;
pub mod journal;
pub mod junk;
pub mod list;
pub mod lookup;
mod memory;
pub mod metrics;
pub mod milter;
mod numbers;
mod parallel;
pub mod policy;
pub mod replacement;
mod rfc5322;
pub mod screen;
pub mod sender;
pub mod serve;
pub mod setup_check;
pub mod snapshot;
pub mod status;
