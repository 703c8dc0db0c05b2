//! Hits, recipients and what softens make one verdict.

use super::examine::{Cause, Desk, Hit};
use super::list::{Action, Terms, Weak};
use super::{LISTS_MAX, Policy};
use crate::address::Canonical;
use crate::sender::Identity;

/// The lists that affect a message's accepted recipients: some of them, and all of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reach {
    /// Lists that affect at least one recipient.
    pub any: u64,
    /// Lists that affect every recipient.
    pub all: u64,
}

impl Reach {
    /// Before the first recipient.
    pub const NOBODY: Self = Self {
        any: 0,
        all: u64::MAX,
    };
    /// As if every list affected everybody.
    pub const EVERYBODY: Self = Self {
        any: u64::MAX,
        all: u64::MAX,
    };

    /// Of a single recipient affected by these lists.
    pub fn of(lists: u64) -> Self {
        Self {
            any: lists,
            all: lists,
        }
    }

    /// One more accepted recipient.
    pub fn add(&mut self, lists: u64) {
        self.any |= lists;
        self.all &= lists;
    }
}

/// Facts about the message that soften a verdict.
#[derive(Clone, Copy, Debug, Default)]
pub struct Softening {
    /// It came through a mailing list (List-Id, List-Post).
    pub mailing_list: bool,
    /// Too much is being refused: refusals become tags.
    pub brake: bool,
}

/// Why the verdict is not simply the list's action.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// It is the list's action.
    Listed,
    /// Nobody is listed.
    Unlisted,
    /// Every hit is cleared by the whitelist.
    Whitelisted,
    /// No recipient is affected.
    ExemptRecipient,
    /// Some recipients are exempt, and one answer is for all: tagged instead.
    MixedRecipients,
    /// Came through a mailing list, and the envelope sender is not listed.
    MailingList,
    /// The address stood where none belongs.
    Weak,
    /// The list is on trial.
    DryRun,
    /// `max_reject_share` is passed.
    RejectShare,
    /// A filter could not be read.
    Undecided,
}

impl Reason {
    /// As the log names it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Listed => "listed",
            Self::Unlisted => "unlisted",
            Self::Whitelisted => "whitelisted",
            Self::ExemptRecipient => "exempt-recipient",
            Self::MixedRecipients => "mixed-recipients",
            Self::MailingList => "mailing-list",
            Self::Weak => "weak-address",
            Self::DryRun => "dry-run",
            Self::RejectShare => "max-reject-share",
            Self::Undecided => "undecided",
        }
    }
}

/// What to do with a message or a recipient. `None` as action: nobody objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// What is done.
    pub action: Option<Action>,
    /// The hit that decided, an index into the hits.
    pub hit: Option<usize>,
    /// Why.
    pub reason: Reason,
    /// What the list would have done, had nothing softened it.
    pub unsoftened: Option<Action>,
}

impl Policy {
    /// The lists that affect mail to this recipient. None at all: it is exempt.
    pub fn reach(&self, recipient: &[u8], desk: &mut Desk) -> u64 {
        let form = desk.whitelist_form.get_or_insert_with(Canonical::new);
        if self
            .exempt_recipients
            .find_recipient(recipient, form)
            .is_some()
        {
            return 0;
        }
        let mut reach = 0;
        for (index, list) in self.lists.iter().enumerate() {
            let terms = &list.terms;
            let wanted = terms.recipients.is_empty()
                || terms.recipients.find_recipient(recipient, form).is_some();
            if wanted
                && terms
                    .except_recipients
                    .find_recipient(recipient, form)
                    .is_none()
            {
                reach |= 1 << index;
            }
        }
        reach
    }

    /// One verdict from all hits, for recipients within `reach`.
    ///
    /// At RCPT, `reach` is of that recipient alone; at the end of the headers, of all that were accepted.
    pub fn decide(&self, hits: &[Hit], reach: Reach, softening: Softening) -> Verdict {
        let mut verdict = Verdict {
            action: None,
            hit: None,
            reason: Reason::Unlisted,
            unsoftened: None,
        };
        let envelope_listed = hits
            .iter()
            .any(|hit| hit.identity == Identity::MailFrom && hit.cleared.is_none());
        let softening = Softening {
            mailing_list: softening.mailing_list && !envelope_listed,
            ..softening
        };
        for (index, hit) in hits.iter().enumerate() {
            let Some(list) = self.lists.get(hit.list) else {
                continue;
            };
            let unsoftened = self.action(hit, &list.terms);
            let (action, reason) = judge(hit, &list.terms, unsoftened, reach, softening);
            // Even without an action the first reason is worth telling: why a listed sender came through.
            if action > verdict.action || verdict.hit.is_none() {
                verdict = Verdict {
                    action,
                    hit: Some(index),
                    reason,
                    unsoftened: Some(unsoftened),
                };
            }
        }
        verdict
    }

    fn action(&self, hit: &Hit, terms: &Terms) -> Action {
        match hit.cause {
            Cause::Proved { .. } | Cause::Unproved => terms.action,
            Cause::Undecided(_) => self.undecided.unwrap_or(Action::Tempfail),
        }
    }
}

/// What one hit asks for, and why it is that.
fn judge(
    hit: &Hit,
    terms: &Terms,
    action: Action,
    reach: Reach,
    softening: Softening,
) -> (Option<Action>, Reason) {
    let bit = 1u64 << (hit.list % LISTS_MAX);
    if hit.cleared.is_some() {
        return (None, Reason::Whitelisted);
    }
    if reach.any & bit == 0 {
        return (None, Reason::ExemptRecipient);
    }
    let undecided = matches!(hit.cause, Cause::Undecided(_));
    let mut judged = (
        action,
        if undecided {
            Reason::Undecided
        } else {
            Reason::Listed
        },
    );
    let mut soften = |to: Action, reason: Reason| {
        if judged.0 > to {
            judged = (to, reason);
        }
    };
    // A message of which nothing is known is not tagged as if something were.
    let mildest = if undecided { Action::Log } else { Action::Tag };
    if let Some(milder) = terms.mailing_list
        && softening.mailing_list
        && hit.identity != Identity::Sender
    {
        soften(milder, Reason::MailingList);
    }
    if hit.weak && terms.weak == Weak::Tag {
        soften(Action::Tag, Reason::Weak);
    }
    if reach.all & bit == 0 {
        soften(mildest, Reason::MixedRecipients);
    }
    if softening.brake && action.refuses() && !undecided {
        soften(Action::Tag, Reason::RejectShare);
    }
    if terms.dry_run {
        soften(Action::Log, Reason::DryRun);
    }
    (Some(judged.0), judged.1)
}
