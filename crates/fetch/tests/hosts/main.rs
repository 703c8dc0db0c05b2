//! From a publisher to hosts, by folder, HTTP and bucket: everything that a store can do to a host,
//! and everything that can happen to the host.
#![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

mod buckets;
#[path = "../../../../tests/support/check.rs"]
mod check;
mod fetching;
mod keys;
mod lying;
mod manuals;
mod nginx;
mod publishing;
mod rings;
mod stopped;
mod support;
#[path = "../../../../tests/support/tools.rs"]
mod tools;
