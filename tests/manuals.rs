//! What is shipped beside the programs says what they do: manual pages, example configuration.

use std::collections::BTreeSet;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use blocklist_milter::cli::compile::Cli as Compile;
use blocklist_milter::cli::milter::Milter;
use blocklist_milter::policy::{Exemption, Reason};
use clap::CommandFactory;
use clap_complete::{Generator, Shell};
use clap_mangen::Man;

fn contrib(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("contrib")
        .join(name)
}

fn read(name: &str) -> String {
    fs::read_to_string(contrib(name)).unwrap_or_else(|error| panic!("contrib/{name}: {error}"))
}

/// Each setting of the example has its paragraph in the manual, with its default, and the manual
/// tells of no other. The example itself is held to the code by `tests/config.rs`.
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

    // A setting whose default depends on another stands in a comment: `# reply = `.
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

/// The pages of the programs are made from their command lines, so none of them can be out of date;
/// what a command line does not tell stands in `tests/manuals/`.
#[test]
fn the_manuals_of_the_programs_are_those_of_their_command_lines() {
    assert_page(
        &Milter::command(),
        "8",
        include_str!("manuals/blocklist-milter.8"),
    );
    assert_page(
        &Compile::command(),
        "1",
        include_str!("manuals/blocklist-compile.1"),
    );
}

/// Whoever looks a refusal up in the log finds its words in the manual.
#[test]
fn the_manual_has_every_reason_of_the_log() {
    let names = Reason::ALL.map(Reason::name);
    let page = read("man/blocklist-milter.8").replace('\\', "");
    let log = page.split(".SH ").find(|part| part.starts_with("LOG"));
    let words: BTreeSet<&str> = log
        .expect("the manual has a part about the log")
        .split(|c: char| !c.is_alphanumeric() && c != '-')
        .collect();
    for name in names.into_iter().chain(Exemption::ALL.map(Exemption::name)) {
        assert!(words.contains(name), "the manual does not tell of {name}");
    }
}

/// Compares a page with the one that is shipped.
fn assert_page(command: &clap::Command, section: &str, rest: &str) {
    let page = page(command, section, rest).expect("memory takes every write");
    assert_shipped(&format!("man/{}.{section}", command.get_name()), &page);
}

/// The whole page: options, then each command with its own, then what is told by hand.
fn page(command: &clap::Command, section: &str, rest: &str) -> std::io::Result<String> {
    let name = command.get_name().to_owned();
    let mut out = Vec::new();
    let manual = if section == "8" {
        "System administration"
    } else {
        "User commands"
    };
    // Not by clap_mangen, whose title must have a date, or the rest moves up.
    writeln!(
        out,
        ".TH {name} {section} \"\" blocklist-milter \"{manual}\""
    )?;
    let man = Man::new(command.clone());
    man.render_name_section(&mut out)?;
    man.render_synopsis_section(&mut out)?;
    man.render_description_section(&mut out)?;
    man.render_options_section(&mut out)?;
    writeln!(out, ".SH COMMANDS")?;
    for subcommand in command
        .get_subcommands()
        .filter(|subcommand| !subcommand.is_hide_set())
    {
        let title = format!("{name} {}", subcommand.get_name());
        let alone = subcommand
            .clone()
            .bin_name(title.clone())
            .disable_help_flag(true);
        let man = Man::new(alone);
        writeln!(out, ".SS {}", title.replace('-', "\\-"))?;
        append(&mut out, |part| man.render_synopsis_section(part))?;
        writeln!(out, ".PP")?;
        append(&mut out, |part| man.render_description_section(part))?;
        if subcommand
            .get_arguments()
            .any(|argument| !argument.is_hide_set())
        {
            append(&mut out, |part| man.render_options_section(part))?;
        }
        if let Some(examples) = subcommand.get_after_long_help() {
            write!(out, "{}", example_section(&examples.to_string()))?;
        }
    }
    out.extend_from_slice(rest.as_bytes());
    Ok(String::from_utf8_lossy(&out).into_owned())
}

/// The examples of a command: a line that names them, then commands.
fn example_section(help: &str) -> String {
    let (title, commands) = help.split_once('\n').expect("a title and commands");
    let commands = commands.replace('\\', "\\\\").replace('-', "\\-");
    format!(".PP\n{title}\n.nf\n{commands}\n.fi\n")
}

/// Completions are made from the same command lines.
#[test]
fn the_completions_are_those_of_the_command_lines() {
    for mut command in [Milter::command(), Compile::command()] {
        let name = command.get_name().to_owned();
        for shell in [Shell::Bash, Shell::Zsh, Shell::Fish] {
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut command, &name, &mut script);
            let file = format!("completions/{}", shell.file_name(&name));
            let script = String::from_utf8(script).expect("completions are text");
            assert_shipped(&file, &script);
        }
    }
}

/// Compares a file with the one that is shipped; with `UPDATE_MANUALS` set, writes it instead.
fn assert_shipped(name: &str, text: &str) {
    if std::env::var_os("UPDATE_MANUALS").is_some() {
        fs::create_dir_all(contrib(name).parent().expect("a file in a folder")).expect("writable");
        fs::write(contrib(name), text).expect("contrib/ can be written");
    }
    assert!(
        read(name) == text,
        "contrib/{name} is out of date: UPDATE_MANUALS=1 cargo test --test manuals"
    );
}

/// Appends what `render` makes without the line that begins a section.
fn append(
    out: &mut Vec<u8>,
    render: impl FnOnce(&mut Vec<u8>) -> std::io::Result<()>,
) -> std::io::Result<()> {
    let mut part = Vec::new();
    render(&mut part)?;
    for line in part
        .split_inclusive(|&byte| byte == b'\n')
        .filter(|line| !line.starts_with(b".SH "))
    {
        out.extend_from_slice(line);
    }
    Ok(())
}
