//! The state of a connection and of its current message, and who observes its decisions.
//!
//! A mail server keeps thousands of connections open, most of which wait for their client. So a
//! connection borrows a [`Workspace`] from its thread for each message, and the thread keeps some of
//! that memory for the next: an ordinary message allocates nothing, on any connection.

use std::cell::RefCell;
use std::fmt::Write as _;
use std::net::IpAddr;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use super::reads::{Answers, Pending, Reader};
use super::trial::Trial;
use crate::endpoint::Door;
use crate::milter::{Client, Edit, Family, Macros, Reply};
use crate::policy::{Budget, Hit, ListSets, Policy, Reason, Scratch, Seen, Softening, Verdict};
use crate::sender::{Identity, Sender, Senders};
use crate::snapshot::{Live, Snapshot};
use blocklist_filter::address::escaped;

/// Decides about the messages of one connection.
pub struct Screen<O = ()> {
    pub(super) live: Arc<Live>,
    /// `None` if every look-up is shown, see [`Screen::shows_all`].
    pub(super) reader: Option<Arc<dyn Reader>>,
    /// Who observes the decisions.
    pub observer: O,
    /// Where the mail server asks.
    pub(super) door: Door,
    pub(super) origin: Origin,
    pub(super) message: Message,
}

impl Screen {
    /// Creates the state of a new connection. The reader reads what must be read from files.
    pub fn new(live: Arc<Live>, reader: Arc<dyn Reader>) -> Self {
        Self {
            reader: Some(reader),
            ..Self::with_observer(live, ())
        }
    }

    /// Returns it for another door than a milter's.
    #[must_use]
    pub fn at(self, door: Door) -> Self {
        Self { door, ..self }
    }
}

impl<O: Observer> Screen<O> {
    /// Creates the state of a new connection with an observer. Every sender is looked up, and files
    /// are read at once, on this thread.
    pub fn with_observer(live: Arc<Live>, observer: O) -> Self {
        Self {
            live,
            reader: None,
            observer,
            door: Door::Milter,
            origin: Origin::default(),
            message: Message::default(),
        }
    }

    /// Returns the senders of the current message so far; without an observer, until its verdict.
    pub fn senders(&self) -> Option<&Senders> {
        let workspace = self.message.workspace.as_ref();
        workspace.map(|workspace| &workspace.senders)
    }

    /// Whether all look-ups are wanted, even without effect on the verdict, at once, on this thread.
    pub(super) fn shows_all(&self) -> bool {
        self.reader.is_none()
    }

    /// The snapshot with which the current message began. If two newer ones have replaced it, it is
    /// the one in effect, and the look-ups start again.
    pub(super) fn snapshot(&mut self) -> Option<Arc<Snapshot>> {
        if let Some(snapshot) = self.message.snapshot.as_ref()?.upgrade() {
            return Some(snapshot);
        }
        let snapshot = self.live.snapshot();
        let message = &mut self.message;
        message.snapshot = Some(Arc::downgrade(&snapshot));
        message.overtaken |= !message.reach.sets().is_empty();
        message.reach.clear();
        message.hits.clear();
        message.hits_counted = 0;
        message.progress = Progress::default();
        let is_checked = |&identity: &Identity| snapshot.policy.checks(identity);
        message.is_incomplete |= message.skipped.iter().any(is_checked);
        message.is_envelope_truncated |=
            message.skipped.contains(&Identity::MailFrom) && is_checked(&Identity::MailFrom);
        Some(snapshot)
    }
}

/// Observes how decisions are made. `explain` and `demo` use it; the daemon does not.
pub trait Observer {
    /// Whether the decisions are about mail: only then they are counted, logged and kept.
    fn is_about_mail(&self) -> bool {
        true
    }
    /// Called for each look-up, or with the reason why there was none.
    fn seen(&mut self, _policy: &Policy, _sender: &Sender<'_>, _seen: &Seen<'_>) {}
    /// Called for each verdict on a recipient or a message.
    fn decided(&mut self, _decision: &Decision<'_>) {}
}

impl Observer for () {}

/// A verdict, and everything that led to it.
#[derive(Debug)]
pub struct Decision<'a> {
    /// The configuration and filters.
    pub snapshot: &'a Snapshot,
    /// All senders on lists, including whitelisted ones.
    pub hits: &'a [Hit],
    /// The action, and its reason.
    pub verdict: Verdict,
    /// The answer to the mail server.
    pub reply: &'a Reply,
    /// Time spent on the message so far.
    pub spent: Duration,
}

/// The client of a connection.
#[derive(Default)]
pub(super) struct Origin {
    pub(super) address: Option<IpAddr>,
    pub(super) text: String,
    pub(super) is_local: bool,
    /// Whether Sendmail asks: its macro `v` is a number.
    pub(super) is_sendmail: bool,
}

impl Origin {
    /// Replaces the previous client.
    pub(super) fn read(&mut self, client: &Client<'_>, macros: &Macros) {
        self.address = client.address.map(|address| address.to_canonical());
        self.text.clear();
        let _ = match self.address {
            Some(address) => write!(self.text, "{address}"),
            None => write!(self.text, "{}", escaped(client.host)),
        };
        let version = macros.get("v").unwrap_or_default();
        self.is_sendmail = version.first().is_some_and(u8::is_ascii_digit);
        self.is_local = match client.family {
            Family::Unix => true,
            // Postfix reports local mail that did not come by SMTP with port 0.
            Family::Inet => {
                client.port == 0 && self.address.is_some_and(|address| address.is_loopback())
            }
            // Sendmail on standard input (-bs) reports only this name; for clients on a network it
            // also reports an address. Postfix reports no address for a client whose proxy hides it
            // (XCLIENT), and that client chooses its name itself with its PTR record.
            Family::Unknown => {
                !version.starts_with(b"Postfix") && client.host.eq_ignore_ascii_case(b"localhost")
            }
        };
    }
}

#[derive(Default)]
pub(super) struct Message {
    /// The snapshot with which it began.
    pub(super) snapshot: Option<Weak<Snapshot>>,
    /// Whether the snapshot was replaced after recipients were accepted: unknown lists affect them.
    pub(super) overtaken: bool,
    /// Whether the mail server does not hear what is decided about it now.
    pub(super) is_unheard: bool,
    pub(super) today: u16,
    pub(super) is_authenticated: bool,
    pub(super) exemption: Option<Reason>,
    pub(super) trial: Option<Trial>,
    pub(super) softening: Softening,
    /// Its senders; `None` before MAIL and after the verdict.
    pub(super) workspace: Option<Box<Workspace>>,
    /// Fields that were not read, because no list checks them.
    pub(super) skipped: Vec<Identity>,
    /// Whether a list of a newer snapshot checks one of these fields.
    pub(super) is_incomplete: bool,
    pub(super) progress: Progress,
    /// Whether some readings of the envelope sender were not looked up.
    pub(super) is_envelope_truncated: bool,
    /// The decision to make when the senders are looked up.
    pub(super) step: Option<Step>,
    pub(super) hits: Vec<Hit>,
    /// How many of the hits have been counted.
    pub(super) hits_counted: usize,
    pub(super) reach: ListSets,
    pub(super) refused: u32,
    pub(super) deferred: u32,
    pub(super) forged_tags: u32,
    pub(super) dkim: Vec<Vec<u8>>,
    pub(super) queue_id: Vec<u8>,
    pub(super) message_id: Vec<u8>,
    pub(super) case: String,
    /// The changes for the end of the message.
    pub(super) edits: Vec<Edit>,
    pub(super) began: Option<Instant>,
    pub(super) spent: Duration,
}

/// A step that is answered later.
pub(super) struct Step {
    /// Held until the step is answered, which is soon.
    pub(super) snapshot: Arc<Snapshot>,
    /// The recipient that is decided about, and the lists that affect it; `None`: the message.
    pub(super) recipient: Option<(Box<[u8]>, u64)>,
}

/// Hits whose memory is kept for the next message.
const HITS_KEPT: usize = 16;

impl Message {
    /// Whether it has senders that were not looked up.
    pub(super) fn is_truncated(&self) -> bool {
        self.has_more_senders() || self.progress.unfinished || self.is_incomplete
    }

    /// Whether it has senders that were not kept.
    pub(super) fn has_more_senders(&self) -> bool {
        let workspace = self.workspace.as_ref();
        workspace.is_some_and(|workspace| workspace.senders.truncated())
    }

    pub(super) fn workspace(&mut self) -> &mut Workspace {
        self.workspace.get_or_insert_with(Workspace::borrow)
    }

    pub(super) fn skip(&mut self, identity: Identity) {
        if !self.skipped.contains(&identity) {
            self.skipped.push(identity);
        }
    }

    /// Drops what only the verdict needs: an idle connection must not hold a filter that has been
    /// replaced, or a large buffer.
    pub(super) fn release(&mut self) {
        self.snapshot = None;
        if let Some(workspace) = self.workspace.take() {
            workspace.give_back();
        }
        self.hits.clear();
        self.hits_counted = 0;
        self.hits.shrink_to(HITS_KEPT);
        self.dkim = Vec::new();
        self.skipped.clear();
    }

    /// Drops everything, and keeps the memory.
    pub(super) fn clear(&mut self) {
        self.release();
        self.reach.clear();
        self.queue_id.clear();
        self.message_id.clear();
        self.case.clear();
        *self = Self {
            hits: std::mem::take(&mut self.hits),
            reach: std::mem::take(&mut self.reach),
            skipped: std::mem::take(&mut self.skipped),
            queue_id: std::mem::take(&mut self.queue_id),
            message_id: std::mem::take(&mut self.message_id),
            case: std::mem::take(&mut self.case),
            ..Self::default()
        };
    }
}

/// The groups of senders, in the order of their look-ups.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Part {
    /// MAIL FROM.
    Envelope,
    /// The header From.
    From,
    /// All other headers.
    Others,
}

const PARTS: [Part; 3] = [Part::Envelope, Part::From, Part::Others];

impl Part {
    fn of(sender: &Sender<'_>) -> Self {
        match sender.identity {
            Identity::MailFrom => Self::Envelope,
            Identity::From => Self::From,
            Identity::Sender
            | Identity::ReplyTo
            | Identity::ReturnPath
            | Identity::ResentFrom
            | Identity::ResentSender
            | Identity::ResentReplyTo => Self::Others,
        }
    }
}

/// The position of the next sender to look up: the number of its part, and an index into the senders.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Cursor {
    part: usize,
    index: usize,
}

impl Cursor {
    /// The next sender in the parts up to `last`.
    pub(super) fn next<'s>(&mut self, senders: &'s Senders, last: Part) -> Option<Sender<'s>> {
        while let Some(part) = PARTS.get(self.part).filter(|part| **part <= last) {
            while let Some(sender) = senders.get(self.index) {
                self.index += 1;
                if Part::of(&sender) == *part {
                    return Some(sender);
                }
            }
            (self.part, self.index) = (self.part + 1, 0);
        }
        None
    }
}

/// How far the senders of a message are looked up.
#[derive(Default)]
pub(super) struct Progress {
    pub(super) cursor: Cursor,
    pub(super) budget: Budget,
    /// Number of senders looked up since the verdict became certain.
    pub(super) seen_since_final: Option<u32>,
    /// Whether the budget was exhausted before all senders were looked up.
    pub(super) unfinished: bool,
    /// What the message waits for.
    pub(super) waits_for: Option<WaitsFor>,
    /// The answers that the sender at this cursor needs, and those after it.
    pub(super) known: (Cursor, Answers),
    /// The deadline for all reads of this step, set at its first one.
    pub(super) deadline: Option<Instant>,
}

/// What the message waits for.
pub(super) enum WaitsFor {
    /// Until the other connections of the thread have had their turn.
    Turn { taken: bool },
    /// Until reads are done, or the deadline has passed.
    Reads(Vec<Pending>),
}

/// Workspaces that a thread keeps: about as many as messages overlap. Each takes 3 to 10 KiB.
const KEPT: usize = 32;

thread_local! {
    #[allow(clippy::vec_box, reason = "a message holds its own in a box")]
    static SPARE: RefCell<Vec<Box<Workspace>>> = const { RefCell::new(Vec::new()) };
}

/// The senders of a message, and memory for their canonical forms.
#[derive(Default)]
pub(super) struct Workspace {
    pub(super) senders: Senders,
    pub(super) scratch: Scratch,
}

impl Workspace {
    pub(super) fn borrow() -> Box<Self> {
        let spare = SPARE.with_borrow_mut(Vec::pop);
        spare.unwrap_or_default()
    }

    /// Gives it to the current thread, which may differ from the one it came from.
    pub(super) fn give_back(mut self: Box<Self>) {
        self.senders.clear();
        self.scratch.give_back();
        SPARE.with_borrow_mut(|spare| {
            if spare.len() < KEPT {
                spare.push(self);
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_who_cannot_come_over_a_network_is_local() {
        let postfix = Macros::default().with("v", b"Postfix 3.7.11");
        let sendmail = Macros::default().with("v", b"8.17.1.9");
        let none = Macros::default();
        let loopback = Some(IpAddr::from([127, 0, 0, 1]));
        let cases = [
            (Family::Unix, "localhost", None, 0, &postfix, true),
            (Family::Inet, "localhost", loopback, 0, &postfix, true),
            (Family::Inet, "localhost", loopback, 4321, &postfix, false),
            (Family::Inet, "localhost", None, 0, &postfix, false),
            (Family::Unknown, "localhost", None, 0, &sendmail, true),
            (Family::Unknown, "localhost", None, 0, &none, true),
            // A client behind a proxy that hides its address.
            (Family::Unknown, "localhost", None, 0, &postfix, false),
            (Family::Unknown, "unknown", None, 0, &sendmail, false),
        ];
        for (family, host, address, port, macros, is_local) in cases {
            let client = Client {
                host: host.as_bytes(),
                address,
                port,
                family,
            };
            let mut origin = Origin::default();
            origin.read(&client, macros);
            assert_eq!(origin.is_local, is_local, "{client:?}");
        }
    }

    #[test]
    fn a_thread_keeps_a_bounded_number() {
        let borrowed: Vec<_> = (0..2 * KEPT).map(|_| Workspace::borrow()).collect();
        borrowed.into_iter().for_each(Workspace::give_back);
        assert_eq!(SPARE.with_borrow(Vec::len), KEPT);
    }
}
