//! Reads a header value with crate `mail-parser`: a second, independent parser beside our own scan.
//!
//! Its answer needs checks: it joins neighbours (`a@b <c@d>` gives `a@bc@d`), replaces 8-bit bytes
//! by U+FFFD, and takes a quoted name for an address where a comment follows. So an address counts
//!
//! * if it is in the value byte for byte between `<` and `>`: then the parser saw an angle address
//!   there, wherever our scan sees one;
//! * as a weak one, if the scan found only weak ones and the address is in the value byte for byte.
//!
//! The address is then read like the inside of an angle address, because the parser leaves routes
//! and doubled brackets in it.
//!
//! The parser allocates memory for each token, and is quadratic in a few cases (many `=?`), so it
//! gets at most [`MAX_VALUE_BYTES`] of one value and [`MAX_MESSAGE_BYTES`] of one message. Our scan
//! does not depend on it.

use mail_parser::parsers::MessageStream;
use mail_parser::{Addr, HeaderValue};
use memchr::memmem;

use super::identity::Strength;
use super::path::Paths;
use super::store::Out;

/// Values up to this length are passed to mail-parser. None of 8,685 real sender fields was longer
/// than 1 KiB.
pub(super) const MAX_VALUE_BYTES: usize = 2 * 1024;

/// Bytes of one message that mail-parser reads, in all values together. In the worst case its time
/// per byte is a hundred times ours; this limits it to about a millisecond.
const MAX_MESSAGE_BYTES: usize = 16 * 1024;

/// Parses values within the limit of one message: the bytes that are left.
#[derive(Debug)]
pub(super) struct Parser(usize);

impl Default for Parser {
    fn default() -> Self {
        Self(MAX_MESSAGE_BYTES)
    }
}

impl Parser {
    /// Adds the addresses that mail-parser finds and the scan did not. `strong` says whether the
    /// scan found an address that is not weak.
    pub(super) fn add_missed(
        &mut self,
        paths: &mut Paths,
        value: &[u8],
        strong: bool,
        out: &mut Out<'_>,
    ) {
        if value.len() > MAX_VALUE_BYTES || value.len() > self.0 {
            return;
        }
        self.0 -= value.len();
        // Without an end of line the parser drops its last token.
        let line = [value, b"\n"].concat();
        let parsed = MessageStream::new(&line).parse_address();
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
            match occurrence(value, address.as_bytes()) {
                Some(Occurrence::InBrackets) => {
                    out.set_strength(Strength::Strong);
                    paths.content(address.as_bytes(), out);
                }
                Some(Occurrence::Bare) if !strong => {
                    out.set_strength(Strength::Weak);
                    paths.content(address.as_bytes(), out);
                }
                Some(Occurrence::Bare) | None => {}
            }
        }
        out.set_strength(Strength::Strong);
    }
}

enum Occurrence {
    InBrackets,
    Bare,
}

/// Returns how `address` occurs in `value`, if it does.
fn occurrence(value: &[u8], address: &[u8]) -> Option<Occurrence> {
    let mut occurrence = None;
    for start in memmem::find_iter(value, address) {
        let before = value[..start].trim_ascii_end();
        let after = value[start + address.len()..].trim_ascii_start();
        if before.ends_with(b"<") && after.starts_with(b">") {
            return Some(Occurrence::InBrackets);
        }
        occurrence = Some(Occurrence::Bare);
    }
    occurrence
}
