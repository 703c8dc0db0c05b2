//! Domains that DKIM and DMARC authenticate, read from `Authentication-Results` (RFC 8601).
//!
//! ```text
//! Authentication-Results: mx.our.example; dkim=pass (2048-bit) header.d=shop.example header.i=@x; spf=fail ...
//!                         -------------- authserv-id: must be one of ours, else the field is forged
//! ```
//!
//! Reads only the necessary parts: removes comments; a result is `dkim=pass`, its signer `header.d`
//! (or the domain of `header.i`), or `dmarc=pass` with the domain `header.from` (RFC 7489 section
//! 11.1). A malformed field authenticates nothing.

use crate::address::{Canonical, MAX_DOMAIN_BYTES, Rules};
use crate::rfc5322::{Nesting, Role, is_atext, is_in_domain};

/// Returns the domains with a valid signature in canonical form, according to an
/// `Authentication-Results` of one of `trusted` (lower case).
pub fn dkim_domains(value: &[u8], trusted: &[String]) -> Vec<Vec<u8>> {
    if !is_ours(value, trusted) {
        return Vec::new();
    }
    let value = without_comments(value);
    let signer = |result| {
        let mut by_identity = None;
        for (name, value) in words(result).filter_map(named) {
            if name.eq_ignore_ascii_case(b"header.d") {
                return domain(unquoted(value));
            }
            if name.eq_ignore_ascii_case(b"header.i") {
                by_identity = value.rsplit(|&byte| byte == b'@').next().and_then(domain);
            }
        }
        by_identity
    };
    results(&value, b"dkim", b"pass")
        .filter_map(signer)
        .collect()
}

/// What DMARC says of the domain in From.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Dmarc {
    /// The domains that passed, in canonical form.
    pub passed: Vec<Vec<u8>>,
    /// Whether one has failed, whichever.
    pub failed: bool,
}

/// Reads the results of DMARC of an `Authentication-Results` of one of `trusted` (lower case).
pub fn dmarc(value: &[u8], trusted: &[String]) -> Dmarc {
    if !is_ours(value, trusted) {
        return Dmarc::default();
    }
    let value = without_comments(value);
    let from = |result| {
        let is_from = |name: &[u8]| name.eq_ignore_ascii_case(b"header.from");
        let (_, value) = words(result)
            .filter_map(named)
            .find(|(name, _)| is_from(name))?;
        domain(unquoted(value))
    };
    Dmarc {
        passed: results(&value, b"dmarc", b"pass")
            .filter_map(from)
            .collect(),
        failed: results(&value, b"dmarc", b"fail").next().is_some(),
    }
}

/// Returns whether one of our servers wrote the field. Only as it writes it, at the very beginning:
/// a server must remove a forged field from outside (section 5), but may not recognize its own name
/// behind a comment or in quotes. A comment or a version may follow.
fn is_ours(value: &[u8], trusted: &[String]) -> bool {
    let own = value.trim_ascii_start();
    let end = |&byte: &u8| byte.is_ascii_whitespace() || matches!(byte, b';' | b'(');
    let id = own.split(end).next().unwrap_or_default();
    let mut trusted = trusted.iter();
    trusted.any(|ours| ours.as_bytes().eq_ignore_ascii_case(id))
}

/// Returns whether a signature of `signer` authenticates `domain`: they are equal, or have the same
/// organizational domain (RFC 7489 section 3.1.1, relaxed). Both are in canonical form.
pub fn is_aligned(signer: &[u8], domain: &[u8]) -> bool {
    fn organization(name: &[u8]) -> Option<&[u8]> {
        psl::domain(name).map(|domain| domain.as_bytes())
    }
    signer == domain || organization(signer).is_some_and(|org| Some(org) == organization(domain))
}

/// Returns the results of this method that are this one. `value` has no comments.
fn results<'a>(value: &'a [u8], method: &[u8], result: &[u8]) -> impl Iterator<Item = &'a [u8]> {
    let parts = value.split(|&byte| byte == b';').skip(1);
    parts.filter(move |part| {
        words(part)
            .next()
            .and_then(named)
            .is_some_and(|(name, got)| {
                // The version of the method, if it is given, is 1 (section 2.2).
                let name = name.strip_suffix(b"/1").unwrap_or(name);
                name.eq_ignore_ascii_case(method) && got.eq_ignore_ascii_case(result)
            })
    })
}

fn words(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    let words = text.split(u8::is_ascii_whitespace);
    words.filter(|word| !word.is_empty())
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

    /// Divides rows at ` => `. Text and result of a row may be empty.
    fn rows(table: &str) -> impl Iterator<Item = (&str, &str)> {
        let lines = table.lines().map(str::trim).filter(|line| !line.is_empty());
        lines.map(|line| {
            let (text, result) = line.split_once("=>").expect("two cells");
            (text.trim_end(), result.trim_start())
        })
    }

    #[test]
    fn dmarc_counts_if_our_own_server_reports_it() {
        for (value, result) in rows(
            r#"
            m; dmarc=pass (p=none) header.from=Shop.Example                => shop.example
            m; dkim=pass header.d=x.example; dmarc = fail header.from=shop.example => failed
            m; dmarc/1=FAIL                                                => failed
            m; dmarc=pass header.d=shop.example                            =>
            m; x dmarc=pass header.from=shop.example; y dmarc=fail         =>
            m; dmarc=none header.from=shop.example                         =>
            m; spf=pass reason="; dmarc=fail" (dmarc=fail)                 =>
            x; dmarc=fail; dmarc=pass header.from=shop.example             =>
            "#,
        ) {
            let found = dmarc(value.as_bytes(), &["m".to_owned()]);
            let failed = result == "failed";
            let passed = if failed { "" } else { result };
            assert_eq!(found.passed.concat(), passed.as_bytes(), "{value}");
            assert_eq!(found.failed, failed, "{value}");
        }
    }

    #[test]
    fn only_valid_signatures_reported_by_our_own_server_count() {
        let found = |value: &str| {
            let domains = dkim_domains(value.as_bytes(), &["mx.our.example".to_owned()]);
            let domains = domains.iter().map(|domain| String::from_utf8_lossy(domain));
            domains.collect::<Vec<_>>().join(" ")
        };
        for (value, domains) in rows(
            r#"
            mx.our.example; dkim=pass header.d=shop.example                => shop.example
            mx.our.example; dkim=pass header.i=@shop.example               => shop.example
            mx.our.example; dkim=pass header.d=a.example; dkim=pass header.d=b.example => a.example b.example
            mx.our.example; dkim=fail header.d=shop.example                =>
            mx.our.example; spf=pass smtp.mailfrom=shop.example            =>
            mx.our.example; dkim=fail (dkim=pass header.d=shop.example) header.d=x.example =>
            mx.our.example; dkim=fail reason="; dkim=pass header.d=shop.example" =>
            mx.other.example; dkim=pass header.d=shop.example              =>
            (mx.our.example;) mx.other.example; dkim=pass header.d=shop.example =>
            mx.our.exam"x"ple; dkim=pass header.d=shop.example             =>
            mx.our.exam""ple; dkim=pass header.d=shop.example              =>
            ""mx.our.example; dkim=pass header.d=shop.example              =>
            mx.our.example; dkim=pass reason="good; key" header.d=shop.example => shop.example
            mx.our.example; dkim=pass header.d=shop.exam"x"ple header.i=x@shop.example =>
            mx.our.example; dkim/1=pass header.d="shop.example."           => shop.example
            "mx.our.example"; dkim=pass header.d=shop.example              =>
            (a) mx.our.example; dkim=pass header.d=shop.example            =>
            mx.our.example(amavisd); dkim=pass header.d=shop.example       => shop.example
            mx.our.example; dkim=pass header.i="x; y"@bücher.example       => xn--bcher-kva.example
            "mx.our.e\xample"; dkim=pass header.d=shop.example             =>
            mx.our.example; "dkim=pass" header.d=shop.example              =>
            mx.our.example; dkim/2=pass header.d=shop.example              =>
            mx.our.example; dkim=pass header.d="a shop.example"            =>
            mx.our.example; dkim=pass header.d=                            =>
            mx.our.example; none                                           =>
                                                                           =>
            "#,
        ) {
            assert_eq!(found(value), domains, "{value}");
        }
        let folded = " MX.our.example 1;\n\tdkim = pass (2048-bit; good)\n header.d = Shop.Example header.s=k";
        assert_eq!(found(folded), "shop.example");
    }
}
