//! The output and effect of both programs, as a person sees them: each file in `tests/commands/` is
//! a short session in its own folder.
//!
//! ```text
//! program = "blocklist-compile"
//! [files]                     files that exist at the start
//! [[step]]
//! run = "query x.blf a@b"     words of the command, separated by spaces
//! env = { NAME = "value" }    environment variables
//! stdin = "..."               its input
//! exit = 0                    its exit code
//! unread = true               instead: nobody reads its output, so it ends by SIGPIPE, silently
//! stdout = """..."""          its whole output (white space at both ends does not matter)
//! contains = ["..."]          parts of its output; stderr, stderr_contains: the same for errors
//! present = [], absent = []   files that exist afterwards, or do not
//! ```

use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};

use serde::Deserialize;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Session {
    #[serde(default)]
    program: Program,
    #[serde(default)]
    files: BTreeMap<String, String>,
    step: Vec<Step>,
}

#[derive(Clone, Copy, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Program {
    #[default]
    BlocklistCompile,
    BlocklistMilter,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Step {
    run: String,
    #[serde(default)]
    env: BTreeMap<String, String>,
    #[serde(default)]
    stdin: String,
    #[serde(default)]
    exit: i32,
    #[serde(default)]
    unread: bool,
    stdout: Option<String>,
    stderr: Option<String>,
    #[serde(default)]
    contains: Vec<String>,
    #[serde(default)]
    stderr_contains: Vec<String>,
    #[serde(default)]
    present: Vec<String>,
    #[serde(default)]
    absent: Vec<String>,
}

#[test]
fn sessions_go_as_written() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/commands");
    let mut sessions = 0;
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let session: Session = toml::from_str(&fs::read_to_string(&path).unwrap())
            .unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        play(&path.file_name().unwrap().to_string_lossy(), &session);
        sessions += 1;
    }
    assert!(sessions > 2);
}

fn play(name: &str, session: &Session) {
    let folder = tempfile::tempdir().unwrap();
    for (file, content) in &session.files {
        let path = folder.path().join(file);
        fs::create_dir_all(path.parent().expect("in the folder")).unwrap();
        fs::write(path, content).unwrap();
    }
    for step in &session.step {
        let at = format!("{name}: {}", step.run);
        let (status, stdout, stderr) = run(session.program, folder.path(), step);
        if step.unread {
            assert_eq!(status.signal(), Some(SIGPIPE), "{at}\n{stderr}");
            assert_eq!(stderr, "", "{at}");
            continue;
        }
        assert_eq!(status.code(), Some(step.exit), "{at}\n{stdout}{stderr}");
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
        }
        for (files, there) in [(&step.present, true), (&step.absent, false)] {
            for file in files {
                assert_eq!(folder.path().join(file).exists(), there, "{at}: {file}");
            }
        }
    }
}

const SIGPIPE: i32 = 13;

fn run(program: Program, folder: &Path, step: &Step) -> (ExitStatus, String, String) {
    let mut command = Command::new(match program {
        Program::BlocklistCompile => env!("CARGO_BIN_EXE_blocklist-compile"),
        Program::BlocklistMilter => env!("CARGO_BIN_EXE_blocklist-milter"),
    });
    command
        .args(step.run.split_whitespace())
        .envs(&step.env)
        .current_dir(folder)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    if step.unread {
        let (reader, unread) = std::io::pipe().unwrap();
        drop(reader);
        command.stdout(unread);
    }
    let mut child = command.spawn().unwrap();
    // A command that does not read its input may have closed it.
    let _ = child.stdin.take().unwrap().write_all(step.stdin.as_bytes());
    let done = child.wait_with_output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (done.status, text(&done.stdout), text(&done.stderr))
}
