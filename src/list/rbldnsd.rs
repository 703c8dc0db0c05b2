//! Data of rbldnsd, type `dnset`: `.name` is the name and all below it.
//!
//! ```text
//!   :127.0.0.2:listed          the answer for what follows      setting
//!   .bad.example               bad.example and all below it
//!   bad2.example :3:why        this name alone, an own answer
//!   *.bad3.example             all below it
//!   !good.example              an exception                     allowance
//! ```

use super::out::Out;
use super::words::Words;
use super::{Skip, plain};

/// Reads one line.
pub(super) fn read(line: &[u8], out: &mut Out<'_>) {
    let line = line.strip_prefix(plain::BOM).unwrap_or(line).trim_ascii();
    match line {
        [] | [b'#' | b';', ..] => out.skip(plain::nothing(line)),
        [b':' | b'$', ..] => out.skip(Skip::Setting),
        [b'!', ..] => out.skip(Skip::Allow),
        _ => match Words(line).next().unwrap_or_default() {
            [b'.', name @ ..] => out.tree(name),
            name => out.domain(name),
        },
    }
}
