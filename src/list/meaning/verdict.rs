//! What the columns of a row, or the keys of an object, say together about its sender.
//!
//! One column that says "not listed" is enough, whatever the others say. If none takes the row
//! off the list, it is listed only if all columns that decide are understood.

use super::action::Action;
use super::answer::{Answer, number};
use super::flag::Flag;
use super::headings::Heading;
use super::phrase::Phrase;
use super::status::{is_past, read_action, read_score, read_status, read_white_or_black};
use crate::list::row::Skip;
use crate::list::row::day::Day;
use crate::list::row::reject_reason::RejectReason;

/// What was said so far.
#[derive(Debug, Default)]
pub(crate) struct Verdict {
    /// What columns say that are not for actions.
    off: Option<Action>,
    /// What columns for actions say.
    actions: Vec<Action>,
    /// Whether the sender is bad in one of several ways, once a column has an answer.
    is_bad: Option<bool>,
    /// It was said to be blocked.
    is_blocked: bool,
    /// What was not understood.
    unclear: Option<RejectReason>,
    /// What was not understood, but does not matter if another column says that it is blocked.
    doubt: Option<RejectReason>,
}

impl Verdict {
    /// Adds the value under a heading.
    pub(crate) fn add(&mut self, heading: Heading, value: &[u8]) {
        let said = heading.says(value);
        match (heading, said) {
            (_, Ok(None)) => {}
            (Heading::Action, Ok(Some(action))) => self.actions.push(action),
            (Heading::Flag(Flag::Bad), Ok(Some(Action::Block))) => self.is_bad = Some(true),
            (Heading::Flag(Flag::Bad), Ok(Some(Action::Other))) => {
                self.is_bad = Some(self.is_bad.unwrap_or(false));
            }
            (_, Ok(Some(Action::Block))) => self.is_blocked = true,
            (_, Ok(Some(Action::Allow))) => self.off = Some(Action::Allow),
            (_, Ok(Some(Action::Other))) => self.off = self.off.or(Some(Action::Other)),
            (
                Heading::Action
                | Heading::Status
                | Heading::Kind
                | Heading::Remark
                | Heading::Flag(Flag::Blocks | Flag::Bad),
                Err(reason),
            ) => self.doubt = Some(reason),
            (_, Err(reason)) => self.unclear = Some(reason),
        }
    }

    /// Returns why nobody is listed; `None` if somebody is.
    ///
    /// # Errors
    /// When this is unclear.
    pub(crate) fn skip(&self) -> Result<Option<Skip>, RejectReason> {
        let action = [Action::Allow, Action::Block, Action::Other]
            .into_iter()
            .find(|action| self.actions.contains(action));
        let is_blocked = self.is_blocked || action == Some(Action::Block);
        if self.off == Some(Action::Allow) || action == Some(Action::Allow) {
            return Ok(Some(Skip::Allow));
        }
        if self.off.is_some() || action == Some(Action::Other) || self.is_bad == Some(false) {
            return Ok(Some(Skip::OtherAction));
        }
        match self.unclear.or_else(|| self.doubt.filter(|_| !is_blocked)) {
            Some(reason) => Err(reason),
            None => Ok(None),
        }
    }
}

impl Heading {
    /// Returns what a value under this heading says about the row; `None` if it says nothing.
    ///
    /// # Errors
    /// When the heading decides and the value is not understood.
    pub(crate) fn says(self, value: &[u8]) -> Result<Option<Action>, RejectReason> {
        match self {
            Self::Action => read_action(value),
            Self::Status => read_status(value, true),
            Self::Kind => read_status(value, false),
            Self::Score => read_score(value, false),
            Self::Probability => read_score(value, true),
            Self::WhiteOrBlack => read_white_or_black(value),
            Self::Flag(flag) => flag.read(value),
            Self::Remark if Phrase::beginning(value).pardons() => Err(RejectReason::Remark),
            Self::Expired => {
                let is_off = Answer::of(value) == Some(Answer::Yes);
                Ok(is_off.then_some(Action::Other))
            }
            Self::Remark
            | Self::LocalPart
            | Self::Entry(_)
            | Self::Added
            | Self::Dated
            | Self::Expires
            | Self::FreeText
            | Self::Mention
            | Self::To => Ok(None),
        }
    }

    /// Returns whether it says anything about the entry.
    pub(crate) fn matters(self) -> bool {
        !matches!(self, Self::FreeText | Self::Mention | Self::Dated)
    }

    /// Returns whether [`says`](Self::says) may say anything.
    pub(crate) fn decides(self) -> bool {
        matches!(
            self,
            Self::Action
                | Self::Status
                | Self::Kind
                | Self::Score
                | Self::Probability
                | Self::WhiteOrBlack
                | Self::Remark
                | Self::Flag(_)
                | Self::Expired
        )
    }
}

/// Returns the first day on which an entry is no longer listed, from the columns or keys that
/// give one.
///
/// # Errors
/// When one of them cannot be read.
pub(crate) fn earliest<'v>(
    values: impl Iterator<Item = (Heading, &'v [u8])>,
) -> Result<Option<Day>, (RejectReason, &'v [u8])> {
    let mut earliest: Option<Day> = None;
    for (heading, value) in values {
        let day = match heading {
            // `expired: no`. If the entry has ended, a verdict has said so.
            Heading::Expires | Heading::Expired if Answer::of(value) == Some(Answer::No) => None,
            Heading::Expires => Day::read_expiry(value).ok_or((RejectReason::Date, value))?,
            // What has happened already ends the entry on the same day, whatever the time.
            Heading::Expired => match Day::read(value) {
                None => Day::read_expiry(value).ok_or((RejectReason::Date, value))?,
                day => day,
            },
            // `yes` is a verdict, not a day.
            Heading::Flag(Flag::Removed) => Day::read(value),
            // Beside `from`: the last day, or a recipient.
            Heading::To if Day::is_date(value) => {
                Day::read_expiry(value).ok_or((RejectReason::Date, value))?
            }
            _ => None,
        };
        earliest = match (earliest, day) {
            (Some(one), Some(other)) => Some(one.min(other)),
            (one, other) => one.or(other),
        };
    }
    Ok(earliest)
}

/// Returns whether a value under an unknown name may mean that its row is not listed: `no`, or
/// a day.
pub(crate) fn is_suspicious(value: &[u8]) -> bool {
    !value.iter().all(u8::is_ascii_digit) && (is_no(value) || Day::is_date(value))
}

/// Returns whether a value is `no` in some language. A zero may be a count.
pub(crate) fn is_no(value: &[u8]) -> bool {
    number(value).is_none() && Answer::of(value) == Some(Answer::No)
}

/// Returns whether a value under an unknown name says that its row is not listed.
pub(crate) fn takes_off(value: &[u8]) -> bool {
    Action::in_column(value) == Some(Action::Allow) || is_past(value) || Phrase::of(value).is_off()
}
