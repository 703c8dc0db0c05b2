//! The configuration: errors with their positions, and the example that explains every setting.

use std::path::Path;

use blocklist_milter::config::{Config, Error};

use crate::support::{has, rows};

const EXAMPLE: &str = include_str!("../../contrib/blocklist-milter.toml");

fn parse(text: &str) -> Result<Config, Vec<String>> {
    Config::parse(text, Path::new("/etc/x.toml")).map_err(|error| match error {
        Error::Faulty { problems, .. } => problems.iter().map(ToString::to_string).collect(),
        other => vec![other.to_string()],
    })
}

/// Checks that the problems of a configuration are those of a table, with begin and words.
fn faulty(text: &str, table: &'static str) {
    let problems = parse(text).unwrap_err();
    let expected = rows(table);
    for [place, message] in &expected {
        let is_told = |p: &String| p.starts_with(place) && p.contains(message);
        assert!(
            problems.iter().any(is_told),
            "{place} {message} is missing in {problems:#?}"
        );
    }
    assert_eq!(problems.len(), expected.len(), "{problems:#?}");
}

#[test]
fn the_example_shows_every_setting_with_its_default() {
    let example = parse(EXAMPLE).unwrap().to_string();
    let bare = parse(
        "[[list]]\nname = \"spammers\"\nfilter = \"/var/lib/blocklist-milter/spammers.blf\"\n",
    )
    .unwrap();
    assert_eq!(example, bare.to_string());
    let mut heading = String::new();
    for line in example.lines() {
        if line.starts_with('[') {
            heading = format!("\n{line}\n");
        }
        // A text can have further lines.
        let Some((name, _)) = line.split_once(" = ") else {
            continue;
        };
        let start = EXAMPLE
            .find(&*heading)
            .unwrap_or_else(|| panic!("the example lacks {heading}"));
        let text = &EXAMPLE[start + heading.len()..];
        let text = text.find("\n[").map_or(text, |end| &text[..end]);
        // A setting whose default depends on another one is shown in a comment.
        let lines = [format!("\n{name} = "), format!("\n# {name} = ")];
        assert!(
            lines.iter().any(|line| text.contains(line)),
            "the example lacks {name} in {heading}"
        );
    }
}

#[test]
fn what_is_printed_is_a_configuration_and_means_the_same() {
    let full = include_str!("config/full.toml");
    let once = parse(full).unwrap().to_string();
    has(&once, "filter = \"/etc/lists/one.blf\"");
    assert_eq!(parse(&once).unwrap().to_string(), once);
}

#[test]
fn every_fault_is_told_at_once_with_its_place() {
    faulty(
        include_str!("config/faulty.toml"),
        include_str!("config/faulty.txt"),
    );
}

#[test]
fn syntax_errors_do_not_hide_the_others() {
    let problems = parse("sandbox = 4 4\n\n[log]\nlevl = \"info\"\n").unwrap_err();
    assert!(problems[0].starts_with("1:"), "{problems:?}");
    assert!(problems[1].starts_with("4:1:"), "{problems:?}");
    has(&problems[1], "did you mean level?");
    // An array without an end includes the rest of the file: each line is reported once.
    let problems = parse("listen = [\nworkrs = 3\n\n[log]\nlevl = \"info\"\n").unwrap_err();
    assert!(problems.len() <= 5, "{problems:?}");
}

/// Errors of the TOML itself name the setting, too, and how its value is written.
#[test]
fn syntax_errors_name_their_setting() {
    for [line, message] in rows(include_str!("config/syntax.txt")) {
        let problems = parse(line).unwrap_err();
        assert!(
            problems.iter().any(|problem| problem == message),
            "{problems:#?}"
        );
    }
}

/// A setting in the wrong section is not taken for a similar one.
#[test]
fn a_setting_in_the_wrong_place_is_told_where_it_belongs() {
    let text = "networks = []\nrequire_dkim = true\n[[list]]\nname='a'\nfilter='x'\non_error='accept'\n[log]\nconnections=3\naction='tag'\n";
    faulty(
        text,
        "
        1:1: | setting networks; it belongs in [exempt]
        2:1: | setting require_dkim; it belongs in [whitelist]
        6:1: | setting on_error in [list]; it belongs at the top of the file, before the first [section]
        8:1: | setting connections in [log]; it belongs in [limits]
        9:1: | setting action in [log]; it belongs in [[list]]
        ",
    );
}

#[test]
fn what_would_never_work_or_is_gone_is_a_fault() {
    for [text, place, message] in rows(include_str!("config/faults.txt")) {
        let problems = parse(text).unwrap_err();
        assert_eq!(problems.len(), 1, "{text}: {problems:?}");
        assert!(problems[0].starts_with(place), "{text}: {problems:?}");
        has(&problems[0], message);
    }
    assert!(parse("listen = ['inet:0@127.0.0.1', 'inet:0@127.0.0.1']\n").is_ok());
}

/// `listen = "unix:/a"` can mean only one thing.
#[test]
fn one_string_is_a_list_of_one() {
    for [section, name, value] in rows(include_str!("config/lists.txt")) {
        let string = parse(&format!("{section}\n{name} = '{value}'\n")).unwrap();
        let list = parse(&format!("{section}\n{name} = ['{value}']\n")).unwrap();
        assert!(string == list, "{name}: {string}");
        assert!(string != parse(section).unwrap(), "{name}: {string}");
    }
}

/// Files that cannot be a configuration are reported as such, and never read completely.
#[test]
fn files_that_are_not_a_configuration() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("latin-1.toml");
    std::fs::write(&path, b"sandbox = true\n# caf\xe9\n").unwrap();
    let told = |path: &Path| Config::load(path).unwrap_err().to_string();
    has(&told(&path), "latin-1.toml:2:6: not UTF-8");
    has(&told(Path::new("/dev/zero")), "not a configuration file");
    has(&told(folder.path()), "Is a directory");
    std::fs::write(&path, b"\xef\xbb\xbfsandbox = false\r\n").unwrap();
    assert!(!Config::load(&path).unwrap().sandbox);
}

#[test]
fn each_reply_and_each_treatment_of_mailing_lists_fits_its_action() {
    for [action, setting, fits] in rows(include_str!("config/fits.txt")) {
        let text = format!("[[list]]\nname='a'\nfilter='x'\naction='{action}'\n{setting}\n");
        assert_eq!(parse(&text).is_ok(), fits == "fits", "{text}");
    }
}
