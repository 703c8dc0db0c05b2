//! Builds a word that looks like an address from tokens, and reads it.
//!
//! RFC 5322 allows comments and white space around `@` and dots (obs-local-part, obs-domain), so a
//! word continues across them: `spam (x) @ bad . example`. Prose looks the same
//! (`Hello. spam@bad.example`), so such a word has two readings: with the joined parts, and
//! without them.
//!
//! Backslashes, stray quotes and bytes that no domain contains make a word *odd*. An odd word
//! counts as written and also peeled, without these bytes: `'spam@bad.example'`,
//! `spam\@bad.example`, `spam@bad.example!`.
//!
//! An address that ends a word is one of its own, whatever stands before it: programs that search a
//! text for an address show spam@bad.example for `name@ spam@bad.example` (the part after an inner
//! `@`) and `Name =spam@bad.example` (without marks, if text precedes it).

use std::ops::Range;

use memchr::{memchr, memchr_iter, memrchr};

use super::identity::Strength;
use super::store::{MAX_ADDRESS_BYTES, Out};
use blocklist_filter::rfc5322::{Nesting, Role, is_in_domain, is_quoted_string, is_special, quote};

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
enum Gap {
    #[default]
    None,
    Comment,
    Space,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Piece {
    #[default]
    Atom,
    Quoted,
    Encoded,
}

#[derive(Debug, Default)]
pub(super) struct Word {
    bytes: Vec<u8>,
    /// The position of the last `@`.
    at: Option<usize>,
    /// What separates the next piece from the last one.
    gap: Gap,
    last: Piece,
    /// Where the narrower reading begins, and where it ends.
    narrow_from: usize,
    narrow_to: Option<usize>,
    /// Where the string begins in `Name"spam"@bad.example`: few readers take the text before it for a
    /// name.
    quoted_from: usize,
    /// Where the last part was joined to the domain: if it is a local part, it begins here.
    joined_at: usize,
    /// Whether anything but blanks precedes it in the same text.
    follows: bool,
    too_long: bool,
    peeled: Vec<u8>,
}

impl Word {
    pub(super) fn space(&mut self) {
        self.gap = Gap::Space;
    }

    pub(super) fn comment(&mut self) {
        self.follows |= self.bytes.is_empty();
        self.gap = self.gap.max(Gap::Comment);
    }

    pub(super) fn atom(&mut self, bytes: &[u8], out: &mut Out<'_>) {
        self.piece(bytes, Piece::Atom, out);
    }

    /// Adds the decoded text of an encoded word. Its characters have no syntactic meaning: in a
    /// local part it is quoted where necessary, and in a domain it ends the word if it has special
    /// characters.
    pub(super) fn encoded(&mut self, bytes: &[u8], out: &mut Out<'_>) {
        if !bytes.iter().copied().any(is_special) {
            self.piece(bytes, Piece::Encoded, out);
        } else if self.at.is_some() {
            self.finish(out);
        } else {
            let mut quoted = Vec::new();
            quote(bytes, &mut quoted);
            self.piece(&quoted, Piece::Encoded, out);
        }
    }

    /// Adds a quoted string with its quotes. In a domain it ends the word, but some programs only
    /// drop the quotes of `spam@bad.""example`.
    pub(super) fn quoted(&mut self, bytes: &[u8], out: &mut Out<'_>) {
        if self.at.is_some() {
            let inside = bytes.get(1..bytes.len() - 1).unwrap_or_default();
            if self.is_glued() && inside.iter().copied().all(is_in_domain) {
                self.narrow_to = self.narrow_to.or(Some(self.bytes.len()));
                self.append(inside);
                self.joined_at = self.bytes.len();
                return;
            }
            self.finish(out);
        }
        self.piece(bytes, Piece::Quoted, out);
    }

    fn piece(&mut self, bytes: &[u8], piece: Piece, out: &mut Out<'_>) {
        if let Some(&last) = self.bytes.last() {
            let dotted = last == b'.' || bytes.first() == Some(&b'.');
            let joined = match self.gap {
                _ if last == b'@' => true,
                Gap::None => {
                    // `"Name"spam@bad.example`: with the name, and without it.
                    let narrow = match (self.last, piece) {
                        (Piece::Atom, Piece::Quoted) => &mut self.quoted_from,
                        _ => &mut self.narrow_from,
                    };
                    if self.at.is_none() && !dotted {
                        *narrow = self.bytes.len();
                    }
                    true
                }
                gap => {
                    let words = (self.last, piece) == (Piece::Encoded, Piece::Encoded);
                    let joined = dotted || words || gap == Gap::Comment;
                    if joined && self.at.is_none() {
                        self.narrow_from = self.bytes.len();
                    } else if joined {
                        self.joined_at = self.bytes.len();
                        self.narrow_to = self.narrow_to.or(Some(self.joined_at));
                    }
                    joined
                }
            };
            if !joined {
                self.finish(out);
            }
        }
        self.append(bytes);
        self.last = piece;
        self.gap = Gap::None;
    }

    pub(super) fn literal(&mut self, bytes: &[u8], out: &mut Out<'_>) {
        self.append(bytes);
        self.finish(out);
    }

    /// Returns whether nothing separates the next token from the last piece.
    pub(super) fn is_glued(&self) -> bool {
        self.gap == Gap::None
    }

    pub(super) fn is_local(&self) -> bool {
        self.at.is_none()
    }

    pub(super) fn wants_domain(&self) -> bool {
        self.bytes.last() == Some(&b'@')
    }

    pub(super) fn at(&mut self, out: &mut Out<'_>) {
        if self.bytes.is_empty() || self.wants_domain() {
            self.follows = true;
            return;
        }
        if self.at.is_some() {
            if let Some(to) = self.narrow_to.take() {
                // `a@b. c@d`: the dot ended a sentence. `a@b""@c`: an empty local part.
                let mut next = self.bytes.split_off(to);
                let from = self.joined_at - to;
                self.finish(out);
                if next.is_empty() {
                    next.extend_from_slice(b"\"\"");
                }
                self.narrow_from = if from < next.len() { from } else { 0 };
                self.bytes = next;
            } else if self.gap != Gap::None {
                self.finish(out);
                return;
            }
        }
        self.at = Some(self.bytes.len());
        self.append(b"@");
        self.gap = Gap::None;
    }

    fn append(&mut self, bytes: &[u8]) {
        if self.bytes.len() + bytes.len() > MAX_ADDRESS_BYTES {
            self.too_long = true;
        } else {
            self.bytes.extend_from_slice(bytes);
        }
    }

    pub(super) fn begin(&mut self) {
        self.clear();
        self.follows = false;
    }

    #[inline]
    pub(super) fn clear(&mut self) {
        self.gap = Gap::None;
        if self.bytes.is_empty() && !self.too_long {
            return;
        }
        self.follows = true;
        self.bytes.clear();
        self.at = None;
        self.last = Piece::Atom;
        self.narrow_from = 0;
        self.quoted_from = 0;
        self.narrow_to = None;
        self.joined_at = 0;
        self.too_long = false;
    }

    /// Ends the word. If it is an address, pushes it in each of its readings.
    #[inline]
    pub(super) fn finish(&mut self, out: &mut Out<'_>) {
        if self.wants_domain() {
            // `a@b@`: the last `@` divides nothing.
            self.bytes.pop();
            self.at = memrchr(b'@', &self.bytes);
        }
        if self.too_long {
            // What is missing may have been all of one side of the `@`.
            out.overflow();
        } else if let Some(at) = self.at {
            // The narrow reading may have ended behind the `@` that was just dropped.
            let end = self.bytes.len();
            let to = self.narrow_to.unwrap_or(end).clamp(at, end);
            let is_narrow = to < end;
            let is_shown = out.is_shown();
            let mut read = |from: usize, to: usize, follows: bool| {
                let word = &self.bytes[from..to];
                readings(word, at - from, follows, &mut self.peeled, out);
            };
            read(0, end, self.follows);
            let from = self.narrow_from.min(at);
            if from > 0 || is_narrow {
                read(from, to, self.follows || from > 0);
            }
            if let Some(inner) = inner_at(&self.bytes[..at]).filter(|_| is_shown) {
                read(inner + 1, end, true);
                if is_narrow {
                    read(inner + 1, to, true);
                }
            }
            let quoted = self.bytes.get(self.quoted_from..at).unwrap_or_default();
            if self.quoted_from > 0 && is_shown && is_quoted_string(quoted) {
                let strength = out.strength();
                out.set_strength(Strength::Weak);
                out.push(&self.bytes[self.quoted_from..end]);
                out.set_strength(strength);
            }
        }
        self.clear();
    }
}

fn inner_at(local: &[u8]) -> Option<usize> {
    memchr(b'@', local)?;
    let mut nesting = Nesting::strict().without_comments();
    let places = local.iter().map(|&byte| (nesting.step(byte), byte));
    let ats = places
        .enumerate()
        .filter(|(_, at)| *at == (Role::Outside, b'@'));
    ats.last().map(|(index, _)| index)
}

/// Pushes `word` if it is an address, and its peeled form if that is one. The last `@` of `word` is
/// at `at`. If it follows other text, also without the marks before its first letter or digit.
fn readings(word: &[u8], at: usize, follows: bool, peeled: &mut Vec<u8>, out: &mut Out<'_>) {
    if !is_address(word, at) {
        // An address before it, behind a blank that is no space: `a@b` in `a@b\u{a0}@!`.
        push_separated(word, peeled, out);
        return;
    }
    out.push(word);
    let marks = leading_marks(&word[..at]);
    if follows && marks > 0 {
        readings(&word[marks..], at - marks, false, peeled, out);
    }
    if is_odd(word, at) {
        let at = peel(word, at, peeled);
        // Without its quotes a local part may have an entirely different meaning.
        let local = &peeled[..at];
        let plain = is_quoted_string(local) || !local.iter().copied().any(is_special);
        if plain && peeled.as_slice() != word {
            push_bare(peeled, at, out);
        }
        push_separated(word, peeled, out);
    }
}

fn push_bare(word: &[u8], at: usize, out: &mut Out<'_>) {
    if is_address(word, at) {
        out.push(word);
        let marks = leading_marks(&word[..at]);
        if marks > 0 {
            out.push(&word[marks..]);
        }
    }
}

/// Pushes each address of a word with several, separated only by control characters or by blanks
/// and commas of other scripts: a reader sees two addresses, the tokens are one word.
fn push_separated(word: &[u8], peeled: &mut Vec<u8>, out: &mut Out<'_>) {
    if memchr_iter(b'@', word).nth(1).is_none() {
        return;
    }
    let mut push = |mut piece: &[u8], at: Option<usize>| {
        // `a@b\@`: an `@` at the end divides nothing, escaped or not.
        while let Some(rest) = piece.strip_suffix(b"@") {
            piece = rest.strip_suffix(b"\\").unwrap_or(rest);
        }
        if piece.len() < word.len()
            && let Some(at) = at
            && is_address(piece, at)
        {
            out.push(piece);
            let at = peel(piece, at, peeled);
            push_bare(peeled, at, out);
        }
    };
    // Where the piece began, and its last `@` outside quotes.
    let (mut from, mut at) = (0, None);
    let mut next = 0;
    let mut nesting = Nesting::with_escapes_outside().without_comments();
    for chunk in word.utf8_chunks() {
        for character in chunk.valid().chars() {
            let here = next;
            next += character.len_utf8();
            // All special bytes are ASCII, so the first byte decides for the whole character.
            if nesting.step(word[here]) != Role::Outside {
                continue;
            }
            match character {
                '@' => at = Some(here - from),
                character if character.is_ascii_control() || is_break(character) => {
                    push(&word[from..here], at.take());
                    from = next;
                }
                _ => {}
            }
        }
        if nesting.is_outside() && is_latin_blank(chunk.invalid()) {
            push(&word[from..next], at.take());
            from = next + 1;
        }
        next += chunk.invalid().len();
    }
    push(&word[from..], at);
}

/// Returns the length of the marks before the first character that begins an address, if there is
/// one. An underscore belongs to the address, as in the words of regular expressions.
fn leading_marks(local: &[u8]) -> usize {
    let is_mark = |byte: &u8| byte.is_ascii_punctuation() && !matches!(byte, b'_' | b'"' | b'\\');
    let first = local.iter().position(|byte| !is_mark(byte));
    first.unwrap_or_default()
}

/// Returns whether both sides of the `@` have text, and the domain has a letter or digit.
fn is_address(word: &[u8], at: usize) -> bool {
    at > 0 && word.get(at + 1..).is_some_and(names_domain)
}

fn names_domain(bytes: &[u8]) -> bool {
    bytes
        .iter()
        .any(|byte| byte.is_ascii_alphanumeric() || !byte.is_ascii())
}

fn is_odd(word: &[u8], at: usize) -> bool {
    let domain = &word[at + 1..];
    let literal = domain.first() == Some(&b'[');
    (!literal && (domain.ends_with(b"..") || !domain.iter().copied().all(is_in_domain)))
        || word
            .iter()
            .any(|&byte| matches!(byte, b'"' | b'\\') || !matches!(byte, b' '..=b'~'))
}

/// Keeps the part of the word between the nearest bytes on both sides of the `@` that nobody would
/// take for part of the address. Returns the position of the `@` in the result.
fn peel(word: &[u8], at: usize, peeled: &mut Vec<u8>) -> usize {
    peeled.clear();
    let quoted = is_quoted_string(&word[..at]);
    if quoted {
        peeled.extend_from_slice(&word[..at]);
    } else {
        let local = word[..at]
            .iter()
            .copied()
            .filter(|byte| !matches!(byte, b'"' | b'\\' | b'\r' | b'\n'));
        peeled.extend(local);
        let from = last_break(peeled);
        peeled.drain(..from);
    }
    let local = peeled.len();
    peeled.push(b'@');
    let domain = &word[at + 1..];
    if domain.first() == Some(&b'[') {
        peeled.extend_from_slice(domain);
        return local;
    }
    let domain: &[u8] = &domain[..first_break(domain)];
    peeled.extend(domain.iter().copied().filter(|&byte| byte != b'\\'));
    // One final dot belongs to a domain, more are the end of a sentence, as in an envelope.
    while peeled.ends_with(b".") {
        peeled.pop();
    }
    // `'spam@bad.example'`: remove the opening partner of the mark after the domain.
    let closing = word.get(at + 1 + domain.len());
    if let (Some(&first), Some(&closing), false) = (peeled.first(), closing, quoted) {
        let partner = match closing {
            b'}' => b'{',
            byte => byte,
        };
        if first == partner && local > 1 {
            peeled.remove(0);
            return local - 1;
        }
    }
    local
}

fn first_break(text: &[u8]) -> usize {
    let ascii = text
        .iter()
        .position(|&byte| !is_in_domain(byte) && byte != b'\\')
        .unwrap_or(text.len());
    breaks(&text[..ascii]).next().map_or(ascii, |it| it.start)
}

fn last_break(text: &[u8]) -> usize {
    let from = text
        .iter()
        .rposition(u8::is_ascii_control)
        .map_or(0, |index| index + 1);
    breaks(&text[from..])
        .last()
        .map_or(from, |it| from + it.end)
}

fn breaks(text: &[u8]) -> impl Iterator<Item = Range<usize>> {
    let mut end = 0;
    text.utf8_chunks().flat_map(move |chunk| {
        let from = end;
        let middle = from + chunk.valid().len();
        end = middle + chunk.invalid().len();
        let characters = chunk.valid().char_indices();
        characters
            .filter(|&(_, character)| is_break(character))
            .map(move |(at, character)| from + at..from + at + character.len_utf8())
            .chain(is_latin_blank(chunk.invalid()).then_some(middle..end))
    })
}

/// Returns whether these bytes, which are not UTF-8, are a blank in Latin-1.
fn is_latin_blank(bytes: &[u8]) -> bool {
    matches!(bytes, [0x85 | 0xA0])
}

/// Blanks, quotation marks, brackets and commas beyond ASCII. Excludes the ideographic full stops,
/// which divide labels of a domain (UTS 46), and joiners, which the canonical form drops.
fn is_break(character: char) -> bool {
    !character.is_ascii() && character.is_whitespace()
        || matches!(character,
            '«' | '»' | '‘'..='‟' | '‹' | '›' | '〈'..='】' | '〔'..='〛'
            | '＂' | '＇' | '（' | '）' | '，' | '：' | '；' | '＜' | '＞' | '［' | '］'
            | '،' | '؛' | '、' | '､' | '﹐' | '﹑' | '﹔' | '｜')
}

/// Returns whether there is an `@`, and a letter or digit after it.
pub(super) fn has_address(bytes: &[u8]) -> bool {
    memchr(b'@', bytes).is_some_and(|at| names_domain(&bytes[at + 1..]))
}

pub(super) fn is_divided(bytes: &[u8]) -> bool {
    memrchr(b'@', bytes).is_some_and(|at| is_address(bytes, at))
}
