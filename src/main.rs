//! The daemon: rejects mail from listed senders, inside the SMTP session.
#![forbid(unsafe_code)]

use std::process::ExitCode;

fn main() -> ExitCode {
    blocklist_milter::cli::main()
}
