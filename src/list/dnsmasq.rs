//! Configuration of dnsmasq: `address=/bad.example/`, `server=/bad.example/`.
//!
//! A domain that gets no address, a null one, or no server is blocked, with all below
//! it. One that gets a real address or a server of its own is a matter of somebody's
//! network.

use super::hosts::is_nowhere;
use super::out::{Out, before_comment};
use super::{Skip, plain};

/// Reads one line.
pub(super) fn read(line: &[u8], out: &mut Out<'_>) {
    let line = line.strip_prefix(plain::BOM).unwrap_or(line).trim_ascii();
    let text = before_comment(line);
    if text.is_empty() {
        return out.skip(plain::nothing(line));
    }
    let Some((option, value)) = split(text, b'=') else {
        return out.skip(Skip::Setting);
    };
    let option = option.trim_ascii();
    let is_server = matches!(option, b"server" | b"local");
    let value = value.trim_ascii();
    let Some(names) = value.strip_prefix(b"/") else {
        return out.skip(Skip::Setting);
    };
    if !is_server && option != b"address" {
        return out.skip(Skip::Setting);
    }
    let Some(slash) = memchr::memrchr(b'/', names) else {
        return out.skip(Skip::Setting);
    };
    let (names, target) = names.split_at(slash);
    match target.get(1..).unwrap_or_default().trim_ascii() {
        b"" => {}
        // The standard servers: an exception from a wider line.
        b"#" if is_server => return out.skip(Skip::Allow),
        b"#" => {}
        target if !is_server && is_nowhere(target) == Some(true) => {}
        _ => return out.skip(Skip::OtherAction),
    }
    for name in names.split(|&b| b == b'/') {
        // A leading dot or star changes nothing, says the manual.
        let name = name.strip_prefix(b"*").unwrap_or(name);
        out.tree(name.strip_prefix(b".").unwrap_or(name));
    }
}

fn split(text: &[u8], sign: u8) -> Option<(&[u8], &[u8])> {
    let at = memchr::memchr(sign, text)?;
    Some((text.get(..at)?, text.get(at + 1..)?))
}
