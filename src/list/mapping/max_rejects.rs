//! How many lines of a list may be rejected before none of it is used.

use std::fmt;
use std::str::FromStr;

/// How many lines of a list may be rejected.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum MaxRejects {
    /// So many.
    Lines(u64),
    /// This percentage of the entries and rejected lines together. Of fewer than ten rejected lines,
    /// at least a fifth: one mistake in a short list must not keep it from being built.
    Percent(f64),
}

impl Default for MaxRejects {
    fn default() -> Self {
        Self::Percent(1.0)
    }
}

impl MaxRejects {
    /// Returns whether more lines are rejected than it allows.
    #[allow(clippy::cast_precision_loss, reason = "a limit need not be exact")]
    pub(crate) fn is_over(self, rejected: u64, entries: u64) -> bool {
        let all = rejected.saturating_add(entries);
        match self {
            Self::Lines(most) => rejected > most,
            Self::Percent(most) => {
                let most = if rejected < 10 { most.max(20.0) } else { most };
                rejected as f64 * 100.0 > most * all as f64
            }
        }
    }
}

impl fmt::Display for MaxRejects {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Lines(most) => write!(f, "{most}"),
            Self::Percent(most) => write!(f, "{most}%"),
        }
    }
}

impl FromStr for MaxRejects {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let wrong = "must be a number of lines, or a percentage such as 1%";
        match text.strip_suffix('%') {
            None => text.parse().map(Self::Lines).map_err(|_| wrong),
            // None at all, in a short list, too.
            Some("0") => Ok(Self::Lines(0)),
            Some(percent) => match percent.parse() {
                Ok(percent) if (0.0..=100.0).contains(&percent) => Ok(Self::Percent(percent)),
                _ => Err(wrong),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::MaxRejects;

    #[test]
    fn rejects_are_measured_against_what_is_there() {
        // Limit, rejected lines, entries.
        const OVER: &str = "1% 1 0|1% 1 3|1% 10 989|0.5% 10 990|0% 1 1000|0 1 1000|7 8 1000000";
        const NOT: &str = "1% 0 0|1% 1 4|1% 9 36|1% 10 990|100% 1000 0|100% 1 0|7 7 0";
        for (cases, over) in [(OVER, true), (NOT, false)] {
            for case in cases.split('|') {
                let (limit, counts) = case.split_once(' ').unwrap();
                let (rejected, entries) = counts.split_once(' ').unwrap();
                let limit: MaxRejects = limit.parse().unwrap();
                let is_over = limit.is_over(rejected.parse().unwrap(), entries.parse().unwrap());
                assert_eq!(is_over, over, "{case}");
            }
        }
        for wrong in ["", "%", "-1", "-1%", "101%", "NaN%", "one"] {
            assert!(wrong.parse::<MaxRejects>().is_err(), "{wrong}");
        }
        assert_eq!(MaxRejects::default().to_string(), "1%");
    }
}
