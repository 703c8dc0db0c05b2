//! `blocklist-publish`; see the library.
#![forbid(unsafe_code)]

use std::process::ExitCode;

use blocklist_fetch::cli::PublishCli;
use clap::Parser as _;

fn main() -> ExitCode {
    PublishCli::parse().run()
}
