//! `blocklist-milter junk`: adds the senders of reported messages to a list.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;

use super::people::{days, domain};
use crate::base::clock::today;
use crate::base::day::Day;
use crate::cli::{Done, Output};
use crate::config::Config;
use crate::junk::{self, Options};

/// Arguments of `junk`.
#[derive(Debug, Args)]
pub struct Junk {
    /// The text list of reported senders; created if missing.
    #[arg(long, value_name = "FILE")]
    pub list: PathBuf,
    /// Remove the entries that reports have added for these senders; entries added by hand stay.
    #[arg(long)]
    pub undo: bool,
    /// Name of the reporting user, for the comment.
    #[arg(long, value_name = "NAME", default_value = "a user", value_parser = name)]
    pub by: String,
    /// Days until the entries expire.
    #[arg(long, value_name = "DAYS", default_value = "90d", value_parser = days)]
    pub expires: u16,
    /// One of your own domains, whose senders are not listed; may be repeated. The domain of the recipient
    /// (Delivered-To) is left out anyway.
    #[arg(long, value_name = "DOMAIN", value_parser = domain)]
    pub own_domain: Vec<String>,
    /// Print one JSON object instead of text.
    #[arg(long)]
    pub json: bool,
    /// Reported messages: a maildir, another folder of messages, an mbox, one message, or - for a message
    /// on standard input.
    #[arg(required = true, value_name = "MAILBOX")]
    pub mailboxes: Vec<PathBuf>,
}

/// Adds the senders to the list, or removes them with `--undo`.
pub(super) fn junk(config: &Path, args: &Junk, out: &mut Output) -> Done {
    let change = if args.undo {
        junk::undo(&args.mailboxes, &args.list)?
    } else {
        let options = Options {
            list: args.list.clone(),
            by: args.by.clone(),
            expires: Day(today().saturating_add(args.expires)),
            own_domains: args.own_domain.clone(),
        };
        junk::report(&args.mailboxes, &options, &Config::load(config)?)?
    };
    out.show(&change, args.json)?;
    Ok(ExitCode::SUCCESS)
}

/// Parses a name that becomes part of a comment in a list.
fn name(text: &str) -> Result<String, String> {
    let is_plain = |c: char| c.is_alphanumeric() || " .@_-/".contains(c);
    match !text.is_empty() && text.len() <= 100 && text.chars().all(is_plain) {
        true => Ok(text.to_owned()),
        false => Err("must be a name of letters, digits, blanks and . @ _ - /".to_owned()),
    }
}
