//! Senders that a mail server has rewritten so that it can recognize their bounces: BATV, SRS.
//!
//! | written | by | source |
//! |---|---|---|
//! | `prvs=tag=user` | BATV; Exim since 4.63, Proofpoint, Postfix milters | draft-levine-smtp-batv-01 |
//! | `prvs=user/tag` | BATV before that draft; Exim 4.53 to 4.62 | Exim's history, "Adapt PRVS BATV scheme address format to latest draft version" |
//! | `prvs=user=tag` | Cisco (IronPort) Bounce Verification | Cisco AsyncOS user guide, "Overview: Tagging and Bounce Verification" |
//! | `btv1==tag==user` | Barracuda | archives of public lists |
//! | `msprvs1=tag=user` | SparkPost | public reports of bounces |
//! | `SRS0=hash=time=domain=user`, `SRS1=hash=relay==hash=time=domain=user` | forwarders | Shevek, "The Sender Rewriting Scheme" |
//!
//! BATV is always undone: the tag changes with every message, and the domain stays. SRS is undone
//! only on request, because the forwarder is a sender too.

use std::ops::Range;

/// A tag before the user, in lower case: how it begins, its bytes, and how it ends.
type Before = (&'static [u8], fn(u8) -> bool, &'static [u8]);

const BEFORE: [Before; 3] = [
    (b"prvs=", |byte| byte.is_ascii_hexdigit(), b"="),
    (b"btv1==", |byte| byte.is_ascii_hexdigit(), b"=="),
    (
        b"msprvs1=",
        |byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'),
        b"=",
    ),
];

/// Returns the range of the user in a local part (lower case, unquoted) that BATV has signed; all
/// of it if it is unsigned. Removes the tags of several servers one after the other.
pub(super) fn user(local: &[u8]) -> Range<usize> {
    let mut user = 0..local.len();
    loop {
        let rest = &local[user.clone()];
        if let Some(inner) = tag_behind(rest) {
            user = user.start + inner.start..user.start + inner.end;
        } else if let Some(tag) = tag_before(rest) {
            user.start += tag;
        } else {
            return user;
        }
    }
}

fn tag_before(local: &[u8]) -> Option<usize> {
    BEFORE.iter().find_map(|(begin, is_digit, end)| {
        let rest = local.strip_prefix(*begin)?;
        let digits = rest.iter().take_while(|byte| is_digit(**byte)).count();
        let user = rest[digits..].strip_prefix(*end)?;
        (digits > 0 && !user.is_empty()).then(|| local.len() - user.len())
    })
}

/// Returns the range of the user in `prvs=user/tag` and `prvs=user=tag`. The tag must have ten
/// characters, and the user must not look like a tag, because then this could be the other form.
fn tag_behind(local: &[u8]) -> Option<Range<usize>> {
    const TAG_BYTES: usize = 10;
    let rest = local.strip_prefix(b"prvs=")?;
    let (user, tag) = rest.split_at_checked(rest.len().checked_sub(TAG_BYTES + 1)?)?;
    let (divider, tag) = tag.split_first()?;
    // One digit for the key and three for the day, then three bytes of a hash; Cisco's guide
    // shows three digits and then any letters.
    let is_tag = match divider {
        b'/' => {
            tag[..4].iter().all(u8::is_ascii_digit) && tag[4..].iter().all(u8::is_ascii_hexdigit)
        }
        b'=' => {
            tag[..3].iter().all(u8::is_ascii_digit)
                && tag[3..].iter().all(u8::is_ascii_alphanumeric)
        }
        _ => false,
    };
    let is_other = user.is_empty()
        || user.contains(&b'=')
        || user.len() == TAG_BYTES && user.iter().all(u8::is_ascii_hexdigit);
    let start = local.len() - rest.len();
    (is_tag && !is_other).then(|| start..start + user.len())
}

/// Returns the local part and the domain of the innermost sender in an SRS address, given its local
/// part in lower case: a forwarder that does not know SRS1 wraps an address again.
pub(super) fn original(local: &[u8]) -> Option<(&[u8], &[u8])> {
    let mut found = unwrapped(local)?;
    while let Some(inner) = unwrapped(&found.0[user(found.0)]) {
        found = inner;
    }
    Some(found)
}

/// Removes one SRS wrapping. After `SRS0`, and before the inner hash, the separator may be `=`, `+`
/// or `-`.
fn unwrapped(local: &[u8]) -> Option<(&[u8], &[u8])> {
    fn separated(rest: &[u8]) -> Option<&[u8]> {
        rest.split_first()
            .filter(|(separator, _)| b"=+-".contains(separator))
            .map(|(_, rest)| rest)
    }
    let (version, rest) = local.split_at_checked(4)?;
    let first = match version {
        b"srs0" => separated(rest)?,
        b"srs1" => separated(separated(rest)?.splitn(3, |&byte| byte == b'=').nth(2)?)?,
        _ => return None,
    };
    let mut fields = first.splitn(4, |&byte| byte == b'=').skip(2);
    let (domain, local) = (fields.next()?, fields.next()?);
    Some((local, domain))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_wrappings_come_off_in_one_pass() {
        let wrapped = format!("{}u", "srs0=h=t=d.example=prvs=0a=".repeat(20_000));
        let (local, domain) = original(wrapped.as_bytes()).expect("is wrapped");
        assert_eq!((local, domain), (&b"prvs=0a=u"[..], &b"d.example"[..]));
        let behind = format!("{}u=1234567890", "prvs=0=".repeat(20_000));
        assert_eq!(user(behind.as_bytes()), 140_000..140_012);
    }
}
