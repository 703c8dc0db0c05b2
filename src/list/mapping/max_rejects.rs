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
        for (limit, rejected, entries, over) in [
            ("1%", 0, 0, false),
            ("1%", 1, 0, true),
            ("1%", 1, 4, false),
            ("1%", 1, 3, true),
            ("1%", 9, 36, false),
            ("1%", 10, 989, true),
            ("1%", 10, 990, false),
            ("0.5%", 10, 990, true),
            ("100%", 1_000, 0, false),
            ("100%", 1, 0, false),
            ("0%", 1, 1_000, true),
            ("0", 1, 1_000, true),
            ("7", 7, 0, false),
            ("7", 8, 1_000_000, true),
        ] {
            let limit: MaxRejects = limit.parse().unwrap();
            assert_eq!(
                limit.is_over(rejected, entries),
                over,
                "{limit}: {rejected}, {entries}"
            );
        }
        for wrong in ["", "%", "-1", "-1%", "101%", "NaN%", "one"] {
            assert!(wrong.parse::<MaxRejects>().is_err(), "{wrong}");
        }
        assert_eq!(MaxRejects::default().to_string(), "1%");
    }
}
