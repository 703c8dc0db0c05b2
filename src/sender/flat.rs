//! A mailbox without what mail servers drop from it: brackets, routes, comments, quotes and blanks.

use blocklist_filter::rfc5322::{Nesting, Role, is_atext, quote};

/// A mailbox as Postfix's reader of envelopes understands it, which ignores the grammar:
/// `x<sp"am@"bad .example>;` is spam@bad.example. It takes the first brackets that are not empty,
/// and removes a source route, comments, quotes, backslashes and blanks anywhere.
#[derive(Default)]
pub(super) struct Flat {
    pub(super) text: Vec<u8>,
    /// The last `@` and `%` and the first `!`, outside quotes.
    pub(super) at: Option<usize>,
    pub(super) percent: Option<usize>,
    pub(super) bang: Option<usize>,
}

impl Flat {
    /// Reads a mailbox; with `blank`, blanks and comments between two words become that byte.
    pub(super) fn of(argument: &[u8], blank: Option<u8>) -> Option<Self> {
        let mut flat = Self {
            text: Vec::with_capacity(argument.len()),
            ..Self::default()
        };
        let mut nesting = Nesting::with_escapes_outside();
        let (mut open_brackets, mut in_route) = (0_usize, false);
        // A blank or a comment between two words. Sendmail also writes a dot for a blank before an
        // `@`.
        let mut between = None;
        for &byte in argument {
            let role = nesting.step(byte);
            match (role, byte) {
                (Role::Delimiter, b')') => {
                    between = between.or(Some(byte));
                    continue;
                }
                (Role::Delimiter | Role::Comment, _) | (Role::Outside, b')') => continue,
                (Role::Escaped | Role::Quoted, _) => {}
                (Role::Outside, b'<') => {
                    flat.clear();
                    open_brackets += 1;
                    in_route = false;
                    continue;
                }
                (Role::Outside, b'>') if in_route => continue,
                // `<>` is the null sender, unless an address follows directly.
                (Role::Outside, b'>') if flat.text.is_empty() => {
                    open_brackets = open_brackets.saturating_sub(1);
                    continue;
                }
                (Role::Outside, b'>') => break,
                (Role::Outside, byte) if is_blank(byte) && open_brackets > 0 => {
                    between = Some(b' ');
                    continue;
                }
                (Role::Outside, byte) if is_blank(byte) => break,
                (Role::Outside, _) => {}
            }
            match byte {
                // A text that begins with an `@` is a source route, up to its colon.
                b'@' if flat.text.is_empty() => in_route = true,
                b':' if in_route => {
                    in_route = false;
                    flat.clear();
                    continue;
                }
                _ => {}
            }
            let follows = |between| is_in_word(byte) || (byte == b'@' && between == b' ');
            if between.take().is_some_and(follows)
                && flat.text.last().is_some_and(|&last| is_in_word(last))
            {
                flat.text.extend(blank);
            }
            let here = flat.text.len();
            match (role, byte) {
                (Role::Outside, b'@') => flat.at = Some(here),
                (Role::Outside, b'%') => flat.percent = Some(here),
                (Role::Outside, b'!') => flat.bang = flat.bang.or(Some(here)),
                _ => {}
            }
            flat.text.push(byte);
        }
        (!in_route && !nesting.is_in_quotes()).then_some(flat)
    }

    fn clear(&mut self) {
        self.text.clear();
        (self.at, self.percent, self.bang) = (None, None, None);
    }

    /// Returns the address that the last `@` of the text divides, in quotes or not.
    pub(super) fn address(&self) -> Option<Vec<u8>> {
        let at = memchr::memrchr(b'@', &self.text)?;
        (at > 0).then(|| joined(&self.text[..at], &self.text[at + 1..]))
    }
}

pub(super) fn joined(local: &[u8], domain: &[u8]) -> Vec<u8> {
    let mut address = Vec::with_capacity(local.len() + domain.len() + 4);
    if local.iter().all(|&byte| byte == b'.' || is_atext(byte)) {
        address.extend_from_slice(local);
    } else {
        quote(local, &mut address);
    }
    address.push(b'@');
    let stray = |byte: u8| matches!(byte, b'"' | b'\\') || is_blank(byte);
    address.extend(domain.iter().copied().filter(|&byte| !stray(byte)));
    if domain.starts_with(b"[") && !domain.contains(&b']') {
        address.push(b']');
    }
    // No server treats one final dot as part of a domain; Sendmail ignores further ones.
    while address.ends_with(b".") {
        address.pop();
    }
    address
}

/// Returns whether a dot joins this byte with a word beside it: Sendmail's operators need none.
pub(super) fn is_in_word(byte: u8) -> bool {
    is_atext(byte) && !matches!(byte, b'!' | b'%' | b'+' | b'/' | b'^')
}

pub(super) fn is_blank(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\0')
}
