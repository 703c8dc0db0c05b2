//! Data of rbldnsd, type `dnset`: `.name` is the name with all its subdomains.
//!
//! ```text
//!   :127.0.0.2:listed          the answer for the next names    a setting
//!   .bad.example               bad.example and its subdomains
//!   bad2.example :3:why        this name alone, with its own answer
//!   *.bad3.example             its subdomains
//!   !good.example              an exception                     not listed
//! ```

use super::{Out, includes};
use crate::list::row::{Refusal, RejectReason, Skip, looks_like_entry};
use crate::list::text::blank_words;

pub(crate) fn read(line: &[u8], out: &mut Out<'_>) {
    let line = line.trim_ascii();
    let mut words = blank_words(line);
    let name = words.next().unwrap_or_default();
    match line {
        [] | [b'#' | b';', ..] => out.nothing(),
        _ if includes(line) => out.refuse(Refusal::Include),
        [b'$', ..] if name.eq_ignore_ascii_case(b"$DATASET") => out.refuse(Refusal::DataSet),
        [b':', ..] => out.other(b"an answer"),
        [b'$', ..] => out.other(name),
        [b'!', ..] => out.skip(Skip::Allow),
        // Only an answer or a comment may follow a name.
        _ if words
            .next()
            .is_some_and(|value| !matches!(value, [b':' | b'#' | b';', ..])) =>
        {
            out.reject(RejectReason::NotOfFormat, line);
        }
        _ => match name {
            [b'.', name @ ..] => out.tree(name),
            [b'*', b'.', ..] => out.entry(name),
            name => {
                out.domain(name);
            }
        },
    }
}

/// Returns whether a line has the mark of rbldnsd: `:127.0.0.2:listed`, `$SOA`, `name :3:why`.
pub(crate) fn is_marked(line: &[u8]) -> bool {
    match line {
        // `::1` is an address of a hosts file.
        [b':', b'0'..=b'9', ..] => is_answer(line),
        [b'$', ..] => [&b"$SOA "[..], b"$NS ", b"$DATASET "]
            .iter()
            .any(|start| line.starts_with(start)),
        _ => {
            let mut words = blank_words(line);
            words.next().is_some_and(looks_like_entry) && words.next().is_some_and(is_answer)
        }
    }
}

fn is_answer(word: &[u8]) -> bool {
    matches!(word, [b':', b'0'..=b'9', rest @ ..] if rest.contains(&b':'))
}
