//! Tests with what a machine has beside us: mail servers, systemd, Spark, Prometheus. Some need root.
#![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

mod correspondents;
mod delivered;
mod doors;
mod exim;
mod exim_booted;
mod guides_booted;
mod miltertest;
mod postfix;
mod power_cut;
mod prometheus;
mod restart_mail;
mod sendmail;
mod setup_check;
mod spark;
mod upkeep_booted;

#[path = "../support/mod.rs"]
mod support;
