//! Manual pages and the example configuration agree with the programs.

use crate::support::manual;

use std::collections::BTreeSet;

use blocklist_compile::cli::Cli as Compile;
use blocklist_milter::cli::Milter;
use blocklist_milter::policy::Reason;
use clap::CommandFactory;
use manual::{assert_completions, assert_page, read};

/// Each setting of the example has its paragraph in the manual, with its default, and the manual
/// has no others. `tests/pure/config.rs` compares the example with the code.
#[test]
fn the_manual_has_every_setting_of_the_example() {
    let example: toml::Table = read("blocklist-milter.toml")
        .parse()
        .expect("the example is TOML");
    let mut settings = BTreeSet::new();
    for (name, value) in &example {
        match value {
            toml::Value::Table(section) => settings.extend(section.keys().cloned()),
            toml::Value::Array(sections) if sections.iter().all(toml::Value::is_table) => {
                let keys = sections
                    .iter()
                    .filter_map(toml::Value::as_table)
                    .flat_map(toml::Table::keys);
                settings.extend(keys.cloned());
            }
            _ => {
                settings.insert(name.clone());
            }
        }
    }

    // A setting whose default depends on another one is in a comment: `# reply = `.
    let text = read("blocklist-milter.toml");
    let commented = text.lines().filter_map(|line| {
        let (name, _) = line.strip_prefix("# ")?.split_once(" = ")?;
        name.bytes()
            .all(|byte| byte.is_ascii_lowercase() || byte == b'_')
            .then(|| name.to_owned())
    });
    settings.extend(commented);

    let page = read("man/blocklist-milter.toml.5");
    let mut lines = page.lines();
    let mut described = BTreeSet::new();
    while let Some(line) = lines.next() {
        if line != ".TP" {
            continue;
        }
        let term = lines.next().unwrap_or_default();
        let name = term.split_whitespace().nth(1).unwrap_or_default();
        described.insert(name.to_owned());
        if let Some((_, default)) = term.split_once(" = ") {
            let default = default.trim_end_matches('"').replace("\\(dq", "\"");
            let settings = format!("{name} = {default}");
            let shown = read("blocklist-milter.toml")
                .lines()
                .any(|line| line == settings);
            assert!(shown, "the manual says {settings}, the example does not");
        }
    }
    assert_eq!(
        described, settings,
        "described in the manual, set in the example"
    );
}

/// The pages of the programs are generated from their command lines, so none can be out of date;
/// `tests/manuals/` has the text that is not in a command line.
#[test]
fn the_manuals_of_the_programs_are_those_of_their_command_lines() {
    assert_page(
        &Milter::command(),
        "8",
        include_str!("../manuals/blocklist-milter.8"),
    );
    assert_page(
        &Compile::command(),
        "1",
        include_str!("../manuals/blocklist-compile.1"),
    );
}

/// An administrator who looks up a refusal in the log finds its reason in the manual.
#[test]
fn the_manual_has_every_reason_of_the_log() {
    let names = Reason::ALL.map(Reason::name);
    let page = read("man/blocklist-milter.8").replace('\\', "");
    let log = page.split(".SH ").find(|part| part.starts_with("LOG"));
    let words: BTreeSet<&str> = log
        .expect("the manual has a part about the log")
        .split(|c: char| !c.is_alphanumeric() && c != '-')
        .collect();
    for name in names {
        assert!(words.contains(name), "the manual does not tell of {name}");
    }
}

/// Completions are generated from the same command lines.
#[test]
fn the_completions_are_those_of_the_command_lines() {
    for command in [Milter::command(), Compile::command()] {
        assert_completions(command);
    }
}
