//! Commands about the people here: `correspondents` collects the addresses to which they write, `junk` adds the
//! senders of the messages that they report to a list.

use std::path::{Path, PathBuf};

use clap::Args;

use crate::config::Config;
use crate::correspondents::{Book, Rules};
use crate::junk::{self, Options};
use crate::policy::{Entries, Network};
use blocklist_compile::console::{Done, Output, whole_number};
use blocklist_filter::address::{Entry, Kind};
use blocklist_filter::base::clock::today;
use blocklist_filter::base::day::Day;

#[derive(Debug, Args)]
pub(super) struct Correspondents {
    /// The file to update; name it in the setting correspondents of the configuration.
    #[arg(short, long, value_name = "FILE")]
    pub output: PathBuf,
    /// Drop addresses that nobody has written to for this long.
    #[arg(long, value_name = "DAYS", default_value = "120d", value_parser = days)]
    pub keep: u16,
    /// A mailbox of sent mail: a maildir or another folder of messages, one file each; may be repeated. No link is followed.
    #[arg(long, value_name = "MAILBOX")]
    pub sent: Vec<PathBuf>,
    /// One of your own domains, whose addresses are left out; may be repeated. The domain of each
    /// sender is left out anyway.
    #[arg(long, value_name = "DOMAIN", value_parser = domain)]
    pub own_domain: Vec<String>,
    /// Also count mail of these clients, which send without authentication; may be repeated.
    #[arg(long, value_name = "NETWORK")]
    pub client: Vec<Network>,
    /// Also count mail that this local user submits; may be repeated. Do not use it for accounts of web
    /// forms or programs, which write to anyone.
    #[arg(long, value_name = "UID", value_parser = whole_number::<u32>)]
    pub uid: Vec<u32>,
    /// Print one JSON object instead of text.
    #[arg(long)]
    pub json: bool,
    /// Logs of Postfix or Sendmail, also compressed ones; - for standard input.
    #[arg(value_name = "LOG")]
    pub logs: Vec<PathBuf>,
}

/// Adds the addresses to which users wrote.
pub(super) fn correspondents(args: &Correspondents, out: &mut Output) -> Done {
    let rules = Rules {
        own_domains: args.own_domain.clone(),
        clients: args.client.clone(),
        uids: args.uid.clone(),
    };
    if args.logs.is_empty() && args.sent.is_empty() {
        return Err("no input: give a log, - for standard input, or --sent MAILBOX".into());
    }
    let mut book = Book::read(&args.output, rules)?;
    for log in &args.logs {
        book.add_log(log)?;
    }
    for mailbox in &args.sent {
        book.add_mailbox(mailbox)?;
    }
    let change = book.update(Day(today()), args.keep)?;
    out.show(&change, args.json)
}

#[derive(Debug, Args)]
pub(super) struct Junk {
    /// The text list of reported senders; created if missing.
    #[arg(long, value_name = "FILE")]
    pub list: PathBuf,
    /// Remove the entries that reports have added for these senders; entries added by hand stay. No report adds them again
    /// until 90 days after the last one.
    #[arg(long)]
    pub undo: bool,
    /// Name of the reporting user, for the comment.
    #[arg(long, value_name = "NAME", default_value = "a user", value_parser = name)]
    pub by: String,
    /// Days until the entries expire.
    #[arg(long, value_name = "DAYS", default_value = "30d", value_parser = days)]
    pub expires: u16,
    /// One of your own domains, whose senders are not listed; may be repeated. The domain of the recipient
    /// (Delivered-To) is left out anyway.
    #[arg(long, value_name = "DOMAIN", value_parser = domain)]
    pub own_domain: Vec<String>,
    /// Print one JSON object instead of text.
    #[arg(long)]
    pub json: bool,
    /// Reported messages: a maildir, another folder of messages (one file each; no link is followed), one message, or -
    /// for a message on standard input.
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
    out.show(&change, args.json)
}

/// Parses `our.example` or `@our.example` to its canonical form.
fn domain(text: &str) -> Result<String, &'static str> {
    let entry = Entry::parse(text.as_bytes(), Entries::rules()).ok();
    let entry = entry.filter(|entry| entry.kind() == Kind::Domain);
    let domain = entry.and_then(|entry| {
        let domain = str::from_utf8(entry.as_bytes()).ok()?.strip_prefix('@')?;
        Some(domain.to_owned())
    });
    domain.ok_or("must be a domain such as our.example")
}

/// Parses `120d` or `120`.
fn days(text: &str) -> Result<u16, &'static str> {
    let number = text.strip_suffix('d').unwrap_or(text).parse().ok();
    let number = number.filter(|days| (1..=3650).contains(days));
    number.ok_or("must be days such as 120d, at most 3650d")
}

/// Parses a name that becomes part of a comment in a list.
fn name(text: &str) -> Result<String, &'static str> {
    let is_plain = |c: char| c.is_alphanumeric() || " .@_-/".contains(c);
    match !text.is_empty() && text.len() <= 100 && text.chars().all(is_plain) {
        true => Ok(text.to_owned()),
        false => Err("must be a name of letters, digits, blanks and . @ _ - /"),
    }
}
