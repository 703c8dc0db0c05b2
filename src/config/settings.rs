//! The content of a checked configuration, by section, and how its values are read.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tracing::level_filters::LevelFilter;

use crate::daemon::logging::LogFormat;
use crate::endpoint::{Door, Endpoint, Listen};
use crate::policy::{Action, Entries, MixedRecipients, Network, Template, Terms, Weak};
use crate::sender::Identity;
use blocklist_compile::settings::{Invalid, Percent};
use blocklist_filter::address::{Canonical, Kind, escaped};
use blocklist_filter::base::named::named;
use blocklist_filter::base::numbers::with_unit;
use blocklist_filter::filter::{Filter, Load, Source};

/// How long messages in progress may take to finish after SIGTERM. Mail servers must wait longer for an answer.
pub(crate) const DRAIN: Duration = Duration::from_secs(5);

/// How long a step of a message waits for reads of filter files; after that, `on_error` applies.
pub const READ_PATIENCE: Duration = Duration::from_secs(2);

/// Longest name of a list.
const NAME_MAX_BYTES: usize = 64;

/// Units of an age, the largest first, with their seconds.
const UNITS: [(char, u64); 4] = [('w', 604_800), ('d', 86_400), ('h', 3_600), ('m', 60)];
/// Ten years: a longer age is a mistake.
const AGE_MAX_S: u64 = 3_660 * 86_400;

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
        let at = Endpoint::Unix("/run/blocklist-milter/milter.sock".into());
        Self {
            listen: vec![Listen {
                door: Door::Milter,
                at,
            }],
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
    /// Its policy, as it is set.
    pub terms: Arc<Terms>,
    /// Whether a filter with users' reports may do more than tag.
    pub trust_reports: bool,
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
            exempts_correspondents: true,
            dry_run: false,
        };
        Self {
            terms: Arc::new(terms),
            trust_reports: false,
            filter: PathBuf::new(),
            place: Position(1, 1),
            load: Load::Memory,
            max_age_s: None,
            max_unchanged: MaxUnchanged::Auto,
            must_hit: Vec::new(),
            enabled: true,
        }
    }

    /// Returns its policy with this filter: one user could list anybody for everybody by a report.
    pub(crate) fn terms_with(&self, filter: Option<&Filter>) -> Arc<Terms> {
        let has_reports = |filter: &Filter| filter.spec().sources.iter().any(Source::has_reports);
        if self.trust_reports
            || self.terms.action <= Action::Tag
            || !filter.is_some_and(has_reports)
        {
            return Arc::clone(&self.terms);
        }
        Arc::new(Terms {
            action: Action::Tag,
            mailing_list: self
                .terms
                .mailing_list
                .map(|milder| milder.min(Action::Tag)),
            ..Terms::clone(&self.terms)
        })
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
    pub format: LogFormat,
    /// Whether messages without objections are logged.
    pub accepted: bool,
}

/// Reads an age such as `36h` as seconds; `none` means no limit.
pub(super) fn age(written: &str) -> Result<Option<u64>, Invalid> {
    if written == "none" {
        return Ok(None);
    }
    match with_unit(written, &UNITS) {
        Some(seconds) if (60..=AGE_MAX_S).contains(&seconds) => Ok(Some(seconds)),
        Some(_) | None => Err(format!(
            "\"{}\" is not an age: write a whole number of minutes, hours, days or weeks, such as \"90m\", \"36h\", \"7d\" or \"2w\", or \"none\"",
            written.escape_debug()
        )
        .into()),
    }
}

/// Formats an age as in the settings, such as `36h`.
pub(crate) fn age_text(seconds: u64) -> String {
    let unit = UNITS.iter().find(|(_, unit)| seconds.is_multiple_of(*unit));
    let (name, unit) = unit.unwrap_or(&('m', 60));
    format!("{}{name}", seconds / unit)
}

pub(super) fn list_name(written: &str) -> Result<String, Invalid> {
    let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    if written.is_empty() || written.len() > NAME_MAX_BYTES || !written.chars().all(fits) {
        let what = "letters, digits, dots, underscores or hyphens";
        return Err(format!("a name has 1 to {NAME_MAX_BYTES} {what}").into());
    }
    Ok(written.to_owned())
}

pub(super) fn path(written: &str, folder: &Path) -> Result<PathBuf, Invalid> {
    if written.is_empty() {
        return Err("empty path".into());
    }
    if written.contains('\0') {
        return Err("a path cannot contain a NUL character (\\u0000)".into());
    }
    Ok(folder.join(written))
}

/// Reads a mailbox that a reply can name: an address in ASCII, without angle brackets.
pub(super) fn contact(written: &str) -> Result<String, Invalid> {
    let plain = |byte: u8| byte.is_ascii_graphic() && !b"<>(),;:\"\\".contains(&byte);
    let kind = Entries::default().add(written.as_bytes());
    if written.is_empty() || (written.bytes().all(plain) && kind == Ok(Kind::Mailbox)) {
        Ok(written.to_owned())
    } else {
        Err("must be a mail address in ASCII, such as \"postmaster@our.example\"".into())
    }
}

pub(super) fn reply(written: &str, action: Action) -> Result<Template, Invalid> {
    let template = Template::parse(written)?;
    // If the action has no reply, the template is not used. That is only a warning (in the
    // snapshot), because changing the action is often the first edit of a configuration.
    let Some((class, _)) = action.reply() else {
        return Ok(template);
    };
    let code = template.code();
    if code / 100 != class {
        let needs = format!("needs a reply with code {class}xx, found {code}");
        return Err(format!("action \"{action}\" {needs}").into());
    }
    Ok(template)
}

/// Reads an address, and keeps it as written.
pub(super) fn address(written: &str) -> Result<String, Invalid> {
    match Canonical::parse(written.as_bytes(), Entries::rules()) {
        Ok(_) => Ok(written.to_owned()),
        Err(error) => Err(format!("{written:?}: {error}").into()),
    }
}

/// Reads an entry of any kind, and keeps it as written.
pub(super) fn entry(written: &str) -> Result<String, Invalid> {
    match Entries::default().add(written.as_bytes()) {
        Ok(_) => Ok(written.to_owned()),
        Err(error) => Err(format!("\"{}\": {error}", escaped(written.as_bytes())).into()),
    }
}
