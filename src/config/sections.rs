//! The settings of each section, and their defaults.

use std::cell::RefCell;
use std::path::Path;
use std::sync::Arc;

use super::settings::{DEFAULT_CHECK, WrittenEntries};
use super::values::{age, contact, list_name, mode, path, reply};
use super::{
    Config, ExemptSettings, Level, LimitSettings, ListSettings, LogFormat, LogSettings, OnError,
    Percent, SafetySettings, StatusSettings, WhitelistSettings,
};
use crate::address::{Canonical, escaped};
use crate::base::settings::{
    Fault, Reader, Section, boolean, choice, count, number, percent, percent_of_a_whole, text,
};
use crate::endpoint::{Endpoint, EndpointError};
use crate::filter::Load;
use crate::policy::{Action, Entries, LISTS_MAX, MixedRecipients, Terms, Weak};
use crate::sender::Identity;

impl Config {
    pub(super) fn read(reader: &Reader<'_>, folder: &Path) -> Self {
        let document = reader.document();
        let top = reader.section("", document.get_ref(), 0..0);
        let default_socket = Endpoint::Unix("/run/blocklist-milter/milter.sock".into());
        let seen = RefCell::new(Vec::new());
        let place = "an address to listen on, such as \"unix:/run/blocklist-milter/milter.sock\"";
        let listen = top.some("listen", place, vec![default_socket], |written| {
            let endpoint: Endpoint = written
                .parse()
                .map_err(|error: EndpointError| Fault::from(error.to_string()))?;
            let mut seen = seen.borrow_mut();
            // Port 0 means another port each time.
            let again = !matches!(endpoint, Endpoint::Inet { port: 0, .. });
            if again && seen.contains(&endpoint) {
                return Err(format!("{endpoint} is listed twice").into());
            }
            seen.push(endpoint.clone());
            Ok(endpoint)
        });
        let mut lists: Vec<ListSettings> = Vec::new();
        for section in top.tables("list") {
            let start = section.start();
            let Some(list) = read_list(section, folder) else {
                continue;
            };
            if lists
                .iter()
                .any(|other| other.terms.name == list.terms.name)
            {
                reader.problem(start, format!("duplicate list name {}", list.terms.name));
            }
            if lists.len() == LISTS_MAX {
                reader.problem(
                    start,
                    format!("more than {LISTS_MAX} lists; merge some with blocklist-compile merge"),
                );
            }
            lists.push(list);
        }
        let contact = top.get("contact", String::new(), |value| {
            contact(text(value)?).map(str::to_owned)
        });
        let mut exempt = read_exempt(top.table("exempt"));
        if !contact.is_empty() {
            // A sender who is told to write to this contact must not be refused there. It was just
            // parsed.
            let _ = exempt.recipients.entries.add(contact.as_bytes());
        }
        let config = Self {
            listen,
            socket_mode: top.get("socket_mode", 0o660, |value| mode(text(value)?)),
            socket_group: top.get("socket_group", String::new(), |value| {
                Ok(text(value)?.to_owned())
            }),
            workers: count(top.get("workers", 0, |value| number(value, 0..=256))),
            status_file: top.get(
                "status_file",
                "/run/blocklist-milter-daemon/status".into(),
                |value| path(text(value)?, folder),
            ),
            state: top.get(
                "state",
                "/var/lib/blocklist-milter-daemon".into(),
                |value| path(text(value)?, folder),
            ),
            sandbox: top.get("sandbox", true, boolean),
            on_error: top.get("on_error", OnError::Tempfail, |value| {
                choice(text(value)?, &OnError::NAMES)
            }),
            mixed_recipients: top.get("mixed_recipients", MixedRecipients::Defer, |value| {
                choice(text(value)?, &MixedRecipients::NAMES)
            }),
            contact,
            lists,
            whitelist: read_whitelist(top.table("whitelist"), folder),
            exempt,
            safety: read_safety(top.table("safety")),
            limits: read_limits(top.table("limits")),
            status: read_status(top.table("status")),
            log: read_log(top.table("log")),
        };
        top.finish();
        config
    }
}

fn read_list(section: Section<'_, '_>, folder: &Path) -> Option<ListSettings> {
    let name = section.required("name", |value| list_name(text(value)?));
    let filter = section.required("filter", |value| path(text(value)?, folder));
    let identities: Vec<(&'static str, Identity)> = Identity::ALL
        .iter()
        .map(|&identity| (identity.name(), identity))
        .collect();
    let load = section.get("load", Load::Memory, |value| {
        choice(
            text(value)?,
            &[("memory", Load::Memory), ("disk", Load::Disk)],
        )
    });
    let default_check = DEFAULT_CHECK.to_vec();
    let check = section.some(
        "check",
        "the senders to look up",
        default_check,
        |written| choice(written, &identities),
    );
    let action = section.get("action", Action::Reject, |value| {
        choice(text(value)?, &Action::NAMES)
    });
    let reply = section.get("reply", None, |value| reply(text(value)?, action).map(Some));
    let mailing_list = section.get("mailing_list", None, |value| {
        let mut choices = vec![("same", None)];
        choices.extend(Action::NAMES.map(|(name, action)| (name, Some(action))));
        let milder = choice(text(value)?, &choices)?;
        if milder.is_some_and(|milder| milder > action) {
            return Err(format!("must be milder than action \"{action}\"").into());
        }
        Ok(milder)
    });
    let recipients = entries(&section, "recipients", Vec::new());
    let except_recipients = entries(&section, "except_recipients", Vec::new());
    let terms = Terms {
        name: name.clone().unwrap_or_default(),
        check,
        action,
        mailing_list,
        weak: section.get("weak", Weak::Full, |value| {
            choice(text(value)?, &Weak::NAMES)
        }),
        reply,
        recipients: recipients.entries,
        except_recipients: except_recipients.entries,
        dry_run: section.get("dry_run", false, boolean),
    };
    let max_age_s = section.get("max_age", None, |value| age(text(value)?));
    let max_unchanged_s = section.get("max_unchanged", None, |value| age(text(value)?));
    let must_hit = addresses(&section, "must_hit");
    let enabled = section.get("enabled", true, boolean);
    let place = section.place("filter");
    section.finish();
    name?;
    Some(ListSettings {
        terms: Arc::new(terms),
        filter: filter?,
        place,
        load,
        max_age_s,
        max_unchanged_s,
        must_hit,
        enabled,
        recipients: recipients.written,
        except_recipients: except_recipients.written,
    })
}

fn read_whitelist(section: Section<'_, '_>, folder: &Path) -> WhitelistSettings {
    let files = section.each("files", Vec::new(), |written| path(written, folder));
    let entries = entries(&section, "entries", Vec::new());
    let authserv_ids = section.each("authserv_ids", Vec::new(), |written| {
        Ok(written.to_ascii_lowercase())
    });
    let require_dkim = |name, default| {
        section.get(name, default, |value| {
            let required = boolean(value)?;
            if required && authserv_ids.is_empty() {
                return Err(
                    "needs authserv_ids, the servers whose Authentication-Results to trust".into(),
                );
            }
            Ok(required)
        })
    };
    let settings = WhitelistSettings {
        files,
        entries,
        require_dkim: require_dkim("require_dkim", false),
        correspondents: section.each("correspondents", Vec::new(), |written| {
            path(written, folder)
        }),
        correspondents_require_dkim: require_dkim(
            "correspondents_require_dkim",
            !authserv_ids.is_empty(),
        ),
        authserv_ids: authserv_ids.clone(),
    };
    section.finish();
    settings
}

fn read_exempt(section: Section<'_, '_>) -> ExemptSettings {
    let settings = ExemptSettings {
        authenticated: section.get("authenticated", true, boolean),
        local: section.get("local", true, boolean),
        networks: section.each("networks", Vec::new(), |written| {
            written.parse().map_err(Fault::from)
        }),
        recipients: entries(
            &section,
            "recipients",
            vec!["postmaster@".to_owned(), "abuse@".to_owned()],
        ),
    };
    section.finish();
    settings
}

fn read_safety(section: Section<'_, '_>) -> SafetySettings {
    let settings = SafetySettings {
        max_reject_share: section.get("max_reject_share", Percent::ALL, percent_of_a_whole),
        max_shrink: section.get("max_shrink", Percent(50), percent_of_a_whole),
        max_growth: section.get("max_growth", Percent(1000), percent),
        must_miss: addresses(&section, "must_miss"),
        last_good_mib: section.get("last_good_mib", 2048, |value| number(value, 0..=1 << 40)),
    };
    section.finish();
    settings
}

fn read_limits(section: Section<'_, '_>) -> LimitSettings {
    let settings = LimitSettings {
        connections: count(
            section.get("connections", 10_000, |value| number(value, 1..=1_000_000)),
        ),
        drain_s: section.get("drain_s", 5, |value| number(value, 0..=86_400)),
        read_ms: section.get("read_ms", 2_000, |value| number(value, 1..=60_000)),
    };
    section.finish();
    settings
}

fn read_status(section: Section<'_, '_>) -> StatusSettings {
    let default = Endpoint::Unix("/run/blocklist-milter/status.sock".into());
    let settings = StatusSettings {
        listen: section.get("listen", Some(default), |value| {
            let written = text(value)?;
            if written.is_empty() {
                return Ok(None);
            }
            let endpoint: Endpoint = written
                .parse()
                .map_err(|error: EndpointError| Fault::from(error.to_string()))?;
            if !endpoint.is_local() {
                return Err(format!(
                    "{endpoint} can be reached from other machines; use a unix socket or a loopback address, such as inet:9642@127.0.0.1"
                )
                .into());
            }
            Ok(Some(endpoint))
        }),
        group: section.get("group", String::new(), |value| Ok(text(value)?.to_owned())),
        show_addresses: section.get("show_addresses", false, boolean),
    };
    section.finish();
    settings
}

fn read_log(section: Section<'_, '_>) -> LogSettings {
    let settings = LogSettings {
        level: section.get("level", Level::Info, |value| {
            choice(text(value)?, &Level::NAMES)
        }),
        format: section.get("format", LogFormat::Text, |value| {
            choice(
                text(value)?,
                &[("text", LogFormat::Text), ("json", LogFormat::Json)],
            )
        }),
        accepted: section.get("accepted", true, boolean),
    };
    section.finish();
    settings
}

/// Returns addresses, as written.
fn addresses(section: &Section<'_, '_>, name: &'static str) -> Vec<String> {
    section.each(name, Vec::new(), |written| {
        Canonical::parse(written.as_bytes(), Entries::rules())
            .map(|_| written.to_owned())
            .map_err(|error| Fault::from(format!("{written:?}: {error}")))
    })
}

/// Returns entries of every kind: as written, and as a set.
fn entries(section: &Section<'_, '_>, name: &'static str, default: Vec<String>) -> WrittenEntries {
    let written = section.each(name, default, |written| {
        Entries::default()
            .add(written.as_bytes())
            .map(|_| written.to_owned())
            .map_err(|error| Fault::from(format!("\"{}\": {error}", escaped(written.as_bytes()))))
    });
    let mut entries = Entries::default();
    for entry in &written {
        // Each one was just parsed.
        let _ = entries.add(entry.as_bytes());
    }
    WrittenEntries { entries, written }
}
