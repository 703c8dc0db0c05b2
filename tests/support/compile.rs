//! Compilation in tests: plans, lists of addresses, the command itself.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use blocklist_compile::compile::{self, Plan, Progress, Report, Seed};
use blocklist_compile::list::Declared;
use blocklist_filter::base::day::Day;
use blocklist_filter::filter::{Batch, Filter, Load, Record};

use super::{Said, Scratch};

/// The date of all builds.
pub(crate) const TODAY: Day = Day(20_400);

pub(crate) fn plan(folder: &Path, output: &str, inputs: &[&str]) -> Plan {
    let mut plan = Plan::new(
        folder.join(output),
        inputs.iter().map(|input| folder.join(input)).collect(),
    );
    plan.name = "test".to_owned();
    plan.seed = Seed::Fixed(0x5EED);
    plan.built = u64::from(TODAY.0) * 86_400;
    plan.resources.memory_bytes = 1 << 30;
    plan.resources.threads = 2;
    plan
}

pub(crate) fn build(plan: &Plan) -> Report {
    compile::build(plan, &Progress::new()).unwrap()
}

/// Returns a folder with these lists.
pub(crate) fn folder(lists: &[(&str, &str)]) -> Scratch {
    let folder = Scratch::new();
    for (name, content) in lists {
        folder.write(name, content);
    }
    folder
}

/// What is done with lists and filters in it.
impl Scratch {
    /// Returns the names of its files, as [`names`].
    pub(crate) fn names(&self) -> Vec<String> {
        names(self.path())
    }

    pub(crate) fn plan(&self, output: &str, inputs: &[&str]) -> Plan {
        plan(self.path(), output, inputs)
    }

    /// Builds a filter of these lists.
    #[track_caller]
    pub(crate) fn build(&self, output: &str, inputs: &[&str]) -> Report {
        build(&self.plan(output, inputs))
    }

    pub(crate) fn filter(&self, name: &str) -> Filter {
        Filter::open(&self.at(name), Load::Memory).unwrap()
    }

    pub(crate) fn records(&self, name: &str) -> Vec<Record> {
        records(&self.at(name))
    }

    /// Returns `blocklist-compile` in the folder, with these words.
    pub(crate) fn command(&self, words: &str) -> Command {
        let mut command = command(&super::words(words));
        command.current_dir(self.path());
        command
    }

    /// Runs `blocklist-compile` in the folder, with these words.
    #[track_caller]
    pub(crate) fn run(&self, words: &str) -> Said {
        Said::of(&mut self.command(words))
    }
}

/// Builds, and returns the error.
#[track_caller]
pub(crate) fn build_error(plan: &Plan) -> String {
    compile::build(plan, &Progress::new())
        .unwrap_err()
        .to_string()
}

pub(crate) fn records(path: &Path) -> Vec<Record> {
    let filter = Filter::open(path, Load::Disk).unwrap();
    let mut batch = Batch::default();
    let taken = filter.records().unwrap().take_before(None, &mut batch);
    taken.unwrap();
    batch.records().collect()
}

/// Declares tables with the columns email, added and expires, whose rows all count.
pub(crate) fn with_days() -> Declared {
    Declared {
        entry: vec!["email".to_owned()],
        all_rows: true,
        added_in: Some("added".to_owned()),
        expires_in: Some("expires".to_owned()),
        ..Declared::default()
    }
}

/// The same, as `list.toml`.
pub(crate) const LIST_WITH_DAYS: &str =
    "[read]\nentry = \"email\"\nrows = \"all\"\nadded_in = \"added\"\nexpires_in = \"expires\"\n";

/// Returns the names in a folder, sorted, without the reports of builds, which say what failed, too.
pub(crate) fn names(folder: &Path) -> Vec<String> {
    let mut names: Vec<_> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| !name.ends_with(".report"))
        .collect();
    names.sort();
    names
}

/// Returns distinct addresses, some in another spelling than the canonical one.
pub(crate) fn addresses(range: std::ops::Range<u32>) -> String {
    let written = |n: u32| match n % 5 {
        0 => format!("User.{n}@Example-{}.test", n % 13),
        1 => format!("<user{n}@host.example>"),
        2 => format!("Somebody <\"user{n}\"@host.example>"),
        3 => format!("@domain{n}.example"),
        _ => format!("user{n}@b\u{fc}cher.example"),
    };
    range.map(|n| written(n) + "\n").collect()
}

/// Returns `blocklist-compile` with these words.
pub(crate) fn command(words: &[&str]) -> Command {
    let mut command = super::compiler();
    command
        .args(words)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command
}
