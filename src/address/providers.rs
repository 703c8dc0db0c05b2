//! What mail providers document as one mailbox.
//!
//! A row says which spellings before the `@` reach the same mailbox, and under which
//! domain that mailbox is kept. Only what a provider documents for all its users is here.

/// What a provider does with a local part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Provider {
    /// The domain its mailboxes are compared under; `None`: the one that was written.
    domain: Option<&'static str>,
    /// The tag starts at the first of this byte.
    tag: u8,
    /// Bytes of the local part that mean nothing.
    ignored: &'static [u8],
}

const GMAIL: Provider = Provider {
    domain: Some("gmail.com"),
    tag: b'+',
    ignored: b".",
};
const PLUS: Provider = Provider {
    domain: None,
    tag: b'+',
    ignored: b"",
};
const YAHOO: Provider = Provider {
    domain: None,
    tag: b'-',
    ignored: b"",
};

/// The provider of a domain in canonical form.
fn provider(domain: &[u8]) -> Option<Provider> {
    Some(match domain {
        b"gmail.com" | b"googlemail.com" => GMAIL,
        b"outlook.com" | b"hotmail.com" | b"live.com" | b"msn.com" => PLUS,
        b"icloud.com" | b"me.com" | b"mac.com" => PLUS,
        b"proton.me" | b"protonmail.com" | b"pm.me" => PLUS,
        b"fastmail.com" | b"fastmail.fm" => PLUS,
        b"yahoo.com" | b"ymail.com" | b"rocketmail.com" => YAHOO,
        _ => return None,
    })
}

/// Brings a local part (unquoted, folded) and its domain to the mailbox that they
/// reach. False, and nothing changed, if they are it already.
pub(super) fn map(local: &mut Vec<u8>, domain: &mut Vec<u8>, rules: super::Rules) -> bool {
    let before = (local.len(), domain.len());
    if rules.providers
        && let Some(dot) = domain.iter().position(|&byte| byte == b'.')
        && domain.get(dot..) == Some(b".fastmail.com")
        && dot > 0
    {
        let parent = domain.split_off(dot + 1);
        domain.truncate(dot);
        std::mem::swap(local, domain);
        *domain = parent;
    }
    let known = if rules.providers {
        provider(domain)
    } else {
        None
    };
    let known = known.or(rules.plus.then_some(PLUS));
    let Some(provider) = known else { return false };
    cut(local, provider.tag);
    if rules.plus {
        cut(local, b'+');
    }
    if !provider.ignored.is_empty() {
        local.retain(|byte| !provider.ignored.contains(byte));
    }
    if let Some(name) = provider.domain {
        domain.clear();
        domain.extend_from_slice(name.as_bytes());
    }
    before != (local.len(), domain.len())
}

/// Cuts at the first `tag`, unless nothing would be left.
fn cut(local: &mut Vec<u8>, tag: u8) {
    if let Some(at) = local.iter().position(|&byte| byte == tag)
        && at > 0
    {
        local.truncate(at);
    }
}
