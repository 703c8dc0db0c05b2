//! Domains that DKIM authenticates, read from `Authentication-Results` (RFC 8601).
//!
//! ```text
//! Authentication-Results: mx.our.example; dkim=pass (2048-bit) header.d=shop.example header.i=@x; spf=fail ...
//!                         -------------- authserv-id: must be one of ours, else the field is forged
//! ```
//!
//! Reads only the necessary parts: removes comments; a result is `dkim=pass`, its signer `header.d`
//! (or the domain of `header.i`). A malformed field authenticates nothing.

use crate::address::{Canonical, MAX_DOMAIN_BYTES, Rules};
use crate::rfc5322::{Nesting, Place, is_atext, is_in_domain};

/// Returns the domains with a valid signature in canonical form, according to an
/// `Authentication-Results` of one of `trusted` (lower case).
pub fn dkim_domains(value: &[u8], trusted: &[String]) -> Vec<Vec<u8>> {
    // Only as our server writes it, at the very beginning. A server must remove a forged field from
    // outside (section 5), but may not recognize its own name behind a comment or in quotes. A
    // comment or a version may follow.
    let own = value.trim_ascii_start();
    let end = |&byte: &u8| byte.is_ascii_whitespace() || matches!(byte, b';' | b'(');
    let id = own.split(end).next().unwrap_or_default();
    if !trusted
        .iter()
        .any(|ours| ours.as_bytes().eq_ignore_ascii_case(id))
    {
        return Vec::new();
    }
    let value = without_comments(value);
    value
        .split(|&byte| byte == b';')
        .skip(1)
        .filter_map(signer)
        .collect()
}

/// Returns whether a signature of `signer` authenticates `domain`: they are equal, or have the same
/// organizational domain (RFC 7489 section 3.1.1, relaxed). Both are in canonical form.
pub fn is_aligned(signer: &[u8], domain: &[u8]) -> bool {
    fn organization(name: &[u8]) -> Option<&[u8]> {
        psl::domain(name).map(|domain| domain.as_bytes())
    }
    signer == domain || organization(signer).is_some_and(|org| Some(org) == organization(domain))
}

/// Returns the signer of one result, if it is `dkim=pass`.
fn signer(result: &[u8]) -> Option<Vec<u8>> {
    let mut words = result
        .split(u8::is_ascii_whitespace)
        .filter(|word| !word.is_empty());
    let (method, result) = named(words.next()?)?;
    // The version of the method, if it is given, is 1 (section 2.2).
    let method = method.strip_suffix(b"/1").unwrap_or(method);
    if !method.eq_ignore_ascii_case(b"dkim") || !result.eq_ignore_ascii_case(b"pass") {
        return None;
    }
    let mut by_identity = None;
    for (name, value) in words.filter_map(named) {
        if name.eq_ignore_ascii_case(b"header.d") {
            return domain(unquoted(value));
        }
        if name.eq_ignore_ascii_case(b"header.i") {
            by_identity = value.rsplit(|&byte| byte == b'@').next().and_then(domain);
        }
    }
    by_identity
}

/// Divides `name=value`.
fn named(word: &[u8]) -> Option<(&[u8], &[u8])> {
    let at = word.iter().position(|&byte| byte == b'=')?;
    Some((&word[..at], &word[at + 1..]))
}

/// Returns a domain in canonical form; `None` if it is not a domain.
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

/// Removes the quotes of a word that is one quoted string.
fn unquoted(word: &[u8]) -> &[u8] {
    let inside = word
        .strip_prefix(b"\"")
        .and_then(|rest| rest.strip_suffix(b"\""));
    inside.unwrap_or(word)
}

/// Replaces comments, including nested ones, by a space; removes blanks around `=`. A quoted string
/// becomes one word: it keeps its quotes, and its special characters become quotes, too. Without
/// them, `mx.our.exam"x"ple` would become our own name.
fn without_comments(value: &[u8]) -> Vec<u8> {
    let mut clean = Vec::with_capacity(value.len());
    let mut nesting = Nesting::new();
    for &byte in value {
        match (nesting.step(byte), byte) {
            (Place::Delimiter, b')') => clean.push(b' '),
            (Place::Delimiter, b'"') | (Place::Escaped, _) => clean.push(b'"'),
            (Place::Quoted, byte) if byte == b'.' || is_atext(byte) => clean.push(byte),
            (Place::Quoted, _) => clean.push(b'"'),
            (Place::Delimiter | Place::Comment, _) => {}
            (Place::Outside, b'=') => {
                while clean.last().is_some_and(u8::is_ascii_whitespace) {
                    clean.pop();
                }
                clean.push(byte);
            }
            (Place::Outside, _) if byte.is_ascii_whitespace() && clean.last() == Some(&b'=') => {}
            (Place::Outside, _) => clean.push(byte),
        }
    }
    clean
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signer_is_no_longer_than_a_domain() {
        let long = format!("m; dkim=pass header.d={}.example", "a".repeat(100_000));
        assert!(dkim_domains(long.as_bytes(), &["m".to_owned()]).is_empty());
    }

    #[test]
    fn only_valid_signatures_reported_by_our_own_server_count() {
        let ours = ["mx.our.example".to_owned()];
        let found = |value: &str| {
            let domains = dkim_domains(value.as_bytes(), &ours);
            domains
                .iter()
                .map(|domain| String::from_utf8_lossy(domain).into_owned())
                .collect::<Vec<_>>()
                .join(" ")
        };
        for (value, domains) in [
            (
                "mx.our.example; dkim=pass header.d=shop.example",
                "shop.example",
            ),
            (
                "MX.our.example 1;\n\tdkim = pass (2048-bit; good)\n header.d = Shop.Example header.s=k",
                "shop.example",
            ),
            (
                "mx.our.example; dkim=pass header.i=@shop.example",
                "shop.example",
            ),
            (
                "mx.our.example; dkim=pass header.d=a.example; dkim=pass header.d=b.example",
                "a.example b.example",
            ),
            ("mx.our.example; dkim=fail header.d=shop.example", ""),
            ("mx.our.example; spf=pass smtp.mailfrom=shop.example", ""),
            (
                "mx.our.example; dkim=fail (dkim=pass header.d=shop.example) header.d=x.example",
                "",
            ),
            (
                "mx.our.example; dkim=fail reason=\"; dkim=pass header.d=shop.example\"",
                "",
            ),
            ("mx.other.example; dkim=pass header.d=shop.example", ""),
            (
                "(mx.our.example;) mx.other.example; dkim=pass header.d=shop.example",
                "",
            ),
            ("mx.our.exam\"x\"ple; dkim=pass header.d=shop.example", ""),
            ("mx.our.exam\"\"ple; dkim=pass header.d=shop.example", ""),
            ("\"\"mx.our.example; dkim=pass header.d=shop.example", ""),
            (
                "mx.our.example; dkim=pass reason=\"good; key\" header.d=shop.example",
                "shop.example",
            ),
            (
                "mx.our.example; dkim=pass header.d=shop.exam\"x\"ple header.i=x@shop.example",
                "",
            ),
            (
                "mx.our.example; dkim/1=pass header.d=\"shop.example.\"",
                "shop.example",
            ),
            ("\"mx.our.example\"; dkim=pass header.d=shop.example", ""),
            ("(a) mx.our.example; dkim=pass header.d=shop.example", ""),
            (
                " mx.our.example(amavisd); dkim=pass header.d=shop.example",
                "shop.example",
            ),
            (
                "mx.our.example; dkim=pass header.i=\"x; y\"@b\u{fc}cher.example",
                "xn--bcher-kva.example",
            ),
            ("\"mx.our.e\\xample\"; dkim=pass header.d=shop.example", ""),
            ("mx.our.example; \"dkim=pass\" header.d=shop.example", ""),
            ("mx.our.example; dkim/2=pass header.d=shop.example", ""),
            ("mx.our.example; dkim=pass header.d=\"a shop.example\"", ""),
            ("mx.our.example; dkim=pass header.d=", ""),
            ("mx.our.example; none", ""),
            ("", ""),
        ] {
            assert_eq!(found(value), domains, "{value}");
        }
    }
}
