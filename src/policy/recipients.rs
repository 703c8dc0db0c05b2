//! Which lists affect which recipients of a message, and whether they can share one answer.
//!
//! A hit on the envelope sender is answered for each recipient. A hit in a header gets one answer
//! for all recipients of the transaction, and SMTP cannot drop one of them without loss. So a
//! sender who adds one recipient that is always reachable (`postmaster@`) would turn the refusal
//! for everybody into a tag. [`MixedRecipients::Defer`] prevents that: such recipients get
//! transactions of their own. RFC 5321 section 4.5.3.1.10 defines the reply, 452, and the client's
//! reaction: the recipients accepted so far get the message, the others stay queued.

use super::action::Action;
use super::examine::{Hit, Scratch};
use super::exempt::Recipient;
use super::list::{MixedRecipients, Policy};
use crate::sender::Identity;

/// Most sets of lists that are distinguished among the recipients of a message.
const SETS_MAX: usize = 64;

/// The sets of lists (as bits) that affect a message's accepted recipients, each set once.
#[derive(Default)]
pub struct ListSets(Vec<u64>);

impl ListSets {
    /// Every list affects every recipient.
    pub const EVERYBODY: &[u64] = &[u64::MAX];

    /// Adds an accepted recipient that these lists affect.
    pub fn add(&mut self, lists: u64) {
        if self.0.contains(&lists) {
            return;
        }
        if self.0.len() < SETS_MAX {
            self.0.push(lists);
        } else if let Some([common, any]) = self.0.last_chunk_mut() {
            // The intersection is too strict for no recipient; the union forgets no list, so a hit
            // still gets its tag.
            (*common, *any) = (*common & *any & lists, *common | *any | lists);
        }
    }

    /// Adds an accepted recipient that cannot be told apart from the others: what is said about one of
    /// them is said about all.
    pub fn unite(&mut self, lists: u64) {
        let all = self.0.iter().fold(lists, |all, set| all | set);
        self.0.clear();
        self.0.push(all);
    }

    /// Returns the sets; empty before the first recipient.
    pub fn sets(&self) -> &[u64] {
        &self.0
    }

    /// Removes the recipients, and keeps the memory.
    pub fn clear(&mut self) {
        self.0.clear();
    }
}

impl Policy {
    /// Returns whether a recipient may soften what happens to the mail of others.
    pub fn softens_mixed(&self) -> bool {
        self.mixed_recipients != MixedRecipients::Defer
    }

    /// Returns the lists that affect mail to this recipient; 0 means that it is exempt.
    pub fn lists_for(&self, recipient: Recipient<'_>, scratch: &mut Scratch) -> u64 {
        scratch.note(recipient.longest());
        let form = &mut scratch.whitelist_form;
        let exempt = &self.exempt_recipients;
        if exempt.find_exempt(recipient, form).is_some() {
            return 0;
        }
        let mut lists = 0;
        for (index, list) in self.lists.iter().enumerate() {
            let (only, except) = (&list.terms.recipients, &list.terms.except_recipients);
            let is_wanted = only.is_empty() || only.find_recipient(recipient, form).is_some();
            if is_wanted && except.find_exempt(recipient, form).is_none() {
                lists |= 1 << index;
            }
        }
        lists
    }

    /// Returns whether a recipient that these lists affect needs a transaction of its own: some
    /// list with an action stronger than a tag affects it and not the recipients accepted before,
    /// or vice versa. A list that checks only the envelope sender matters only if it was hit.
    pub fn is_apart(&self, lists: u64, accepted: &ListSets, hits: &[Hit]) -> bool {
        let Some(&first) = accepted.sets().first() else {
            return false;
        };
        self.mixed_recipients == MixedRecipients::Defer
            && self.lists.iter().enumerate().any(|(index, list)| {
                let terms = &list.terms;
                let in_header = |&identity: &Identity| identity != Identity::MailFrom;
                (first ^ lists) & (1 << index) != 0
                    && !terms.dry_run
                    && terms.action > Action::Tag
                    && (terms.check.iter().any(in_header)
                        || hits
                            .iter()
                            .any(|hit| hit.list == index && hit.cleared.is_none()))
            })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn beyond_the_bound_no_list_is_forgotten_and_none_goes_too_far() {
        let mut sets = ListSets::default();
        for index in 0..SETS_MAX {
            sets.add(1 << index | 1);
        }
        assert_eq!(sets.sets().len(), SETS_MAX);
        for lists in [0b1010, 0b0110] {
            sets.add(lists);
        }
        assert_eq!(sets.sets().len(), SETS_MAX);
        assert_eq!(sets.sets()[SETS_MAX - 2..], [0, 1 << 62 | 1 << 63 | 0b1111]);
    }
}
