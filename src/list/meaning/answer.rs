//! Yes, no, numbers and nothing, as people, databases and programs write them.

/// Yes or no.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    Yes,
    No,
    /// A number of two or more: a count, perhaps of something else.
    Many,
}

impl Answer {
    /// Returns the answer; `None` if the text is not an answer.
    pub(crate) fn of(value: &[u8]) -> Option<Self> {
        if value.len() > LONGEST_ANSWER {
            return None;
        }
        if let Some(number) = number(value) {
            return Some(match number {
                0.0 => Self::No,
                // Access writes -1.
                1.0 | -1.0 => Self::Yes,
                number if number > 1.0 && value.len() < DATE_BYTES => Self::Many,
                _ => return None,
            });
        }
        if is_word(value, YES) {
            Some(Self::Yes)
        } else if is_word(value, NO) {
            Some(Self::No)
        } else {
            None
        }
    }
}

/// Reads a number, perhaps with a decimal comma or a percent sign.
pub(crate) fn number(value: &[u8]) -> Option<f64> {
    let value = value.strip_suffix(b"%").unwrap_or(value).trim_ascii();
    let is_number = value.iter().any(u8::is_ascii_digit)
        && value
            .iter()
            .all(|b| b.is_ascii_digit() || matches!(b, b'.' | b',' | b'-' | b'+'));
    if !is_number || value.len() > LONGEST_ANSWER {
        return None;
    }
    let text = std::str::from_utf8(value).ok()?;
    text.replace(',', ".").parse().ok()
}

/// Returns whether a value is empty or null, as databases write it.
pub(crate) fn is_blank(value: &[u8]) -> bool {
    value.is_empty()
        || [&b"null"[..], b"nil", b"\\N", b"(null)"]
            .iter()
            .any(|known| known.eq_ignore_ascii_case(value))
}

/// Returns whether a value is one of `words`, ignoring case and accents.
pub(crate) fn is_word(value: &[u8], words: &[&str]) -> bool {
    if value.is_ascii() {
        return words
            .iter()
            .any(|word| word.as_bytes().eq_ignore_ascii_case(value));
    }
    let Ok(text) = std::str::from_utf8(value) else {
        return false;
    };
    let mut folded = String::with_capacity(text.len());
    text.chars().for_each(|char| fold(char, &mut folded));
    words.contains(&folded.as_str())
}

/// Adds a character in lower case and without its accent.
pub(crate) fn fold(char: char, to: &mut String) {
    // The lower case of the Turkish capital I with a dot ends with a combining dot.
    for char in char.to_lowercase().filter(|char| *char != '\u{307}') {
        to.push(match char {
            '\u{e0}'..='\u{e5}' => 'a',
            '\u{e7}' => 'c',
            '\u{e8}'..='\u{eb}' => 'e',
            '\u{ec}'..='\u{ef}' => 'i',
            '\u{f1}' => 'n',
            '\u{f2}'..='\u{f6}' | '\u{f8}' => 'o',
            '\u{f9}'..='\u{fc}' => 'u',
            'ą' | 'ă' => 'a',
            'ć' | 'č' => 'c',
            'ď' | 'đ' => 'd',
            'ę' | 'ě' => 'e',
            'ğ' => 'g',
            'ı' => 'i',
            'ł' => 'l',
            'ń' | 'ň' => 'n',
            'ő' => 'o',
            'ř' => 'r',
            'ś' | 'š' | 'ş' | 'ș' => 's',
            'ť' | 'ț' => 't',
            'ů' | 'ű' => 'u',
            'ź' | 'ż' | 'ž' => 'z',
            char => char,
        });
    }
}

/// Maximum length of an answer in bytes.
const LONGEST_ANSWER: usize = 16;
/// Numbers with at least this many digits may be days.
const DATE_BYTES: usize = 8;

const YES: &[&str] = &[
    "true",
    "yes",
    "y",
    "t",
    "on",
    "x",
    "ja",
    "j",
    "oui",
    "o",
    "si",
    "s",
    "sim",
    "tak",
    "ano",
    "wahr",
    "vrai",
    "vero",
    "verdadero",
    "verdadeiro",
    "waar",
    "evet",
    "kylla",
    "igen",
    "da",
    "\u{434}\u{430}",
    "\u{662f}",
    "\u{306f}\u{3044}",
    "\u{2713}",
    "\u{2714}",
    "checked",
    "set",
];

const NO: &[&str] = &[
    "false",
    "no",
    "n",
    "f",
    "off",
    "nein",
    "non",
    "nee",
    "nao",
    "nie",
    "ne",
    "nej",
    "nei",
    "net",
    "falsch",
    "faux",
    "falso",
    "onwaar",
    "hayir",
    "nem",
    "ei",
    "\u{43d}\u{435}\u{442}",
    "\u{5426}",
    "\u{3044}\u{3044}\u{3048}",
    "\u{2717}",
    "\u{2718}",
    "unchecked",
    "unset",
];

#[cfg(test)]
mod tests {
    use super::Answer;

    #[test]
    fn answers_of_databases_and_people() {
        for (value, answer) in [
            ("true", Some(Answer::Yes)),
            ("Y", Some(Answer::Yes)),
            ("-1", Some(Answer::Yes)),
            ("S\u{ed}", Some(Answer::Yes)),
            ("N\u{c3}O", Some(Answer::No)),
            ("f", Some(Answer::No)),
            ("0.0", Some(Answer::No)),
            ("OFF", Some(Answer::No)),
            ("17", Some(Answer::Many)),
            ("20260301", None),
            ("perhaps", None),
        ] {
            assert_eq!(Answer::of(value.as_bytes()), answer, "{value}");
        }
    }
}
