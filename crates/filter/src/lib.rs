//! Looks senders of mail up in a compiled blocklist.
//!
//! `blocklist-compile` turns text lists of addresses and domains, up to billions of them, into one filter file. This crate opens
//! such a file, asks it about a sender, and verifies it. `blocklist-milter` refuses mail with it; a policy service, a
//! mailing list manager or a batch job can use it as well.
//!
//! ```
//! use blocklist_filter::{Load, Lookup};
//! # let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/filters/records.blf");
//! # let path = std::path::Path::new(path);
//! let list = Lookup::open(path, Load::Memory)?;
//! assert!(list.find(b"friend@bad.example")?.is_empty());
//!
//! let found = list.find(b"\"Lucky You\" <Spammer@BAD.example>")?;
//! assert_eq!(found[0].entry, b"spammer@bad.example");
//! assert_eq!(found[0].source.expect("it has records").name, "list");
//! assert_eq!(found[0].added.expect("it has records").to_string(), "2026-01-31");
//! # Ok::<(), blocklist_filter::Error>(())
//! ```
//!
//! # What the answer means
//!
//! A sender is given as it was written, `Name <a@b>` or `A@B`, and is reduced to one canonical form, as entries were when they
//! were compiled ([`address`]). It is listed if an entry names its mailbox, its local part, its domain or a domain above
//! that. [`Lookup::find`] returns these entries, with the list that each came from and its dates; none means "not listed".
//!
//! Behind it are two steps ([`filter`]). A page of a Bloom filter says "certainly not" or "perhaps". Then the exact record of
//! the entry, a 64-bit hash with a secret seed, decides. So a listed sender is never missed, and one that is not listed is found
//! by chance only if its hash equals that of an entry: entries times look-ups, divided by 2^64. A filter built with `--no-records`
//! has pages only: it says [`Listing::is_proved`] `false`, and finds about one in a million others, too.
//!
//! An error is not an answer: the sender may be listed or not. A mail server should then defer.
//!
//! # What it costs
//!
//! | | |
//! |---|---|
//! | memory | 19.2 bits an entry at the usual rate of 1e-4, 28.9 at 1e-6 ([`filter::sizing`]), and 24 bytes for each 4096 of these; records only if all of them take less than 1 MiB. With [`Load::Disk`] the 24 bytes alone |
//! | a look-up | one page of 4096 bytes for each kind of entry that the list holds, and for each label of the domain if it holds subtrees |
//! | a hit, or one in 10,000 misses | one read from the file, unless the records are in memory |
//! | opening | reads and checks header, directory and sources; with [`Load::Memory`] each page |
//!
//! Look-ups take no lock, so threads can share a [`Lookup`], which is [`Send`], [`Sync`] and cheap to clone. A read blocks its
//! thread; [`lookup::Reads::Later`] puts reads off, for those who must not wait.
//!
//! # Damaged and replaced files
//!
//! Whatever is read is checked against its XXH3 checksum, and nothing in it is trusted beyond that: a damaged, cut-off or forged
//! file gives an error that says what is wrong, never a panic or an answer. [`Filter::verify`] reads everything. No file is mapped, so that
//! one that is cut off while it is open ends no process. `blocklist-compile` replaces files by renaming: an open filter keeps
//! answering from the old one. Open it again to see the new one.
//!
//! # What it does not do
//!
//! It writes no filters, reads no messages, and judges no mail: what becomes of a listed sender, and whom a whitelist
//! exempts, is up to you. It needs a 64-bit Unix. It has no `unsafe` code.
//!
//! What `#[doc(hidden)]` leaves out of these pages serves `blocklist-compile` and `blocklist-milter`, and is no part of what a version
//! promises (semver).
//!
//! # Modules
//!
//! In reading order; each imports only from the rows above its own:
//!
//! | modules | about |
//! |---|---|
//! | `base`, `rfc5322` | what everything stands on: files, threads, memory, the time, numbers for people; quoting and comments in addresses |
//! | [`address`], [`filter`] | an address; a compiled list |
//! | [`lookup`] | whether a filter lists a sender |
#![forbid(unsafe_code)]

pub mod address;
#[doc(hidden)]
pub mod base;
pub mod filter;
pub mod lookup;
#[doc(hidden)]
pub mod rfc5322;

pub use base::day::Day;
pub use filter::{Filter, Load};
pub use lookup::{Error, Listing, Lookup};
