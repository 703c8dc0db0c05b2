//! What a checked configuration holds, section by section.

use std::path::PathBuf;
use std::sync::Arc;

use super::Percent;
use crate::endpoint::Endpoint;
use crate::filter::Load;
use crate::policy::{Action, Entries, MixedRecipients, Network, Terms, Weak};
use crate::sender::Identity;

/// The senders that a list looks up when nothing is said.
pub(super) const DEFAULT_CHECK: [Identity; 4] = [
    Identity::MailFrom,
    Identity::From,
    Identity::Sender,
    Identity::ReplyTo,
];

/// What the look-up of a filter that cannot be read does to the message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnError {
    /// The client gets a temporary failure.
    Tempfail,
    /// The message passes, and the log says so.
    Accept,
}

impl OnError {
    pub(super) const NAMES: [(&'static str, Self); 2] =
        [("tempfail", Self::Tempfail), ("accept", Self::Accept)];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Tempfail => "tempfail",
            Self::Accept => "accept",
        }
    }
}

/// A checked configuration. Two are equal if they say the same, wherever in the file.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// Where to listen.
    pub listen: Vec<Endpoint>,
    /// Permission bits of socket files.
    pub socket_mode: u32,
    /// Group of socket files; empty: that of the process.
    pub socket_group: String,
    /// Threads; 0: one for each processor.
    pub workers: usize,
    /// Address that refusals name, for senders who think them wrong; empty: postmaster in words.
    pub contact: String,
    /// Where the running daemon writes how it is, for `--check`.
    pub status_file: PathBuf,
    /// The folder of copies of the filters in effect.
    pub state: PathBuf,
    /// Whether the daemon gives up the permissions that it does not need.
    pub sandbox: bool,
    /// What happens when a filter cannot be read.
    pub on_error: OnError,
    /// What is done with recipients that other lists affect than those before them.
    pub mixed_recipients: MixedRecipients,
    /// The lists, also those that are not enabled.
    pub lists: Vec<ListSettings>,
    /// Who is never refused.
    pub whitelist: WhitelistSettings,
    /// Who is let through.
    pub exempt: ExemptSettings,
    /// What keeps a wrong list from stopping mail.
    pub safety: SafetySettings,
    /// Bounds.
    pub limits: LimitSettings,
    /// The status pages.
    pub status: StatusSettings,
    /// The log.
    pub log: LogSettings,
}

/// `[[list]]`
#[derive(Clone, Debug)]
pub struct ListSettings {
    /// What it does; shared with the snapshot.
    pub terms: Arc<Terms>,
    /// The compiled file.
    pub filter: PathBuf,
    /// Line and column of that setting, for what is wrong with the file.
    pub place: (usize, usize),
    /// Where its pages are kept.
    pub load: Load,
    /// Seconds since the filter was built after which a warning says so.
    pub max_age_s: Option<u64>,
    /// Seconds without another content after which a warning says so, whenever the filter was built.
    pub max_unchanged_s: Option<u64>,
    /// Addresses that the filter must list.
    pub must_hit: Vec<String>,
    /// Whether it is used at all.
    pub enabled: bool,
    /// The recipients in `terms`, as written.
    pub(super) recipients: Vec<String>,
    /// The exceptions in `terms`, as written.
    pub(super) except_recipients: Vec<String>,
}

impl PartialEq for ListSettings {
    fn eq(&self, other: &Self) -> bool {
        let Self {
            terms,
            filter,
            place: _,
            load,
            max_age_s,
            max_unchanged_s,
            must_hit,
            enabled,
            recipients,
            except_recipients,
        } = self;
        *terms == other.terms
            && *filter == other.filter
            && *load == other.load
            && *max_age_s == other.max_age_s
            && *max_unchanged_s == other.max_unchanged_s
            && *must_hit == other.must_hit
            && *enabled == other.enabled
            && *recipients == other.recipients
            && *except_recipients == other.except_recipients
    }
}

/// Entries in a setting.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct WrittenEntries {
    /// Parsed.
    pub entries: Entries,
    /// As written, for `print-config`.
    pub(super) written: Vec<String>,
}

impl ListSettings {
    /// Stands for lists of which nothing is known: it checks what lists check by default.
    pub(crate) fn unknown(name: &str) -> Self {
        let terms = Terms {
            name: name.to_owned(),
            check: DEFAULT_CHECK.to_vec(),
            action: Action::Reject,
            mailing_list: None,
            weak: Weak::Full,
            reply: None,
            recipients: Entries::default(),
            except_recipients: Entries::default(),
            dry_run: false,
        };
        Self {
            terms: Arc::new(terms),
            filter: PathBuf::new(),
            place: (1, 1),
            load: Load::Memory,
            max_age_s: None,
            max_unchanged_s: None,
            must_hit: Vec::new(),
            enabled: true,
            recipients: Vec::new(),
            except_recipients: Vec::new(),
        }
    }
}

/// `[whitelist]`
#[derive(Clone, Debug, Default, PartialEq)]
pub struct WhitelistSettings {
    /// Text files of entries.
    pub files: Vec<PathBuf>,
    /// Entries in the configuration itself.
    pub entries: WrittenEntries,
    /// Whether a whitelisted address in a header needs an aligned DKIM signature.
    pub require_dkim: bool,
    /// Whose `Authentication-Results` are believed.
    pub authserv_ids: Vec<String>,
    /// Files of addresses that our users write to.
    pub correspondents: Vec<PathBuf>,
    /// Whether such an address in a header needs an aligned DKIM signature.
    pub correspondents_require_dkim: bool,
}

/// `[exempt]`
#[derive(Clone, Debug, PartialEq)]
pub struct ExemptSettings {
    /// Clients that have logged in.
    pub authenticated: bool,
    /// Mail submitted on this machine.
    pub local: bool,
    /// Networks of clients.
    pub networks: Vec<Network>,
    /// Recipients.
    pub recipients: WrittenEntries,
}

/// `[safety]`
#[derive(Clone, Debug, PartialEq)]
pub struct SafetySettings {
    /// How much of five minutes' mail may be refused before refusals become tags; 100%: all.
    pub max_reject_share: Percent,
    /// By how much a list may shrink in a reload.
    pub max_shrink: Percent,
    /// By how much a list may grow in a reload.
    pub max_growth: Percent,
    /// Addresses that no filter may hit.
    pub must_miss: Vec<String>,
    /// The largest filter of which a copy is kept that takes space of its own, in MiB; 0: no copies.
    pub last_good_mib: u64,
}

/// `[limits]`
#[derive(Clone, Debug, PartialEq)]
pub struct LimitSettings {
    /// Connections at a time.
    pub connections: usize,
    /// Seconds that open connections have to finish after SIGTERM.
    pub drain_s: u64,
    /// Milliseconds that a step of a message waits for what is read from filter files.
    pub read_ms: u64,
}

/// `[status]`
#[derive(Clone, Debug, PartialEq)]
pub struct StatusSettings {
    /// Where to serve the pages: a unix socket or a loopback address; `None`: nowhere.
    pub listen: Option<Endpoint>,
    /// Group of the unix socket; empty: that of the process.
    pub group: String,
    /// Whether the pages show addresses of refused senders.
    pub show_addresses: bool,
}

/// `[log]`
#[derive(Clone, Debug, PartialEq)]
pub struct LogSettings {
    /// Least severe level shown.
    pub level: Level,
    /// Text or JSON.
    pub format: LogFormat,
    /// Whether messages that nobody objects to have a line.
    pub accepted: bool,
}

/// Levels of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    /// Service is lost.
    Error,
    /// Degraded, or set up wrongly.
    Warn,
    /// Start, stop, reload, one line a message.
    Info,
    /// Reasons.
    Debug,
    /// The protocol.
    Trace,
}

impl Level {
    pub(super) const NAMES: [(&'static str, Self); 5] = [
        ("error", Self::Error),
        ("warn", Self::Warn),
        ("info", Self::Info),
        ("debug", Self::Debug),
        ("trace", Self::Trace),
    ];

    /// Its name.
    pub fn name(self) -> &'static str {
        Self::NAMES
            .iter()
            .find(|row| row.1 == self)
            .map_or("info", |row| row.0)
    }
}

/// How log lines are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogFormat {
    /// `key=value`
    Text,
    /// An object a line.
    Json,
}
