//! Stores the addresses of one message within limits.
//!
//! One text buffer holds all addresses; a record points into it. A new address is compared with the
//! first [`COMPARED`], more than any real message has. After that, an address may be there several
//! times, which costs work within the message's budget, and changes nothing.
//!
//! Pushed addresses can be taken back ([`Out::rollback`]), last first: the words of a name count
//! until an angle address follows in the same segment.

use std::collections::HashMap;

use super::identity::{Identity, Sender, Strength};

/// Most addresses kept of one identity; real messages name fewer than ten. Each identity has its own
/// limit; otherwise a `Reply-To` with thousands of addresses would hide the `From` after it. With
/// addresses of 8 bytes, this many use up all bytes of a message that are looked up
/// (`policy::Budget`).
pub const MAX_ADDRESSES: usize = 4096;

/// Most bytes of one address. An SMTP address has at most 320 (RFC 5321 section 4.5.3.1); a header
/// can hold anything.
pub const MAX_ADDRESS_BYTES: usize = 128 * 1024;

/// Most bytes of all addresses of one identity together: twice the bytes of a message that are
/// looked up (`policy::Budget`), so that no address is dropped that could be looked up. With the
/// number of addresses this limits the memory of a connection: about a mebibyte for all identities.
pub const MAX_TEXT_BYTES: usize = 64 * 1024;

/// Memory kept from message to message.
const TEXT_BYTES_KEPT: usize = 1024;
const FOUND_KEPT: usize = 16;

const COMPARED: usize = 32;

/// The addresses of one identity.
pub(super) type Known = HashMap<Box<[u8]>, Strength>;

#[derive(Debug)]
struct Found {
    start: u32,
    end: u32,
    identity: Identity,
    strength: Strength,
}

#[derive(Clone, Copy, Debug, Default)]
struct Kept {
    addresses: usize,
    bytes: usize,
}

#[derive(Debug, Default)]
pub(super) struct Store {
    text: Vec<u8>,
    found: Vec<Found>,
    kept: [Kept; Identity::ALL.len()],
    pub(super) truncated: bool,
}

/// An earlier state of the store, for a rollback; by default the first.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Mark {
    found: usize,
    truncated: bool,
}

impl Store {
    pub(super) fn clear(&mut self) {
        self.text.clear();
        self.text.shrink_to(TEXT_BYTES_KEPT);
        self.found.clear();
        self.found.shrink_to(FOUND_KEPT);
        self.kept = Default::default();
        self.truncated = false;
    }

    pub(super) fn get(&self, number: usize) -> Option<Sender<'_>> {
        self.found.get(number).map(|found| self.sender(found))
    }

    pub(super) fn iter(&self) -> impl ExactSizeIterator<Item = Sender<'_>> {
        self.found.iter().map(|found| self.sender(found))
    }

    pub(super) fn known(&self, identity: Identity) -> Known {
        let mut known = Known::new();
        for sender in self.iter().filter(|sender| sender.identity == identity) {
            let strength = known
                .entry(sender.address.into())
                .or_insert(sender.strength);
            if sender.strength == Strength::Strong {
                *strength = Strength::Strong;
            }
        }
        known
    }

    fn sender(&self, found: &Found) -> Sender<'_> {
        Sender {
            identity: found.identity,
            address: self.bytes(found),
            strength: found.strength,
        }
    }

    fn bytes(&self, found: &Found) -> &[u8] {
        &self.text[found.start as usize..found.end as usize]
    }

    fn push(&mut self, identity: Identity, strength: Strength, address: &[u8]) {
        let is_same = |found: &Found| {
            found.identity == identity && found.strength == strength && self.bytes(found) == address
        };
        if self.found.iter().take(COMPARED).any(is_same) {
            return;
        }
        let kept = &mut self.kept[identity as usize];
        if kept.addresses >= MAX_ADDRESSES
            || address.len() > MAX_ADDRESS_BYTES
            || kept.bytes + address.len() > MAX_TEXT_BYTES
        {
            self.truncated = true;
            return;
        }
        kept.addresses += 1;
        kept.bytes += address.len();
        let start = small(self.text.len());
        self.text.extend_from_slice(address);
        self.found.push(Found {
            start,
            end: small(self.text.len()),
            identity,
            strength,
        });
    }
}

/// Converts an index or offset, which is below [`MAX_TEXT_BYTES`] times the number of identities.
fn small(number: usize) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

#[derive(Debug)]
pub(super) struct Out<'s> {
    store: &'s mut Store,
    identity: Identity,
    strength: Strength,
    pushed: u64,
    known: Option<&'s Known>,
}

impl<'s> Out<'s> {
    /// For a further reading of a text, `known` are the addresses that are not stored again.
    pub(super) fn new(store: &'s mut Store, identity: Identity, known: Option<&'s Known>) -> Self {
        Self {
            store,
            identity,
            strength: Strength::Strong,
            pushed: 0,
            known,
        }
    }

    /// Returns whether people are shown this field; the envelope is read by servers only.
    pub(super) fn is_shown(&self) -> bool {
        self.identity != Identity::MailFrom
    }

    pub(super) fn set_strength(&mut self, strength: Strength) {
        self.strength = strength;
    }

    pub(super) fn strength(&self) -> Strength {
        self.strength
    }

    pub(super) fn push(&mut self, address: &[u8]) {
        self.pushed += 1;
        let known = (self.known).and_then(|known| known.get(address));
        if known.is_some_and(|&known| known == Strength::Strong || known == self.strength) {
            return;
        }
        self.store.push(self.identity, self.strength, address);
    }

    /// Records an address that is too long to keep.
    pub(super) fn overflow(&mut self) {
        self.pushed += 1;
        self.store.truncated = true;
    }

    /// Returns how often [`Out::push`] was called, including duplicates and addresses not kept.
    pub(super) fn pushed(&self) -> u64 {
        self.pushed
    }

    pub(super) fn mark(&self) -> (Mark, u64) {
        let mark = Mark {
            found: self.store.found.len(),
            truncated: self.store.truncated,
        };
        (mark, self.pushed)
    }

    /// Iterates over the addresses of this identity that were kept since the mark.
    pub(super) fn since(&self, mark: Mark) -> impl Iterator<Item = &[u8]> {
        let found = self.store.found.get(mark.found..).unwrap_or_default();
        let found = found.iter().filter(|found| found.identity == self.identity);
        found.map(|found| self.store.bytes(found))
    }

    pub(super) fn rollback(&mut self, (mark, pushed): (Mark, u64)) {
        let store = &mut *self.store;
        while store.found.len() > mark.found {
            let Some(last) = store.found.pop() else { break };
            let kept = &mut store.kept[last.identity as usize];
            kept.addresses -= 1;
            kept.bytes -= (last.end - last.start) as usize;
            store.text.truncate(last.start as usize);
        }
        store.truncated = mark.truncated;
        self.pushed = pushed;
    }
}
