//! Filter lists of ad blockers, as far as they name domains: `||bad.example^`.
//!
//! `||name^` is the domain with all its subdomains, and `@@` begins an exception. A
//! rule with a path or about elements of a page means nothing for mail. Of the
//! options after `$`, only those that leave the domain itself bad are accepted. A line
//! with `$badfilter` lists nobody; the rule that it cancels must be removed by hand.

use super::include::includes;
use super::out::Out;
use super::plain;
use crate::list::row::Skip;
use crate::list::row::reject_reason::RejectReason;

/// Options with which a rule still lists its domain. `popup` and `third-party` narrow it to
/// some requests of a browser, but not to some pages or clients.
const HARMLESS: &[&[u8]] = &[
    b"all",
    b"document",
    b"doc",
    b"important",
    b"popup",
    b"third-party",
    b"3p",
];

/// Reads one line.
pub(crate) fn read(line: &[u8], out: &mut Out<'_>) {
    let line = line.strip_prefix(plain::BOM).unwrap_or(line).trim_ascii();
    match line {
        [] => out.skip(Skip::Blank),
        _ if includes(line) => out.reject(RejectReason::Include, line),
        [b'!' | b'#', ..] => out.skip(Skip::Comment),
        [b'[', ..] => out.skip(Skip::Setting),
        [b'@', b'@', ..] => out.skip(Skip::Allow),
        [b'/', ..] => out.reject(RejectReason::Pattern, line),
        [b'|', b'|', rule @ ..] => anchored(rule, out),
        _ if has_element_rule(line) => out.skip(Skip::OtherAction),
        _ => super::hosts::read(line, out),
    }
}

/// Returns whether a rule is about elements of a page: `bad.example##.banner`, `#@#`, `#?#`, `#$#`.
fn has_element_rule(line: &[u8]) -> bool {
    [&b"##"[..], b"#@#", b"#?#", b"#$#"]
        .iter()
        .any(|sign| memchr::memmem::find(line, sign).is_some())
}

/// Reads what follows `||`.
fn anchored(rule: &[u8], out: &mut Out<'_>) {
    let (name, options) = match memchr::memchr(b'$', rule) {
        Some(at) => (
            rule.get(..at).unwrap_or_default(),
            rule.get(at + 1..).unwrap_or_default(),
        ),
        None => (rule, &b""[..]),
    };
    let mut options = options.split(|&b| b == b',').filter(|o| !o.is_empty());
    if options.clone().any(|option| option == b"badfilter") {
        return out.skip(Skip::Allow);
    }
    if !options.all(|option| HARMLESS.contains(&option)) {
        return out.skip(Skip::OtherAction);
    }
    let name = name.strip_suffix(b"|").unwrap_or(name);
    let name = name.strip_suffix(b"^").unwrap_or(name);
    if name.contains(&b'/') {
        return out.reject(RejectReason::Url, rule);
    }
    match name.strip_prefix(b"*.") {
        Some(_) => out.domain(name),
        None => out.tree(name),
    }
}
