//! Values in the configuration: their types, allowed values, and error messages.

use std::path::{Path, PathBuf};

use toml::de::DeValue;

use super::Percent;
use crate::address::Kind;
use crate::policy::{Action, Entries, Template};

/// Longest name of a list.
const NAME_MAX_BYTES: usize = 64;

/// Why a value is invalid, and at which byte of a string, if known.
#[derive(Debug)]
pub(super) struct Fault {
    pub(super) message: String,
    pub(super) offset: Option<usize>,
}

impl<T: Into<String>> From<T> for Fault {
    fn from(message: T) -> Self {
        Self {
            message: message.into(),
            offset: None,
        }
    }
}

/// Returns the name most similar to `written`, if any is similar.
pub(super) fn nearest<'n>(written: &str, names: &[&'n str]) -> Option<&'n str> {
    let likeness = |name: &str| strsim::jaro_winkler(&written.to_ascii_lowercase(), name);
    names
        .iter()
        .copied()
        .map(|name| (likeness(name), name))
        .filter(|&(score, _)| score > 0.75)
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, name)| name)
}

pub(super) fn wrong_type(wanted: &str, found: &DeValue<'_>) -> Fault {
    format!(
        "expected {wanted}, found {} {}",
        article(found.type_str()),
        found.type_str()
    )
    .into()
}

fn article(word: &str) -> &'static str {
    if word.starts_with(['a', 'e', 'i', 'o', 'u']) {
        "an"
    } else {
        "a"
    }
}

pub(super) fn text<'v>(value: &'v DeValue<'_>) -> Result<&'v str, Fault> {
    value
        .as_str()
        .ok_or_else(|| wrong_type("a string in quotes", value))
}

pub(super) fn boolean(value: &DeValue<'_>) -> Result<bool, Fault> {
    value
        .as_bool()
        .ok_or_else(|| wrong_type("true or false", value))
}

/// Reads a whole number within `range`.
pub(super) fn number(
    value: &DeValue<'_>,
    range: std::ops::RangeInclusive<u64>,
) -> Result<u64, Fault> {
    let written = value
        .as_integer()
        .ok_or_else(|| wrong_type("a whole number", value))?;
    u64::from_str_radix(written.as_str(), written.radix())
        .ok()
        .filter(|number| range.contains(number))
        .ok_or_else(|| format!("must be between {} and {}", range.start(), range.end()).into())
}

/// Reads `"50%"`.
pub(super) fn percent(value: &DeValue<'_>) -> Result<Percent, Fault> {
    let written = value
        .as_str()
        .ok_or_else(|| wrong_type("a percentage such as \"50%\"", value))?;
    written.parse().map_err(Fault::from)
}

/// Reads `"50%"`, at most `"100%"`.
pub(super) fn percent_of_a_whole(value: &DeValue<'_>) -> Result<Percent, Fault> {
    percent(value)?.of_a_whole().map_err(Fault::from)
}

/// Reads one of a few words. The error for a misspelt one suggests the most similar word.
pub(super) fn choice<T: Copy>(written: &str, choices: &[(&'static str, T)]) -> Result<T, Fault> {
    if let Some(&(_, chosen)) = choices.iter().find(|(name, _)| *name == written) {
        return Ok(chosen);
    }
    let names: Vec<&str> = choices.iter().map(|&(name, _)| name).collect();
    let hint = nearest(written, &names)
        .map_or(String::new(), |name| format!(" (did you mean \"{name}\"?)"));
    Err(format!(
        "\"{}\" is not one of {}{hint}",
        written.escape_debug(),
        names.join(", ")
    )
    .into())
}

/// Units of an age, the largest first, with their seconds.
const UNITS: [(char, u64); 4] = [('w', 604_800), ('d', 86_400), ('h', 3_600), ('m', 60)];
/// Ten years: a longer age is a mistake.
const AGE_MAX_S: u64 = 3_660 * 86_400;

/// Reads an age such as `36h` as seconds; `none` means no limit.
pub(super) fn age(written: &str) -> Result<Option<u64>, Fault> {
    if written == "none" {
        return Ok(None);
    }
    let mut digits = written.chars();
    let unit = digits.next_back();
    let unit = UNITS.iter().find(|(name, _)| Some(*name) == unit);
    let seconds = unit.and_then(|&(_, seconds)| {
        let number: u64 = digits.as_str().parse().ok()?;
        number.checked_mul(seconds)
    });
    match seconds {
        Some(seconds) if (60..=AGE_MAX_S).contains(&seconds) => Ok(Some(seconds)),
        Some(_) | None => Err(format!(
            "\"{}\" is not an age: write a whole number of minutes, hours, days or weeks, such as \"90m\", \"36h\", \"7d\" or \"2w\", or \"none\"",
            written.escape_debug()
        )
        .into()),
    }
}

/// Formats an age as in the settings, such as `36h`.
pub fn age_text(seconds: u64) -> String {
    let unit = UNITS.iter().find(|(_, unit)| seconds.is_multiple_of(*unit));
    unit.map_or_else(
        || format!("{}m", seconds / 60),
        |(name, unit)| format!("{}{name}", seconds / unit),
    )
}

pub(super) fn list_name(written: &str) -> Result<String, Fault> {
    let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    if written.is_empty() || written.len() > NAME_MAX_BYTES || !written.chars().all(fits) {
        return Err(format!(
            "a name has 1 to {NAME_MAX_BYTES} letters, digits, dots, underscores or hyphens"
        )
        .into());
    }
    Ok(written.to_owned())
}

pub(super) fn path(written: &str, folder: &Path) -> Result<PathBuf, Fault> {
    if written.is_empty() {
        return Err("empty path".into());
    }
    if written.contains('\0') {
        return Err("a path cannot contain a NUL character (\\u0000)".into());
    }
    Ok(folder.join(written))
}

pub(super) fn mode(written: &str) -> Result<u32, Fault> {
    let mode = u32::from_str_radix(written, 8)
        .ok()
        .filter(|mode| *mode <= 0o777);
    let mode =
        mode.ok_or_else(|| Fault::from("expected permission bits in octal, such as \"0660\""))?;
    if mode & 0o002 != 0 {
        return Err(
            "every local user could act as the mail server; use 0660 and socket_group".into(),
        );
    }
    Ok(mode)
}

/// Reads a mailbox that a reply can name: an address in ASCII, without angle brackets.
pub(super) fn contact(written: &str) -> Result<&str, Fault> {
    let plain = |byte: u8| byte.is_ascii_graphic() && !b"<>(),;:\"\\".contains(&byte);
    let kind = Entries::default().add(written.as_bytes());
    if written.is_empty() || (written.bytes().all(plain) && kind == Ok(Kind::Mailbox)) {
        Ok(written)
    } else {
        Err("must be a mail address in ASCII, such as \"postmaster@our.example\"".into())
    }
}

pub(super) fn reply(written: &str, action: Action) -> Result<Template, Fault> {
    let template = Template::parse(written).map_err(|error| Fault {
        message: error.message,
        offset: Some(error.offset),
    })?;
    // If the action has no reply, the template is not used. That is only a warning (in the
    // snapshot), because changing the action is often the first edit of a configuration.
    let Some(class) = action.reply_class() else {
        return Ok(template);
    };
    if template.code() / 100 != class {
        return Err(format!(
            "action \"{action}\" needs a reply with code {class}xx, found {}",
            template.code()
        )
        .into());
    }
    Ok(template)
}

pub(super) fn count(number: u64) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_contact_is_a_mailbox_that_a_reply_can_show() {
        for good in ["", "postmaster@our.example", "Help.desk+mail@our.example"] {
            assert_eq!(contact(good).unwrap(), good);
        }
        for wrong in [
            "our.example",
            "postmaster@",
            "@our.example",
            "<help@our.example>",
            "Help Desk <help@our.example>",
            "hälp@our.example",
            "a@our.example, b@our.example",
            "https://our.example/help",
        ] {
            assert!(contact(wrong).is_err(), "{wrong}");
        }
    }
}
