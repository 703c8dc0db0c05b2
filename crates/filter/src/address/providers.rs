//! The rules by which mail providers deliver several addresses to one mailbox, as they document
//! them.
//!
//! | provider | rule | source |
//! |---|---|---|
//! | Gmail | dots have no meaning, `+tag` is cut, googlemail.com is gmail.com | support.google.com/mail/answer/7436150, /22370, /10313 |
//! | Outlook.com (Hotmail, Live, MSN) | `+tag` is cut | support.microsoft.com, "Add or remove an email alias in Outlook.com"; the domains: validator.js, normalizeEmail.js (MIT) |
//! | iCloud | `+tag` is cut | support.apple.com/guide/icloud, "Use + addresses in iCloud Mail" |
//! | Proton | `+tag` is cut; `.`, `-` and `_` have no meaning; one name is one account in all of its domains | proton.me/support/creating-aliases, /change-username ("treated as transparent"; no variation "can be used for a different account"), /addresses-and-aliases (the same name at proton.me, protonmail.com, protonmail.ch and pm.me) |
//! | Fastmail | `+tag` is cut; `tag@user.fastmail.com` is `user@fastmail.com` | fastmail.help/hc/en-us/articles/360060591053 |
//! | Yandex | one login is one mailbox in all of its domains | yandex.com/support/domain/additional/mailbox-alias ("Emails sent to any of these addresses will arrive at the same mailbox"), /support/id/authorization/email ("addresses using your username on all Yandex domains are linked to you"); the domains: Yandex's answer in bitwarden/server#876, and ya.ru in validatorjs/validator.js#807 |
//!
//! There are no rules for the following, because in doubt two addresses are two people:
//!
//! * Yahoo's `base-keyword`: `base` alone is not a mailbox of the same owner, and no page says that
//!   nobody else has it (gmr/email-normalize#14 dropped the rule for that reason).
//! * Dots, hyphens and `+tag` at Yandex: we found no page of Yandex about them.
//! * icloud.com, me.com and mac.com, and the domains of Outlook and Fastmail, stay apart: no
//!   provider says that each name belongs to the same person in all of them.
//!
//! A cut leaves at least one byte: `+tag@gmail.com` stays as it is.

use super::rules::Rules;

/// What a provider does with an address.
#[derive(Debug, PartialEq, Eq)]
struct Provider {
    /// The tag begins at the first of this byte; `None` if the provider has no tags.
    tag: Option<u8>,
    /// Bytes without a meaning.
    ignored: &'static [u8],
    /// Whether `tag@user.domain` is `user@domain`.
    subdomains: bool,
    /// The domain under which its mailboxes are compared, if not the written one.
    domain: Option<&'static str>,
    domains: &'static [&'static str],
}

/// The rule of the option `plus` for a domain that is not a provider's; most providers have the same.
const ANYBODY: Provider = Provider {
    tag: Some(b'+'),
    ignored: b"",
    subdomains: false,
    domain: None,
    domains: &[],
};

const GMAIL: Provider = Provider {
    ignored: b".",
    domain: Some("gmail.com"),
    domains: &["gmail.com", "googlemail.com"],
    ..ANYBODY
};

#[rustfmt::skip]
const OUTLOOK: Provider = Provider {
    domains: &[
        "hotmail.at", "hotmail.be", "hotmail.ca", "hotmail.cl", "hotmail.co.il", "hotmail.co.nz",
        "hotmail.co.th", "hotmail.co.uk", "hotmail.com", "hotmail.com.ar", "hotmail.com.au",
        "hotmail.com.br", "hotmail.com.gr", "hotmail.com.mx", "hotmail.com.pe", "hotmail.com.tr",
        "hotmail.com.vn", "hotmail.cz", "hotmail.de", "hotmail.dk", "hotmail.es", "hotmail.fr",
        "hotmail.hu", "hotmail.id", "hotmail.ie", "hotmail.in", "hotmail.it", "hotmail.jp",
        "hotmail.kr", "hotmail.lv", "hotmail.my", "hotmail.nl", "hotmail.no", "hotmail.ph",
        "hotmail.pt", "hotmail.sa", "hotmail.se", "hotmail.sg", "hotmail.sk",
        "live.at", "live.be", "live.ca", "live.cl", "live.cn", "live.co.uk", "live.co.za", "live.com",
        "live.com.ar", "live.com.au", "live.com.mx", "live.com.pt", "live.com.sg", "live.de",
        "live.dk", "live.es", "live.eu", "live.fi", "live.fr", "live.ie", "live.in", "live.it",
        "live.jp", "live.nl", "live.no", "live.ru", "live.se",
        "msn.com", "passport.com", "windowslive.com",
        "outlook.at", "outlook.be", "outlook.cl", "outlook.co.id", "outlook.co.il", "outlook.co.nz",
        "outlook.co.th", "outlook.com", "outlook.com.ar", "outlook.com.au", "outlook.com.br",
        "outlook.com.gr", "outlook.com.pe", "outlook.com.tr", "outlook.com.vn", "outlook.cz",
        "outlook.de", "outlook.dk", "outlook.es", "outlook.fr", "outlook.hu", "outlook.id",
        "outlook.ie", "outlook.in", "outlook.it", "outlook.jp", "outlook.kr", "outlook.lv",
        "outlook.my", "outlook.ph", "outlook.pt", "outlook.sa", "outlook.sg", "outlook.sk",
    ],
    ..ANYBODY
};

const ICLOUD: Provider = Provider {
    domains: &["icloud.com", "mac.com", "me.com"],
    ..ANYBODY
};

const PROTON: Provider = Provider {
    ignored: b".-_",
    domain: Some("proton.me"),
    domains: &["pm.me", "proton.me", "protonmail.ch", "protonmail.com"],
    ..ANYBODY
};

#[rustfmt::skip]
const FASTMAIL: Provider = Provider {
    subdomains: true,
    domains: &[
        "fastmail.cn", "fastmail.co.uk", "fastmail.com", "fastmail.com.au", "fastmail.de",
        "fastmail.es", "fastmail.fm", "fastmail.fr", "fastmail.im", "fastmail.in", "fastmail.jp",
        "fastmail.mx", "fastmail.net", "fastmail.nl", "fastmail.org", "fastmail.se", "fastmail.to",
        "fastmail.tw", "fastmail.uk", "fastmail.us", "sent.com",
    ],
    ..ANYBODY
};

#[rustfmt::skip]
const YANDEX: Provider = Provider {
    tag: None,
    domain: Some("yandex.ru"),
    domains: &[
        "ya.ru", "yandex.az", "yandex.by", "yandex.co.il", "yandex.com", "yandex.com.am",
        "yandex.com.ge", "yandex.com.tr", "yandex.ee", "yandex.fi", "yandex.fr", "yandex.kg",
        "yandex.kz", "yandex.lt", "yandex.lv", "yandex.md", "yandex.pl", "yandex.ru", "yandex.tj",
        "yandex.tm", "yandex.ua", "yandex.uz",
    ],
    ..ANYBODY
};

static PROVIDERS: [Provider; 6] = [GMAIL, OUTLOOK, ICLOUD, PROTON, FASTMAIL, YANDEX];

pub(super) struct Mailbox<'a> {
    local: &'a [u8],
    domain: &'a [u8],
    rule: &'static Provider,
    plus: bool,
}

/// Returns whether no rule changes this address; rarely, false without need. Called for each address.
#[inline]
pub fn leave_alone(local: &[u8], domain: &[u8], rules: Rules) -> bool {
    let tail = tail(domain);
    !(rules.providers && TAILS[tail / 64] & 1 << (tail % 64) != 0
        || rules.plus && local.contains(&b'+'))
}

/// Returns the mailbox for a local part (unquoted, lower case) and a domain in canonical form, if a
/// rule changes them.
pub(super) fn mailbox<'a>(local: &'a [u8], domain: &'a [u8], rules: Rules) -> Option<Mailbox<'a>> {
    if leave_alone(local, domain, rules) {
        return None;
    }
    let plus = rules.plus;
    let of = |local, domain, rule| Mailbox {
        local,
        domain,
        rule,
        plus,
    };
    let known = rules.providers.then(|| provider(domain)).flatten();
    if known.is_none()
        && rules.providers
        && let Some((user, parent, rule)) = user_domain(domain)
    {
        return Some(of(user, parent, rule));
    }
    let rule = known.or_else(|| plus.then_some(&ANYBODY))?;
    let mailbox = of(local, domain, rule);
    let changes = mailbox.domain() != domain
        || mailbox.cut().len() != local.len()
        || !rule.ignored.is_empty() && local.iter().any(|byte| rule.ignored.contains(byte));
    changes.then_some(mailbox)
}

/// Divides `user.domain`, if its provider delivers mail for this domain to the user.
fn user_domain(domain: &[u8]) -> Option<(&[u8], &[u8], &'static Provider)> {
    let dot = domain.iter().position(|&byte| byte == b'.')?;
    let (user, parent) = (&domain[..dot], &domain[dot + 1..]);
    let rule = provider(parent).filter(|rule| rule.subdomains)?;
    let is_name = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
    (!user.is_empty() && user.iter().all(is_name)).then_some((user, parent, rule))
}

impl Mailbox<'_> {
    fn cut(&self) -> &[u8] {
        let local = match self.rule.tag {
            Some(tag) => cut(self.local, tag),
            None => self.local,
        };
        if self.plus { cut(local, b'+') } else { local }
    }

    /// Appends its local part.
    ///
    /// No provider with meaningless bytes has mailboxes beyond ASCII. So in such a local part all
    /// bytes stay: without the bytes between them, a letter and an accent could become another text.
    pub(super) fn write_local(&self, out: &mut Vec<u8>) {
        let cut = self.cut();
        let ignored = if cut.is_ascii() {
            self.rule.ignored
        } else {
            b""
        };
        let start = out.len();
        out.extend(cut.iter().filter(|byte| !ignored.contains(byte)));
        if out.len() == start {
            out.extend_from_slice(cut);
        }
    }

    pub(super) fn domain(&self) -> &[u8] {
        self.rule.domain.map_or(self.domain, str::as_bytes)
    }
}

/// Returns the part before the first `tag`, or everything if that part is empty.
fn cut(local: &[u8], tag: u8) -> &[u8] {
    match local.iter().position(|&byte| byte == tag) {
        Some(at) if at > 0 => &local[..at],
        _ => local,
    }
}

/// Slots of the hash table that finds the provider of a domain. There are many more slots than
/// domains, so that nearly every other domain finds an empty slot.
const SLOTS: usize = 4096;

/// For each slot of [`slot`]: 0, or the provider (four bits) and the index of its domain plus one
/// (twelve bits).
static TABLE: [u16; SLOTS] = table();

#[allow(
    clippy::cast_possible_truncation,
    reason = "counted: 6 providers, under 200 domains"
)]
const fn table() -> [u16; SLOTS] {
    let mut table = [0; SLOTS];
    let mut provider = 0;
    while provider < PROVIDERS.len() {
        let domains = PROVIDERS[provider].domains;
        let mut number = 0;
        while number < domains.len() {
            let mut at = slot(domains[number].as_bytes()).expect("four bytes or more");
            while table[at] != 0 {
                at = (at + 1) % SLOTS;
            }
            table[at] = (number as u16 + 1) << 4 | provider as u16;
            number += 1;
        }
        provider += 1;
    }
    table
}

/// Returns the slot where a domain is looked up first, from its first and last bytes and its
/// length. No domain in the table is shorter than four bytes.
#[inline]
const fn slot(domain: &[u8]) -> Option<usize> {
    let (Some(first), Some(last)) = (domain.first_chunk::<4>(), domain.last_chunk::<4>()) else {
        return None;
    };
    let ends = (u32::from_le_bytes(*first) as u64) << 32 | u32::from_le_bytes(*last) as u64;
    let mixed = (ends ^ domain.len() as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    Some((mixed >> 52) as usize % SLOTS)
}

/// Bits of a hash that tells nearly every other domain from those of the providers: with 200 domains,
/// one other domain in eighty has the hash of one of them.
const TAIL_BITS: u32 = 14;

/// One bit for each [`tail`] of some domains.
pub type Tails = [u64; 1 << TAIL_BITS >> 6];

/// The tails of all domains of providers.
pub static TAILS: Tails = tails();

const fn tails() -> Tails {
    let mut tails = [0; 1 << TAIL_BITS >> 6];
    let mut provider = 0;
    while provider < PROVIDERS.len() {
        let Provider {
            domains,
            subdomains,
            ..
        } = &PROVIDERS[provider];
        let mut number = 0;
        while number < domains.len() {
            let domain = domains[number].as_bytes();
            assert!(
                !*subdomains || domain.len() >= 8,
                "a longer domain has another tail"
            );
            let tail = tail(domain);
            tails[tail / 64] |= 1 << (tail % 64);
            number += 1;
        }
        provider += 1;
    }
    tails
}

/// Returns a hash of 14 bits of the last eight bytes of a domain, or of all its bytes if
/// it is shorter.
#[inline]
#[allow(clippy::cast_possible_truncation, reason = "a number of 14 bits")]
pub const fn tail(domain: &[u8]) -> usize {
    let end = match domain.last_chunk::<8>() {
        Some(end) => u64::from_be_bytes(*end),
        None => {
            let (mut end, mut at) = (0, 0);
            while at < domain.len() {
                end = end << 8 | domain[at] as u64;
                at += 1;
            }
            end
        }
    };
    (end.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> (u64::BITS - TAIL_BITS)) as usize
}

/// Returns whether a domain in canonical form has a provider with rules of its own.
pub fn is_provider(domain: &[u8]) -> bool {
    provider(domain).is_some()
}

/// Returns the provider of a domain in canonical form.
fn provider(domain: &[u8]) -> Option<&'static Provider> {
    let mut at = slot(domain)?;
    loop {
        let entry = usize::from(TABLE[at]);
        let provider = PROVIDERS.get(entry & 15)?;
        let name = provider.domains.get((entry >> 4).checked_sub(1)?)?;
        if name.as_bytes() == domain {
            return Some(provider);
        }
        at = (at + 1) % SLOTS;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_domain_finds_its_own_provider() {
        for provider in &PROVIDERS {
            for domain in provider.domains {
                let found = super::provider(domain.as_bytes());
                assert_eq!(found, Some(provider), "{domain}");
                let under = format!("user.{domain}");
                let left = |domain: &str| leave_alone(b"a", domain.as_bytes(), Rules::default());
                assert!(!left(domain), "{domain}");
                assert!(!provider.subdomains || !left(&under), "{under}");
            }
        }
        for other in "|a|com|gmail.co|gmail.com.example|xgmail.com|yahoo.com".split('|') {
            assert_eq!(super::provider(other.as_bytes()), None, "{other}");
        }
    }
}
