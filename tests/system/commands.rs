//! The output and effect of both programs, as a person sees them: each file in `tests/commands/` is
//! a short session in its own folder.
//!
//! ```text
//! program = "blocklist-compile"
//! [files]                     files that exist at the start; `.gz` is packed, `NAME/` an empty folder;
//!                             a line with `{0..900}` is there with each of these numbers; `-> NAME` is
//!                             a symbolic link
//! [[step]]
//! write = { NAME = "text" }   files that are written before it
//! program = "..."             if it is another one than that of the session
//! run = "query x.blf a@b"     words of the command, separated by spaces; one command a line, with
//!                             the same result
//! env = { NAME = "value" }    environment variables
//! stdin = "..."               its input
//! exit = 0                    its exit code
//! unread = true               instead: nobody reads its output, so it ends by SIGPIPE, silently
//! stdout = """..."""          its whole output (white space at both ends does not matter)
//! contains = ["..."]          parts of its output; stderr, stderr_contains: the same for errors
//! lacks = ["..."]             what neither its output nor its errors contain
//! json = '{...}'              its output as JSON, one or several; objects may have further fields;
//!                             "<90" is a smaller number, ">90" a larger one
//! present = [], absent = []   files that exist afterwards, or do not
//! unchanged = []              files that it leaves as they were
//! same = []                   files that have the same bytes afterwards
//! ```

use std::collections::BTreeMap;
use std::fs;
use std::ops::Range;
use std::os::unix::fs::symlink;
use std::process::Stdio;

use serde::Deserialize;
use serde_json::Value;

use crate::support::check::packed;
use crate::support::compile::{Dir, folder};
use crate::support::{Said, compiler, milter, root, words};

const SIGPIPE: i32 = 13;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Session {
    #[serde(default)]
    program: Program,
    #[serde(default)]
    files: Files,
    step: Vec<Step>,
}

type Files = BTreeMap<String, String>;

#[derive(Clone, Copy, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Program {
    #[default]
    BlocklistCompile,
    BlocklistMilter,
}

#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Step {
    write: Files,
    program: Option<Program>,
    run: String,
    env: BTreeMap<String, String>,
    stdin: String,
    exit: i32,
    unread: bool,
    stdout: Option<String>,
    stderr: Option<String>,
    contains: Vec<String>,
    stderr_contains: Vec<String>,
    lacks: Vec<String>,
    json: Option<String>,
    present: Vec<String>,
    absent: Vec<String>,
    unchanged: Vec<String>,
    same: Vec<String>,
}

#[test]
fn sessions_go_as_written() {
    let mut sessions = 0;
    for entry in fs::read_dir(root("tests/commands")).unwrap() {
        let path = entry.unwrap().path();
        let session: Session = toml::from_str(&fs::read_to_string(&path).unwrap())
            .unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        play(&path.file_name().unwrap().to_string_lossy(), &session);
        sessions += 1;
    }
    assert!(sessions >= 17, "{sessions}");
}

fn play(name: &str, session: &Session) {
    assert!(!session.step.is_empty(), "{name}: no step");
    let folder = folder(&[]);
    let write = |files: &Files| {
        for (file, content) in files {
            let content = numbered(content);
            if let Some(target) = content.strip_prefix("-> ") {
                symlink(target, folder.at(file)).unwrap();
            } else if file.ends_with('/') {
                fs::create_dir(folder.at(file)).unwrap();
            } else if file.ends_with(".gz") {
                folder.write(file, packed(content.as_bytes()));
            } else {
                folder.write(file, content);
            }
        }
    };
    write(&session.files);
    for step in &session.step {
        write(&step.write);
        assert!(!step.run.trim().is_empty(), "{name}: a step without run");
        for line in step.run.trim().lines() {
            let program = step.program.unwrap_or(session.program);
            check(&format!("{name}: {line}"), &folder, program, step, line);
        }
    }
}

/// Returns the text with each line that has `{0..900}` written with each of these numbers.
fn numbered(text: &str) -> String {
    fn parts(line: &str) -> Option<(&str, Range<u32>, &str)> {
        let (before, rest) = line.split_once('{')?;
        let (range, after) = rest.split_once('}')?;
        let (from, to) = range.split_once("..")?;
        Some((before, from.parse().ok()?..to.parse().ok()?, after))
    }
    let line = |line| match parts(line) {
        Some((before, numbers, after)) => numbers.map(|n| format!("{before}{n}{after}")).collect(),
        None => line.to_owned(),
    };
    text.split_inclusive('\n').map(line).collect()
}

/// Runs one command of a step, and checks its result.
fn check(at: &str, folder: &Dir, program: Program, step: &Step, line: &str) {
    let bytes = |files: &[String]| files.iter().map(|file| folder.read(file)).collect();
    let before: Vec<_> = bytes(&step.unchanged);
    let mut command = match program {
        Program::BlocklistCompile => compiler(),
        Program::BlocklistMilter => milter(),
    };
    command.args(words(line)).envs(&step.env);
    command.current_dir(folder.path()).stdin(Stdio::null());
    if step.unread {
        let (reader, unread) = std::io::pipe().unwrap();
        drop(reader);
        command.stdout(unread);
    } else {
        command.stdout(Stdio::piped());
    }
    let said = Said::written(&mut command, step.stdin.as_bytes());
    if step.unread {
        assert_eq!(said.signal, Some(SIGPIPE), "{at}\n{}", said.err);
        assert_eq!(said.err, "", "{at}");
    } else {
        assert_eq!(said.code, Some(step.exit), "{at}\n{}", said.all());
    }
    let (stdout, stderr) = (said.out, said.err);
    for (got, whole, parts) in [
        (&stdout, &step.stdout, &step.contains),
        (&stderr, &step.stderr, &step.stderr_contains),
    ] {
        if let Some(whole) = whole {
            assert_eq!(got.trim(), whole.trim(), "{at}");
        }
        for part in parts {
            assert!(got.contains(part.as_str()), "{at}: no {part:?} in\n{got}");
        }
        for part in &step.lacks {
            assert!(!got.contains(part.as_str()), "{at}: {part:?} in\n{got}");
        }
    }
    if let Some(expected) = &step.json {
        let [found, expected] = [&stdout, expected].map(|text| {
            let documents = serde_json::Deserializer::from_str(text).into_iter::<Value>();
            documents.collect::<Result<Value, _>>().expect("JSON")
        });
        assert!(has_fields(&found, &expected), "{at}: {found:#}");
    }
    for (files, there) in [(&step.present, true), (&step.absent, false)] {
        for file in files {
            assert_eq!(folder.at(file).exists(), there, "{at}: {file}");
        }
    }
    assert!(
        before == bytes(&step.unchanged),
        "{at}: {:?}",
        step.unchanged
    );
    assert_ne!(step.same.len(), 1, "{at}: the same as what?");
    let same = bytes(&step.same);
    assert!(
        same.windows(2).all(|two| two[0] == two[1]),
        "{at}: {:?}",
        step.same
    );
}

/// Returns whether a value is the expected one, but for further fields of objects.
fn has_fields(found: &Value, expected: &Value) -> bool {
    match (found, expected) {
        (Value::Array(found), Value::Array(expected)) => {
            let mut pairs = found.iter().zip(expected);
            found.len() == expected.len() && pairs.all(|(found, one)| has_fields(found, one))
        }
        (Value::Object(found), Value::Object(expected)) => expected
            .iter()
            .all(|(name, one)| found.get(name).is_some_and(|found| has_fields(found, one))),
        (Value::Number(found), Value::String(bound)) => {
            let found = found.as_u64().expect("a whole number");
            let (sign, bound) = bound.split_at(1);
            let bound = bound.parse().expect("a number");
            sign == "<" && found < bound || sign == ">" && found > bound
        }
        _ => found == expected,
    }
}
