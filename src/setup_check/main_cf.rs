//! Parses Postfix's notation of milters, `smtpd_milters`, and of times.
//!
//! ```text
//!   unix:a.sock, { inet:127.0.0.1:8891, command_timeout=10s, default_action = accept }
//! ```

use std::time::Duration;

use crate::base::numbers::with_unit;

/// One milter of `smtpd_milters`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct MilterOf {
    /// As written: `unix:path`, `inet:host:port`.
    pub(super) address: String,
    /// Its own settings, such as `command_timeout`.
    settings: Vec<(String, String)>,
}

impl MilterOf {
    /// Returns the text to write.
    pub(super) fn text(&self) -> String {
        let settings = self.settings.iter();
        let all = settings.map(|(name, value)| format!(", {name}={value}"));
        match all.collect::<String>() {
            none if none.is_empty() => self.address.clone(),
            all => format!("{{ {}{all} }}", self.address),
        }
    }

    /// Returns the text without blanks, as `master.cf` requires it.
    pub(super) fn without_blanks(&self) -> String {
        self.text().replace(' ', "")
    }

    /// Returns the same with another value of one of its own settings.
    pub(super) fn with(&self, name: &str, value: &str) -> Self {
        let mut other = self.clone();
        other.settings.retain(|(key, _)| key != name);
        other.settings.push((name.to_owned(), value.to_owned()));
        other
    }

    /// Returns the same at another address.
    pub(super) fn at(&self, address: &str) -> Self {
        Self {
            address: address.to_owned(),
            ..self.clone()
        }
    }

    /// Returns one of its own settings.
    pub(super) fn setting(&self, name: &str) -> Option<&str> {
        let found = self.settings.iter().find(|(key, _)| key == name);
        found.map(|(_, value)| value.as_str())
    }
}

/// Parses the value of `smtpd_milters`.
pub(super) fn milters(value: &str) -> Vec<MilterOf> {
    split(value)
        .into_iter()
        .map(|text| {
            let inner = text
                .strip_prefix('{')
                .map(|text| text.trim_end_matches('}'));
            let mut parts = inner.map_or_else(|| vec![text], split).into_iter();
            let address = parts.next().unwrap_or_default().to_owned();
            let setting = |part: &str| {
                let part = part.trim_matches(['{', '}']);
                let (name, value) = part.split_once('=')?;
                Some((name.trim().to_owned(), value.trim().to_owned()))
            };
            MilterOf {
                address,
                settings: parts.filter_map(setting).collect(),
            }
        })
        .collect()
}

/// Splits a list at commas and blanks; text in braces is one word.
pub(super) fn split(value: &str) -> Vec<&str> {
    let mut words = Vec::new();
    let (mut depth, mut start) = (0_u32, None);
    for (at, character) in value.char_indices() {
        let parts = depth == 0 && (character == ',' || character.is_whitespace());
        match character {
            '{' => depth += 1,
            '}' => depth = depth.saturating_sub(1),
            _ => {}
        }
        if !parts {
            start.get_or_insert(at);
        } else if let Some(start) = start.take() {
            words.extend(value.get(start..at));
        }
    }
    words.extend(start.and_then(|start| value.get(start..)));
    words
}

/// Parses a time: `30s`, `5m`, `1h`, `1d`, `1w`; without a unit, seconds.
pub(super) fn time(text: &str) -> Option<Duration> {
    let seconds = text.parse().ok();
    let seconds = seconds.or_else(|| with_unit(text, &UNITS))?;
    Some(Duration::from_secs(seconds))
}

const UNITS: [(char, u64); 5] = [
    ('s', 1),
    ('m', 60),
    ('h', 3_600),
    ('d', 86_400),
    ('w', 604_800),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn milters_are_read_in_both_forms() {
        let value = "unix:a.sock,inet:127.0.0.1:8891\n { unix:b/c.sock, default_action=accept, { command_timeout = 10s } } ,";
        let found = milters(value);
        let addresses: Vec<&str> = found.iter().map(|milter| milter.address.as_str()).collect();
        assert_eq!(
            addresses,
            ["unix:a.sock", "inet:127.0.0.1:8891", "unix:b/c.sock"]
        );
        let last = found.last().expect("three");
        assert_eq!(last.setting("default_action"), Some("accept"));
        assert_eq!(last.setting("command_timeout"), Some("10s"));
        assert_eq!(last.setting("connect_timeout"), None);
        let short = "{unix:b/c.sock,default_action=accept,command_timeout=10s}";
        assert_eq!(last.without_blanks(), short);
        assert_eq!(milters(short)[0].settings, last.settings);
        let other = last.at("unix:c.sock").with("command_timeout", "5s");
        let text = "{ unix:c.sock, default_action=accept, command_timeout=5s }";
        assert_eq!(other.text(), text);
        assert_eq!(milters(text), [other]);
        assert_eq!(milters(""), []);
        assert_eq!(milters("{").len(), 1);
    }

    #[test]
    fn times_are_read() {
        let seconds = |text| time(text).map(|time| time.as_secs());
        let times = ["30s", "30", "5m", "2h", "1w"].map(seconds);
        assert_eq!(times, [30, 30, 300, 7_200, 604_800].map(Some));
        assert_eq!(["s", "5y", ""].map(seconds), [None; 3]);
    }
}
