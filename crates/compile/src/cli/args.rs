//! The command line of `blocklist-compile`: its commands and options.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};

use super::values::{
    column_number, column_values, day, hexadecimal, rate, regular_file, shrink, size,
};
use crate::console::{examples, whole_number};
use crate::list::{DateFormat, Expires, Format, MaxRejects, all_rows, separator};
use crate::settings::Percent;
use blocklist_filter::base::day::Day;

/// Builds filter files for blocklist-milter from text blocklists, and queries them.
#[derive(Debug, Parser)]
#[command(
    name = "blocklist-compile",
    version,
    max_term_width = 100,
    after_long_help = examples![
        "blocklist-compile build -o spammers.blf lists/",
        "blocklist-compile query spammers.blf spammer@bad.example",
        "blocklist-compile add lists/own.txt --filter own.blf spammer@bad.example",
        "blocklist-compile info spammers.blf",
    ]
)]
pub struct Cli {
    #[command(subcommand)]
    pub(super) command: Command,
}

#[derive(Debug, Subcommand)]
pub(super) enum Command {
    /// Build a filter file from text lists.
    #[command(after_long_help = examples![
        "blocklist-compile build -o spammers.blf lists/",
        "zcat more.gz | blocklist-compile build -o more.blf --max-shrink 20% -",
        "blocklist-compile build -o new.blf --expires 30d feed.csv",
        "blocklist-compile build --part -o a.part --seed-from seed.blf --source big.txt piece.a",
    ])]
    Build(Box<Build>),
    /// Show what lists are read as, and what would come of them, without building a filter.
    ///
    /// For a table without a declaration, it proposes one for list.toml. Exit code 1: a build would be refused.
    #[command(after_long_help = examples![
        "blocklist-compile preview lists/spammers",
        "blocklist-compile preview --write lists/spammers/partner.csv",
        "blocklist-compile preview --against spammers.blf lists/spammers",
    ])]
    Preview(PreviewArgs),
    /// Show whether addresses are listed, and why.
    ///
    /// Exit code 0: at least one is listed; 1: none is.
    #[command(after_long_help = examples![
        "blocklist-compile query spammers.blf spammer@bad.example",
        "blocklist-compile query --json spammers.blf - < addresses.txt",
    ])]
    Query(QueryArgs),
    /// Describe a filter file.
    #[command(after_long_help = examples!["blocklist-compile info --json spammers.blf | jq .entries"])]
    Info(FileArgs),
    /// Show what list.toml of a folder says about its feed, for the script that fetches it.
    ///
    /// One line: the URL, the limits of the download in bytes and seconds, for how many days a file is kept and may
    /// be unchanged (0: no limit), by how much the list may shrink and grow, and when entries end (-: never).
    #[command(hide = true)]
    Feed {
        /// The folder.
        folder: PathBuf,
    },
    /// Add or remove entries of a filter directly, without its text lists (the filter must have records).
    ///
    /// Writes nothing when nothing changes. The next build from text lists replaces these changes: for
    /// permanent changes use add and remove, or edit the lists.
    #[command(after_long_help = examples![
        "blocklist-compile update spammers.blf --add today.txt --remove gone.txt",
        "blocklist-compile update spammers.blf --fpr 1e-4",
    ])]
    Update(Update),
    /// Block a sender: add entries to a text list (and to its filter, with --filter).
    ///
    /// Edits the list, so that the next build keeps the entries; does not change other lines. With
    /// --filter, changes the filter too, and the daemon loads it at once. Without --filter, the next
    /// build puts the entries into effect; if blocklist-compile@NAME.path is active, this is also at once.
    ///
    /// To accept a sender whatever the lists say, add it to the whitelist, which is also a text list.
    #[command(after_long_help = examples![
        "blocklist-compile add lists/own.txt --note 'ticket 4711' spammer@bad.example",
        "blocklist-compile add lists/own.txt --filter own.blf @bad.example",
    ])]
    Add(EditArgs),
    /// Unblock a sender: remove entries from a text list (and from its filter, with --filter).
    ///
    /// Exit code 1: an entry is not in the list. If another list also has the entry, the next build lists it
    /// again: add the sender to the whitelist instead. What blocklist-milter junk added is not added by reports again,
    /// until 90 days after the last one (file .undone beside the list), or until you add it by name.
    #[command(after_long_help = examples![
        "blocklist-compile remove lists/own.txt --filter own.blf friend@good.example",
    ])]
    Remove(EditArgs),
    /// Merge filters with the same seed (see --seed-from) into one, or the parts of a list into its filter.
    ///
    /// The parts of a list (see build --part) give, in any order, the same file, byte for byte, as one build of
    /// the whole list with the same seed, date and --source. Of two equal parts of one piece, one is used; two
    /// different ones are refused.
    #[command(after_long_help = examples![
        "blocklist-compile merge -o all.blf spammers.blf disposable.blf",
        "blocklist-compile merge -o big.blf --source big.txt --expect pieces.txt parts/*.part",
    ])]
    Merge(Merge),
    /// Write the changes from one filter to the next, for hosts that have the first.
    ///
    /// A delta contains the added and removed entries, and all that apply needs to make NEW from OLD, byte for
    /// byte. Entries that expire need no space. Both filters must have records and the same hash seed, which
    /// is the case if they were built to the same output file. Like a filter, a delta contains the seed: keep
    /// it private.
    ///
    /// Exit code 1: nothing was written, because the filters are too different. Use NEW itself.
    #[command(after_long_help = examples![
        "blocklist-compile delta -o 41-42.delta spammers.41.blf spammers.42.blf",
    ])]
    Delta(Delta),
    /// Make a filter from an older one and deltas.
    ///
    /// The result is byte for byte NEW of the last delta: its SHA-256 is compared with the one in the delta before
    /// the output is replaced. If a delta is for another filter, or is damaged, nothing is written.
    #[command(after_long_help = examples![
        "blocklist-compile apply -o spammers.blf spammers.blf 41-42.delta",
        "blocklist-compile apply -o new.blf old.blf 41-42.delta 42-43.delta 43-44.delta",
    ])]
    Apply(Apply),
    /// Count the entries that two filters share.
    #[command(after_long_help = examples!["blocklist-compile compare --json yesterday.blf today.blf"])]
    Compare {
        /// Print JSON.
        #[arg(long)]
        json: bool,
        /// The first filter file.
        a: PathBuf,
        /// The second filter file.
        b: PathBuf,
    },
    /// Count the entries that each pair of filters shares, to see which lists are worth using.
    #[command(after_long_help = examples!["blocklist-compile overlap *.blf"])]
    Overlap {
        /// Print JSON.
        #[arg(long)]
        json: bool,
        /// The filter files.
        #[arg(required = true, num_args = 2.., value_name = "FILE")]
        files: Vec<PathBuf>,
    },
    /// Find known good senders that the filter lists or matches.
    ///
    /// Listed senders are printed as comments with the reason; senders that only match the Bloom pages are
    /// printed as entries, ready for a whitelist. Exit code 0: none found; 1: some found.
    #[command(after_long_help = examples![
        "blocklist-compile false-positives own.blf /var/log/mail.log >> whitelist.txt",
    ])]
    FalsePositives {
        /// The filter.
        #[command(flatten)]
        of: FileArgs,
        /// Mail logs, address books or plain lists; - for standard input.
        #[arg(required = true)]
        known_good: Vec<PathBuf>,
    },
    /// Read a whole filter file and check every checksum and record.
    #[command(after_long_help = examples!["blocklist-compile verify spammers.blf"])]
    Verify(FileArgs),
}

#[derive(Debug, Args)]
pub(super) struct FileArgs {
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
    /// The filter file.
    pub file: PathBuf,
}

const ADDRESS_RULES: &str = "Address rules";

#[derive(Debug, Args)]
pub(super) struct Build {
    /// Filter file to write.
    ///
    /// An existing one is replaced only after the new one is complete and checked.
    #[arg(short, long, value_name = "FILE", value_parser = regular_file())]
    pub output: PathBuf,
    /// Name of the list in logs and replies [default: the output file's name without .blf].
    #[arg(long)]
    pub name: Option<String>,
    /// False-positive rate of the Bloom filter [default: 1e-4; without records 1e-6].
    ///
    /// The share of unlisted addresses that match the Bloom filter by chance. Exact records then show that
    /// they are not listed.
    #[arg(long, value_name = "P", value_parser = rate)]
    pub fpr: Option<f64>,
    /// Write a part of a list instead of a filter: the entries of one piece.
    ///
    /// For lists that are too large for one machine: build each piece on any machine, then merge all parts. All
    /// parts need the same seed (--seed-from or --seed) and should have the same --date. NAME is the name of the
    /// piece [default: the input file].
    #[arg(long, value_name = "NAME", num_args = 0..=1, require_equals = true)]
    #[arg(default_missing_value = "")]
    #[arg(conflicts_with_all = ["name", "no_records", "max_shrink", "max_growth", "allow_empty"])]
    pub part: Option<String>,
    /// Count all inputs as this one list, of which they are pieces.
    ///
    /// The filter then has the source NAME instead of the pieces. If NAME is the file that was cut into pieces,
    /// the filter is the same as that of the whole file.
    #[arg(long, value_name = "NAME")]
    pub source: Option<String>,
    /// Leave out the exact records, which confirm matches.
    ///
    /// The file is less than half as large, but the share --fpr of unlisted senders is treated as listed. It
    /// cannot be updated, merged or compared, since it does not say which entries it holds.
    #[arg(long)]
    pub no_records: bool,
    /// Use the hash seed of this filter, so that both can be merged and compared.
    #[arg(long, value_name = "FILE", conflicts_with = "seed")]
    pub seed_from: Option<PathBuf>,
    /// Hash seed, in hexadecimal [default: that of the file to replace, or random].
    #[arg(long, value_name = "HEX", value_parser = hexadecimal)]
    pub seed: Option<u64>,
    /// Write a filter even if an input has become empty.
    ///
    /// Otherwise it is an error if an input that had 100 entries or more now has none, or if every line is
    /// rejected.
    #[arg(long)]
    pub allow_empty: bool,
    /// Write nothing if an input, or the whole filter, has lost more than this share of its entries.
    ///
    /// The default is 20% if the only input is a folder (but not for --fetched), and no limit otherwise. Lists of
    /// fewer than 100 entries may shrink to nothing.
    #[arg(long, value_name = "PERCENT", value_parser = shrink)]
    pub max_shrink: Option<Percent>,
    /// Write nothing if an input has gained more than this share, such as 100%.
    ///
    /// Applies to inputs that had 100 entries or more.
    #[arg(long, value_name = "PERCENT")]
    pub max_growth: Option<Percent>,
    /// The command that runs this one, for messages that name an option.
    #[arg(long, value_name = "COMMAND", hide = true)]
    pub by: Option<String>,
    /// The daemon's folder of copies (state in its configuration), for an output that is damaged or gone.
    ///
    /// The copy says which seed, generation and entries that filter had, so that the new one continues it, and is
    /// compared with it. Without a copy, the report beside the output says so, but for the seed.
    #[arg(long, value_name = "FOLDER")]
    pub copies: Option<PathBuf>,
    /// Replace an output that is not a filter file, or is damaged.
    #[arg(long)]
    pub overwrite: bool,
    /// Remove +tag from local parts at every domain.
    #[arg(long, help_heading = ADDRESS_RULES)]
    pub plus: bool,
    /// Also look up the sender inside SRS addresses.
    #[arg(long, help_heading = ADDRESS_RULES)]
    pub srs: bool,
    /// Compare local parts in Unicode form NFKC.
    ///
    /// Full-width letters and similar forms are then equal to the plain ones.
    #[arg(long, help_heading = ADDRESS_RULES)]
    pub nfkc: bool,
    /// Do not apply rules of mail providers, such as no dots at Gmail.
    #[arg(long, help_heading = ADDRESS_RULES)]
    pub no_providers: bool,
    /// Also read this list, whatever its name; may be repeated.
    ///
    /// Other lists named like allowlists or backups are skipped.
    #[arg(long, value_name = "INPUT")]
    pub input: Vec<PathBuf>,
    /// What the feed of the folder has fetched: a file or a folder.
    ///
    /// It is read in place of the folder's files, as list.toml there says, if that file has a feed. Otherwise, or
    /// if nothing has been fetched yet, this option changes nothing.
    #[arg(long, value_name = "PATH")]
    pub fetched: Option<PathBuf>,
    /// Lists, folders of lists, or - for standard input.
    ///
    /// A folder is one list. Its files are read, and the filter is built, as list.toml in it says.
    ///
    /// gzip, zstd, bzip2 and xz are decompressed, and each file in a ZIP or tar archive is read as a list of its
    /// own. Files named like allowlists or backups are skipped, even when named on the command line; --input
    /// reads them.
    #[arg(value_name = "INPUT")]
    pub inputs: Vec<PathBuf>,
    #[command(flatten)]
    pub reading: Reading,
    #[command(flatten)]
    pub work: Work,
}

#[derive(Debug, Args)]
pub(super) struct PreviewArgs {
    /// Add the proposed declarations to list.toml in the folder of the lists.
    ///
    /// What stands there stays. What the proposal leaves open must be completed by hand: until then, the file
    /// is refused.
    #[arg(long)]
    pub write: bool,
    /// Show which entries would come into this filter, and how many would go.
    #[arg(long, value_name = "FILTER")]
    pub against: Option<PathBuf>,
    /// A list, or a folder of lists.
    ///
    /// A list is shown as a build of its folder reads it: list.toml there counts.
    #[arg(value_name = "FILE|FOLDER")]
    pub input: PathBuf,
    #[command(flatten)]
    pub reading: Reading,
}

/// How `build`, `preview` and `update` read text lists, and what they refuse.
#[derive(Debug, Args)]
#[command(next_help_heading = "Reading lists")]
pub(super) struct Reading {
    /// Format of the inputs.
    #[arg(long, help = DETECTED, long_help = formats())]
    pub format: Option<Format>,
    /// What divides the columns of a table: , ; | : tab or space.
    ///
    /// Needed where the first line has several of comma, semicolon and tab.
    #[arg(long, value_name = "SEPARATOR", value_parser = separator)]
    pub separator: Option<u8>,
    /// The column that names the sender: its heading, or its number from 1; may be repeated.
    ///
    /// In JSON, a path such as items[].email: . goes into an object, [] through an array or the values of an object,
    /// {} at the end names the keys of an object.
    #[arg(long, value_name = "COLUMN")]
    pub entry: Vec<String>,
    /// These values of a column list a row; may be repeated.
    #[arg(long, value_name = "COLUMN=VALUE[,VALUE]", value_parser = column_values)]
    pub when: Vec<(String, Vec<String>)>,
    /// These values of a column do not list a row; may be repeated.
    ///
    /// If the column is in --when, too, any other value refuses the file.
    #[arg(long, value_name = "COLUMN=VALUE[,VALUE]", value_parser = column_values)]
    pub unless: Vec<(String, Vec<String>)>,
    /// Numbers in a column list a row from this one on; may be repeated.
    #[arg(long, value_name = "COLUMN=NUMBER", value_parser = column_number)]
    pub at_least: Vec<(String, f64)>,
    /// Every row of a table counts: --rows all.
    #[arg(long, value_name = "all", value_parser = all_rows, conflicts_with_all = ["when", "unless", "at_least"])]
    pub rows: Option<bool>,
    /// A domain stands for its subdomains, too.
    #[arg(long)]
    pub subdomains: bool,
    /// The column with the day on which an entry ends.
    #[arg(long, value_name = "COLUMN")]
    pub expires_in: Option<String>,
    /// The column with the day on which an entry was added.
    #[arg(long, value_name = "COLUMN")]
    pub added_in: Option<String>,
    /// How dates are written, such as %d.%m.%Y [default: as in 2026-12-31, ISO 8601].
    #[arg(long, value_name = "FORMAT")]
    pub date_format: Option<DateFormat>,
    /// A text that means no date, besides an empty one; may be repeated.
    #[arg(long, value_name = "TEXT")]
    pub never: Vec<String>,
    /// Day on which entries expire, or days after the build date, such as 30d.
    ///
    /// On that day they are no longer listed. An expiry date in the list itself has precedence.
    #[arg(long, value_name = "DATE|DAYS")]
    pub expires: Option<Expires>,
    /// Reject entries that list senders of this domain; may be repeated.
    ///
    /// This includes local parts at every domain (spammer@).
    #[arg(long, value_name = "DOMAIN")]
    pub protect: Vec<String>,
    /// Accept this overly broad entry, such as newsletter@; may be repeated.
    #[arg(long, value_name = "ENTRY")]
    pub allow: Vec<String>,
    /// Accept all overly broad entries.
    ///
    /// These are public suffixes, providers of free mailboxes, services that many senders share, postmaster@,
    /// info@ and the like. --protect still applies.
    #[arg(long)]
    pub allow_world: bool,
    /// Write nothing if more lines of a list than this are rejected: a number, or a percentage of
    /// its entries and rejected lines together.
    ///
    /// The default is 1%; of fewer than ten rejected lines, a fifth. Overly broad and protected
    /// entries do not count.
    #[arg(long, value_name = "N|N%", value_parser = str::parse::<MaxRejects>)]
    pub max_rejects: Option<MaxRejects>,
    /// Write nothing if any line is rejected, or if an input has no entry.
    #[arg(long, conflicts_with = "max_rejects")]
    pub strict: bool,
}

#[derive(Debug, Args)]
#[command(next_help_heading = "Resources and reports")]
pub(super) struct Work {
    /// Number of worker threads [default: one per processor].
    ///
    /// Fewer are used if memory does not suffice.
    #[arg(long, value_name = "N", value_parser = whole_number::<usize>)]
    pub threads: Option<usize>,
    /// Memory limit, such as 512M or 2G [default: a quarter of the available memory].
    #[arg(long, value_name = "SIZE", value_parser = size)]
    pub memory: Option<u64>,
    /// Build date [default: SOURCE_DATE_EPOCH, or today].
    #[arg(long, value_name = "DATE", value_parser = day)]
    pub date: Option<Day>,
    /// Write the report to this file as JSON; - is the same as --json.
    #[arg(long, value_name = "FILE")]
    pub report: Option<PathBuf>,
    /// Print the report as JSON.
    ///
    /// One JSON object on standard output, instead of text on standard error. It names the first 20 lines of each
    /// reason for which lines are rejected, skipped or left out.
    #[arg(long)]
    pub json: bool,
    /// Print errors only.
    #[arg(short, long)]
    pub quiet: bool,
}

#[derive(Debug, Args)]
pub(super) struct Update {
    /// Filter file to change; replaced only after the new one is complete.
    pub file: PathBuf,
    /// A list of entries to add, or one entry such as spam@bad.example; may be repeated.
    #[arg(long, value_name = "INPUT")]
    pub add: Vec<PathBuf>,
    /// A list of entries to remove, or one entry; may be repeated. Has precedence over --add.
    #[arg(long, value_name = "INPUT")]
    pub remove: Vec<PathBuf>,
    /// Rebuild the filter for another false-positive rate.
    #[arg(long, value_name = "P", value_parser = rate)]
    pub fpr: Option<f64>,
    #[command(flatten)]
    pub reading: Reading,
    #[command(flatten)]
    pub work: Work,
}

#[derive(Debug, Args)]
pub(super) struct EditArgs {
    /// Also change this filter.
    #[arg(long, value_name = "FILE")]
    pub filter: Option<PathBuf>,
    /// A comment for the new lines, such as a ticket number.
    #[arg(
        long,
        value_name = "TEXT",
        default_value = "",
        hide_default_value = true
    )]
    pub note: String,
    /// The text list: a plain list, one entry per line.
    pub list: PathBuf,
    /// Entries: an address, @domain, .domain for its subdomains, or a local part such as spam@.
    #[arg(required = true, value_name = "ENTRY")]
    pub entries: Vec<String>,
}

#[derive(Debug, Args)]
pub(super) struct Merge {
    /// Filter file to write.
    #[arg(short, long, value_name = "FILE", value_parser = regular_file())]
    pub output: PathBuf,
    /// Name of the list in logs and replies [default: the output file's name without .blf].
    #[arg(long)]
    pub name: Option<String>,
    /// False-positive rate, as for build [default: the lowest rate of the inputs].
    #[arg(long, value_name = "P", value_parser = rate)]
    pub fpr: Option<f64>,
    /// Write nothing if a list, or the whole filter, has lost more than this share of its entries, such as 20%.
    ///
    /// Compared with the output that is to be replaced. Lists of fewer than 100 entries may shrink to nothing.
    #[arg(long, value_name = "PERCENT", value_parser = shrink)]
    pub max_shrink: Option<Percent>,
    /// Write nothing if a list has gained more than this share, such as 100%.
    ///
    /// Applies to lists that had 100 entries or more.
    #[arg(long, value_name = "PERCENT")]
    pub max_growth: Option<Percent>,
    /// Replace an output that is not a filter file, or is damaged.
    #[arg(long)]
    pub overwrite: bool,
    /// Parts only: write nothing unless the parts are exactly the pieces in this file.
    ///
    /// The file has one piece per line: its name, its digest, or its digest and its name. A missing or an
    /// additional piece is an error.
    #[arg(long, value_name = "FILE")]
    pub expect: Option<PathBuf>,
    /// Parts only: write nothing unless they are parts of this list; may be repeated.
    ///
    /// NAME as given to build --source. A part of another list, or a list without a part, is an error.
    #[arg(long, value_name = "NAME")]
    pub source: Vec<String>,
    /// The filters or parts to merge.
    #[arg(required = true, value_name = "FILE")]
    pub files: Vec<PathBuf>,
    #[command(flatten)]
    pub work: Work,
}

#[derive(Debug, Args)]
pub(super) struct Delta {
    /// The delta to write. An existing file is replaced only if it is a delta.
    #[arg(short, long, value_name = "FILE", value_parser = regular_file())]
    pub output: PathBuf,
    /// The filter that the hosts have.
    pub old: PathBuf,
    /// The filter that the hosts are to get.
    pub new: PathBuf,
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
    /// Print errors only.
    #[arg(short, long)]
    pub quiet: bool,
}

#[derive(Debug, Args)]
pub(super) struct Apply {
    /// The filter file to write; may be OLD.
    ///
    /// An existing one is replaced only after the new one is complete and checked.
    #[arg(short, long, value_name = "FILE", value_parser = regular_file())]
    pub output: PathBuf,
    /// Replace an output that is not a filter file, or is damaged.
    #[arg(long)]
    pub overwrite: bool,
    /// Write nothing if the result has lost more than this share of the entries of OLD, such as 20%.
    ///
    /// Exit code 1. Entries that have expired count as lost. Filters of fewer than 100 entries have no limit.
    #[arg(long, value_name = "PERCENT", value_parser = shrink)]
    pub max_shrink: Option<Percent>,
    /// Write nothing if it has gained more than this share, such as 100%.
    #[arg(long, value_name = "PERCENT")]
    pub max_growth: Option<Percent>,
    /// The filter that the first delta is for.
    pub old: PathBuf,
    /// The deltas, each for the result of the one before it.
    #[arg(required = true, value_name = "DELTA")]
    pub deltas: Vec<PathBuf>,
    /// Number of worker threads [default: one per processor].
    #[arg(long, value_name = "N", value_parser = whole_number::<usize>)]
    pub threads: Option<usize>,
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
    /// Print errors only.
    #[arg(short, long)]
    pub quiet: bool,
}

#[derive(Debug, Args)]
pub(super) struct QueryArgs {
    /// Print JSON, one line per address.
    #[arg(long)]
    pub json: bool,
    /// The filter file.
    pub file: PathBuf,
    /// Addresses or entries; - reads them from standard input, one per line.
    #[arg(required = true, value_name = "ADDRESS")]
    pub addresses: Vec<OsString>,
}

const DETECTED: &str = "Format of the inputs [default: detected from their content]";

fn formats() -> String {
    let known = Format::known();
    format!("Format of the inputs: {known} [default: detected from their content]")
}
