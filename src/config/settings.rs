//! The content of a checked configuration, by section.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tracing::level_filters::LevelFilter;

use crate::base::named::named;
use crate::base::settings::Percent;
use crate::daemon::logging::LogFormat;
use crate::endpoint::{Endpoint, Listen};
use crate::filter::Load;
use crate::policy::{Action, Entries, MixedRecipients, Network, Terms, Weak};
use crate::sender::Identity;

/// How long messages in progress may take to finish after SIGTERM. Mail servers must wait longer for an answer.
pub const DRAIN: Duration = Duration::from_secs(5);

/// How long a step of a message waits for reads of filter files; after that, `on_error` applies.
pub const READ_PATIENCE: Duration = Duration::from_secs(2);

named! {
    /// What happens to a message if a filter cannot be read.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum OnError {
        /// The client gets a temporary failure.
        Tempfail = "tempfail",
        /// The message is accepted, and the log says so.
        Accept = "accept",
    }
}

/// A checked configuration. Two are equal if they have the same meaning.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// Where to listen.
    pub listen: Vec<Listen>,
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
    /// Most simultaneous connections (`[limits]`).
    pub connections_max: usize,
    /// The status pages.
    pub status: StatusSettings,
    /// The log.
    pub log: LogSettings,
}

impl Default for Config {
    fn default() -> Self {
        let exempt = ["postmaster@", "abuse@"].map(str::to_owned);
        Self {
            listen: vec![Endpoint::Unix("/run/blocklist-milter/milter.sock".into()).into()],
            contact: String::new(),
            status_file: "/run/blocklist-milter-daemon/status".into(),
            state: "/var/lib/blocklist-milter-daemon".into(),
            sandbox: true,
            on_error: OnError::Tempfail,
            mixed_recipients: MixedRecipients::Defer,
            lists: Vec::new(),
            whitelist: WhitelistSettings::default(),
            exempt: ExemptSettings {
                authenticated: true,
                local: true,
                networks: Vec::new(),
                recipients: Entries::of_setting(exempt.into()),
            },
            safety: SafetySettings {
                max_reject_share: Percent::ALL,
                max_shrink: Percent(50),
                must_miss: Vec::new(),
            },
            connections_max: 10_000,
            status: StatusSettings {
                listen: Some(Endpoint::Unix("/run/blocklist-milter/status.sock".into())),
                show_addresses: false,
            },
            log: LogSettings {
                level: LevelFilter::INFO,
                format: LogFormat::Text,
                accepted: true,
            },
        }
    }
}

/// After what time with the same entries a list is out of date.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MaxUnchanged {
    /// 30 days for a feed, and for a filter that another host has compiled; no limit for a list of one's own.
    Auto,
    /// Seconds; `None`: no limit.
    After(Option<u64>),
}

impl MaxUnchanged {
    const AUTO_S: u64 = 30 * 86_400;

    /// Returns the limit in seconds.
    pub fn limit_s(self, is_feed: bool) -> Option<u64> {
        match self {
            Self::Auto => is_feed.then_some(Self::AUTO_S),
            Self::After(limit) => limit,
        }
    }
}

/// `[[list]]`
#[derive(Clone, Debug, PartialEq)]
pub struct ListSettings {
    /// Its policy; shared with the snapshot.
    pub terms: Arc<Terms>,
    /// The compiled filter file.
    pub filter: PathBuf,
    /// Where it is named, for errors about the file.
    pub place: Position,
    /// Whether its pages are kept in memory or on disk.
    pub load: Load,
    /// Seconds since the filter was built after which there is a warning.
    pub max_age_s: Option<u64>,
    /// After what time with the same entries there is a warning, whenever the filter was built.
    pub max_unchanged: MaxUnchanged,
    /// Addresses that the filter must list.
    pub must_hit: Vec<String>,
    /// Whether the list is used.
    pub enabled: bool,
}

/// Line and column of a setting. Two configurations do not differ because of it.
#[derive(Clone, Copy, Debug)]
pub struct Position(pub usize, pub usize);

impl PartialEq for Position {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl ListSettings {
    /// Returns a list about which nothing is known: every setting has its default.
    pub(crate) fn unknown(name: &str) -> Self {
        let terms = Terms {
            name: name.to_owned(),
            check: vec![
                Identity::MailFrom,
                Identity::From,
                Identity::Sender,
                Identity::ReplyTo,
            ],
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
            place: Position(1, 1),
            load: Load::Memory,
            max_age_s: None,
            max_unchanged: MaxUnchanged::Auto,
            must_hit: Vec::new(),
            enabled: true,
        }
    }
}

/// `[whitelist]`
#[derive(Clone, Debug, Default, PartialEq)]
pub struct WhitelistSettings {
    /// Text files of entries.
    pub files: Vec<PathBuf>,
    /// Entries in the configuration itself.
    pub entries: Entries,
    /// Whether a whitelisted address in a header needs an aligned DKIM signature.
    pub require_dkim: bool,
    /// The servers whose `Authentication-Results` are trusted.
    pub authserv_ids: Vec<String>,
    /// Files of addresses to which local users write.
    pub correspondents: Vec<PathBuf>,
}

impl WhitelistSettings {
    /// Returns whether a correspondent in a header needs an aligned DKIM signature: wherever one can be seen.
    pub fn correspondents_need_dkim(&self) -> bool {
        !self.authserv_ids.is_empty()
    }
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
    pub recipients: Entries,
}

/// `[safety]`
#[derive(Clone, Debug, PartialEq)]
pub struct SafetySettings {
    /// The share of the messages of five minutes that may be refused before refusals become tags;
    /// 100% means no limit.
    pub max_reject_share: Percent,
    /// By how much a list may shrink in a reload.
    pub max_shrink: Percent,
    /// Addresses that no filter may hit.
    pub must_miss: Vec<String>,
}

/// `[status]`
#[derive(Clone, Debug, PartialEq)]
pub struct StatusSettings {
    /// Where to serve the pages: a unix socket or a loopback address; `None` to serve none.
    pub listen: Option<Endpoint>,
    /// Whether the pages show addresses of refused senders.
    pub show_addresses: bool,
}

/// `[log]`
#[derive(Clone, Debug, PartialEq)]
pub struct LogSettings {
    /// The least severe level that is logged.
    pub level: LevelFilter,
    /// Text or JSON.
    pub format: LogFormat,
    /// Whether messages without objections are logged.
    pub accepted: bool,
}
