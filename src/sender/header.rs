//! A header value by crate `mail-parser`, next to our own scan: a second, independent parser.
//!
//! Its answer is not taken blindly, for it
//! glues neighbours together (`a@b <c@d>` gives `a@bc@d`), replaces 8-bit bytes by
//! U+FFFD and takes a quoted name for an address where a comment follows. So an address
//! counts
//!
//! * when it stands in the value byte for byte between `<` and `>`: then the parser saw
//!   an angle address there, wherever our scan thinks it is;
//! * as a weak one when the scan found nothing but weak ones, and it stands in the
//!   value byte for byte.
//!
//! It is read on like the inside of an angle address, for routes and doubled brackets
//! come along with it.
//!
//! The parser takes memory for each token and has quadratic corners (openers of
//! encoded words), so it is given no more than [`MAX_VALUE_BYTES`] of one value and
//! [`MAX_MESSAGE_BYTES`] of one message. The scan does not need it.

use mail_parser::parsers::MessageStream;
use mail_parser::{Addr, HeaderValue};
use memchr::memmem;

use super::identity::Strength;
use super::path::Paths;
use super::store::Out;

/// Values up to this length are given to mail-parser. Among 8,685 real sender fields
/// none was longer than 1 KiB.
pub(super) const MAX_VALUE_BYTES: usize = 2 * 1024;

/// What mail-parser reads of one message, all values together: its time per byte is a
/// hundred times ours in the worst case, which this bounds to about a millisecond.
const MAX_MESSAGE_BYTES: usize = 16 * 1024;

/// Reads values within the budget of one message.
#[derive(Debug)]
pub(super) struct Parser {
    left_bytes: usize,
    line: Vec<u8>,
}

impl Default for Parser {
    fn default() -> Self {
        Self {
            left_bytes: MAX_MESSAGE_BYTES,
            line: Vec::new(),
        }
    }
}

impl Parser {
    /// A new message begins.
    pub(super) fn refill(&mut self) {
        self.left_bytes = MAX_MESSAGE_BYTES;
    }

    /// Gives its memory back.
    pub(super) fn give_back(&mut self) {
        self.line = Vec::new();
    }

    /// Adds to the scan's addresses those that mail-parser finds beyond them; `strong`
    /// says whether the scan found any that is not weak.
    pub(super) fn union(
        &mut self,
        paths: &mut Paths,
        value: &[u8],
        strong: bool,
        out: &mut Out<'_>,
    ) {
        if value.len() > MAX_VALUE_BYTES || value.len() > self.left_bytes {
            return;
        }
        self.left_bytes -= value.len();
        self.line.clear();
        self.line.extend_from_slice(value);
        // Without an end of line the parser forgets its last token.
        self.line.push(b'\n');
        let value = &self.line[..self.line.len() - 1];
        let parsed = MessageStream::new(&self.line).parse_address();
        let HeaderValue::Address(addresses) = parsed else {
            return;
        };
        for Addr { address, .. } in addresses.iter() {
            let Some(address) = address.as_deref().map(str::trim) else {
                continue;
            };
            let Some((local, domain)) = address.rsplit_once('@') else {
                continue;
            };
            if local.is_empty() || domain.is_empty() || address.contains(['<', '>']) {
                continue;
            }
            match standing(value, address.as_bytes()) {
                Some(Standing::Angle) => {
                    out.set_strength(Strength::Strong);
                    paths.content(address.as_bytes(), out);
                }
                Some(Standing::Loose) if !strong => {
                    out.set_strength(Strength::Weak);
                    paths.content(address.as_bytes(), out);
                }
                Some(Standing::Loose) | None => {}
            }
        }
        out.set_strength(Strength::Strong);
    }
}

enum Standing {
    Angle,
    Loose,
}

/// How `address` stands in `value`, if it does.
fn standing(value: &[u8], address: &[u8]) -> Option<Standing> {
    let mut standing = None;
    for start in memmem::find_iter(value, address) {
        let before = value[..start].trim_ascii_end();
        let after = value[start + address.len()..].trim_ascii_start();
        if before.ends_with(b"<") && after.starts_with(b">") {
            return Some(Standing::Angle);
        }
        standing = Some(Standing::Loose);
    }
    standing
}
