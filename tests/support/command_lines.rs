//! The command lines of our programs in README.md, `docs/`, the manual pages, scripts and units.

use std::fs;

use clap::Command;
use clap::error::ErrorKind;

use super::markdown::{Part, guides, parts, read, root};

/// One of our command lines in a document: its place, and its words.
type Shown = (String, Vec<String>);

/// Returns the error in a command line, if there is one. In running text a command may be
/// incomplete: `blocklist-compile add`.
pub(crate) fn fault(words: &[String], whole: bool, ours: &[Command]) -> Option<String> {
    let command = ours.iter().find(|ours| ours.get_name() == words[0]);
    let command = command.expect("one of ours").clone();
    // A shell expands a pattern to several files.
    let expanded = words.iter().flat_map(|word| {
        let times = if word.contains('*') { 2 } else { 1 };
        std::iter::repeat_n(word, times)
    });
    let error = command.try_get_matches_from(expanded).err()?;
    match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => None,
        ErrorKind::MissingRequiredArgument | ErrorKind::MissingSubcommand if !whole => None,
        _ => Some(error.to_string()),
    }
}

/// Returns our commands in a piece of shell code: split at blanks and quotes, up to the end of each
/// command. `$OPTIONS` stands for any options.
pub(crate) fn commands(shell: &str, ours: &[Command]) -> Vec<Vec<String>> {
    let mut found = Vec::new();
    let shell = shell.replace("\\\n", " ").replace("$OPTIONS", "");
    for line in shell.lines() {
        let mut words: Vec<String> = Vec::new();
        let mut all = Vec::new();
        let mut word = String::new();
        let (mut quote, mut begun) = (None, false);
        let mut characters = line.chars().peekable();
        while let Some(character) = characters.next() {
            match (quote, character) {
                (Some(open), _) if character == open => quote = None,
                (Some(_), _) => word.push(character),
                (None, '\'' | '"') => (quote, begun) = (Some(character), true),
                (None, '#') if word.is_empty() => break,
                (None, '>' | '<' | '|' | ';' | '&' | '(' | ')') | (None, ' ' | '\t') => {
                    if begun || !word.is_empty() {
                        words.push(std::mem::take(&mut word));
                        begun = false;
                    }
                    if !matches!(character, ' ' | '\t') {
                        all.push(std::mem::take(&mut words));
                    }
                    // The file of a redirection is not an argument.
                    if matches!(character, '>' | '<') {
                        while characters.next_if(|next| !next.is_whitespace()).is_some() {}
                    }
                }
                (None, _) => word.push(character),
            }
        }
        if begun || !word.is_empty() {
            words.push(word);
        }
        all.push(words);
        found.extend(all.iter().filter_map(|words| of_ours(words, ours)));
    }
    found
}

/// Returns the words from the program's name on, also after `runuser -u NAME --` or
/// `VARIABLE=value`.
fn of_ours(words: &[String], ours: &[Command]) -> Option<Vec<String>> {
    let begin = match words.first()?.as_str() {
        "runuser" => words.iter().position(|word| word == "--")? + 1,
        "exec" | "!" | "if" | "until" | "sudo" => 1,
        _ => words.iter().position(|word| !word.contains('='))?,
    };
    let mut words = words.get(begin..)?.to_vec();
    let name = words.first()?.rsplit('/').next()?;
    let name = ours
        .iter()
        .map(Command::get_name)
        .find(|ours| *ours == name)?;
    words[0] = name.to_owned();
    (words.len() > 1).then_some(words)
}

/// Returns the command lines in a text as [`Shown`] at this place.
fn shown_at(at: &str, text: &str, ours: &[Command]) -> Vec<Shown> {
    let commands = commands(text, ours).into_iter();
    commands.map(|words| (at.to_owned(), words)).collect()
}

/// Returns every one of our command lines in the documents, and whether each is whole.
fn shown(ours: &[Command]) -> Vec<(Shown, bool)> {
    let mut shown = Vec::new();
    for guide in guides() {
        for placed in parts(&read(&guide)) {
            let at = format!("{}:{}", guide.display(), placed.line);
            let (text, whole) = match placed.part {
                Part::Block { language, text } if language != "text" => (text, true),
                Part::Hidden(text) => (text, true),
                Part::Inline(text) => (text, false),
                Part::Block { .. } => continue,
            };
            let found = shown_at(&at, &text, ours).into_iter();
            shown.extend(found.map(|found| (found, whole)));
        }
    }
    for folder in "man systemd fetch lists/disposable lib .".split(' ') {
        let folder = root().join("contrib").join(folder);
        let whole = folder.ends_with("man");
        for entry in fs::read_dir(folder).expect("the folder is there") {
            let path = entry.expect("it can be read").path();
            let Ok(text) = fs::read_to_string(&path) else {
                continue;
            };
            let text: String = if whole {
                // Examples; the text before them is generated from the command line itself.
                let examples = text.split(".nf\n").skip(1);
                examples
                    .filter_map(|part| part.split(".fi").next())
                    .collect()
            } else {
                let lines = text.lines().map(|line| line.trim_start_matches(['#', ' ']));
                let lines = lines.map(|line| line.replace("ExecStart=", "").replace("%f", "name"));
                lines.map(|line| line + "\n").collect()
            };
            let text = text.replace("\\-", "-").replace("\\\\", "\\");
            let mut found = shown_at(&path.display().to_string(), &text, ours);
            let is_command =
                |word: &str| word.starts_with(|c: char| c == '-' || c.is_ascii_lowercase());
            found.retain(|(_, words)| whole || is_command(&words[1]));
            shown.extend(found.into_iter().map(|found| (found, whole)));
        }
    }
    shown
}

/// Returns the number of command lines, and their errors.
pub(crate) fn faults(ours: &[Command]) -> (usize, Vec<String>) {
    let shown = shown(ours);
    let faults = shown.iter().filter_map(|((at, words), whole)| {
        let fault = fault(words, *whole, ours)?;
        Some(format!("{at}: {}\n{fault}", words.join(" ")))
    });
    (shown.len(), faults.collect())
}
