//! Every setting, in one row: its name, where it is stored, how it is read and how it is printed.
//!
//! The same rows read a file and print the settings, so that what is printed can be read again. A
//! setting keeps its default ([`Config::default`], `ListSettings::unknown`) if the file lacks it, or if
//! it is invalid there.

use std::cell::RefCell;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use toml::Value;
use toml::de::DeValue;
use tracing::level_filters::LevelFilter;

use super::settings::{
    Config, ListSettings, MaxUnchanged, OnError, Position, WhitelistSettings, address, age,
    age_text, contact, entry, list_name, path, reply,
};
use crate::daemon::logging::LogFormat;
use crate::endpoint::{Endpoint, Listen};
use crate::policy::{Action, Entries, LISTS_MAX, MixedRecipients, Weak};
use crate::sender::Identity;
use blocklist_compile::settings::{
    Invalid, Percent, Section, boolean, choice, number, parsed_text, percent_of_a_whole, text,
};
use blocklist_filter::filter::Load;

/// What the log shows, besides what is more severe.
const LEVELS: [(&str, LevelFilter); 5] = [
    ("error", LevelFilter::ERROR),
    ("warn", LevelFilter::WARN),
    ("info", LevelFilter::INFO),
    ("debug", LevelFilter::DEBUG),
    ("trace", LevelFilter::TRACE),
];

/// What is done with the settings.
pub(super) enum Rows<'s> {
    /// They are read from a section. Paths are relative to the folder.
    Read(&'s Section<'s>, &'s Path),
    /// Those that have a value are printed, as TOML.
    Print(&'s mut String),
}

impl<'s> Rows<'s> {
    fn one<T>(
        &mut self,
        name: &'static str,
        value: &mut T,
        read: impl FnOnce(&DeValue<'_>) -> Result<T, Invalid>,
        print: impl FnOnce(&T) -> Option<Value>,
    ) {
        match self {
            Self::Read(section, _) => {
                if let Some(found) = section.optional(name, read) {
                    *value = found;
                }
            }
            Self::Print(text) => {
                if let Some(value) = print(value) {
                    **text += &format!("{name} = {value}\n");
                }
            }
        }
    }

    fn boolean(&mut self, name: &'static str, value: &mut bool) {
        self.one(name, value, boolean, |value| Some((*value).into()));
    }

    fn text<T>(
        &mut self,
        name: &'static str,
        value: &mut T,
        read: impl FnOnce(&str) -> Result<T, Invalid>,
        print: impl FnOnce(&T) -> String,
    ) {
        let read = |value: &DeValue<'_>| read(text(value)?);
        self.one(name, value, read, |value| Some(print(value).into()));
    }

    fn choice<T: Copy + PartialEq>(
        &mut self,
        name: &'static str,
        value: &mut T,
        names: &[(&'static str, T)],
    ) {
        let read = |text: &str| choice(text, names);
        self.text(name, value, read, |value| {
            let row = names.iter().find(|row| row.1 == *value);
            row.map_or_else(String::new, |row| row.0.to_owned())
        });
    }

    /// Relative paths are relative to the folder of the configuration.
    fn path(&mut self, name: &'static str, value: &mut PathBuf) {
        let folder = self.folder();
        let print = |path: &PathBuf| path.display().to_string();
        self.text(name, value, |text| path(text, folder), print);
    }

    fn folder(&self) -> &'s Path {
        match self {
            Self::Read(_, folder) => folder,
            Self::Print(_) => Path::new(""),
        }
    }

    /// A list of texts, each read on its own.
    fn each<T>(
        &mut self,
        name: &'static str,
        value: &mut Vec<T>,
        read: impl Fn(&str) -> Result<T, Invalid>,
        print: impl Fn(&T) -> String,
    ) {
        match self {
            Self::Read(section, _) => *value = section.each(name, std::mem::take(value), read),
            Self::Print(_) => {
                let all: Vec<Value> = value.iter().map(|one| print(one).into()).collect();
                self.one(name, value, |_| Ok(Vec::new()), |_| Some(all.into()));
            }
        }
    }

    fn paths(&mut self, name: &'static str, value: &mut Vec<PathBuf>) {
        let folder = self.folder();
        let print = |path: &PathBuf| path.display().to_string();
        self.each(name, value, |text| path(text, folder), print);
    }

    fn entries(&mut self, name: &'static str, value: &mut Entries) {
        let mut written = value.written().to_vec();
        self.each(name, &mut written, entry, String::clone);
        *value = Entries::of_setting(written);
    }

    /// Says what a list lacks if it is empty.
    fn must_have(&mut self, name: &'static str, what: &str) {
        if let Self::Read(section, _) = self {
            section.check_filled(name, what);
        }
    }

    fn section(&mut self, name: &'static str, walk: impl FnOnce(&mut Rows<'_>)) {
        match self {
            Self::Read(section, folder) => {
                section.table(name, |section| walk(&mut Rows::Read(section, folder)));
            }
            Self::Print(text) => {
                **text += &format!("\n[{name}]\n");
                walk(self);
            }
        }
    }
}

impl Config {
    pub(super) fn walk(&mut self, rows: &mut Rows<'_>) {
        let place = "an address to listen on, such as \"unix:/run/blocklist-milter/milter.sock\"";
        rows.must_have("listen", place);
        let seen = RefCell::new(Vec::new());
        let once = |written: &str| {
            let listen: Listen = parsed_text(written)?;
            // Port 0 means another port each time.
            if !listen.at.has_any_port() && seen.borrow().contains(&listen.at) {
                return Err(format!("{} is listed twice", listen.at).into());
            }
            seen.borrow_mut().push(listen.at.clone());
            Ok(listen)
        };
        rows.each("listen", &mut self.listen, once, ToString::to_string);
        rows.choice("on_error", &mut self.on_error, &OnError::NAMES);
        let mixed = &mut self.mixed_recipients;
        rows.choice("mixed_recipients", mixed, &MixedRecipients::NAMES);
        rows.text("contact", &mut self.contact, contact, String::clone);
        rows.path("status_file", &mut self.status_file);
        rows.path("state", &mut self.state);
        rows.boolean("sandbox", &mut self.sandbox);
        match rows {
            Rows::Read(top, folder) => self.lists = read_lists(top, folder),
            Rows::Print(text) => {
                for list in &mut self.lists {
                    **text += "\n[[list]]\n";
                    list.walk(&mut Rows::Print(text));
                }
            }
        }
        rows.section("whitelist", |rows| self.whitelist.walk(rows));
        rows.section("exempt", |rows| {
            let exempt = &mut self.exempt;
            rows.boolean("authenticated", &mut exempt.authenticated);
            rows.boolean("local", &mut exempt.local);
            let networks = &mut exempt.networks;
            rows.each("networks", networks, parsed_text, ToString::to_string);
            rows.entries("recipients", &mut exempt.recipients);
        });
        rows.section("safety", |rows| {
            let safety = &mut self.safety;
            let print = |share: &Percent| Some(share.to_string().into());
            let share = &mut safety.max_reject_share;
            rows.one("max_reject_share", share, percent_of_a_whole, print);
            let shrink = &mut safety.max_shrink;
            rows.one("max_shrink", shrink, percent_of_a_whole, print);
            rows.each("must_miss", &mut safety.must_miss, address, String::clone);
        });
        rows.section("limits", |rows| {
            let read = |value: &DeValue<'_>| {
                let connections = number(value, 1..=1_000_000)?;
                usize::try_from(connections).map_err(|_| "too large for this machine".into())
            };
            let print = |connections: &usize| Some(Value::Integer(*connections as i64));
            let connections = &mut self.connections_max;
            rows.one("connections", connections, read, print);
        });
        rows.section("status", |rows| {
            let print = |listen: &Option<Endpoint>| {
                let listen = listen.as_ref();
                listen.map_or_else(String::new, ToString::to_string)
            };
            let milter = &self.listen;
            let read = |written: &str| {
                let at = status_listen(written)?;
                let is_same = |it: &Listen| Some(&it.at) == at.as_ref() && !it.at.has_any_port();
                let why = "the milter listens there, too; give the pages a socket of their own";
                match milter.iter().any(is_same) {
                    true => Err(why.into()),
                    false => Ok(at),
                }
            };
            rows.text("listen", &mut self.status.listen, read, print);
            rows.boolean("show_addresses", &mut self.status.show_addresses);
        });
        rows.section("log", |rows| {
            rows.choice("level", &mut self.log.level, &LEVELS);
            rows.choice("format", &mut self.log.format, &LogFormat::NAMES);
            rows.boolean("accepted", &mut self.log.accepted);
        });
    }
}

fn read_lists(top: &Section<'_>, folder: &Path) -> Vec<ListSettings> {
    let mut lists: Vec<ListSettings> = Vec::new();
    top.tables("list", |section| {
        let start = section.start();
        let (line, column) = section.place("filter");
        for name in ["name", "filter"] {
            section.required(name, |_| Ok(()));
        }
        let mut list = ListSettings::unknown("");
        list.place = Position(line, column);
        list.walk(&mut Rows::Read(section, folder));
        let name = &list.terms.name;
        if name.is_empty() || list.filter.as_os_str().is_empty() {
            return;
        }
        if lists.iter().any(|other| other.terms.name == *name) {
            top.problem(start, format!("duplicate list name {name}"));
        }
        if lists.len() == LISTS_MAX {
            let advice = "merge some with blocklist-compile merge";
            top.problem(start, format!("more than {LISTS_MAX} lists; {advice}"));
            return;
        }
        lists.push(list);
    });
    lists
}

impl ListSettings {
    fn walk(&mut self, rows: &mut Rows<'_>) {
        let terms = Arc::make_mut(&mut self.terms);
        rows.text("name", &mut terms.name, list_name, String::clone);
        rows.path("filter", &mut self.filter);
        let loads = [("memory", Load::Memory), ("disk", Load::Disk)];
        rows.choice("load", &mut self.load, &loads);
        rows.must_have("check", "the senders to look up");
        let identity = |written: &str| choice(written, &Identity::NAMES);
        rows.each("check", &mut terms.check, identity, ToString::to_string);
        rows.choice("action", &mut terms.action, &Action::NAMES);
        let action = terms.action;
        let printed = terms.reply(action).map(|reply| reply.to_string().into());
        let read = |value: &DeValue<'_>| reply(text(value)?, action).map(Some);
        rows.one("reply", &mut terms.reply, read, |_| printed);
        rows.entries("recipients", &mut terms.recipients);
        rows.entries("except_recipients", &mut terms.except_recipients);
        let milder = |written: &str| {
            let mut choices = vec![("same", None)];
            choices.extend(Action::NAMES.map(|(name, action)| (name, Some(action))));
            match choice(written, &choices)? {
                Some(milder) if milder > action => {
                    Err(format!("must be milder than action \"{action}\"").into())
                }
                milder => Ok(milder),
            }
        };
        rows.text("mailing_list", &mut terms.mailing_list, milder, |milder| {
            milder.map_or("same", Action::name).to_owned()
        });
        rows.choice("weak", &mut terms.weak, &Weak::NAMES);
        rows.boolean("exempt_correspondents", &mut terms.exempts_correspondents);
        rows.boolean("dry_run", &mut terms.dry_run);
        rows.boolean("trust_reports", &mut self.trust_reports);
        rows.text("max_age", &mut self.max_age_s, age, age_setting);
        let read = |written: &str| match written {
            "auto" => Ok(MaxUnchanged::Auto),
            written => age(written).map(MaxUnchanged::After),
        };
        let print = |max: &MaxUnchanged| match max {
            MaxUnchanged::Auto => "auto".to_owned(),
            MaxUnchanged::After(limit) => age_setting(limit),
        };
        rows.text("max_unchanged", &mut self.max_unchanged, read, print);
        rows.each("must_hit", &mut self.must_hit, address, String::clone);
        rows.boolean("enabled", &mut self.enabled);
    }
}

fn age_setting(seconds: &Option<u64>) -> String {
    seconds.map_or_else(|| "none".to_owned(), age_text)
}

impl WhitelistSettings {
    fn walk(&mut self, rows: &mut Rows<'_>) {
        rows.paths("files", &mut self.files);
        rows.entries("entries", &mut self.entries);
        let lower = |written: &str| Ok(written.to_ascii_lowercase());
        rows.each("authserv_ids", &mut self.authserv_ids, lower, String::clone);
        let trusts_any = !self.authserv_ids.is_empty();
        let require = |value: &DeValue<'_>| {
            let required = boolean(value)?;
            let why = "needs authserv_ids, the servers whose Authentication-Results to trust";
            (!required || trusts_any)
                .then_some(required)
                .ok_or_else(|| why.into())
        };
        let print = |value: &bool| Some((*value).into());
        rows.one("require_dkim", &mut self.require_dkim, require, print);
        rows.paths("correspondents", &mut self.correspondents);
    }
}

/// Reads where to serve the pages: an empty text means nowhere.
fn status_listen(written: &str) -> Result<Option<Endpoint>, Invalid> {
    if written.is_empty() {
        return Ok(None);
    }
    let endpoint: Endpoint = parsed_text(written)?;
    if !endpoint.is_local() {
        return Err(format!(
            "{endpoint} can be reached from other machines; use a unix socket or a loopback address, such as inet:9642@127.0.0.1"
        )
        .into());
    }
    Ok(Some(endpoint))
}
