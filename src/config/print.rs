//! Prints the effective configuration as TOML, every setting with its value: `--print-config`.
//!
//! The output is a configuration with the same meaning.

use std::fmt;

use toml::Value;

use super::values::age_text;
use super::{Config, ListSettings, LogFormat};
use crate::filter::Load;

impl fmt::Display for Config {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        set(f, "listen", texts(&self.listen))?;
        set(f, "socket_mode", format!("{:04o}", self.socket_mode))?;
        set(f, "socket_group", self.socket_group.as_str())?;
        set(f, "workers", number(self.workers))?;
        set(f, "on_error", self.on_error.name())?;
        set(f, "mixed_recipients", self.mixed_recipients.name())?;
        set(f, "contact", self.contact.as_str())?;
        set(f, "status_file", self.status_file.display().to_string())?;
        set(f, "state", self.state.display().to_string())?;
        set(f, "sandbox", self.sandbox)?;
        for list in &self.lists {
            list.fmt(f)?;
        }
        writeln!(f, "\n[whitelist]")?;
        set(
            f,
            "files",
            texts(self.whitelist.files.iter().map(|path| path.display())),
        )?;
        set(f, "entries", texts(&self.whitelist.entries.written))?;
        set(f, "require_dkim", self.whitelist.require_dkim)?;
        set(f, "authserv_ids", texts(&self.whitelist.authserv_ids))?;
        let correspondents = self.whitelist.correspondents.iter();
        set(
            f,
            "correspondents",
            texts(correspondents.map(|path| path.display())),
        )?;
        let require_dkim = self.whitelist.correspondents_require_dkim;
        set(f, "correspondents_require_dkim", require_dkim)?;
        writeln!(f, "\n[exempt]")?;
        set(f, "authenticated", self.exempt.authenticated)?;
        set(f, "local", self.exempt.local)?;
        set(f, "networks", texts(&self.exempt.networks))?;
        set(f, "recipients", texts(&self.exempt.recipients.written))?;
        writeln!(f, "\n[safety]")?;
        set(
            f,
            "max_reject_share",
            self.safety.max_reject_share.to_string(),
        )?;
        set(f, "max_shrink", self.safety.max_shrink.to_string())?;
        set(f, "max_growth", self.safety.max_growth.to_string())?;
        set(f, "must_miss", texts(&self.safety.must_miss))?;
        set(f, "last_good_mib", number(self.safety.last_good_mib))?;
        writeln!(f, "\n[limits]")?;
        set(f, "connections", number(self.limits.connections))?;
        set(f, "drain_s", number(self.limits.drain_s))?;
        set(f, "read_ms", number(self.limits.read_ms))?;
        writeln!(f, "\n[status]")?;
        let listen = self.status.listen.as_ref();
        let listen = listen.map_or(String::new(), ToString::to_string);
        set(f, "listen", listen)?;
        set(f, "group", self.status.group.as_str())?;
        set(f, "show_addresses", self.status.show_addresses)?;
        writeln!(f, "\n[log]")?;
        set(f, "level", self.log.level.name())?;
        set(
            f,
            "format",
            if self.log.format == LogFormat::Json {
                "json"
            } else {
                "text"
            },
        )?;
        set(f, "accepted", self.log.accepted)
    }
}

impl fmt::Display for ListSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let terms = &self.terms;
        writeln!(f, "\n[[list]]")?;
        set(f, "name", terms.name.as_str())?;
        set(f, "filter", self.filter.display().to_string())?;
        set(
            f,
            "load",
            if self.load == Load::Disk {
                "disk"
            } else {
                "memory"
            },
        )?;
        set(
            f,
            "check",
            texts(terms.check.iter().map(|identity| identity.name())),
        )?;
        set(f, "action", terms.action.name())?;
        if let Some(reply) = terms.reply(terms.action) {
            set(f, "reply", reply.to_string())?;
        }
        set(f, "recipients", texts(&self.recipients))?;
        set(f, "except_recipients", texts(&self.except_recipients))?;
        set(
            f,
            "mailing_list",
            terms.mailing_list.map_or("same", |action| action.name()),
        )?;
        set(f, "weak", terms.weak.name())?;
        set(f, "dry_run", terms.dry_run)?;
        set(f, "max_age", age(self.max_age_s))?;
        set(f, "max_unchanged", age(self.max_unchanged_s))?;
        set(f, "must_hit", texts(&self.must_hit))?;
        set(f, "enabled", self.enabled)
    }
}

fn set(f: &mut fmt::Formatter<'_>, name: &str, value: impl Into<Value>) -> fmt::Result {
    writeln!(f, "{name} = {}", value.into())
}

fn texts<T: fmt::Display>(all: impl IntoIterator<Item = T>) -> Value {
    Value::Array(
        all.into_iter()
            .map(|one| Value::String(one.to_string()))
            .collect(),
    )
}

fn age(seconds: Option<u64>) -> String {
    seconds.map_or_else(|| "none".to_owned(), age_text)
}

fn number(number: impl TryInto<i64>) -> Value {
    Value::Integer(number.try_into().unwrap_or(i64::MAX))
}
