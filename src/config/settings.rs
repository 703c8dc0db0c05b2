//! The content of a checked configuration, by section.

use std::path::PathBuf;
use std::sync::Arc;

use super::Percent;
use crate::endpoint::Endpoint;
use crate::filter::Load;
use crate::policy::{Action, Entries, MixedRecipients, Network, Terms, Weak};
use crate::sender::Identity;

/// The senders that a list looks up by default.
pub(super) const DEFAULT_CHECK: [Identity; 4] = [
    Identity::MailFrom,
    Identity::From,
    Identity::Sender,
    Identity::ReplyTo,
];

/// What happens to a message if a filter cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnError {
    /// The client gets a temporary failure.
    Tempfail,
    /// The message is accepted, and the log says so.
    Accept,
}

impl OnError {
    pub(super) const NAMES: [(&'static str, Self); 2] =
        [("tempfail", Self::Tempfail), ("accept", Self::Accept)];

    /// Returns its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Tempfail => "tempfail",
            Self::Accept => "accept",
        }
    }
}

/// A checked configuration. Two are equal if they have the same meaning; positions in the file do
/// not matter.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// Where to listen.
    pub listen: Vec<Endpoint>,
    /// Permission bits of socket files.
    pub socket_mode: u32,
    /// Group of socket files; empty for the group of the process.
    pub socket_group: String,
    /// Number of threads; 0 for one for each processor.
    pub workers: usize,
    /// The contact in refusals, for senders who think that a refusal is wrong; if empty, refusals
    /// name the postmaster in words.
    pub contact: String,
    /// The file in which the running daemon writes its state, for `--check`.
    pub status_file: PathBuf,
    /// The folder for copies of the filters in effect.
    pub state: PathBuf,
    /// Whether the daemon gives up permissions that it does not need.
    pub sandbox: bool,
    /// What happens when a filter cannot be read.
    pub on_error: OnError,
    /// What happens to recipients that are affected by other lists than the recipients before them.
    pub mixed_recipients: MixedRecipients,
    /// The lists, including disabled ones.
    pub lists: Vec<ListSettings>,
    /// Who is never refused.
    pub whitelist: WhitelistSettings,
    /// Mail that is accepted without look-ups.
    pub exempt: ExemptSettings,
    /// Safeguards that keep a wrong list from stopping mail.
    pub safety: SafetySettings,
    /// The limits.
    pub limits: LimitSettings,
    /// The status pages.
    pub status: StatusSettings,
    /// The log.
    pub log: LogSettings,
}

/// `[[list]]`
#[derive(Clone, Debug)]
pub struct ListSettings {
    /// Its policy; shared with the snapshot.
    pub terms: Arc<Terms>,
    /// The compiled filter file.
    pub filter: PathBuf,
    /// Line and column of that setting, for errors about the file.
    pub place: (usize, usize),
    /// Whether its pages are kept in memory or on disk.
    pub load: Load,
    /// Seconds since the filter was built after which there is a warning.
    pub max_age_s: Option<u64>,
    /// Seconds since the content last changed after which there is a warning, independent of when
    /// the filter was built.
    pub max_unchanged_s: Option<u64>,
    /// Addresses that the filter must list.
    pub must_hit: Vec<String>,
    /// Whether the list is used.
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
    /// As a set.
    pub entries: Entries,
    /// As written, for `print-config`.
    pub(super) written: Vec<String>,
}

impl ListSettings {
    /// Returns a substitute for lists about which nothing is known. It checks the default senders.
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
    /// The servers whose `Authentication-Results` are trusted.
    pub authserv_ids: Vec<String>,
    /// Files of addresses to which local users write.
    pub correspondents: Vec<PathBuf>,
    /// Whether such an address in a header needs an aligned DKIM signature.
    pub correspondents_require_dkim: bool,
}

/// `[exempt]`
#[derive(Clone, Debug, PartialEq)]
pub struct ExemptSettings {
    /// Authenticated clients.
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
    /// The share of the messages of five minutes that may be refused before refusals become tags;
    /// 100% means no limit.
    pub max_reject_share: Percent,
    /// By how much a list may shrink in a reload.
    pub max_shrink: Percent,
    /// By how much a list may grow in a reload.
    pub max_growth: Percent,
    /// Addresses that no filter may hit.
    pub must_miss: Vec<String>,
    /// The largest filter of which a separate copy is kept, in MiB; 0 means no copies.
    pub last_good_mib: u64,
}

/// `[limits]`
#[derive(Clone, Debug, PartialEq)]
pub struct LimitSettings {
    /// Most simultaneous connections.
    pub connections: usize,
    /// Seconds that open connections have to finish after SIGTERM.
    pub drain_s: u64,
    /// Milliseconds that a step of a message waits for reads of filter files.
    pub read_ms: u64,
}

/// `[status]`
#[derive(Clone, Debug, PartialEq)]
pub struct StatusSettings {
    /// Where to serve the pages: a unix socket or a loopback address; `None` to serve none.
    pub listen: Option<Endpoint>,
    /// Group of the unix socket; empty for the group of the process.
    pub group: String,
    /// Whether the pages show addresses of refused senders.
    pub show_addresses: bool,
}

/// `[log]`
#[derive(Clone, Debug, PartialEq)]
pub struct LogSettings {
    /// The least severe level that is logged.
    pub level: Level,
    /// Text or JSON.
    pub format: LogFormat,
    /// Whether messages without objections are logged.
    pub accepted: bool,
}

/// Levels of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    /// Service is lost.
    Error,
    /// Degraded service, or a wrong setup.
    Warn,
    /// Start, stop, reload, and one line for each message.
    Info,
    /// Reasons for decisions.
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

    /// Returns its name.
    pub fn name(self) -> &'static str {
        Self::NAMES
            .iter()
            .find(|row| row.1 == self)
            .map_or("info", |row| row.0)
    }
}

/// The format of log lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogFormat {
    /// `key=value`
    Text,
    /// One JSON object per line.
    Json,
}
