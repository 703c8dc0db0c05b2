//! Which of many addresses are listed: reads one a line, and prints each that is, with the entry, the list that it came from, and
//! its dates, divided by tabs.
//!
//! ```text
//! cargo run -p blocklist-filter --example batch -- spammers.blf <addresses.txt
//! ```
//!
//! Exit status, as of `blocklist-compile query`: 0 one is listed, 1 none, 2 an error.

use std::error::Error;
use std::io::{self, BufRead, Write};
use std::process::ExitCode;

use blocklist_filter::address::escaped;
use blocklist_filter::{Load, Lookup};

fn main() -> ExitCode {
    let run = || -> Result<bool, Box<dyn Error>> {
        let path = std::env::args_os().nth(1).ok_or("usage: batch FILTER")?;
        let list = Lookup::open(path.as_ref(), Load::Memory)?;
        check(&list, io::stdin().lock(), io::stdout().lock())
    };
    match run() {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(1),
        Err(error) => {
            eprintln!("batch: {error}");
            ExitCode::from(2)
        }
    }
}

/// Prints which addresses are listed, and returns whether one is.
pub fn check(
    list: &Lookup,
    addresses: impl BufRead,
    mut out: impl Write,
) -> Result<bool, Box<dyn Error>> {
    let mut is_any = false;
    for address in addresses.split(b'\n') {
        let address = address?;
        for found in list.find(&address)? {
            is_any = true;
            let (address, entry) = (escaped(&address), escaped(&found.entry));
            let source = found.source.map_or("-", |source| source.name.as_str());
            let [added, expires] = [found.added, found.expires]
                .map(|day| day.map_or_else(|| "-".to_owned(), |day| day.to_string()));
            writeln!(out, "{address}\t{entry}\t{source}\t{added}\t{expires}")?;
        }
    }
    Ok(is_any)
}
