//! `preview`: what each file is read as, and what would come of it, in words.

use std::path::Path;
use std::process::ExitCode;

use super::args::PreviewArgs;
use super::text::counts;
use crate::compile::{self, Error, Plan, Progress, Refused, preview_hint};
use crate::console::shortened;
use crate::console::{Done, Output, say};
use crate::inspect::preview::{
    Column, FilePreview, First, Kind, Preview, Proposal, Sample, Survey, preview, write,
};
use crate::list::Why;
use blocklist_filter::address::escaped;
use blocklist_filter::base::numbers::{counted, grouped};
use blocklist_filter::base::path::folder_of;

/// Number of columns that are shown.
const COLUMNS: usize = 40;
/// Widest text of a row, of a column's name, and of an example, in characters.
const TEXT_CHARS: usize = 44;
const NAME_CHARS: usize = 36;
const EXAMPLE_CHARS: usize = 32;

pub(super) fn run(args: &PreviewArgs, out: &mut Output) -> Done {
    let path = &args.input;
    let folder = if path.is_dir() { path } else { folder_of(path) };
    let mut plan = Plan::new("preview.blf", vec![folder.to_owned()]);
    plan.take(&compile::build_settings([&folder.to_owned()])?);
    args.reading.put_into(&mut plan);
    let seen = preview(path, &plan, args.against.as_deref(), &Progress::new())?;
    let saved = if args.write { save(&seen) } else { Ok(()) };
    let text = shown(&seen, args.write && saved.is_ok());
    out.line(format_args!("{}", text.join("\n")))?;
    saved?;
    let is_refused = seen.files.is_empty()
        || seen.report.refused.is_some() && seen.report.refused_files.is_empty()
        || seen.files.iter().any(|file| file.refused.is_some());
    Ok(ExitCode::from(u8::from(is_refused)))
}

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

/// Says what was seen, in lines.
fn shown(seen: &Preview, has_written: bool) -> Vec<String> {
    let report = &seen.report;
    let mut lines = Vec::new();
    for file in &seen.files {
        show_file(file, seen, has_written, &mut lines);
        lines.push(String::new());
    }
    if seen.files.is_empty() {
        lines.push("No list to read.".to_owned());
    }
    if has_written && seen.files.iter().any(|file| file.proposal.is_some()) {
        lines.pop();
        return lines;
    }
    lines.push(counts(report));
    for added in &seen.against.added {
        lines.push(format!("added     {added}"));
    }
    for (file, count) in &seen.against.removed {
        let count = counted(*count, "entry", "entries");
        lines.push(format!("removed   {}: {count}", escaped(file.as_bytes())));
    }
    let outcome = match (&report.refused, report.rows) {
        (Some(Refused::Files(_)), _) => "A build would be refused.".to_owned(),
        (Some(why), _) => format!("A build would be refused: {why}."),
        (None, 0) => "Nobody is listed.".to_owned(),
        (None, _) => "A build would use this.".to_owned(),
    };
    lines.push(outcome);
    lines
}

fn show_file(file: &FilePreview, seen: &Preview, has_written: bool, lines: &mut Vec<String>) {
    let reading = file.reading.as_ref();
    let reading = reading.map(|(format, why)| format!("read as {format} ({})", why_shown(*why)));
    let what: Vec<String> = reading
        .into_iter()
        .chain(file.survey.as_ref().map(kind))
        .collect();
    let what = match what.as_slice() {
        [] => "not read".to_owned(),
        what => what.join("; "),
    };
    lines.push(format!("{}: {what}", file.file));
    lines.extend(file.survey.iter().flat_map(columns));
    lines.extend(file.samples.iter().map(sample));
    let Some(refused) = &file.refused else {
        return;
    };
    let reason = refused
        .reason
        .strip_suffix(&preview_hint(&file.file))
        .unwrap_or(&refused.reason);
    lines.push(match (refused.line, refused.text.as_str()) {
        (0, _) => format!("REFUSED: {reason}."),
        (line, "") => format!("REFUSED at line {line}: {reason}."),
        (line, text) => format!("REFUSED at line {line}: \"{text}\": {reason}."),
    });
    let path = path_shown(&seen.list_toml);
    let Some(proposal) = &file.proposal else {
        if file.reading.is_none() && file.survey.is_some() {
            lines.push(format!("{path} has a [[file]] about it: complete that."));
        }
        return;
    };
    let open = if proposal.is_open {
        "; complete it"
    } else {
        ""
    };
    lines.push(match has_written {
        true => format!("Added to {path}{open}:"),
        false => format!("Add this to {path} (preview --write does it){open}:"),
    });
    lines.extend(proposal.toml.lines().map(|line| format!("   {line}")));
    lines.push("Until then, the file is refused.".to_owned());
}

fn sample(sample: &Sample) -> String {
    let line = format!(
        "{:>8}  {:<TEXT_CHARS$}  {:<8}  {}",
        grouped(sample.line),
        shortened(&sample.text, TEXT_CHARS),
        sample.outcome,
        sample.detail,
    );
    line.trim_end().to_owned()
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

fn columns(survey: &Survey) -> Vec<String> {
    let shown = survey.columns.iter().take(COLUMNS);
    let name =
        |column: &Column| shortened(&escaped(column.name.as_bytes()).to_string(), NAME_CHARS);
    let names: Vec<String> = shown.clone().map(name).collect();
    let widths = names.iter().map(|name| name.chars().count());
    let width = widths.max().unwrap_or(0).max(6);
    let title = match survey.kind {
        Kind::Cells { .. } => "column",
        Kind::Json { .. } => "path",
    };
    let heading = "filled   entries  different  for example";
    let mut lines = vec![format!("   {title:<width$}    {heading}")];
    for (column, name) in shown.zip(&names) {
        let different = column.distinct();
        let line = format!(
            "   {name:<width$}  {:>8}  {:>8}  {:>9}  {}",
            grouped(column.filled),
            grouped(column.entries),
            different.map_or_else(|| "many".to_owned(), |count| grouped(count as u64)),
            examples(column),
        );
        lines.push(line.trim_end().to_owned());
    }
    if survey.columns.len() > COLUMNS || survey.has_more {
        lines.push("   and more, which are not shown".to_owned());
    }
    lines
}

/// Shows the values of a column with their counts, or some of them if they are many.
fn examples(column: &Column) -> String {
    let mut values = column.values().unwrap_or_default();
    values.retain(|value| !value.text.is_empty());
    if column.is_of_entries() || values.iter().all(|value| value.count < 2) {
        let samples = column.samples.iter();
        let samples = samples.map(|sample| shortened(sample, EXAMPLE_CHARS));
        return samples.collect::<Vec<_>>().join("; ");
    }
    let values = values.iter().map(|value| {
        let text = shortened(&escaped(value.text.as_bytes()).to_string(), EXAMPLE_CHARS);
        format!("{text} ({})", grouped(value.count))
    });
    values.collect::<Vec<_>>().join(", ")
}
