//! What an entry is: an address, a domain, a subtree, a local part. Every format has its entries
//! checked here.
//!
//! ```text
//!   spam@bad.example        "a b"@bad.example     Name <spam@bad.example>    mailto:spam@bad.example
//!   @bad.example  *@bad.example  bad.example      .bad.example  *.bad.example  *@*.bad.example
//!   spammer@  spammer@*     spam@[192.0.2.1]      /@bad\.example$/   a pattern that matches one entry
//! ```
//!
//! `address` reads almost anything as an address, because a message may contain almost anything. The
//! author of a list meant something definite. What has another character than these forms have must
//! not become a strange address that never matches or, worse, a whole domain: a reader that drops
//! comments takes `(foo|bar)@innocent.example` for the domain.

use std::borrow::Cow;
use std::net::IpAddr;

use super::RejectReason;
use blocklist_filter::address::plain::PlainEntry;
use blocklist_filter::rfc5322::{closing_quote, is_atext, is_in_domain, is_special};

/// Reads `text` (trimmed) as one entry: returns it without a display name, or the entry that a
/// pattern stands for.
pub fn read(text: &[u8]) -> Result<Cow<'_, [u8]>, RejectReason> {
    read_plainly(text).map(|(text, _)| text)
}

type Read<'t> = (Cow<'t, [u8]>, Option<PlainEntry<'t>>);

/// The same; tells, too, what the entry is, if it is plain. Nearly every entry is, however its list
/// writes it, and then none of the checks below refuses it.
#[inline]
pub(crate) fn read_plainly(text: &[u8]) -> Result<Read<'_>, RejectReason> {
    let entry = match text {
        [b'<', entry @ .., b'>'] => entry,
        text => text,
    };
    match PlainEntry::of(entry) {
        Some(plain) => Ok((Cow::Borrowed(entry), Some(plain))),
        None => read_by(text, |text| PlainEntry::of(text)),
    }
}

/// Reads an entry by all checks; one behind a display name may be plain.
fn read_by(
    text: &[u8],
    plain: fn(&[u8]) -> Option<PlainEntry<'_>>,
) -> Result<Read<'_>, RejectReason> {
    let Ok(shown) = std::str::from_utf8(text) else {
        return Err(RejectReason::NotUtf8);
    };
    // White space of other scripts, such as the no-break space, is trimmed as that of ASCII is.
    let text = shown.trim().as_bytes();
    let is_control = |b: &u8| b.is_ascii_control();
    if text.iter().any(|b| is_control(b) && *b != b'\t') {
        return Err(RejectReason::Control);
    }
    if is_pattern(text) {
        let entry = of_pattern(text).ok_or(RejectReason::Pattern)?;
        return Ok((Cow::Owned(entry), None));
    }
    let entry = match text {
        [.., b'>'] => in_brackets(text)?,
        _ => without_scheme(text),
    };
    if entry.len() < text.len()
        && let Some(plain) = plain(entry)
    {
        return Ok((Cow::Borrowed(entry), Some(plain)));
    }
    if entry.iter().any(u8::is_ascii_whitespace) && !entry.starts_with(b"\"") {
        return Err(beside(entry));
    }
    if entry.iter().any(is_control) {
        return Err(RejectReason::Control);
    }
    if memchr::memmem::find(entry, b"://").is_some() {
        return Err(RejectReason::Url);
    }
    if is_ip(entry) {
        return Err(RejectReason::IpAddress);
    }
    let (local, domain) = halves(entry)?;
    if let Some(local) = local {
        local_part(local)?;
    }
    domain_of(local, domain)?;
    Ok((Cow::Borrowed(entry), None))
}

fn name(text: &[u8]) -> Result<(), RejectReason> {
    // Only a name of more than one label can be told from a word. `address` reads `.bid`.
    let dot = memchr::memchr(b'.', text);
    if dot.is_none_or(|dot| dot + 1 == text.len()) {
        return Err(hash(text).unwrap_or(RejectReason::NotAnEntry));
    }
    let below = text.strip_prefix(b".");
    let below = below.filter(|_| text.last().is_some_and(u8::is_ascii_digit));
    below.and_then(hash).map_or_else(|| labels(text, true), Err)
}

/// Checks the labels of a name: none is empty but, in a subtree, the first.
fn labels(name: &[u8], may_be_subtree: bool) -> Result<(), RejectReason> {
    let below = name.strip_prefix(b".").filter(|_| may_be_subtree);
    let name = below.unwrap_or(name);
    // The dot of the root, as in zone files.
    let name = name.strip_suffix(b".").unwrap_or(name);
    if name.ends_with(b".") {
        return Err(RejectReason::CutOff);
    }
    let has_empty = name.split(|&b| b == b'.').any(<[u8]>::is_empty);
    match has_empty || name.contains(&b'+') {
        true => Err(RejectReason::NotADomain),
        false => Ok(()),
    }
}

fn hash(text: &[u8]) -> Option<RejectReason> {
    let name = match text.len() {
        32 => "MD5",
        40 => "SHA-1",
        64 => "SHA-256",
        128 => "SHA-512",
        _ => return None,
    };
    let is_hash = text.iter().all(u8::is_ascii_hexdigit);
    is_hash.then_some(RejectReason::Hash(name))
}

/// Returns why a text with white space outside quotes is not an entry.
fn beside(text: &[u8]) -> RejectReason {
    let words = text.split(u8::is_ascii_whitespace);
    match words.filter(|word| looks_like_entry(word)).count() {
        0 => RejectReason::NotAnEntry,
        1 => RejectReason::Words,
        _ => RejectReason::Several,
    }
}

/// Returns the address in the angle brackets that end a text, if a display name may come before it.
fn in_brackets(text: &[u8]) -> Result<&[u8], RejectReason> {
    let inner = text.strip_suffix(b">").unwrap_or(text);
    let open = memchr::memrchr(b'<', inner).ok_or(RejectReason::NotAnEntry)?;
    let (name, address) = inner.split_at(open);
    let is_phrase = match name.strip_prefix(b"\"") {
        Some(_) => {
            let after = closing_quote(name, 1).and_then(|end| name.get(end + 1..));
            after.is_some_and(|after| after.trim_ascii().is_empty())
        }
        // `user=<a@b>` and `To: <a@b>` are of a log or a mail.
        None => {
            !name
                .iter()
                .any(|b| is_special(*b) && !b.is_ascii_whitespace() || *b == b'=')
                && name.last().is_none_or(u8::is_ascii_whitespace)
        }
    };
    match address.get(1..) {
        Some(address) if is_phrase => Ok(without_scheme(address.trim_ascii())),
        _ => Err(beside(text)),
    }
}

/// Returns the address of a link: `mailto:a@b?subject=x` is a link to `a@b`.
fn without_scheme(text: &[u8]) -> &[u8] {
    match text.split_at_checked(7) {
        Some((scheme, rest)) if scheme.eq_ignore_ascii_case(b"mailto:") => {
            let query = memchr::memchr(b'?', rest);
            rest.get(..query.unwrap_or(rest.len())).unwrap_or(rest)
        }
        _ => text,
    }
}

/// Divides an entry at its only `@` outside quotes; without one, all of it is a domain.
fn halves(entry: &[u8]) -> Result<(Option<&[u8]>, &[u8]), RejectReason> {
    let from = match entry {
        [b'"', ..] => closing_quote(entry, 1).ok_or(RejectReason::NotAnEntry)? + 1,
        _ => 0,
    };
    let rest = entry.get(from..).unwrap_or_default();
    match memchr::memchr(b'@', rest) {
        Some(at) => {
            let domain = rest.get(at + 1..).unwrap_or_default();
            match domain.contains(&b'@') {
                true => Err(RejectReason::Several),
                false => Ok((entry.get(..from + at), domain)),
            }
        }
        None if from > 0 => Err(RejectReason::NotAnEntry),
        None => Ok((None, entry)),
    }
}

fn local_part(local: &[u8]) -> Result<(), RejectReason> {
    let local = match local {
        b"" | b"*" => return Ok(()),
        [b'"', ..] => {
            let is_one = closing_quote(local, 1) == Some(local.len() - 1);
            return is_one.then_some(()).ok_or(RejectReason::NotAnEntry);
        }
        _ => local,
    };
    let is_other = |b: &&u8| !is_atext(**b) && **b != b'.' || **b == b'|';
    if let Some(&other) = local.iter().find(is_other) {
        return Err(of_character(other));
    }
    // `?` and `{` are wildcards of SpamAssassin and rspamd, `%` is that of SQL. Inside, it may be a part.
    let is_wildcard = |b: &u8| matches!(b, b'*' | b'?' | b'{');
    if local.iter().any(is_wildcard) || matches!(local, [b'%', ..] | [.., b'%']) {
        return Err(RejectReason::Wildcard);
    }
    if local.starts_with(b"^") || local.ends_with(b"$") {
        return Err(RejectReason::Pattern);
    }
    if matches!(local, [b'!' | b'+' | b'-' | b'\'' | b'`', ..]) {
        return Err(RejectReason::Sign);
    }
    if local.ends_with(b"...") || local.ends_with("\u{2026}".as_bytes()) {
        return Err(RejectReason::CutOff);
    }
    letters(local)
}

fn domain_of(local: Option<&[u8]>, domain: &[u8]) -> Result<(), RejectReason> {
    let has_local = local.is_some_and(|local| !matches!(local, b"" | b"*"));
    let name = match domain {
        b"" | b"*" if has_local => return Ok(()),
        b"" | b"*" if local.is_some() => return Err(RejectReason::NotAnEntry),
        [b'[', inner @ .., b']'] if local.is_some() => {
            let is_literal = |b: &u8| b.is_ascii_alphanumeric() || matches!(b, b'.' | b':' | b'-');
            let is_literal = !inner.is_empty() && inner.iter().all(is_literal);
            return is_literal.then_some(()).ok_or(RejectReason::NotADomain);
        }
        [b'*', rest @ ..] if !has_local && rest.starts_with(b".") => rest,
        _ => domain,
    };
    if matches!(name, [b'!' | b'+' | b'-', ..]) && local.is_none() {
        return Err(RejectReason::Sign);
    }
    if name.starts_with(b"^") || name.ends_with(b"$") {
        return Err(RejectReason::Pattern);
    }
    if let Some(&other) = name.iter().find(|&&b| !is_in_domain(b)) {
        return Err(of_character(other));
    }
    if name.ends_with("\u{2026}".as_bytes()) {
        return Err(RejectReason::CutOff);
    }
    letters(name)?;
    let top = name.strip_suffix(b".").unwrap_or(name);
    let top = top.rsplit(|&b| b == b'.').next().unwrap_or_default();
    if !has_local && !top.is_empty() && top.iter().all(u8::is_ascii_digit) {
        return Err(RejectReason::NumberAtEnd);
    }
    match local {
        None => self::name(name),
        Some(_) => labels(name, !has_local),
    }
}

fn of_character(other: u8) -> RejectReason {
    match other {
        b'*' => RejectReason::Wildcard,
        b'\\' | b'(' | b')' | b'^' | b'$' | b'[' | b']' => RejectReason::Pattern,
        b',' | b';' => RejectReason::Several,
        b'|' => RejectReason::Bar,
        _ => RejectReason::NotAnEntry,
    }
}

/// Refuses signs that word processors write in place of ASCII: quotes, dashes, bullets, arrows,
/// full-width signs. Letters and pictures of any script may be a part of an entry.
fn letters(text: &[u8]) -> Result<(), RejectReason> {
    let Ok(text) = std::str::from_utf8(text) else {
        return Err(RejectReason::NotUtf8);
    };
    let is_sign = |char: char| {
        char.is_whitespace()
            || char.is_control()
            || matches!(char, '\u{a1}'..='\u{bf}' | '\u{2010}'..='\u{2027}' | '\u{2030}'..='\u{205e}'
                | '\u{2190}'..='\u{21ff}' | '\u{2500}'..='\u{25ff}' | '\u{3001}' | '\u{3003}'..='\u{3011}'
                | '\u{fe50}'..='\u{fe6b}' | '\u{ff01}'..='\u{ff0c}' | '\u{ff0f}' | '\u{ff1a}'..='\u{ff20}')
                && !matches!(char, '\u{aa}' | '\u{ad}' | '\u{b5}' | '\u{b7}' | '\u{ba}')
    };
    match text.chars().any(is_sign) {
        true => Err(RejectReason::NotAnEntry),
        false => Ok(()),
    }
}

/// Returns whether a field looks like an address or a domain, not like another word.
pub(crate) fn looks_like_entry(field: &[u8]) -> bool {
    if field.contains(&b'@') {
        return !field.trim_ascii().contains(&b' ');
    }
    let label = field.rsplit(|&b| b == b'.').next().unwrap_or_default();
    field.len() > label.len() + 1
        && label.len() >= 2
        && label.iter().any(|b| !b.is_ascii_digit())
        && field.iter().all(|&b| {
            b.is_ascii_alphanumeric() || matches!(b, b'.' | b'-' | b'_' | b'*') || b >= 0x80
        })
        && !is_ip(field)
}

/// Returns whether `text` is an IP address or a network in CIDR form.
pub(crate) fn is_ip(text: &[u8]) -> bool {
    let Ok(text) = std::str::from_utf8(text) else {
        return false;
    };
    let address = text.split_once('/').map_or(text, |(address, _)| address);
    address.parse::<IpAddr>().is_ok()
}

/// Returns whether a text is written as a pattern: between slashes, with flags or none.
pub(crate) fn is_pattern(text: &[u8]) -> bool {
    expression_and_flags(text).is_some()
}

fn expression_and_flags(text: &[u8]) -> Option<(&[u8], &[u8])> {
    let inner = text.strip_prefix(b"/")?;
    let (expression, flags) = inner.split_at_checked(memchr::memrchr(b'/', inner)?)?;
    let flags = flags.get(1..)?;
    let is_good = flags.iter().all(u8::is_ascii_alphabetic);
    is_good.then_some((expression, flags))
}

/// Returns the only entry that a pattern matches, so that it can be looked up. Letter case does not
/// matter in entries, so a flag `i` changes nothing.
///
/// ```text
///   /^spam@bad\.example$/     spam@bad.example
///   /^spam@/                  spam@
///   /@bad\.example$/          @bad.example
///   /\.bid$/i                 .bid
/// ```
fn of_pattern(text: &[u8]) -> Option<Vec<u8>> {
    let (expression, flags) = expression_and_flags(text)?;
    if !flags.iter().all(|&flag| flag == b'i') {
        return None;
    }
    let anchors = (expression.starts_with(b"^"), expression.ends_with(b"$"));
    let inner = expression.strip_prefix(b"^").unwrap_or(expression);
    let text = literal(inner.strip_suffix(b"$").unwrap_or(inner))?;
    let at = memchr::memchr(b'@', &text);
    let is_one = match anchors {
        (true, true) => at.is_some_and(|at| at > 0 && at + 1 < text.len()),
        (true, false) => at.is_some_and(|at| at > 0 && at + 1 == text.len()),
        (false, true) => {
            (at == Some(0) || at.is_none() && text.starts_with(b".")) && text.len() > 1
        }
        (false, false) => false,
    };
    is_one.then_some(text)
}

/// Returns the text that an expression without any freedom matches.
fn literal(expression: &[u8]) -> Option<Vec<u8>> {
    let mut text = Vec::with_capacity(expression.len());
    let mut bytes = expression.iter().copied();
    while let Some(byte) = bytes.next() {
        text.push(match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'@' | b'=' | b'#' | b'~' => {
                byte
            }
            // A letter after it would be a class of characters: `\d`, `\w`.
            b'\\' => bytes.next().filter(u8::is_ascii_punctuation)?,
            _ => return None,
        });
    }
    Some(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(8000))]

        /// The fast check accepts nothing that the others refuse.
        #[test]
        fn plain_entries_are_read_as_by_all_checks(
            around in prop_oneof![
                6 => Just(("", "")), 2 => Just(("<", ">")), 1 => Just(("Name <", ">")), 1 => Just(("mailto:", "")),
                1 => Just(("N\u{fc}, x <", ">")), 1 => Just(("\"A <\" < ", " >")), 1 => Just((" ", "\u{a0}")),
            ],
            local in prop_oneof![
                4 => "[*.@+-]{0,2}", 4 => "[A-Za-z0-9._+-]{1,20}@", 2 => "[a-z'&=%!?*|/^$#`{~.]{1,5}@",
                2 => "\"[ -~]{0,5}\"@", 1 => "[a-z\u{df}-\u{ff}\u{430}-\u{460}\u{4e00}-\u{4e10}\u{300}.]{1,5}@",
                1 => ".{0,4}@",
            ],
            domain in prop_oneof![
                6 => "[A-Za-z0-9._-]{1,9}(\\.(com|Example|co\\.uk|[0-9a-f]{1,2}))?", 1 => "[0-9.]{1,8}|[0-9a-f]{32}",
                1 => "[!-~]{0,5}|a..b|\u{fc}.com|[a-z.]{250,256}",
            ],
        ) {
            let text = format!("{}{local}{domain}{}", around.0, around.1);
            let text = text.as_bytes();
            let by_all = read_by(text, |_| None).map(|(entry, _)| entry);
            if let Ok((entry, Some(plain))) = read_plainly(text) {
                prop_assert_eq!(PlainEntry::of(&entry), Some(plain));
            }
            prop_assert_eq!(read(text), by_all);
        }
    }
}
