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
//! The parser allocates memory for each token, and is quadratic in a few cases (many `=?`), so its
//! input is limited. Our scan does not depend on it.

use mail_parser::parsers::MessageStream;
use mail_parser::{Addr, HeaderValue};
use memchr::memmem;

use super::identity::Strength;
use super::path::Paths;
use super::store::Out;

/// Values up to this length are passed to mail-parser. None of 8,685 real sender fields was longer
/// than 1 KiB.
const MAX_VALUE_BYTES: usize = 2 * 1024;

/// Bytes of one message that mail-parser reads, in all values together. In the worst case its time
/// per byte is a hundred times ours; this limits it to about a millisecond.
const MAX_MESSAGE_BYTES: usize = 16 * 1024;

/// Adds the addresses that mail-parser finds and the scan did not. `strong` says whether the scan
/// found an address that is not weak; `parsed_bytes` are those of the message so far.
pub(super) fn add_missed(
    paths: &mut Paths,
    value: &[u8],
    strong: bool,
    parsed_bytes: &mut usize,
    out: &mut Out<'_>,
) {
    if value.len() > MAX_VALUE_BYTES || value.len() > MAX_MESSAGE_BYTES - *parsed_bytes {
        return;
    }
    *parsed_bytes += value.len();
    // Without an end of line the parser drops its last token.
    let line = [value, b"\n"].concat();
    let HeaderValue::Address(addresses) = MessageStream::new(&line).parse_address() else {
        return;
    };
    for Addr { address, .. } in addresses.iter() {
        let address = address.as_deref().unwrap_or_default().trim();
        let Some((local, domain)) = address.rsplit_once('@') else {
            continue;
        };
        if local.is_empty() || domain.is_empty() || address.contains(['<', '>']) {
            continue;
        }
        let strength = in_value(value, address.as_bytes());
        if let Some(strength) = strength.filter(|&found| found == Strength::Strong || !strong) {
            out.set_strength(strength);
            paths.content(address.as_bytes(), out);
        }
    }
    out.set_strength(Strength::Strong);
}

fn in_value(value: &[u8], address: &[u8]) -> Option<Strength> {
    let mut strength = None;
    for start in memmem::find_iter(value, address) {
        let before = value[..start].trim_ascii_end();
        let after = value[start + address.len()..].trim_ascii_start();
        if before.ends_with(b"<") && after.starts_with(b">") {
            return Some(Strength::Strong);
        }
        strength = Some(Strength::Weak);
    }
    strength
}
