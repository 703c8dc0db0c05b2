//! What mail programs show as the senders of a delivered message: readers of Python, npm and CPAN.
//!
//! Python's readers come with it; `tests/run` puts the others into `target/readers` (`READERS_ROOT` names another
//! folder). A reader gets the whole message, and the name of one field, and returns the addresses in it.

use std::fs::{self, File};
use std::path::PathBuf;
use std::process::Command;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::mta::unpacked;
use super::{Scratch, find_program, root};

/// The readers, each written by others. Two parsers of one house count as one reader.
pub(crate) const READERS: [&str; 4] = ["Python", "npm", "Mail::Address", "Email::Address::XS"];

/// The name in `BLOCKLIST_MILTER_NEEDED`.
pub(crate) const NAME: &str = "readers";

fn folder() -> PathBuf {
    unpacked("READERS_ROOT", "readers")
}

pub(crate) fn obstacle() -> Option<String> {
    let mut tools = ["python3", "node", "perl"].into_iter();
    let missing = tools.find(|tool| find_program(tool).is_none());
    let complete = folder().join("complete");
    let is_missing = !complete.exists();
    missing
        .map(|tool| format!("{tool} is not installed"))
        .or_else(|| is_missing.then(|| format!("no {}: tests/run makes it", complete.display())))
}

/// Returns the addresses that each reader shows in the field of each message.
pub(crate) fn read(messages: &[(&str, &[u8])]) -> Vec<[Vec<String>; READERS.len()]> {
    let scratch = Scratch::new();
    let line = |(field, text): &(&str, &[u8])| format!("{field} {}\n", STANDARD.encode(text));
    let input = scratch.write("input", messages.iter().map(line).collect::<String>());
    let script = |name: &str| root("tests/support/readers").join(name);
    let mut python = Command::new("python3");
    python.arg(script("python.py"));
    let mut npm = Command::new("node");
    npm.arg(script("npm.cjs"))
        .env("NODE_PATH", folder().join("node_modules"));
    let cpan = |parser: &str| {
        let mut perl = Command::new("perl");
        for library in fs::read_to_string(folder().join("complete"))
            .unwrap_or_default()
            .lines()
        {
            perl.arg("-I").arg(folder().join(library));
        }
        perl.arg(script("cpan.pl")).arg(parser);
        perl
    };
    let commands = [python, npm, cpan("mail"), cpan("xs")];
    let running = commands.map(|mut command| {
        command.stdin(File::open(&input).expect("our own file"));
        std::thread::spawn(move || command.output().expect("a reader runs"))
    });
    let mut found = running.map(|thread| {
        let output = thread.join().expect("no panic");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "a reader failed: {said}");
        let text = String::from_utf8(output.stdout).expect("JSON is UTF-8");
        let lines = text
            .lines()
            .map(|line| serde_json::from_str(line).expect("a line of JSON"));
        let lines: Vec<Vec<String>> = lines.collect();
        assert_eq!(lines.len(), messages.len(), "{said}");
        lines.into_iter()
    });
    let one = |_| {
        found
            .each_mut()
            .map(|lines| lines.next().expect("as many lines"))
    };
    messages.iter().map(one).collect()
}
