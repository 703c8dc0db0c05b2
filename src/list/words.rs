//! Cutting a line into words and pieces without cutting through quotes.

/// Follows quotes, angle brackets and parentheses through a text.
#[derive(Clone, Copy, Default)]
pub(super) struct Nesting {
    quoted: bool,
    escaped: bool,
    angled: bool,
    depth: u32,
}

impl Nesting {
    /// Takes the next byte in; says whether it stands outside of everything.
    pub(super) fn step(&mut self, byte: u8) -> bool {
        let outside = !self.quoted && !self.angled && self.depth == 0;
        match byte {
            _ if self.escaped => self.escaped = false,
            b'\\' => self.escaped = self.quoted || self.depth > 0,
            b'"' if self.depth == 0 => self.quoted = !self.quoted,
            _ if self.quoted => {}
            b'(' => self.depth = self.depth.saturating_add(1),
            b')' => self.depth = self.depth.saturating_sub(1),
            b'<' if self.depth == 0 => self.angled = true,
            b'>' if self.depth == 0 => self.angled = false,
            _ => {}
        }
        outside
    }
}

/// The words of a text; white space in quotes, brackets and comments divides
/// nothing. What is not closed runs to the end.
#[derive(Clone)]
pub(super) struct Words<'a>(pub(super) &'a [u8]);

impl<'a> Iterator for Words<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        let text = self.0.trim_ascii_start();
        if text.is_empty() {
            return None;
        }
        // Most words have nothing that could hold white space together.
        let sign = text
            .iter()
            .position(|b| b.is_ascii_whitespace() || matches!(b, b'"' | b'(' | b'<' | b'\\'));
        let end = match sign.and_then(|at| text.get(at)) {
            Some(sign) if !sign.is_ascii_whitespace() => {
                let mut nesting = Nesting::default();
                text.iter()
                    .position(|&b| nesting.step(b) && b.is_ascii_whitespace())
            }
            _ => sign,
        };
        let end = end.unwrap_or(text.len());
        let (word, rest) = text.split_at(end);
        self.0 = rest;
        Some(word)
    }
}

#[cfg(test)]
mod tests {
    use super::Words;

    #[test]
    fn white_space_divides_outside_of_quotes_and_brackets_alone() {
        for (text, words) in [
            ("  a@b.example\tOK ", &["a@b.example", "OK"][..]),
            ("\"a b\"@c.example x", &["\"a b\"@c.example", "x"]),
            ("a<b c> d)e f", &["a<b c>", "d)e", "f"]),
            ("a(b \"c) d\\\" e", &["a(b \"c)", "d\\\" e"]),
            ("one>two three", &["one>two", "three"]),
            ("", &[]),
        ] {
            let found: Vec<_> = Words(text.as_bytes()).collect();
            let words: Vec<_> = words.iter().map(|word| word.as_bytes()).collect();
            assert_eq!(found, words, "{text}");
        }
    }
}
