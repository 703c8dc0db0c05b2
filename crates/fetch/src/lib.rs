//! Distributes filters from the machine that compiles them to the hosts that use them, through any store of files: a
//! folder, a web server, or a bucket.
//!
//! ```text
//!   blocklist-publish: filter --deltas--> store: LIST/SHA256.blf, LIST/SHA256.delta
//!                             --sign----> store: LIST/SHA256.minisig, LIST.json     (the manifest, last)
//!
//!   blocklist-fetch:   LIST.json, LIST/SHA256.minisig --signature--> manifest --ring, age, limits-->
//!                      deltas if they are smaller, or the whole file --SHA-256, every checksum--> renamed
//! ```
//!
//! The store is not trusted. The worst that it can do is to serve nothing new, which is noticed when the manifest expires.
//! In case of any error, the present filter stays, and one line says why.
//!
//! | in reading order | about |
//! |---|---|
//! | [`error`] | errors of both programs |
//! | [`manifest`] | the signed list of filters and deltas |
//! | [`store`] | reading and writing files by name, with limits |
//! | [`keys`] | keys and signatures |
//! | [`options`] | what to fetch, and what to publish |
//! | [`state`] | the state that a host stores |
//! | [`publish`](mod@publish) | publishing a filter to the store |
//! | [`promote`](mod@promote) | giving the filter of one ring to other hosts |
//! | [`fetch`](mod@fetch) | updating the filter of a host from the store |
//! | [`status`] | the status file of a host, for people and for node_exporter |
//! | [`cli`] | both command lines |
#![forbid(unsafe_code)]

pub mod cli;
pub mod error;
pub mod fetch;
pub mod keys;
pub mod manifest;
pub mod options;
pub mod promote;
pub mod publish;
pub mod state;
pub mod status;
pub mod store;

pub use error::Error;
pub use fetch::{Outcome, fetch};
pub use options::{Fetch, Publish};
pub use promote::promote;
pub use publish::{Published, publish};
