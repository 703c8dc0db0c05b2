//! Tests without a process and without a socket: the library with files and memory. Seconds.
#![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

mod address;
mod authentication;
mod blocklists;
mod compile_hostile;
mod completions;
mod config;
mod delta_format;
mod door;
mod filter_file;
mod filter_format;
mod growth;
mod layers;
mod list;
mod look_up;
mod manuals;
mod protocol;
mod public_items;
mod sender;
mod stored_filters;

#[path = "../support/mod.rs"]
mod support;
