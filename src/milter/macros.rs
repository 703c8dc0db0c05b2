//! Macros: what the mail server reports besides the commands, such as the queue id.
//!
//! They come in packets of their own, before the command to which they belong. Only those that the
//! handler asked for are kept: of the stages connect and helo until the next client, of a recipient
//! until the next recipient or packet of macros, others until the next message. A later value
//! replaces an earlier one.
//!
//! Postfix also sends macros for declined steps and before every header, and empty packets.

use super::command::string;
use super::protocol::{Command, MacroStage};

/// Macros to request, by stage, without braces.
pub type MacroLists = &'static [(MacroStage, &'static [&'static str])];

/// Most bytes of a macro packet that are read.
pub(super) const MACRO_BYTES_MAX: usize = 64 << 10;
/// Most bytes of values kept for each of client, message and recipient: those of a packet, so that
/// no address as the server understood it is too long to be kept.
const VALUE_BYTES_MAX: usize = MACRO_BYTES_MAX;
/// Memory of a value beyond this many bytes is freed.
const KEPT_BYTES: usize = 256;

/// The macros that are currently valid.
#[derive(Debug, Default)]
pub struct Macros {
    lists: MacroLists,
    client: Values,
    message: Values,
    recipient: Values,
}

impl Macros {
    /// Returns these and one more, for a caller that acts as a mail server.
    pub fn with(mut self, name: &'static str, value: &[u8]) -> Self {
        self.message.set(name, value);
        self
    }

    /// Returns the value of a macro, such as `i` or `auth_authen`, if the mail server sent one.
    pub fn get(&self, name: &str) -> Option<&[u8]> {
        let lifetimes = [&self.recipient, &self.message, &self.client];
        lifetimes.into_iter().find_map(|values| values.get(name))
    }

    pub(super) fn keep(&mut self, lists: MacroLists) {
        self.lists = lists;
    }

    /// Reads the payload of a macro packet: the code of the command to which it belongs, then name
    /// NUL value NUL, any number of times.
    pub(super) fn read(&mut self, payload: &[u8]) {
        let Some((&code, mut pairs)) = payload.split_first() else {
            return;
        };
        self.recipient.end();
        let values = match Command::of_code(code) {
            Some(Command::Connect) => {
                self.end_client();
                self.client.of_next()
            }
            Some(Command::Helo) => &mut self.client,
            Some(Command::Mail) => self.message.of_next(),
            Some(Command::Rcpt) => self.recipient.of_next(),
            // An unknown code: a later version of the protocol may have more.
            Some(_) | None => &mut self.message,
        };
        while !pairs.is_empty() {
            let (name, rest) = string(pairs);
            let (value, rest) = string(rest);
            pairs = rest;
            if let Some(name) = wanted(self.lists, unbraced(name)) {
                values.set(name, value);
            }
        }
    }

    pub(super) fn begin_client(&mut self) {
        if !std::mem::take(&mut self.client.is_of_next) {
            self.end_client();
        }
    }

    pub(super) fn begin_message(&mut self) {
        self.message.begin();
        self.recipient.end();
    }

    pub(super) fn begin_recipient(&mut self) {
        self.recipient.begin();
    }

    pub(super) fn end_message(&mut self) {
        self.message.end();
        self.recipient.end();
    }

    pub(super) fn end_client(&mut self) {
        self.end_message();
        self.client.end();
    }
}

fn wanted(lists: MacroLists, name: &[u8]) -> Option<&'static str> {
    lists
        .iter()
        .flat_map(|(_, names)| names.iter().copied())
        .find(|wanted| wanted.as_bytes() == name)
}

/// Removes the braces of `{name}`, which is the same macro as `name`.
fn unbraced(name: &[u8]) -> &[u8] {
    name.strip_prefix(b"{")
        .and_then(|name| name.strip_suffix(b"}"))
        .unwrap_or(name)
}

/// Values with the same lifetime, in memory that is reused for the next message. There is a place
/// for each requested name that ever came.
#[derive(Debug, Default)]
struct Values {
    values: Vec<Value>,
    /// Whether they came just before the command to which they belong.
    is_of_next: bool,
}

#[derive(Debug)]
struct Value {
    name: &'static str,
    bytes: Vec<u8>,
    is_known: bool,
}

impl Values {
    fn get(&self, name: &str) -> Option<&[u8]> {
        let mut known = self.values.iter().filter(|value| value.is_known);
        known
            .find(|value| value.name == name)
            .map(|value| value.bytes.as_slice())
    }

    /// Sets a value. If there is no space left, the name becomes unknown: no value is better than
    /// the old one.
    fn set(&mut self, name: &'static str, bytes: &[u8]) {
        let at = self.values.iter().position(|value| value.name == name);
        let mut value = match at {
            Some(at) => self.values.swap_remove(at),
            None => Value {
                name,
                bytes: Vec::new(),
                is_known: false,
            },
        };
        let others: usize = self.values.iter().map(|other| other.bytes.len()).sum();
        value.bytes.clear();
        value.is_known = others + bytes.len() <= VALUE_BYTES_MAX;
        if value.is_known {
            // Most values are short.
            value.bytes.reserve_exact(bytes.len());
            value.bytes.extend_from_slice(bytes);
        }
        self.values.push(value);
    }

    fn of_next(&mut self) -> &mut Self {
        self.end();
        self.is_of_next = true;
        self
    }

    /// Keeps the values that came just before for this command, and removes older ones.
    fn begin(&mut self) {
        if !std::mem::take(&mut self.is_of_next) {
            self.end();
        }
    }

    fn end(&mut self) {
        self.is_of_next = false;
        for value in &mut self.values {
            value.is_known = false;
            value.bytes.clear();
            value.bytes.shrink_to(KEPT_BYTES);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_bounded_and_a_stale_one_is_never_shown() {
        let mut macros = Macros::default();
        macros.keep(&[(MacroStage::Mail, &["i"])]);
        macros.read(b"Mi\0short\0");
        macros.read(&[&b"Li\0"[..], &[b'x'; VALUE_BYTES_MAX + 1]].concat());
        assert_eq!(macros.get("i"), None);
    }
}
