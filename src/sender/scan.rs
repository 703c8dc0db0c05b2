//! Our own lenient scan of a header value; [`super`] states the rules.
//!
//! One pass over the tokens, segment by segment. A segment is the text between commas, semicolons
//! and the colon of a group. The words of a segment are pushed as they are found; if an angle
//! address follows in the same segment, they are taken back. Only if a value gave no mailbox, a
//! second pass also reads inside quotes, comments and encoded words: its addresses are weak.

use std::ops::Range;

use memchr::memchr_iter;

use super::encoded::{self, may_encode};
use super::identity::Strength;
use super::path::{Paths, is_hack};
use super::plain;
use super::store::{Mark, Out};
use super::token::{TokenKind, Tokens};
use super::word::{Word, has_address};

#[derive(Debug, Default)]
pub(super) struct Scanner {
    pub(super) paths: Paths,
    /// The word before an angle address, while that address is read.
    stem: Word,
    run: Run,
    /// Whether a mailbox has no domain: `<root>`.
    has_atom: bool,
    /// Segments with encoded words that touch other text, decoded; each with a comma.
    decoded: Vec<u8>,
}

/// The text between two commas, semicolons or colons.
struct Segment {
    start: (Mark, u64),
    from: usize,
    angle: bool,
    /// Behind the last angle address.
    behind: usize,
    /// Whether a colon precedes it, with a possible group name before the colon.
    named: bool,
    stem: Stem,
}

/// The local part before an angle address, which may continue after it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Stem {
    None,
    Before,
    Continues,
}

struct Name {
    at: Range<usize>,
    /// Whether the first mailbox after the colon is an angle address.
    mailbox_follows: bool,
}

impl Segment {
    fn new(from: usize, out: &Out<'_>) -> Self {
        Self {
            start: out.mark(),
            from,
            angle: false,
            behind: from,
            named: false,
            stem: Stem::None,
        }
    }
}

/// The bytes between two blanks. If the tokens may mean something else than the bytes
/// (`[x]@bad.example`, an encoded local part), the bytes are also read as one address.
#[derive(Debug, Default)]
struct Run {
    /// Where it began, and the mark of the addresses before it.
    start: Option<(usize, Mark)>,
    ats: usize,
    odd: bool,
    /// A run that has ended, and is read after the word that it is part of.
    ended: Option<(Range<usize>, Mark)>,
}

impl Scanner {
    pub(super) fn give_back(&mut self) {
        self.paths.give_back();
        self.stem = Word::default();
        self.decoded = Vec::new();
    }

    /// Pushes the addresses of a header value. Returns whether any was not weak.
    pub(super) fn value(&mut self, value: &[u8], out: &mut Out<'_>) -> bool {
        if self.strong(value, out) {
            return true;
        }
        if may_encode(value) || has_address(value) || has_wide_at(value) {
            let mut text = Vec::new();
            encoded::decode_all(
                value,
                |byte| matches!(byte, b'"' | b'(' | b')' | b'\\'),
                &mut text,
            );
            narrow_ats(&mut text);
            out.set_strength(Strength::Weak);
            self.segments(&text, out);
            out.set_strength(Strength::Strong);
        }
        false
    }

    /// The same without the weak ones.
    pub(super) fn strong(&mut self, value: &[u8], out: &mut Out<'_>) -> bool {
        let before = out.pushed();
        (self.has_atom, self.decoded) = (false, Vec::new());
        self.segments(value, out);
        if !self.decoded.is_empty() {
            // Encoded words in the decoded text are text.
            let decoded = std::mem::take(&mut self.decoded);
            self.segments(&decoded, out);
        }
        out.pushed() > before || self.has_atom
    }

    fn segments(&mut self, text: &[u8], out: &mut Out<'_>) {
        let mut tokens = Tokens::new(text);
        let mut segment = Segment::new(0, out);
        let mut name = None;
        let mut bracket = Bracket::default();
        self.paths.word.begin();
        self.run = Run::default();
        while let Some((kind, bytes)) = tokens.next() {
            let start = tokens.position() - bytes.len();
            match kind {
                TokenKind::Comma | TokenKind::Semicolon => {
                    self.end(text, start, &mut segment, out);
                    if kind == TokenKind::Semicolon {
                        name = None;
                    }
                    segment = Segment::new(tokens.position(), out);
                }
                // In a weak reading, group names count too.
                TokenKind::Colon if out.strength() == Strength::Weak => {
                    self.end(text, start, &mut segment, out);
                    segment = Segment::new(tokens.position(), out);
                }
                TokenKind::Colon if !bracket.holds(start) => {
                    self.finish(text, start, &mut segment, out);
                    if !segment.angle {
                        out.rollback(segment.start);
                    }
                    // Groups do not nest.
                    self.no_group(text, name.take(), out);
                    name = (!segment.angle).then_some(Name {
                        at: segment.from..start,
                        mailbox_follows: false,
                    });
                    segment = Segment::new(tokens.position(), out);
                    segment.named = name.is_some();
                }
                TokenKind::Less => {
                    self.end_run(text, start, out);
                    self.less(text, &mut tokens, &mut segment, out);
                    segment.behind = tokens.position();
                    if let Some(name) = &mut name {
                        name.mailbox_follows |= segment.named && segment.angle;
                    }
                }
                TokenKind::OpenQuote | TokenKind::OpenComment => {
                    self.finish(text, start, &mut segment, out);
                    if !segment.angle {
                        let written = &text[segment.from..start];
                        (self.paths).rewritten(written, false, segment.start.1, out);
                    }
                    self.unclosed(&mut tokens, &mut segment, out);
                    segment.behind = tokens.position();
                }
                _ if segment.stem != Stem::None => {
                    self.after_angle(kind, bytes, &mut tokens, &mut segment, out);
                }
                // The angle address of a segment names its sender.
                _ if segment.angle => {}
                _ => {
                    if kind == TokenKind::At && start > 0 && start == segment.from {
                        // `&amp;@bad.example`: its local part cannot be read.
                        self.paths.word.quoted(b"\"\"", out);
                    }
                    if bytes == b"[" {
                        bracket.open(text, start);
                    }
                    self.run(kind, text, start, out);
                    self.paths.part(kind, bytes, &mut tokens, out);
                }
            }
        }
        self.end(text, text.len(), &mut segment, out);
        self.no_group(text, name, out);
    }

    /// Ends a segment, at `end` of the text. If it has no address, it may consist of encoded words
    /// that are one mailbox, perhaps with comments.
    fn end(&mut self, text: &[u8], end: usize, segment: &mut Segment, out: &mut Out<'_>) {
        self.finish(text, end, segment, out);
        self.paths.word.begin();
        if out.strength() != Strength::Strong {
            return;
        }
        if segment.angle {
            self.paths.behind(&text[segment.behind.min(end)..end], out);
            return;
        }
        let written = &text[segment.from..end];
        let found = out.pushed() > segment.start.1;
        self.encoded(written, found, out);
        (self.paths).rewritten(written, false, segment.start.1, out);
        if out.pushed() == segment.start.1 {
            self.has_atom |= is_atom_with_comment(written);
        }
    }

    /// Reads a segment without an angle address: encoded words may be one mailbox, and if they touch
    /// other text, they are read with it once decoded.
    fn encoded(&mut self, written: &[u8], found: bool, out: &mut Out<'_>) {
        if !may_encode(written) {
            return;
        }
        let (mut bare, mut tokens) = (Vec::new(), Tokens::new(written));
        let (mut touches, mut last) = (false, TokenKind::Space);
        while let Some((kind, bytes)) = tokens.next() {
            let pair = [last, kind];
            let apart = |kind| matches!(kind, TokenKind::Space | TokenKind::Comment);
            touches |= pair.contains(&TokenKind::Encoded)
                && last != kind
                && !pair.map(apart).contains(&true);
            last = kind;
            match kind {
                TokenKind::Comment => bare.push(b' '),
                // Nothing closes those that follow, either: each would be searched to the end.
                TokenKind::OpenComment | TokenKind::OpenQuote => {
                    bare.extend_from_slice(&written[tokens.position() - bytes.len()..]);
                    break;
                }
                _ => bare.extend_from_slice(bytes),
            }
        }
        let mut text = Vec::new();
        encoded::decode_all(&bare, |_| false, &mut text);
        if touches {
            self.decoded.extend_from_slice(&text);
            self.decoded.push(b',');
        } else if let (false, Some(address)) = (found, plain::mailbox(&text)) {
            out.push(address);
        }
    }

    /// Ends the words of a segment, at `end` of the text.
    fn finish(&mut self, text: &[u8], end: usize, segment: &mut Segment, out: &mut Out<'_>) {
        self.end_run(text, end, out);
        self.paths.word.finish(out);
        self.read_run(text, out);
        if segment.stem != Stem::None {
            segment.stem = Stem::None;
            self.stem.clear();
            out.set_strength(Strength::Strong);
        }
    }

    /// Handles the text before a colon that does not begin a group, because no semicolon closes it.
    /// A phrase has no bare `@` (RFC 5322 section 3.4), so this is not a name. If a mailbox in
    /// angle brackets follows directly, most programs still read it as a name.
    fn no_group(&mut self, text: &[u8], name: Option<Name>, out: &mut Out<'_>) {
        let Some(Name {
            at,
            mailbox_follows,
        }) = name
        else {
            return;
        };
        let name = &text[at];
        if has_address(name) {
            if mailbox_follows {
                out.set_strength(Strength::Doubtful);
            } else {
                self.encoded(name, true, out);
            }
            self.paths.words(name, out);
            out.set_strength(Strength::Strong);
        }
    }

    /// Reads an angle address with the word before its bracket: `spam<>@bad.example` is one word.
    fn less(
        &mut self,
        text: &[u8],
        tokens: &mut Tokens<'_>,
        segment: &mut Segment,
        out: &mut Out<'_>,
    ) {
        if segment.stem != Stem::None {
            self.finish(text, tokens.position(), segment, out);
        }
        let start = tokens.position() - 1;
        let (inside, closed) = tokens.angle();
        std::mem::swap(&mut self.paths.word, &mut self.stem);
        self.paths.word.clear();
        let before = out.pushed();
        self.angle(inside, segment, out);
        if out.pushed() == before && !segment.angle && closed && self.atom(inside, tokens, out) {
            // The text before it is its name, unless that is an address itself.
            out.rollback(segment.start);
            (self.stem, self.run) = (Word::default(), Run::default());
            let name = plain::trim(&text[segment.from..start]);
            if plain::is_address(name) {
                out.set_strength(Strength::Weak);
                out.push(name);
                out.set_strength(Strength::Strong);
            }
            return;
        }
        if out.pushed() == before && !segment.angle {
            std::mem::swap(&mut self.paths.word, &mut self.stem);
            self.paths.word.comment();
            return;
        }
        self.run.ended = None;
        if out.strength() == Strength::Weak || out.pushed() == before {
            self.stem.clear();
        } else if self.stem.is_local() {
            segment.stem = Stem::Before;
        } else if !closed && self.stem.is_glued() {
            // `spam@bad.example<ok@good.example` is not a mailbox with a name.
            out.set_strength(Strength::Doubtful);
            self.stem.finish(out);
            out.set_strength(Strength::Strong);
        } else {
            self.stem.clear();
        }
    }

    /// Returns whether the brackets just read hold a mailbox without a domain, which `x` of
    /// `a<x>@b.example` is not.
    fn atom(&mut self, inside: &[u8], tokens: &mut Tokens<'_>, out: &Out<'_>) -> bool {
        let is_atom =
            out.strength() == Strength::Strong && is_atom(plain::trim(inside)) && tokens.is_apart();
        self.has_atom |= is_atom;
        is_atom
    }

    /// Processes a token after an angle address. If it is an `@`
    /// (`spam<ok@good.example>@bad.example`), some programs continue the word before the bracket.
    fn after_angle(
        &mut self,
        kind: TokenKind,
        bytes: &[u8],
        tokens: &mut Tokens<'_>,
        segment: &mut Segment,
        out: &mut Out<'_>,
    ) {
        match (segment.stem, kind) {
            (Stem::Before, TokenKind::Space | TokenKind::Comment) => {}
            (Stem::Before, TokenKind::At) => {
                std::mem::swap(&mut self.paths.word, &mut self.stem);
                self.paths.word.comment();
                segment.stem = Stem::Continues;
                out.set_strength(Strength::Doubtful);
                self.paths.part(kind, bytes, tokens, out);
            }
            (Stem::Continues, TokenKind::Atom | TokenKind::Encoded) => {
                self.paths.part(kind, bytes, tokens, out);
            }
            (Stem::None | Stem::Before | Stem::Continues, _) => {
                if segment.stem == Stem::Continues {
                    self.paths.word.finish(out);
                }
                out.set_strength(Strength::Strong);
                segment.stem = Stem::None;
                self.stem.clear();
            }
        }
    }

    /// Counts a token that begins at `start` in the current run.
    fn run(&mut self, kind: TokenKind, text: &[u8], start: usize, out: &mut Out<'_>) {
        let run = &mut self.run;
        match kind {
            // An escaped blank does not end the run.
            TokenKind::Space if run.start.is_some() && text[..start].ends_with(b"\\") => {
                run.odd = true;
            }
            TokenKind::Space | TokenKind::Greater => self.end_run(text, start, out),
            TokenKind::At if run.start.is_none() => {}
            kind => {
                run.ats += usize::from(kind == TokenKind::At);
                run.odd |= run.ats > 1 || matches!(kind, TokenKind::Encoded | TokenKind::Other);
                run.start.get_or_insert_with(|| (start, out.mark().0));
            }
        }
    }

    fn end_run(&mut self, text: &[u8], end: usize, out: &mut Out<'_>) {
        let run = &mut self.run;
        let is_address = run.odd && run.ats > 0 && !text[..end].ends_with(b"@");
        (run.ats, run.odd) = (0, false);
        if let Some((start, mark)) = run.start.take()
            && is_address
        {
            self.read_run(text, out);
            self.run.ended = Some((start..end, mark));
        }
    }

    fn read_run(&mut self, text: &[u8], out: &mut Out<'_>) {
        if let Some((run, mark)) = self.run.ended.take() {
            self.paths.whole(&text[run], mark, out);
        }
    }

    /// Reads from an unclosed quote or comment to the next comma: only an angle address counts.
    fn unclosed(&mut self, tokens: &mut Tokens<'_>, segment: &mut Segment, out: &mut Out<'_>) {
        // The addresses before it stay: most readers take the first address of
        // `spam@bad.example (Name <ok@good.example>`.
        segment.start = out.mark();
        loop {
            tokens.skip_unclosed();
            if !tokens.skip_less() {
                return;
            }
            self.angle(tokens.angle().0, segment, out);
        }
    }

    /// Reads the inside of an angle address. If it is an address, the words beside it do not count.
    fn angle(&mut self, inside: &[u8], segment: &mut Segment, out: &mut Out<'_>) {
        if !has_address(inside)
            && !may_encode(inside)
            && (inside.contains(&b'@') || !is_hack(inside))
        {
            return;
        }
        let before = out.mark();
        if !self.paths.path(inside, out) || segment.angle {
            segment.angle |= out.pushed() > before.1;
            return;
        }
        segment.angle = true;
        if before.1 > segment.start.1 {
            // The store takes back last first, so take back this address too and push it again.
            out.rollback(segment.start);
            self.paths.path(inside, out);
        }
    }
}

/// The last opening square bracket, and the byte that ends its text.
#[derive(Default)]
struct Bracket {
    end: usize,
    is_closed: bool,
}

impl Bracket {
    fn open(&mut self, text: &[u8], start: usize) {
        if start >= self.end {
            let end =
                memchr::memchr2(b']', b'<', &text[start..]).map_or(text.len(), |at| start + at);
            (self.end, self.is_closed) = (end, text.get(end) == Some(&b']'));
        }
    }

    /// Whether a colon is not one of a group: `spam@bad.example [mailto:a@b.example] <c@d.example>`.
    fn holds(&self, start: usize) -> bool {
        self.is_closed && start < self.end
    }
}

fn is_atom(bytes: &[u8]) -> bool {
    plain::is_atom(bytes) && !has_wide_at(bytes)
}

/// Returns whether a segment is a mailbox without a domain and a comment: `MAILER-DAEMON (a@b)`.
fn is_atom_with_comment(segment: &[u8]) -> bool {
    let mut tokens = Tokens::new(segment);
    let mut seen = (false, false);
    while let Some((kind, bytes)) = tokens.next() {
        seen = match (kind, seen) {
            (TokenKind::Space, _) => seen,
            (TokenKind::Atom, (false, false)) if is_atom(bytes) => (true, false),
            (TokenKind::Comment, (true, _)) => (true, true),
            _ => return false,
        };
    }
    seen == (true, true)
}

/// U+FF20 and U+FE6B, which look like an `@`.
const WIDE_ATS: [&[u8]; 2] = ["\u{FF20}".as_bytes(), "\u{FE6B}".as_bytes()];

fn has_wide_at(text: &[u8]) -> bool {
    memchr_iter(0xEF, text).any(|at| WIDE_ATS.iter().any(|wide| text[at..].starts_with(wide)))
}

fn narrow_ats(text: &mut Vec<u8>) {
    if !has_wide_at(text) {
        return;
    }
    let mut to = 0;
    let mut from = 0;
    while from < text.len() {
        let wide = WIDE_ATS.iter().find(|wide| text[from..].starts_with(wide));
        text[to] = if wide.is_some() { b'@' } else { text[from] };
        from += wide.map_or(1, |wide| wide.len());
        to += 1;
    }
    text.truncate(to);
}
