//! `[build]` and `[feed]` of `list.toml`: how a filter is built, and what is downloaded.

use std::fmt;
use std::str::FromStr;

use crate::settings::{
    Invalid, Percent, Section, Value, boolean, number, parsed, percent, percent_of_a_whole, text,
};
use blocklist_filter::base::day::Day;

/// `[build]`: settings of the filter. What is `None` or empty was not given.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct BuildSettings {
    /// The false-positive rate of the pages.
    pub fpr: Option<f64>,
    /// When entries end that have no day of their own.
    pub expires: Option<Expires>,
    /// Domains that must not be listed.
    pub protect: Vec<String>,
    /// Overly broad entries to accept.
    pub allow: Vec<String>,
    /// Accept all overly broad entries.
    pub allow_world: Option<bool>,
    /// Write a filter without entries.
    pub allow_empty: Option<bool>,
    /// By how much the list, and each source of it, may shrink.
    pub max_shrink: Option<Percent>,
    /// By how much each source may grow.
    pub max_growth: Option<Percent>,
    /// How many rows of a file may be rejected.
    pub max_rejects: Option<MaxRejects>,
    /// Whether exact records are kept.
    pub records: Option<bool>,
    /// Remove `+tag` at every domain.
    pub plus: Option<bool>,
    /// Also look up the sender inside SRS addresses.
    pub srs: Option<bool>,
    /// Compare local parts in the Unicode form NFKC.
    pub nfkc: Option<bool>,
    /// Apply the rules of mail providers.
    pub providers: Option<bool>,
}

/// `[feed]`: a list that is downloaded.
#[derive(Clone, Debug, PartialEq)]
pub struct FeedSettings {
    /// Its address: only https, because others could change it on its way.
    pub url: String,
    /// Whether and how it may be used: a note.
    pub licence: String,
    /// The recommended action of the list in the configuration.
    pub action: Option<String>,
    /// Largest download.
    pub max_bytes: u64,
    /// Longest time of a download.
    pub timeout_s: u64,
    /// For a feed of the newest entries alone: for how many days the file of each day is kept.
    pub keep_days: u64,
    /// For how long it may stay the same; 0 for ever.
    pub max_age_days: u64,
    /// By how much it may shrink from one download to the next.
    pub max_shrink: Percent,
    /// By how much it may grow.
    pub max_growth: Percent,
}

/// When entries end that have no day of their own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expires {
    /// On this day.
    On(Day),
    /// This many days after the build.
    After(u16),
}

impl BuildSettings {
    pub(super) fn read(section: &Section<'_>) -> Self {
        let is = |name| section.optional(name, boolean);
        let texts = |name| section.each(name, Vec::new(), |text| Ok(text.to_owned()));
        Self {
            fpr: section.optional("fpr", |value| {
                let rate = value.as_float().and_then(|rate| rate.as_str().parse().ok());
                let rate = rate.filter(|rate| *rate > 0.0 && *rate < 1.0);
                rate.ok_or_else(|| "must be a rate such as 1e-4".into())
            }),
            expires: section.optional("expires", parsed),
            protect: section.each("protect", Vec::new(), |text| {
                match text.contains(|c: char| c.is_whitespace() || c == '@') {
                    true => Err("must be a domain, such as our.example".into()),
                    false => Ok(text.to_owned()),
                }
            }),
            allow: texts("allow"),
            allow_world: is("allow_world"),
            allow_empty: is("allow_empty"),
            max_shrink: section.optional("max_shrink", percent_of_a_whole),
            max_growth: section.optional("max_growth", percent),
            max_rejects: section.optional("max_rejects", |value| match value.as_str() {
                Some(_) => parsed(value),
                None => number(value, 0..=u64::MAX).map(MaxRejects::Lines),
            }),
            records: is("records"),
            plus: is("plus"),
            srs: is("srs"),
            nfkc: is("nfkc"),
            providers: is("providers"),
        }
    }
}

impl FeedSettings {
    pub(super) fn read(section: &Section<'_>) -> Self {
        Self {
            url: section.required("url", url).unwrap_or_default(),
            licence: section.get("licence", String::new(), parsed),
            action: section.optional("action", parsed),
            max_bytes: section.get("max_bytes", 64 << 20, |value| number(value, 1..=1 << 40)),
            timeout_s: section.get("timeout_s", 300, |value| number(value, 1..=86_400)),
            keep_days: section.get("keep_days", 0, |value| number(value, 1..=3650)),
            max_age_days: section.get("max_age_days", 0, |value| number(value, 1..=3650)),
            max_shrink: section.get("max_shrink", Percent(20), percent_of_a_whole),
            max_growth: section.get("max_growth", Percent::ALL, percent),
        }
    }
}

fn url(value: &Value<'_>) -> Result<String, Invalid> {
    let url = text(value)?;
    let host = url.strip_prefix("https://").unwrap_or_default();
    if host.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '[')
        && url.bytes().all(|b| b.is_ascii_graphic())
    {
        Ok(url.to_owned())
    } else {
        Err("must begin with https://, because others could change the list on its way, and have no blanks".into())
    }
}

const MAX_DAYS: u16 = 3650;

impl Expires {
    /// Returns the day, given the day of the build.
    #[must_use]
    pub fn from(self, today: Day) -> Day {
        match self {
            Self::On(day) => day,
            Self::After(days) => Day(today.0.saturating_add(days)),
        }
    }
}

impl FromStr for Expires {
    type Err = String;

    /// Reads `2026-12-31` and `30d`.
    fn from_str(written: &str) -> Result<Self, String> {
        if let Some(days) = written.strip_suffix(['d', 'D']) {
            return match days.parse() {
                Ok(days @ 1..=MAX_DAYS) => Ok(Self::After(days)),
                _ => Err(format!("must be 1d to {MAX_DAYS}d")),
            };
        }
        match Day::read(written.as_bytes()) {
            Some(day) if day.0 < u16::MAX => Ok(Self::On(day)),
            _ => Err("must be a date such as 2026-12-31, or days such as 30d".to_owned()),
        }
    }
}

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
