//! Marks around lines that a version control system could not merge.
//!
//! ```text
//!   <<<<<<< HEAD
//!   spam@bad.example          listed in one version of the list
//!   =======
//!   friend@good.example       listed in the other
//!   >>>>>>> their-branch
//! ```
//!
//! Only a person can say which of these lines are meant, so they are rejected.

/// Whether the current line is between such marks.
#[derive(Debug, Default)]
pub(crate) struct Conflict {
    is_open: bool,
}

impl Conflict {
    /// Reads the next line of a list, and returns whether it belongs to a conflict.
    #[inline]
    pub(crate) fn holds(&mut self, line: &[u8]) -> bool {
        match mark(line) {
            Some(b'>') => {
                self.is_open = false;
                true
            }
            Some(b'<' | b'|') => {
                self.is_open = true;
                true
            }
            _ => self.is_open && !line.trim_ascii().is_empty(),
        }
    }
}

/// Returns whether a line opens or closes a conflict.
pub(crate) fn is_mark(line: &[u8]) -> bool {
    mark(line).is_some()
}

/// Returns the sign that a mark consists of.
#[inline]
fn mark(line: &[u8]) -> Option<u8> {
    let &sign = line.first().filter(|sign| b"<>|".contains(sign))?;
    let (signs, rest) = line.split_at_checked(SIGNS)?;
    let is_mark = signs.iter().all(|b| *b == sign) && matches!(rest, [] | [b' ' | b'\r', ..]);
    is_mark.then_some(sign)
}

/// Number of signs in a mark.
const SIGNS: usize = 7;
