//! The parts of Unicode that the canonical form needs: invisible code points, and lower case of a
//! normalized text. Bytes that are not UTF-8 stay as they are.

use unicode_normalization::{IsNormalized, UnicodeNormalization, is_nfc_quick};

/// The `Default_Ignorable_Code_Point` set of Unicode 16 (DerivedCoreProperties.txt), as inclusive
/// ranges in order. Also the interlinear annotation marks (U+FFF9..FFFB), which are invisible too.
const IGNORABLE: [(u32, u32); 17] = [
    (0x00AD, 0x00AD),
    (0x034F, 0x034F),
    (0x061C, 0x061C),
    (0x115F, 0x1160),
    (0x17B4, 0x17B5),
    (0x180B, 0x180F),
    (0x200B, 0x200F),
    (0x202A, 0x202E),
    (0x2060, 0x206F),
    (0x3164, 0x3164),
    (0xFE00, 0xFE0F),
    (0xFEFF, 0xFEFF),
    (0xFFA0, 0xFFA0),
    (0xFFF0, 0xFFFB),
    (0x1BCA0, 0x1BCA3),
    (0x1D173, 0x1D17A),
    (0xE0000, 0xE0FFF),
];

/// Returns whether the byte may begin an invisible code point or white space beyond ASCII.
pub(super) fn may_begin_blank(byte: u8) -> bool {
    matches!(byte, 0xC2 | 0xCD | 0xD8 | 0xE1..=0xE3 | 0xEF | 0xF0 | 0xF3)
}

/// Returns whether nobody sees this code point: a control character or a default-ignorable one.
/// Includes the tab; a caller that treats it as white space must check it first.
pub(super) fn is_invisible(c: char) -> bool {
    let code = u32::from(c);
    let at = IGNORABLE.partition_point(|&(_, last)| last < code);
    c.is_control() || IGNORABLE.get(at).is_some_and(|&(first, _)| first <= code)
}

/// Returns whether this is the zero-width joiner or non-joiner. IDNA 2008 allows them in some
/// scripts, where they distinguish two domains (RFC 5892 appendix A).
pub(super) fn is_joiner(c: char) -> bool {
    matches!(c, '\u{200C}' | '\u{200D}')
}

pub(super) fn first_char(bytes: &[u8]) -> Option<char> {
    let length = match bytes.first()? {
        0..0x80 => 1,
        0xC2..0xE0 => 2,
        0xE0..0xF0 => 3,
        0xF0..0xF5 => 4,
        _ => return None,
    };
    std::str::from_utf8(bytes.get(..length)?)
        .ok()?
        .chars()
        .next()
}

/// Returns the code point at the end of the bytes, if it may be invisible or white space. Called
/// after every byte of a text, so it looks back over no more bytes than a code point has.
pub(super) fn last_blank(bytes: &[u8]) -> Option<char> {
    let last = &bytes[bytes.len().saturating_sub(char::MAX_LEN_UTF8)..];
    let start = last.iter().rposition(|&byte| byte & 0xC0 != 0x80)?;
    if !may_begin_blank(last[start]) {
        return None;
    }
    let c = first_char(&last[start..])?;
    (c.len_utf8() == last.len() - start).then_some(c)
}

/// How the spellings of a local part or of a label are made equal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fold {
    /// NFC and lower case; a Greek sigma at the end of a word becomes the final one.
    Word,
    /// The same in NFKC.
    CompatibleWord,
    /// NFC and lower case, letter by letter, as UTS 46 does in a domain.
    Label,
}

/// Appends the folded form of `text` to `out`. Folding it again changes nothing.
pub(super) fn fold(text: &[u8], how: Fold, out: &mut Vec<u8>) {
    if text.is_ascii() {
        out.extend(text.iter().map(u8::to_ascii_lowercase));
        return;
    }
    for chunk in text.utf8_chunks() {
        fold_str(chunk.valid(), how, out);
        out.extend_from_slice(chunk.invalid());
    }
}

fn fold_str(text: &str, how: Fold, out: &mut Vec<u8>) {
    // Lower case may leave a text that is not normalized, and a text that is not normalized has
    // no reliable lower case. So normalize before and after.
    let normal = normalized(text, how);
    let lower = match how {
        // Word by word. Otherwise the full stop in "ΝΙΚΟΣ.Α", which Unicode skips when it looks for
        // the end of a word, would change the form of the sigma.
        Fold::Word | Fold::CompatibleWord => normal
            .split_inclusive(|c: char| c.is_ascii_punctuation())
            .map(str::to_lowercase)
            .collect::<String>(),
        Fold::Label => normal.chars().flat_map(char::to_lowercase).collect(),
    };
    if lower == *normal {
        // Already normalized.
        out.extend_from_slice(lower.as_bytes());
    } else {
        out.extend_from_slice(normalized(&lower, how).as_bytes());
    }
}

fn normalized(text: &str, how: Fold) -> std::borrow::Cow<'_, str> {
    match how {
        Fold::CompatibleWord => text.nfkc().collect::<String>().into(),
        Fold::Word | Fold::Label => match is_nfc_quick(text.chars()) {
            IsNormalized::Yes => text.into(),
            IsNormalized::No | IsNormalized::Maybe => text.nfc().collect::<String>().into(),
        },
    }
}
