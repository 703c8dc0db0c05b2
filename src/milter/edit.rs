//! Changes to a message, sent at the end of the message.
//!
//! ```text
//!  SMFIR_ADDHEADER     name NUL value NUL              after the last header
//!  SMFIR_CHGHEADER     u32 index, name NUL value NUL   no value: delete
//!  SMFIR_QUARANTINE    reason NUL
//! ```
//!
//! Mail servers do not check everything they are given, so a line break in a value could put a
//! header of the sender's choice into the message. Therefore we check before sending: names as in
//! RFC 5322 section 2.2; values without CR and NUL, and with LF only before white space.

use std::fmt;

use super::error::Unsendable;
use super::packet::write_packet;
use super::protocol::{
    SMFIF_ADDHDRS, SMFIF_CHGHDRS, SMFIF_QUARANTINE, SMFIR_ADDHEADER, SMFIR_CHGHEADER,
    SMFIR_QUARANTINE,
};

/// Most bytes of all strings of one edit together.
const EDIT_BYTES_MAX: usize = 60_000;

/// One change to the message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Edit {
    /// Adds a header after the last.
    AddHeader {
        /// The name, without colon.
        name: String,
        /// The value; the mail server puts a space before it. Folds are LF and white space.
        value: Vec<u8>,
    },
    /// Deletes a header.
    DeleteHeader {
        /// Which of the headers with this name, from 1.
        index: u32,
        /// The name, without colon.
        name: String,
    },
    /// Quarantines the message; the reason is for the mail server's log.
    Quarantine(String),
}

impl Edit {
    pub(super) const fn action(&self) -> u32 {
        match self {
            Self::AddHeader { .. } => SMFIF_ADDHDRS,
            Self::DeleteHeader { .. } => SMFIF_CHGHDRS,
            Self::Quarantine(_) => SMFIF_QUARANTINE,
        }
    }

    /// Appends the packet; appends nothing if it cannot be sent.
    pub(super) fn write(&self, out: &mut Vec<u8>) -> Result<(), Unsendable> {
        match self {
            Self::AddHeader { name, value } => {
                check(name, value)?;
                write_packet(
                    out,
                    SMFIR_ADDHEADER,
                    &[name.as_bytes(), b"\0", value, b"\0"],
                );
            }
            Self::DeleteHeader { index, name } => {
                check(name, b"")?;
                let index = index.to_be_bytes();
                write_packet(out, SMFIR_CHGHEADER, &[&index, name.as_bytes(), b"\0\0"]);
            }
            Self::Quarantine(reason) => {
                check_value("", reason.as_bytes(), |byte, _| byte < b' ')?;
                write_packet(out, SMFIR_QUARANTINE, &[reason.as_bytes(), b"\0"]);
            }
        }
        Ok(())
    }
}

impl fmt::Display for Edit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::AddHeader { name, value } => {
                let value = String::from_utf8_lossy(value).replace('\n', "");
                write!(f, "header added: {name}: {value}")
            }
            Self::DeleteHeader { index, name } => write!(f, "header removed: {name} ({index})"),
            Self::Quarantine(reason) => write!(f, "held: {reason}"),
        }
    }
}

fn check(name: &str, value: &[u8]) -> Result<(), Unsendable> {
    let printable = |byte| (b'!'..=b'~').contains(&byte) && byte != b':';
    if name.is_empty() || !name.bytes().all(printable) {
        return Err(Unsendable(format!(
            "{name:?} cannot be the name of a header"
        )));
    }
    check_value(name, value, |byte, next| match byte {
        b'\0' | b'\r' => true,
        b'\n' => !matches!(next, Some(b' ' | b'\t')),
        _ => false,
    })
}

/// Checks a value with its name. Whether a byte is `forbidden` may depend on the one after it.
fn check_value(
    name: &str,
    value: &[u8],
    forbidden: impl Fn(u8, Option<u8>) -> bool,
) -> Result<(), Unsendable> {
    let bytes = name.len() + value.len();
    if bytes > EDIT_BYTES_MAX {
        return Err(Unsendable(format!(
            "{bytes} bytes are too many for one change, at most {EDIT_BYTES_MAX} can be sent"
        )));
    }
    for (at, &byte) in value.iter().enumerate() {
        if forbidden(byte, value.get(at + 1).copied()) {
            let why = format!("byte {at} of the value is not allowed there: {byte:#04x}");
            return Err(Unsendable(why));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_values_are_not_sent() {
        let edit = Edit::AddHeader {
            name: "X".to_owned(),
            value: vec![b'x'; EDIT_BYTES_MAX],
        };
        let mut out = Vec::new();
        let refused = edit.write(&mut out).expect_err("too long").to_string();
        assert!(refused.contains("60001 bytes are too many"), "{refused}");
        assert!(out.is_empty());
    }
}
