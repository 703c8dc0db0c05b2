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
    /// Replaces the value of a header, or deletes the header.
    ChangeHeader {
        /// Which of the headers with this name, from 1.
        index: u32,
        /// The name, without colon.
        name: String,
        /// The new value; an empty one deletes the header.
        value: Vec<u8>,
    },
    /// Quarantines the message; the reason is for the mail server's log.
    Quarantine(String),
}

/// Why an edit cannot be sent.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum EditError {
    /// The mail server did not agree to changes of this kind.
    #[error("the mail server does not allow this change")]
    NotAgreed,
    /// A header name that is empty or has a byte that is not allowed in a name.
    #[error("{0:?} cannot be the name of a header")]
    Name(String),
    /// A value with a NUL, CR or a line end that is not a fold; or a reason with a control
    /// character.
    #[error("byte {at} of the value is not allowed there: {byte:#04x}")]
    Value {
        /// Its position, from 0.
        at: usize,
        /// The byte.
        byte: u8,
    },
    /// More bytes than one edit may have.
    #[error("{0} bytes are too many for one change, at most {EDIT_BYTES_MAX} can be sent")]
    TooLong(usize),
}

impl Edit {
    /// Returns the action flag to which the server must have agreed.
    pub(super) const fn action(&self) -> u32 {
        match self {
            Self::AddHeader { .. } => SMFIF_ADDHDRS,
            Self::ChangeHeader { .. } => SMFIF_CHGHDRS,
            Self::Quarantine(_) => SMFIF_QUARANTINE,
        }
    }

    /// Appends the packet; appends nothing if it cannot be sent.
    pub(super) fn write(&self, out: &mut Vec<u8>) -> Result<(), EditError> {
        match self {
            Self::AddHeader { name, value } => {
                check(name, value)?;
                write_packet(
                    out,
                    SMFIR_ADDHEADER,
                    &[name.as_bytes(), b"\0", value, b"\0"],
                );
            }
            Self::ChangeHeader { index, name, value } => {
                check(name, value)?;
                let index = index.to_be_bytes();
                write_packet(
                    out,
                    SMFIR_CHGHEADER,
                    &[&index, name.as_bytes(), b"\0", value, b"\0"],
                );
            }
            Self::Quarantine(reason) => {
                check_len(reason.len())?;
                if let Some((at, byte)) = find(reason.as_bytes(), |byte, _| byte < b' ') {
                    return Err(EditError::Value { at, byte });
                }
                write_packet(out, SMFIR_QUARANTINE, &[reason.as_bytes(), b"\0"]);
            }
        }
        Ok(())
    }
}

/// Checks a header before it is written.
fn check(name: &str, value: &[u8]) -> Result<(), EditError> {
    check_len(name.len() + value.len())?;
    let printable = |byte| (b'!'..=b'~').contains(&byte) && byte != b':';
    if name.is_empty() || !name.bytes().all(printable) {
        return Err(EditError::Name(name.to_owned()));
    }
    let forbidden = |byte, next: Option<u8>| match byte {
        b'\0' | b'\r' => true,
        b'\n' => !matches!(next, Some(b' ' | b'\t')),
        _ => false,
    };
    match find(value, forbidden) {
        Some((at, byte)) => Err(EditError::Value { at, byte }),
        None => Ok(()),
    }
}

fn check_len(len: usize) -> Result<(), EditError> {
    if len > EDIT_BYTES_MAX {
        Err(EditError::TooLong(len))
    } else {
        Ok(())
    }
}

/// Returns the first byte that is `forbidden`, which also gets the byte after it.
fn find(bytes: &[u8], forbidden: impl Fn(u8, Option<u8>) -> bool) -> Option<(usize, u8)> {
    let next = bytes.iter().copied().skip(1).map(Some).chain([None]);
    let mut pairs = bytes.iter().copied().zip(next).enumerate();
    pairs
        .find(|(_, (byte, next))| forbidden(*byte, *next))
        .map(|(at, (byte, _))| (at, byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn add(name: &str, value: &[u8]) -> Edit {
        Edit::AddHeader {
            name: name.to_owned(),
            value: value.to_vec(),
        }
    }

    #[test]
    fn edits_are_written_as_the_server_reads_them() {
        let name = "X-A".to_owned();
        let cases = [
            (
                add("X-A", b"one\n two"),
                &b"\0\0\0\x0ehX-A\0one\n two\0"[..],
            ),
            (
                Edit::ChangeHeader {
                    index: 2,
                    name,
                    value: Vec::new(),
                },
                b"\0\0\0\x0am\0\0\0\x02X-A\0\0",
            ),
            (Edit::Quarantine("held".to_owned()), b"\0\0\0\x06qheld\0"),
        ];
        for (edit, expected) in cases {
            let mut out = Vec::new();
            assert_eq!(edit.write(&mut out), Ok(()));
            assert_eq!(out, expected, "{edit:?}");
        }
    }

    #[test]
    fn nothing_can_be_smuggled_into_a_header() {
        let cases = [
            (
                add("X-A", b"a\r\nInjected: yes"),
                EditError::Value { at: 1, byte: b'\r' },
            ),
            (
                add("X-A", b"a\nInjected: yes"),
                EditError::Value { at: 1, byte: b'\n' },
            ),
            (add("X-A", b"a\n"), EditError::Value { at: 1, byte: b'\n' }),
            (add("X-A", b"a\0b"), EditError::Value { at: 1, byte: 0 }),
            (add("X A", b""), EditError::Name("X A".to_owned())),
            (add("X:", b""), EditError::Name("X:".to_owned())),
            (add("", b""), EditError::Name(String::new())),
            (add("\u{fc}", b""), EditError::Name("\u{fc}".to_owned())),
            (
                Edit::Quarantine("a\nb".to_owned()),
                EditError::Value { at: 1, byte: b'\n' },
            ),
            (
                add("X", &[b'x'; EDIT_BYTES_MAX]),
                EditError::TooLong(EDIT_BYTES_MAX + 1),
            ),
        ];
        for (edit, expected) in cases {
            let mut out = Vec::new();
            assert_eq!(edit.write(&mut out), Err(expected));
            assert!(out.is_empty());
        }
    }
}
