//! Domains that DKIM authenticates, read from `Authentication-Results` (RFC 8601).
//!
//! ```text
//! Authentication-Results: mx.our.example; dkim=pass (2048-bit) header.d=shop.example header.i=@x; spf=fail ...
//!                         -------------- authserv-id: must be one of ours, else the field is forged
//! ```
//!
//! Reads only the necessary parts: removes comments and quoted strings; a result is `dkim=pass`,
//! its signer `header.d` (or the domain of `header.i`). A malformed field authenticates nothing.

use crate::rfc5322::{Nesting, Place};

/// Returns the domains with a valid signature, according to an `Authentication-Results` of one of
/// `trusted` (lower case).
pub fn dkim_domains(value: &[u8], trusted: &[String]) -> Vec<Vec<u8>> {
    let value = without_comments(value);
    let mut parts = value.split(|&byte| byte == b';');
    let Some(id) = parts.next() else {
        return Vec::new();
    };
    // A version may follow the authserv-id: "mx.our.example 1".
    let id = id
        .trim_ascii()
        .split(u8::is_ascii_whitespace)
        .next()
        .unwrap_or_default();
    if !trusted
        .iter()
        .any(|ours| ours.as_bytes().eq_ignore_ascii_case(id))
    {
        return Vec::new();
    }
    parts.filter_map(signer).collect()
}

/// Returns whether a signature of `signer` authenticates `domain`: they are equal, or have the same
/// organizational domain (RFC 7489 section 3.1.1, relaxed).
pub fn is_aligned(signer: &[u8], domain: &[u8]) -> bool {
    let organization =
        |name: &'_ [u8]| psl::domain(name).map(|domain| domain.as_bytes().to_ascii_lowercase());
    let (signer, domain) = (signer.to_ascii_lowercase(), domain.to_ascii_lowercase());
    signer == domain || organization(&signer).is_some_and(|org| Some(org) == organization(&domain))
}

/// Returns the signer of one result, if it is `dkim=pass`.
fn signer(result: &[u8]) -> Option<Vec<u8>> {
    let mut words = result
        .split(u8::is_ascii_whitespace)
        .filter(|word| !word.is_empty());
    if !words.next()?.eq_ignore_ascii_case(b"dkim=pass") {
        return None;
    }
    let mut by_identity = None;
    for word in words {
        let Some(at) = word.iter().position(|&byte| byte == b'=') else {
            continue;
        };
        let (name, domain) = (&word[..at], &word[at + 1..]);
        if name.eq_ignore_ascii_case(b"header.d") {
            return Some(domain.to_ascii_lowercase());
        }
        if name.eq_ignore_ascii_case(b"header.i") {
            by_identity = domain
                .rsplit(|&byte| byte == b'@')
                .next()
                .map(<[u8]>::to_ascii_lowercase);
        }
    }
    by_identity.filter(|domain| !domain.is_empty())
}

/// Replaces comments, including nested ones, by a space; keeps only the quotes of quoted strings;
/// removes blanks around `=`. Without the quotes, `mx.our.exam"x"ple` would become our own name.
fn without_comments(value: &[u8]) -> Vec<u8> {
    let mut clean = Vec::with_capacity(value.len());
    let mut nesting = Nesting::new();
    for &byte in value {
        match (nesting.step(byte), byte) {
            (Place::Delimiter, b')') => clean.push(b' '),
            (Place::Delimiter, b'"') => clean.push(byte),
            (Place::Delimiter | Place::Escaped | Place::Quoted | Place::Comment, _) => {}
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
                "mx.our.example; dkim=pass header.d=shop.exam\"x\"ple",
                "shop.exam\"\"ple",
            ),
            ("mx.our.example; none", ""),
            ("", ""),
        ] {
            assert_eq!(found(value), domains, "{value}");
        }
    }
}
