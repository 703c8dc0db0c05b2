//! Tables of regular expressions: pcre_table(5) and regexp_table(5) of Postfix, maps of
//! rspamd, `*_regex` lists of Haraka.
//!
//! A sender cannot be looked up in regular expressions. The lines that would refuse
//! somebody are rejected one by one, so that the user can see what to list instead.

use super::out::Out;
use super::plain;
use crate::list::meaning::action::Action;
use crate::list::row::Skip;
use crate::list::row::reject_reason::RejectReason;
use crate::list::text::words::Words;

/// Reads one line.
pub(crate) fn read(line: &[u8], out: &mut Out<'_>) {
    let line = line.strip_prefix(plain::BOM).unwrap_or(line).trim_ascii();
    let mut words = line.split(|b| b.is_ascii_whitespace());
    match words.next().unwrap_or_default() {
        b"" => out.skip(Skip::Blank),
        [b'#', ..] => out.skip(Skip::Comment),
        b"if" | b"endif" | b"IF" | b"ENDIF" => out.skip(Skip::Setting),
        _ => {
            let result = after_pattern(line);
            let action = Words(result)
                .next()
                .and_then(|word| Action::of(word).or_else(|| Action::of_score(word)));
            match action.and_then(Action::skip) {
                Some(skip) => out.skip(skip),
                None => out.reject(RejectReason::Pattern, line),
            }
        }
    }
}

/// Returns what follows `/pattern/flags`.
fn after_pattern(line: &[u8]) -> &[u8] {
    let line = line.strip_prefix(b"!").unwrap_or(line);
    let Some((&delimiter, rest)) = line.split_first() else {
        return line;
    };
    let mut escaped = false;
    let end = rest.iter().position(|&b| {
        let found = b == delimiter && !escaped;
        escaped = b == b'\\' && !escaped;
        found
    });
    let after = end.and_then(|end| rest.get(end + 1..)).unwrap_or_default();
    let flags = after
        .iter()
        .position(u8::is_ascii_whitespace)
        .unwrap_or(after.len());
    after.get(flags..).unwrap_or_default()
}
