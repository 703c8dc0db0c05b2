//! Plain lists: what people write and most feeds send.
//!
//! ```text
//!   spam@bad.example                     an entry a line: a@b  a@  @b  b  .b  *.b  *@b
//!   Bad Sender <spam@bad.example>        as mail programs write it; mailto:spam@bad.example
//!   a@bad.example, b@bad.example; c@d    several, between commas or semicolons
//!   spam@bad.example # why               comments: # and ; at the start or after white space
//!   spam@bad.example REJECT              an action, a score or a date after the entry
//! ```
//!
//! Lists of qmail (`badmailfrom`), OpenSMTPD and Haraka are plain lists.
//!
//! The order of the questions is the order of safety: a line that allows a sender
//! lists nobody, whatever else stands on it.

use super::action::Action;
use super::vet::{Wildcards, vet};
use super::{Day, Item, Reason, Row, Skip};

/// Reads one line.
#[inline]
pub(super) fn read<F>(line: &[u8], number: u64, sink: &mut F)
where
    F: FnMut(u64, Row<'_>),
{
    let line = line.strip_prefix(BOM).unwrap_or(line).trim_ascii();
    match line {
        [] => sink(number, Row::Skipped(Skip::Blank)),
        [b'#' | b';', ..] => sink(number, Row::Skipped(Skip::Comment)),
        _ => entries(line, &mut |row| sink(number, row)),
    }
}

/// The byte order mark that editors put before UTF-8.
pub(super) const BOM: &[u8] = b"\xef\xbb\xbf";

/// Reads the entries of a line that is neither blank nor a comment.
fn entries(line: &[u8], sink: &mut dyn FnMut(Row<'_>)) {
    if !line.iter().any(|b| b" \t,;<(\"!".contains(b)) {
        return take(Item::new(line), sink);
    }
    if let [b'!', rest @ ..] = line {
        // `! comment` (adblock), `!friend@good.example` (exim, rbldnsd).
        let comment = rest.first().is_none_or(u8::is_ascii_whitespace);
        let skip = if comment { Skip::Comment } else { Skip::Allow };
        return sink(Row::Skipped(skip));
    }
    if Pieces::new(line).any(allows) {
        return sink(Row::Skipped(Skip::Allow));
    }
    let mut pieces = Pieces::new(line);
    for piece in pieces.by_ref() {
        read_piece(piece, sink);
    }
    if let Some(text) = pieces.doubtful {
        sink(Row::rejected(Reason::Semicolon, text));
    }
}

/// Whether a piece of a line lets somebody pass: `OK` between commas, or
/// `friend@good.example OK`.
fn allows(piece: &[u8]) -> bool {
    let allow = |word| Action::of(word) == Some(Action::Allow);
    if piece.contains(&b'<') {
        // Words before an angle bracket are somebody's name.
        return false;
    }
    let mut words = Words(piece);
    let Some(first) = words.next() else {
        return false;
    };
    match words.next() {
        None => allow(first),
        Some(second) => allow(second) || Action::of_score(second) == Some(Action::Allow),
    }
}

/// Reads what stands between two commas.
fn read_piece(piece: &[u8], sink: &mut dyn FnMut(Row<'_>)) {
    if piece.contains(&b'<') || piece.contains(&b'(') {
        return take(Item::new(without_query(piece)), sink);
    }
    let mut words = Words(piece);
    let Some(first) = words.next() else { return };
    let mut item = Item::new(without_query(first));
    if words.clone().all(|word| word.contains(&b'@')) {
        take(item, sink);
        return words.for_each(|word| take(Item::new(without_query(word)), sink));
    }
    for (place, word) in words.enumerate() {
        let action = Action::of(word).or_else(|| Action::of_score(word));
        match (action, Day::read(word)) {
            (_, Some(day)) => item.added = Some(day),
            (Some(action), _) if place == 0 => {
                if let Some(skip) = action.skip() {
                    return sink(Row::Skipped(skip));
                }
                if Action::of(word).is_some() {
                    // The rest is the text of the reply.
                    break;
                }
            }
            // A second number beside a score or a count.
            (Some(_), _) if Action::of(word).is_none() => {}
            _ => return sink(Row::rejected(Reason::Trailing, piece)),
        }
    }
    take(item, sink);
}

/// `mailto:a@b?subject=x` is a link to `a@b`.
fn without_query(text: &[u8]) -> &[u8] {
    let is_link = text
        .get(..7)
        .is_some_and(|scheme| scheme.eq_ignore_ascii_case(b"mailto:"));
    match memchr::memchr(b'?', text) {
        Some(query) if is_link => text.get(..query).unwrap_or(text),
        _ => text,
    }
}

/// Hands an item over, unless its text cannot be an entry.
fn take(item: Item<'_>, sink: &mut dyn FnMut(Row<'_>)) {
    match vet(item.text, Wildcards::Star) {
        Ok(()) => sink(Row::Item(item)),
        Err(reason) => sink(Row::rejected(reason, item.text)),
    }
}

/// Follows quotes, brackets and parentheses through a line.
#[derive(Clone, Copy, Default)]
struct Nesting {
    quoted: bool,
    escaped: bool,
    angled: bool,
    depth: u32,
}

impl Nesting {
    /// Takes the next byte in; says whether it stands outside of everything.
    fn step(&mut self, byte: u8) -> bool {
        let outside = !self.quoted && !self.angled && self.depth == 0;
        match byte {
            _ if self.escaped => self.escaped = false,
            b'\\' => self.escaped = self.quoted || self.depth > 0,
            b'"' if self.depth == 0 => self.quoted = !self.quoted,
            _ if self.quoted => {}
            b'(' => self.depth += 1,
            b')' => self.depth = self.depth.saturating_sub(1),
            b'<' if self.depth == 0 => self.angled = true,
            b'>' if self.depth == 0 => self.angled = false,
            _ => {}
        }
        outside
    }
}

/// The pieces of a line between commas and semicolons, up to its comment.
struct Pieces<'a> {
    rest: &'a [u8],
    /// What followed a semicolon that may begin a comment or separate addresses.
    doubtful: Option<&'a [u8]>,
}

impl<'a> Pieces<'a> {
    fn new(line: &'a [u8]) -> Self {
        Self {
            rest: line,
            doubtful: None,
        }
    }

    /// The next piece, perhaps empty.
    fn cut(&mut self) -> &'a [u8] {
        let mut nesting = Nesting::default();
        let mut before = 0;
        for (at, &byte) in self.rest.iter().enumerate() {
            let apart = before == b' ' || before == b'\t';
            before = byte;
            if !nesting.step(byte) {
                continue;
            }
            let (piece, after) = self.rest.split_at(at);
            match byte {
                b'#' if apart => {
                    self.rest = &[];
                    return piece;
                }
                b';' if apart => {
                    self.rest = &[];
                    self.doubtful = after.contains(&b'@').then_some(after);
                    return piece;
                }
                b',' | b';' => {
                    self.rest = after.get(1..).unwrap_or_default();
                    return piece;
                }
                _ => {}
            }
        }
        // An unclosed quote or bracket runs to the end of the line.
        std::mem::take(&mut self.rest)
    }
}

impl<'a> Iterator for Pieces<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        while !self.rest.is_empty() {
            let piece = self.cut().trim_ascii();
            if !piece.is_empty() {
                return Some(piece);
            }
        }
        None
    }
}

/// The words of a piece; white space in quotes divides nothing.
#[derive(Clone)]
struct Words<'a>(&'a [u8]);

impl<'a> Iterator for Words<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        let text = self.0.trim_ascii_start();
        if text.is_empty() {
            return None;
        }
        let mut nesting = Nesting::default();
        let end = text
            .iter()
            .position(|&b| nesting.step(b) && b.is_ascii_whitespace())
            .unwrap_or(text.len());
        let (word, rest) = text.split_at(end);
        self.0 = rest;
        Some(word)
    }
}
