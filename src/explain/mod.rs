//! Shows what would happen to a stored message, and why, by the daemon's own [`Screen`] with an
//! observer.
//!
//! A message is played twice: first without recipients and from an unknown client, so that every
//! sender is looked up, which gives the evidence; then as received, which gives the verdict. The
//! daemon never sees the headers of a message that is refused at RCPT, but who asks wants to.

mod explanation;
mod message;
mod replay;
mod text;

use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

pub use explanation::{Explanation, Named, RecordedDecision};
use explanation::{Lookup, Recipient, Recorder};
pub use message::Headers;
pub(crate) use message::{Stored, each_message};
pub(crate) use replay::replay;
pub(crate) use text::in_words;

use crate::config::Config;
use crate::milter::{Client, Family, Handler, Macros, Mailbox, Reply};
use crate::policy::{self, Entries, Reason};
use crate::screen::Screen;
use crate::sender::{Senders, Strength};
use crate::snapshot::{self, Live, Snapshot};
use blocklist_filter::address::{Canonical, escaped};
use blocklist_filter::base::clock::today;
use blocklist_filter::base::whole_file::FileError;

/// A message as received.
#[derive(Clone, Debug, Default)]
pub struct Mail {
    /// Argument of MAIL FROM; `None` if unknown, which counts as the null sender.
    pub mail_from: Option<Vec<u8>>,
    /// The sender as the mail server understood it, its macro `{mail_addr}`, if known.
    pub mail_addr: Option<Vec<u8>>,
    /// Arguments of RCPT TO; if empty, one recipient is assumed whom every list affects.
    pub recipients: Vec<Vec<u8>>,
    /// The first of the recipients as the mail server understood them, its macro `{rcpt_addr}`.
    pub recipient_addrs: Vec<Vec<u8>>,
    /// The SMTP client.
    pub client: Option<IpAddr>,
    /// Whether the client is authenticated (macro `{auth_authen}`).
    pub authenticated: bool,
    /// Whether the mail server is Sendmail (macro `v`).
    pub sendmail: bool,
    /// The header block.
    pub headers: Headers,
}

impl Mail {
    /// Reads the header block of a file, which may be compressed, or of standard input for `-`.
    ///
    /// # Errors
    /// It cannot be read, or is no message.
    pub fn open(path: &Path) -> Result<Self, FileError> {
        let headers = message::open(path).and_then(Headers::read);
        let headers = headers.map_err(FileError::of(path))?;
        if headers == Headers::default() {
            let why = "no message: it does not begin with a header field; save the message as .eml (not .msg, not in UTF-16)";
            return Err(FileError::of(path)(why));
        }
        Ok(Self {
            headers,
            ..Self::default()
        })
    }

    /// Returns a message with this address in its envelope and From.
    pub fn from_address(address: &str) -> Self {
        let mut mail = Self {
            mail_from: Some(address.into()),
            ..Self::default()
        };
        let from = (b"From".to_vec(), address.into());
        mail.headers.fields.push(from);
        mail
    }
}

/// Explains messages with one configuration.
pub struct Explainer {
    live: Arc<Live>,
    screen: Screen<Recorder>,
}

impl Explainer {
    /// Opens all files that a configuration names, and more files of correspondents.
    ///
    /// # Errors
    /// As in the daemon.
    pub fn open(config_path: &Path, correspondents: &[PathBuf]) -> Result<Self, snapshot::Error> {
        let mut config = Config::load(config_path)?;
        let known = &mut config.whitelist.correspondents;
        known.extend_from_slice(correspondents);
        Ok(Self::of(Arc::new(Live::as_served(config)?)))
    }

    /// Returns why files are not used as they are, one line each.
    pub fn faults(&self) -> Vec<String> {
        self.live.faults()
    }

    /// Explains with the configuration and the files in effect. Nothing is counted or logged.
    pub fn of(live: Arc<Live>) -> Self {
        let screen = Screen::with_observer(Arc::clone(&live), Recorder::default());
        Self { live, screen }
    }

    /// Plays the message and returns the result.
    pub fn explain(&mut self, mail: &Mail) -> Explanation {
        let snapshot = self.live.snapshot();
        // The evidence: nobody is exempt, and no recipient is refused before the headers.
        self.begin(mail, None, false);
        self.headers(mail);
        let mut explanation = Explanation {
            identities: self.identities(&snapshot),
            truncated: self.screen.senders().is_some_and(Senders::truncated),
            ..Explanation::default()
        };
        self.decide(mail, &mut explanation);
        explanation
    }

    /// Begins a message of this client.
    fn begin(&mut self, mail: &Mail, client: Option<IpAddr>, is_authenticated: bool) {
        self.screen.observer = Recorder::default();
        // With a port, because port 0 means local mail.
        let client = Client {
            host: b"unknown",
            address: client,
            port: 1,
            family: Family::Inet,
        };
        let server = match mail.sendmail {
            true => Macros::default().with("v", b"8"),
            false => Macros::default(),
        };
        self.screen.connect(&client, &server);
        let macros = macros("mail_addr", mail.mail_addr.as_deref());
        let macros = match is_authenticated {
            true => macros.with("auth_authen", b"-"),
            false => macros,
        };
        let argument = mail.mail_from.as_deref().unwrap_or(b"<>");
        self.screen.mail(Mailbox::Written(argument), &macros);
    }

    fn headers(&mut self, mail: &Mail) -> Reply {
        for (name, value) in &mail.headers.fields {
            self.screen.header(name, value);
        }
        self.screen.end_of_headers(&Macros::default())
    }

    /// Plays the message as received, for everything but the evidence.
    fn decide(&mut self, mail: &Mail, explanation: &mut Explanation) {
        self.begin(mail, mail.client, mail.authenticated);
        let mut goes_on = mail.recipients.is_empty();
        for (number, recipient) in mail.recipients.iter().enumerate() {
            let understood = mail.recipient_addrs.get(number).map(Vec::as_slice);
            let macros = macros("rcpt_addr", understood);
            let reply = (self.screen).rcpt(Mailbox::Written(recipient), &macros);
            let decided = self.screen.observer.decision.take();
            let written = policy::Recipient {
                written: recipient,
                understood,
            };
            let policy = &self.live.snapshot().policy;
            let exempt = policy.lists_for(written, &mut Default::default()) == 0;
            let made = decided.unwrap_or_default();
            explanation.recipients.push(Recipient {
                recipient: escaped(recipient).to_string(),
                verdict: match reply.is_refusal() {
                    true => made.verdict,
                    false => "accept",
                },
                reply: reply.shown(),
                exempt,
                deferred: made.reason == Reason::MixedRecipients.name() && made.list.is_none(),
            });
            if reply == Reply::Accept {
                explanation.decision = made;
                return;
            }
            goes_on |= !reply.is_refusal();
            if reply.is_refusal() && explanation.decision.verdict.is_empty() {
                explanation.decision = made;
            }
        }
        if !goes_on {
            return;
        }
        let mut reply = self.headers(mail);
        let made = self.screen.observer.decision.take();
        if reply == Reply::Continue {
            let mut edits = Vec::new();
            reply = self.screen.end_of_message(&Macros::default(), &mut edits);
            explanation.changes = edits.iter().map(ToString::to_string).collect();
        }
        debug_assert_ne!(reply, Reply::Continue, "the end of the message is answered");
        explanation.decision = made.unwrap_or_default();
    }

    /// Returns all senders with their recorded look-ups.
    fn identities(&mut self, snapshot: &Snapshot) -> Vec<Named> {
        let recorded = std::mem::take(&mut self.screen.observer.named);
        let mut form = Canonical::new();
        let today = today();
        let senders = self.screen.senders().into_iter().flat_map(Senders::iter);
        let named = senders.map(|sender| {
            let key = (sender.identity, sender.strength, sender.address.to_vec());
            let mut named = recorded.get(&key).cloned().unwrap_or_default();
            named.identity = sender.identity.name();
            named.address = escaped(sender.address).to_string();
            named.weak = sender.strength != Strength::Strong;
            named.doubtful = sender.strength == Strength::Doubtful;
            match form.read(sender.address, Entries::rules()) {
                Ok(()) => {
                    named.canonical = Some(escaped(form.as_bytes()).to_string());
                    let entry = snapshot.policy.clearing_entry(&form, today);
                    named.whitelist_entry = entry.map(|entry| escaped(entry).to_string());
                    named.whitelisted =
                        named.whitelist_entry.is_some() && !named.unaligned && !named.not_exempt;
                }
                Err(fault) => named.fault = Some(fault.to_string()),
            }
            named
        });
        named.collect()
    }
}

/// Returns the macros of a mail server that sends this one, or none.
fn macros(name: &'static str, value: Option<&[u8]>) -> Macros {
    let none = Macros::default();
    match value {
        Some(value) => none.with(name, value),
        None => none,
    }
}
