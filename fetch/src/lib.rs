//! Brings filters from the machine that compiles them to the hosts that use them, over any store of
//! files: a folder, a web server, S3.
//!
//! ```text
//!   blocklist-publish: filter --deltas--> store: LIST/SHA256.blf, LIST/SHA256.delta
//!                             --sign----> store: LIST/SHA256.minisig, LIST.json     (the manifest, last)
//!
//!   blocklist-fetch:   LIST.json, LIST/SHA256.minisig --signature--> manifest --ring, age, limits-->
//!                      at most 10 deltas, or the whole file --SHA-256, every checksum--> renamed
//! ```
//!
//! The store is not trusted. All it can do is to give nothing, which the manifest's day of expiry brings to
//! light. Whatever is wrong, the filter in use stays, and one line says why.
//!
//! | in reading order | about |
//! |---|---|
//! | [`error`] | why nothing was changed |
//! | [`manifest`] | what is to be had, signed |
//! | [`keys`] | which signatures are believed |
//! | [`store`] | files by name, with limits |
//! | [`state`] | what a host remembers |
//! | [`publish`](mod@publish) | a filter to the store |
//! | [`promote`](mod@promote) | what one ring has to other hosts |
//! | [`fetch`](mod@fetch) | from the store to a host |
//! | [`cli`] | both command lines |
#![forbid(unsafe_code)]

pub mod cli;
pub mod error;
pub mod fetch;
pub mod keys;
pub mod manifest;
pub mod promote;
pub mod publish;
pub mod state;
pub mod store;

pub use error::Error;
pub use fetch::{Fetch, Outcome, fetch};
pub use promote::{Promote, promote};
pub use publish::{Publish, Published, publish};
