//! The command line of `blocklist-milter`: its commands and options.

use std::ffi::OsString;
use std::net::IpAddr;
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};

use super::daemon::{Log, Reload, Status};
use super::logs::{Case, Report};
use super::people::{Correspondents, Junk};
use crate::config::DEFAULT_PATH;
use blocklist_compile::console::examples;

/// Rejects mail from listed senders, as a milter of Postfix or Sendmail.
///
/// Without a command, serves mail until SIGTERM. Reloads configuration, filters and whitelists when they
/// change, and on SIGHUP.
#[derive(Debug, Parser)]
#[command(
    name = "blocklist-milter",
    version,
    max_term_width = 100,
    after_long_help = examples![
        "blocklist-milter check",
        "blocklist-milter --config ./blocklist-milter.toml",
        "blocklist-milter explain --address spammer@bad.example",
        "blocklist-milter report --since 7d /var/log/mail.log",
        "blocklist-milter demo",
    ]
)]
pub struct Milter {
    /// Configuration file.
    #[arg(long, global = true, value_name = "FILE", default_value = DEFAULT_PATH)]
    #[arg(env = "BLOCKLIST_MILTER_CONFIG", hide_env_values = true)]
    pub(super) config: PathBuf,
    /// The same as the command check.
    #[arg(long, conflicts_with = "print_config")]
    check: bool,
    /// The same as the command print-config.
    #[arg(long)]
    print_config: bool,
    #[command(subcommand)]
    command: Option<Command>,
}

impl Milter {
    /// The command, named or asked for by its old flag; none: serve mail.
    pub(super) fn into_command(self) -> Result<Option<Command>, String> {
        let (flag, meant) = match (self.check, self.print_config) {
            (true, _) => ("--check", Command::Check { json: false }),
            (false, true) => ("--print-config", Command::PrintConfig),
            (false, false) => return Ok(self.command),
        };
        match self.command {
            None => Ok(Some(meant)),
            Some(_) => Err(format!("{flag} cannot be used with a command (see --help)")),
        }
    }
}

#[derive(Debug, Subcommand)]
pub(super) enum Command {
    /// Check configuration, filters and whitelists; show every error.
    ///
    /// Does what a start would do, but does not serve. Exit code 0: no errors; 2: errors.
    #[command(after_long_help = examples![
        "blocklist-milter check",
        "blocklist-milter check --config new.toml",
        "blocklist-milter check --json | jq .warnings",
    ])]
    Check {
        /// Print one JSON object instead of text.
        #[arg(long)]
        json: bool,
    },
    /// Print the effective configuration, with defaults.
    #[command(after_long_help = examples!["blocklist-milter print-config | less"])]
    PrintConfig,
    /// Make the running daemon load configuration, filters and whitelists again, and wait for the result.
    ///
    /// Sends SIGHUP and reads the result from `status_file`. Exit code 0: all is in effect; 2: a file is faulty and its
    /// last good version stays in effect, or the daemon does not answer.
    #[command(after_long_help = examples![
        "systemctl reload blocklist-milter    # runs blocklist-milter reload --pid $MAINPID",
    ])]
    Reload(Reload),
    /// Show the state of the running daemon: lists, verdicts, problems.
    ///
    /// Reads its status socket. The first line says what happens to mail. Can be used as a monitoring check: exit code 0
    /// if all is well, 1 for a warning (mail is checked, but for example the last good version of a faulty file is in
    /// use, a list is too old, or the circuit breaker is on), 2 if mail is not checked as configured, or the daemon does
    /// not answer.
    Status(Status),
    /// Show the last decisions of the running daemon: whom it refused, tagged or accepted in spite of a list.
    ///
    /// Reads its status socket: the last 1,000 decisions other than plain acceptance, also those before a restart,
    /// the newest last. Addresses are there for root and the daemon's user, and for others if show_addresses in section status is on.
    #[command(after_long_help = examples![
        "blocklist-milter log -f",
        "blocklist-milter log --list partner bad.example",
        "blocklist-milter log --json | jq -r '.decisions[0].undo[].command'",
    ])]
    Log(Log),
    /// Show what would happen to a message, and why.
    ///
    /// Runs the daemon's own code on a stored message. The exit code is 0 for every verdict.
    #[command(after_long_help = examples![
        "blocklist-milter explain spammer@bad.example",
        "blocklist-milter explain --mail-from a@b.example message.eml",
        "postcat -hq 4XyZ1 | blocklist-milter explain --json -",
    ])]
    Explain(Explain),
    /// Show what would have happened to a whole mailbox.
    ///
    /// Use it to test a new list with last week's mail. Shows every message that would not simply be accepted, with its
    /// listed sender, list and source. Uses all processors. Does not apply the circuit breaker (max_reject_share),
    /// because stored mail has no arrival rate.
    #[command(after_long_help = examples![
        "blocklist-milter replay ~/Maildir",
        "blocklist-milter replay --against new.toml last-week.mbox.gz",
    ])]
    Replay(Replay),
    /// Report what the daemon did, from its log, as text or JSON.
    ///
    /// Summarizes what was refused (by list and source, first time, most often), tagged or exempt; which lists
    /// and sources have had no hit for 30 days; errors and warnings. Reads the journal of this machine, or both log formats
    /// from files, syslog or journalctl (-o cat, short or json). A log without a line of the daemon is an error.
    #[command(after_long_help = examples![
        "blocklist-milter report --since 7d",
        "blocklist-milter report /var/log/mail.log /var/log/mail.log.1.gz",
        "journalctl -u blocklist-milter --since yesterday -o json | blocklist-milter report --json -",
    ])]
    Report(Report),
    /// Find the decision with a case id in the daemon's log, and explain it.
    ///
    /// Also says how to accept the sender. Exit code 1: the case is in none of the logs; in this case it prints
    /// the time of the decision, which is part of the id. A log without a line of the daemon is an error.
    #[command(after_long_help = examples![
        "blocklist-milter case 0tpxdv000",
        "blocklist-milter case '(case 0tpxdv000)' /var/log/mail.log",
    ])]
    Case(Case),
    /// Maintain a file of addresses that your users write to, so that no list refuses them.
    ///
    /// Reads logs of Postfix and Sendmail (from files, syslog or journalctl) or mailboxes of sent mail. In logs,
    /// only mail counts that an authenticated client sent and another server accepted. Bounces, automatic
    /// replies, mail that lists or aliases forward, and messages to more than 100 recipients do not
    /// count. Stores only addresses, never domains, each with the date of the last message to it.
    Correspondents(Correspondents),
    /// Add the senders of messages that users report as junk to a blocklist of your own.
    ///
    /// Adds the address in From, never a domain, with the reporter, the Message-ID and a day of expiry.
    /// Does not add whitelisted senders, correspondents, your own domains or role mailboxes (postmaster, abuse).
    /// Anybody can forge an address, so DKIM or DMARC must confirm it in an Authentication-Results of your own
    /// server (setting authserv_ids, which is required), and DMARC must not have failed. A message can be reported
    /// several times; a report on a later day renews the expiry. The entries take effect with the next build of
    /// the list, and only tag, unless the configuration has trust_reports for the list: whoever can write into a
    /// junk folder can forge all of a message. What was undone stays so until somebody adds it by name.
    Junk(Junk),
    /// Check how this machine is set up: units, sockets, Postfix or Sendmail, filters; then ask the mail server
    /// over SMTP whether it asks the milter.
    ///
    /// Shows each finding and, for each fault, the command or setting that fixes it. Connects to every milter that the
    /// mail server names, and to the mail server itself, which gets a sender that is used once, the recipient
    /// postmaster, and no message: nothing is delivered or counted. Changes nothing. Only for root. Exit code 1:
    /// something is wrong; 2: nothing was checked.
    SetupCheck(SetupCheck),
    /// Show how the milter works, without an installation.
    ///
    /// Compiles ./blocklists, serves on a private socket, and sends messages as a mail server would. Exit
    /// code 1: a verdict was not the expected one.
    Demo,
}

#[derive(Debug, Args)]
pub(super) struct Explain {
    /// Envelope sender, the argument of MAIL FROM.
    #[arg(long, value_name = "ADDRESS", allow_hyphen_values = true)]
    pub mail_from: Option<OsString>,
    /// Envelope sender as rewritten by the mail server (milter macro {mail_addr}).
    #[arg(long, value_name = "ADDRESS", requires = "mail_from")]
    #[arg(allow_hyphen_values = true)]
    pub mail_addr: Option<OsString>,
    /// Envelope recipient; may be repeated [default: a recipient who is not exempt].
    #[arg(long, value_name = "ADDRESS", allow_hyphen_values = true)]
    pub rcpt: Vec<OsString>,
    /// Recipient as rewritten by the mail server (milter macro {rcpt_addr}); in the order of --rcpt.
    #[arg(long, value_name = "ADDRESS", requires = "rcpt")]
    #[arg(allow_hyphen_values = true)]
    pub rcpt_addr: Vec<OsString>,
    /// Address of the SMTP client.
    #[arg(long, value_name = "IP")]
    pub client: Option<IpAddr>,
    /// The client is authenticated (SMTP AUTH).
    #[arg(long)]
    pub authenticated: bool,
    /// Read the header as Sendmail delivers it: `mal lory@bad.example` is mal.lory@bad.example there.
    #[arg(long)]
    pub sendmail: bool,
    /// Explain this sender instead of a message.
    #[arg(long, value_name = "ADDRESS", conflicts_with_all = ["mail_from", "message"], allow_hyphen_values = true)]
    pub address: Option<String>,
    /// Print one JSON object instead of text.
    #[arg(long)]
    pub json: bool,
    /// A message file, perhaps compressed with gzip or zstd; - for standard input; or the address of a sender, as with --address.
    #[arg(value_name = "MESSAGE|ADDRESS")]
    pub message: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(super) struct SetupCheck {
    /// Print one JSON object instead of text.
    #[arg(long)]
    pub json: bool,
    /// Folder of Postfix's main.cf [default: that of postconf, usually /etc/postfix].
    #[arg(long, value_name = "DIR")]
    pub postfix: Option<PathBuf>,
    /// Sendmail's configuration [default: /etc/mail/sendmail.cf, if there is one].
    #[arg(long, value_name = "FILE")]
    pub sendmail: Option<PathBuf>,
    /// Exim's configuration [default: the one that Exim would read].
    #[arg(long, value_name = "FILE")]
    pub exim: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(super) struct Replay {
    /// Show what another configuration would change.
    #[arg(long, value_name = "FILE")]
    pub against: Option<PathBuf>,
    /// Show what this file of correspondents would change: which mail would not have been refused; may be
    /// repeated.
    #[arg(long, value_name = "FILE", conflicts_with = "against")]
    pub correspondents: Vec<PathBuf>,
    /// Print one JSON object instead of text.
    #[arg(long)]
    pub json: bool,
    /// A maildir, another folder of messages, or an mbox file; it may be compressed with gzip or zstd.
    /// Envelope senders are taken from Return-Path.
    #[arg(value_name = "MAILBOX")]
    pub mailbox: PathBuf,
}
