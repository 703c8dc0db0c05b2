//! Bundles of STIX 2.1: addresses are objects of their own. A message refers to them by their
//! identifiers, and says which of them sent it and which received it.
//!
//! ```text
//!   {"type": "email-addr", "id": "email-addr--1", "value": "spam@bad.example"}
//!   {"type": "email-message", "from_ref": "email-addr--1", "to_refs": ["email-addr--2"]}
//! ```
//!
//! A recipient that sent nothing is not a sender. Objects come in any order, so addresses are held
//! until the end of the document. STIX 2.1, sections 6.5 and 6.6.

use std::collections::HashSet;

use super::super::held::Held;
use super::super::out::Out;
use crate::list::row::reject_reason::RejectReason;
use crate::list::row::{RawEntry, Skip};

/// Maximum number of identifiers kept; addresses beyond it are rejected.
const MAX_IDS: usize = 1 << 18;

/// Maximum length of an identifier in bytes: a type and a UUID.
const MAX_ID_BYTES: usize = 128;

/// Addresses, and which of them received or sent.
#[derive(Debug, Default)]
pub(super) struct Addresses {
    ids: Vec<Box<[u8]>>,
    held: Held,
    recipients: HashSet<Box<[u8]>>,
    senders: HashSet<Box<[u8]>>,
    is_full: bool,
}

impl Addresses {
    /// Holds an address object.
    pub(super) fn add(&mut self, id: &[u8], raw: RawEntry<'_>, out: &mut Out<'_>) {
        if self.held.is_full() || self.ids.len() >= MAX_IDS || id.len() > MAX_ID_BYTES {
            return out.reject(RejectReason::LateAllowance, raw.text);
        }
        self.ids.push(id.into());
        self.held.add(raw, out.line());
    }

    /// Notes that the address with this identifier received a message.
    pub(super) fn receives(&mut self, id: &[u8]) {
        self.is_full |= !insert(&mut self.recipients, id);
    }

    /// Notes that the address with this identifier sent a message.
    pub(super) fn sends(&mut self, id: &[u8]) {
        self.is_full |= !insert(&mut self.senders, id);
    }

    /// Lists the addresses that sent something, or that no message refers to.
    pub(super) fn release(&mut self, out: &mut Out<'_>) {
        if std::mem::take(&mut self.is_full) {
            out.reject(RejectReason::LateAllowance, b"");
        }
        let mut ids = self.ids.drain(..);
        let (recipients, senders) = (&self.recipients, &self.senders);
        self.held.drain(0, |raw, line| {
            let id = ids.next().unwrap_or_default();
            let mut out = out.at(line, raw.text);
            if recipients.contains(&id) && !senders.contains(&id) {
                out.skip(Skip::NotSender);
            } else {
                out.raw_entry(raw, crate::list::row::entry::Wildcards::Star);
            }
        });
        drop(ids);
        self.recipients.clear();
        self.senders.clear();
    }
}

/// Adds an identifier; returns whether there was room.
fn insert(ids: &mut HashSet<Box<[u8]>>, id: &[u8]) -> bool {
    let has_room = ids.len() < MAX_IDS && id.len() <= MAX_ID_BYTES;
    if has_room {
        ids.insert(id.into());
    }
    has_room
}
