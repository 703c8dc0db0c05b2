//! Exports whose vendors publish their form, and whose rows say who is blocked. They are read
//! without a declaration.
//!
//! `profiles.toml` has them, each with its source. An export that differs in one heading or key is
//! another one, and is refused.

use std::path::Path;
use std::sync::LazyLock;

use super::declared::Declared;
use super::list_toml;
use crate::list::table::text::Text;
use crate::settings::{self, Section, checked, text};

#[derive(Debug)]
pub(super) struct Profile {
    /// The product, and what it exports.
    pub(super) name: String,
    /// The headings of a table, or else the keys of the first object of JSON: sorted.
    names: Vec<Text>,
    is_json: bool,
    /// How it is read.
    pub(super) declared: Declared,
}

static PROFILES: LazyLock<Vec<Profile>> = LazyLock::new(|| read(include_str!("profiles.toml")).0);

/// Returns the profile with these headings or keys.
pub(super) fn find(is_json: bool, names: &[String]) -> Option<&'static Profile> {
    let names = sorted(names);
    let mut profiles = PROFILES.iter();
    profiles.find(|profile| profile.is_json == is_json && profile.names == names)
}

fn sorted(names: &[String]) -> Vec<Text> {
    let mut names: Vec<Text> = names.iter().map(|name| Text::new(name)).collect();
    names.sort();
    names
}

fn read(text_of: &str) -> (Vec<Profile>, Option<settings::Error>) {
    let profile = |section: &Section<'_>| {
        let name = section.required("name", |value| Ok(text(value)?.to_owned()));
        // For people: where the vendor publishes it.
        let _ = section.required("source", |value| text(value).map(drop));
        let names = |name| section.each(name, Vec::new(), |name| Ok(name.to_owned()));
        let (headings, keys) = (names("headings"), names("keys"));
        Profile {
            name: name.unwrap_or_default(),
            is_json: headings.is_empty(),
            names: sorted(&[headings, keys].concat()),
            declared: list_toml::declared(section),
        }
    };
    let path = Path::new("profiles.toml");
    checked(text_of, path, |top| top.tables("profile", profile))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_profile_says_which_rows_count() {
        let (profiles, error) = read(include_str!("profiles.toml"));
        assert!(error.is_none(), "{error:?}");
        assert!(!profiles.is_empty());
        for profile in profiles {
            assert!(
                profile.declared.has_rule() && !profile.declared.entry.is_empty(),
                "{}",
                profile.name
            );
            assert!(profile.declared.check().is_ok(), "{}", profile.name);
            assert!(!profile.names.is_empty(), "{}", profile.name);
        }
    }
}
