//! `blocklist-milter`: arguments, run, exit code. Everything else is in the library.
#![forbid(unsafe_code)]

use std::error::Error;
use std::process::ExitCode;

use blocklist_milter::cli::milter::Milter;
use blocklist_milter::config::Config;
use blocklist_milter::{serve, snapshot};
use clap::Parser;

fn main() -> ExitCode {
    let arguments = Milter::parse();
    match run(&arguments) {
        Ok(code) => code,
        Err(failure) => {
            let mut text = failure.to_string();
            let mut cause = failure.source();
            while let Some(deeper) = cause {
                let detail = deeper.to_string();
                if !text.contains(&detail) {
                    text = format!("{text}: {detail}");
                }
                cause = deeper.source();
            }
            for line in text.lines() {
                eprintln!("blocklist-milter: {line}");
            }
            ExitCode::from(2)
        }
    }
}

fn run(arguments: &Milter) -> Result<ExitCode, Box<dyn Error>> {
    if arguments.print_config {
        print!("{}", Config::load(&arguments.config)?);
    } else if arguments.check {
        print!("{}", snapshot::check(&arguments.config)?);
    } else {
        serve::run(&arguments.config)?;
    }
    Ok(ExitCode::SUCCESS)
}
