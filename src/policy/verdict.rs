//! From hits and recipients to one verdict, softened by the circumstances.

use super::action::Action;
use super::examine::Hit;
use super::list::{LISTS_MAX, List, Policy, Terms, Weak};
use crate::sender::{Identity, Strength};
use blocklist_filter::base::named::named;

/// Facts about the message that soften a verdict.
#[derive(Clone, Copy, Debug, Default)]
pub struct Softening {
    /// It came through a mailing list (List-Id, List-Post).
    pub mailing_list: bool,
    /// Too many messages are being refused: refusals become tags.
    pub circuit_breaker: bool,
}

named! {
    /// Why the verdict differs from the list's action, or that it does not.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum Reason {
        /// It is the list's action.
        Listed = "listed",
        /// No sender is listed.
        Unlisted = "unlisted",
        /// Every hit is on a whitelisted address.
        Whitelisted = "whitelisted",
        /// The lists do not affect this recipient.
        ExemptRecipient = "exempt-recipient",
        /// Not all recipients are affected, but all get one answer: tagged instead, or deferred.
        MixedRecipients = "mixed-recipients",
        /// The message came through a mailing list, and the envelope sender is not listed.
        MailingList = "mailing-list",
        /// The address was in a place where none belongs.
        Weak = "weak-address",
        /// The list is in a dry run.
        DryRun = "dry-run",
        /// `max_reject_share` is exceeded.
        RejectShare = "max-reject-share",
        /// A filter could not be read, or there are more senders than the limit.
        Undecided = "undecided",
        /// The client is authenticated; like that of the next two, no sender was looked up.
        Authenticated = "authenticated",
        /// It was submitted on this machine without SMTP: a refusal would bounce to a forged sender.
        Local = "local",
        /// The client is in one of the configured `networks`.
        Network = "network",
    }
}

/// The verdict on a message or a recipient. An action of `None` means that no list objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Verdict {
    pub action: Option<Action>,
    /// The deciding hit, as an index into the hits.
    pub hit: Option<usize>,
    pub reason: Reason,
    /// The list's own action, if the reason led to a milder one.
    pub unsoftened: Option<Action>,
}

impl Verdict {
    /// For a recipient that needs a transaction of its own.
    pub const APART: Self = Self {
        action: Some(Action::Tempfail),
        reason: Reason::MixedRecipients,
        ..Self::UNLISTED
    };

    /// No sender is listed, or none was looked up.
    pub const UNLISTED: Self = Self {
        action: None,
        hit: None,
        reason: Reason::Unlisted,
        unsoftened: None,
    };

    /// Returns the deciding one of the hits.
    pub fn hit_of<'h>(&self, hits: &'h [Hit]) -> Option<&'h Hit> {
        hits.get(self.hit?)
    }

    /// Returns the action of the list, if a milder one was taken.
    pub fn softened(&self) -> Option<Action> {
        self.unsoftened.filter(|&own| Some(own) != self.action)
    }

    pub fn refuses(&self) -> bool {
        self.action.is_some_and(Action::refuses)
    }
}

impl Policy {
    /// Returns one verdict from all hits, for recipients that are affected by these sets of lists.
    ///
    /// At RCPT there is only the set of that recipient; at the end of the headers there are those
    /// of all accepted recipients. If their verdicts differ, one answer must fit all: the message
    /// is refused only if it would be refused for each of them, and otherwise it is at most tagged.
    pub fn decide(&self, hits: &[Hit], list_sets: &[u64], softening: Softening) -> Verdict {
        let decide = |&lists: &u64| self.decide_for(hits, lists, softening);
        let each = || list_sets.iter().map(decide);
        let action = |verdict: &Verdict| verdict.action;
        let strongest = each().max_by_key(action).and_then(|verdict| verdict.action);
        let Some(mildest) = each().min_by_key(action) else {
            return Verdict::UNLISTED;
        };
        if mildest.action == strongest || mildest.refuses() {
            return mildest;
        }
        each()
            .map(soften_for_others)
            .max_by_key(action)
            .unwrap_or(mildest)
    }

    /// Returns whether no further hit could change the result: for each set of lists there is a hit
    /// that nothing softens, and none of these lists has a stronger action.
    pub fn is_final(&self, hits: &[Hit], list_sets: &[u64], softening: Softening) -> bool {
        list_sets.iter().all(|&lists| {
            let strongest = self.strongest(lists, |_| true);
            let verdict = self.decide_for(hits, lists, softening);
            strongest.is_none() || verdict.reason == Reason::Listed && verdict.action >= strongest
        })
    }

    fn strongest(&self, lists: u64, counts: impl Fn(&Terms) -> bool) -> Option<Action> {
        let affecting = |index: usize| lists & (1 << index) != 0;
        let action = |(_, list): (usize, &List)| match list.terms.dry_run {
            true => Action::Log,
            false => list.terms.action,
        };
        let lists = self.lists.iter().enumerate();
        let lists = lists.filter(|&(index, list)| affecting(index) && counts(&list.terms));
        lists.map(action).max()
    }

    /// Returns the verdict on a message with more senders than are looked up, given the verdict on
    /// those that are. `envelope` says whether the envelope sender is one of the others.
    pub fn decide_truncated(&self, verdict: Verdict, list_sets: &[u64], envelope: bool) -> Verdict {
        let undecided = self.undecided.unwrap_or(Action::Tempfail);
        if verdict.refuses() || !undecided.refuses() {
            return verdict;
        }
        let counts =
            |terms: &Terms| envelope || terms.check.iter().any(|&one| one != Identity::MailFrom);
        let strongest = || list_sets.iter().map(|&lists| self.strongest(lists, counts));
        let truncated = |action| Verdict {
            action: Some(action),
            reason: Reason::Undecided,
            ..Verdict::UNLISTED
        };
        if strongest().all(|action| action > Some(Action::Tag)) {
            return truncated(undecided);
        }
        // Some recipient's mail must not be deferred. A hit that was seen takes precedence.
        let may_be_tagged = strongest().any(|action| action >= Some(Action::Tag));
        if verdict.action >= Some(Action::Tag) || !may_be_tagged {
            return verdict;
        }
        truncated(Action::Tag)
    }

    fn decide_for(&self, hits: &[Hit], lists: u64, softening: Softening) -> Verdict {
        let mut verdict = Verdict::UNLISTED;
        let envelope_listed = hits.iter().any(|hit| {
            hit.identity == Identity::MailFrom
                && hit.cleared.is_none()
                && !hit.is_undecided()
                && lists & bit(hit) != 0
                && self.lists.get(hit.list).is_some_and(|list| {
                    // A list that changes nothing must not make another list stricter either.
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
            let undecided = self.undecided.unwrap_or(Action::Tempfail);
            let (action, reason) = judge(hit, &list.terms, undecided, lists, softening);
            let unsoftened = match hit.is_undecided() && list.terms.action > Action::Tag {
                true => undecided,
                false => list.terms.action,
            };
            // Even without an action, the first reason is reported: why a listed one was accepted.
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
}

fn bit(hit: &Hit) -> u64 {
    1 << (hit.list % LISTS_MAX)
}

/// `undecided` is the action for an undecided hit.
fn judge(
    hit: &Hit,
    terms: &Terms,
    undecided: Action,
    lists: u64,
    softening: Softening,
) -> (Option<Action>, Reason) {
    if hit.cleared.is_some() {
        return (None, Reason::Whitelisted);
    }
    if lists & bit(hit) == 0 {
        return (None, Reason::ExemptRecipient);
    }
    let mut judged = (terms.action, Reason::Listed);
    let mut soften = |to: Action, reason: Reason| {
        if judged.0 > to {
            judged = (to, reason);
        }
    };
    if let Some(milder) = terms.mailing_list
        && softening.mailing_list
        && !matches!(hit.identity, Identity::MailFrom | Identity::Sender)
    {
        soften(milder, Reason::MailingList);
    }
    let softened = match hit.strength {
        Strength::Strong => false,
        Strength::Weak => terms.weak == Weak::Tag,
        Strength::Doubtful => true,
    };
    if softened {
        soften(Action::Tag, Reason::Weak);
    }
    if softening.circuit_breaker && terms.action.refuses() {
        soften(Action::Tag, Reason::RejectShare);
    }
    if terms.dry_run {
        soften(Action::Log, Reason::DryRun);
    }
    let (action, reason) = judged;
    if !hit.is_undecided() || reason == Reason::DryRun {
        (Some(action), reason)
    } else if action > Action::Tag {
        (Some(undecided), Reason::Undecided)
    } else {
        // An unknown result never leads to more than a known one.
        (Some(action.min(undecided)), Reason::Undecided)
    }
}

/// Returns the part of a verdict that may apply although other recipients do not share it. Also
/// tags an undecided message, because undecided is not clean; the tag says which it is.
fn soften_for_others(verdict: Verdict) -> Verdict {
    // With the circuit breaker: without it, the action would be stronger than a tag.
    if verdict.action > Some(Action::Tag) || verdict.reason == Reason::RejectShare {
        Verdict {
            action: Some(Action::Tag),
            reason: Reason::MixedRecipients,
            ..verdict
        }
    } else {
        verdict
    }
}
