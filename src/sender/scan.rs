//! Our own lenient scan of a header value; the rules are in [`super`].
//!
//! One pass over the tokens, segment by segment (a segment is what stands between
//! commas, semicolons and the colon of a group). The words of a segment are pushed as
//! they come; when an angle address turns up beside them they are taken back. Only if a
//! value gave nothing, a second pass reads it with quotes, comments and encoded words
//! opened: what it finds is weak.

use crate::address::{Canonical, Rules};

use super::encoded::{self, Encoded, may_encode};
use super::plain;
use super::store::{Mark, Out};
use super::token::{Kind, Tokens};
use super::word::{Word, has_address};

/// Reads header values; keeps its memory between them.
#[derive(Debug, Default)]
pub(super) struct Scanner {
    word: Word,
    text: Vec<u8>,
    decoded: Vec<u8>,
    whole: Canonical,
    other: Canonical,
}

/// What stands between two commas.
struct Segment {
    start: (Mark, u64),
    /// It has an angle address.
    angle: bool,
}

impl Segment {
    fn new(out: &Out<'_>) -> Self {
        Self {
            start: out.mark(),
            angle: false,
        }
    }
}

impl Scanner {
    /// Pushes the addresses of a header value; says whether any was not weak.
    pub(super) fn value(&mut self, value: &[u8], out: &mut Out<'_>) -> bool {
        let before = out.pushed();
        self.segments(value, out);
        if out.pushed() > before {
            return true;
        }
        let encoded = may_encode(value);
        if encoded || has_address(value) {
            let mut text = std::mem::take(&mut self.text);
            text.clear();
            encoded::decode_all(
                value,
                |byte| matches!(byte, b'"' | b'(' | b')' | b'\\'),
                &mut text,
            );
            out.set_weak(true);
            self.segments(&text, out);
            out.set_weak(false);
            self.text = text;
        }
        false
    }

    fn segments(&mut self, text: &[u8], out: &mut Out<'_>) {
        let mut tokens = Tokens::new(text);
        let mut segment = Segment::new(out);
        self.word.drop();
        while let Some((kind, bytes)) = tokens.next() {
            match kind {
                Kind::Comma | Kind::Semicolon => {
                    self.word.finish(out);
                    segment = Segment::new(out);
                }
                Kind::Colon => {
                    // The name of a group; in a weak reading it counts as all else does.
                    self.word.finish(out);
                    if !segment.angle && !out.is_weak() {
                        out.rollback(segment.start);
                    }
                    segment = Segment::new(out);
                }
                Kind::Less => {
                    self.word.finish(out);
                    self.angle(tokens.angle(), &mut segment, out);
                }
                Kind::OpenQuote | Kind::OpenComment => {
                    self.word.finish(out);
                    self.unclosed(&mut tokens, &mut segment, out);
                }
                // A segment with an angle address has its senders.
                _ if segment.angle => {}
                _ => self.part(kind, bytes, &mut tokens, out),
            }
        }
        self.word.finish(out);
    }

    /// A token that may be part of a word, or else ends it.
    fn part(&mut self, kind: Kind, bytes: &[u8], tokens: &mut Tokens<'_>, out: &mut Out<'_>) {
        match kind {
            Kind::Space => self.word.space(),
            Kind::Comment => {
                self.word.comment();
                self.literal(tokens, out);
            }
            Kind::Atom => self.word.atom(bytes, out),
            Kind::Quoted => self.word.quoted(bytes, out),
            Kind::Encoded => {
                self.decoded.clear();
                if let Some(encoded) = Encoded::at_start(bytes) {
                    encoded.decode(&mut self.decoded);
                }
                self.word.encoded(&self.decoded, out);
            }
            Kind::At => {
                self.word.at(out);
                self.literal(tokens, out);
            }
            // A bracket that closes nothing: `spam)@bad.example`.
            Kind::Greater | Kind::Other if self.word.is_local() => self.word.comment(),
            _ => self.word.finish(out),
        }
    }

    /// Behind an `@`, comments passed over, brackets hold the domain.
    fn literal(&mut self, tokens: &mut Tokens<'_>, out: &mut Out<'_>) {
        if self.word.wants_domain()
            && let Some(literal) = tokens.literal()
        {
            self.word.literal(literal, out);
        }
    }

    /// From an unclosed quote or comment to the next comma: text, in which only an
    /// angle address counts.
    fn unclosed(&mut self, tokens: &mut Tokens<'_>, segment: &mut Segment, out: &mut Out<'_>) {
        // What stands before it stays: `spam@bad.example (Name <ok@good.example>` is the
        // first's to most readers.
        segment.start = out.mark();
        loop {
            tokens.skip_unclosed();
            if !tokens.skip_less() {
                return;
            }
            self.angle(tokens.angle(), segment, out);
        }
    }

    /// The inside of an angle address: if it is one, the words beside it do not count.
    fn angle(&mut self, inside: &[u8], segment: &mut Segment, out: &mut Out<'_>) {
        if !has_address(inside) && !may_encode(inside) {
            return;
        }
        let before = out.mark();
        if !self.path(inside, out) || segment.angle {
            segment.angle |= out.pushed() > before.1;
            return;
        }
        segment.angle = true;
        if before.1 > segment.start.1 {
            // Taking back goes in order, so the address goes too and comes again.
            out.rollback(segment.start);
            self.path(inside, out);
        }
    }

    /// Pushes the addresses of the words between angle brackets; says whether there
    /// were any.
    pub(super) fn content(&mut self, inside: &[u8], out: &mut Out<'_>) -> bool {
        let inside = inside.trim_ascii();
        if plain::is_address(inside) {
            out.push(inside);
            return true;
        }
        let before = out.pushed();
        let routed = inside;
        let inside = without_route(inside);
        self.words(inside, out);
        if out.pushed() == before && routed.len() > inside.len() {
            // `<@x a@b:y>` is no route.
            self.words(routed, out);
        }
        if out.pushed() == before && may_encode(inside) {
            // An encoded word that holds the `@` as well.
            let mut text = std::mem::take(&mut self.text);
            let start = text.len();
            encoded::decode_all(inside, |_| false, &mut text);
            self.words(&text[start..], out);
            text.truncate(start);
            self.text = text;
        }
        if out.pushed() == before && has_address(inside) {
            // `<"spam@bad.example">`: it is the address, whatever is around it. A comment
            // is not: `<root (spam@bad.example)>` is root's.
            let mut peeled = std::mem::take(&mut self.decoded);
            peeled.clear();
            peeled.extend(inside.iter().map(|&byte| match byte {
                b'"' => b' ',
                byte => byte,
            }));
            self.words(&peeled, out);
            self.decoded = peeled;
        }
        if inside.iter().any(u8::is_ascii_whitespace) {
            self.squeezed(inside, out);
        }
        out.pushed() > before
    }

    /// Pushes the addresses of a path: those of its words, and the path as one address
    /// unless they say the same. No grammar knows `[x]@bad.example`, and
    /// `=?x?q?y?=@bad.example` is an encoded word to some: servers accept both in MAIL
    /// FROM and lists name them, so whatever [`Canonical`] can read must be found. Says
    /// whether there were any addresses.
    pub(super) fn path(&mut self, path: &[u8], out: &mut Out<'_>) -> bool {
        let path = path.trim_ascii();
        let (mark, before) = out.mark();
        let plain = self.content(path, out) && plain::is_address(path);
        // Brackets within, or an `@` that only a comment follows: more than one address.
        let broken = |byte: &u8| byte.is_ascii_whitespace() || matches!(byte, b'<' | b'>');
        if !plain && path.contains(&b'@') && !path.iter().any(broken) && !path.ends_with(b"@") {
            self.whole(path, mark, out);
        }
        out.pushed() > before
    }

    /// Pushes the text as one address, unless one that was found since the mark says the same.
    pub(super) fn whole(&mut self, text: &[u8], mark: Mark, out: &mut Out<'_>) {
        // What a provider takes for one mailbox is still spelled in two ways.
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

    /// An address broken by blanks or folds, as some programs put it together.
    fn squeezed(&mut self, inside: &[u8], out: &mut Out<'_>) {
        let special = |byte| matches!(byte, b'"' | b'(' | b'<' | b',' | b';' | b':' | b'[');
        let ats = inside.iter().filter(|&&byte| byte == b'@').count();
        if ats == 1 && !inside.iter().copied().any(special) {
            let mut squeezed = std::mem::take(&mut self.decoded);
            squeezed.clear();
            squeezed.extend(inside.iter().filter(|byte| !byte.is_ascii_whitespace()));
            self.words(&squeezed, out);
            self.decoded = squeezed;
        }
    }

    /// Pushes every word of `text` that looks like an address. An unclosed comment runs to
    /// the end, as in [`Canonical`] and every reader that was compared.
    fn words(&mut self, text: &[u8], out: &mut Out<'_>) {
        let mut tokens = Tokens::new(text);
        self.word.drop();
        while let Some((kind, bytes)) = tokens.next() {
            match kind {
                Kind::OpenQuote => {}
                Kind::OpenComment => break,
                kind => self.part(kind, bytes, &mut tokens, out),
            }
        }
        self.word.finish(out);
    }
}

/// A path without its source route, `@a,@b:` (RFC 5321 appendix C).
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

#[cfg(test)]
mod tests {
    use super::super::{Identity, Senders};

    /// Addresses of a value, weak ones with a `~` before them, joined by blanks.
    fn found(value: &str) -> String {
        let mut senders = Senders::new();
        senders.add_header(Identity::From, value.as_bytes());
        let shown = senders.iter().map(|sender| {
            let weak = if sender.weak { "~" } else { "" };
            format!("{weak}{}", String::from_utf8_lossy(sender.address))
        });
        shown.collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn what_counts() {
        let cases = [
            ("a@b c@d", "a@b c@d"),
            ("a@b, c@d", "a@b c@d"),
            ("v@w <a@b>", "a@b"),
            ("<a@b> v@w", "a@b"),
            ("<a@b> <c@d>", "a@b c@d"),
            ("<a@b> (v@w)", "a@b"),
            ("\"v@w\" <a@b>", "a@b"),
            ("\"v@w\" a@b", "a@b"),
            ("\"v <v@w>\" <a@b>", "a@b"),
            ("\"name <a@b>", "a@b"),
            ("\"v@w <a@b>", "a@b"),
            ("\"v@w, <a@b>", "a@b"),
            ("\"v@w, a@b", "a@b"),
            ("(name <a@b>", "a@b"),
            ("a@b (name", "a@b"),
            ("Name,(<a@b>)", "~a@b"),
            ("<junk@<a@b>", "a@b"),
            ("<v@w <a@b>", "v@w a@b"),
            ("Name <a@b, c@d", "a@b c@d"),
            ("Name <a@b, Name <c@d>", "a@b c@d"),
            ("\"x\"<>123<a@b>", "a@b"),
            ("a@b <>", "a@b"),
            ("\"a@b\"", "~a@b"),
            ("=?utf-8?Q?a=40b?=", "~a@b"),
            ("<=?utf-8?Q?a=40b?=>", "a@b"),
            ("=?utf-8?Q?v=40w?= <a@b>", "a@b"),
            ("=?utf-8?Q?v@w?= <a@b>", "a@b"),
            ("=?utf-8?Q?a?=@b", "a@b"),
            ("group: a@b, c@d;", "a@b c@d"),
            ("v@w: a@b;", "a@b"),
            ("a: b: a@b;, c@d;", "a@b c@d"),
            ("undisclosed:;", ""),
            ("", ""),
            ("<>", ""),
            ("word", ""),
            ("<@r,@s:a@b>", "a@b"),
            ("<@r a@b:x>", "a@b"),
            ("<mailto:a@b>", "a@b"),
            ("<<a@b>>", "a@b"),
            ("a (x) @ (y) b . c", "a@b.c a@b"),
            ("\"a b\"@c", "\"a b\"@c"),
            ("\"a b\" @c <>", "\"a b\"@c"),
            ("<\"a b\"@c>", "\"a b\"@c"),
            ("<\"a@b\">", "a@b"),
            ("<[x]@b>", "x@b [x]@b"),
            ("<x (a@b)>", "~a@b ~xa@b"),
            ("<a@b (v@w>", "a@b"),
            ("a@b (x <c@d>", "a@b c@d"),
            ("a)@b", "a@b"),
            ("<=?utf-8?Q?a?=@b>", "a@b =?utf-8?Q?a?=@b"),
            ("'a@b'", "'a@b' a@b"),
            ("a@[192.0.2.1]", "a@[192.0.2.1]"),
            ("a@[IPv6:2001:db8::1]", "a@[IPv6:2001:db8::1]"),
            ("a@(v@w) (x)[192.0.2.1]", "a@[192.0.2.1]"),
            ("<a@(v@w)\r\n [192.0.2.1]>", "a@[192.0.2.1]"),
            ("\"Name\"a@b", "\"Name\"a@b Namea@b a@b"),
            ("Hello. a@b", "Hello.a@b a@b"),
            ("a@b. c@d", "a@b. c@d"),
            ("a@b@c", "a@b@c"),
            ("@a@b", "a@b"),
            ("a@b>", "a@b"),
        ];
        for (value, expected) in cases {
            assert_eq!(found(value), expected, "{value}");
        }
    }
}
