//! Looks up one sender in every list and the whitelist: which lists name it, and which whitelist
//! entry exempts it.
//!
//! Allocates only if something is found. A [`Budget`] limits the work for one message. A sender beyond
//! it is not looked up, and then it is unknown whether the message is listed.

use std::ops::ControlFlow;

use super::exempt::Entries;
use super::list::{List, Policy, Weak};
use crate::sender::{Identity, Sender, Strength};
use blocklist_filter::address::{Canonical, Kind, Kinds, Rules};
use blocklist_filter::filter::Record;
use blocklist_filter::lookup::{Outcome, Reads};

/// Most hits kept of a message. Further ones are kept only if no earlier one is judged alike.
const HITS_MAX: usize = 100;

/// Most look-ups for one message. Ten senders in 64 lists with every kind of entry need 10,000.
const LOOKUPS_MAX: u32 = 16_384;
/// Most bytes of addresses that are converted to canonical form for one message. A real message has
/// a few hundred. In the most expensive case the limit means a few milliseconds.
const BYTES_MAX: u32 = 32 << 10;

/// Look-ups and bytes of a turn, which takes a fraction of a millisecond.
const LOOKUPS_A_TURN: u32 = 1024;
const BYTES_A_TURN: u32 = 2 << 10;
/// How often, at most, an address is parsed to find it in the whitelist.
const WHITELIST_READS: usize = 4;

/// The work that may still be done for a message, or in a turn: between the turns of a message that
/// needs more, the other connections of its thread get theirs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Budget {
    lookups: u32,
    bytes: u32,
}

impl Default for Budget {
    fn default() -> Self {
        Self {
            lookups: LOOKUPS_MAX,
            bytes: BYTES_MAX,
        }
    }
}

/// The budget of a message is exhausted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exhausted;

impl Budget {
    /// Returns whether the work since `start` is enough for a turn.
    pub fn is_a_turn_from(&self, start: &Self) -> bool {
        start.lookups - self.lookups >= LOOKUPS_A_TURN || start.bytes - self.bytes >= BYTES_A_TURN
    }

    fn look_up(&mut self) -> Result<(), Exhausted> {
        self.lookups = self.lookups.checked_sub(1).ok_or(Exhausted)?;
        Ok(())
    }

    fn read(&mut self, address: &[u8], times: usize) -> Result<(), Exhausted> {
        let bytes = u32::try_from(address.len() * times).map_err(|_| Exhausted)?;
        self.bytes = self.bytes.checked_sub(bytes).ok_or(Exhausted)?;
        Ok(())
    }
}

/// Memory of a connection for canonical forms.
#[derive(Default)]
pub struct Scratch {
    forms: Vec<Canonical>,
    pub(super) whitelist_form: Canonical,
    /// Whether it was used for an address longer than any in a real message.
    is_large: bool,
}

impl Scratch {
    pub(super) fn note(&mut self, bytes: usize) {
        /// SMTP allows 320 (RFC 5321 section 4.5.3.1).
        const LARGE_BYTES: usize = 1024;
        self.is_large |= bytes > LARGE_BYTES;
    }

    /// Frees the memory for long addresses.
    pub fn give_back(&mut self) {
        if self.is_large {
            *self = Self::default();
        }
    }
}

/// One step of the look-ups, to show how a verdict was reached.
#[derive(Debug)]
pub enum Seen<'a> {
    /// The sender is not an address, so there is nothing to look up.
    NoAddress,
    Entry {
        /// Index of the list.
        list: usize,
        kind: Kind,
        /// Its canonical text.
        entry: &'a [u8],
        outcome: Outcome<'a>,
    },
    /// The last hit does not count, because this entry of the whitelist exempts the address.
    Cleared(&'a [u8]),
    /// The whitelist names the address, but no trusted DKIM result is aligned with it.
    Unaligned(&'a [u8]),
    /// The address is a correspondent, but the list does not exempt them.
    NotExempt,
}

/// Why a sender counts as listed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Evidence {
    /// This record proves it.
    Proved(Record),
    /// Only the Bloom pages match.
    Unproved,
    /// Unknown, because the look-up failed.
    Undecided(String),
}

/// A sender of the message that is on a list.
#[derive(Clone, Debug)]
pub struct Hit {
    /// Index of the list.
    pub list: usize,
    /// The field with the address.
    pub identity: Identity,
    /// How certain it is that the field names it as a sender.
    pub strength: Strength,
    /// The address as written.
    pub address: Box<[u8]>,
    pub canonical: Box<[u8]>,
    /// The entry of the list.
    pub entry: Box<[u8]>,
    pub evidence: Evidence,
    /// The entry of the whitelist that exempts it.
    pub cleared: Option<Box<[u8]>>,
}

impl Hit {
    /// Returns whether it is unknown if the sender is listed.
    pub fn is_undecided(&self) -> bool {
        matches!(self.evidence, Evidence::Undecided(_))
    }

    fn is_judged_as(&self, other: &Self) -> bool {
        (self.list, self.identity, self.strength) == (other.list, other.identity, other.strength)
            && self.cleared.is_some() == other.cleared.is_some()
            && self.is_undecided() == other.is_undecided()
    }
}

/// The conditions for examining senders.
pub struct Circumstances<'a> {
    pub reads: Reads<'a>,
    pub budget: &'a mut Budget,
    /// Today, in days since 1970. Entries that expire on or before this day are no longer listed.
    pub today: u16,
    /// Returns whether a trusted DKIM signature is aligned with this domain.
    pub aligned: &'a dyn Fn(&[u8]) -> bool,
}

type Found = (Kind, Box<[u8]>, Evidence);

impl List {
    fn find(
        &self,
        number: usize,
        form: &Canonical,
        now: &mut Circumstances<'_>,
        seen: &mut impl FnMut(Seen<'_>),
    ) -> Result<Option<Found>, Exhausted> {
        let Some(lookup) = &self.lookup else {
            let evidence = Evidence::Undecided(String::new());
            return Ok(Some((Kind::Mailbox, form.as_bytes().into(), evidence)));
        };
        let Circumstances {
            reads,
            budget,
            today,
            ..
        } = now;
        // A page that cannot be read must not hide a hit of another entry.
        let mut failed = None;
        let found = lookup.visit(form, *today, reads, |kind, entry, outcome| {
            if budget.look_up().is_err() {
                return ControlFlow::Break(Err(Exhausted));
            }
            let evidence = match &outcome {
                Outcome::Miss | Outcome::FalsePositive | Outcome::Expired(_) | Outcome::Unread => {
                    None
                }
                Outcome::Unproved => Some(Evidence::Unproved),
                Outcome::Listed(record) => Some(Evidence::Proved(*record)),
                Outcome::Failed(error) => Some(Evidence::Undecided(error.to_string())),
            };
            seen(Seen::Entry {
                list: number,
                kind,
                entry,
                outcome,
            });
            match evidence {
                None => ControlFlow::Continue(()),
                Some(evidence @ Evidence::Undecided(_)) => {
                    failed.get_or_insert_with(|| (kind, Box::from(entry), evidence));
                    ControlFlow::Continue(())
                }
                Some(evidence) => ControlFlow::Break(Ok((kind, Box::from(entry), evidence))),
            }
        });
        match found {
            ControlFlow::Break(found) => found.map(Some),
            ControlFlow::Continue(()) => Ok(failed),
        }
    }
}

impl Policy {
    /// Looks up one sender in every list that checks its identity. `seen` gets every look-up. An
    /// error means that not everything was looked up.
    pub fn examine(
        &self,
        sender: &Sender<'_>,
        now: &mut Circumstances<'_>,
        scratch: &mut Scratch,
        hits: &mut Vec<Hit>,
        mut seen: impl FnMut(Seen<'_>),
    ) -> Result<(), Exhausted> {
        now.budget.read(sender.address, self.rules.len())?;
        scratch.note(sender.address.len());
        scratch.forms.resize_with(self.rules.len(), Canonical::new);
        for (form, &rules) in scratch.forms.iter_mut().zip(&self.rules) {
            if form.read(sender.address, rules).is_err() {
                seen(Seen::NoAddress);
                return Ok(());
            }
        }
        let whitelist_form = &mut scratch.whitelist_form;
        for (index, list) in self.lists.iter().enumerate() {
            if !list.terms.check.contains(&sender.identity)
                || (sender.strength != Strength::Strong && list.terms.weak == Weak::Ignore)
            {
                continue;
            }
            let Some(form) = scratch.forms.get(list.rules) else {
                continue;
            };
            let Some((kind, entry, evidence)) = list.find(index, form, now, &mut seen)? else {
                continue;
            };
            if !self.whitelist.is_empty() || !self.correspondents.is_empty() {
                now.budget.read(sender.address, WHITELIST_READS)?;
            }
            let rules = self.rules.get(list.rules).copied().unwrap_or_default();
            let found = (kind, &*entry, rules);
            let exempts = list.terms.exempts_correspondents;
            let cleared = self.cleared_by(sender, found, exempts, now, whitelist_form, &mut seen);
            let cleared = cleared.map(Box::from);
            let hit = Hit {
                list: index,
                identity: sender.identity,
                strength: sender.strength,
                address: sender.address.into(),
                canonical: form.as_bytes().into(),
                entry,
                evidence: self.doubted(list, cleared.is_some()).unwrap_or(evidence),
                cleared,
            };
            if hits.len() < HITS_MAX || !hits.iter().any(|known| known.is_judged_as(&hit)) {
                hits.push(hit);
            }
        }
        Ok(())
    }

    fn doubted(&self, list: &List, is_cleared: bool) -> Option<Evidence> {
        let doubt = match &list.doubt {
            Some(doubt) => doubt.to_string(),
            None if !is_cleared && self.whitelist_is_incomplete => {
                "the whitelist cannot be read".to_owned()
            }
            None => return None,
        };
        Some(Evidence::Undecided(doubt))
    }

    /// The entry of the whitelist, or of the correspondents, that clears this sender of a hit on an
    /// entry under a list's rules, if it counts for this message; `exempts`: whether the list exempts the latter.
    fn cleared_by(
        &self,
        sender: &Sender<'_>,
        hit: (Kind, &[u8], Rules),
        exempts: bool,
        now: &Circumstances<'_>,
        form: &mut Canonical,
        seen: &mut impl FnMut(Seen<'_>),
    ) -> Option<&[u8]> {
        let sets = [
            (&self.whitelist, self.whitelist_wants_dkim, true),
            (&self.correspondents, self.correspondents_want_dkim, exempts),
        ];
        let mut unaligned = None;
        for (entries, wants_dkim, counts) in sets {
            if entries.is_empty() {
                continue;
            }
            let Some(entry) = named_by(entries, sender.address, hit, form, now.today) else {
                continue;
            };
            if !counts {
                seen(Seen::NotExempt);
                continue;
            }
            if !wants_dkim
                || sender.identity == Identity::MailFrom
                || is_aligned(sender.address, form, now)
            {
                seen(Seen::Cleared(entry));
                return Some(entry);
            }
            unaligned = Some(entry);
        }
        if let Some(entry) = unaligned {
            seen(Seen::Unaligned(entry));
        }
        None
    }
}

/// Whether a trusted DKIM signature is aligned with the domain of this address; `form` holds the
/// form by which it was just found.
fn is_aligned(address: &[u8], form: &mut Canonical, now: &Circumstances<'_>) -> bool {
    // A provider with several domains signs with the domain that was written.
    let rules = Rules {
        providers: false,
        ..Rules::default()
    };
    (now.aligned)(form.domain())
        || form.read(address, rules).is_ok() && (now.aligned)(form.domain())
}

/// The entry of these that names this address; leaves in `form` the form by which it was found.
///
/// An address is looked up by the default rules, and by those of the list: if a list takes
/// `good+tag@x` for `good@x`, a whitelist entry for one also clears the other. The sender inside an
/// SRS address can only clear a hit on itself, because anybody can write it there.
fn named_by<'e>(
    entries: &'e Entries,
    address: &[u8],
    (kind, entry, rules): (Kind, &[u8], Rules),
    form: &mut Canonical,
    today: u16,
) -> Option<&'e [u8]> {
    form.read(address, Entries::rules()).ok()?;
    let mut found = entries.find(form, today);
    if found.is_none() && rules != Entries::rules() {
        let outer = Rules {
            srs: false,
            ..rules
        };
        form.read(address, outer).ok()?;
        found = entries.find(form, today);
        if found.is_none() && rules.srs && !is_found_by(form, kind, entry) {
            form.read(address, rules).ok()?;
            found = entries.find(form, today);
        }
    }
    found
}

fn is_found_by(form: &Canonical, kind: Kind, entry: &[u8]) -> bool {
    let found = form.lookups(Kinds::from_iter([kind]), |_, looked_up| {
        match looked_up == entry {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        }
    });
    found.is_break()
}
