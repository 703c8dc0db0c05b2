//! Rules that a later line may cancel, as in lists of ad blockers and of SpamAssassin.

use std::collections::HashSet;

use super::Out;
use crate::list::row::{Refusal, Skip};

/// Maximum number of bytes held: texts, and what cancels them.
const MAX_BYTES: usize = 64 << 20;

#[derive(Debug, Default)]
pub(crate) struct Held {
    /// Each with its line.
    rules: Vec<(u64, Box<[u8]>)>,
    /// In lower case.
    cancelled: HashSet<Box<[u8]>>,
    bytes: usize,
}

impl Held {
    pub(crate) fn add(&mut self, rule: &[u8], out: &mut Out<'_>) {
        if self.has_room(rule, out) {
            self.rules.push((out.line, rule.into()));
        }
    }

    /// Cancels a rule, wherever it stands.
    pub(crate) fn cancel(&mut self, rule: &[u8], out: &mut Out<'_>) {
        if self.has_room(rule, out) {
            self.cancelled.insert(rule.to_ascii_lowercase().into());
        }
    }

    pub(crate) fn restore(&mut self, rule: &[u8]) {
        if !self.cancelled.is_empty() {
            self.cancelled.remove(rule.to_ascii_lowercase().as_slice());
        }
    }

    /// Returns whether another rule can be held; refuses the list if not.
    fn has_room(&mut self, rule: &[u8], out: &mut Out<'_>) -> bool {
        let had_room = self.bytes <= MAX_BYTES;
        self.bytes += rule.len() + size_of::<(u64, Box<[u8]>)>();
        let has_room = self.bytes <= MAX_BYTES;
        if had_room && !has_room {
            out.refuse(Refusal::TooManyRules);
        }
        has_room
    }

    /// Hands out each rule that has none of its `names` cancelled, at its line; skips the others.
    pub(crate) fn finish(
        &mut self,
        out: &mut Out<'_>,
        names: impl Fn(&[u8]) -> Vec<&[u8]>,
        mut each: impl FnMut(&[u8], &mut Out<'_>),
    ) {
        for (line, rule) in &self.rules {
            let mut out = Out::new(*line, rule, &mut *out.sink);
            let is_cancelled = |name: &&[u8]| {
                self.cancelled
                    .contains(name.to_ascii_lowercase().as_slice())
            };
            match !self.cancelled.is_empty() && names(rule).iter().any(is_cancelled) {
                true => out.skip(Skip::Allow),
                false => each(rule, &mut out),
            }
        }
        *self = Self::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::list::row::Row;

    #[test]
    fn what_is_held_is_bounded() {
        let mut held = Held::default();
        let mut refused = 0;
        let mut sink =
            |_: u64, row: Row<'_>| refused += u32::from(matches!(row, Row::Refused { .. }));
        let mut out = Out::new(1, b"", &mut sink);
        for number in 0..2_500_u32 {
            held.add(&[b'x'; 50_000], &mut out);
            held.cancel(&number.to_le_bytes().repeat(10_000), &mut out);
        }
        let rules = held.rules.iter().map(|(_, rule)| rule.len());
        assert!(rules.sum::<usize>() <= MAX_BYTES);
        held.finish(&mut out, |rule| vec![rule], |_, _| {});
        assert_eq!(refused, 1);
    }
}
