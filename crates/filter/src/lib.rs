//! Sender addresses, and compiled lists of them: what `blocklist-milter` looks senders up with.
//!
//! An [`address`] is reduced to one canonical form, whoever writes it. A [`filter`] is one compiled list: Bloom
//! pages say "not listed" or "perhaps", and an exact record on disk decides. [`lookup`] asks a filter
//! about an address; nothing else decides whether a sender is listed. `blocklist-compile` writes filters.
//!
//! The modules in reading order; each imports only from the rows above its own:
//!
//! | modules | about |
//! |---|---|
//! | [`base`], [`rfc5322`] | what everything stands on: files, threads, memory, the time, numbers for people; quoting and comments in addresses |
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
