//! The admin command: text blocklists to filter files, and answers from them.

use std::process::ExitCode;

fn main() -> ExitCode {
    blocklist_milter::cli::compile::main()
}
