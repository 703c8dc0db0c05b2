//! What a list is read as, and what would come of it, without writing a filter.
//!
//! The counts are those of a build, made by the same code. For a table, the columns or the paths of JSON
//! are described, and if nothing is declared about it, a declaration is proposed.

mod column;
mod proposal;
mod rows;
mod survey;

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::compile::{
    Against, Error, Plan, Progress, RefusedFile, Report, base_name, in_its_folder, look,
};
use crate::list::{LIST_TOML, ListToml, Why};
use crate::settings;
use blocklist_filter::base::path::folder_of;
use blocklist_filter::base::replacement::Replacement;

pub(crate) use column::Column;
pub(crate) use proposal::Proposal;
use rows::Judge;
pub(crate) use rows::Sample;
pub(crate) use survey::{First, Kind, Survey};

/// What would come of a list.
#[derive(Debug)]
pub(crate) struct Preview {
    /// Its files, in the order of their numbers.
    pub(crate) files: Vec<FilePreview>,
    /// What a build would count.
    pub(crate) report: Report,
    pub(crate) against: Against,
    pub(crate) list_toml: PathBuf,
}

/// What would come of one file.
#[derive(Debug)]
pub(crate) struct FilePreview {
    pub(crate) file: String,
    /// How it is read: the format, and what decided it.
    pub(crate) reading: Option<(String, Why)>,
    pub(crate) samples: Vec<Sample>,
    /// Why a build would use nothing of it.
    pub(crate) refused: Option<RefusedFile>,
    /// Its columns, if it is a table.
    pub(crate) survey: Option<Survey>,
    /// What to declare, if nothing is declared about it.
    pub(crate) proposal: Option<Proposal>,
}

/// Reads a file, or the files of a folder, as a build of the folder would. `plan` has what options
/// say; `against` is a filter to compare with.
pub(crate) fn preview(
    path: &Path,
    plan: &Plan,
    against: Option<&Path>,
    progress: &Progress,
) -> Result<Preview, Error> {
    // It is read several times.
    if fs::metadata(path).is_ok_and(|it| !it.is_file() && !it.is_dir()) {
        let why = "not a regular file; save its content to a file first";
        return Err(Error::io(path, "preview")(io::Error::other(why)));
    }
    let found = in_its_folder(path, &plan.reads.declared)?;
    let folder = if path.is_dir() { path } else { folder_of(path) };
    let list_toml = ListToml::of_folder(folder)?.unwrap_or_default();
    let (report, against) = look(plan, &found, against, progress)?;
    let judge = Judge {
        options: plan.read_options(0, Vec::new())?,
        progress,
    };
    let mut seen = Preview {
        files: Vec::with_capacity(found.lists.len()),
        report,
        against,
        list_toml: folder.join(LIST_TOML),
    };
    for input in &found.lists {
        let begun = judge.begin(input)?;
        let survey = Survey::of(&begun.head, begun.rest, &input.declared);
        let survey = survey.map_err(Error::io(&input.path, "read"))?;
        let reading = begun.reading.ok();
        let name = base_name(&input.label());
        let proposal = match &survey {
            Some(survey) if reading.is_none() && !list_toml.has_file(&name) => {
                Some(Proposal::new(&name, survey, &plan.reads.declared))
            }
            _ => None,
        };
        let mut refused = seen.report.refused_files.iter();
        seen.files.push(FilePreview {
            file: input.shown(),
            reading: reading.map(|reading| (reading.format.to_string(), reading.why)),
            samples: judge.samples(input)?,
            refused: refused.find(|it| it.file == input.shown()).cloned(),
            proposal,
            survey,
        });
    }
    Ok(seen)
}

/// Returns a `list.toml` with proposals at its end. What stands in it stays.
fn joined(path: &Path, proposals: &[&Proposal]) -> Result<(String, ListToml), settings::Error> {
    let is_missing = |error: &io::Error| error.kind() == io::ErrorKind::NotFound;
    let mut text = match settings::text_of(path) {
        Err(settings::Error::Unreadable { source, .. }) if is_missing(&source) => String::new(),
        read => read?,
    };
    for proposal in proposals {
        if !text.is_empty() {
            text.push_str(if text.ends_with('\n') { "\n" } else { "\n\n" });
        }
        text.push_str(&proposal.toml);
    }
    let list_toml = ListToml::parse(&text, path)?;
    Ok((text, list_toml))
}

/// Adds proposals to a `list.toml`.
pub(crate) fn write(path: &Path, proposals: &[&Proposal]) -> Result<(), Error> {
    let replacement = Replacement::claim(path)?;
    let (text, _) = joined(path, proposals)?;
    Ok(replacement.commit_text(text.as_bytes())?)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use proptest::prelude::*;

    use super::*;
    use crate::compile::build;
    use blocklist_filter::base::day::Day;

    const BESIDE: &str = "# by hand\n[[file]]\nmatch = \"other.csv\"\nignore = true # for now";

    /// Keeps each line of a proposal that says which rows count, without its `#`, writes it and builds. Returns the
    /// proposal, and for each line the line itself, and what was listed; nothing if the file stays refused.
    fn try_out(name: &str, text: &[u8]) -> (String, Vec<(String, Option<u64>)>) {
        let dir = tempfile::tempdir().unwrap();
        let (file, list_toml) = (dir.path().join(name), dir.path().join(LIST_TOML));
        fs::write(&file, text).unwrap();
        fs::write(&list_toml, BESIDE).unwrap();
        let mut plan = Plan::new(dir.path().join("x.blf"), vec![dir.path().to_owned()]);
        plan.limits.allow_empty = true;
        let mut seen = preview(&file, &plan, None, &Progress::new()).unwrap();
        let proposal = seen.files.remove(0).proposal.unwrap();
        write(&list_toml, &[&proposal]).unwrap();
        let written = fs::read_to_string(&list_toml).unwrap();
        assert_eq!(written, format!("{BESIDE}\n\n{}", proposal.toml));
        let listed = || {
            let report = build(&plan, &Progress::new()).unwrap();
            report.refused.is_none().then_some(report.rows)
        };
        assert!(!proposal.is_open || listed().is_none(), "{}", proposal.toml);

        let choices = proposal.toml.lines();
        let choices = choices.filter(|it| it.starts_with("# when") || it.starts_with("# rows"));
        let tried = choices.map(|choice| {
            fs::write(&list_toml, written.replace(choice, &choice[2..])).unwrap();
            (choice.to_owned(), listed())
        });
        (proposal.toml.clone(), tried.collect())
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(200))]

        /// The rows shown of a short list are what a build makes of them, with each setting that decides.
        #[test]
        fn the_rows_shown_have_the_outcomes_that_a_build_counts(
            lines in prop::collection::vec(prop::sample::select(LINES.as_slice()), 1..10),
            (records, allows_world, ends) in any::<(bool, bool, bool)>(),
        ) {
            let dir = tempfile::tempdir().unwrap();
            let file = dir.path().join("x.txt");
            fs::write(&file, lines.join("\n") + "\n").unwrap();
            let mut plan = Plan::new(dir.path().join("x.blf"), Vec::new());
            (plan.records, plan.allow_world) = (records, allows_world);
            plan.expires = ends.then_some(Day(u16::MAX - 1));
            plan.protect = vec!["our.example".to_owned()];
            let seen = preview(&file, &plan, None, &Progress::new()).unwrap();
            let samples = &seen.files[0].samples;
            let shown = |outcome| samples.iter().filter(|one| one.outcome == outcome).count() as u64;
            let report = &seen.report;
            let broad = report.broad.iter().map(|why| why.count).sum();
            let counted = [report.rows, report.rejected, report.expired, broad];
            prop_assert_eq!(["listed", "REJECTED", "expired", "LEFT OUT"].map(shown), counted);
        }
    }

    /// Lines of each outcome, and of some by one setting but not by another.
    const LINES: [&str; 14] = [
        "a@b.example",
        "@b.example",
        ".b.example",
        "bad@",
        "two words",
        "# a comment",
        "a@b.example # expires 2020-01-01",
        "a@b.example # expires 2099-01-01",
        "@gmail.com # expires 2099-01-01",
        "@gmail.com # expires 2020-01-01",
        "info@",
        "x@our.example",
        "@our.example # expires 2099-01-01",
        "a@b..example # expires 2020-01-01",
    ];

    fn table(name: &str, heading: &str, row: &str, seventh: &str) -> Vec<u8> {
        let row = |n: usize| {
            let is_seventh = n == 7 && seventh != "-";
            let verdict = ["allow", "block", "block", "block"][n % 4];
            let written = if is_seventh { seventh } else { row };
            let written = written.replace('S', &format!("s{n}@bad.example"));
            written.replace('V', verdict).replace('N', &n.to_string())
        };
        let rows: Vec<String> = (0..40).map(row).collect();
        let text = match name.ends_with(".json") {
            true => format!("[{}]", rows.join(",\n")),
            false => format!("{heading}\n{}\n", rows.join("\n")),
        };
        text.into_bytes()
    }

    /// Each line of a proposal says how many rows it lists, and a build lists them; in doubt, the file
    /// stays refused. The tables have 40 rows: the file, its heading, each row, row 7; whether a line of the proposal decides
    /// ("yes", "no"), and parts of the proposal. `S` is a sender, `V` a verdict (30 block, 10 allow), `N` the number of the row.
    #[test]
    fn a_build_lists_what_a_line_of_a_proposal_says() {
        for line in include_str!("../../../../../tests/pure/list/proposals.txt").lines() {
            let cells = line.split("  ").map(str::trim);
            let mut cells = cells.filter(|cell| !cell.is_empty());
            let mut cell = || cells.next().unwrap();
            let (name, heading, row, seventh, decides) = (cell(), cell(), cell(), cell(), cell());
            let (toml, tried) = try_out(name, &table(name, heading, row, seventh));
            for part in cells {
                assert!(toml.contains(part), "{name}: no {part:?} in\n{toml}");
            }
            assert_eq!(tried.is_empty(), decides == "none", "{name}\n{toml}");
            for (choice, listed) in tried {
                let (_, rows) = choice.rsplit_once("# ").unwrap();
                let rows = rows.split(' ').next().unwrap().parse().ok();
                let expected = rows.filter(|_| decides == "yes");
                assert_eq!(listed, expected, "{name}: {choice}\n{toml}");
            }
        }
    }
}
