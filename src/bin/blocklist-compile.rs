//! The admin command: text blocklists to filter files, and answers from them.
#![forbid(unsafe_code)]

use std::process::ExitCode;

fn main() -> ExitCode {
    blocklist_compile::cli::main(blocklist_milter::cli::VERSION)
}
