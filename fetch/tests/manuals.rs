//! The manual pages and completions of both programs are those of their command lines; what a command line does not tell
//! stands in `tests/manuals/`. Command lines in the documents are understood.

#[path = "../../tests/support/command_lines.rs"]
mod command_lines;
#[path = "../../tests/support/manual.rs"]
mod manual;
#[path = "../../tests/support/markdown.rs"]
mod markdown;

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;

use blocklist_fetch::cli::{FetchCli, PublishCli};
use blocklist_milter::compile::{self, Plan, Progress};
use clap::CommandFactory as _;
use manual::{assert_completions, assert_page};
use markdown::{Part, parts, read as read_guide};

#[test]
fn the_manuals_of_the_programs_are_those_of_their_command_lines() {
    assert_page(
        &FetchCli::command(),
        "1",
        include_str!("manuals/blocklist-fetch.1"),
    );
    assert_page(
        &PublishCli::command(),
        "1",
        include_str!("manuals/blocklist-publish.1"),
    );
}

#[test]
fn the_completions_are_those_of_the_command_lines() {
    assert_completions(FetchCli::command());
    assert_completions(PublishCli::command());
}

#[test]
fn every_command_line_is_understood() {
    let commands = [FetchCli::command(), PublishCli::command()];
    let (found, faults) = command_lines::faults(&commands);
    assert!(found > 5, "only {found} found");
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

/// The commands of the guide, one after the other, below a folder of this test, with a folder in place of the web server.
#[test]
fn the_recipe_of_a_signed_store_works() {
    if Command::new("minisign").arg("-v").output().is_err() {
        eprintln!("minisign is not installed: the recipe is not tried");
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let root = folder.path();
    for name in ["etc/fetch", "lib", "stubs", "srv"] {
        fs::create_dir_all(root.join(name)).expect("our own folder");
    }
    for name in ["systemctl", "cargo", "contrib-install"] {
        let stub = root.join("stubs").join(name);
        fs::write(&stub, "#!/bin/sh\n").expect("our own file");
        fs::set_permissions(&stub, fs::Permissions::from_mode(0o755)).expect("our own file");
    }
    let list = root.join("list.txt");
    fs::write(&list, "user@bad.example\n").expect("our own file");
    let mut plan = Plan::new(root.join("lib/spammers.blf"), vec![list]);
    plan.name = "spammers".to_owned();
    compile::build(&plan, &Progress::new()).expect("a filter");

    let guide = read_guide(Path::new("docs/many-hosts.md"));
    let (_, recipe) = guide.split_once("## A signed store").expect("a part");
    let (recipe, _) = recipe.split_once("\n## ").expect("not the last part");
    let mut script = "set -eu\n".to_owned();
    for placed in parts(recipe) {
        if let Part::Block { language, text } = placed.part
            && language == "console"
        {
            script += &text;
        }
    }
    let place = |name: &str| root.join(name).display().to_string();
    let script = script
        .replace("contrib/install", "contrib-install")
        .replace(" -g www-data", "")
        .replace("https://lists.your.example/mail", &place("srv/mail"))
        .replace("/srv/lists", &place("srv"))
        .replace("/etc/blocklist-milter", &place("etc"))
        // The host is another machine.
        .replace(
            "-o /var/lib/blocklist-milter",
            &format!("-o {}", place("stubs")),
        )
        .replace("/var/lib/blocklist-milter", &place("lib"));
    let programs = Path::new(env!("CARGO_BIN_EXE_blocklist-fetch")).parent();
    let programs = programs.expect("in a folder").display().to_string();
    let path = std::env::var("PATH").expect("there is a path");
    let done = Command::new("sh")
        .args(["-c", &script])
        .env("PATH", format!("{}:{programs}:{path}", place("stubs")))
        .output()
        .expect("sh is there");
    let said = String::from_utf8_lossy(&done.stderr);
    assert!(done.status.success(), "{script}{said}");
    let same = |name: &str| fs::read(root.join(name)).expect("it is there");
    assert!(same("stubs/spammers.blf") == same("lib/spammers.blf"));
    assert!(script.matches("blocklist-").count() > 4, "{script}");
}
