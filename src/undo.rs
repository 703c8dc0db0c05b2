//! The commands that undo a decision: what an administrator pastes when a sender complains.
//!
//! They are made from what a sender chose. So each argument is quoted for a shell, `--` precedes
//! the arguments, and an address that is not known as it was written gives no command.

use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::policy::Entries;
use blocklist_compile::compile::guard::Guard;
use blocklist_compile::list::written_address;
use blocklist_filter::address::{Canonical, Kind, escaped};

/// A command, and what it does.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Undo {
    /// What it does, as the end of "To ...".
    pub what: String,
    /// The command, in one line.
    pub command: String,
}

/// Returns the commands that accept `sender` again, the best one first. They name the whitelist,
/// and the text list with the entry if its place on this machine is known.
pub fn commands(sender: &str, entry: &str, file: &str, whitelist: Option<&Path>) -> Vec<Undo> {
    let whitelist = whitelist.map_or_else(
        || "WHITELIST".to_owned(),
        |file| quoted(&file.display().to_string()),
    );
    let undo = |what: &str, command: &str, file: &str, entry: &str| Undo {
        what: what.to_owned(),
        command: format!("blocklist-compile {command} -- {file} {}", quoted(entry)),
    };
    let add = |what, entry: &str| undo(what, "add", &whitelist, entry);
    let mut all = Vec::new();
    if let Some(address) = canonical(sender)
        && let Some((local, domain)) = address.rsplit_once('@')
    {
        let what = "accept mail from this address from now on";
        all.push(add(what, &written_address(&address)));
        let whole_domain = format!("@{domain}");
        let guard = Guard::default();
        // That of a freemail provider would let in half of the world.
        if guard.check(Kind::Domain, whole_domain.as_bytes()).is_ok() {
            let what = "accept mail from all addresses of its domain";
            all.push(add(what, &whole_domain));
            if is_used_once(local) {
                all.reverse();
            }
        }
    }
    if file.starts_with('/') && is_as_written(entry) && is_as_written(file) && !entry.is_empty() {
        let what = "remove the entry from its list (a downloaded list brings it back)";
        let file = quoted(file);
        all.push(undo(what, "remove", &file, &written_address(entry)));
    }
    all
}

/// Returns the canonical form of an address that is shown as it was written.
fn canonical(sender: &str) -> Option<String> {
    let form = Canonical::parse(sender.as_bytes(), Entries::rules()).ok()?;
    let text = String::from_utf8(form.as_bytes().to_vec()).ok()?;
    (is_as_written(sender) && is_as_written(&text)).then_some(text)
}

/// Returns whether nothing in a text was escaped or left out to show it.
fn is_as_written(text: &str) -> bool {
    !text.contains('\\') && !text.contains("[...]") && escaped(text.as_bytes()).to_string() == text
}

/// Returns whether a local part looks as if it names one message or one recipient (VERP, SRS, BATV): the next
/// message comes from another address. It decides only what is shown first.
fn is_used_once(local: &str) -> bool {
    const MANY_DIGITS: usize = 6;
    let digits = local.bytes().filter(u8::is_ascii_digit).count();
    local.contains('=') || digits >= MANY_DIGITS
}

/// Quotes a text as one word of a shell command, so that a sender's text cannot become a command.
pub(crate) fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "@._-+/=:".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', "'\\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_whole_address_is_offered() {
        for shown in ["aaa[...]@bad.example", "a\\u{200b}@bad.example", "", "bare"] {
            assert_eq!(commands(shown, "", "", None), [], "{shown}");
        }
    }
}
