//! One message from MAIL to the verdict: collects what the mail server sends, and answers.
//!
//! ```text
//! MAIL     take the snapshot, store the envelope sender             (no answer needed)
//! RCPT     look up the envelope sender, once; refuse or defer this recipient, or continue
//! header   store senders and the few headers that matter            (no answer needed)
//! EOH      look up the header senders; refuse, discard, accept - or continue, if there are changes
//! EOM      make the changes: tag, quarantine, remove forged tags
//! ```
//!
//! RCPT and EOH are answered later if a look-up has to read a file, or if there are so many
//! look-ups that other connections take precedence (`look_up`).
//!
//! A message of an exempt client is also accepted at EOH, although the result is known at MAIL:
//! Postfix has no queue id before, and without it the log line could not be related to those of the
//! mail server.
//!
//! So a message without objections needs two answers, and its body is never sent to us. All rules
//! are in [`policy`](crate::policy); this module decides when to apply them. The snapshot taken at
//! MAIL is valid until the verdict, unless two reloads follow (see `Screen::snapshot`).

mod answer;
mod look_up;
mod reads;
mod record;
mod state;
mod trial;

use std::borrow::Cow;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use crate::milter::{
    Client, Edit, Handler, MacroLists, MacroStage, Macros, Mailbox, Reply, ReplyText,
};
use crate::policy::{Action, Authentication, Reason, Recipient, Verdict};
use crate::sender::Identity;
use crate::snapshot::Snapshot;
pub use answer::case_time;
pub(crate) use answer::source_of;
use answer::tag;
use blocklist_filter::address::behind_route;
use blocklist_filter::base::clock::today;
pub use reads::Reader;
pub(crate) use record::ALSO_UNDECIDED;
pub use record::{DECISION, Field, log_accepted};
pub use state::{Decision, Observer, Screen};
use state::{Part, Step};
pub use trial::Trial;

/// The header that informs later programs about a hit.
pub const TAG_HEADER: &str = "X-Sender-Blocklist";
/// The reply for a recipient that needs a transaction of its own (RFC 5321 section 4.5.3.1.10).
const SEPARATE_REPLY: &str = "send to this recipient in a separate transaction";
/// The reply for a recipient that a restart could not hand over.
const TOO_MANY_REPLY: &str = "too many recipients in one transaction";
/// Most bytes kept of a queue id, and of a Message-ID, for the log. Queue ids have up to about 20.
const ID_MAX_BYTES: usize = 200;
/// Most forged tags removed from a message. The mail server searches for each from the top: Postfix
/// needed 22 s for 16,000, and then gave up. Remaining ones can only harm their own sender.
const FORGED_TAGS_MAX: u32 = 100;
/// Most DKIM results kept of a message.
const DKIM_MAX: usize = 100;

impl<O: Observer> Screen<O> {
    /// Why the senders of this message are not looked up, if they are not.
    fn exemption(&self, snapshot: &Snapshot, macros: &Macros) -> Option<Reason> {
        let exempt = &snapshot.config.exempt;
        let in_network = |address| exempt.networks.iter().any(|one| one.contains(address));
        if exempt.authenticated && has_logged_in(macros) {
            Some(Reason::Authenticated)
        } else if exempt.local && self.origin.is_local {
            Some(Reason::Local)
        } else if self.origin.address.is_some_and(in_network) {
            Some(Reason::Network)
        } else {
            None
        }
    }

    /// Accepts the message of an exempt client.
    fn exempt(&mut self, snapshot: &Snapshot, reason: Reason) -> Reply {
        self.end();
        let verdict = Verdict {
            reason,
            ..Verdict::UNLISTED
        };
        self.record(snapshot, verdict, None, &Reply::Accept);
        self.release();
        Reply::Accept
    }

    /// Whether a recipient cannot be put off to another transaction. Mail that was submitted on this
    /// machine without SMTP would come again unchanged. A mail program that submits with
    /// authentication has no queue: it would show the 452 to its user and send nothing.
    fn comes_back_unchanged(&self) -> bool {
        self.origin.is_local || self.message.is_authenticated
    }

    fn needs_own_transaction(&self, snapshot: &Snapshot, lists: u64) -> bool {
        let message = &self.message;
        !self.comes_back_unchanged()
            && (snapshot.policy).is_apart(lists, &message.reach, &message.hits)
    }

    /// Defers a recipient. The message itself is counted when it is decided.
    fn defer(&mut self, snapshot: &Snapshot, recipient: &[u8]) -> Reply {
        let reply =
            ReplyText::new(452, "4.5.3", &[SEPARATE_REPLY]).map_or(Reply::Tempfail, Reply::Text);
        self.message.deferred += 1;
        if self.observer.is_about_mail() {
            self.live.counters.deferred.increment();
        }
        self.end();
        self.record(snapshot, Verdict::APART, Some(recipient), &reply);
        reply
    }

    /// Decides about one recipient, when all senders of the envelope are looked up.
    fn decide_recipient(&mut self, snapshot: &Snapshot, argument: &[u8], lists: u64) -> Reply {
        self.message.is_envelope_truncated |= self.message.progress.unfinished;
        let policy = &snapshot.policy;
        let mut verdict = policy.decide(&self.message.hits, &[lists], self.message.softening);
        if self.message.is_envelope_truncated {
            verdict = policy.decide_truncated(verdict, &[lists], true);
            let is_first = self.message.refused == 0 && self.observer.is_about_mail();
            if is_first && verdict.refuses() && verdict.reason == Reason::Undecided {
                self.live.counters.truncated.increment();
            }
        }
        if let Some(trial) = &self.message.trial {
            let reply = trial.reply(verdict);
            self.end();
            return reply;
        }
        if !verdict.refuses() {
            if self.needs_own_transaction(snapshot, lists) {
                return self.defer(snapshot, argument);
            }
            self.message.reach.add(lists);
            self.end();
            return Reply::Continue;
        }
        let reply = self.refusal(snapshot, verdict);
        self.message.refused += 1;
        self.end();
        self.record(snapshot, verdict, Some(argument), &reply);
        reply
    }

    /// Decides about the message, when all senders are looked up.
    fn decide_message(&mut self, snapshot: &Snapshot) -> Reply {
        let message = &self.message;
        let (policy, reach) = (&snapshot.policy, message.reach());
        let mut verdict = policy.decide(&message.hits, reach, message.softening);
        if message.is_truncated() {
            if self.observer.is_about_mail() {
                self.live.counters.truncated.increment();
            }
            verdict = policy.decide_truncated(verdict, reach, message.is_envelope_truncated);
        }
        if message.overtaken && verdict.action > Some(Action::Tag) {
            // Perhaps the action does not apply to all recipients: let the message come again.
            verdict.action = Some(Action::Tempfail);
            verdict.reason = Reason::Undecided;
        }
        let forged = message.forged_tags > 0 && policy.may_tag();
        let reply = match verdict.action {
            Some(Action::Reject | Action::Tempfail) => self.refusal(snapshot, verdict),
            Some(Action::Discard) => Reply::Discard,
            Some(Action::Quarantine | Action::Tag) => Reply::Continue,
            Some(Action::Log) | None if forged => Reply::Continue,
            Some(Action::Log) | None => Reply::Accept,
        };
        self.end();
        self.record(snapshot, verdict, None, &reply);
        // rspamd scores whatever it is told: it is not told of a refusal that was softened.
        let is_told = verdict.softened().is_none() || self.is_told(verdict);
        if reply == Reply::Continue && is_told {
            self.prepare_edits(snapshot, verdict);
        }
        self.release();
        reply
    }

    fn prepare_edits(&mut self, snapshot: &Snapshot, verdict: Verdict) {
        let message = &mut self.message;
        if snapshot.policy.may_tag() {
            // From the last to the first, because deleting one renumbers those after it.
            let forged = (1..=message.forged_tags.min(FORGED_TAGS_MAX)).rev();
            (message.edits).extend(forged.map(|index| Edit::DeleteHeader {
                index,
                name: TAG_HEADER.to_owned(),
            }));
        }
        let hit = verdict.hit_of(&message.hits);
        let tag = || tag(snapshot, hit);
        match verdict.action {
            Some(Action::Tag) => message.edits.push(Edit::AddHeader {
                name: TAG_HEADER.to_owned(),
                value: tag().into_bytes(),
            }),
            Some(Action::Quarantine) => {
                let reason = format!("{} (case {})", tag(), message.case);
                message.edits.push(Edit::Quarantine(reason));
            }
            Some(Action::Log | Action::Discard | Action::Tempfail | Action::Reject) | None => {}
        }
    }

    fn release(&mut self) {
        if !self.shows_all() {
            self.message.release();
        }
    }

    fn note_queue_id(&mut self, macros: &Macros) {
        if let Some(id) = macros.get("i")
            && self.message.queue_id.is_empty()
        {
            let id = &id[..id.len().min(ID_MAX_BYTES)];
            self.message.queue_id.extend_from_slice(id);
        }
    }
}

fn has_logged_in(macros: &Macros) -> bool {
    macros.get("auth_authen").is_some_and(|it| !it.is_empty())
}

impl<O: Observer> Handler for Screen<O> {
    fn macros(&self) -> MacroLists {
        &[
            (MacroStage::Connect, &["v"]),
            (MacroStage::Helo, &[]),
            (MacroStage::Mail, &["i", "auth_authen", "mail_addr"]),
            (MacroStage::Rcpt, &["i", "rcpt_addr"]),
            (MacroStage::Data, &["i"]),
            (MacroStage::EndOfHeaders, &["i"]),
            (MacroStage::EndOfMessage, &["i"]),
        ]
    }

    fn connect(&mut self, client: &Client<'_>, macros: &Macros) {
        self.message.clear();
        self.origin.read(client, macros);
    }

    fn mail(&mut self, sender: Mailbox<&[u8]>, macros: &Macros) {
        self.message.clear();
        self.note_queue_id(macros);
        let snapshot = self.live.snapshot();
        let shows_all = self.shows_all();
        let trial = Trial::of(sender).filter(|_| !shows_all);
        let exemption = self
            .exemption(&snapshot, macros)
            .filter(|_| trial.is_none());
        let message = &mut self.message;
        message.exemption = exemption;
        message.trial = trial;
        // For an exempt client, the sender is needed only for the log.
        if shows_all || exemption.is_some() || snapshot.policy.checks(Identity::MailFrom) {
            let senders = &mut message.workspace().senders;
            if let Some(text) = sender.as_written() {
                senders.add_mail_from(text);
            }
            if let Mailbox::Understood(text) | Mailbox::Either(text) = sender {
                senders.add_mail_understood(text);
            }
            if let Some(understood) = macros.get("mail_addr") {
                senders.add_mail_addr(understood);
            }
        } else {
            message.skip(Identity::MailFrom);
        }
        message.is_envelope_truncated = message.has_more_senders();
        message.today = today();
        message.is_authenticated = has_logged_in(macros);
        message.softening.circuit_breaker = self.live.is_circuit_breaker_on(&snapshot.config);
        message.snapshot = Some(Arc::downgrade(&snapshot));
    }

    fn rcpt(&mut self, recipient: Mailbox<&[u8]>, macros: &Macros) -> Reply {
        let argument = &*recipient.written();
        self.begin();
        self.note_queue_id(macros);
        let Some(snapshot) = self.snapshot() else {
            return Reply::Continue;
        };
        if self.message.exemption.is_some() {
            self.end();
            return Reply::Continue;
        }
        let recipient = Recipient {
            written: argument,
            understood: macros.get("rcpt_addr"),
        };
        let is_trial = self.message.trial.is_some();
        let scratch = &mut self.message.workspace().scratch;
        let lists = match is_trial {
            true => u64::MAX,
            false => snapshot.policy.lists_for(recipient, scratch),
        };
        match self.look_up(&snapshot, Part::Envelope) {
            Poll::Ready(()) => self.decide_recipient(&snapshot, argument, lists),
            Poll::Pending => {
                let recipient = Some((argument.into(), lists));
                self.message.step = Some(Step {
                    snapshot,
                    recipient,
                });
                Reply::Later
            }
        }
    }

    fn accepted(&mut self, recipient: Mailbox<&[u8]>) {
        let Some(snapshot) = self.snapshot() else {
            return;
        };
        let recipient = Recipient {
            written: &recipient.written(),
            understood: None,
        };
        let scratch = &mut self.message.workspace().scratch;
        let lists = snapshot.policy.lists_for(recipient, scratch);
        // It is too late for a transaction of its own: no recipient may soften what is said about others.
        match self.comes_back_unchanged() || snapshot.policy.softens_mixed() {
            true => self.message.reach.add(lists),
            false => self.message.reach.unite(lists),
        }
    }

    fn recipient_to_keep<'a>(&self, argument: &'a [u8]) -> Cow<'a, [u8]> {
        match behind_route(argument) {
            // It stays an address with a route, which exempts nobody.
            Some(address) => [b"<@:", address].concat().into(),
            None => argument.into(),
        }
    }

    fn too_many_recipients(&mut self) -> Reply {
        if self.comes_back_unchanged() {
            return Reply::Continue;
        }
        ReplyText::new(452, "4.5.3", &[TOO_MANY_REPLY]).map_or(Reply::Tempfail, Reply::Text)
    }

    fn header(&mut self, name: &[u8], value: &[u8]) -> bool {
        let shows_all = self.shows_all();
        let Some(snapshot) = self.snapshot() else {
            return false;
        };
        let message = &mut self.message;
        if let Some(identity) = Identity::of_header(name) {
            if message.exemption.is_some() && !shows_all {
                return true;
            }
            if shows_all || snapshot.policy.checks(identity) {
                let senders = &mut message.workspace().senders;
                if self.origin.is_sendmail {
                    senders.set_sendmail();
                }
                senders.add_header(identity, value);
            } else {
                message.skip(identity);
            }
            return true;
        }
        let is = |known: &str| name.eq_ignore_ascii_case(known.as_bytes());
        if is(TAG_HEADER) {
            message.forged_tags += 1;
            message.forged_tags <= FORGED_TAGS_MAX
        } else if is("List-Id") || is("List-Post") {
            !std::mem::replace(&mut message.softening.mailing_list, true)
        } else if is("Message-ID") {
            let value = value.trim_ascii();
            let kept = &value[..value.len().min(ID_MAX_BYTES)];
            message.message_id.clear();
            message.message_id.extend_from_slice(kept);
            true
        } else if snapshot.policy.wants_dkim()
            && is("Authentication-Results")
            && message.dkim.len() < DKIM_MAX
        {
            // Limited, because anybody can add thousands of them.
            let trusted = &snapshot.config.whitelist.authserv_ids;
            let results = Authentication::read(value, trusted);
            message.dkim.extend(results.signers);
            message.dkim.truncate(DKIM_MAX);
            true
        } else {
            false
        }
    }

    fn mark_incomplete(&mut self) {
        self.message.is_incomplete = true;
        self.message.overtaken = true;
    }

    fn mark_cut(&mut self, name: &[u8]) {
        self.message.is_incomplete |= Identity::of_header(name).is_some();
    }

    fn not_understood(&self) -> Reply {
        self.not_judged()
    }

    fn mark_unheard(&mut self) {
        self.message.is_unheard = true;
    }

    fn mark_counted(&mut self) {
        self.message.refused = 1;
    }

    fn is_counted(&self) -> bool {
        self.message.refused > 0
    }

    fn end_of_headers(&mut self, macros: &Macros) -> Reply {
        self.begin();
        self.note_queue_id(macros);
        let Some(snapshot) = self.snapshot() else {
            return Reply::Accept;
        };
        if let Some(reason) = self.message.exemption {
            return self.exempt(&snapshot, reason);
        }
        match self.look_up(&snapshot, Part::Others) {
            Poll::Ready(()) => self.decide_message(&snapshot),
            Poll::Pending => {
                let recipient = None;
                self.message.step = Some(Step {
                    snapshot,
                    recipient,
                });
                Reply::Later
            }
        }
    }

    fn poll_later(&mut self, cx: &mut Context<'_>) -> Poll<Reply> {
        let Some(step) = &self.message.step else {
            return Poll::Ready(Reply::Tempfail);
        };
        let last = match step.recipient {
            Some(_) => Part::Envelope,
            None => Part::Others,
        };
        let snapshot = Arc::clone(&step.snapshot);
        ready!(self.poll_look_up(cx, &snapshot, last));
        let step = self.message.step.take();
        Poll::Ready(match step.and_then(|step| step.recipient) {
            Some((argument, lists)) => self.decide_recipient(&snapshot, &argument, lists),
            None => self.decide_message(&snapshot),
        })
    }

    fn end_of_message(&mut self, _macros: &Macros, edits: &mut Vec<Edit>) -> Reply {
        edits.append(&mut self.message.edits);
        Reply::Accept
    }

    fn abort(&mut self) {
        self.message.clear();
    }
}
