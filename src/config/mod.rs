//! The configuration: TOML, checked as a whole before anything is done with it.
//!
//! `read.rs` walks the text and notes every fault with line and column; this module says which
//! settings there are, what each means and what it is when left out; `print.rs` shows the effective
//! ones. `contrib/blocklist-milter.toml` explains them to an admin; a test holds the two together.
//!
//! Relative paths are taken from the folder of the configuration file, so that it can be moved
//! together with what it names.

mod print;
mod read;
mod settings;

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

pub use read::Problem;
use read::{Fault, Reader, Section, boolean, choice, number, share, text};
pub use settings::{
    Config, ExemptSettings, Level, LimitSettings, ListSettings, LogFormat, LogSettings, OnError,
    SafetySettings, WhitelistSettings,
};
use thiserror::Error;

use crate::address::escaped;
use crate::endpoint::{Endpoint, EndpointError};
use crate::filter::Load;
use crate::policy::{Action, Entries, LISTS_MAX, Template, Terms, Weak};
use crate::sender::Identity;

/// Largest configuration file that is read: a typo in a path must not fill the memory.
const FILE_MAX_BYTES: u64 = 4 << 20;
/// Longest name of a list.
const NAME_MAX_BYTES: usize = 64;

/// Every setting, by section: `""` is the top of the file.
pub const SETTINGS: [(&str, &[&str]); 7] = [
    (
        "",
        &[
            "listen",
            "socket_mode",
            "socket_group",
            "workers",
            "on_error",
        ],
    ),
    (
        "list",
        &[
            "name",
            "filter",
            "load",
            "check",
            "action",
            "reply",
            "recipients",
            "except_recipients",
            "mailing_list",
            "weak",
            "dry_run",
            "enabled",
        ],
    ),
    (
        "whitelist",
        &["files", "entries", "require_dkim", "authserv_ids"],
    ),
    (
        "exempt",
        &["authenticated", "local", "networks", "recipients"],
    ),
    ("safety", &["max_reject_share", "must_miss"]),
    ("limits", &["connections", "drain_s"]),
    ("log", &["level", "format", "accepted"]),
];

/// Why there is no configuration.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum Error {
    /// The file cannot be read.
    #[error("{}: {source}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// It has faults: all of them, in the order of the file.
    #[error("{}", Faults(path, problems))]
    Faulty {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        problems: Vec<Problem>,
    },
}

/// One line a fault, as compilers write it: editors jump to it.
struct Faults<'a>(&'a Path, &'a [Problem]);

impl fmt::Display for Faults<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, problem) in self.1.iter().enumerate() {
            let line_break = if number == 0 { "" } else { "\n" };
            write!(f, "{line_break}{}:{problem}", self.0.display())?;
        }
        Ok(())
    }
}

impl Config {
    /// Reads and checks a file.
    ///
    /// # Errors
    /// It cannot be read, or it has faults: all of them at once.
    pub fn load(path: &Path) -> Result<Self, Error> {
        let unreadable = |source| Error::Unreadable {
            path: path.to_owned(),
            source,
        };
        let size = std::fs::metadata(path).map_err(unreadable)?.len();
        if size > FILE_MAX_BYTES {
            let message = format!("has {size} bytes, more than any configuration");
            return Err(unreadable(std::io::Error::new(
                std::io::ErrorKind::FileTooLarge,
                message,
            )));
        }
        let text = std::fs::read_to_string(path).map_err(unreadable)?;
        Self::parse(&text, path)
    }

    /// Checks a text; `path` is for messages and for relative paths.
    ///
    /// # Errors
    /// All its faults.
    pub fn parse(text: &str, path: &Path) -> Result<Self, Error> {
        let reader = Reader::new(text);
        // Absolute, since a folder that is watched needs its name.
        let absolute = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
        let folder = absolute.parent().unwrap_or_else(|| Path::new("/"));
        let config = Self::read(&reader, folder);
        let problems = reader.into_problems();
        if problems.is_empty() {
            Ok(config)
        } else {
            Err(Error::Faulty {
                path: path.to_owned(),
                problems,
            })
        }
    }

    fn read(reader: &Reader<'_>, folder: &Path) -> Self {
        let document = reader.document();
        let top = reader.section("", document.get_ref(), 0..0);
        let default_socket = Endpoint::Unix("/run/blocklist-milter/milter.sock".into());
        let listen = top.each("listen", vec![default_socket], |written| {
            written
                .parse()
                .map_err(|error: EndpointError| Fault::from(error.to_string()))
        });
        if listen.is_empty() && reader.is_clean() {
            reader.problem(0, "listen: lacks a place to listen at, such as \"unix:/run/blocklist-milter/milter.sock\"");
        }
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
                reader.problem(
                    start,
                    format!(
                        "a second list is named {}; names must differ",
                        list.terms.name
                    ),
                );
            }
            if lists.len() == LISTS_MAX {
                reader.problem(
                    start,
                    format!("more than {LISTS_MAX} lists; merge some with blocklist-compile merge"),
                );
            }
            lists.push(list);
        }
        let config = Self {
            listen,
            socket_mode: top.get("socket_mode", 0o660, |value| mode(text(value)?)),
            socket_group: top.get("socket_group", String::new(), |value| {
                Ok(text(value)?.to_owned())
            }),
            workers: count(top.get("workers", 0, |value| number(value, 0..=256))),
            on_error: top.get("on_error", OnError::Tempfail, |value| {
                choice(
                    text(value)?,
                    &[("tempfail", OnError::Tempfail), ("accept", OnError::Accept)],
                )
            }),
            lists,
            whitelist: read_whitelist(top.table("whitelist"), folder),
            exempt: read_exempt(top.table("exempt")),
            safety: read_safety(top.table("safety")),
            limits: read_limits(top.table("limits")),
            log: read_log(top.table("log")),
        };
        top.finish();
        config
    }

    /// The lists that are in force.
    pub fn enabled_lists(&self) -> impl Iterator<Item = &ListSettings> {
        self.lists.iter().filter(|list| list.enabled)
    }

    /// Every file whose change matters: filters and whitelists. The configuration itself is not among them.
    pub fn files(&self) -> impl Iterator<Item = &Path> {
        self.enabled_lists()
            .map(|list| list.filter.as_path())
            .chain(self.whitelist.files.iter().map(PathBuf::as_path))
    }

    /// Settings that differ from those of `running` and take a restart to come into force.
    pub fn needs_restart(&self, running: &Self) -> Vec<&'static str> {
        let mut names = Vec::new();
        let mut differs = |name, differs: bool| {
            if differs {
                names.push(name);
            }
        };
        differs("listen", self.listen != running.listen);
        differs("socket_mode", self.socket_mode != running.socket_mode);
        differs("socket_group", self.socket_group != running.socket_group);
        differs("workers", self.workers != running.workers);
        differs("log.level", self.log.level != running.log.level);
        differs("log.format", self.log.format != running.log.format);
        differs(
            "limits.connections",
            self.limits.connections != running.limits.connections,
        );
        differs(
            "limits.drain_s",
            self.limits.drain_s != running.limits.drain_s,
        );
        names
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
    let default_check = vec![
        Identity::MailFrom,
        Identity::From,
        Identity::Sender,
        Identity::ReplyTo,
    ];
    let check = section.each("check", default_check, |written| {
        choice(written, &identities)
    });
    let action = section.get("action", Action::Reject, |value| {
        choice(text(value)?, &Action::NAMES)
    });
    let reply = section.get("reply", None, |value| reply(text(value)?, action).map(Some));
    let mailing_list = section.get("mailing_list", None, |value| {
        let mut choices = vec![("same", None)];
        choices.extend(Action::NAMES.map(|(name, action)| (name, Some(action))));
        let milder = choice(text(value)?, &choices)?;
        if milder.is_some_and(|milder| milder > action) {
            return Err(format!("is to be milder than action \"{action}\"").into());
        }
        Ok(milder)
    });
    let (recipients, recipient_entries) = entries(&section, "recipients", Vec::new());
    let (except_recipients, except_entries) = entries(&section, "except_recipients", Vec::new());
    let terms = Terms {
        name: name.clone().unwrap_or_default(),
        check,
        action,
        mailing_list,
        weak: section.get("weak", Weak::Full, |value| {
            choice(text(value)?, &Weak::NAMES)
        }),
        reply,
        recipients: recipient_entries,
        except_recipients: except_entries,
        dry_run: section.get("dry_run", false, boolean),
    };
    let enabled = section.get("enabled", true, boolean);
    let place = section.place("filter");
    section.finish();
    name?;
    Some(ListSettings {
        terms: Arc::new(terms),
        filter: filter?,
        place,
        load,
        enabled,
        recipients,
        except_recipients,
    })
}

fn read_whitelist(section: Section<'_, '_>, folder: &Path) -> WhitelistSettings {
    let files = section.each("files", Vec::new(), |written| path(written, folder));
    let (entries, _) = entries(&section, "entries", Vec::new());
    let authserv_ids = section.each("authserv_ids", Vec::new(), |written| {
        Ok(written.to_ascii_lowercase())
    });
    let require_dkim = section.get("require_dkim", false, |value| {
        let required = boolean(value)?;
        if required && authserv_ids.is_empty() {
            return Err(
                "needs authserv_ids: whose Authentication-Results are to be believed".into(),
            );
        }
        Ok(required)
    });
    section.finish();
    WhitelistSettings {
        files,
        entries,
        require_dkim,
        authserv_ids,
    }
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
        )
        .0,
    };
    section.finish();
    settings
}

fn read_safety(section: Section<'_, '_>) -> SafetySettings {
    let settings = SafetySettings {
        max_reject_share: section.get("max_reject_share", 1.0, share),
        must_miss: section.each("must_miss", Vec::new(), |written| {
            crate::address::Canonical::parse(written.as_bytes(), Entries::rules())
                .map(|_| written.to_owned())
                .map_err(|error| Fault::from(format!("{written:?}: {error}")))
        }),
    };
    section.finish();
    settings
}

fn read_limits(section: Section<'_, '_>) -> LimitSettings {
    let settings = LimitSettings {
        connections: count(
            section.get("connections", 10_000, |value| number(value, 1..=1_000_000)),
        ),
        drain_s: section.get("drain_s", 30, |value| number(value, 0..=86_400)),
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

fn list_name(written: &str) -> Result<String, Fault> {
    let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    if written.is_empty() || written.len() > NAME_MAX_BYTES || !written.chars().all(fits) {
        return Err(format!(
            "a name has 1 to {NAME_MAX_BYTES} letters, digits, dots, underscores or hyphens"
        )
        .into());
    }
    Ok(written.to_owned())
}

fn path(written: &str, folder: &Path) -> Result<PathBuf, Fault> {
    if written.is_empty() || written.contains('\0') {
        return Err("lacks the path of a file".into());
    }
    Ok(folder.join(written))
}

fn mode(written: &str) -> Result<u32, Fault> {
    let mode = u32::from_str_radix(written, 8)
        .ok()
        .filter(|mode| *mode <= 0o777);
    let mode =
        mode.ok_or_else(|| Fault::from("wants permission bits in octal, such as \"0660\""))?;
    if mode & 0o002 != 0 {
        return Err(
            "every user of this machine could play mail server; use 0660 and socket_group".into(),
        );
    }
    Ok(mode)
}

fn reply(written: &str, action: Action) -> Result<Template, Fault> {
    let template = Template::parse(written).map_err(|error| Fault {
        message: error.message,
        offset: Some(error.offset),
    })?;
    let class = match action {
        Action::Reject => 5,
        Action::Tempfail => 4,
        Action::Log | Action::Tag | Action::Quarantine | Action::Discard => {
            return Err(
                format!("action \"{action}\" sends no reply; leave this setting out").into(),
            );
        }
    };
    if template.code() / 100 != class {
        return Err(format!(
            "action \"{action}\" wants a code {class}xx, this is {}",
            template.code()
        )
        .into());
    }
    Ok(template)
}

/// Entries of every kind: as written, and as a set.
fn entries(
    section: &Section<'_, '_>,
    name: &'static str,
    default: Vec<String>,
) -> (Vec<String>, Entries) {
    let written = section.each(name, default, |written| {
        Entries::default()
            .add(written.as_bytes())
            .map(|()| written.to_owned())
            .map_err(|error| Fault::from(format!("\"{}\": {error}", escaped(written.as_bytes()))))
    });
    let mut set = Entries::default();
    for entry in &written {
        // Each one was just added to a set of its own.
        let _ = set.add(entry.as_bytes());
    }
    (written, set)
}

fn count(number: u64) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}
