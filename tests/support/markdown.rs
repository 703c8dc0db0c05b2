//! The code in a guide: its blocks, its words in backquotes, and what only the test runs.
//!
//! * `tests/machine/guides_booted.rs` runs a block marked `sh`, in a separate machine. A block marked
//!   `text` directly after it is its output: each line is found in the output, in this order, with
//!   `...` for any text.
//! * A comment `<!-- run` ... `-->` contains commands that a reader need not see: they prepare what
//!   the guide assumes, and check what it says.
//! * `# exit 1` at the end of a line: the exit code of that command.

use std::fs;
use std::path::{Path, PathBuf};

/// A part of a guide that a test uses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    /// A block: the word after its fence, and its content.
    Block { language: String, text: String },
    /// Commands that only the test runs.
    Hidden(String),
    /// Words in backquotes.
    Inline(String),
}

/// A part, and the line in which it begins.
#[derive(Clone, Debug)]
pub(crate) struct Placed {
    pub(crate) line: usize,
    pub(crate) part: Part,
}

/// Returns the repository, which contains the crate of this test.
pub(crate) fn root() -> &'static Path {
    let mut folders = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors();
    let root = folders.find(|folder| folder.join("docs").is_dir());
    root.expect("docs/ exists")
}

/// Returns README.md, SECURITY.md, CONTRIBUTING.md and everything in `docs/`, as paths below the
/// repository.
pub(crate) fn guides() -> Vec<PathBuf> {
    let mut guides: Vec<PathBuf> = ["README.md", "CONTRIBUTING.md", "SECURITY.md"]
        .map(PathBuf::from)
        .into();
    for entry in fs::read_dir(root().join("docs")).expect("docs/ exists") {
        let path = entry.expect("docs/ can be read").path();
        if path.extension().is_some_and(|extension| extension == "md") {
            guides.push(Path::new("docs").join(path.file_name().expect("a file")));
        }
    }
    guides.sort();
    guides
}

/// Reads a file of the repository.
pub(crate) fn read(path: &Path) -> String {
    fs::read_to_string(root().join(path))
        .unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Returns the parts of a guide in order.
pub(crate) fn parts(text: &str) -> Vec<Placed> {
    let mut parts = Vec::new();
    let mut lines = text.lines().zip(1..);
    while let Some((line, number)) = lines.next() {
        let mut until = |end: &str| -> String {
            let held = lines.by_ref().map(|(line, _)| line);
            held.take_while(|line| line.trim_start() != end)
                .map(|line| format!("{line}\n"))
                .collect()
        };
        let part = if let Some(language) = line.trim_start().strip_prefix("```") {
            let text = until("```");
            Part::Block {
                language: language.trim().to_owned(),
                text,
            }
        } else if line == "<!-- run" {
            Part::Hidden(until("-->"))
        } else {
            let inline = line.split('`').skip(1).step_by(2);
            parts.extend(inline.map(|words| Placed {
                line: number,
                part: Part::Inline(words.to_owned()),
            }));
            continue;
        };
        parts.push(Placed { line: number, part });
    }
    parts
}
