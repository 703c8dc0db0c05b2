//! Columns and keys whose values are yes or no: `"whitelisted": true`, `blocked;no`.
//!
//! Yes to a block, and no to an allowance, change nothing: the row is in a blocklist already.
//! An unknown answer is never taken for yes or no.

use super::action::Action;
use super::answer::{Answer, is_blank, is_word};
use super::column_name::{Name, is_date_word, is_filling};
use super::phrase_words::Word;
use super::status::{is_past, status};
use crate::list::row::day::Day;
use crate::list::row::entry::looks_like_entry;
use crate::list::row::reject_reason::RejectReason;

/// What yes means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Flag {
    /// The sender passes.
    Allows,
    /// The entry is taken off the list.
    Removed,
    /// The sender is listed. Such a column may also name the sender: `blocked sender`.
    Blocks,
    /// The day on which the sender was listed; a zero date means never.
    BlockedSince,
    /// The sender is bad in one way; if not, perhaps in another: `spam`, `phishing`.
    Bad,
    /// The entry is active.
    Active,
}

impl Flag {
    /// Returns the flag with this name: one word decides, the words around it do not.
    pub(crate) fn of(name: &Name) -> Option<Self> {
        if ALLOWANCES.iter().any(|known| name.ends_with(known))
            || name.words().any(|w| w == "bypass")
        {
            return Some(Self::Allows);
        }
        if name.is("to ids") {
            // In MISP, no means that the entry is not for detection: it is only mentioned.
            return Some(Self::Active);
        }
        if [
            "dry run",
            "simulate",
            "log only",
            "monitor only",
            "audit only",
            "report only",
            "test only",
        ]
        .iter()
        .any(|known| name.is(known))
        {
            // Nothing happens to the sender.
            return Some(Self::Removed);
        }
        let (mut found, mut is_negated) = (None, false);
        // `last_unblocked` matters; the day of the last block or sighting does not.
        let mut is_last = false;
        // phpBB begins each of its names with it.
        let is_ban = name.words().next() == Some("ban");
        for word in name.words().skip(usize::from(is_ban)) {
            if word == "longer" || matches!(Word::of(word), (Word::Not, _)) {
                is_negated = true;
            } else if let Some(flag) = Self::of_word(word) {
                if found.is_some_and(|found| found != flag) {
                    return None;
                }
                found = Some(flag);
            } else if matches!(word, "first" | "last" | "latest") {
                is_last = true;
            } else if !is_filling(word) && (is_ban || word != "id") {
                return None;
            }
        }
        if is_last && !matches!(found, Some(Self::Allows | Self::Removed)) {
            return None;
        }
        let has_day = || name.words().any(is_date_word) || name.words().last() == Some("on");
        match found.or_else(|| is_ban.then_some(Self::Blocks))? {
            Self::Blocks | Self::Bad if is_negated => Some(Self::Allows),
            Self::Active if is_negated => Some(Self::Removed),
            Self::Removed if is_negated => Some(Self::Active),
            _ if is_negated => None,
            Self::Blocks | Self::Bad | Self::Active if name.words().any(|w| w == "by") => None,
            Self::Blocks if has_day() => Some(Self::BlockedSince),
            flag => Some(flag),
        }
    }

    /// Returns what one word says, perhaps with `is` before it.
    fn of_word(word: &str) -> Option<Self> {
        let of = |word: &str| match Action::of(word.as_bytes()) {
            Some(Action::Allow) => Some(Self::Allows),
            Some(Action::Block) => Some(Self::Blocks),
            _ if ALLOWING.contains(&word) => Some(Self::Allows),
            _ if BLOCKING.contains(&word) => Some(Self::Blocks),
            _ if BAD.contains(&word) => Some(Self::Bad),
            _ if ACTIVE.contains(&word) => Some(Self::Active),
            _ if REMOVING.contains(&word) || is_past(word.as_bytes()) => Some(Self::Removed),
            _ => match Word::of(word) {
                (Word::Allows, true) => Some(Self::Allows),
                (Word::Blocks, _) => Some(Self::Blocks),
                (Word::Ends, _) => Some(Self::Removed),
                _ => None,
            },
        };
        of(word).or_else(|| of(word.strip_prefix("is")?))
    }

    /// Returns what `value` means for the row; `None` if it changes nothing.
    ///
    /// # Errors
    /// When the value is not understood.
    pub(crate) fn read(self, value: &[u8]) -> Result<Option<Action>, RejectReason> {
        if is_blank(value) {
            return match self {
                Self::Blocks | Self::BlockedSince => Err(RejectReason::UnclearAnswer),
                _ => Ok(None),
            };
        }
        match (self, Answer::of(value)) {
            (Self::Allows, Some(Answer::Yes)) => return Ok(Some(Action::Allow)),
            (Self::Removed, Some(Answer::Yes)) => return Ok(Some(Action::Other)),
            (Self::Allows | Self::Removed, Some(Answer::No)) => return Ok(None),
            (Self::Active, Some(Answer::Yes)) => return Ok(None),
            (Self::Blocks | Self::BlockedSince | Self::Bad, Some(Answer::Yes | Answer::Many)) => {
                return Ok(Some(Action::Block));
            }
            (_, Some(Answer::No)) => return Ok(Some(Action::Other)),
            (Self::Allows | Self::Removed | Self::Active, Some(Answer::Many)) | (_, None) => {}
        }
        // A day: yes since then. A zero date: never.
        match Day::read_expiry(value) {
            Some(Some(_)) if value.first().is_some_and(u8::is_ascii_digit) => {
                return Ok(match self {
                    Self::Allows => Some(Action::Allow),
                    // The day on which it ends, perhaps in the future.
                    Self::Removed => None,
                    _ => Some(Action::Block),
                });
            }
            Some(None) if matches!(self, Self::Allows | Self::Removed) => return Ok(None),
            Some(None) if self == Self::BlockedSince => return Ok(Some(Action::Other)),
            _ => {}
        }
        if matches!(self, Self::Blocks | Self::Bad) && holds_entry(value) {
            return Ok(None);
        }
        match status(value).or_else(|| Action::in_column(value)) {
            // The column `whitelisted` has the value `blocked`.
            Some(Action::Block) if matches!(self, Self::Allows | Self::Removed) => Ok(None),
            Some(action) => Ok(Some(action)),
            None if is_word(value, ACTIVE) => Ok(None),
            None => Err(RejectReason::UnclearAnswer),
        }
    }
}

/// Returns whether the value of a flag names a sender.
pub(crate) fn holds_entry(value: &[u8]) -> bool {
    looks_like_entry(value) || value.contains(&b'@')
}

/// Names of allowances that are compared as a whole.
const ALLOWANCES: &[&str] = &[
    "do not block",
    "false positive",
    "fp",
    "known good",
    "dont block",
];

const ALLOWING: &[&str] = &[
    "benign",
    "clean",
    "except",
    "exception",
    "exclude",
    "excluded",
    "freigegeben",
    "erlaubt",
    "good",
    "ham",
    "harmless",
    "legit",
    "legitimate",
    "nonspam",
    "notspam",
    "safe",
    "trust",
    "unban",
    "unbanned",
    "white",
];

const BLOCKING: &[&str] = &[
    "black",
    "blockiert",
    "bloque",
    "bloqueado",
    "gesperrt",
    "listed",
];

const BAD: &[&str] = &[
    "abuser",
    "abusive",
    "bad",
    "disposable",
    "fraud",
    "fraudulent",
    "junk",
    "malicious",
    "malware",
    "phish",
    "phishing",
    "scam",
    "scammer",
    "spam",
    "spammer",
    "spamverdacht",
    "suspect",
    "suspected",
    "suspicion",
    "suspicious",
    "throwaway",
    "toxic",
    "verdacht",
    "verdachtig",
];

const ACTIVE: &[&str] = &[
    "actief",
    "actif",
    "activated",
    "active",
    "activo",
    "aktiv",
    "aktiviert",
    "attivo",
    "enable",
    "enabled",
];

const REMOVING: &[&str] = &["delete", "delist", "disable", "release", "remove", "unlist"];

#[cfg(test)]
mod tests {
    use super::Flag;
    use crate::list::meaning::action::Action;
    use crate::list::meaning::column_name::Name;

    #[test]
    fn flags_by_their_words() {
        for (name, flag) in [
            ("whitelisted", Some(Flag::Allows)),
            ("isWhitelisted", Some(Flag::Allows)),
            ("last_unblocked", Some(Flag::Allows)),
            ("first blocked", None),
            ("last active", None),
            ("dry_run", Some(Flag::Removed)),
            ("whitelist_id", Some(Flag::Allows)),
            ("Is Whitelisted?", Some(Flag::Allows)),
            ("not_spam", Some(Flag::Allows)),
            ("false-positive", Some(Flag::Allows)),
            ("ban_exclude", Some(Flag::Allows)),
            ("deleted_at", Some(Flag::Removed)),
            ("removed_by", Some(Flag::Removed)),
            ("no longer active", Some(Flag::Removed)),
            ("BLOCKED", Some(Flag::Blocks)),
            ("sender blocked", Some(Flag::Blocks)),
            ("listed", Some(Flag::Blocks)),
            ("banned_at", Some(Flag::BlockedSince)),
            ("is_spam", Some(Flag::Bad)),
            ("isspam", Some(Flag::Bad)),
            ("disposable", Some(Flag::Bad)),
            ("Enabled", Some(Flag::Active)),
            ("blocked_by", None),
            ("ban date", Some(Flag::BlockedSince)),
            ("to_ids", Some(Flag::Active)),
            ("ban_id", None),
            ("spam count", None),
            ("block reason", None),
            ("verified", None),
        ] {
            let found = Name::of(name.as_bytes()).and_then(|name| Flag::of(&name));
            assert_eq!(found, flag, "{name}");
        }
    }

    #[test]
    fn what_a_flag_makes_of_its_row() {
        let (allow, other, block) = (Action::Allow, Action::Other, Action::Block);
        for (flag, value, action) in [
            (Flag::Allows, "2026-01-01", Ok(Some(allow))),
            (Flag::Allows, "no", Ok(None)),
            (Flag::Allows, "blocked", Ok(None)),
            (Flag::Allows, "7", Err(())),
            (Flag::Removed, "2026-01-01 10:00:00", Ok(None)),
            (Flag::Removed, "0000-00-00", Ok(None)),
            (Flag::Removed, "-", Ok(None)),
            (Flag::Removed, "NULL", Ok(None)),
            (Flag::Removed, "joe", Err(())),
            (Flag::Blocks, "n", Ok(Some(other))),
            (Flag::Blocks, "whitelisted", Ok(Some(allow))),
            (Flag::Blocks, "12", Ok(Some(block))),
            (Flag::Blocks, "a@bad.example", Ok(None)),
            (Flag::Blocks, "soon", Err(())),
            (Flag::BlockedSince, "", Err(())),
            (Flag::BlockedSince, "0000-00-00", Ok(Some(other))),
            (Flag::Active, "inactive", Ok(Some(other))),
            (Flag::Active, "Active", Ok(None)),
        ] {
            let found = flag.read(value.as_bytes()).map_err(|_| ());
            assert_eq!(found, action, "{flag:?} {value}");
        }
    }
}
