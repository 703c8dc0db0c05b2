//! Filter lists of ad blockers, as far as they name domains: `||bad.example^`.
//!
//! `||name^` is the domain with all its subdomains, and `@@` begins an exception. A
//! rule with a path or about elements of a page means nothing for mail. Of the
//! options after `$`, only those that leave the domain itself bad are accepted.
//!
//! ```text
//!   ||bad.example^              listed, with its subdomains
//!   ||good.example^             not listed: cancelled on the next line, or anywhere else
//!   ||good.example^$badfilter   or @@||good.example^, which also cancels ||ads.good.example^
//! ```

use super::{Held, LineFormat, Out, includes};
use crate::list::row::{Refusal, RejectReason, Skip};
use crate::list::text::is_one_of;

/// Options with which a rule still lists its domain. `popup` and `third-party` narrow it to
/// some requests of a browser, but not to some pages or clients.
const HARMLESS: &str = "all document doc important popup third-party 3p";

/// The state between lines: the rules, from their name on.
#[derive(Debug, Default)]
pub(crate) struct Adblock {
    held: Held,
}

impl LineFormat for Adblock {
    fn line(&mut self, line: &[u8], out: &mut Out<'_>) {
        let line = line.trim_ascii();
        match line {
            [] => out.skip(Skip::Blank),
            _ if includes(line) => out.refuse(Refusal::Include),
            _ if line.starts_with(b"!#if") => out.refuse(Refusal::Condition),
            [b'[', ..] => out.other(b"[Adblock]"),
            [b'@', b'@', rule @ ..] => {
                let (name, mut options) = name_and_options(rule);
                if let Some(name) = name.strip_prefix(b"||")
                    && !name.is_empty()
                    && options.all(|option| option == b"important")
                {
                    self.held.cancel(name, out);
                }
                out.skip(Skip::Allow);
            }
            [b'|', b'|', rule @ ..] => self.anchored(rule, out),
            _ if has_element_rule(line) => out.other(b"a rule about elements of a page"),
            [b'!' | b'#', ..] => out.skip(Skip::Comment),
            _ => out.reject(RejectReason::NotOfFormat, line),
        }
    }

    fn finish(&mut self, out: &mut Out<'_>) {
        self.held.finish(
            out,
            |rule| {
                let (name, _) = name_and_options(rule);
                let dots = memchr::memchr_iter(b'.', name);
                let parents = dots.filter_map(|dot| name.get(dot + 1..));
                [rule, name].into_iter().chain(parents).collect()
            },
            |rule, out| {
                let (name, _) = name_and_options(rule);
                match name.starts_with(b"*.") {
                    true => out.entry(name),
                    false => out.tree(name),
                }
            },
        );
    }
}

impl Adblock {
    fn anchored(&mut self, rule: &[u8], out: &mut Out<'_>) {
        let (name, options) = name_and_options(rule);
        let rule = |options: &[&[u8]]| [name, &options.join(&b',')].join(&b'$');
        if options.clone().any(|option| option == b"badfilter") {
            let others: Vec<&[u8]> = options.filter(|option| *option != b"badfilter").collect();
            self.held.cancel(&rule(&others), out);
            return out.skip(Skip::Allow);
        }
        if let Some(option) = options.clone().find(|option| !is_one_of(option, HARMLESS)) {
            return out.other(option);
        }
        if name.contains(&b'/') {
            return out.reject(RejectReason::Url, name);
        }
        let options: Vec<&[u8]> = options.collect();
        self.held.add(&rule(&options), out);
    }
}

/// Returns whether a rule is about elements of a page: `bad.example##.banner`, `#@#`, `#?#`, `#$#`.
fn has_element_rule(line: &[u8]) -> bool {
    [&b"##"[..], b"#@#", b"#?#", b"#$#"]
        .iter()
        .any(|sign| memchr::memmem::find(line, sign).is_some_and(|at| at > 0 || sign.len() > 2))
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

pub(crate) fn is_marked(line: &[u8]) -> bool {
    line.starts_with(b"||") || line.starts_with(b"@@||") || line.starts_with(b"[Adblock")
}
