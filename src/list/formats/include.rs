//! Lines that include another file: the entries there are not read.
//!
//! ```text
//!   $INCLUDE more.zone          zone files, rbldnsd
//!   include more.cf             SpamAssassin
//!   conf-file=/etc/more.conf    dnsmasq
//!   include: more.conf          unbound
//!   !#include more.txt          ad blockers
//! ```

use crate::list::text::is_one_of;

/// The words that such lines begin with, in lower case. What follows a word must be the name of a
/// file.
const WORDS: &str = "!#include $include .include addn-hosts conf-dir conf-file include include-toplevel servers-file";

/// Returns whether a line includes another file.
pub(crate) fn includes(text: &[u8]) -> bool {
    let is_part = |b: &u8| b.is_ascii_alphabetic() || b"!#$.-".contains(b);
    let end = text.iter().position(|b| !is_part(b));
    let (word, file) = text.split_at(end.unwrap_or(text.len()));
    // Not `include@bad.example`.
    let file = match file {
        [b':' | b'=' | b'(', file @ ..] => file,
        [b' ' | b'\t', file @ ..] => match file.trim_ascii_start() {
            [b':' | b'=', file @ ..] | file => file,
        },
        _ => return false,
    };
    !file.trim_ascii().is_empty() && is_one_of(word, WORDS)
}
