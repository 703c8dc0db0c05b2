//! The administrator's command, `blocklist-compile`.
//!
//! One function per command converts its arguments (`args`) to calls of [`compile`], and prints
//! the result; `query` also reads long lists of addresses. Exit codes: 0 done (for `query`:
//! listed), 1 refused because of `--strict`, `--max-rejects`, `--max-shrink` or `--max-growth` (for
//! `query`: not listed; `false-positives`: found some; `remove`: not found; `delta`: too
//! different), 2 failed.

mod args;
mod preview;
mod progress;
mod query;
mod text;
mod values;

use std::fs::{self, File};
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use crate::compile::{self, By, Changes, Error, Expected, Input, Plan, Progress, Report, Seed};
use crate::console::{self, Done, Output, say, success};
use crate::inspect;
use crate::list::{Declared, Expires, FeedSettings, LIST_TOML, ListToml, MaxRejects};
use blocklist_filter::base::clock::today;
use blocklist_filter::base::day::Day;
use blocklist_filter::base::numbers::counted;
use blocklist_filter::base::path::{folder_of, is_same_file};
use blocklist_filter::filter::format::MAGIC;
use blocklist_filter::filter::{Filter, FilterFile};
use progress::watched;

pub use args::Cli;
use args::{Apply, Build, Command, Delta, EditArgs, FileArgs, Merge, Reading, Update, Work};

/// Runs the command line. Prints errors as `blocklist-compile: what: cause`.
pub fn main(version: &'static str) -> ExitCode {
    console::main(version, run)
}

fn run(cli: Cli, out: &mut Output) -> Done {
    match cli.command {
        Command::Build(args) => build(&args, out),
        Command::Preview(args) => preview::run(&args, out),
        Command::Query(args) => query::query(&args, out),
        Command::Info(FileArgs { json, file }) => match FilterFile::is_part(&file)? {
            true => out.show(&inspect::part_info(&file)?, json),
            false => out.show(&inspect::info(&file)?, json),
        },
        Command::Feed { folder } => feed(&folder, out),
        Command::Update(args) => update(&args, out),
        Command::Add(args) => edit(&args, true, out),
        Command::Remove(args) => edit(&args, false, out),
        Command::Merge(args) => merge(&args, out),
        Command::Delta(args) => make_delta(&args, out),
        Command::Apply(args) => apply(&args, out),
        Command::Compare { json, a, b } => out.show(&inspect::compare(&a, &b)?, json),
        Command::Overlap { json, files } => out.show(&inspect::overlap(&files)?, json),
        Command::FalsePositives { of, known_good } => {
            let found = inspect::false_positives(&of.file, &known_good, Day(today()))?;
            out.show(&found, of.json)?;
            Ok(success(found.is_clean()))
        }
        Command::Verify(of) => verify(&of, out),
    }
}

fn build(args: &Build, out: &mut Output) -> Done {
    let reads = [args.inputs.as_slice(), &args.input].concat();
    let plan = match plan(args, &reads) {
        Ok(plan) => plan,
        Err(error) if args.part.is_none() => {
            return Ok(noted(&args.output, Err(error)).map(|_| ExitCode::SUCCESS)?);
        }
        Err(error) => return Err(error.into()),
    };
    work(&plan, &args.work, &reads, out, |plan, progress| {
        let report = compile::build(plan, progress);
        match plan.part {
            Some(_) => report,
            None => noted(&plan.output, report),
        }
    })
}

/// Replaces the report beside the filter, and returns the result that it is about.
fn noted(output: &Path, result: Result<Report, Error>) -> Result<Report, Error> {
    let written = compile::write_build_report(output, result.as_ref());
    // Why a build failed, often prevents its report, too.
    if let (Err(error), Ok(_)) = (written, &result) {
        say(format_args!(
            "blocklist-compile: warning: the report of this build is not kept: {error}"
        ));
    }
    result
}

/// Returns what to build from `reads`.
fn plan(args: &Build, reads: &[PathBuf]) -> Result<Plan, Error> {
    let mut plan = args.work.plan(&args.output, &args.inputs);
    if let Some(name) = &args.name {
        plan.name = compile::list_name(name);
    }
    let is_folder = reads.len() == 1 && reads.iter().all(|path| path.is_dir());
    if args.fetched.is_some() && !is_folder {
        let why = "give the folder of the list alone as the input";
        return Err(Error::setting("--fetched", why));
    }
    if is_folder && compile::is_fetched(&reads[0], args.fetched.as_deref())? {
        plan.reads.fetched.clone_from(&args.fetched);
    } else if is_folder && args.part.is_none() {
        plan.limits.max_shrink = Some(FOLDER_MAX_SHRINK);
    }
    plan.take(&compile::build_settings(reads)?);
    plan.fpr = args.fpr.or(plan.fpr);
    plan.part.clone_from(&args.part);
    plan.source.clone_from(&args.source);
    plan.records &= !args.no_records;
    plan.seed = match (&args.seed_from, args.seed) {
        (Some(other), _) => Seed::Of(other.clone()),
        (None, Some(seed)) => Seed::Fixed(seed),
        (None, None) => Seed::Keep,
    };
    plan.limits.allow_empty |= args.allow_empty;
    plan.limits.max_shrink = args
        .max_shrink
        .map(|most| most.0)
        .or(plan.limits.max_shrink);
    plan.limits.approves_shrink = args.max_shrink.is_some();
    plan.limits.command = args
        .by
        .iter()
        .map(|command| format!("{command} "))
        .collect();
    plan.limits.max_growth = args
        .max_growth
        .map(|most| most.0)
        .or(plan.limits.max_growth);
    plan.copies.clone_from(&args.copies);
    plan.overwrite = args.overwrite;
    plan.rules.plus |= args.plus;
    plan.rules.srs |= args.srs;
    plan.rules.nfkc |= args.nfkc;
    plan.rules.providers &= !args.no_providers;
    args.reading.put_into(&mut plan);
    plan.reads.meant.clone_from(&args.input);
    Ok(plan)
}

/// By how much a list that is a folder may shrink if nothing is said about it.
const FOLDER_MAX_SHRINK: u32 = 20;

/// Prints what `update-feed` needs to know.
fn feed(folder: &Path, out: &mut Output) -> Done {
    let list = ListToml::of_folder(folder)
        .map_err(Error::from)?
        .unwrap_or_default();
    let Some(feed) = list.feed else {
        return Err(Error::unfit(&folder.join(LIST_TOML), "has no [feed]").into());
    };
    let expires = match list.build.expires {
        Some(Expires::On(day)) => day.to_string(),
        Some(Expires::After(days)) => format!("{days}d"),
        None => "-".to_owned(),
    };
    let FeedSettings {
        url,
        max_bytes,
        timeout_s,
        keep_days,
        max_age_days,
        max_shrink,
        max_growth,
        ..
    } = feed;
    out.line(format_args!(
        "{url} {max_bytes} {timeout_s} {keep_days} {max_age_days} {max_shrink} {max_growth} {expires}"
    ))?;
    Ok(ExitCode::SUCCESS)
}

fn update(args: &Update, out: &mut Output) -> Done {
    let mut plan = args.work.plan(&args.file, &args.add);
    plan.take(&compile::build_settings(&args.add)?);
    args.reading.put_into(&mut plan);
    plan.fpr = args.fpr;
    // Skip entries among them, which are not files.
    let mut reads = [args.add.as_slice(), &args.remove].concat();
    reads.retain(|path| path.exists());
    let changes = Changes {
        remove: args.remove.clone(),
        ..Changes::default()
    };
    work(&plan, &args.work, &reads, out, |plan, progress| {
        compile::update(plan, &changes, progress)
    })
}

/// Edits a text list and its filter. Prints only after both changes: if nobody reads the output,
/// printing ends the program.
fn edit(args: &EditArgs, adds: bool, out: &mut Output) -> Done {
    compile::source_date()?;
    let mut plan = Plan::new(args.filter.as_ref().unwrap_or(&args.list), Vec::new());
    plan.take_beside(&args.list)?;
    if let Some(filter) = &args.filter {
        // Before the list is edited, so that a filter that cannot be changed is reported first.
        plan.rules = compile::changeable(filter)?;
    }
    let edited = if adds {
        let noted = |entry| (String::as_str(entry), args.note.as_str());
        let entries: Vec<_> = args.entries.iter().map(noted).collect();
        compile::add(&plan, &args.list, &entries, By::Name)?
    } else {
        compile::remove(&plan, &args.list, &args.entries, By::Name)?
    };
    let report = args.filter.is_some().then(|| {
        let mut changes = Changes::default();
        let entries = args.entries.clone();
        if adds {
            changes.add_entries = entries;
        } else {
            changes.remove_entries = entries;
        }
        compile::update(&plan, &changes, &Progress::new())
    });
    out.line(format_args!("{edited}"))?;
    if let Some(report) = report {
        let report = report.map_err(|error| Error::OnlyText {
            list: args.list.clone(),
            cause: Box::new(error),
        })?;
        if report.refused.is_some() {
            say(format_args!("{report}"));
            return Ok(ExitCode::FAILURE);
        }
        if let Some(changed) = report.changed {
            let filter = report.output.display();
            out.line(format_args!("{filter}: {changed}"))?;
        }
    }
    let is_missed = !adds && edited.misses_some();
    if is_missed {
        say(format_args!(
            "blocklist-compile: some entries are not in this list; if another list has them, add the senders to the whitelist"
        ));
    }
    Ok(success(!is_missed))
}

fn merge(args: &Merge, out: &mut Output) -> Done {
    let mut plan = args.work.plan(&args.output, &args.files);
    if let Some(name) = &args.name {
        plan.name = compile::list_name(name);
    }
    plan.overwrite = args.overwrite;
    plan.fpr = args.fpr;
    plan.limits.max_shrink = args.max_shrink.map(|most| most.0);
    plan.limits.max_growth = args.max_growth.map(|most| most.0);
    let expected = Expected {
        pieces: args.expect.clone(),
        sources: args.source.clone(),
    };
    work(&plan, &args.work, &args.files, out, |plan, progress| {
        let report = compile::merge(plan, &expected, progress);
        noted(&plan.output, report)
    })
}

fn make_delta(args: &Delta, out: &mut Output) -> Done {
    let made = watched(args.quiet, |progress| {
        compile::make_delta(&args.output, [&args.old, &args.new], progress)
    })?;
    out.tell(&made, made.refused.is_some(), args.json, args.quiet)
}

fn apply(args: &Apply, out: &mut Output) -> Done {
    let mut plan = Plan::new(&args.output, args.deltas.clone());
    plan.overwrite = args.overwrite;
    plan.limits.max_shrink = args.max_shrink.map(|most| most.0);
    plan.limits.max_growth = args.max_growth.map(|most| most.0);
    plan.resources.threads = args.threads.unwrap_or(plan.resources.threads);
    let applied = watched(args.quiet, |progress| {
        compile::apply(&plan, &args.old, None, progress)
    })?;
    out.tell(&applied, applied.refused.is_some(), args.json, args.quiet)
}

impl Reading {
    fn put_into(&self, plan: &mut Plan) {
        plan.reads.declared = Declared {
            format: self.format,
            separator: self.separator,
            entry: self.entry.clone(),
            when: self.when.clone(),
            unless: self.unless.clone(),
            at_least: self.at_least.clone(),
            all_rows: self.rows.is_some(),
            subdomains: self.subdomains.then_some(true),
            expires_in: self.expires_in.clone(),
            added_in: self.added_in.clone(),
            date_format: self.date_format.clone(),
            never: self.never.clone(),
            is_in_file: false,
        };
        let expires = self.expires.map(|expires| expires.from(plan.today()));
        plan.expires = expires.or(plan.expires);
        plan.protect.extend_from_slice(&self.protect);
        plan.allow.extend_from_slice(&self.allow);
        plan.allow_world |= self.allow_world;
        plan.limits.strict = self.strict;
        plan.limits.max_rejects = match self.strict {
            true => MaxRejects::Lines(0),
            false => self.max_rejects.unwrap_or(plan.limits.max_rejects),
        };
    }
}

impl Work {
    /// Returns a plan with these settings, and defaults for all others.
    fn plan(&self, output: &Path, inputs: &[PathBuf]) -> Plan {
        let mut plan = Plan::new(output, inputs.to_vec());
        plan.resources.threads = self.threads.unwrap_or(plan.resources.threads);
        plan.resources.memory_bytes = self.memory.unwrap_or(plan.resources.memory_bytes);
        plan.built = self
            .date
            .map_or(plan.built, |day| u64::from(day.0) * 86_400);
        plan
    }
}

/// Runs a long task and shows its progress. `reads` are the files that it reads.
fn work(
    plan: &Plan,
    work: &Work,
    reads: &[PathBuf],
    out: &mut Output,
    job: impl FnOnce(&Plan, &Progress) -> Result<Report, Error>,
) -> Done {
    compile::source_date()?;
    let is_stdout = work.report.as_deref() == Some(Path::new("-"));
    let report_file = work.report.as_deref().filter(|_| !is_stdout);
    if let Some(file) = report_file {
        // Before the task, because afterwards the filter has been replaced.
        may_write(file, &plan.output, reads)?;
    }
    let report = watched(work.quiet, |progress| job(plan, progress))?;
    if let Some(file) = report_file {
        write_report(&report, file)?;
    }
    let is_refused = report.refused.is_some();
    out.tell(&report, is_refused, work.json || is_stdout, work.quiet)
}

fn write_report(report: &Report, file: &Path) -> Result<(), Error> {
    let json = serde_json::to_string_pretty(report).map_err(io::Error::from);
    let written = json.and_then(|json| fs::write(file, json + "\n"));
    written.map_err(|error| {
        let nevertheless = match report.filter {
            Some(_) => format!("; {} was written nevertheless", report.output.display()),
            None => String::new(),
        };
        let why = format!("{error}{nevertheless}");
        Error::io(file, WRITE_REPORT)(io::Error::new(error.kind(), why))
    })
}

fn verify(FileArgs { json, file }: &FileArgs, out: &mut Output) -> Done {
    let header = Filter::verify(file)?;
    let records = if header.part.is_some() {
        "all records and checksums of this part"
    } else if header.spec.records {
        "all pages, records and checksums"
    } else {
        "all pages and checksums"
    };
    let entries = counted(header.entries, "entry", "entries");
    let text = format!("{}: OK: {entries}; {records} are correct", file.display());
    let found = serde_json::json!({
        "file": file,
        "entries": header.entries,
        "records": header.spec.records,
        "good": true,
    });
    out.show_as(&found, text, *json)
}

/// The operation on a report, for "cannot ...".
const WRITE_REPORT: &str = "write the report";

/// Checks that the report may be written to `file`: it must not replace a file that is read or written.
fn may_write(file: &Path, output: &Path, reads: &[PathBuf]) -> Result<(), Error> {
    let failed = || Error::io(file, WRITE_REPORT);
    let cannot = |why: &str| Err(failed()(io::Error::other(why)));
    // Neither may exist yet.
    let place = |path: &Path| {
        let folder = fs::canonicalize(folder_of(path))?;
        Ok::<_, io::Error>(folder.join(path.file_name().unwrap_or_default()))
    };
    let report = place(file).map_err(failed())?;
    if place(output).is_ok_and(|output| output == report) || is_same_file(output, file) {
        return cannot("it is the filter file to write");
    }
    let lists = compile::inputs(reads)?;
    let is_input = |list: &Input| !list.is_stdin() && is_same_file(&list.path, file);
    if lists.iter().any(is_input) {
        return cannot("it is one of the input files");
    }
    if file.is_file() {
        // Not only when the work is done.
        let opened = File::options().read(true).write(true).open(file);
        let mut start = [0; MAGIC.len()];
        if opened.map_err(failed())?.read_exact(&mut start).is_ok() && start == MAGIC {
            return cannot("it is a filter file; left unchanged");
        }
    }
    Ok(())
}
