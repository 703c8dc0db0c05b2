//! What would happen to a stored message, and why: the daemon's own [`Screen`], watched.
//!
//! A message is played twice. Once without recipients and from nowhere, so that every sender is
//! looked up: that gives the evidence. Once as it came: that gives the verdict. A message that is refused at
//! RCPT never shows its headers to the daemon, but the person who asks wants to know about them too.

mod message;
mod replay;
mod text;

use std::fs::File;
use std::io::{self, BufReader};
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

pub use message::{Field, Headers, each_message};
pub use replay::{Replay, replay};
use serde::Serialize;
pub use text::{Paint, Report};

use crate::address::{Canonical, escaped};
use crate::config::{self, Config};
use crate::list::Day;
use crate::milter::{Client, Edit, Family, Handler, Macros, Reply};
use crate::policy::{Action, Entries, Outcome, Policy, Reason, Seen};
use crate::screen::{Decision, Observer, Screen};
use crate::sender::{Identity, Sender};
use crate::snapshot::{self, Live, Snapshot};

/// Why nothing can be explained.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Configuration, filters, whitelists.
    #[error(transparent)]
    Snapshot(#[from] snapshot::Error),
    /// The message or mailbox.
    #[error("{}: {source}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
}

impl From<config::Error> for Error {
    fn from(error: config::Error) -> Self {
        Self::Snapshot(error.into())
    }
}

/// A message as it came.
#[derive(Clone, Debug, Default)]
pub struct Mail {
    /// Argument of MAIL FROM; `None`: nobody knows, as if it were the null sender.
    pub mail_from: Option<Vec<u8>>,
    /// Arguments of RCPT TO; none: somebody whom every list affects.
    pub recipients: Vec<Vec<u8>>,
    /// The SMTP client.
    pub client: Option<IpAddr>,
    /// Whether the client has logged in: the mail server tells so by the macro `{auth_authen}`.
    pub authenticated: bool,
    /// The header block.
    pub headers: Headers,
}

impl Mail {
    /// Reads the header block of a file, or of standard input for `-`.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn open(path: &Path) -> Result<Self, Error> {
        let unreadable = |source| Error::Unreadable {
            path: path.to_owned(),
            source,
        };
        let headers = if path == Path::new("-") {
            Headers::read(io::stdin().lock())
        } else {
            File::open(path).and_then(|file| Headers::read(BufReader::new(file)))
        };
        Ok(Self {
            headers: headers.map_err(unreadable)?,
            ..Self::default()
        })
    }

    /// A message whose envelope and From name this address.
    pub fn from_address(address: &str) -> Self {
        let from = Field {
            name: b"From".to_vec(),
            value: address.as_bytes().to_vec(),
        };
        Self {
            mail_from: Some(address.as_bytes().to_vec()),
            headers: Headers {
                fields: vec![from],
                mbox_sender: None,
            },
            ..Self::default()
        }
    }
}

/// A verdict and everything that led to it. As JSON its fields are fixed; more may come.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Explanation {
    /// `accept`, `reject`, `tempfail`, `quarantine`, `tag` or `discard`.
    pub verdict: String,
    /// What the SMTP client is told, if it is refused.
    pub reply: Option<String>,
    /// Why: `listed`, `unlisted`, `whitelisted`, `exempt-recipient`, `mailing-list` ...
    pub reason: String,
    /// The list that decided.
    pub list: Option<String>,
    /// What the list would have done, had nothing softened it.
    pub unsoftened: Option<String>,
    /// Recipient by recipient, if any were given.
    pub recipients: Vec<Recipient>,
    /// Every sender found, in the order of the message.
    pub identities: Vec<Named>,
    /// Addresses were left out because there are too many.
    pub truncated: bool,
    /// What would be written into the message.
    pub changes: Vec<String>,
}

/// What one recipient's RCPT would be answered.
#[derive(Clone, Debug, Serialize)]
pub struct Recipient {
    /// As given.
    pub recipient: String,
    /// As for the message.
    pub verdict: String,
    /// As for the message.
    pub reply: Option<String>,
    /// Whether no list affects it.
    pub exempt: bool,
}

/// One sender of the message.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Named {
    /// Where it stood: `mail-from`, `from` ...
    pub identity: String,
    /// As written.
    pub address: String,
    /// The form in which it is compared; `null` if it is no address.
    pub canonical: Option<String>,
    /// Why it is no address.
    pub fault: Option<String>,
    /// The first list that names it.
    pub list: Option<String>,
    /// The entry of that list.
    pub entry: Option<String>,
    /// Whether the whitelist names it.
    pub whitelisted: bool,
    /// The entry of the whitelist.
    pub whitelist_entry: Option<String>,
    /// The whitelist names it, but DKIM does not vouch for it.
    pub unaligned: bool,
    /// Whether it stood where no address belongs.
    pub weak: bool,
    /// Every look-up.
    pub lookups: Vec<Lookup>,
}

/// One entry looked up in one list.
#[derive(Clone, Debug, Serialize)]
pub struct Lookup {
    /// Name of the list.
    pub list: String,
    /// `mailbox`, `domain`, `subtree` or `local-part`.
    pub kind: String,
    /// Canonical text of the entry.
    pub entry: String,
    /// Whether its Bloom page says "perhaps".
    pub page: bool,
    /// `miss`, `false-positive`, `unproved`, `expired`, `listed` or `failed`.
    pub outcome: String,
    /// Name of the source, for a record.
    pub source: Option<String>,
    /// Day of entry.
    pub added: Option<String>,
    /// First day it is no longer listed.
    pub expires: Option<String>,
    /// Why the look-up failed.
    pub failure: Option<String>,
}

/// Explains messages under one configuration.
pub struct Explainer {
    live: Arc<Live>,
    screen: Screen<Recorder>,
}

impl Explainer {
    /// Opens everything that a configuration names.
    ///
    /// # Errors
    /// As for the daemon.
    pub fn open(config_path: &Path) -> Result<Self, Error> {
        let mut config = Config::load(config_path)?;
        // It looks at the messages of five minutes; what is explained here did not come in them.
        config.safety.max_reject_share = 1.0;
        let snapshot = Snapshot::build(config, None)?;
        Ok(Self::with(Arc::new(Live::new(snapshot, None))))
    }

    /// Another one for the same configuration, for another thread.
    pub fn another(&self) -> Self {
        Self::with(Arc::clone(&self.live))
    }

    fn with(live: Arc<Live>) -> Self {
        let screen = Screen::with_observer(Arc::clone(&live), Recorder::default());
        Self { live, screen }
    }

    /// Plays the message, and says what came of it.
    pub fn explain(&mut self, mail: &Mail) -> Explanation {
        let snapshot = self.live.snapshot();
        // The evidence: nobody is exempt, no recipient is refused before the headers come.
        self.screen.observer().clear();
        self.connect(None);
        self.begin(mail, &Macros::default());
        self.headers(mail);
        let mut explanation = Explanation {
            identities: self.identities(&snapshot),
            truncated: self.screen.senders().truncated(),
            ..Explanation::default()
        };
        // The verdict.
        self.screen.observer().clear();
        self.connect(mail.client);
        let login = mail.authenticated.then(|| Macros::of("auth_authen", b"-"));
        self.begin(mail, &login.unwrap_or_default());
        self.verdict(mail, &mut explanation);
        self.screen.abort();
        explanation
    }

    fn connect(&mut self, client: Option<IpAddr>) {
        let family = match client {
            None | Some(IpAddr::V4(_)) => Family::Inet,
            Some(IpAddr::V6(_)) => Family::Inet6,
        };
        // A port, since mail from port 0 is mail of this machine.
        let client = Client {
            host: b"unknown",
            address: client,
            port: 1,
            family,
        };
        self.screen.connect(&client, &Macros::default());
    }

    fn begin(&mut self, mail: &Mail, macros: &Macros) {
        self.screen
            .mail(mail.mail_from.as_deref().unwrap_or(b"<>"), macros);
    }

    fn headers(&mut self, mail: &Mail) -> Reply {
        for field in &mail.headers.fields {
            self.screen.header(&field.name, &field.value);
        }
        self.screen.end_of_headers(&Macros::default())
    }

    fn verdict(&mut self, mail: &Mail, explanation: &mut Explanation) {
        let mut goes_on = mail.recipients.is_empty();
        for recipient in &mail.recipients {
            let reply = self.screen.rcpt(recipient, &Macros::default());
            let decided = self.screen.observer().decision.take();
            let exempt = self
                .live
                .snapshot()
                .policy
                .reach(recipient, &mut Default::default())
                == 0;
            let made = decided.unwrap_or_default();
            explanation.recipients.push(Recipient {
                recipient: escaped(recipient).to_string(),
                verdict: if reply.is_refusal() {
                    made.verdict.clone()
                } else {
                    "accept".to_owned()
                },
                reply: text_of(&reply),
                exempt,
            });
            if reply == Reply::Accept {
                return made.put_into(explanation);
            }
            if reply.is_refusal() {
                if explanation.verdict.is_empty() {
                    made.put_into(explanation);
                }
            } else {
                goes_on = true;
            }
        }
        if !goes_on {
            return;
        }
        let mut reply = self.headers(mail);
        let made = self.screen.observer().decision.take();
        if reply == Reply::Continue {
            let mut edits = Vec::new();
            reply = self.screen.end_of_message(&Macros::default(), &mut edits);
            explanation.changes = edits.iter().map(describe).collect();
        }
        debug_assert_ne!(reply, Reply::Continue, "the end of the message is answered");
        made.unwrap_or_default().put_into(explanation);
    }

    /// All senders with their look-ups, as recorded.
    fn identities(&mut self, snapshot: &Snapshot) -> Vec<Named> {
        let policy = &snapshot.policy;
        let senders: Vec<_> = self
            .screen
            .senders()
            .iter()
            .map(|s| (s.identity, s.weak, s.address.to_vec()))
            .collect();
        let recorded = std::mem::take(&mut self.screen.observer().named);
        let mut form = Canonical::new();
        senders
            .into_iter()
            .map(|(identity, weak, address)| {
                let found = recorded
                    .iter()
                    .find(|r| (r.0, r.1) == (identity, weak) && r.2 == address);
                let mut named = found.map(|recorded| recorded.3.clone()).unwrap_or_default();
                named.identity = identity.name().to_owned();
                named.address = escaped(&address).to_string();
                named.weak = weak;
                match form.read(&address, Entries::rules()) {
                    Ok(()) => {
                        named.canonical = Some(escaped(form.as_bytes()).to_string());
                        named.whitelist_entry = policy
                            .whitelist
                            .find(&form)
                            .map(|entry| escaped(entry).to_string());
                        named.whitelisted = named.whitelist_entry.is_some() && !named.unaligned;
                    }
                    Err(fault) => named.fault = Some(fault.to_string()),
                }
                named
            })
            .collect()
    }
}

/// Remembers look-ups and the last decision.
#[derive(Default)]
struct Recorder {
    named: Vec<(Identity, bool, Vec<u8>, Named)>,
    decision: Option<Made>,
}

/// A decision, for as long as the message lives.
#[derive(Default)]
struct Made {
    verdict: String,
    reply: Option<String>,
    reason: String,
    list: Option<String>,
    unsoftened: Option<String>,
}

impl Made {
    fn put_into(self, explanation: &mut Explanation) {
        explanation.verdict = self.verdict;
        explanation.reply = self.reply;
        explanation.reason = self.reason;
        explanation.list = self.list;
        explanation.unsoftened = self.unsoftened;
    }
}

impl Recorder {
    fn clear(&mut self) {
        self.named.clear();
        self.decision = None;
    }
}

impl Observer for Recorder {
    fn seen(&mut self, policy: &Policy, sender: &Sender<'_>, seen: &Seen<'_>) {
        let (identity, weak) = (sender.identity, sender.weak);
        // Usually the last: one sender is looked up after the other.
        let at = self
            .named
            .iter()
            .rposition(|n| (n.0, n.1) == (identity, weak) && n.2 == sender.address);
        let at = at.unwrap_or_else(|| {
            self.named
                .push((identity, weak, sender.address.to_vec(), Named::default()));
            self.named.len() - 1
        });
        let named = &mut self.named[at].3;
        match seen {
            // Said by the canonical form already.
            Seen::NoAddress(_) | Seen::Cleared(_) => {}
            Seen::Unaligned(_) => named.unaligned = true,
            Seen::Entry {
                list,
                kind,
                entry,
                outcome,
            } => {
                let Some(list) = policy.lists().get(*list) else {
                    return;
                };
                let lookup = Lookup::new(list, kind.name(), entry, outcome);
                if named.list.is_none() && matches!(outcome, Outcome::Listed(_) | Outcome::Unproved)
                {
                    named.list = Some(lookup.list.clone());
                    named.entry = Some(lookup.entry.clone());
                }
                named.lookups.push(lookup);
            }
        }
    }

    fn decided(&mut self, decision: &Decision<'_>) {
        let verdict = decision.verdict;
        let hit = verdict.hit.and_then(|index| decision.hits.get(index));
        let list = hit.and_then(|hit| decision.snapshot.policy.lists().get(hit.list));
        let reason = match decision.exemption {
            Some(exemption) => exemption.name(),
            None if verdict.action == Some(Action::Log) && verdict.reason == Reason::Listed => {
                "log-only"
            }
            None => verdict.reason.name(),
        };
        self.decision = Some(Made {
            verdict: verdict
                .action
                .filter(|&action| action != Action::Log)
                .map_or("accept", Action::name)
                .to_owned(),
            reply: text_of(decision.reply),
            reason: reason.to_owned(),
            list: list.map(|list| list.name().to_owned()),
            unsoftened: verdict
                .unsoftened
                .filter(|&own| Some(own) != verdict.action)
                .map(|own| own.name().to_owned()),
        });
    }
}

impl Lookup {
    fn new(list: &crate::policy::List, kind: &str, entry: &[u8], outcome: &Outcome<'_>) -> Self {
        let (name, page, record) = match outcome {
            Outcome::Miss => ("miss", false, None),
            Outcome::FalsePositive => ("false-positive", true, None),
            Outcome::Unproved => ("unproved", true, None),
            Outcome::Expired(record) => ("expired", true, Some(record)),
            Outcome::Listed(record) => ("listed", true, Some(record)),
            Outcome::Failed(_) => ("failed", false, None),
        };
        let source = record.and_then(|record| list.filter.source(record.source));
        Self {
            list: list.name().to_owned(),
            kind: kind.to_owned(),
            entry: escaped(entry).to_string(),
            page,
            outcome: name.to_owned(),
            source: source.map(|source| escaped(source.name.as_bytes()).to_string()),
            added: record
                .filter(|record| record.added > 0)
                .map(|record| Day(record.added).to_string()),
            expires: record
                .and_then(|record| record.expires)
                .map(|day| Day(day).to_string()),
            failure: if let Outcome::Failed(failure) = outcome {
                Some(failure.to_string())
            } else {
                None
            },
        }
    }
}

fn text_of(reply: &Reply) -> Option<String> {
    match reply {
        Reply::Text(text) => Some(text.to_string()),
        Reply::Reject => Some("550 5.7.1 Command rejected".to_owned()),
        Reply::Tempfail => Some("451 4.7.1 Service unavailable - try again later".to_owned()),
        Reply::Continue | Reply::Accept | Reply::Discard => None,
    }
}

fn describe(edit: &Edit) -> String {
    match edit {
        Edit::AddHeader { name, value } | Edit::InsertHeader { name, value, .. } => {
            format!("header added: {name}: {}", escaped(value))
        }
        Edit::ChangeHeader { index, name, value } if value.is_empty() => {
            format!("header removed: {name} ({index})")
        }
        Edit::ChangeHeader { index, name, value } => {
            format!("header changed: {name} ({index}): {}", escaped(value))
        }
        Edit::Quarantine(reason) => format!("held: {reason}"),
    }
}
