//! The command line of `blocklist-milter`.

use std::net::IpAddr;
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};

/// Where the configuration is looked for.
pub const DEFAULT_CONFIG: &str = "/etc/blocklist-milter/blocklist-milter.toml";

/// Refuses mail from listed senders, as a milter of Postfix or Sendmail.
///
/// Without a command: serves mail until SIGTERM. Configuration, filters and whitelists are loaded again
/// when they change, and on SIGHUP.
#[derive(Debug, Parser)]
#[command(name = "blocklist-milter", version, max_term_width = 100)]
pub struct Milter {
    /// The configuration.
    #[arg(long, global = true, value_name = "FILE", default_value = DEFAULT_CONFIG)]
    pub config: PathBuf,
    /// Check configuration, filters and whitelists, show every fault, and end.
    #[arg(long)]
    pub check: bool,
    /// Print the configuration with all settings that were left out, and end.
    #[arg(long)]
    pub print_config: bool,
    /// Something else than serving.
    #[command(subcommand)]
    pub command: Option<Command>,
}

/// What can be done instead of serving.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Say what would happen to a message, and why.
    ///
    /// Runs the daemon's own code on a stored message. The exit code is 0 whatever the verdict.
    Explain(Explain),
    /// Say what would have happened to a whole mailbox.
    ///
    /// Try a new list on last week's mail before it goes live. Shows every message that would not simply
    /// be accepted, with its listed sender, list and source. All processors take part. The brake
    /// (max_reject_share) is left out, since that mail did not come in five minutes.
    Replay(Replay),
    /// Show it at work: compile ./blocklists, serve on a private socket, play messages as a mail server would.
    Demo,
}

/// Arguments of `explain`.
#[derive(Debug, Args)]
pub struct Explain {
    /// Envelope sender, the argument of MAIL FROM.
    #[arg(long, value_name = "ADDRESS", allow_hyphen_values = true)]
    pub mail_from: Option<String>,
    /// Envelope recipient; may be given several times. Without one: somebody who is not exempt.
    #[arg(long, value_name = "ADDRESS", allow_hyphen_values = true)]
    pub rcpt: Vec<String>,
    /// Address of the SMTP client.
    #[arg(long, value_name = "IP")]
    pub client: Option<IpAddr>,
    /// The client has logged in, as the mail server tells by {auth_authen}.
    #[arg(long)]
    pub authenticated: bool,
    /// Explain this sender instead of a message.
    #[arg(long, value_name = "ADDRESS", conflicts_with_all = ["mail_from", "message"], allow_hyphen_values = true)]
    pub address: Option<String>,
    /// One JSON object instead of text.
    #[arg(long)]
    pub json: bool,
    /// The stored message; `-` is standard input.
    #[arg(required_unless_present = "address")]
    pub message: Option<PathBuf>,
}

/// Arguments of `replay`.
#[derive(Debug, Args)]
pub struct Replay {
    /// Show what another configuration would change.
    #[arg(long, value_name = "FILE")]
    pub against: Option<PathBuf>,
    /// One JSON object instead of text.
    #[arg(long)]
    pub json: bool,
    /// A maildir, another folder of messages, or an mbox file, which may be packed by gzip or zstd.
    /// Envelope senders are taken from Return-Path.
    #[arg(value_name = "MAILBOX")]
    pub mailbox: PathBuf,
}
