//! `blocklist-fetch`; see the library.
#![forbid(unsafe_code)]

use std::process::ExitCode;

use blocklist_fetch::cli::FetchCli;
use clap::Parser as _;

fn main() -> ExitCode {
    FetchCli::parse().run()
}
