//! Hits, recipients and what softens make one verdict.

use super::examine::{Desk, Hit};
use super::exempt::Recipient;
use super::list::{Action, Terms, Weak};
use super::{LISTS_MAX, Policy};
use crate::address::Canonical;
use crate::sender::Identity;

/// Most sets of lists that are told apart among the recipients of a message.
const SETS_MAX: usize = 64;

/// The sets of lists (their bits) that affect a message's accepted recipients, each set once.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reach {
    sets: Vec<u64>,
}

impl Reach {
    /// As if every list affected everybody.
    pub const EVERYBODY: &[u64] = &[u64::MAX];

    /// One more accepted recipient, affected by these lists.
    pub fn add(&mut self, lists: u64) {
        if self.sets.contains(&lists) {
            return;
        }
        if self.sets.len() < SETS_MAX {
            self.sets.push(lists);
        } else if let Some(last) = self.sets.last_mut() {
            // What both have in common goes too far for neither.
            *last &= lists;
        }
    }

    /// The sets, none before the first recipient.
    pub fn sets(&self) -> &[u64] {
        &self.sets
    }

    /// Forgets the recipients, keeps the memory.
    pub fn clear(&mut self) {
        self.sets.clear();
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
    /// Not all recipients are affected, and one answer is for all: tagged instead.
    MixedRecipients,
    /// Came through a mailing list, and the envelope sender is not listed.
    MailingList,
    /// The address stood where none belongs.
    Weak,
    /// The list is on trial.
    DryRun,
    /// `max_reject_share` is passed.
    RejectShare,
    /// A filter could not be read, or there are more senders than are kept.
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

impl Verdict {
    /// Nobody is listed, or nobody was looked up.
    pub const UNLISTED: Self = Self {
        action: None,
        hit: None,
        reason: Reason::Unlisted,
        unsoftened: None,
    };
}

impl Policy {
    /// The lists that affect mail to this recipient. None at all: it is exempt.
    pub fn reach(&self, recipient: Recipient<'_>, desk: &mut Desk) -> u64 {
        let form = desk.whitelist_form.get_or_insert_with(Canonical::new);
        if self
            .exempt_recipients
            .find_exempt(recipient, form)
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
                    .find_exempt(recipient, form)
                    .is_none()
            {
                reach |= 1 << index;
            }
        }
        reach
    }

    /// One verdict from all hits, for recipients that are affected by these sets of lists.
    ///
    /// At RCPT there is the set of that recipient alone; at the end of the headers those of all that
    /// were accepted. Where they want different things, one answer has to do for all: refused is what
    /// each of them would have refused, and otherwise nobody gets worse than a tag.
    pub fn decide(&self, hits: &[Hit], reach: &[u64], softening: Softening) -> Verdict {
        let each = || {
            reach
                .iter()
                .map(|&lists| self.decide_for(hits, lists, softening))
        };
        let action = |verdict: &Verdict| verdict.action;
        let strongest = each().max_by_key(action).and_then(|verdict| verdict.action);
        let Some(mildest) = each().min_by_key(action) else {
            return Verdict::UNLISTED;
        };
        if mildest.action == strongest || mildest.action.is_some_and(Action::refuses) {
            return mildest;
        }
        each()
            .map(|verdict| soften_for_others(verdict, hits))
            .max_by_key(action)
            .unwrap_or(mildest)
    }

    /// The verdict on a message that names more senders than are kept, given the one on those that are:
    /// nobody knows whether the others are listed.
    pub fn decide_truncated(&self, verdict: Verdict, reach: &[u64]) -> Verdict {
        let undecided = self.undecided.unwrap_or(Action::Tempfail);
        let acting = |lists: u64| {
            self.lists.iter().enumerate().any(|(index, list)| {
                lists & (1 << index) != 0 && !list.terms.dry_run && list.terms.action > Action::Log
            })
        };
        let refused = verdict.action.is_some_and(Action::refuses);
        if refused || !undecided.refuses() || !reach.iter().all(|&lists| acting(lists)) {
            return verdict;
        }
        Verdict {
            action: Some(undecided),
            hit: None,
            reason: Reason::Undecided,
            unsoftened: None,
        }
    }

    /// The verdict for a recipient that these lists affect.
    fn decide_for(&self, hits: &[Hit], lists: u64, softening: Softening) -> Verdict {
        let mut verdict = Verdict::UNLISTED;
        let envelope_listed = hits.iter().any(|hit| {
            hit.identity == Identity::MailFrom
                && hit.cleared.is_none()
                && !hit.is_undecided()
                && lists & bit(hit) != 0
                && self.lists.get(hit.list).is_some_and(|list| {
                    // A list that changes nothing by itself does not by another list either.
                    !list.terms.dry_run && list.terms.action != Action::Log
                })
        });
        let softening = Softening {
            mailing_list: softening.mailing_list && !envelope_listed,
            ..softening
        };
        for (index, hit) in hits.iter().enumerate() {
            let Some(list) = self.lists.get(hit.list) else {
                continue;
            };
            let unsoftened = self.action(hit, &list.terms);
            let (action, reason) = judge(hit, &list.terms, unsoftened, lists, softening);
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
        if hit.is_undecided() && terms.action != Action::Log {
            self.undecided.unwrap_or(Action::Tempfail)
        } else {
            terms.action
        }
    }
}

/// The list of a hit in a set of lists.
fn bit(hit: &Hit) -> u64 {
    1 << (hit.list % LISTS_MAX)
}

/// What one hit asks for, and why it is that.
fn judge(
    hit: &Hit,
    terms: &Terms,
    action: Action,
    lists: u64,
    softening: Softening,
) -> (Option<Action>, Reason) {
    if hit.cleared.is_some() {
        return (None, Reason::Whitelisted);
    }
    if lists & bit(hit) == 0 {
        return (None, Reason::ExemptRecipient);
    }
    let undecided = hit.is_undecided();
    let mut judged = if undecided {
        (action, Reason::Undecided)
    } else {
        (action, Reason::Listed)
    };
    let mut soften = |to: Action, reason: Reason| {
        if judged.0 > to {
            judged = (to, reason);
        }
    };
    // A message of which nothing is known is not tagged as if something were.
    if !undecided {
        if let Some(milder) = terms.mailing_list
            && softening.mailing_list
            && !matches!(hit.identity, Identity::MailFrom | Identity::Sender)
        {
            soften(milder, Reason::MailingList);
        }
        if hit.weak && terms.weak == Weak::Tag {
            soften(Action::Tag, Reason::Weak);
        }
        if softening.brake && action.refuses() {
            soften(Action::Tag, Reason::RejectShare);
        }
    }
    if terms.dry_run {
        soften(Action::Log, Reason::DryRun);
    }
    (Some(judged.0), judged.1)
}

/// What of a verdict may be done although other recipients do not share it.
fn soften_for_others(verdict: Verdict, hits: &[Hit]) -> Verdict {
    let undecided = verdict
        .hit
        .and_then(|index| hits.get(index))
        .is_some_and(Hit::is_undecided);
    let most = if undecided { Action::Log } else { Action::Tag };
    // Without the brake it would have come here, too.
    if verdict.action > Some(most) || verdict.reason == Reason::RejectShare {
        Verdict {
            action: Some(most),
            reason: Reason::MixedRecipients,
            ..verdict
        }
    } else {
        verdict
    }
}
