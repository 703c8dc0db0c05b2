//! Tests of the daemon and the commands: as processes, or served by this process on a socket.
#![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

mod campaign;
mod clock;
mod commands;
mod compile;
mod compile_ends;
mod crowd;
mod daemon;
mod deltas;
mod dependencies;
mod doors;
mod explain;
mod filter_bits;
mod filter_damage;
mod guides;
mod last_good;
mod log;
mod loss;
mod mixed;
mod packages;
mod parts;
mod player;
mod policy;
mod reload;
mod restart;
mod sandbox;
mod sender_differential;
mod senders;
mod service;
mod sizing;
mod status;
mod system_calls;

#[path = "../support/mod.rs"]
mod support;
