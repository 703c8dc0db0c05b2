//! Hits, recipients and what softens make one verdict.

use super::action::{Action, Effect};
use super::definition::{LISTS_MAX, Policy};
use super::examine::Hit;
use super::list::{List, Terms, Weak};
use crate::sender::{Identity, Strength};

/// Facts about the message that soften a verdict.
#[derive(Clone, Copy, Debug, Default)]
pub struct Softening {
    /// It came through a mailing list (List-Id, List-Post).
    pub mailing_list: bool,
    /// Too much is being refused: refusals become tags.
    pub circuit_breaker: bool,
}

/// Why the verdict is not simply the list's action.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// It is the list's action.
    Listed,
    /// Nobody is listed.
    Unlisted,
    /// Every hit is on a whitelisted address.
    Whitelisted,
    /// No recipient is affected.
    ExemptRecipient,
    /// Not all recipients are affected, and one answer is for all: tagged instead, or asked to come apart.
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
    /// All.
    pub const ALL: [Self; 10] = [
        Self::Listed,
        Self::Unlisted,
        Self::Whitelisted,
        Self::ExemptRecipient,
        Self::MixedRecipients,
        Self::MailingList,
        Self::Weak,
        Self::DryRun,
        Self::RejectShare,
        Self::Undecided,
    ];

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
    /// The list's own action, where the reason led to a milder one.
    pub unsoftened: Option<Action>,
}

impl Verdict {
    /// A recipient who is to come in a transaction of its own.
    pub const APART: Self = Self {
        action: Some(Action::Tempfail),
        hit: None,
        reason: Reason::MixedRecipients,
        unsoftened: None,
    };

    /// Nobody is listed, or nobody was looked up.
    pub const UNLISTED: Self = Self {
        action: None,
        hit: None,
        reason: Reason::Unlisted,
        unsoftened: None,
    };

    /// What happens to the message.
    pub fn effect(&self) -> Effect {
        self.action.map_or(Effect::Accept, Action::effect)
    }

    /// Whether the client gets a refusal.
    pub fn refuses(&self) -> bool {
        self.action.is_some_and(Action::refuses)
    }
}

impl Policy {
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
        if mildest.action == strongest || mildest.refuses() {
            return mildest;
        }
        each()
            .map(soften_for_others)
            .max_by_key(action)
            .unwrap_or(mildest)
    }

    /// Whether no further hit could change what is done: for each set of lists there is a hit that
    /// nothing softens, and none of its lists could ask for more than that one does.
    pub fn is_final(&self, hits: &[Hit], reach: &[u64], softening: Softening) -> bool {
        reach.iter().all(|&lists| {
            let strongest = self.strongest(lists, |_| true);
            let verdict = self.decide_for(hits, lists, softening);
            strongest.is_none() || verdict.reason == Reason::Listed && verdict.action >= strongest
        })
    }

    /// The strongest action that a hit in one of these lists can lead to, of those that are asked for.
    fn strongest(&self, lists: u64, counts: impl Fn(&Terms) -> bool) -> Option<Action> {
        let affecting = |index: usize| lists & (1 << index) != 0;
        let action = |list: &List| match list.terms.dry_run {
            true => Action::Log,
            false => list.terms.action,
        };
        let lists = self.lists.iter().enumerate();
        lists
            .filter(|&(index, list)| affecting(index) && counts(&list.terms))
            .map(|(_, list)| action(list))
            .max()
    }

    /// The verdict on a message that names more senders than are looked up, given the one on those that
    /// are: nobody knows whether the others are listed. `envelope`: the sender of the envelope is one of
    /// the others.
    pub fn decide_truncated(&self, verdict: Verdict, reach: &[u64], envelope: bool) -> Verdict {
        let undecided = self.undecided.unwrap_or(Action::Tempfail);
        if verdict.refuses() || !undecided.refuses() {
            return verdict;
        }
        let counts =
            |terms: &Terms| envelope || terms.check.iter().any(|&one| one != Identity::MailFrom);
        let strongest = || reach.iter().map(|&lists| self.strongest(lists, counts));
        let truncated = |action| Verdict {
            action: Some(action),
            hit: None,
            reason: Reason::Undecided,
            unsoftened: None,
        };
        if strongest().all(|action| action > Some(Action::Tag)) {
            return truncated(undecided);
        }
        // Some recipient is not to be kept waiting. A hit that was seen has precedence.
        let may_be_tagged = strongest().any(|action| action >= Some(Action::Tag));
        if verdict.action >= Some(Action::Tag) || !may_be_tagged {
            return verdict;
        }
        truncated(Action::Tag)
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
            let undecided = self.undecided.unwrap_or(Action::Tempfail);
            let (action, reason) = judge(hit, &list.terms, undecided, lists, softening);
            let unsoftened = match hit.is_undecided() && list.terms.action > Action::Tag {
                true => undecided,
                false => list.terms.action,
            };
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
}

/// The list of a hit in a set of lists.
fn bit(hit: &Hit) -> u64 {
    1 << (hit.list % LISTS_MAX)
}

/// What one hit asks for, and why it is that; `undecided`: what is done when that is not known.
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
        // Not to know is never worse than to know.
        (Some(action.min(undecided)), Reason::Undecided)
    }
}

/// The part of a verdict that may be done although other recipients do not share it. Undecided is not clean: the
/// tag says which it is.
fn soften_for_others(verdict: Verdict) -> Verdict {
    // Without the circuit breaker it would have come here, too.
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
