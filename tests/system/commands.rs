//! The output and effect of both programs, as a person sees them: each file in `tests/commands/` is
//! a short session in its own folder.
//!
//! ```text
//! program = "blocklist-compile"
//! [files]                     files that exist at the start; `.gz` is packed, `NAME/` an empty folder;
//!                             a line with `{0..900}` is there with each of these numbers; `-> NAME` is
//!                             a symbolic link
//! cases = [["..."], ...]      the session is played with each of these, which `@1`, `@2` stand for
//! needs = ["strace", "root"]  programs, and rights, without which it is left out
//! [[step]]
//! write = { NAME = "text" }   files that are written before it, whole, by rename
//! serve = "c.toml"            the daemon is started with this configuration, and the one before it ended;
//!                             "" only ends it. It listens at `m.sock`; `log/daemon.log` is its log; a file
//!                             `status` of the one before is removed
//! background = "exec ..."     a script that runs until the end of the session
//! becomes = "a@b reject"      its verdict on this sender, as soon as it has seen what has changed: one a
//!                             line; also `a@b | From: c@d + Sender: e@f | tag`, or with recipients before it
//! mail = "a@b reject"         the same, at once; a line with `{0..100}` stands for so many
//! log = ["ERROR", "x.blf"]    a line of its log has all of these, at the latest soon
//! program = "..."             if it is another one than that of the session
//! run = "query x.blf a@b"     words of the command, separated by spaces; one command a line, with
//!                             the same result
//! sh = "cp a b"               a script in place of `run`, with both programs, the functions in
//!                             `tests/support/session.sh`, and the repository as `$ROOT`
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
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Mutex;

use blocklist_milter::demo::peer::Peer;
use serde::Deserialize;
use serde_json::Value;

use crate::support::check::packed;
use crate::support::compile::folder;
use crate::support::rig::{OK, letter, verdict};
use crate::support::site::{Daemon, Socket};
use crate::support::tools::Killed;
use crate::support::{
    Said, Scratch, compiler, installed, is_root, milter, root, until_so, usable, words,
};

const SIGPIPE: i32 = 13;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Session {
    #[serde(default)]
    program: Program,
    #[serde(default)]
    needs: Vec<String>,
    #[serde(default)]
    cases: Vec<Vec<String>>,
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
    serve: Option<String>,
    background: String,
    program: Option<Program>,
    run: String,
    sh: String,
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
    becomes: String,
    mail: String,
    log: Vec<String>,
}

/// `SESSION=NAME` plays those with this in their names alone.
#[test]
fn sessions_go_as_written() {
    let wanted = std::env::var("SESSION").unwrap_or_default();
    let files = fs::read_dir(root("tests/commands")).unwrap();
    let names = files.map(|file| file.unwrap().file_name().into_string().unwrap());
    let names: Vec<String> = names.filter(|name| name.contains(&wanted)).collect();
    assert!(names.len() >= 17 || !wanted.is_empty(), "{names:?}");
    let names = Mutex::new(names.into_iter());
    let next = || names.lock().unwrap().next();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                while let Some(name) = next() {
                    play_file(&name);
                }
            });
        }
    });
}

fn play_file(name: &str) {
    let text = fs::read_to_string(root("tests/commands").join(name)).unwrap();
    let parsed = |text: &str| -> Session {
        toml::from_str(text).unwrap_or_else(|error| panic!("{name}: {error}"))
    };
    let session = parsed(&text);
    let has = |name: &String| match &**name {
        "root" => usable("root", (!is_root()).then(|| "another user".to_owned())),
        program => installed(program),
    };
    if !session.needs.iter().all(has) {
        return;
    }
    for case in &session.cases {
        let mut text = text.clone();
        for (number, meaning) in (1..).zip(case) {
            // As in a basic string of TOML, too.
            let quoted = Value::from(&**meaning).to_string();
            text = text.replace(&format!("@{number}"), &quoted[1..quoted.len() - 1]);
        }
        play(&format!("{name}, {case:?}"), &parsed(&text));
    }
    if session.cases.is_empty() {
        play(name, &session);
    }
}

fn play(name: &str, session: &Session) {
    assert!(!session.step.is_empty(), "{name}: no step");
    let folder = folder(&[]);
    write(&folder, &session.files);
    let (mut daemon, mut running) = (None, Vec::new());
    for (number, step) in (1..).zip(&session.step) {
        let at = format!("{name}: step {number}");
        write(&folder, &step.write);
        if let Some(config) = &step.serve {
            if let Some(daemon) = daemon.take().map(Daemon::terminate) {
                assert!(daemon.success(), "{at}: {daemon}");
            }
            daemon = (!config.is_empty()).then(|| serve(&folder, config, step));
        }
        if !step.background.is_empty() {
            let mut command = shell(&[], &step.background);
            command.current_dir(folder.path());
            command.stdin(Stdio::null()).stdout(Stdio::null());
            running.push(Killed(command.spawn().unwrap()));
        }
        let program = match step.program.unwrap_or(session.program) {
            Program::BlocklistCompile => compiler,
            Program::BlocklistMilter => milter,
        };
        for line in step.run.trim().lines() {
            let mut command = program();
            command.args(words(line));
            check(&format!("{at}: {line}"), &folder, step, command);
        }
        if !step.sh.is_empty() {
            // It may wait for something that does not come.
            let command = shell(&["timeout", "120"], &step.sh);
            check(&at, &folder, step, command);
        }
        for line in step.becomes.trim().lines() {
            until_so(&format!("{at}: {line}"), || {
                is_judged(&folder, line).is_ok()
            });
        }
        for line in numbered(&step.mail).trim().lines() {
            assert_eq!(is_judged(&folder, line), Ok(()), "{at}: {line}");
        }
        if !step.log.is_empty() {
            let words: Vec<&str> = step.log.iter().map(String::as_str).collect();
            daemon.as_ref().expect("it runs").logged(&words);
        }
    }
}

fn write(folder: &Scratch, files: &Files) {
    let dir = folder.path().to_str().unwrap();
    for (file, content) in files {
        let content = numbered(content).replace("@DIR@", dir);
        if let Some(target) = content.strip_prefix("-> ") {
            symlink(target, folder.at(file)).unwrap();
        } else if file.ends_with('/') {
            fs::create_dir_all(folder.at(file)).unwrap();
        } else {
            let bytes = match file.ends_with(".gz") {
                true => packed(content.as_bytes()),
                false => content.into_bytes(),
            };
            let aside = folder.write(&format!("{file}.aside"), bytes);
            fs::rename(aside, folder.at(file)).unwrap();
        }
    }
}

/// Starts the daemon. Its log is apart: each line would be a hint to look for changes.
fn serve(folder: &Scratch, config: &str, step: &Step) -> Daemon {
    let log = folder.write("log/daemon.log", "");
    let _ = fs::remove_file(folder.at("status"));
    let mut command = milter();
    command.args(["--config", config]).envs(&step.env);
    command.current_dir(folder.path());
    Daemon::spawn(command, &Socket::Unix(folder.at("m.sock")), log)
}

/// Returns a script as a command, started by another one.
fn shell(starter: &[&str], script: &str) -> Command {
    let built = Path::new(env!("CARGO_BIN_EXE_blocklist-milter")).parent();
    let path = std::env::var("PATH").unwrap();
    let path = format!("{}:{path}", built.unwrap().display());
    let functions = fs::read_to_string(root("tests/support/session.sh")).unwrap();
    let script = functions + script;
    let all = [starter, &["sh", "-euc", &script]].concat();
    let mut command = Command::new(all[0]);
    command.args(&all[1..]).env("PATH", path);
    command.env("ROOT", root("")).env("TZ", "UTC");
    command
}

/// Sends a message; an error is another verdict than that of the line.
fn is_judged(folder: &Scratch, line: &str) -> Result<(), String> {
    let cells: Vec<&str> = line.split('|').map(str::trim).collect();
    let (sender, fields, to, expected) = match cells[..] {
        [sender, fields, to, expected] => (sender, fields, to, expected),
        [sender, fields, expected] => (sender, fields, "<bob@our.example>", expected),
        _ => {
            let (sender, expected) = line.split_once(' ').expect("a sender and a verdict");
            (sender, OK, "<bob@our.example>", expected)
        }
    };
    let fields = fields.split(" + ").filter(|field| !field.is_empty());
    let sender = format!("<{}>", sender.trim_matches(['<', '>']));
    let mut letter = letter(&sender, &fields.collect::<Vec<_>>());
    letter.recipients = words(to).into_iter().map(Into::into).collect();
    let mut peer = Peer::unix(&folder.at("m.sock")).map_err(|error| error.to_string())?;
    let done = peer.stranger().and_then(|_| peer.deliver(&letter));
    let found = verdict(&done.map_err(|error| error.to_string())?);
    (found == expected).then_some(()).ok_or(found)
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
fn check(at: &str, folder: &Scratch, step: &Step, mut command: Command) {
    let bytes = |files: &[String]| files.iter().map(|file| folder.read(file)).collect();
    let before: Vec<_> = bytes(&step.unchanged);
    command.envs(&step.env);
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
