//! The state of the client and of the current message.

use std::fmt::Write as _;
use std::net::IpAddr;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use super::progress::Progress;
use super::trial::Trial;
use super::workspace::Workspace;
use crate::address::escaped;
use crate::milter::{Client, Edit, Family, Macros};
use crate::policy::{Hit, ListSets, Reason};
use crate::sender::Identity;
use crate::snapshot::Snapshot;

/// The client of a connection.
#[derive(Default)]
pub(super) struct Origin {
    pub(super) address: Option<IpAddr>,
    pub(super) text: String,
    pub(super) is_local: bool,
}

impl Origin {
    /// Replaces the previous client.
    pub(super) fn read(&mut self, client: &Client<'_>, macros: &Macros) {
        self.address = client.address.map(|address| address.to_canonical());
        self.text.clear();
        match self.address {
            Some(address) => {
                let _ = write!(self.text, "{address}");
            }
            None => {
                let _ = write!(self.text, "{}", escaped(client.host));
            }
        }
        self.is_local = match client.family {
            Family::Unix => true,
            // Postfix reports local mail that did not come by SMTP with port 0.
            Family::Inet => {
                client.port == 0 && self.address.is_some_and(|address| address.is_loopback())
            }
            // Sendmail on standard input (-bs) reports only this name; for clients on a network it
            // also reports an address. Postfix reports no address for a client whose proxy hides it
            // (XCLIENT), and that client chooses its name itself with its PTR record.
            Family::Unknown => {
                let postfix = macros
                    .get("v")
                    .is_some_and(|version| version.starts_with(b"Postfix"));
                !postfix && client.host.eq_ignore_ascii_case(b"localhost")
            }
        };
    }
}

/// The state of the current message.
#[derive(Default)]
pub(super) struct Message {
    /// The snapshot with which it began.
    pub(super) snapshot: Option<Weak<Snapshot>>,
    /// Whether the snapshot was replaced after recipients were accepted, so that the lists
    /// affecting them are unknown.
    pub(super) overtaken: bool,
    pub(super) today: u16,
    /// Whether the client is authenticated.
    pub(super) is_authenticated: bool,
    pub(super) exemption: Option<Reason>,
    pub(super) trial: Option<Trial>,
    pub(super) circuit_breaker: bool,
    /// Its senders; `None` before MAIL and after the verdict.
    pub(super) workspace: Option<Box<Workspace>>,
    /// Fields that were not read, because no list checks them.
    pub(super) skipped: Vec<Identity>,
    /// Whether a list of a newer snapshot checks one of these fields.
    pub(super) is_incomplete: bool,
    pub(super) progress: Progress,
    /// Whether some readings of the envelope sender were not looked up.
    pub(super) is_envelope_truncated: bool,
    /// The decision to make when the senders are looked up.
    pub(super) step: Option<Step>,
    pub(super) hits: Vec<Hit>,
    /// How many of the hits have been counted.
    pub(super) hits_counted: usize,
    pub(super) reach: ListSets,
    pub(super) refused: u32,
    pub(super) deferred: u32,
    pub(super) mailing_list: bool,
    pub(super) forged_tags: u32,
    pub(super) dkim: Vec<Vec<u8>>,
    pub(super) queue_id: Vec<u8>,
    pub(super) message_id: Vec<u8>,
    pub(super) case: String,
    /// The changes for the end of the message.
    pub(super) edits: Vec<Edit>,
    pub(super) began: Option<Instant>,
    pub(super) spent: Duration,
}

/// A step that is answered later.
pub(super) struct Step {
    /// The snapshot of this step, held until it is answered, which is soon.
    pub(super) snapshot: Arc<Snapshot>,
    pub(super) what: Decided,
}

/// What a verdict is about.
pub(super) enum Decided {
    /// A recipient, and the lists that affect it.
    Recipient { argument: Box<[u8]>, lists: u64 },
    /// The message.
    Message,
}

/// Hits whose memory is kept for the next message.
const HITS_KEPT: usize = 16;

impl Message {
    /// Returns whether the message has senders that were not looked up.
    pub(super) fn is_truncated(&self) -> bool {
        self.has_more_senders() || self.progress.unfinished || self.is_incomplete
    }

    /// Returns whether the message has senders that were not kept.
    pub(super) fn has_more_senders(&self) -> bool {
        let workspace = self.workspace.as_ref();
        workspace.is_some_and(|workspace| workspace.senders.truncated())
    }

    /// Returns the memory for its senders.
    pub(super) fn workspace(&mut self) -> &mut Workspace {
        self.workspace.get_or_insert_with(Workspace::borrow)
    }

    /// Records a field that is not read.
    pub(super) fn skip(&mut self, identity: Identity) {
        if !self.skipped.contains(&identity) {
            self.skipped.push(identity);
        }
    }

    /// Drops what only the verdict needs, and frees the memory of a large message.
    pub(super) fn release(&mut self) {
        self.snapshot = None;
        if let Some(workspace) = self.workspace.take() {
            workspace.give_back();
        }
        self.hits.clear();
        self.hits_counted = 0;
        self.hits.shrink_to(HITS_KEPT);
        self.dkim = Vec::new();
        self.skipped.clear();
    }

    /// Drops everything, and keeps the memory.
    pub(super) fn clear(&mut self) {
        self.release();
        self.reach.clear();
        self.queue_id.clear();
        self.message_id.clear();
        self.case.clear();
        *self = Self {
            hits: std::mem::take(&mut self.hits),
            reach: std::mem::take(&mut self.reach),
            skipped: std::mem::take(&mut self.skipped),
            queue_id: std::mem::take(&mut self.queue_id),
            message_id: std::mem::take(&mut self.message_id),
            case: std::mem::take(&mut self.case),
            ..Self::default()
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_who_cannot_come_over_a_network_is_local() {
        let postfix = Macros::default().with("v", b"Postfix 3.7.11");
        let sendmail = Macros::default().with("v", b"8.17.1.9");
        let none = Macros::default();
        let loopback = Some(IpAddr::from([127, 0, 0, 1]));
        let cases = [
            (Family::Unix, "localhost", None, 0, &postfix, true),
            (Family::Inet, "localhost", loopback, 0, &postfix, true),
            (Family::Inet, "localhost", loopback, 4321, &postfix, false),
            (Family::Inet, "localhost", None, 0, &postfix, false),
            (Family::Unknown, "localhost", None, 0, &sendmail, true),
            (Family::Unknown, "localhost", None, 0, &none, true),
            // A client behind a proxy that hides its address.
            (Family::Unknown, "localhost", None, 0, &postfix, false),
            (Family::Unknown, "unknown", None, 0, &sendmail, false),
        ];
        for (family, host, address, port, macros, is_local) in cases {
            let client = Client {
                host: host.as_bytes(),
                address,
                port,
                family,
            };
            let mut origin = Origin::default();
            origin.read(&client, macros);
            assert_eq!(origin.is_local, is_local, "{client:?}");
        }
    }
}
