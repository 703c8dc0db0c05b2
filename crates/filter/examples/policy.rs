//! A policy service for Postfix: refuses mail whose envelope sender is listed (Postfix: SMTPD_POLICY_README).
//!
//! ```text
//! cargo run -p blocklist-filter --example policy -- spammers.blf
//!
//! master.cf:  listed unix - n n - 0 spawn user=nobody argv=/usr/local/bin/policy /etc/postfix/spammers.blf
//! main.cf:    smtpd_sender_restrictions = check_policy_service unix:private/listed
//! ```
//!
//! spawn(8) starts it for each connection, on which requests follow one another. So the filter stays on disk, and a new one is used
//! by the next connection. Standard error would go to Postfix: what cannot be answered defers the mail instead.

use std::error::Error;
use std::io::{self, BufRead, Write};

use blocklist_filter::address::escaped;
use blocklist_filter::{Load, Lookup};

fn main() -> Result<(), Box<dyn Error>> {
    let path = std::env::args_os().nth(1).ok_or("usage: policy FILTER")?;
    let list = Lookup::open(path.as_ref(), Load::Disk)?;
    Ok(serve(&list, io::stdin().lock(), io::stdout())?)
}

/// Answers requests: lines `name=value`, up to an empty one.
pub fn serve(list: &Lookup, requests: impl BufRead, mut answers: impl Write) -> io::Result<()> {
    let mut sender = Vec::new();
    for line in requests.split(b'\n') {
        let line = line?;
        if let Some(value) = line.strip_prefix(b"sender=") {
            sender = value.to_owned();
        } else if line.is_empty() {
            let action = match list
                .find_understood(&std::mem::take(&mut sender))
                .as_deref()
            {
                Ok([]) => "DUNNO".to_owned(),
                Ok([found, ..]) => format!("REJECT {} is on our blocklist", escaped(&found.entry)),
                Err(_) => "DEFER_IF_PERMIT our blocklist cannot be read".to_owned(),
            };
            write!(answers, "action={action}\n\n")?;
            answers.flush()?;
        }
    }
    Ok(())
}
