//! Reads a path, the text inside angle brackets or one that should be a single address: its words,
//! and the whole as one address.

use blocklist_filter::address::{Canonical, Rules};
use blocklist_filter::rfc5322::{Nesting, Role};

use super::delivered::{BLANK_SUB, JOINED, WORDS, rewritten};
use super::encoded::{self, Encoded, may_encode};
use super::identity::Strength;
use super::plain;
use super::store::{Mark, Out};
use super::token::{TokenKind, Tokens};
use super::word::{Word, has_address, is_divided};

#[derive(Debug, Default)]
pub(super) struct Paths {
    pub(super) word: Word,
    decoded: Vec<u8>,
    whole: Canonical,
    other: Canonical,
    compared_bytes: usize,
    pub(super) is_sendmail: bool,
}

/// Bytes of one message that are compared in canonical form. Beyond this limit both readings of a
/// text are kept, even if they are equal: looking up an address twice does no harm.
const MAX_COMPARED_BYTES: usize = 4 * 1024;

impl Paths {
    pub(super) fn reset(&mut self) {
        self.compared_bytes = 0;
        self.is_sendmail = false;
    }

    pub(super) fn give_back(&mut self) {
        *self = Self {
            compared_bytes: self.compared_bytes,
            is_sendmail: self.is_sendmail,
            ..Self::default()
        };
    }

    /// Pushes the addresses of the words between angle brackets. Returns whether there were any.
    pub(super) fn content(&mut self, inside: &[u8], out: &mut Out<'_>) -> bool {
        let inside = inside.trim_ascii();
        if plain::is_address(inside) {
            out.push(inside);
            return true;
        }
        let before = out.pushed();
        let mut rest = before;
        let routed = inside;
        let inside = without_route(inside);
        self.words(inside, out);
        if out.pushed() == before && routed.len() > inside.len() {
            // `<@x a@b:y>` has no source route.
            self.words(routed, out);
            rest = out.pushed();
        }
        if out.pushed() == before && may_encode(inside) {
            // An encoded word that contains the `@` as well.
            let mut text = Vec::new();
            encoded::decode_all(inside, |_| false, &mut text);
            self.words(&text, out);
        }
        if out.pushed() == before && has_address(inside) {
            // `<"spam@bad.example">`: the quoted text is the address. The same text in a comment
            // is not: `<root (spam@bad.example)>` is root's.
            let mut peeled = inside.to_vec();
            peeled
                .iter_mut()
                .filter(|byte| **byte == b'"')
                .for_each(|byte| *byte = b' ');
            self.words(&peeled, out);
        }
        if inside.iter().any(u8::is_ascii_whitespace) {
            self.without_blanks(inside, out);
        }
        self.rewritten(inside, true, rest, out);
        out.pushed() > before
    }

    /// Pushes the addresses of a path: those of its words, and the path as one address unless it is
    /// equal to one of them. The grammar has no `[x]@bad.example`, and some programs read
    /// `=?x?q?y?=@bad.example` as an encoded word. But servers accept both in MAIL FROM and lists
    /// name them, so everything that [`Canonical`] can read must be found.
    pub(super) fn path(&mut self, path: &[u8], out: &mut Out<'_>) -> bool {
        let path = path.trim_ascii();
        let (mark, before) = out.mark();
        let plain = self.content(path, out) && plain::is_address(path);
        if !plain && is_one(path) && !path.ends_with(b"@") {
            self.whole(path, mark, out);
        }
        out.pushed() > before
    }

    /// Pushes the text as one address, unless an equal one was found since the mark.
    pub(super) fn whole(&mut self, text: &[u8], mark: Mark, out: &mut Out<'_>) {
        if out.since(mark).any(|address| address == text) {
            return;
        }
        self.compared_bytes += text.len();
        if self.compared_bytes > MAX_COMPARED_BYTES {
            if is_divided(text) {
                out.push(text);
            }
            return;
        }
        // Two spellings of one mailbox at a provider are still two addresses here.
        let rules = Rules {
            providers: false,
            ..Rules::default()
        };
        if self.whole.read(text, rules).is_err() {
            return;
        }
        let known = out.since(mark).any(|address| {
            self.other.read(address, rules).is_ok()
                && self.other.as_bytes() == self.whole.as_bytes()
        });
        if !known {
            out.push(text);
        }
    }

    /// Pushes what servers make of a mailbox, of which nothing was found since `before`, or whose words dots
    /// join. Only in brackets are all words those of one address.
    pub(super) fn rewritten(
        &mut self,
        mailbox: &[u8],
        in_brackets: bool,
        before: u64,
        out: &mut Out<'_>,
    ) {
        if !out.is_shown() || out.strength() != Strength::Strong {
            return;
        }
        let is_hack = out.pushed() == before && is_hack(mailbox);
        let has_blanks = mailbox.iter().any(u8::is_ascii_whitespace);
        let is_parted = has_blanks || mailbox.contains(&b'(');
        for (wanted, blank) in [
            (is_hack, WORDS),
            (is_hack && in_brackets && is_parted, JOINED),
            (self.is_sendmail && has_blanks, BLANK_SUB),
        ] {
            if wanted && let Some(address) = rewritten(mailbox, blank) {
                // It may have encoded words.
                self.words(&address, out);
            }
        }
    }

    /// Pushes what Postfix makes of a text behind an angle address, when a content filter brings the message back. It is
    /// doubtful: nobody else shows it.
    pub(super) fn behind(&mut self, text: &[u8], out: &mut Out<'_>) {
        if out.is_shown()
            && is_hack(text)
            && let Some(address) = rewritten(text, WORDS)
        {
            out.set_strength(Strength::Doubtful);
            self.words(&address, out);
            out.set_strength(Strength::Strong);
        }
    }

    /// Pushes an address that is broken by blanks or folds, joined as some programs join it.
    fn without_blanks(&mut self, inside: &[u8], out: &mut Out<'_>) {
        let special = |byte| matches!(byte, b'"' | b'(' | b'<' | b',' | b';' | b':' | b'[');
        let ats = inside.iter().filter(|&&byte| byte == b'@').count();
        if ats == 1 && !inside.iter().copied().any(special) {
            let mut squeezed = inside.to_vec();
            squeezed.retain(|byte| !byte.is_ascii_whitespace());
            self.words(&squeezed, out);
        }
    }

    /// Pushes every word of `text` that looks like an address. An unclosed comment runs to the end,
    /// as in [`Canonical`] and every other reader that we compared.
    pub(super) fn words(&mut self, text: &[u8], out: &mut Out<'_>) {
        let mut tokens = Tokens::new(text);
        self.word.begin();
        while let Some((kind, bytes)) = tokens.next() {
            match kind {
                TokenKind::OpenQuote => {}
                TokenKind::OpenComment => break,
                kind => self.part(kind, bytes, &mut tokens, out),
            }
        }
        self.word.finish(out);
    }

    pub(super) fn part(
        &mut self,
        kind: TokenKind,
        bytes: &[u8],
        tokens: &mut Tokens<'_>,
        out: &mut Out<'_>,
    ) {
        match kind {
            TokenKind::Space => self.word.space(),
            TokenKind::Comment => {
                self.word.comment();
                self.literal(tokens, out);
            }
            TokenKind::Atom => self.word.atom(bytes, out),
            TokenKind::Quoted => self.word.quoted(bytes, out),
            TokenKind::Encoded => {
                self.decoded.clear();
                if let Some(encoded) = Encoded::at_start(bytes) {
                    encoded.decode(&mut self.decoded);
                }
                self.word.encoded(&self.decoded, out);
            }
            TokenKind::At => {
                self.word.at(out);
                self.literal(tokens, out);
            }
            // A bracket without an opening one: `spam)@bad.example`.
            TokenKind::Greater | TokenKind::Other if self.word.is_local() => self.word.comment(),
            _ => self.word.finish(out),
        }
    }

    /// After an `@` and any comments, brackets enclose the domain.
    fn literal(&mut self, tokens: &mut Tokens<'_>, out: &mut Out<'_>) {
        if self.word.wants_domain()
            && let Some(literal) = tokens.literal()
        {
            self.word.literal(literal, out);
        }
    }
}

/// Returns whether this may be one address: without angle brackets, and with blanks only if there
/// is a single `@`.
fn is_one(path: &[u8]) -> bool {
    let (mut ats, mut blanks) = (0, 0);
    let mut nesting = Nesting::with_escapes_outside().without_comments();
    for &byte in path {
        match (nesting.step(byte), byte) {
            (_, b'<' | b'>') => return false,
            (Role::Outside | Role::Quoted, b'@') => ats += 1,
            (Role::Outside, byte) if byte.is_ascii_whitespace() => blanks += 1,
            _ => {}
        }
    }
    ats == 1 || ats > 1 && blanks == 0
}

/// Returns whether this may be an address at the host before `!` or behind `%`.
pub(super) fn is_hack(mailbox: &[u8]) -> bool {
    memchr::memchr2(b'!', b'%', mailbox).is_some() && memchr::memchr(b'.', mailbox).is_some()
}

/// Returns a path without its source route, `@a,@b:` (RFC 5321 appendix C).
fn without_route(path: &[u8]) -> &[u8] {
    if path.first() != Some(&b'@') {
        return path;
    }
    let mut literal = false;
    for (index, &byte) in path.iter().enumerate() {
        match byte {
            b'[' => literal = true,
            b']' => literal = false,
            b':' if !literal => return &path[index + 1..],
            _ => {}
        }
    }
    path
}
