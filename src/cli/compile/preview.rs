//! `preview`: what each file is read as, and what would come of it, in words.

use std::fmt::{self, Write as _};
use std::path::Path;
use std::process::ExitCode;

use super::super::Done;
use super::super::output::{Output, say};
use super::args::PreviewArgs;
use crate::address::{Kind as EntryKind, escaped};
use crate::base::numbers::{counted, grouped};
use crate::compile::{self, Error, Plan, Progress, folder_of};
use crate::inspect::preview::{
    Against, FilePreview, Kind, Preview, Proposal, Rows, Survey, list_toml_of, preview, write,
};
use crate::list::{Refusal, Why};

/// Number of columns that are shown.
const COLUMNS: usize = 40;
/// Widest text of a row, and of a column's name, in characters.
const TEXT_CHARS: usize = 44;
const NAME_CHARS: usize = 36;
/// Number of reasons that are shown of each kind.
const REASONS: usize = 8;

/// Runs the command.
pub(super) fn run(args: &PreviewArgs, out: &mut Output) -> Done {
    if args.reading.rejects.is_some() {
        let why = "--rejects: preview writes no such file; use build";
        return Err(Error::Plan(why.to_owned()).into());
    }
    let path = &args.input;
    let folder = if path.is_dir() { path } else { folder_of(path) };
    let mut plan = Plan::new("preview.blf", Vec::new());
    plan.take(&compile::build_settings([&folder.to_owned()])?);
    args.reading.put_into(&mut plan);
    let seen = preview(path, &mut plan, args.against.as_deref(), &Progress::new())?;
    let over = over_limit(&seen, &plan);
    let mut text = String::new();
    for file in &seen.files {
        // Writing to a string does not fail.
        let _ = show(file, &plan, args.write, &mut text);
        text.push('\n');
    }
    let _ = show_rest(&seen, args.against.as_deref(), &mut text);
    out.line(format_args!("{}", text.trim_end()))?;
    if args.write {
        save(&seen, folder, out)?;
    }
    let is_refused = seen.is_refused() || over || seen.files.is_empty();
    Ok(ExitCode::from(u8::from(is_refused)))
}

/// Returns whether more rows of a file are rejected than a build allows.
fn over_limit(seen: &Preview, plan: &Plan) -> bool {
    seen.files.iter().any(|file| is_over(file, plan))
}

fn is_over(file: &FilePreview, plan: &Plan) -> bool {
    file.rows
        .as_ref()
        .is_some_and(|rows| plan.max_rejects.is_over(rows.rejects(), rows.entries()))
}

/// Adds the proposals to `list.toml`.
fn save(seen: &Preview, folder: &Path, out: &mut Output) -> Result<(), Box<dyn std::error::Error>> {
    let proposals: Vec<&Proposal> = seen
        .files
        .iter()
        .filter_map(|file| file.proposal.as_ref())
        .collect();
    let Some(file) = seen.files.first().filter(|_| !proposals.is_empty()) else {
        say(format_args!(
            "blocklist-compile: nothing to write: no file needs a new [[file]]"
        ));
        return Ok(());
    };
    write(folder, &proposals)?;
    let open = proposals.iter().filter(|proposal| proposal.is_open).count() as u64;
    let path = list_toml_of(file);
    out.line(format_args!(
        "{}: added {}{}",
        escaped(path.as_os_str().as_encoded_bytes()),
        counted(proposals.len() as u64, "[[file]]", "[[file]]"),
        match open {
            0 => String::from("; look through them, then preview again"),
            _ => format!("; {open} to complete: what is left as a comment is not decided"),
        },
    ))?;
    Ok(())
}

fn show(file: &FilePreview, plan: &Plan, writes: bool, text: &mut String) -> fmt::Result {
    let name = &file.file;
    match (&file.reading, &file.survey) {
        (Some((format, why)), survey) => {
            write!(text, "{name}: read as {format} ({})", why_shown(*why))?;
            survey
                .iter()
                .try_for_each(|survey| write!(text, "; {}", kind(survey)))?;
        }
        (None, Some(survey)) => write!(text, "{name}: {}", kind(survey))?,
        (None, None) => write!(text, "{name}: not read")?,
    }
    text.push('\n');
    if let Some(survey) = &file.survey {
        columns(survey, text)?;
    }
    if let Some(rows) = &file.rows {
        show_rows(rows, text)?;
    }
    match (&file.refusal, &file.rows) {
        (Some(refusal), _) => writeln!(text, "REFUSED: {}", mend(refusal))?,
        (
            None,
            Some(Rows {
                refused: Some(row), ..
            }),
        ) => {
            writeln!(
                text,
                "REFUSED at line {}: {}: {}",
                row.line,
                row.text,
                mend(&row.refusal)
            )?;
        }
        (None, Some(rows)) if is_over(file, plan) => writeln!(
            text,
            "REFUSED: {} rejected beside {}; at most {} may be, or a fifth while fewer than ten are",
            grouped(rows.rejects()),
            counted(rows.entries(), "entry", "entries"),
            plan.max_rejects,
        )?,
        (None, Some(rows)) if rows.listed == 0 => {
            writeln!(
                text,
                "No entry at all: a build with nothing else is an error."
            )?;
        }
        (None, _) => writeln!(text, "A build would read it.")?,
    }
    if let Some(proposal) = &file.proposal {
        propose(file, proposal, writes, text)?;
    }
    Ok(())
}

fn propose(
    file: &FilePreview,
    proposal: &Proposal,
    writes: bool,
    text: &mut String,
) -> fmt::Result {
    let path = list_toml_of(file);
    let path = escaped(path.as_os_str().as_encoded_bytes());
    match writes {
        true => writeln!(text, "To {path} comes:")?,
        false => writeln!(
            text,
            "Add this to {path} (--write does){}:",
            if proposal.is_open {
                " and complete it"
            } else {
                ""
            }
        )?,
    }
    for line in proposal.toml.lines() {
        writeln!(text, "   {line}")?;
    }
    writeln!(text, "Then: blocklist-compile preview {}", file.file)
}

/// Returns the text of a refusal, without the command that the user has just run.
fn mend(refusal: &Refusal) -> String {
    refusal.to_string()
}

fn why_shown(why: Why) -> String {
    match why {
        Why::Given => "as --format says".to_owned(),
        Why::Declared => "as list.toml says".to_owned(),
        Why::Profile(name) => format!("the export of {name}"),
        Why::Mark(mark) => format!("mark: {mark}"),
        Why::NoMark => "no mark of another format".to_owned(),
    }
}

/// Describes a table in a few words.
fn kind(survey: &Survey) -> String {
    let rows = |one, many| counted(survey.rows, one, many);
    let encoding = if survey.is_windows_1252 {
        ", Windows-1252"
    } else {
        ""
    };
    match survey.kind {
        Kind::Cells {
            separator,
            has_heading,
            ..
        } => {
            let separator = match separator {
                b'\t' => "tabs".to_owned(),
                other => format!("\"{}\"", char::from(other)),
            };
            let columns = counted(survey.columns.len() as u64, "column", "columns");
            let heading = if has_heading {
                "with a heading"
            } else {
                "without a heading"
            };
            format!(
                "a table of {columns} divided by {separator}, {heading}, {}{encoding}",
                rows("row", "rows")
            )
        }
        Kind::Json { one_a_line: true } => format!("JSON lines, {}", rows("document", "documents")),
        Kind::Json { one_a_line: false } => "JSON".to_owned(),
    }
}

fn columns(survey: &Survey, text: &mut String) -> fmt::Result {
    let shown = survey.columns.iter().take(COLUMNS);
    let names: Vec<String> = shown
        .clone()
        .map(|column| short(&escaped(column.name.as_bytes()).to_string(), NAME_CHARS))
        .collect();
    let width = names
        .iter()
        .map(|name| name.chars().count())
        .max()
        .unwrap_or(0)
        .max(6);
    let title = if matches!(survey.kind, Kind::Json { .. }) {
        "path"
    } else {
        "column"
    };
    writeln!(
        text,
        "   {title:<width$}    filled   entries  different  for example"
    )?;
    for (column, name) in shown.zip(&names) {
        let distinct = column
            .distinct()
            .map_or_else(|| "many".to_owned(), |count| grouped(count as u64));
        let examples = match column.values() {
            Some(values) => {
                let values = values.iter().filter(|value| !value.text.is_empty());
                let values: Vec<String> = values
                    .map(|value| {
                        format!(
                            "{} {}",
                            escaped(value.text.as_bytes()),
                            grouped(value.count)
                        )
                    })
                    .collect();
                values.join(", ")
            }
            None => column
                .samples
                .iter()
                .map(|sample| short(sample, 32))
                .collect::<Vec<_>>()
                .join("; "),
        };
        writeln!(
            text,
            "   {name:<width$}  {:>8}  {:>8}  {distinct:>9}  {examples}",
            grouped(column.filled),
            grouped(column.entries),
        )?;
    }
    let left = survey.columns.len().saturating_sub(COLUMNS);
    if left > 0 || survey.has_more {
        writeln!(text, "   and more, which are not shown")?;
    }
    Ok(())
}

fn show_rows(rows: &Rows, text: &mut String) -> fmt::Result {
    for sample in &rows.samples {
        let shown = short(&sample.text, TEXT_CHARS);
        writeln!(
            text,
            "{:>8}  {shown:<TEXT_CHARS$}  {}",
            grouped(sample.line),
            sample.outcome
        )?;
    }
    let rejects = rows.rejects();
    let mut parts = vec![format!("{} listed", grouped(rows.listed))];
    let mut part = |count: u64, what: &str| {
        if count > 0 {
            parts.push(format!("{} {what}", grouped(count)));
        }
    };
    if let Some(doubles) = rows.doubles {
        part(doubles, "of them double");
    }
    let percent = percent(rejects, rejects + rows.entries());
    part(rejects, &format!("rejected ({percent})"));
    part(
        rows.broad.values().sum(),
        "left out as too broad or protected",
    );
    part(rows.expired, "expired");
    part(rows.skipped.values().sum(), "skipped");
    part(rows.comments, "comments, headings or blank");
    writeln!(
        text,
        "{}: {}.",
        counted(rows.lines, "line", "lines"),
        parts.join(", ")
    )?;
    let kinds: Vec<String> = EntryKind::ALL
        .iter()
        .zip(rows.kinds)
        .filter(|(_, count)| *count > 0)
        .map(|(kind, count)| {
            let (one, many) = match kind {
                EntryKind::Mailbox => ("mailbox", "mailboxes"),
                EntryKind::LocalPart => ("local part", "local parts"),
                EntryKind::Domain => ("domain", "domains"),
                EntryKind::Subtree => ("subtree", "subtrees"),
            };
            counted(count, one, many)
        })
        .collect();
    if !kinds.is_empty() {
        writeln!(text, "Lists {}.", kinds.join(", "))?;
    }
    for (what, reasons) in [
        ("Rejected", &rows.rejected),
        ("Left out", &rows.broad),
        ("Skipped", &rows.skipped),
    ] {
        let mut reasons: Vec<_> = reasons.iter().collect();
        reasons.sort_by_key(|(_, count)| std::cmp::Reverse(**count));
        for (why, count) in reasons.iter().take(REASONS) {
            writeln!(text, "{what} {:>7}: {why}", grouped(**count))?;
        }
        if reasons.len() > REASONS {
            writeln!(text, "{what}: and for other reasons")?;
        }
    }
    let (dated, lines) = &rows.dated;
    if *dated > 0 {
        let lines: Vec<String> = lines.iter().map(|line| grouped(*line)).collect();
        writeln!(
            text,
            "{} with a date that ends nothing (line {}); only \"# expires 2026-12-24\" ends an entry.",
            counted(*dated, "comment", "comments"),
            lines.join(", "),
        )?;
    }
    Ok(())
}

fn show_rest(seen: &Preview, against: Option<&Path>, text: &mut String) -> fmt::Result {
    for file in &seen.passed_over {
        writeln!(text, "Not read: {file}")?;
    }
    if seen.files.is_empty() {
        writeln!(text, "No list to read.")?;
    }
    let (Some(path), Some(Against { more, first, less })) = (against, &seen.against) else {
        return Ok(());
    };
    let path = escaped(path.as_os_str().as_encoded_bytes());
    write!(text, "Against {path}: {} more", grouped(*more))?;
    if !first.is_empty() {
        let end = if *more > first.len() as u64 {
            ", ..."
        } else {
            ""
        };
        write!(text, " ({}{end})", first.join(", "))?;
    }
    writeln!(text, ", {} less", grouped(less.values().sum()))?;
    for (source, count) in less {
        writeln!(text, "   no longer: {} of {source}", grouped(*count))?;
    }
    if seen.is_refused() {
        writeln!(text, "   (a refused file counts as empty here)")?;
    }
    Ok(())
}

#[allow(clippy::cast_precision_loss, reason = "shown with one digit")]
fn percent(part: u64, all: u64) -> String {
    format!("{:.1} %", part as f64 * 100.0 / all.max(1) as f64)
}

/// Cuts a text to a number of characters.
fn short(text: &str, most: usize) -> String {
    if text.chars().count() <= most {
        return text.to_owned();
    }
    let start: String = text.chars().take(most - 3).collect();
    format!("{start}...")
}
