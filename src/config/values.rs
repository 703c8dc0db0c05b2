//! Values in the configuration: their types, allowed values, and error messages.

use std::path::{Path, PathBuf};

use crate::address::{Canonical, Kind, escaped};
use crate::base::numbers::with_unit;
use crate::base::settings::Invalid;
use crate::policy::{Action, Entries, Template};

/// Longest name of a list.
const NAME_MAX_BYTES: usize = 64;

/// Units of an age, the largest first, with their seconds.
const UNITS: [(char, u64); 4] = [('w', 604_800), ('d', 86_400), ('h', 3_600), ('m', 60)];
/// Ten years: a longer age is a mistake.
const AGE_MAX_S: u64 = 3_660 * 86_400;

/// Reads an age such as `36h` as seconds; `none` means no limit.
pub(super) fn age(written: &str) -> Result<Option<u64>, Invalid> {
    if written == "none" {
        return Ok(None);
    }
    match with_unit(written, &UNITS) {
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
    let (name, unit) = unit.unwrap_or(&('m', 60));
    format!("{}{name}", seconds / unit)
}

pub(super) fn list_name(written: &str) -> Result<String, Invalid> {
    let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    if written.is_empty() || written.len() > NAME_MAX_BYTES || !written.chars().all(fits) {
        let what = "letters, digits, dots, underscores or hyphens";
        return Err(format!("a name has 1 to {NAME_MAX_BYTES} {what}").into());
    }
    Ok(written.to_owned())
}

pub(super) fn path(written: &str, folder: &Path) -> Result<PathBuf, Invalid> {
    if written.is_empty() {
        return Err("empty path".into());
    }
    if written.contains('\0') {
        return Err("a path cannot contain a NUL character (\\u0000)".into());
    }
    Ok(folder.join(written))
}

/// Reads a mailbox that a reply can name: an address in ASCII, without angle brackets.
pub(super) fn contact(written: &str) -> Result<String, Invalid> {
    let plain = |byte: u8| byte.is_ascii_graphic() && !b"<>(),;:\"\\".contains(&byte);
    let kind = Entries::default().add(written.as_bytes());
    if written.is_empty() || (written.bytes().all(plain) && kind == Ok(Kind::Mailbox)) {
        Ok(written.to_owned())
    } else {
        Err("must be a mail address in ASCII, such as \"postmaster@our.example\"".into())
    }
}

pub(super) fn reply(written: &str, action: Action) -> Result<Template, Invalid> {
    let template = Template::parse(written)?;
    // If the action has no reply, the template is not used. That is only a warning (in the
    // snapshot), because changing the action is often the first edit of a configuration.
    let Some((class, _)) = action.reply() else {
        return Ok(template);
    };
    let code = template.code();
    if code / 100 != class {
        let needs = format!("needs a reply with code {class}xx, found {code}");
        return Err(format!("action \"{action}\" {needs}").into());
    }
    Ok(template)
}

/// Reads an address, and keeps it as written.
pub(super) fn address(written: &str) -> Result<String, Invalid> {
    match Canonical::parse(written.as_bytes(), Entries::rules()) {
        Ok(_) => Ok(written.to_owned()),
        Err(error) => Err(format!("{written:?}: {error}").into()),
    }
}

/// Reads an entry of any kind, and keeps it as written.
pub(super) fn entry(written: &str) -> Result<String, Invalid> {
    match Entries::default().add(written.as_bytes()) {
        Ok(_) => Ok(written.to_owned()),
        Err(error) => Err(format!("\"{}\": {error}", escaped(written.as_bytes())).into()),
    }
}
