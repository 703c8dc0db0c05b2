//! Filter lists of ad blockers, as far as they name domains: `||bad.example^`.
//!
//! `||name^` is the domain with all its subdomains, and `@@` begins an exception. A
//! rule with a path or about elements of a page means nothing for mail. Of the
//! options after `$`, only those that leave the domain itself bad are accepted.
//!
//! ```text
//!   ||bad.example^              listed, with its subdomains
//!   ||good.example^             not listed: cancelled on the next line, or anywhere else
//!   ||good.example^$badfilter   or @@||good.example^
//! ```
//!
//! In a list with more rules, or more of such lines, than can be held, such a line cancels only
//! rules that are held at the same time.

use std::collections::HashSet;

use super::held::Held;
use super::include::includes;
use super::out::Out;
use super::plain;
use crate::list::row::reject_reason::RejectReason;
use crate::list::row::{RawEntry, Skip};

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

/// Maximum number of bytes of the rules that cancel others.
const MAX_CANCELLED_BYTES: usize = 16 << 20;

/// The state between lines.
#[derive(Debug, Default)]
pub(crate) struct Adblock {
    /// The rules, from their name on.
    held: Held,
    /// The rules and names that are not listed, in lower case.
    cancelled: HashSet<Vec<u8>>,
    cancelled_bytes: usize,
}

impl Adblock {
    /// Reads one line.
    pub(crate) fn read(&mut self, line: &[u8], out: &mut Out<'_>) {
        let line = line.strip_prefix(plain::BOM).unwrap_or(line).trim_ascii();
        match line {
            [] => out.skip(Skip::Blank),
            _ if includes(line) => out.reject(RejectReason::Include, line),
            [b'!' | b'#', ..] => out.skip(Skip::Comment),
            [b'[', ..] => out.skip(Skip::Setting),
            [b'@', b'@', rule @ ..] => {
                let (name, mut options) = name_and_options(rule);
                if let Some(name) = name.strip_prefix(b"||")
                    && options.all(|option| option == b"important")
                {
                    self.cancel(name, out);
                }
                out.skip(Skip::Allow);
            }
            [b'/', ..] => out.reject(RejectReason::Pattern, line),
            [b'|', b'|', rule @ ..] => self.anchored(rule, out),
            _ if has_element_rule(line) => out.skip(Skip::OtherAction),
            _ => super::hosts::read(line, out),
        }
    }

    /// Reads what follows `||`.
    fn anchored(&mut self, rule: &[u8], out: &mut Out<'_>) {
        let (name, options) = name_and_options(rule);
        if options.clone().any(|option| option == b"badfilter") {
            let others: Vec<&[u8]> = options.filter(|option| *option != b"badfilter").collect();
            let rule = [name, &others.join(&b',')].join(&b'$');
            self.cancel(&rule, out);
            return out.skip(Skip::Allow);
        }
        if !options.clone().all(|option| HARMLESS.contains(&option)) {
            return out.skip(Skip::OtherAction);
        }
        if name.contains(&b'/') {
            return out.reject(RejectReason::Url, rule);
        }
        if self.held.is_full() {
            self.finish(out);
        }
        let options: Vec<&[u8]> = options.collect();
        let rule = [name, &options.join(&b',')].join(&b'$');
        self.held.add(RawEntry::new(&rule), out.line());
    }

    fn cancel(&mut self, rule: &[u8], out: &mut Out<'_>) {
        if self.cancelled_bytes > MAX_CANCELLED_BYTES {
            self.finish(out);
            self.cancelled.clear();
            self.cancelled_bytes = 0;
        }
        self.cancelled_bytes += rule.len() + size_of::<Vec<u8>>();
        self.cancelled.insert(rule.to_ascii_lowercase());
    }

    /// Lists what nothing has cancelled.
    pub(crate) fn finish(&mut self, out: &mut Out<'_>) {
        let cancelled = &self.cancelled;
        self.held.drain(0, |raw, line| {
            let (name, _) = name_and_options(raw.text);
            let mut out = out.at(line, name);
            let is_cancelled = |text: &[u8]| cancelled.contains(&text.to_ascii_lowercase());
            if !cancelled.is_empty() && (is_cancelled(name) || is_cancelled(raw.text)) {
                out.skip(Skip::Allow);
            } else if name.starts_with(b"*.") {
                out.domain(name);
            } else {
                out.tree(name);
            }
        });
    }
}

/// Returns whether a rule is about elements of a page: `bad.example##.banner`, `#@#`, `#?#`, `#$#`.
fn has_element_rule(line: &[u8]) -> bool {
    [&b"##"[..], b"#@#", b"#?#", b"#$#"]
        .iter()
        .any(|sign| memchr::memmem::find(line, sign).is_some())
}

/// Returns the name in a rule, and its options: `bad.example^$doc,popup`.
fn name_and_options(rule: &[u8]) -> (&[u8], impl Iterator<Item = &[u8]> + Clone) {
    let at = memchr::memchr(b'$', rule).unwrap_or(rule.len());
    let (name, options) = rule.split_at(at);
    let name = name.strip_suffix(b"|").unwrap_or(name);
    let name = name.strip_suffix(b"^").unwrap_or(name);
    let options = options.get(1..).unwrap_or_default().split(|&b| b == b',');
    (name, options.filter(|option| !option.is_empty()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::list::Row;

    #[test]
    fn what_cancels_rules_is_bounded() {
        let mut adblock = Adblock::default();
        let mut listed = 0;
        let mut count = |_: u64, row: Row<'_>| listed += u32::from(matches!(row, Row::Entry(_)));
        let mut out = Out::new(1, b"", &mut count);
        adblock.read(b"||a.example^", &mut out);
        for number in 0..500_000 {
            adblock.read(format!("@@||good{number}.example^").as_bytes(), &mut out);
            assert!(adblock.cancelled_bytes <= MAX_CANCELLED_BYTES + 1_000);
        }
        assert!(adblock.cancelled.len() < 450_000);
        adblock.finish(&mut out);
        // The name, and its subdomains.
        assert_eq!(listed, 2);
    }
}
