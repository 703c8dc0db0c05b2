//! Windows-1252, in which spreadsheets write tables that are not UTF-8.

/// The characters of the bytes 0x80 to 0x9f in Windows-1252; five of them are controls. All other
/// bytes are as in Unicode. <https://encoding.spec.whatwg.org/index-windows-1252.txt>
const HIGH_CONTROLS: [char; 32] = [
    '\u{20ac}', '\u{81}', '\u{201a}', '\u{192}', '\u{201e}', '\u{2026}', '\u{2020}', '\u{2021}',
    '\u{2c6}', '\u{2030}', '\u{160}', '\u{2039}', '\u{152}', '\u{8d}', '\u{17d}', '\u{8f}',
    '\u{90}', '\u{2018}', '\u{2019}', '\u{201c}', '\u{201d}', '\u{2022}', '\u{2013}', '\u{2014}',
    '\u{2dc}', '\u{2122}', '\u{161}', '\u{203a}', '\u{153}', '\u{9d}', '\u{17e}', '\u{178}',
];

/// Decodes Windows-1252, which contains Latin-1 except for its controls.
pub(crate) fn windows_1252(text: &[u8]) -> String {
    text.iter()
        .map(|&byte| match byte {
            0x80..=0x9f => HIGH_CONTROLS[usize::from(byte - 0x80)],
            _ => char::from(byte),
        })
        .collect()
}
