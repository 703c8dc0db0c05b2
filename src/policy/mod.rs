//! Senders and lists make a verdict. No I/O but look-ups in the filters, no clock, no state.
//!
//! A message is judged in this order:
//!
//! ```text
//! sender -> canonical form -> entries -> each list that checks this identity     examine()
//!    hit -> expired?  no longer a hit
//!        -> is the address on the whitelist?  this hit is cleared, no other
//!    hits -> for which recipients: exempt ones, recipients of the list           decide()
//!         -> softened: mixed recipients, mailing list, weak address, dry run, brake
//!         -> the strongest action wins
//! ```
//!
//! A hit counts only if a record proves it. A filter compiled without records cannot prove; its
//! list's action applies then, and whoever configured it was told what that costs. A filter that
//! cannot be read is neither hit nor miss: the message is *undecided*.
//!
//! There are at most [`LISTS_MAX`] lists, so that a set of lists is one `u64`.

mod authentication;
mod exempt;
mod list;
mod reply;
mod share;

use std::ops::ControlFlow;
use std::sync::Arc;

pub use authentication::dkim_domains;
pub use exempt::{Entries, Exemption, Network};
pub use list::{Action, List, Terms, Weak};
pub use reply::{Fields, Template, TemplateError};
pub use share::{Change, RejectShare};
use thiserror::Error;

use crate::address::{Canonical, Kind, Kinds, ParseError, RULES_VERSION, Rules, key};
use crate::filter::{Answer, Filter, Record};
use crate::sender::{Identity, Sender};

/// Most lists of a configuration: a set of lists is the bits of a `u64`.
pub const LISTS_MAX: usize = 64;
/// Most hits remembered of a message; a further one only if it is stronger than all before.
const HITS_MAX: usize = 100;

/// Why a list cannot be put in force.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum Error {
    /// The filter was made by other address rules, so its keys mean something else.
    #[error(
        "compiled with address rules {found} (options {options:#04x}), this program has {RULES_VERSION}: compile the list again"
    )]
    Rules {
        /// Version in the file.
        found: u16,
        /// Option bits in the file.
        options: u8,
    },
    /// More than [`LISTS_MAX`] lists.
    #[error("there are more than {LISTS_MAX} lists; merge some with blocklist-compile merge")]
    TooManyLists,
}

/// All lists in force and the whitelist above them.
#[derive(Debug, Default)]
pub struct Policy {
    lists: Vec<List>,
    /// The distinct rules among the lists: an address is brought to canonical form once for each.
    rules: Vec<Rules>,
    /// Addresses that are never refused.
    pub whitelist: Entries,
    /// Whether a whitelisted address in a header counts only when DKIM vouches for it.
    pub whitelist_wants_dkim: bool,
    /// Recipients that no list affects.
    pub exempt_recipients: Entries,
    /// What an address gets whose look-up failed: `Tempfail` or `Log`.
    pub undecided: Option<Action>,
}

/// Memory of a connection for canonical forms, so that a look-up allocates nothing.
#[derive(Default)]
pub struct Desk {
    forms: Vec<Canonical>,
    whitelist_form: Option<Canonical>,
}

/// One list's answer about one entry, for whoever wants to see how a verdict came about.
#[derive(Debug)]
pub enum Seen<'a> {
    /// The sender is no address: there is nothing to look up.
    NoAddress(&'a ParseError),
    /// An entry was looked up.
    Entry {
        /// Index of the list.
        list: usize,
        /// Its kind.
        kind: Kind,
        /// Its canonical text.
        entry: &'a [u8],
        /// What the filter said.
        outcome: Outcome<'a>,
    },
    /// The hit just seen does not count, because this entry of the whitelist clears the address.
    Cleared(&'a [u8]),
    /// The whitelist names the address, but no trusted DKIM result vouches for it.
    Unaligned(&'a [u8]),
}

/// What a filter said about an entry, dates considered.
#[derive(Debug)]
pub enum Outcome<'a> {
    /// Not listed.
    Miss,
    /// The Bloom page says yes, the records say no: not listed.
    FalsePositive,
    /// The Bloom page says yes and there are no records to ask.
    Unproved,
    /// Was listed, no longer is.
    Expired(Record),
    /// Listed.
    Listed(Record),
    /// The filter could not be read.
    Failed(&'a crate::filter::Error),
}

/// Why a sender is taken for listed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Cause {
    /// A record proves it.
    Proved {
        /// Number of its source in the list.
        source: u32,
        /// Day of entry, counted from 1970.
        added: u16,
    },
    /// Bloom pages alone.
    Unproved,
    /// Not known, since the look-up failed.
    Undecided(String),
}

/// A sender of the message that a list names.
#[derive(Clone, Debug)]
pub struct Hit {
    /// Index of the list.
    pub list: usize,
    /// Where the address stood.
    pub identity: Identity,
    /// Whether it stood where no address belongs.
    pub weak: bool,
    /// As written.
    pub address: Box<[u8]>,
    /// Canonical form.
    pub canonical: Box<[u8]>,
    /// The entry of the list.
    pub entry: Box<[u8]>,
    /// Its kind.
    pub kind: Kind,
    /// Proof.
    pub cause: Cause,
    /// The entry of the whitelist that clears it.
    pub cleared: Option<Box<[u8]>>,
}

/// What holds while one sender is examined.
#[derive(Clone, Copy)]
pub struct Circumstances<'a> {
    /// Day counted from 1970; entries that expired on it or before are no longer listed.
    pub today: u16,
    /// Whether DKIM vouches for this domain in a header, by an `Authentication-Results` we trust.
    pub aligned: &'a dyn Fn(&[u8]) -> bool,
}

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
    /// No lists yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Puts one more list in force.
    ///
    /// # Errors
    /// Its keys were made by rules this program does not have, or there are too many lists.
    pub fn add_list(&mut self, terms: Arc<Terms>, filter: Arc<Filter>) -> Result<(), Error> {
        if self.lists.len() == LISTS_MAX {
            return Err(Error::TooManyLists);
        }
        let spec = filter.spec();
        let rules = Rules::from_bits(spec.rules).filter(|_| spec.rules_version == RULES_VERSION);
        let kinds = Kinds::from_bits(spec.kinds);
        let (Some(rules), Some(kinds)) = (rules, kinds) else {
            return Err(Error::Rules {
                found: spec.rules_version,
                options: spec.rules,
            });
        };
        let seed = spec.seed;
        let rules = self
            .rules
            .iter()
            .position(|&known| known == rules)
            .unwrap_or_else(|| {
                self.rules.push(rules);
                self.rules.len() - 1
            });
        self.lists.push(List {
            terms,
            filter,
            rules,
            kinds,
            seed,
        });
        Ok(())
    }

    /// The lists, in the order of the configuration.
    pub fn lists(&self) -> &[List] {
        &self.lists
    }

    /// Whether any list's action is `action`, on trial or not.
    pub fn uses(&self, action: Action) -> bool {
        self.lists
            .iter()
            .any(|list| list.terms.action == action || list.terms.mailing_list == Some(action))
    }

    /// Looks one sender up in every list that checks its identity, and adds what is found to `hits`.
    ///
    /// `seen` is told of every look-up. A sender that no list names costs no allocation.
    pub fn examine(
        &self,
        sender: &Sender<'_>,
        now: Circumstances<'_>,
        desk: &mut Desk,
        hits: &mut Vec<Hit>,
        mut seen: impl FnMut(Seen<'_>),
    ) {
        desk.forms.resize_with(self.rules.len(), Canonical::new);
        for (form, &rules) in desk.forms.iter_mut().zip(&self.rules) {
            if let Err(error) = form.read(sender.address, rules) {
                seen(Seen::NoAddress(&error));
                return;
            }
        }
        for (index, list) in self.lists.iter().enumerate() {
            if !list.terms.check.contains(&sender.identity)
                || (sender.weak && list.terms.weak == Weak::Ignore)
            {
                continue;
            }
            let Some(form) = desk.forms.get(list.rules) else {
                continue;
            };
            // A page that cannot be read does not hide a hit of another entry.
            let mut failed = None;
            let found = form.lookups(list.kinds, |kind, entry| {
                let answer = list.filter.look_up(key(entry, list.seed));
                let (outcome, cause) = match &answer {
                    Ok(Answer::Miss) => (Outcome::Miss, None),
                    Ok(Answer::FalsePositive) => (Outcome::FalsePositive, None),
                    Ok(Answer::Unproved) => (Outcome::Unproved, Some(Cause::Unproved)),
                    Ok(Answer::Listed(record))
                        if record.expires.is_some_and(|day| day <= now.today) =>
                    {
                        (Outcome::Expired(*record), None)
                    }
                    Ok(Answer::Listed(record)) => (
                        Outcome::Listed(*record),
                        Some(Cause::Proved {
                            source: record.source,
                            added: record.added,
                        }),
                    ),
                    Err(error) => (
                        Outcome::Failed(error),
                        Some(Cause::Undecided(error.to_string())),
                    ),
                };
                seen(Seen::Entry {
                    list: index,
                    kind,
                    entry,
                    outcome,
                });
                match cause {
                    None => ControlFlow::Continue(()),
                    Some(cause @ Cause::Undecided(_)) => {
                        failed.get_or_insert_with(|| (kind, Box::from(entry), cause));
                        ControlFlow::Continue(())
                    }
                    Some(cause) => ControlFlow::Break((kind, Box::from(entry), cause)),
                }
            });
            if let Some((kind, entry, cause)) = found.break_value().or(failed) {
                let cleared = self
                    .cleared_by(sender, now, &mut desk.whitelist_form, &mut seen)
                    .map(Box::from);
                let hit = Hit {
                    list: index,
                    identity: sender.identity,
                    weak: sender.weak,
                    address: sender.address.into(),
                    canonical: form.as_bytes().into(),
                    entry,
                    kind,
                    cause,
                    cleared,
                };
                self.keep(hit, hits);
            }
        }
    }

    /// The entry of the whitelist that clears this sender, if it counts here.
    fn cleared_by(
        &self,
        sender: &Sender<'_>,
        now: Circumstances<'_>,
        memory: &mut Option<Canonical>,
        seen: &mut impl FnMut(Seen<'_>),
    ) -> Option<&[u8]> {
        let form = memory.get_or_insert_with(Canonical::new);
        form.read(sender.address, Entries::rules()).ok()?;
        let entry = self.whitelist.find(form)?;
        if self.whitelist_wants_dkim
            && sender.identity != Identity::MailFrom
            && !(now.aligned)(form.domain())
        {
            seen(Seen::Unaligned(entry));
            return None;
        }
        seen(Seen::Cleared(entry));
        Some(entry)
    }

    fn keep(&self, hit: Hit, hits: &mut Vec<Hit>) {
        let strength = |hit: &Hit| {
            if hit.cleared.is_some() {
                None
            } else {
                self.lists.get(hit.list).map(|list| list.terms.action)
            }
        };
        if hits.len() < HITS_MAX || strength(&hit) > hits.iter().map(strength).max().flatten() {
            hits.push(hit);
        }
    }

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
