//! Rules that a later line may cancel, as in lists of ad blockers and of SpamAssassin.

use std::collections::HashSet;

use super::out::Out;
use crate::list::row::Skip;
use crate::list::row::refusal::Refusal;

/// Maximum number of bytes held: texts, and what cancels them.
const MAX_BYTES: usize = 64 << 20;

/// Rules in their order.
#[derive(Debug, Default)]
pub(super) struct Held {
    text: Vec<u8>,
    /// Where each rule ends in the text, and its line.
    rules: Vec<(usize, u64)>,
    /// In lower case.
    cancelled: HashSet<Box<[u8]>>,
    cancelled_bytes: usize,
    is_full: bool,
}

impl Held {
    /// Adds a rule.
    pub(super) fn add(&mut self, rule: &[u8], out: &mut Out<'_>) {
        if self.has_room(out) {
            self.text.extend_from_slice(rule);
            self.rules.push((self.text.len(), out.line()));
        }
    }

    /// Cancels a rule, wherever it stands.
    pub(super) fn cancel(&mut self, rule: &[u8], out: &mut Out<'_>) {
        if self.has_room(out) {
            self.cancelled_bytes += rule.len() + size_of::<Box<[u8]>>();
            self.cancelled.insert(rule.to_ascii_lowercase().into());
        }
    }

    /// Cancels a rule no longer.
    pub(super) fn restore(&mut self, rule: &[u8]) {
        if !self.cancelled.is_empty() {
            self.cancelled.remove(rule.to_ascii_lowercase().as_slice());
        }
    }

    /// Returns whether another rule can be held; refuses the list if not.
    fn has_room(&mut self, out: &mut Out<'_>) -> bool {
        let rules = self.rules.len() * size_of::<(usize, u64)>();
        if !self.is_full && self.text.len() + rules + self.cancelled_bytes > MAX_BYTES {
            self.is_full = true;
            out.refuse(Refusal::TooManyRules);
        }
        !self.is_full
    }

    /// Hands out each rule that has none of its `names` cancelled, at its line; skips the others.
    pub(super) fn finish(
        &mut self,
        out: &mut Out<'_>,
        names: impl Fn(&[u8]) -> [&[u8]; 2],
        mut each: impl FnMut(&[u8], &mut Out<'_>),
    ) {
        let mut start = 0;
        for &(end, line) in &self.rules {
            let rule = self.text.get(start..end).unwrap_or_default();
            let mut out = out.at(line, rule);
            let is_cancelled = |name: &&[u8]| {
                self.cancelled
                    .contains(name.to_ascii_lowercase().as_slice())
            };
            match !self.cancelled.is_empty() && names(rule).iter().any(is_cancelled) {
                true => out.skip(Skip::Allow),
                false => each(rule, &mut out),
            }
            start = end;
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
        assert!(held.text.len() + held.cancelled_bytes <= MAX_BYTES + 100_000);
        held.finish(&mut out, |rule| [rule, rule], |_, _| {});
        assert_eq!(refused, 1);
    }
}
