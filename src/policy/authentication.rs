//! Domains that DKIM and DMARC authenticate, read from `Authentication-Results` (RFC 8601).
//!
//! ```text
//! Authentication-Results: mx.our.example; dkim=pass (2048-bit) header.d=shop.example header.i=@x; spf=fail ...
//!                         -------------- authserv-id: must be one of ours, else the field is forged
//! ```
//!
//! A result is `dkim=pass`, its signer `header.d` (or the domain of `header.i`), or `dmarc=pass` with
//! the domain `header.from` (RFC 7489 section 11.1). A malformed field authenticates nothing: our own
//! server removes forged fields, but perhaps only those that it understands.

use blocklist_filter::address::{Canonical, MAX_DOMAIN_BYTES, Rules};
use blocklist_filter::rfc5322::{Nesting, Role, is_atext, is_in_domain};

/// What an `Authentication-Results` says; domains are in canonical form.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Authentication {
    /// The domains with a valid signature (DKIM).
    pub signers: Vec<Vec<u8>>,
    /// The domains of From that passed DMARC.
    pub passed: Vec<Vec<u8>>,
    /// Whether one has failed DMARC, whichever.
    pub has_failed: bool,
}

impl Authentication {
    /// Reads a field, if one of `trusted` (lower case) wrote it; of another, nothing.
    pub fn read(value: &[u8], trusted: &[String]) -> Self {
        if !is_ours(value, trusted) {
            return Self::default();
        }
        let value = without_comments(value);
        if !is_well_formed(&value) {
            return Self::default();
        }
        let mut found = Self::default();
        for part in value.split(|&byte| byte == b';').skip(1) {
            let (method, result) = words(part).next().and_then(named).unwrap_or_default();
            // A method with its version, `dkim/1`, is another one for OpenDKIM.
            let is = |name: &str, got: &str| {
                method.eq_ignore_ascii_case(name.as_bytes())
                    && result.eq_ignore_ascii_case(got.as_bytes())
            };
            if is("dkim", "pass") {
                found.signers.extend(signer(part));
            } else if is("dmarc", "pass") {
                found.passed.extend(author(part));
            } else if is("dmarc", "fail") {
                found.has_failed = true;
            }
        }
        found
    }
}

fn signer(result: &[u8]) -> Option<Vec<u8>> {
    match property(result, b"header.d") {
        Some(value) => domain(unquoted(value)),
        None => domain(
            property(result, b"header.i")?
                .rsplit(|&byte| byte == b'@')
                .next()?,
        ),
    }
}

fn author(result: &[u8]) -> Option<Vec<u8>> {
    domain(unquoted(property(result, b"header.from")?))
}

fn property<'a>(result: &'a [u8], name: &[u8]) -> Option<&'a [u8]> {
    let mut all = words(result).filter_map(named);
    let found = all.find(|(found, _)| found.eq_ignore_ascii_case(name));
    found.map(|(_, value)| value)
}

/// Returns whether one of our servers wrote the field. Only as it writes it, at the very beginning:
/// a server must remove a forged field from outside (section 5), but may not recognize its own name
/// behind a comment, before one without a blank, or in quotes. A comment or a version may follow.
fn is_ours(value: &[u8], trusted: &[String]) -> bool {
    let own = value.trim_ascii_start();
    let end = |&byte: &u8| byte.is_ascii_whitespace() || byte == b';';
    let id = own.split(end).next().unwrap_or_default();
    let mut trusted = trusted.iter();
    trusted.any(|ours| ours.as_bytes().eq_ignore_ascii_case(id))
}

/// Largest field that is read, and most of its parts, of the words of one, and of its signs `=`, `.`
/// and `;`: OpenDKIM leaves a field with more.
const MAX_BYTES: usize = 2_000;
const MAX_PARTS: usize = 16;
const MAX_SIGNS: usize = 200;

/// Returns whether a field has the form of RFC 8601 section 2.2 in all its parts, and OpenDKIM reads
/// it: `reason` comes first, types are in lower case, and values that are not quoted neither begin
/// nor end with a sign, nor have two in a row. `value` has no comments.
fn is_well_formed(value: &[u8]) -> bool {
    let is_sign = |b: &u8| matches!(b, b'=' | b'.');
    let is_keyword = |name: &[u8]| {
        let is_part = |b: &u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'/');
        !name.is_empty() && name.iter().all(is_part)
    };
    let is_quoted = |value: &[u8]| {
        let inside = unquoted(value);
        inside.len() < value.len() && !inside.contains(&b'"')
    };
    let is_plain = |value: &[u8]| {
        let is_odd = |b: &u8| matches!(b, b'\\' | b')') || b.is_ascii_control();
        let has_two = value.windows(2).any(|two| two.iter().all(is_sign));
        let ends = value.first().zip(value.last());
        !has_two
            && !value.iter().any(is_odd)
            && ends.is_some_and(|(a, b)| !is_sign(a) && !is_sign(b))
    };
    let is_property = |(number, word): (usize, &[u8])| {
        let (name, value) = named(word).unwrap_or_default();
        let types = ["smtp.", "header.", "body.", "policy."];
        let mut names = types
            .iter()
            .filter_map(|of| name.strip_prefix(of.as_bytes()));
        let is_known = match name {
            b"reason" => number == 0 && (is_quoted(value) || !value.iter().any(is_sign)),
            _ => names.any(is_keyword),
        };
        // In quotes, too, `(` at the start of a word begins a comment.
        let signs = [&b"=\"\""[..], b".\"\""];
        let mut comments = signs
            .iter()
            .filter_map(|sign| memchr::memmem::find(word, sign));
        number < MAX_PARTS
            && is_known
            && (comments.next().is_none() || value == b"\"\"")
            && (is_quoted(value) || is_plain(value))
    };
    let is_result = |part: &[u8]| {
        let mut words = words(part);
        let result = words.next().and_then(named);
        result.is_some_and(|(method, result)| is_keyword(method) && is_keyword(result))
            && words.enumerate().all(is_property)
    };
    let signs = value.iter().filter(|b| is_sign(b) || **b == b';').count();
    let mut parts = value.split(|&byte| byte == b';');
    // The name, of which `=` would be a part, and perhaps the version.
    let mut own = words(parts.next().unwrap_or_default());
    let is_name = own.next().is_some_and(|name| !name.contains(&b'='));
    let is_first_version = own.next().is_none_or(|version| version == b"1") && own.next().is_none();
    let is_small =
        value.len() <= MAX_BYTES && signs <= MAX_SIGNS && parts.clone().count() <= MAX_PARTS;
    is_small && is_name && is_first_version && parts.all(is_result)
}

/// Returns whether a signature of `signer` authenticates `domain`: they are equal, or have the same
/// organizational domain (RFC 7489 section 3.1.1, relaxed). Both are in canonical form.
pub(crate) fn is_aligned(signer: &[u8], domain: &[u8]) -> bool {
    fn organization(name: &[u8]) -> Option<&[u8]> {
        psl::domain(name).map(|domain| domain.as_bytes())
    }
    signer == domain || organization(signer).is_some_and(|org| Some(org) == organization(domain))
}

fn words(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    let words = text.split(u8::is_ascii_whitespace);
    words.filter(|word| !word.is_empty())
}

fn named(word: &[u8]) -> Option<(&[u8], &[u8])> {
    let at = word.iter().position(|&byte| byte == b'=')?;
    Some((&word[..at], &word[at + 1..]))
}

fn domain(written: &[u8]) -> Option<Vec<u8>> {
    if written.len() > MAX_DOMAIN_BYTES || !written.iter().copied().all(is_in_domain) {
        return None;
    }
    let rules = Rules {
        providers: false,
        ..Rules::default()
    };
    let address = Canonical::parse(&[b"x@", written].concat(), rules).ok()?;
    Some(address.domain().to_vec())
}

fn unquoted(word: &[u8]) -> &[u8] {
    let inside = word
        .strip_prefix(b"\"")
        .and_then(|rest| rest.strip_suffix(b"\""));
    inside.unwrap_or(word)
}

/// Replaces comments by a space; removes blanks around `=`. A quoted string becomes one word: it
/// keeps its quotes, and its special characters become quotes, too. Without them,
/// `mx.our.exam"x"ple` would become our own name.
fn without_comments(value: &[u8]) -> Vec<u8> {
    let mut clean = Vec::with_capacity(value.len());
    let mut nesting = Nesting::strict();
    for &byte in value {
        match (nesting.step(byte), byte) {
            (Role::Delimiter, b')') => clean.push(b' '),
            (Role::Delimiter, b'"') | (Role::Escaped, _) => clean.push(b'"'),
            (Role::Quoted, byte) if byte == b'.' || is_atext(byte) => clean.push(byte),
            (Role::Quoted, _) => clean.push(b'"'),
            (Role::Delimiter | Role::Comment, _) => {}
            (Role::Outside, b'=') => {
                while clean.last().is_some_and(u8::is_ascii_whitespace) {
                    clean.pop();
                }
                clean.push(byte);
            }
            (Role::Outside, _) if byte.is_ascii_whitespace() && clean.last() == Some(&b'=') => {}
            (Role::Outside, _) => clean.push(byte),
        }
    }
    if nesting.step(b' ') != Role::Outside {
        // An unclosed comment or string: no part may be empty.
        clean.push(b';');
    }
    clean
}
