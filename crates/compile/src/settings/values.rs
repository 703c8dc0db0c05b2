//! Values of settings: their types, allowed values, and error messages.

use std::fmt;
use std::str::FromStr;

use toml::de::DeValue;

pub(crate) use toml::de::DeValue as Value;

/// Why a value is invalid, and at which byte of a string, if known.
#[derive(Debug)]
pub struct Invalid {
    pub message: String,
    pub offset: Option<usize>,
}

impl<T: Into<String>> From<T> for Invalid {
    fn from(message: T) -> Self {
        Self {
            message: message.into(),
            offset: None,
        }
    }
}

pub fn nearest<'n>(written: &str, names: &[&'n str]) -> Option<&'n str> {
    let likeness = |name: &str| strsim::jaro_winkler(&written.to_ascii_lowercase(), name);
    names
        .iter()
        .copied()
        .map(|name| (likeness(name), name))
        .filter(|&(score, _)| score > 0.75)
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, name)| name)
}

pub(crate) fn wrong_type(wanted: &str, found: &DeValue<'_>) -> Invalid {
    let found = found.type_str();
    let has_vowel = found.starts_with(['a', 'e', 'i', 'o', 'u']);
    let article = if has_vowel { "an" } else { "a" };
    format!("expected {wanted}, found {article} {found}").into()
}

pub fn text<'v>(value: &'v DeValue<'_>) -> Result<&'v str, Invalid> {
    value
        .as_str()
        .ok_or_else(|| wrong_type("a string in quotes", value))
}

pub(crate) fn parsed<T: FromStr<Err: ToString>>(value: &DeValue<'_>) -> Result<T, Invalid> {
    parsed_text(text(value)?)
}

pub fn parsed_text<T: FromStr<Err: ToString>>(written: &str) -> Result<T, Invalid> {
    written
        .parse()
        .map_err(|error: T::Err| error.to_string().into())
}

pub fn boolean(value: &DeValue<'_>) -> Result<bool, Invalid> {
    value
        .as_bool()
        .ok_or_else(|| wrong_type("true or false", value))
}

pub fn number(value: &DeValue<'_>, range: std::ops::RangeInclusive<u64>) -> Result<u64, Invalid> {
    let written = value
        .as_integer()
        .ok_or_else(|| wrong_type("a whole number", value))?;
    u64::from_str_radix(written.as_str(), written.radix())
        .ok()
        .filter(|number| range.contains(number))
        .ok_or_else(|| format!("must be between {} and {}", range.start(), range.end()).into())
}

pub(crate) fn percent(value: &DeValue<'_>) -> Result<Percent, Invalid> {
    let written = value
        .as_str()
        .ok_or_else(|| wrong_type("a percentage such as \"50%\"", value))?;
    written.parse().map_err(Invalid::from)
}

pub fn percent_of_a_whole(value: &DeValue<'_>) -> Result<Percent, Invalid> {
    percent(value)?.of_a_whole().map_err(Invalid::from)
}

/// Reads one of a few words. The error for a misspelt one suggests the most similar word.
pub fn choice<T: Copy>(written: &str, choices: &[(&'static str, T)]) -> Result<T, Invalid> {
    if let Some(&(_, chosen)) = choices.iter().find(|(name, _)| *name == written) {
        return Ok(chosen);
    }
    let names: Vec<&str> = choices.iter().map(|&(name, _)| name).collect();
    let hint = nearest(written, &names)
        .map_or(String::new(), |name| format!(" (did you mean \"{name}\"?)"));
    let (written, names) = (written.escape_debug(), names.join(", "));
    Err(format!("\"{written}\" is not one of {names}{hint}").into())
}

/// A whole number of percent, in the same notation in the configuration and on the command line: `50%`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Percent(pub u32);

impl Percent {
    /// 100%.
    pub const ALL: Self = Self(100);

    /// Returns `50%` as 0.5.
    pub fn share(self) -> f64 {
        f64::from(self.0) / 100.0
    }

    /// Returns this percentage if it is at most 100%.
    pub fn of_a_whole(self) -> Result<Self, &'static str> {
        if self.0 > Self::ALL.0 {
            return Err("must be at most 100%");
        }
        Ok(self)
    }
}

impl FromStr for Percent {
    type Err = &'static str;

    /// Reads `20%` and `20`.
    fn from_str(text: &str) -> Result<Self, &'static str> {
        let number = text.strip_suffix('%').unwrap_or(text).trim_end();
        number
            .parse()
            .map(Self)
            .map_err(|_| "must be a whole number of percent such as 20%")
    }
}

impl fmt::Display for Percent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}%", self.0)
    }
}
