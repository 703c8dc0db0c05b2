//! The names on the lines of a whitelist, or of a list of entries to remove.
//!
//! ```text
//!   friend@good.example              one entry per line, as in a plain list
//!   friend@good.example OK           a whitelist consists of what a blocklist skips
//!   friend@good.example # expires 2026-12-24   the first day on which it no longer counts
//!   allow friend@good.example        and allow: Friend <friend@good.example>
//!   spam@bad.example REJECT          wrong in a whitelist; in a removal it does not matter
//! ```
//!
//! The plain reader would skip the lines that allow a sender, and that sender would be refused.

use crate::list::formats::out::Out;
use crate::list::formats::plain::{BOM, Pieces};
use crate::list::meaning::action::Action;
use crate::list::meaning::end::end_in;
use crate::list::row::day::Day;
use crate::list::row::entry::Wildcards;
use crate::list::row::reject_reason::RejectReason;
use crate::list::row::{RawEntry, Skip};
use crate::list::text::words::Words;

/// Reads a line of a whitelist.
pub(super) fn allowed(line: &[u8], out: &mut Out<'_>) {
    let line = without_mark(line);
    if line.first() == Some(&b'!') || (!is_comment(line) && refuses(line)) {
        return out.reject(RejectReason::Refusal, line);
    }
    names(line, false, end_of(line), out);
}

/// Reads a line of a list of removals.
pub(super) fn removed(line: &[u8], out: &mut Out<'_>) {
    names(without_mark(line), false, None, out);
}

/// Reads a line of an access table of removals, in which a domain includes its subdomains.
pub(super) fn removed_trees(line: &[u8], out: &mut Out<'_>) {
    names(without_mark(line), true, None, out);
}

fn without_mark(line: &[u8]) -> &[u8] {
    line.strip_prefix(BOM).unwrap_or(line).trim_ascii()
}

/// Returns whether a line says that a sender is refused.
fn refuses(line: &[u8]) -> bool {
    Pieces::new(line).any(|piece| {
        // Words before an angle bracket may be a display name.
        let words = piece.rsplit(|&byte| byte == b'>').next().unwrap_or(piece);
        Words(words).any(|word| action(word) == Some(Action::Block))
    })
}

fn is_comment(line: &[u8]) -> bool {
    matches!(line.first(), Some(b'#' | b';'))
}

/// Returns what a word says, with or without a colon after it.
fn action(word: &[u8]) -> Option<Action> {
    Action::of(word.strip_suffix(b":").unwrap_or(word))
}

/// Returns the day on which the entries of a line end, if its comment begins with it: `# expires
/// 2026-12-24`. In other comments a day may be that of a block or of its end; the entries stay.
fn end_of(line: &[u8]) -> Option<Day> {
    let mut pieces = Pieces::new(line);
    pieces.by_ref().for_each(drop);
    let comment = pieces.comment()?.trim_ascii();
    let is_end = |word: &&[u8]| {
        let starts = comment.get(..word.len());
        starts.is_some_and(|start| start.eq_ignore_ascii_case(word))
    };
    let says_end = [&b"expires"[..], b"until", b"valid until"]
        .iter()
        .any(is_end);
    end_in(comment)
        .filter(|end| says_end && end.is_first)?
        .day?
}

fn names(line: &[u8], trees: bool, expires: Option<Day>, out: &mut Out<'_>) {
    if line.is_empty() {
        return out.skip(Skip::Blank);
    }
    if is_comment(line) {
        return out.skip(Skip::Comment);
    }
    for piece in Pieces::new(line) {
        read_piece(piece, trees, expires, out);
    }
}

/// Reads the text between two commas.
fn read_piece(piece: &[u8], trees: bool, expires: Option<Day>, out: &mut Out<'_>) {
    let item = |text| RawEntry {
        expires,
        ..RawEntry::new(text)
    };
    let mut rest = piece;
    // `allow friend@good.example`; `OK` alone is about nobody.
    let mut words = Words(piece);
    if words.next().is_some_and(|first| action(first).is_some()) {
        rest = words.0.trim_ascii();
        if rest.is_empty() {
            return out.reject(RejectReason::Words, piece);
        }
    }
    if let Some(bracket) = memchr::memrchr(b'>', rest) {
        // `Friend <friend@good.example> OK`
        let (mailbox, after) = rest.split_at_checked(bracket + 1).unwrap_or((rest, b""));
        if !Words(after).all(is_action_score_or_day) {
            return out.reject(RejectReason::Trailing, piece);
        }
        return out.raw_entry(item(mailbox), Wildcards::Star);
    }
    if rest.contains(&b'(') {
        return out.raw_entry(item(rest), Wildcards::Star);
    }
    let mut words = Words(rest);
    let Some(first) = words.next() else { return };
    // The text of a reply may follow an action.
    let others = || words.clone().take_while(|word| action(word).is_none());
    let is_list = others().all(|word| word.contains(&b'@'));
    if !is_list && !others().all(is_action_score_or_day) {
        return out.reject(RejectReason::Trailing, piece);
    }
    if trees && !first.contains(&b'@') && !first.starts_with(b".") {
        out.tree(first);
    } else {
        out.raw_entry(item(first), Wildcards::Star);
    }
    if is_list {
        others().for_each(|word| out.raw_entry(item(word), Wildcards::Star));
    }
}

/// Returns whether a word beside a name is an action, a score or a day.
fn is_action_score_or_day(word: &[u8]) -> bool {
    action(word).is_some() || Action::of_score(word).is_some() || Day::is_date(word)
}

#[cfg(test)]
mod tests {
    use crate::list::{Format, Reader, Row};

    /// Returns the entries of a line, or the reason why there are none.
    fn read(format: Format, line: &str) -> String {
        let mut found = Vec::new();
        Reader::new(format)
            .read_all(line.as_bytes(), &mut |_, row: Row<'_>| match row {
                Row::Entry(raw) => {
                    let end = raw.expires.map(|day| format!(" until {day}"));
                    let text = String::from_utf8_lossy(raw.text);
                    found.push(format!("{text}{}", end.unwrap_or_default()));
                }
                Row::Rejected { reason, .. } => found.push(format!("rejected: {reason:?}")),
                Row::Skipped { skip, .. } => found.push(format!("skipped: {skip:?}")),
                Row::Mended { .. } => {}
            })
            .unwrap();
        found.join(" ")
    }

    #[test]
    fn a_whitelist_is_made_of_what_a_blocklist_skips() {
        for (line, expected) in [
            ("friend@good.example", "friend@good.example"),
            ("friend@good.example OK", "friend@good.example"),
            ("friend@good.example OK known to us", "friend@good.example"),
            ("friend@good.example\tDUNNO", "friend@good.example"),
            ("friend@good.example -10.0", "friend@good.example"),
            (
                "friend@good.example 2026-01-31 # why",
                "friend@good.example",
            ),
            (
                "friend@good.example # expires 2026-12-24",
                "friend@good.example until 2026-12-24",
            ),
            (
                "a@b.example, c@d.example # until 2026-12-24",
                "a@b.example until 2026-12-24 c@d.example until 2026-12-24",
            ),
            (
                "friend@good.example # seen 2026-12-24",
                "friend@good.example",
            ),
            (
                "friend@good.example # valid until 2026-12-24",
                "friend@good.example until 2026-12-24",
            ),
            (
                "friend@good.example # remove from blocklist 2026-01-05",
                "friend@good.example",
            ),
            (
                "friend@good.example # unblock 2026-01-05",
                "friend@good.example",
            ),
            (
                "friend@good.example # blocked until 2026-01-05",
                "friend@good.example",
            ),
            (
                "friend@good.example # customer, contract until 2026-01-05",
                "friend@good.example",
            ),
            (
                "friend@good.example # until we meet again",
                "friend@good.example",
            ),
            ("allow friend@good.example", "friend@good.example"),
            ("whitelist: @good.example", "@good.example"),
            (
                "allow: Friend <friend@good.example>",
                "Friend <friend@good.example>",
            ),
            (
                "Friend <friend@good.example> OK",
                "Friend <friend@good.example>",
            ),
            ("a@b.example, c@d.example OK", "a@b.example c@d.example"),
            ("a@b.example c@d.example", "a@b.example c@d.example"),
            ("good.example", "good.example"),
            ("# allowed senders", "skipped: Comment"),
            ("", ""),
            ("friend@good.example REJECT", "rejected: Refusal"),
            ("block: friend@good.example", "rejected: Refusal"),
            ("!friend@good.example", "rejected: Refusal"),
            ("OK", "rejected: Words"),
            ("friend@good.example is a friend", "rejected: Trailing"),
            ("[whitelist]", "rejected: DomainSigns"),
        ] {
            assert_eq!(read(Format::Whitelist, line), expected, "{line}");
        }
    }

    #[test]
    fn a_removal_takes_everybody_on_a_line() {
        for (line, expected) in [
            ("spam@bad.example REJECT go away", "spam@bad.example"),
            ("friend@good.example OK", "friend@good.example"),
            ("unblock: friend@good.example", "friend@good.example"),
        ] {
            assert_eq!(
                read(Format::Removals { trees: false }, line),
                expected,
                "{line}"
            );
        }
        let table = Format::Removals { trees: true };
        assert_eq!(read(table, "bad.example OK"), "bad.example .bad.example");
    }
}
