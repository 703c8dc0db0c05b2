//! Data of rbldnsd, type `dnset`: `.name` is the name with all its subdomains.
//!
//! ```text
//!   :127.0.0.2:listed          the answer for the next names    setting
//!   .bad.example               bad.example and its subdomains
//!   bad2.example :3:why        this name alone, with its own answer
//!   *.bad3.example             its subdomains
//!   !good.example              an exception                     allowance
//! ```

use super::include::includes;
use super::out::{Out, before_comment, comment};
use super::plain;
use crate::list::meaning::label::Meaning;
use crate::list::meaning::section_heading::meaning_of;
use crate::list::row::Skip;
use crate::list::row::entry::is_ip;
use crate::list::row::reject_reason::RejectReason;
use crate::list::text::words::Words;

/// Reads one line.
pub(crate) fn read(line: &[u8], out: &mut Out<'_>) {
    let line = line.strip_prefix(plain::BOM).unwrap_or(line).trim_ascii();
    match line {
        [] | [b'#' | b';', ..] => out.skip(plain::nothing(line)),
        _ if includes(line) => out.reject(RejectReason::Include, line),
        // `$DATASET dnset:whitelist @`
        [b'$', ..] if is_data_set_of_allowed(line) => out.reject(RejectReason::DataSet, line),
        [b':' | b'$', ..] => out.skip(Skip::Setting),
        [b'!', ..] => out.skip(Skip::Allow),
        _ if plain::is_cleared(comment(line, before_comment(line))) => {
            out.reject(RejectReason::UnclearWord, line);
        }
        _ => {
            let mut words = Words(line);
            let name = words.next().unwrap_or_default();
            // Only an answer or a comment may follow a name.
            let is_data = words
                .next()
                .is_none_or(|value| matches!(value, [b':' | b'#' | b';', ..]) || is_ip(value));
            match name {
                _ if !is_data || name.contains(&b'@') => plain::entries(line, out),
                [b'.', name @ ..] => out.tree(name),
                name => out.domain(name),
            }
        }
    }
}

/// Returns whether a data set begins that is called an allowlist: `$DATASET dnset:whitelist @`.
fn is_data_set_of_allowed(line: &[u8]) -> bool {
    let mut words = Words(line);
    let is_data_set = words
        .next()
        .is_some_and(|word| word.eq_ignore_ascii_case(b"$DATASET"));
    is_data_set && words.any(|word| matches!(meaning_of(word).0, Meaning::Skipped(_)))
}
