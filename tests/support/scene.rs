//! A site with five lists, one for each action, its daemon, and a mail server that asks it.
//!
//! `tests/scenarios/site/` has the lists and the configuration.

use std::fs;
use std::path::Path;

use super::mta::{Mta, WhenDown};
use super::site::{Daemon, Site, Transport};
use super::smtp::{Mail, Sent, Smtp, send};
use super::usable;

/// A mail server, its daemon, and the daemon's site; dropped in this order.
pub(crate) struct Scene<M> {
    pub(crate) mta: M,
    pub(crate) daemon: Daemon,
    pub(crate) site: Site,
}

impl<M: Mta> Scene<M> {
    /// Starts everything; returns `None` if the server is missing and not required.
    pub(crate) fn new(transport: Transport) -> Option<Self> {
        Self::with(transport, |site| M::start(&site.socket, WhenDown::Tempfail))
    }

    /// Like [`Self::new`], with the server started by the caller.
    pub(crate) fn with(transport: Transport, start: impl FnOnce(&Site) -> M) -> Option<Self> {
        Self::on(|| site(transport, ""), start)
    }

    /// Like [`Self::with`], with a site of the caller.
    pub(crate) fn on(site: impl FnOnce() -> Site, start: impl FnOnce(&Site) -> M) -> Option<Self> {
        if !usable(M::NAME, M::obstacle()) {
            return None;
        }
        let site = site();
        let daemon = site.serve();
        let mta = start(&site);
        Some(Self { mta, daemon, site })
    }

    pub(crate) fn send(&self, mail: &Mail) -> Sent {
        send(self.mta.port(), mail)
    }

    pub(crate) fn session(&self) -> Smtp {
        Smtp::connect(self.mta.port())
    }

    /// Sends a message and waits for its delivery.
    pub(crate) fn deliver(&self, mail: &Mail) -> String {
        assert_accepted(&self.send(mail));
        let mut copies = self.mta.delivered(&mail.subject);
        assert_eq!(copies.len(), 1, "{copies:?}");
        copies.remove(0)
    }
}

/// Creates the site, with these settings before all sections.
pub(crate) fn site(transport: Transport, settings: &str) -> Site {
    let mut site = Site::new(transport);
    site.doors = &["policy"];
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/scenarios/site");
    let read = |name: &str| fs::read_to_string(folder.join(name)).expect("a file of ours");
    for name in ["spammers", "later", "held", "marked", "gone"] {
        site.list(name, &[read(&format!("{name}.txt")).trim_end()]);
    }
    site.write("whitelist", &read("whitelist"));
    site.configure(&format!("{settings}\n{}", read("milter.toml")));
    site
}

pub(crate) fn assert_accepted(sent: &Sent) {
    assert!(sent.accepted(), "{sent:?}");
}
