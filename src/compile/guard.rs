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

use std::collections::HashSet;
use std::sync::LazyLock;

use psl::{List, Psl as _, Type};

use crate::address::Kind;
use crate::address::providers::{self, Tails, is_provider, tail};

/// Why an entry is refused.
#[derive(Clone, Debug, PartialEq, Eq, Hash, thiserror::Error)]
#[non_exhaustive]
pub enum Danger {
    /// A mailbox that every domain must have, or that bounces come from.
    #[error("every domain needs this mailbox; bounces and complaints come from it")]
    Duty,
    /// A local part that almost every domain has.
    #[error("would list this mailbox at almost every domain")]
    CommonLocalPart,
    /// A public suffix, with domains of many owners below it.
    #[error("a public suffix, with domains of many owners below it; list the domains themselves")]
    Suffix,
    /// All domains below a public suffix.
    #[error("would list all domains below a public suffix, which have many owners")]
    UnderSuffix,
    /// A provider of mailboxes for anybody.
    #[error("a provider where anyone can get a mailbox; list the addresses themselves")]
    Freemail,
    /// A service that many senders share.
    #[error("a service that many senders share; list the addresses or the customer's domain")]
    Platform,
    /// All domains below a domain that has such a service below it.
    #[error(
        "would also list a service below it that many senders share; list the domains themselves"
    )]
    AbovePlatform,
    /// This mailbox at every domain, including this protected one.
    #[error(
        "would list this mailbox at every domain, including {0}, which is protected (--protect, or protect in list.toml)"
    )]
    ProtectedLocalPart(String),
    /// It is at, below or above this protected domain.
    #[error("{0} is protected (--protect, or protect in list.toml)")]
    Protected(String),
}

/// Refuses overly broad entries. Domains and entries are in canonical text: A-labels in lower case.
#[derive(Clone, Debug, Default)]
pub struct Guard {
    /// Whether only entries of protected domains are refused.
    pub(super) allows_world: bool,
    pub(super) protected: Vec<Vec<u8>>,
    /// Entries that are never refused.
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

    /// Returns whether an entry may surely be listed, and of a domain and its subtree (`.b`) both, by
    /// one look-up. If not, [`check`](Self::check) says what becomes of each.
    #[inline]
    pub(crate) fn clears(&self, kind: Kind, entry: &[u8]) -> bool {
        self.protected.is_empty() && (self.allows_world || is_clear(kind, entry))
    }

    fn check_in_full(&self, kind: Kind, entry: &[u8]) -> Result<(), Danger> {
        let world = match self.allows_world {
            true => Ok(()),
            false => lists_no_world(kind, entry),
        };
        match world.and_then(|()| self.check_protected(kind, entry)) {
            Err(_) if self.allowed.contains(entry) => Ok(()),
            checked => checked,
        }
    }

    fn check_protected(&self, kind: Kind, entry: &[u8]) -> Result<(), Danger> {
        let Some(first) = self.protected.first() else {
            return Ok(());
        };
        let domain = match kind {
            Kind::Mailbox => {
                // The last `@`; an earlier one is in quotes.
                let at = memchr::memrchr(b'@', entry).map_or(entry.len(), |at| at + 1);
                entry.get(at..).unwrap_or_default()
            }
            Kind::LocalPart => return Err(Danger::ProtectedLocalPart(text(first))),
            Kind::Domain => entry.strip_prefix(b"@").unwrap_or(entry),
            Kind::Subtree => entry.strip_prefix(b".").unwrap_or(entry),
        };
        let hit = self.protected.iter().find(|protected| {
            is_at_or_below(domain, protected)
                || (kind == Kind::Subtree && is_at_or_below(protected, domain))
        });
        hit.map_or(Ok(()), |hit| Err(Danger::Protected(text(hit))))
    }
}

fn text(domain: &[u8]) -> String {
    String::from_utf8_lossy(domain).into_owned()
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

/// Checks that an entry does not match other people's senders.
fn lists_no_world(kind: Kind, entry: &[u8]) -> Result<(), Danger> {
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
fn duty(entry: &[u8]) -> Result<(), Danger> {
    // Almost every entry is cleared by the first branch, which the processor predicts.
    match entry.first_chunk() {
        Some(start) if ![*b"abus", *b"mail", *b"post"].contains(start) => Ok(()),
        _ if DUTIES.iter().any(|duty| entry.starts_with(duty)) => Err(Danger::Duty),
        _ => Ok(()),
    }
}

fn local_part(local: &[u8]) -> Result<(), Danger> {
    let mut letters = local.to_vec();
    letters.retain(|byte| !b"-._".contains(byte));
    if ROLES.contains(letters.as_slice()) {
        return Err(Danger::CommonLocalPart);
    }
    Ok(())
}

/// Checks whether a domain, or with `below` all its subdomains, may be listed.
fn domain(domain: &[u8], below: bool) -> Result<(), Danger> {
    if domain.starts_with(b"[") {
        // An address literal is one host.
        return Ok(());
    }
    if has_tail(domain) {
        shared(domain, below)?;
    }
    match (suffix(domain), below) {
        (None, _) | (Some(Type::Private), false) => Ok(()),
        (Some(Type::Icann), false) => Err(Danger::Suffix),
        (Some(_), true) => Err(Danger::UnderSuffix),
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

/// Checks whether a domain, or one below it, belongs to many senders.
#[cold]
fn shared(domain: &[u8], below: bool) -> Result<(), Danger> {
    if is_provider(domain) || FREEMAIL.contains(domain) {
        return Err(Danger::Freemail);
    }
    let is_platform = PLATFORMS.contains(domain)
        || parent(domain)
            .is_some_and(|parent| PLATFORMS.contains([b"*.", parent].concat().as_slice()));
    if is_platform {
        return Err(Danger::Platform);
    }
    if below && ABOVE.contains(domain) {
        return Err(Danger::AbovePlatform);
    }
    Ok(())
}

/// Returns whether `domain` is `other` or one of its subdomains.
fn is_at_or_below(domain: &[u8], other: &[u8]) -> bool {
    domain
        .strip_suffix(other)
        .is_some_and(|rest| rest.is_empty() || rest.ends_with(b"."))
}

/// The names in a data file, one per line; see the files.
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

/// The domains that have a freemail provider or a platform below them, without the public suffixes,
/// which have another reason.
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

/// Removes the first label: `a.b.c` -> `b.c`.
fn parent(domain: &[u8]) -> Option<&[u8]> {
    let dot = memchr::memchr(b'.', domain)?;
    domain.get(dot + 1..)
}

#[cfg(test)]
mod tests {
    use super::{Danger, FREEMAIL, Guard, PLATFORMS};
    use crate::address::providers::is_provider;
    use crate::address::{Entry, Kind, Rules};

    fn check(guard: &Guard, text: &str) -> Result<(), Danger> {
        let entry = Entry::parse(text.as_bytes(), Rules::default()).unwrap();
        let checked = guard.check(entry.kind(), entry.as_bytes());
        if entry.kind() == Kind::Domain {
            let subtree = [b".", &entry.as_bytes()[1..]].concat();
            let clears_both = guard.clears(Kind::Subtree, &subtree);
            let allows_both = checked.is_ok() && guard.check(Kind::Subtree, &subtree).is_ok();
            assert!(allows_both || !clears_both, "{text}");
        }
        checked
    }

    #[test]
    fn entries_and_what_becomes_of_them() {
        let guard = Guard::default();
        for (entry, danger) in [
            ("spam@gmail.com", None),
            ("spam@bad.example", None),
            ("postmasters@bad.example", None),
            ("Postmaster@bad.example", Some(Danger::Duty)),
            ("abuse@bad.example", Some(Danger::Duty)),
            ("mailer-daemon@", Some(Danger::Duty)),
            ("spammer@", None),
            ("newsletter@", Some(Danger::CommonLocalPart)),
            ("sales@", Some(Danger::CommonLocalPart)),
            ("No-Reply@", Some(Danger::CommonLocalPart)),
            ("no.reply@", Some(Danger::CommonLocalPart)),
            ("Rechnung@", Some(Danger::CommonLocalPart)),
            ("noreply@", Some(Danger::CommonLocalPart)),
            ("info@bad.example", None),
            ("@bad.example", None),
            (".bad.example", None),
            ("@[192.0.2.1]", None),
            ("@example", Some(Danger::Suffix)),
            (".example", Some(Danger::UnderSuffix)),
            ("@com", Some(Danger::Suffix)),
            ("@co.uk", Some(Danger::Suffix)),
            (".co.uk", Some(Danger::UnderSuffix)),
            ("bad.co.uk", None),
            // 中国, as A-label.
            ("@xn--fiqs8s", Some(Danger::Suffix)),
            ("@中国", Some(Danger::Suffix)),
            // 公司.cn
            ("@xn--55qx5d.cn", Some(Danger::Suffix)),
            // A wildcard rule: *.ck, but not www.ck.
            ("@any.ck", Some(Danger::Suffix)),
            ("@www.ck", None),
            ("@dynv6.net", None),
            ("@blogspot.com", None),
            (".blogspot.com", Some(Danger::UnderSuffix)),
            (".spam.blogspot.com", None),
            ("@gmail.com", Some(Danger::Freemail)),
            ("GoogleMail.com", Some(Danger::Freemail)),
            (".fastmail.com", Some(Danger::Freemail)),
            // Known only by the address rules of its provider.
            ("@hotmail.ie", Some(Danger::Freemail)),
            ("@notgmail.com", None),
            ("@onmicrosoft.com", Some(Danger::Platform)),
            (".onmicrosoft.com", Some(Danger::Platform)),
            ("@bad.onmicrosoft.com", None),
            (".amazonses.com", Some(Danger::Platform)),
            ("@eu-west-1.amazonses.com", Some(Danger::Platform)),
            ("*.us-east-2.amazonses.com", Some(Danger::Platform)),
            ("0102@eu-west-1.amazonses.com", None),
            (".sendgrid.net", Some(Danger::Platform)),
            ("@u123.wl.sendgrid.net", None),
            (".zendesk.com", Some(Danger::Platform)),
            ("@bad.zendesk.com", None),
            (".google.com", Some(Danger::AbovePlatform)),
            ("@google.com", None),
            (".appleid.com", Some(Danger::AbovePlatform)),
        ] {
            assert_eq!(check(&guard, entry).err(), danger, "{entry}");
        }
    }

    #[test]
    fn protected_domains_stay_out_of_reach() {
        let guard = Guard::new(["own.example"]);
        let protected = Some(Danger::Protected("own.example".to_owned()));
        for (entry, danger) in [
            ("ceo@own.example", &protected),
            ("ceo@mail.own.example", &protected),
            ("@own.example", &protected),
            ("@mail.own.example", &protected),
            (".own.example", &protected),
            ("ceo@notown.example", &None),
            ("@other.example", &None),
            (
                "boss@",
                &Some(Danger::ProtectedLocalPart("own.example".to_owned())),
            ),
        ] {
            assert_eq!(check(&guard, entry).err(), *danger, "{entry}");
        }
        let alone = Guard {
            allows_world: true,
            ..guard
        };
        assert!(
            check(&alone, "@gmail.com").is_ok() && check(&alone, "postmaster@b.example").is_ok()
        );
        assert!(check(&alone, "ceo@own.example").is_err());
        let guard = Guard::new(["mail.own.example"]);
        assert!(check(&guard, ".own.example").is_err());
        assert!(check(&guard, "@own.example").is_ok());
    }

    #[test]
    fn one_entry_can_be_allowed() {
        let guard = Guard {
            allowed: [".example", "boss@", "@own.example"].map(Vec::from).into(),
            ..Guard::new(["own.example"])
        };
        for entry in [".example", "boss@", "@own.example"] {
            assert_eq!(check(&guard, entry), Ok(()), "{entry}");
        }
        for entry in [
            "@example",
            ".com",
            "boss2@",
            "ceo@own.example",
            ".own.example",
        ] {
            assert!(check(&guard, entry).is_err(), "{entry}");
        }
    }

    /// Without the bit of one, it would be taken for any other domain.
    #[test]
    fn every_provider_and_platform_is_refused() {
        for name in FREEMAIL.iter().chain(&*PLATFORMS) {
            let name = String::from_utf8_lossy(name).replace('*', "any");
            let checked = check(&Guard::default(), &format!("@{name}"));
            assert!(checked.is_err(), "{name}");
        }
    }

    /// A name that is not in canonical form would never be found.
    #[test]
    fn the_files_are_sorted_and_canonical() {
        let lines = |file: &'static str| {
            let lines = file.lines().filter(|line| !line.starts_with('#'));
            lines.collect::<Vec<_>>()
        };
        let canonical = |text: &str| {
            let entry = Entry::parse(text.as_bytes(), Rules::default()).unwrap();
            String::from_utf8(entry.as_bytes().to_vec()).unwrap()
        };
        let freemail = lines(include_str!("guard/freemail.txt"));
        let platforms = lines(include_str!("guard/platforms.txt"));
        let roles = lines(include_str!("guard/roles.txt"));
        assert!(freemail.len() > 300 && platforms.len() > 100 && roles.len() > 200);
        let platforms: Vec<_> = platforms
            .iter()
            .map(|line| line.strip_prefix("*.").unwrap_or(line))
            .collect();
        assert!(platforms.is_sorted() && freemail.is_sorted_by(|a, b| a < b));
        assert!(roles.is_sorted_by(|a, b| a < b));
        // Their subdomains have their tail.
        let wildcards = || {
            include_str!("guard/platforms.txt")
                .lines()
                .filter(|line| line.starts_with("*."))
        };
        assert!(wildcards().all(|line| line.len() >= 10));
        for domain in freemail.iter().chain(&platforms) {
            assert_eq!(canonical(&format!("@{domain}")), format!("@{domain}"));
            assert!(!is_provider(domain.as_bytes()), "{domain}");
        }
        assert!(!platforms.iter().any(|domain| freemail.contains(domain)));
        for role in roles {
            assert_eq!(canonical(&format!("{role}@")), format!("{role}@"));
            assert!(!role.contains(['-', '.', '_']), "{role}");
        }
    }
}
