//! Overly broad entries.
//!
//! One careless line of a feed (`@gmail.com`, `.co.uk`, `postmaster@`) can block more innocent mail
//! than all other lines block spam. Such an entry is refused, with a reason, unless the person who
//! compiles the list allows this entry, or all.
//!
//! | entry | refused |
//! |---|---|
//! | mailbox, local part | `postmaster`, `abuse`, `mailer-daemon`: RFC 5321 section 4.5.1 and RFC 2142 require that they are reachable, and bounces come from the last |
//! | local part | `info@`, `noreply@` ...: a mailbox of almost every domain |
//! | domain | a public suffix of ICANN's section (`@co.uk`), a single label, a freemail provider |
//! | domain | a service that many senders share (`@eu-west-1.amazonses.com`) |
//! | subtree | the same, a domain above one of them (`.google.com`), and public suffixes of the private section (`.blogspot.com`) |
//! | any | at, below or above a protected domain; with a protected domain, every local part, since it would list a mailbox there too |
//!
//! The names are in `guard/`: `freemail.txt`, `platforms.txt` and `roles.txt`, each with its
//! sources.
//!
//! A private suffix *itself* may be listed. Many providers of throw-away addresses (`@dynv6.net`)
//! registered their domain there, lists name them rightly, and the entry matches only mailboxes of
//! that very domain. Its subtree may not: it consists of other people's domains.

use std::borrow::Cow;
use std::collections::HashSet;
use std::sync::LazyLock;

use psl::{List, Psl as _, Type};

use blocklist_filter::address::Kind;
use blocklist_filter::address::providers::{self, Tails, is_provider, tail};

/// Why an entry is refused, in words.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Danger(Cow<'static, str>);

/// Refuses overly broad entries. Domains and entries are in canonical text: A-labels in lower case.
#[derive(Clone, Debug, Default)]
pub struct Guard {
    pub(super) allows_world: bool,
    pub(super) protected: Vec<Vec<u8>>,
    pub(super) allowed: HashSet<Vec<u8>>,
}

impl Guard {
    /// Returns a guard that also protects `domains`.
    pub fn new<D: AsRef<[u8]>>(domains: impl IntoIterator<Item = D>) -> Self {
        let domains = domains.into_iter();
        Self {
            protected: domains.map(|domain| domain.as_ref().to_vec()).collect(),
            ..Self::default()
        }
    }

    /// Checks whether an entry may be listed, given in its canonical text (`a@b`, `a@`, `@b`,
    /// `.b`). Mailboxes take a few nanoseconds: a list may have a billion.
    ///
    /// # Errors
    /// When it may not; the error says what the entry would do.
    #[inline]
    pub fn check(&self, kind: Kind, entry: &[u8]) -> Result<(), Danger> {
        match self.clears(kind, entry) {
            true => Ok(()),
            false => self.check_in_full(kind, entry),
        }
    }

    /// Returns whether an entry may surely be listed, and of a domain and its subtree (`.b`) both.
    #[inline]
    pub(crate) fn clears(&self, kind: Kind, entry: &[u8]) -> bool {
        self.protected.is_empty() && (self.allows_world || is_clear(kind, entry))
    }

    fn check_in_full(&self, kind: Kind, entry: &[u8]) -> Result<(), Danger> {
        let world = match self.allows_world {
            true => Ok(()),
            false => lists_no_world(kind, entry).map_err(Cow::Borrowed),
        };
        let checked = world.and_then(|()| match self.protected_by(kind, entry) {
            None => Ok(()),
            Some(why) => Err(Cow::Owned(why)),
        });
        // With protected domains, this is asked for each entry, and most need no look-up.
        match checked {
            Err(why) if !self.allowed.contains(entry) => Err(Danger(why)),
            Ok(()) | Err(_) => Ok(()),
        }
    }

    fn protected_by(&self, kind: Kind, entry: &[u8]) -> Option<String> {
        const BY: &str = "is protected (--protect, or protect in list.toml)";
        let first = self.protected.first()?;
        let domain = match kind {
            Kind::Mailbox => {
                // The last `@`; an earlier one is in quotes.
                let at = memchr::memrchr(b'@', entry).map_or(entry.len(), |at| at + 1);
                entry.get(at..).unwrap_or_default()
            }
            Kind::LocalPart => {
                let first = String::from_utf8_lossy(first);
                let what = "would list this mailbox at every domain, including";
                return Some(format!("{what} {first}, which {BY}"));
            }
            Kind::Domain => entry.strip_prefix(b"@").unwrap_or(entry),
            Kind::Subtree => entry.strip_prefix(b".").unwrap_or(entry),
        };
        let hit = self.protected.iter().find(|protected| {
            is_at_or_below(domain, protected)
                || (kind == Kind::Subtree && is_at_or_below(protected, domain))
        });
        hit.map(|hit| format!("{} {BY}", String::from_utf8_lossy(hit)))
    }
}

/// Returns whether an entry surely does not match other people's senders; most do not.
#[inline]
fn is_clear(kind: Kind, entry: &[u8]) -> bool {
    match (kind, entry) {
        (Kind::Mailbox, _) => duty(entry).is_ok(),
        (Kind::LocalPart, _) => false,
        (Kind::Domain | Kind::Subtree, [_, domain @ ..]) => {
            domain.first().is_some_and(u8::is_ascii_alphanumeric)
                && !has_tail(domain)
                && suffix(domain).is_none()
        }
        (Kind::Domain | Kind::Subtree, []) => false,
    }
}

fn lists_no_world(kind: Kind, entry: &[u8]) -> Result<(), &'static str> {
    match kind {
        Kind::Mailbox => duty(entry),
        Kind::LocalPart => {
            duty(entry)?;
            local_part(entry.strip_suffix(b"@").unwrap_or(entry))
        }
        Kind::Domain => domain(entry.strip_prefix(b"@").unwrap_or(entry), false),
        Kind::Subtree => domain(entry.strip_prefix(b".").unwrap_or(entry), true),
    }
}

/// Local parts that every domain must answer, each with its `@`.
const DUTIES: [&[u8]; 3] = [b"abuse@", b"mailer-daemon@", b"postmaster@"];

#[inline]
fn duty(entry: &[u8]) -> Result<(), &'static str> {
    // Almost every entry is cleared by the first branch, which the processor predicts.
    match entry.first_chunk() {
        Some(start) if ![*b"abus", *b"mail", *b"post"].contains(start) => Ok(()),
        _ if DUTIES.iter().any(|duty| entry.starts_with(duty)) => {
            Err("every domain needs this mailbox; bounces and complaints come from it")
        }
        _ => Ok(()),
    }
}

fn local_part(local: &[u8]) -> Result<(), &'static str> {
    let mut letters = local.to_vec();
    letters.retain(|byte| !b"-._".contains(byte));
    if ROLES.contains(letters.as_slice()) {
        return Err("would list this mailbox at almost every domain");
    }
    Ok(())
}

fn domain(domain: &[u8], below: bool) -> Result<(), &'static str> {
    if domain.starts_with(b"[") {
        // An address literal is one host.
        return Ok(());
    }
    if has_tail(domain) {
        shared(domain, below)?;
    }
    match (suffix(domain), below) {
        (None, _) | (Some(Type::Private), false) => Ok(()),
        (Some(Type::Icann), false) => Err(
            "a public suffix, with domains of many owners below it; list the domains themselves",
        ),
        (Some(_), true) => {
            Err("would list all domains below a public suffix, which have many owners")
        }
    }
}

/// Returns the type of the public suffix that a domain is; `None` if it is none.
// A call for each domain costs 25 instructions.
#[inline(always)]
fn suffix(domain: &[u8]) -> Option<Type> {
    let name = domain.strip_suffix(b".").unwrap_or(domain);
    let found = List.find(name.rsplit(|&b| b == b'.'));
    // Without a rule (`example`, `local`), the last label is the suffix.
    (found.len == name.len() && !name.is_empty()).then(|| found.typ.unwrap_or(Type::Icann))
}

#[cold]
fn shared(domain: &[u8], below: bool) -> Result<(), &'static str> {
    if is_provider(domain) || FREEMAIL.contains(domain) {
        return Err("a provider where anyone can get a mailbox; list the addresses themselves");
    }
    let is_platform = PLATFORMS.contains(domain)
        || parent(domain)
            .is_some_and(|parent| PLATFORMS.contains([b"*.", parent].concat().as_slice()));
    if is_platform {
        return Err(
            "a service that many senders share; list the addresses or the customer's domain",
        );
    }
    if below && ABOVE.contains(domain) {
        return Err(
            "would also list a service below it that many senders share; list the domains themselves",
        );
    }
    Ok(())
}

fn is_at_or_below(domain: &[u8], other: &[u8]) -> bool {
    domain
        .strip_suffix(other)
        .is_some_and(|rest| rest.is_empty() || rest.ends_with(b"."))
}

type Names = HashSet<&'static [u8]>;

fn names(file: &'static str) -> Names {
    let lines = file.lines().map(str::as_bytes);
    lines
        .filter(|line| !matches!(line, [] | [b'#', ..]))
        .collect()
}

static FREEMAIL: LazyLock<Names> = LazyLock::new(|| names(include_str!("guard/freemail.txt")));
static PLATFORMS: LazyLock<Names> = LazyLock::new(|| names(include_str!("guard/platforms.txt")));
static ROLES: LazyLock<Names> = LazyLock::new(|| names(include_str!("guard/roles.txt")));

/// The domains with a freemail provider or a platform below them, unless they are public suffixes.
static ABOVE: LazyLock<Names> = LazyLock::new(|| {
    let shared = FREEMAIL.iter().chain(&*PLATFORMS);
    shared
        .flat_map(|domain| std::iter::successors(parent(domain), |domain| parent(domain)))
        .filter(|domain| !PLATFORMS.contains(domain) && suffix(domain).is_none())
        .collect()
});

/// A bit for the [`tail`] of each of these names, and of each provider: nearly every other domain is
/// told from them by it. A platform for all subdomains (`*.amazonses.com`) has their tail.
static TAILS: LazyLock<Tails> = LazyLock::new(|| {
    let mut tails = providers::TAILS;
    for name in FREEMAIL.iter().chain(&*PLATFORMS).chain(&*ABOVE) {
        let tail = tail(name);
        tails[tail / 64] |= 1 << (tail % 64);
    }
    tails
});

fn has_tail(domain: &[u8]) -> bool {
    let tail = tail(domain);
    TAILS[tail / 64] & 1 << (tail % 64) != 0
}

fn parent(domain: &[u8]) -> Option<&[u8]> {
    let dot = memchr::memchr(b'.', domain)?;
    domain.get(dot + 1..)
}

#[cfg(test)]
mod tests {
    use super::{FREEMAIL, Guard, PLATFORMS, ROLES};
    use blocklist_filter::address::{Entry, Kind, Rules};

    /// Returns why an entry is refused; nothing, if it is not.
    fn check(guard: &Guard, text: &str) -> String {
        let entry = Entry::parse(text.as_bytes(), Rules::default()).unwrap();
        let checked = guard.check(entry.kind(), entry.as_bytes());
        if entry.kind() == Kind::Domain {
            let subtree = [b".", &entry.as_bytes()[1..]].concat();
            let clears_both = guard.clears(Kind::Subtree, &subtree);
            let allows_both = checked.is_ok() && guard.check(Kind::Subtree, &subtree).is_ok();
            assert!(allows_both || !clears_both, "{text}");
        }
        checked.map_or_else(|danger| danger.to_string(), |()| String::new())
    }

    #[test]
    fn entries_and_what_becomes_of_them() {
        for (why, entries) in [
            (
                "",
                "spam@gmail.com spam@bad.example postmasters@bad.example spammer@ info@bad.example \
                 @bad.example .bad.example @[192.0.2.1] bad.co.uk @dynv6.net @blogspot.com \
                 .spam.blogspot.com @notgmail.com @bad.onmicrosoft.com 0102@eu-west-1.amazonses.com \
                 @u123.wl.sendgrid.net @bad.zendesk.com @google.com",
            ),
            (
                "every domain needs this",
                "Postmaster@bad.example abuse@bad.example mailer-daemon@",
            ),
            (
                "would list this mailbox at almost every",
                "newsletter@ sales@ No-Reply@ no.reply@ Rechnung@ noreply@",
            ),
            // The first of the A-labels is 中国, the second is 公司. A wildcard: *.ck, but not www.ck.
            (
                "a public suffix",
                "@example @com @co.uk @xn--fiqs8s @中国 @xn--55qx5d.cn @any.ck",
            ),
            ("", "@www.ck"),
            (
                "would list all domains below a public",
                ".example .co.uk .blogspot.com",
            ),
            // The last is known only by the address rules of its provider.
            (
                "a provider where anyone",
                "@gmail.com GoogleMail.com .fastmail.com @hotmail.ie",
            ),
            (
                "a service that many senders share",
                "@onmicrosoft.com .onmicrosoft.com .amazonses.com @eu-west-1.amazonses.com \
                 *.us-east-2.amazonses.com .sendgrid.net .zendesk.com",
            ),
            ("would also list a service", ".google.com .appleid.com"),
        ] {
            for entry in entries.split(' ') {
                let refused = check(&Guard::default(), entry);
                assert!(refused.starts_with(why), "{entry}: {refused}");
                assert_eq!(refused.is_empty(), why.is_empty(), "{entry}: {refused}");
            }
        }
    }

    #[test]
    fn protected_domains_stay_out_of_reach_but_what_is_allowed() {
        let allowed = "@own.example .example boss@ .mail.own.example";
        for (protected, allows_world, allowed, refused, listed) in [
            (
                "own.example",
                false,
                "",
                "ceo@own.example ceo@mail.own.example @own.example @mail.own.example .own.example boss@",
                "ceo@notown.example @other.example",
            ),
            (
                "own.example",
                true,
                "",
                "ceo@own.example",
                "@gmail.com postmaster@b.example",
            ),
            (
                "mail.own.example",
                false,
                "",
                ".own.example",
                "@own.example",
            ),
            (
                "own.example",
                false,
                allowed,
                "@example .com boss2@ ceo@own.example .own.example",
                allowed,
            ),
        ] {
            let allowed = allowed.split(' ').map(|entry| entry.as_bytes().to_vec());
            let guard = Guard {
                allows_world,
                allowed: allowed.collect(),
                ..Guard::new([protected])
            };
            for entry in refused.split(' ') {
                assert_ne!(check(&guard, entry), "", "{entry}");
            }
            for entry in listed.split(' ') {
                assert_eq!(check(&guard, entry), "", "{entry}");
            }
        }
        let guard = Guard::new(["own.example"]);
        assert!(check(&guard, "a@own.example").starts_with("own.example is protected"));
        assert!(check(&guard, "boss@").contains("including own.example"));
    }

    /// A name that is not in canonical form, or without its bit, would never be found.
    #[test]
    fn every_name_in_the_files_is_refused() {
        assert!(FREEMAIL.len() > 300 && PLATFORMS.len() > 100 && ROLES.len() > 200);
        for name in FREEMAIL.iter().chain(&*PLATFORMS) {
            let name = String::from_utf8_lossy(name).replace('*', "any");
            assert_ne!(check(&Guard::default(), &format!("@{name}")), "", "{name}");
        }
        for name in &*ROLES {
            let role = String::from_utf8_lossy(name);
            assert_ne!(check(&Guard::default(), &format!("{role}@")), "", "{role}");
        }
        // Subdomains have the tail of their platform.
        let mut wildcards = PLATFORMS.iter().filter(|name| name.starts_with(b"*."));
        assert!(wildcards.all(|name| name.len() >= 10));
    }
}
