//! Which rows of a table count, and what their dates are.

use std::borrow::Cow;

use super::dates::Dates;
use super::text::{Text, decoded};
use crate::list::row::{RawEntry, Refusal, RejectReason};

#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Condition {
    /// The number of the value in a row.
    pub(crate) value: usize,
    /// The column, as its owner calls it.
    pub(crate) name: Box<str>,
    /// The values that list a row; empty if there are none.
    pub(crate) when: Vec<Text>,
    /// The values that do not.
    pub(crate) unless: Vec<Text>,
    /// The number from which on they list a row.
    pub(crate) at_least: Option<f64>,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Rules {
    /// Each of them must hold.
    pub(crate) conditions: Vec<Condition>,
    /// Whether something says which rows count. If not, a row has nothing but its entry.
    pub(crate) has_rule: bool,
    /// The numbers of the values with the day on which an entry was added, and with its end.
    pub(crate) added: Option<usize>,
    pub(crate) expires: Option<usize>,
    pub(crate) dates: Dates,
}

/// Why a row lists nobody.
#[derive(Debug, PartialEq)]
pub(crate) enum NotListed {
    /// Its owner says so. The text is what it is counted by.
    Unlisted(String),
    /// A value cannot be read.
    Rejected(RejectReason),
    /// The file is refused.
    Refused(Refusal),
}

/// A value of a row, or why the row is not listed.
pub(crate) type Value<'v> = Result<Cow<'v, [u8]>, NotListed>;

impl Rules {
    /// Returns the name of a value of a row.
    pub(crate) fn name(&self, value: usize) -> &str {
        let mut conditions = self.conditions.iter();
        let condition = conditions.find(|condition| condition.value == value);
        condition.map_or("a column of dates", |condition| &condition.name)
    }

    /// Judges a row by its values, trimmed; returns what is the same for all of its entries.
    pub(crate) fn judge<'v>(
        &self,
        value: impl Fn(usize) -> Value<'v>,
    ) -> Result<RawEntry<'static>, NotListed> {
        let mut unlisted = None;
        for condition in &self.conditions {
            let cell = value(condition.value)?;
            match condition.holds(&cell) {
                Some(true) => {}
                // A later condition may still refuse the file.
                Some(false) => unlisted = unlisted.or(Some(condition)),
                None => {
                    let shown = shown(&condition.name, &cell);
                    return Err(NotListed::Refused(Refusal::Undeclared(shown.into())));
                }
            }
        }
        if let Some(condition) = unlisted {
            let shown = shown(&condition.name, &value(condition.value)?);
            return Err(NotListed::Unlisted(shown));
        }
        let bounds = self.conditions.iter();
        for (condition, least) in bounds.filter_map(|one| Some((one, one.at_least?))) {
            condition.reaches(least, &value(condition.value)?)?;
        }
        let mut row = RawEntry::new(b"");
        if let Some(number) = self.added {
            let added = self.dates.start(&value(number)?);
            row.added = added.map_err(NotListed::Rejected)?;
        }
        if let Some(number) = self.expires {
            let expires = self.dates.end(&value(number)?);
            row.expires = expires.map_err(NotListed::Rejected)?;
        }
        Ok(row)
    }
}

impl Condition {
    /// Returns whether a value lists its row; `None` if it is undeclared.
    fn holds(&self, cell: &[u8]) -> Option<bool> {
        let is_one_of = |values: &[Text]| values.iter().any(|value| value.is(cell));
        match (self.when.is_empty(), self.unless.is_empty()) {
            (true, true) => Some(true),
            (false, true) => Some(is_one_of(&self.when)),
            (true, false) => Some(!is_one_of(&self.unless)),
            (false, false) if is_one_of(&self.when) => Some(true),
            (false, false) => is_one_of(&self.unless).then_some(false),
        }
    }

    /// Checks that a number is large enough.
    fn reaches(&self, least: f64, cell: &[u8]) -> Result<(), NotListed> {
        let number = std::str::from_utf8(cell)
            .ok()
            .and_then(|cell| cell.trim().parse::<f64>().ok());
        match number.filter(|number| number.is_finite()) {
            Some(number) if number >= least => Ok(()),
            Some(_) => Err(NotListed::Unlisted(format!("{} below {least}", self.name))),
            None => Err(NotListed::Rejected(RejectReason::NotANumber)),
        }
    }
}

const SHOWN_CHARS: usize = 60;

/// Returns a column with its value: `Action = Allow`.
fn shown(name: &str, cell: &[u8]) -> String {
    let value = decoded(cell);
    let value = value.trim().chars().take(SHOWN_CHARS);
    let value: String = value.flat_map(char::escape_debug).collect();
    match value.is_empty() {
        true => format!("{name} is empty"),
        false => format!("{name} = {value}"),
    }
}
