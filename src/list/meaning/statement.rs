//! Statements over several lines, as settings are written:
//!
//! ```text
//!   whitelist = friend@good.example,       allow friend@good.example \     whitelist =
//!       other@good.example                     other@good.example              friend@good.example
//! ```
//!
//! What the first line says also applies to the others: those after a comma or backslash, and
//! those that are indented more.

use super::label::{Before, Meaning, before};
use crate::list::row::Skip;
use crate::list::row::entry::looks_like_entry;

/// What the previous lines say about the next one.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Statement {
    started: Option<Started>,
}

#[derive(Clone, Copy, Debug)]
struct Started {
    meaning: Meaning,
    indent: usize,
    /// A comma or backslash ends the last line: the next one continues it.
    is_continued: bool,
    /// Lines that are indented more belong to it.
    has_indented: bool,
}

impl Statement {
    /// Reads the next line that is neither a heading nor a comment, and returns what the statement
    /// that it continues says about it. Returns `None` if the line says something itself, or if the
    /// statement only says that its entries are listed.
    pub(crate) fn next(&mut self, text: &[u8], indent: usize) -> Option<Meaning> {
        let is_continued = matches!(text, [.., b',' | b'\\']);
        let stated_here = stated(text, is_continued);
        self.started = match (self.started, stated_here) {
            (_, Some(meaning)) => Some(Started {
                meaning,
                indent,
                is_continued,
                has_indented: holds_entry(text) || matches!(text, [.., b'=']),
            }),
            (Some(started), None)
                if !text.is_empty()
                    && (started.is_continued
                        || started.has_indented && indent > started.indent) =>
            {
                Some(Started {
                    is_continued,
                    ..started
                })
            }
            _ => None,
        };
        let started = self.started.filter(|_| stated_here.is_none())?;
        (started.meaning != Meaning::Listed).then_some(started.meaning)
    }
}

/// Removes the backslash that continues a line.
pub(crate) fn without_backslash(text: &[u8]) -> &[u8] {
    match text {
        [rest @ .., b' ' | b'\t' | b',', b'\\'] => rest.trim_ascii_end(),
        _ => text,
    }
}

/// Returns what a line says about its own entries, if anything.
fn stated(text: &[u8], is_continued: bool) -> Option<Meaning> {
    match before(text) {
        Before::Skip(Skip::Comment) => None,
        // `senders =`
        Before::Skip(Skip::Setting) => Some(Meaning::Listed),
        Before::Skip(skip) => Some(Meaning::Skipped(skip)),
        Before::Unknown => Some(Meaning::Unknown),
        Before::Entries(rest) if rest.len() < text.len() => Some(Meaning::Listed),
        // `white.senders=friend@good.example,\`
        Before::Entries(_) => {
            let name = text.split(|&b| b == b'@').next().unwrap_or_default();
            (is_continued && name.contains(&b'=')).then_some(Meaning::Unknown)
        }
    }
}

/// Returns whether a text contains an entry.
pub(crate) fn holds_entry(text: &[u8]) -> bool {
    text.contains(&b'@')
        || text
            .split(|b| b.is_ascii_whitespace() || matches!(b, b',' | b'"' | b'\''))
            .any(looks_like_entry)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_line_says_holds_for_those_that_go_on_with_it() {
        let allowed = Some(Meaning::Skipped(Skip::Allow));
        for (lines, expected) in [
            (
                &["whitelist = a@b,", "c@d,", "e@f", "g@h"][..],
                &[None, allowed, allowed, None][..],
            ),
            (&["allow a@b \\", "c@d"], &[None, allowed]),
            (
                &["whitelist =", "  c@d", "  e@f", "g@h"],
                &[None, allowed, allowed, None],
            ),
            (
                &["whitelist = a@b", "  c@d", "deny e@f", "  g@h"],
                &[None, allowed, None, None],
            ),
            (&["office = a@b,", "", "c@d"], &[None, None, None]),
            (&["office = a@b,", "c@d"], &[None, Some(Meaning::Unknown)]),
            (&["white.a=a@b,\\", "c@d"], &[None, Some(Meaning::Unknown)]),
            (&["a@b,", "c@d \\", "  e@f"], &[None, None, None]),
            (&["blocked = a@b,", "c@d"], &[None, None]),
        ] {
            let mut statement = Statement::default();
            let said = lines.iter().map(|line| {
                let text = line.trim_ascii();
                statement.next(text.as_bytes(), line.len() - text.len())
            });
            assert_eq!(said.collect::<Vec<_>>(), expected, "{lines:?}");
        }
    }
}
