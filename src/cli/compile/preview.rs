//! `preview`: what each file is read as, and what would come of it, in words.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;
use std::process::ExitCode;

use super::super::Done;
use super::super::output::{Output, say};
use super::args::PreviewArgs;
use crate::address::{Kind as EntryKind, escaped};
use crate::base::numbers::{counted, grouped};
use crate::compile::{self, Error, Plan, Progress, folder_of};
use crate::inspect::preview::{
    Column, FilePreview, First, Kind, Preview, Proposal, Rows, Survey, preview, write,
};
use crate::list::{MaxRejects, Why};

/// Number of columns, and of reasons of each kind, that are shown.
const COLUMNS: usize = 40;
const REASONS: usize = 8;
/// Widest text of a row, of a column's name, and of an example, in characters.
const TEXT_CHARS: usize = 44;
const NAME_CHARS: usize = 36;
const EXAMPLE_CHARS: usize = 32;

/// Runs the command.
pub(super) fn run(args: &PreviewArgs, out: &mut Output) -> Done {
    let path = &args.input;
    let folder = if path.is_dir() { path } else { folder_of(path) };
    let mut plan = Plan::new("preview.blf", Vec::new());
    plan.take(&compile::build_settings([&folder.to_owned()])?);
    args.reading.put_into(&mut plan);
    let seen = preview(path, &mut plan, args.against.as_deref(), &Progress::new())?;
    let saved = if args.write { save(&seen) } else { Ok(()) };
    let shown = Shown {
        seen: &seen,
        limit: plan.max_rejects,
        has_written: args.write && saved.is_ok(),
        against: args.against.as_deref(),
    };
    out.line(format_args!("{}", shown.to_string().trim_end()))?;
    saved?;
    // What has been written counts from now on.
    let is_mended = |file: &FilePreview| {
        let rows = file.proposal.as_ref().and_then(|found| found.rows.as_ref());
        args.write && rows.is_some_and(|rows| !rows.is_refused())
    };
    let is_refused = seen.files.is_empty()
        || (seen.files.iter()).any(|file| file.is_refused() && !is_mended(file));
    Ok(ExitCode::from(u8::from(is_refused)))
}

/// Adds the proposals to `list.toml`.
fn save(seen: &Preview) -> Result<(), Error> {
    let proposals = seen.files.iter().filter_map(|file| file.proposal.as_ref());
    let proposals: Vec<&Proposal> = proposals.collect();
    if proposals.is_empty() {
        let why = "nothing to write: no file needs a new [[file]]";
        say(format_args!("blocklist-compile: {why}"));
        return Ok(());
    }
    write(&seen.list_toml, &proposals)
}

/// What was seen, in words.
struct Shown<'a> {
    seen: &'a Preview,
    limit: MaxRejects,
    has_written: bool,
    against: Option<&'a Path>,
}

impl fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for file in &self.seen.files {
            self.file(file, f)?;
            writeln!(f)?;
        }
        for file in &self.seen.passed_over {
            writeln!(f, "Not read: {file}")?;
        }
        if self.seen.files.is_empty() {
            writeln!(f, "No list to read.")?;
        }
        self.against(f)
    }
}

impl Shown<'_> {
    fn file(&self, file: &FilePreview, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", file.file)?;
        match &file.reading {
            Some((format, why)) => write!(f, "read as {format} ({})", why_shown(*why))?,
            None if file.survey.is_none() => write!(f, "not read")?,
            None => {}
        }
        if let Some(survey) = &file.survey {
            let comma = if file.reading.is_some() { "; " } else { "" };
            writeln!(f, "{comma}{}", kind(survey))?;
            columns(survey, f)?;
        } else {
            writeln!(f)?;
        }
        if let Some(rows) = &file.rows {
            self.rows(rows, f)?;
        }
        if let Some(refusal) = &file.refusal {
            writeln!(f, "REFUSED: {refusal}.")?;
        }
        let path = path_shown(&self.seen.list_toml);
        let Some(proposal) = &file.proposal else {
            if file.refusal.is_some() && file.survey.is_some() {
                writeln!(f, "{path} has a [[file]] about it: complete that.")?;
            }
            return Ok(());
        };
        match self.has_written {
            true => write!(f, "Added to {path}")?,
            false => write!(f, "Add this to {path} (preview --write does it)")?,
        }
        let open = if proposal.is_open {
            "; complete it"
        } else {
            ""
        };
        writeln!(f, "{open}:")?;
        for line in proposal.toml.lines() {
            writeln!(f, "   {line}")?;
        }
        let Some(rows) = &proposal.rows else {
            return writeln!(f, "Until then, the file is refused.");
        };
        writeln!(f, "With it:")?;
        self.rows(rows, f)
    }

    /// Shows some rows, the totals, and whether a build would use them.
    fn rows(&self, rows: &Rows, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for sample in &rows.samples {
            let line = format!(
                "{:>8}  {:<TEXT_CHARS$}  {:<8}  {}",
                grouped(sample.line),
                short(&sample.text, TEXT_CHARS),
                sample.outcome,
                sample.detail,
            );
            writeln!(f, "{}", line.trim_end())?;
        }
        let rejects = rows.rejects();
        let mut parts = vec![format!("{} listed", grouped(rows.listed))];
        let doubles = rows
            .kinds
            .map(|kinds| rows.listed.saturating_sub(kinds.iter().sum()));
        for (count, what) in [
            (doubles.unwrap_or(0), "of them double"),
            (rejects, "rejected"),
            (
                rows.broad.values().sum(),
                "left out as too broad or protected",
            ),
            (rows.expired, "expired"),
            (rows.skipped.values().sum(), "skipped"),
            (rows.comments, "comments, headings or blank"),
        ] {
            if count > 0 {
                parts.push(format!("{} {what}", grouped(count)));
            }
        }
        let lines = counted(rows.lines, "line", "lines");
        writeln!(f, "{lines}: {}.", parts.join(", "))?;
        kinds(rows, f)?;
        reasons("Rejected", &rows.rejected, f)?;
        reasons("Left out", &rows.broad, f)?;
        reasons("Skipped", &rows.skipped, f)?;
        let (dated, lines) = &rows.dated;
        if *dated > 0 {
            let lines: Vec<String> = lines.iter().map(|line| grouped(*line)).collect();
            let comments = counted(*dated, "comment", "comments");
            writeln!(
                f,
                "{comments} with a date that ends nothing (line {}); only \"# expires 2026-12-24\" ends an entry.",
                lines.join(", "),
            )?;
        }
        match &rows.refused {
            Some(row) => {
                let (line, refusal) = (row.line, &row.refusal);
                match row.text.as_str() {
                    "" => writeln!(f, "REFUSED at line {line}: {refusal}."),
                    text => writeln!(f, "REFUSED at line {line}: \"{text}\": {refusal}."),
                }
            }
            None if rows.has_too_many_rejects => writeln!(
                f,
                "REFUSED: {} rejected beside {}; at most {} may be, or a fifth while fewer than ten are.",
                grouped(rejects),
                counted(rows.entries(), "entry", "entries"),
                self.limit,
            ),
            None if rows.listed == 0 => writeln!(f, "It lists nobody."),
            None => writeln!(f, "A build would use it."),
        }
    }

    fn against(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (Some(path), Some(found)) = (self.against, &self.seen.against) else {
            return Ok(());
        };
        let (path, more) = (path_shown(path), grouped(found.more));
        write!(f, "Against {path}: {more} more")?;
        if !found.first.is_empty() {
            let has_more = found.more > found.first.len() as u64;
            let end = if has_more { ", ..." } else { "" };
            write!(f, " ({}{end})", found.first.join(", "))?;
        }
        writeln!(f, ", {} less", grouped(found.less.values().sum()))?;
        for (source, count) in &found.less {
            writeln!(f, "   no longer: {} of {source}", grouped(*count))?;
        }
        if self.seen.files.iter().any(FilePreview::is_refused) {
            let note = "of a refused file, only what was read before the refusal counts here";
            writeln!(f, "   ({note})")?;
        }
        Ok(())
    }
}

fn path_shown(path: &Path) -> String {
    let path = path.strip_prefix(".").unwrap_or(path);
    escaped(path.as_os_str().as_encoded_bytes()).to_string()
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
    match survey.kind {
        Kind::Cells {
            separator, first, ..
        } => {
            let separator = match separator {
                b'\t' => "tabs".to_owned(),
                other => format!("\"{}\"", char::from(other)),
            };
            let heading = match first {
                First::Heading => "with a heading",
                First::Row => "without a heading",
                First::Either => "perhaps with a heading",
            };
            let columns = counted(survey.columns.len() as u64, "column", "columns");
            let rows = counted(survey.rows, "row", "rows");
            let is_old = survey.is_windows_1252;
            let charset = if is_old { ", Windows-1252" } else { "" };
            format!("a table of {columns} divided by {separator}, {heading}, {rows}{charset}")
        }
        Kind::Json { one_a_line: true } => {
            format!("JSON, {}", counted(survey.rows, "document", "documents"))
        }
        Kind::Json { one_a_line: false } => "JSON".to_owned(),
    }
}

fn columns(survey: &Survey, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let shown = survey.columns.iter().take(COLUMNS);
    let name = |column: &Column| short(&escaped(column.name.as_bytes()).to_string(), NAME_CHARS);
    let names: Vec<String> = shown.clone().map(name).collect();
    let widths = names.iter().map(|name| name.chars().count());
    let width = widths.max().unwrap_or(0).max(6);
    let title = match survey.kind {
        Kind::Cells { .. } => "column",
        Kind::Json { .. } => "path",
    };
    let heading = "filled   entries  different  for example";
    writeln!(f, "   {title:<width$}    {heading}")?;
    for (column, name) in shown.zip(&names) {
        let different = column.distinct();
        let line = format!(
            "   {name:<width$}  {:>8}  {:>8}  {:>9}  {}",
            grouped(column.filled),
            grouped(column.entries),
            different.map_or_else(|| "many".to_owned(), |count| grouped(count as u64)),
            examples(column),
        );
        writeln!(f, "{}", line.trim_end())?;
    }
    if survey.columns.len() > COLUMNS || survey.has_more {
        writeln!(f, "   and more, which are not shown")?;
    }
    Ok(())
}

/// Shows the values of a column with their counts, or some of them if they are many.
fn examples(column: &Column) -> String {
    let mut values = column.values().unwrap_or_default();
    values.retain(|value| !value.text.is_empty());
    if column.is_of_entries() || values.iter().all(|value| value.count < 2) {
        let samples = column.samples.iter();
        let samples = samples.map(|sample| short(sample, EXAMPLE_CHARS));
        return samples.collect::<Vec<_>>().join("; ");
    }
    let values = values.iter().map(|value| {
        let text = short(&escaped(value.text.as_bytes()).to_string(), EXAMPLE_CHARS);
        format!("{text} ({})", grouped(value.count))
    });
    values.collect::<Vec<_>>().join(", ")
}

fn kinds(rows: &Rows, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let kinds: Vec<String> = EntryKind::ALL
        .iter()
        .zip(rows.kinds.unwrap_or_default())
        .filter(|(_, count)| *count > 0)
        .map(|(kind, count)| match kind {
            EntryKind::Mailbox => counted(count, "mailbox", "mailboxes"),
            EntryKind::LocalPart => counted(count, "local part", "local parts"),
            EntryKind::Domain => counted(count, "domain", "domains"),
            EntryKind::Subtree => counted(count, "subtree", "subtrees"),
        })
        .collect();
    match kinds.is_empty() {
        true => Ok(()),
        false => writeln!(f, "Lists {}.", kinds.join(", ")),
    }
}

fn reasons(what: &str, reasons: &BTreeMap<String, u64>, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let mut reasons: Vec<_> = reasons.iter().collect();
    reasons.sort_by_key(|(_, count)| Reverse(**count));
    for (why, count) in reasons.iter().take(REASONS) {
        writeln!(f, "{what} {:>7}: {why}", grouped(**count))?;
    }
    match reasons.len() > REASONS {
        true => writeln!(f, "{what}: and for other reasons"),
        false => Ok(()),
    }
}

/// Cuts a text to a number of characters.
fn short(text: &str, most: usize) -> String {
    if text.chars().count() <= most {
        return text.to_owned();
    }
    let start: String = text.chars().take(most - 3).collect();
    format!("{start}...")
}
