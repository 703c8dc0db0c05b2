//! The manual pages and completions of both programs agree with their command lines;
//! `tests/manuals/` has the text that is not in a command line. The command lines in the documents
//! are valid.

#[path = "../../../../tests/support/command_lines.rs"]
mod command_lines;
#[path = "../../../../tests/support/manual.rs"]
mod manual;
#[path = "../../../../tests/support/markdown.rs"]
mod markdown;

use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::Path;
use std::process::Command;

use blocklist_compile::compile::{self, Plan, Progress};
use blocklist_fetch::cli::{FetchCli, PublishCli};
use blocklist_fetch::manifest::Manifest;
use clap::CommandFactory as _;
use manual::{assert_completions, assert_page};
use markdown::{Part, parts, read as read_guide};
use minisign::KeyPair;

use crate::tools::installed;

#[test]
fn the_manuals_of_the_programs_are_those_of_their_command_lines() {
    assert_page(
        &FetchCli::command(),
        "1",
        include_str!("../manuals/blocklist-fetch.1"),
    );
    assert_page(
        &PublishCli::command(),
        "1",
        include_str!("../manuals/blocklist-publish.1"),
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

/// Runs the commands of the guide in order, below a folder of this test, with a folder instead of
/// the web server.
#[test]
fn the_recipe_of_a_signed_store_works() {
    if !installed("minisign") {
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
        // The host would be another machine.
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

/// Runs the scripts of the guide, and its rsync, below a folder of this test. The other hosts are
/// this machine: `ssh` runs its command here.
#[test]
fn the_scripts_of_the_guide_do_what_they_say() {
    let folder = tempfile::tempdir().expect("a folder");
    let root = folder.path();
    for name in ["etc", "lib", "stubs", "srv/mail", "mx1"] {
        fs::create_dir_all(root.join(name)).expect("our own folder");
    }
    let stub = |name: &str, script: &str| {
        let stub = root.join("stubs").join(name);
        fs::write(&stub, format!("#!/bin/sh\n{script}\n")).expect("our own file");
        fs::set_permissions(&stub, fs::Permissions::from_mode(0o755)).expect("our own file");
    };
    stub("ssh", "shift; exec sh -c \"$*\"");
    let key = KeyPair::generate_unencrypted_keypair().expect("a key");
    let secret = key.sk.to_box(None).expect("a key").into_string();
    fs::write(root.join("etc/publisher.key"), secret).expect("our own file");
    let build = |entries: &str| {
        let list = root.join("list.txt");
        fs::write(&list, entries).expect("our own file");
        let mut plan = Plan::new(root.join("lib/spammers.blf"), vec![list]);
        plan.name = "spammers".to_owned();
        compile::build(&plan, &Progress::new()).expect("a filter");
    };
    let guide = read_guide(Path::new("docs/many-hosts.md"));
    let place = |name: &str| root.join(name).display().to_string();
    let own = fs::metadata(root).expect("our own folder");
    // Root may set a group of which it is not a member, as on a real host.
    let group = if own.uid() == 0 { 65_534 } else { own.gid() };
    let blocks: Vec<String> = parts(&guide)
        .into_iter()
        .filter_map(|placed| match placed.part {
            Part::Block { language, text } if language == "conf" || language == "console" => {
                Some(text)
            }
            _ => None,
        })
        .map(|text| {
            text.replace("/srv/lists/spammers.blf", &place("lib/spammers.blf"))
                .replace("/srv/lists", &place("srv"))
                .replace("/etc/blocklist-milter", &place("etc"))
                .replace(":/var/lib/blocklist-milter", &format!(":{}", place("mx1")))
                .replace("/var/lib/blocklist-milter", &place("lib"))
                .replace("root:blocklist-milter", &format!("{}:{group}", own.uid()))
        })
        .collect();
    let programs = Path::new(env!("CARGO_BIN_EXE_blocklist-fetch")).parent();
    let programs = programs.expect("in a folder").display().to_string();
    let path = std::env::var("PATH").expect("there is a path");
    let run = |script: &str| {
        let done = Command::new("sh")
            .args(["-c", script])
            .current_dir(root.join("lib"))
            .env("PATH", format!("{}:{programs}:{path}", place("stubs")))
            .output();
        done.expect("sh is there")
    };
    let succeeds = |script: &str| {
        let done = run(script);
        let said = String::from_utf8_lossy(&done.stderr);
        assert!(done.status.success(), "{script}{said}");
    };
    let script = |word: &str| -> &str {
        let mut found = blocks
            .iter()
            .filter(|text| text.starts_with("#!/bin/sh") && text.contains(word));
        let script = found.next().expect(word);
        assert!(found.next().is_none(), "{word}");
        script
    };
    let manifest = || {
        let bytes = fs::read(root.join("srv/mail/spammers.json")).expect("it was published");
        Manifest::read(&bytes, "spammers").expect("one of ours")
    };

    build("user@bad.example\n");
    succeeds(script("publisher.key \\\n    /"));
    assert_eq!(manifest().filter.generation, 1);

    // A build for the first ring, and one that nobody has yet.
    build("user@bad.example\nnew@bad.example\n");
    let next = script("--promote-after");
    stub("blocklist-milter", "[ \"$*\" = status ]");
    succeeds(next);
    build("good@innocent.example\n");
    let rings = |all: u64, first: u64| {
        let manifest = manifest();
        let first_ring = manifest.rings.first().expect("a ring");
        assert_eq!(first_ring.filter.generation, first);
        assert_eq!(manifest.filter.generation, all);
    };
    rings(1, 2);
    succeeds(next);
    rings(1, 2);
    stub("blocklist-milter", "exit 1");
    succeeds(next);
    rings(1, 3);

    if !installed("rsync") {
        return;
    }
    let mut lines = blocks.iter().filter(|text| text.starts_with("rsync "));
    let rsync = lines.next().expect("the recipe");
    let copy = root.join("mx1/spammers.blf");
    fs::write(&copy, "what was there before").expect("our own file");
    let in_use = fs::File::open(&copy).expect("our own file");
    succeeds(rsync);
    let same = fs::read(&copy).expect("it is there")
        == fs::read(place("lib/spammers.blf")).expect("a filter");
    assert!(same);
    let (before, after) = (in_use.metadata(), fs::metadata(&copy));
    let (before, after) = (before.expect("it is open"), after.expect("it is there"));
    assert_eq!((after.mode() & 0o7777, after.gid()), (0o640, group));
    // It must not be written into the file that a daemon reads.
    assert_ne!(before.ino(), after.ino());
    assert_eq!(before.len(), 21);
}
