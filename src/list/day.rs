//! Days, as lists write them: the day an entry was added, the day it ends.

use std::fmt;

use jiff::civil::Date;

/// A day, counted from 1970-01-01; the last one is in 2149.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Day(pub u16);

const EPOCH: Date = Date::constant(1970, 1, 1);

/// Numbers of this length are read as seconds since 1970: ten digits are the years
/// 2001 to 2286.
const UNIX_DIGITS: usize = 10;

impl Day {
    /// The day of a date between 1970 and 2149.
    #[must_use]
    pub fn of(date: Date) -> Option<Self> {
        let days = EPOCH.until(date).ok()?.get_days();
        u16::try_from(days).ok().map(Self)
    }

    /// Reads a day from the start of `text`: `2026-03-01`, `2026/03/01` or
    /// `20260301`, with or without a time after it; `01.03.2026`; `3/31/2026` and
    /// `31/3/2026` where one of the numbers can only be the day; seconds since 1970
    /// of ten digits. Zones are not looked at: a day is exact enough.
    #[must_use]
    pub fn read(text: &[u8]) -> Option<Self> {
        let text = text.trim_ascii();
        let end = text
            .iter()
            .position(|&b| matches!(b, b' ' | b'T' | b't'))
            .unwrap_or(text.len());
        let date = text.get(..end)?;
        if date.iter().all(u8::is_ascii_digit) {
            return match date.len() {
                8 => {
                    let (year, rest) = date.split_at(4);
                    let (month, day) = rest.split_at(2);
                    Self::from_parts(number(year)?, number(month)?, number(day)?)
                }
                UNIX_DIGITS => {
                    let seconds: u64 = std::str::from_utf8(date).ok()?.parse().ok()?;
                    u16::try_from(seconds / (24 * 60 * 60)).ok().map(Self)
                }
                _ => None,
            };
        }
        let sign = *date.iter().find(|b| !b.is_ascii_digit())?;
        let mut parts = date.split(|&b| b == sign);
        let (a, b, c) = (parts.next()?, parts.next()?, parts.next()?);
        if parts.next().is_some() {
            return None;
        }
        match (sign, a.len(), c.len()) {
            (b'-' | b'/' | b'.', 4, 1..=2) => Self::from_parts(number(a)?, number(b)?, number(c)?),
            (b'.' | b'-', 1..=2, 4) => Self::from_parts(number(c)?, number(b)?, number(a)?),
            (b'/', 1..=2, 4) => match (number(a)?, number(b)?) {
                (month, day) if day > 12 || day == month => {
                    Self::from_parts(number(c)?, month, day)
                }
                (day, month) if day > 12 => Self::from_parts(number(c)?, month, day),
                // 3/4/2026 is March in one country and April in another.
                _ => None,
            },
            _ => None,
        }
    }

    fn from_parts(year: i16, month: i16, day: i16) -> Option<Self> {
        let month = i8::try_from(month).ok()?;
        let day = i8::try_from(day).ok()?;
        Self::of(Date::new(year, month, day).ok()?)
    }
}

fn number(digits: &[u8]) -> Option<i16> {
    if digits.is_empty() {
        return None;
    }
    digits.iter().try_fold(0_i16, |number, &byte| {
        let digit = byte.is_ascii_digit().then(|| i16::from(byte - b'0'))?;
        number.checked_mul(10)?.checked_add(digit)
    })
}

impl fmt::Display for Day {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let date = EPOCH
            .checked_add(jiff::Span::new().days(i64::from(self.0)))
            .unwrap_or(EPOCH);
        date.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::Day;

    #[test]
    fn dates_of_real_lists() {
        for (text, day) in [
            ("1970-01-01", Some(0)),
            ("2026-03-01", Some(20513)),
            ("2026-03-01 10:00:00", Some(20513)),
            ("2026-03-31T10:00:00Z", Some(20543)),
            ("20260301", Some(20513)),
            ("01.03.2026", Some(20513)),
            ("3/31/2026 10:00", Some(20543)),
            ("31/3/2026", Some(20543)),
            ("3/3/2026", Some(20515)),
            ("3/4/2026", None),
            ("1772359200", Some(20513)),
            ("2149-06-06", Some(u16::MAX)),
            ("2149-06-07", None),
            ("2026-02-30", None),
            ("1969-12-31", None),
            ("Never expire", None),
            ("12", None),
            ("", None),
        ] {
            assert_eq!(Day::read(text.as_bytes()), day.map(Day), "{text}");
        }
        assert_eq!(Day(20513).to_string(), "2026-03-01");
    }
}
