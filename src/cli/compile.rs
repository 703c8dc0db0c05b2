//! The command line of `blocklist-compile`.
//!
//! Definitions first, then one function a command that turns them into calls of
//! [`compile`] and prints what comes back. Only here is anything
//! printed. Exit codes: 0 done (for `query`: listed), 1 refused under `--strict` or
//! `--max-rejects` (for `query`: not listed), 2 failed.

use std::ffi::OsString;
use std::fmt;
use std::fs::{self, File};
use std::io::{self, BufRead, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::error::ErrorKind;
use clap::{Args, Parser, Subcommand};
use serde::Serialize;

use super::progress::Watcher;
use crate::compile::{self, Changes, Error, Plan, Progress, Query, Report, Seed};
use crate::filter::format::MAGIC;
use crate::filter::{Filter, Load};
use crate::list::{Day, Format};

/// Exit code of what failed.
const FAILED: u8 = 2;
/// Longest line of addresses that `query -` reads, in bytes.
const MAX_QUERY_BYTES: u64 = 64 << 10;

/// Turns text blocklists into filter files for blocklist-milter, and answers from them.
#[derive(Debug, Parser)]
#[command(name = "blocklist-compile", version, max_term_width = 100)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Build a filter file from text lists.
    Build(Build),
    /// Ask whether addresses are listed, and why. Exit code 0: at least one is; 1: none.
    Query(QueryArgs),
    /// Describe a filter file.
    Info {
        /// Print JSON.
        #[arg(long)]
        json: bool,
        /// The filter file.
        file: PathBuf,
    },
    /// Add and remove entries of a filter that has records, without its text.
    Update(Update),
    /// Merge filters of one seed (see --seed-from) into one.
    Merge(Merge),
    /// Count what two filters share.
    Compare {
        /// Print JSON.
        #[arg(long)]
        json: bool,
        /// A filter file.
        a: PathBuf,
        /// Another.
        b: PathBuf,
    },
    /// Count what each of several filters shares with each: which lists are worth having.
    Overlap {
        /// Print JSON.
        #[arg(long)]
        json: bool,
        /// Also draw the matrix as an SVG picture.
        #[arg(long, value_name = "FILE")]
        svg: Option<PathBuf>,
        /// The filter files.
        #[arg(required = true, num_args = 2.., value_name = "FILE")]
        files: Vec<PathBuf>,
    },
    /// Print known good senders that are listed (as comments, with the reason), and those that
    /// hit the pages without being listed, ready to append to a whitelist.
    FalsePositives {
        /// Print JSON.
        #[arg(long)]
        json: bool,
        /// The filter file.
        file: PathBuf,
        /// Mail logs, address books, plain lists; - is standard input.
        #[arg(required = true)]
        known_good: Vec<PathBuf>,
    },
    /// Read all of a filter file and check every sum and record.
    Verify {
        /// The filter file.
        file: PathBuf,
    },
}

/// Options of `build`.
#[derive(Debug, Args)]
pub struct Build {
    /// The filter file to write; replaced only when the new one is complete and checked.
    #[arg(short, long, value_name = "FILE")]
    pub output: PathBuf,
    /// Name of the list in logs and replies [default: the file's name].
    #[arg(long)]
    pub name: Option<String>,
    /// Rate of false positives of the pages.
    #[arg(long, value_name = "P", default_value_t = compile::DEFAULT_FPR)]
    pub fpr: f64,
    /// Format of the inputs [default: told from their content].
    #[arg(long)]
    pub format: Option<Format>,
    /// Leave out the exact records: a third of the size, but hits cannot be proved.
    #[arg(long)]
    pub no_records: bool,
    /// Take the hash seed of another filter, so that the two can be merged and compared.
    #[arg(long, value_name = "FILE", conflicts_with = "seed")]
    pub seed_from: Option<PathBuf>,
    /// The hash seed, 1 to 16 hexadecimal digits [default: that of the file replaced, else random].
    #[arg(long, value_name = "HEX", value_parser = hexadecimal)]
    pub seed: Option<u64>,
    /// First day on which entries are no longer listed, unless a list says another.
    #[arg(long, value_name = "DATE", value_parser = day)]
    pub expires: Option<Day>,
    /// The day of the build [default: today, or SOURCE_DATE_EPOCH].
    #[arg(long, value_name = "DATE", value_parser = day)]
    pub date: Option<Day>,
    /// Refuse entries that list this domain, or part of it; may be repeated.
    #[arg(long, value_name = "DOMAIN")]
    pub protect: Vec<String>,
    /// Take entries that would list the world; build an empty filter though lines were rejected
    /// or the old one has entries; replace an output that is no filter.
    #[arg(long)]
    pub force: bool,
    /// Write nothing when more lines than this are rejected.
    #[arg(long, value_name = "N")]
    pub max_rejects: Option<u64>,
    /// Write nothing when any line is rejected.
    #[arg(long, conflicts_with = "max_rejects")]
    pub strict: bool,
    /// Cut +tag from local parts at every domain.
    #[arg(long)]
    pub plus: bool,
    /// Also look up the sender inside SRS addresses.
    #[arg(long)]
    pub srs: bool,
    /// Compare local parts by NFKC: full-width and other look-alike forms are equal.
    #[arg(long)]
    pub nfkc: bool,
    /// Leave out the rules of mail providers, such as the dots of Gmail.
    #[arg(long)]
    pub no_providers: bool,
    /// How to work.
    #[command(flatten)]
    pub work: Work,
    /// Lists, folders of lists, or - for standard input; gzip and zstd are unpacked.
    #[arg(required = true, value_name = "INPUT")]
    pub inputs: Vec<PathBuf>,
}

/// Options of every command that works long.
#[derive(Debug, Args)]
pub struct Work {
    /// Workers [default: one for each processor].
    #[arg(long, value_name = "N")]
    pub threads: Option<usize>,
    /// Memory to stay within, as 512M or 2G [default: a quarter of what there is].
    #[arg(long, value_name = "SIZE", value_parser = size)]
    pub memory: Option<u64>,
    /// Write the final report to this file as JSON.
    #[arg(long, value_name = "FILE")]
    pub report: Option<PathBuf>,
    /// Print errors only.
    #[arg(short, long)]
    pub quiet: bool,
}

/// Options of `update`.
#[derive(Debug, Args)]
pub struct Update {
    /// The filter file to change; replaced only when the new one is complete and checked.
    pub file: PathBuf,
    /// A list of entries to add; may be repeated.
    #[arg(long, value_name = "INPUT")]
    pub add: Vec<PathBuf>,
    /// A list of entries to remove; may be repeated. What is also added is removed.
    #[arg(long, value_name = "INPUT")]
    pub remove: Vec<PathBuf>,
    /// Size the filter for another rate of false positives.
    #[arg(long, value_name = "P")]
    pub fpr: Option<f64>,
    /// Format of the inputs [default: told from their content].
    #[arg(long)]
    pub format: Option<Format>,
    /// First day on which added entries are no longer listed, unless their list says another.
    #[arg(long, value_name = "DATE", value_parser = day)]
    pub expires: Option<Day>,
    /// The day of the update [default: today, or SOURCE_DATE_EPOCH].
    #[arg(long, value_name = "DATE", value_parser = day)]
    pub date: Option<Day>,
    /// Refuse entries that list this domain, or part of it; may be repeated.
    #[arg(long, value_name = "DOMAIN")]
    pub protect: Vec<String>,
    /// Take entries that would list the world.
    #[arg(long)]
    pub force: bool,
    /// Write nothing when more lines than this are rejected.
    #[arg(long, value_name = "N")]
    pub max_rejects: Option<u64>,
    /// Write nothing when any line is rejected.
    #[arg(long, conflicts_with = "max_rejects")]
    pub strict: bool,
    /// How to work.
    #[command(flatten)]
    pub work: Work,
}

/// Options of `merge`.
#[derive(Debug, Args)]
pub struct Merge {
    /// The filter file to write.
    #[arg(short, long, value_name = "FILE")]
    pub output: PathBuf,
    /// Name of the list in logs and replies [default: the file's name].
    #[arg(long)]
    pub name: Option<String>,
    /// Rate of false positives of the pages [default: the lowest of the inputs'].
    #[arg(long, value_name = "P")]
    pub fpr: Option<f64>,
    /// The day of the merge [default: today, or SOURCE_DATE_EPOCH].
    #[arg(long, value_name = "DATE", value_parser = day)]
    pub date: Option<Day>,
    /// Replace an output that is no filter.
    #[arg(long)]
    pub force: bool,
    /// How to work.
    #[command(flatten)]
    pub work: Work,
    /// The filters to merge.
    #[arg(required = true, value_name = "FILE")]
    pub files: Vec<PathBuf>,
}

/// Options of `query`.
#[derive(Debug, Args)]
pub struct QueryArgs {
    /// Print JSON, a line for each address.
    #[arg(long)]
    pub json: bool,
    /// The filter file.
    pub file: PathBuf,
    /// Addresses or entries; - reads them from standard input, one a line.
    #[arg(required = true, value_name = "ADDRESS")]
    pub addresses: Vec<OsString>,
}

/// Runs the command line; errors are printed as `blocklist-compile: what: cause`.
#[must_use]
pub fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => return usage(&error),
    };
    let done = match cli.command {
        Command::Build(args) => build(&args),
        Command::Query(args) => query(&args),
        Command::Info { json, file } => compile::info(&file).and_then(|info| show(&info, json)),
        Command::Update(args) => update(&args),
        Command::Merge(args) => merge(&args),
        Command::Compare { json, a, b } => {
            compile::compare(&a, &b).and_then(|found| show(&found, json))
        }
        Command::Overlap { json, svg, files } => overlap(&files, svg.as_deref(), json),
        Command::FalsePositives {
            json,
            file,
            known_good,
        } => false_positives(&file, &known_good, json),
        Command::Verify { file } => verify(&file),
    };
    done.unwrap_or_else(|error| {
        say(format_args!("blocklist-compile: {error}"));
        ExitCode::from(FAILED)
    })
}

/// Prints to stderr. That nobody reads it any more (`2>&1 | head`) undoes nothing.
fn say(what: fmt::Arguments<'_>) {
    let _ = writeln!(io::stderr(), "{what}");
}

/// What clap has to say: the help that was asked for, or one line about the mistake.
fn usage(error: &clap::Error) -> ExitCode {
    if !error.use_stderr() || error.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand {
        let _ = error.print();
        return ExitCode::from(if error.use_stderr() { FAILED } else { 0 });
    }
    let text = error.to_string();
    let mut lines = text.trim_start_matches("error: ").lines().map(str::trim);
    let about: Vec<&str> = lines.by_ref().take_while(|line| !line.is_empty()).collect();
    let tip = lines.find(|line| line.starts_with("tip: "));
    say(format_args!(
        "blocklist-compile: {} ({})",
        about.join(" "),
        tip.unwrap_or("see --help")
    ));
    ExitCode::from(FAILED)
}

/// Writes a file beside the filters, and never over one: `overlap --svg *.blf` would.
fn write_text(file: &Path, doing: &'static str, text: &str) -> Result<(), Error> {
    let mut start = [0; MAGIC.len()];
    let is_filter = File::open(file).is_ok_and(|mut file| {
        io::Read::read_exact(&mut file, &mut start).is_ok() && start == MAGIC
    });
    let written = if is_filter {
        Err(io::Error::other(
            "this is a filter file, and stands as it was",
        ))
    } else {
        fs::write(file, text)
    };
    written.map_err(Error::io(file, doing))
}

fn build(args: &Build) -> Result<ExitCode, Error> {
    let mut plan = Plan::new(&args.output, args.inputs.clone());
    if let Some(name) = &args.name {
        plan.name = compile::list_name(name);
    }
    plan.fpr = args.fpr;
    plan.format = args.format;
    plan.records = !args.no_records;
    plan.seed = match (&args.seed_from, args.seed) {
        (Some(other), _) => Seed::Of(other.clone()),
        (None, Some(seed)) => Seed::Fixed(seed),
        (None, None) => Seed::Keep,
    };
    plan.expires = args.expires;
    plan.built = args
        .date
        .map_or(plan.built, |day| u64::from(day.0) * 86_400);
    plan.protect.clone_from(&args.protect);
    plan.force = args.force;
    plan.max_rejects = if args.strict {
        Some(0)
    } else {
        args.max_rejects
    };
    plan.rules.plus = args.plus;
    plan.rules.srs = args.srs;
    plan.rules.nfkc = args.nfkc;
    plan.rules.providers = !args.no_providers;
    run(plan, &args.work, compile::build)
}

fn update(args: &Update) -> Result<ExitCode, Error> {
    let mut plan = Plan::new(&args.file, args.add.clone());
    plan.format = args.format;
    plan.expires = args.expires;
    plan.built = args.date.map_or(plan.built, start_of);
    plan.protect.clone_from(&args.protect);
    plan.force = args.force;
    plan.max_rejects = if args.strict {
        Some(0)
    } else {
        args.max_rejects
    };
    run(plan, &args.work, |plan, progress| {
        let changes = Changes {
            plan: plan.clone(),
            remove: args.remove.clone(),
            fpr: args.fpr,
        };
        compile::update(&changes, progress)
    })
}

fn merge(args: &Merge) -> Result<ExitCode, Error> {
    let mut plan = Plan::new(&args.output, args.files.clone());
    if let Some(name) = &args.name {
        plan.name = compile::list_name(name);
    }
    plan.built = args.date.map_or(plan.built, start_of);
    plan.force = args.force;
    run(plan, &args.work, |plan, progress| {
        compile::merge(plan, args.fpr, progress)
    })
}

/// Runs what works long, under the eyes of a person.
fn run(
    mut plan: Plan,
    work: &Work,
    job: impl FnOnce(&Plan, &Progress) -> Result<Report, Error>,
) -> Result<ExitCode, Error> {
    plan.threads = work.threads.unwrap_or(plan.threads);
    plan.memory_bytes = work.memory.unwrap_or(plan.memory_bytes);
    let watcher = Watcher::start(work.quiet)?;
    let report = job(&plan, watcher.progress());
    drop(watcher);
    finish(&report?, work)
}

fn overlap(files: &[PathBuf], svg: Option<&Path>, json: bool) -> Result<ExitCode, Error> {
    let overlap = compile::overlap(files)?;
    if let Some(file) = svg {
        write_text(file, "write the picture", &overlap.svg())?;
    }
    show(&overlap, json)
}

fn false_positives(file: &Path, known_good: &[PathBuf], json: bool) -> Result<ExitCode, Error> {
    show(
        &compile::false_positives(file, known_good, compile::day_of(compile::now()))?,
        json,
    )
}

/// Prints the report, and writes it.
fn finish(report: &Report, work: &Work) -> Result<ExitCode, Error> {
    if let Some(file) = &work.report {
        let doing = "write the report";
        let json = serde_json::to_string_pretty(report)
            .map_err(|error| Error::io(file, doing)(error.into()))?;
        write_text(file, doing, &(json + "\n"))?;
    }
    if !work.quiet || report.refused.is_some() {
        say(format_args!("{report}"));
    }
    Ok(if report.refused.is_some() {
        ExitCode::FAILURE
    } else {
        ExitCode::SUCCESS
    })
}

fn query(args: &QueryArgs) -> Result<ExitCode, Error> {
    let many = args.addresses.iter().any(|address| address == "-");
    let load = if many { Load::Memory } else { Load::Disk };
    let mut query = Query::open(&args.file, load, compile::day_of(compile::now()))?;
    let mut out = io::BufWriter::new(io::stdout().lock());
    let mut listed = false;
    for address in &args.addresses {
        if address != "-" {
            listed |= answer(&mut query, address.as_encoded_bytes(), args.json, &mut out)?;
            continue;
        }
        let mut input = io::stdin().lock();
        let mut line = Vec::new();
        let read = |error| Error::Io {
            path: "standard input".into(),
            doing: "read",
            source: error,
        };
        while io::Read::take(&mut input, MAX_QUERY_BYTES)
            .read_until(b'\n', &mut line)
            .map_err(read)?
            > 0
        {
            let text = line.trim_ascii();
            if !text.is_empty() {
                listed |= answer(&mut query, text, args.json, &mut out)?;
            }
            line.clear();
        }
    }
    out.flush().map_err(stdout_failed)?;
    Ok(if listed {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

/// Prints what is known of one address; says whether it is listed.
fn answer(
    query: &mut Query,
    address: &[u8],
    json: bool,
    out: &mut impl Write,
) -> Result<bool, Error> {
    let finding = query.ask(address)?;
    let printed = if json {
        serde_json::to_writer(&mut *out, &finding)
            .map_err(io::Error::from)
            .and_then(|()| writeln!(out))
    } else {
        writeln!(out, "{finding}")
    };
    printed.map_err(stdout_failed)?;
    Ok(finding.listed)
}

fn verify(file: &Path) -> Result<ExitCode, Error> {
    let header = Filter::verify(file)?;
    let records = if header.spec.records {
        "every page, record and sum"
    } else {
        "every page and sum"
    };
    print(format_args!(
        "{}: good: {} entries, {records} checked",
        file.display(),
        header.entries
    ))?;
    Ok(ExitCode::SUCCESS)
}

/// Prints what a command found, for a person or as JSON.
fn show(found: &(impl Serialize + std::fmt::Display), json: bool) -> Result<ExitCode, Error> {
    if json {
        let json = serde_json::to_string(found).map_err(|error| stdout_failed(error.into()))?;
        print(format_args!("{json}"))?;
    } else {
        print(format_args!("{found}"))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn print(line: std::fmt::Arguments<'_>) -> Result<(), Error> {
    writeln!(io::stdout().lock(), "{line}").map_err(stdout_failed)
}

fn stdout_failed(source: io::Error) -> Error {
    Error::Io {
        path: "standard output".into(),
        doing: "write",
        source,
    }
}

/// The first second of a day.
fn start_of(day: Day) -> u64 {
    u64::from(day.0) * 86_400
}

fn hexadecimal(text: &str) -> Result<u64, String> {
    let digits = text.strip_prefix("0x").unwrap_or(text);
    u64::from_str_radix(digits, 16).map_err(|_| "must be 1 to 16 hexadecimal digits".to_owned())
}

fn day(text: &str) -> Result<Day, String> {
    Day::read(text.as_bytes()).ok_or_else(|| "must be a date such as 2026-12-31".to_owned())
}

/// `512M` -> bytes.
fn size(text: &str) -> Result<u64, String> {
    let wrong = || "must be a number of bytes, or one with K, M, G or T, such as 512M".to_owned();
    let text = text.trim_end_matches(['B', 'b']).trim_end_matches(['i']);
    let (number, shift) = match text.char_indices().next_back() {
        Some((at, 'K' | 'k')) => (&text[..at], 10),
        Some((at, 'M' | 'm')) => (&text[..at], 20),
        Some((at, 'G' | 'g')) => (&text[..at], 30),
        Some((at, 'T' | 't')) => (&text[..at], 40),
        _ => (text, 0),
    };
    let number: u64 = number.trim().parse().map_err(|_| wrong())?;
    number.checked_mul(1 << shift).ok_or_else(wrong)
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn definitions_hold_together() {
        Cli::command().debug_assert();
    }

    #[test]
    fn sizes_and_seeds() {
        assert_eq!(size("2G"), Ok(2 << 30));
        assert_eq!(size("512MiB"), Ok(512 << 20));
        assert_eq!(size("1000"), Ok(1000));
        assert!(size("lots").is_err() && size("99999999T").is_err());
        assert_eq!(hexadecimal("0xBeef"), Ok(0xbeef));
        assert!(hexadecimal("").is_err() && hexadecimal("12345678901234567").is_err());
    }
}
