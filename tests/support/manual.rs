//! Compares the manual pages and completions generated from a command line with the shipped ones.
//!
//! `UPDATE_MANUALS=1 cargo test manuals::`, with `-p blocklist-fetch` for that crate, writes them.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use clap_complete::{Generator, Shell};
use clap_mangen::Man;

fn contrib(name: &str) -> PathBuf {
    // The crate of this test, or the one that contains it.
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let contrib = root.ancestors().map(|root| root.join("contrib"));
    let mut contrib = contrib.filter(|folder| folder.is_dir());
    contrib.next().expect("contrib/ is there").join(name)
}

/// Reads a file below `contrib/`.
pub(crate) fn read(name: &str) -> String {
    fs::read_to_string(contrib(name)).unwrap_or_else(|error| panic!("contrib/{name}: {error}"))
}

/// Compares a page with the shipped one.
pub(crate) fn assert_page(command: &clap::Command, section: &str, rest: &str) {
    let page = page(command, section, rest).expect("memory takes every write");
    assert_shipped(&format!("man/{}.{section}", command.get_name()), &page);
}

/// Returns the whole page: options, then each command with its options, then the text written by
/// hand.
fn page(command: &clap::Command, section: &str, rest: &str) -> std::io::Result<String> {
    let name = command.get_name().to_owned();
    let mut out = Vec::new();
    let manuals = ["User commands", "System administration"];
    let manual = manuals[usize::from(section == "8")];
    // Not with clap_mangen: without a date in its title, the following fields would move.
    let title = format!(".TH {name} {section} \"\" blocklist-milter \"{manual}\"");
    writeln!(out, "{title}")?;
    let man = Man::new(command.clone());
    man.render_name_section(&mut out)?;
    man.render_synopsis_section(&mut out)?;
    man.render_description_section(&mut out)?;
    man.render_options_section(&mut out)?;
    if command.has_subcommands() {
        writeln!(out, ".SH COMMANDS")?;
    } else if let Some(examples) = command.get_after_long_help() {
        writeln!(out, ".SH EXAMPLES")?;
        write!(out, "{}", example_section(&examples.to_string()))?;
    }
    let shown = command.get_subcommands();
    for subcommand in shown.filter(|subcommand| !subcommand.is_hide_set()) {
        let title = format!("{name} {}", subcommand.get_name());
        let alone = subcommand.clone().bin_name(title.clone());
        let man = Man::new(alone.disable_help_flag(true));
        writeln!(out, ".SS {}", title.replace('-', "\\-"))?;
        append(&mut out, |part| man.render_synopsis_section(part))?;
        writeln!(out, ".PP")?;
        append(&mut out, |part| man.render_description_section(part))?;
        let mut arguments = subcommand.get_arguments();
        if arguments.any(|argument| !argument.is_hide_set()) {
            append(&mut out, |part| man.render_options_section(part))?;
        }
        if let Some(examples) = subcommand.get_after_long_help() {
            write!(out, "{}", example_section(&examples.to_string()))?;
        }
    }
    out.extend_from_slice(rest.as_bytes());
    Ok(String::from_utf8_lossy(&out).into_owned())
}

/// Returns the examples of a command: a title line, then commands.
fn example_section(help: &str) -> String {
    let (title, commands) = help.split_once('\n').expect("a title and commands");
    let commands = commands.replace('\\', "\\\\").replace('-', "\\-");
    format!(".PP\n{title}\n.nf\n{commands}\n.fi\n")
}

/// Compares the completions of all shells with the shipped ones.
pub(crate) fn assert_completions(mut command: clap::Command) {
    let name = command.get_name().to_owned();
    for shell in [Shell::Bash, Shell::Zsh, Shell::Fish] {
        let mut script = Vec::new();
        clap_complete::generate(shell, &mut command, &name, &mut script);
        let file = format!("completions/{}", shell.file_name(&name));
        let script = String::from_utf8(script).expect("completions are text");
        let script = match shell {
            Shell::Bash => for_bash(&name, &script),
            Shell::Zsh => script.replace("filter file:_files'", "filter file:_files -g \"*.blf\"'"),
            Shell::Fish => script + &filters_in_fish(&name),
            _ => script,
        };
        assert_shipped(&file, &script);
    }
}

/// Mends what clap_complete 4.6 writes for a program with a hyphen in its name: a state has one name
/// where it is entered, and another where it is handled, so nothing was completed after a command.
/// And the commands that read a filter offer filters and folders.
fn for_bash(name: &str, script: &str) -> String {
    let handled = name.replace('-', "__subcmd__");
    let mut script = script.replace(&handled, &name.replace('-', "__"));
    for command in READS_FILTER {
        let state = format!("        {}__subcmd__{command})\n", name.replace('-', "__"));
        let Some(at) = script.find(&state) else {
            continue;
        };
        let filters = "            if [[ ${cur} != -* ]] ; then\n                \
            COMPREPLY=( $(compgen -d -- \"${cur}\") $(compgen -f -X '!*.blf' -- \"${cur}\") )\n                \
            return 0\n            fi\n";
        script.insert_str(at + state.len(), filters);
    }
    script
}

/// The commands of blocklist-compile whose first argument is a filter.
const READS_FILTER: [&str; 3] = ["info", "query", "verify"];

/// The same commands in fish: filters come before other files.
fn filters_in_fish(name: &str) -> String {
    if name != "blocklist-compile" {
        return String::new();
    }
    let state = format!("__fish_{}_using_subcommand", name.replace('-', "_"));
    let each = READS_FILTER.map(|command| {
        format!(
            "complete -c {name} -n \"{state} {command}\" -k -f -a '(__fish_complete_suffix .blf)'\n"
        )
    });
    each.concat()
}

/// Compares a file with the shipped one; with `UPDATE_MANUALS` set, writes it instead.
fn assert_shipped(name: &str, text: &str) {
    if std::env::var_os("UPDATE_MANUALS").is_some() {
        fs::create_dir_all(contrib(name).parent().expect("a file in a folder")).expect("writable");
        fs::write(contrib(name), text).expect("contrib/ can be written");
    }
    assert!(
        read(name) == text,
        "contrib/{name} is out of date: UPDATE_MANUALS=1 cargo test -p {} manuals::",
        env!("CARGO_PKG_NAME")
    );
}

/// Appends the output of `render` without the line that begins a section.
fn append(
    out: &mut Vec<u8>,
    render: impl FnOnce(&mut Vec<u8>) -> std::io::Result<()>,
) -> std::io::Result<()> {
    let mut part = Vec::new();
    render(&mut part)?;
    let lines = part.split_inclusive(|&byte| byte == b'\n');
    out.extend(lines.filter(|line| !line.starts_with(b".SH ")).flatten());
    Ok(())
}
