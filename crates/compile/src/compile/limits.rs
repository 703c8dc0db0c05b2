//! Whether new lists may replace what the filter holds: half a list must not.
//!
//! A download that failed leaves an empty file, an error page, or the first part of a list. The old
//! filter knows how many entries each list had, so each list is compared with itself:
//!
//! | a list | is |
//! |---|---|
//! | of truncated JSON, a web page, half an archive | refused when it is read |
//! | of which more lines are rejected than [`MaxRejects`](crate::list::MaxRejects) allows | refused |
//! | that had [`SMALL`] entries or more, and has none now | an error, unless `--allow-empty` |
//! | that shrinks by more than `--max-shrink`, or grows by more than `--max-growth` | refused |
//! | that had fewer entries | regarded as kept by hand; it may grow freely and, as a folder, become empty |
//!
//! `--max-shrink` also applies to the filter as a whole. Only this counts for lists that are no
//! longer read: the user gives a list up by deleting its file.

use std::collections::BTreeMap;

use super::error::Error;
use super::plan::Plan;
use super::report::{RefusedFile, Report, preview_hint};
use blocklist_filter::base::numbers::{counted, grouped};
use blocklist_filter::filter::Written;

pub(crate) const SMALL: u64 = 100;

impl Report {
    pub(crate) fn refuse_rejects(&mut self, plan: &Plan) {
        for input in &self.inputs {
            // Expired entries and those that were left out were entries, too.
            let entries = input.entries + input.expired + input.broad;
            let mut refused = self.refused_files.iter();
            let is_refused = refused.any(|refused| refused.file == input.file);
            if is_refused || !plan.max_rejects.is_over(input.rejected, entries) {
                continue;
            }
            let reason = format!(
                "{} rejected, more than --max-rejects {} allows beside {}; first {}{}",
                counted(input.rejected, "line", "lines"),
                plan.max_rejects,
                counted(entries, "entry", "entries"),
                input.first_reject,
                preview_hint(&input.file),
            );
            self.refused_files.push(RefusedFile {
                file: input.file.clone(),
                reason,
                ..RefusedFile::default()
            });
        }
    }

    pub(crate) fn compare_with(&mut self, before: Option<&Written>) {
        self.entries_before = before.map(|before| before.entries);
        let mut gone = before.map_or_else(BTreeMap::new, |before| before.lists.clone());
        for input in &mut self.inputs {
            input.before = gone.remove(&input.source.file);
        }
        gone.retain(|_, entries| *entries > 0);
        let shown =
            |(file, entries)| format!("{file}: {} before", counted(entries, "entry", "entries"));
        self.no_longer_read = gone.into_iter().map(shown).collect();
    }

    pub(crate) fn check_nothing_lost(&self, plan: &Plan) -> Result<(), Error> {
        if plan.allow_empty {
            return Ok(());
        }
        let no_entry_in = |what| {
            Err(Error::Plan(format!(
                "no entry in {what}; use --allow-empty to build it anyway"
            )))
        };
        // A page that says "not found" in place of the list must not empty a filter.
        let has_limit = plan.max_shrink.is_some();
        let notable = self.has_notable_skips() || !self.broad.is_empty();
        // A folder kept by hand, with nothing but comments or no file at all, names nobody on purpose.
        // A limit refuses what was large, and its message names the one option that allows it.
        let is_kept = plan.meant.is_empty()
            && plan.fetched.is_none()
            && plan.inputs.iter().all(|path| path.is_dir());
        let was_small = self.entries_before.unwrap_or(0) < SMALL;
        let on_purpose = is_kept && self.rejected == 0 && !notable && (was_small || has_limit);
        if self.rows == 0 && !on_purpose {
            return no_entry_in(self.why_nothing());
        }
        if has_limit {
            return Ok(());
        }
        let lost = self.inputs.iter().find_map(|input| {
            let had = input.before.filter(|had| *had >= SMALL)?;
            (input.entries + input.expired == 0)
                .then(|| format!("{}, which had {} before", input.file, grouped(had)))
        });
        lost.map_or(Ok(()), no_entry_in)
    }

    /// Refuses the output if a list has lost or gained too much; returns whether it did.
    pub(crate) fn refuse_changed_lists(&mut self, plan: &Plan) -> bool {
        self.refused = self.inputs.iter().find_map(|input| {
            let had = input.before?;
            // Expired entries were in the list, too.
            let now = input.entries + input.expired;
            let most = (plan.max_shrink, plan.max_growth);
            refused_change(&plan.command, &input.file, (had, now), most)
        });
        self.refused.is_some()
    }

    pub(crate) fn refuse_shrunk_filter(&mut self, plan: &Plan, entries: u64) -> bool {
        // Expired entries were in the list, too.
        let change = (self.entries_before.unwrap_or(0), entries + self.expired);
        let (file, most) = (plan.output.display().to_string(), (plan.max_shrink, None));
        self.refused = refused_change(&plan.command, &file, change, most);
        self.refused.is_some()
    }
}

/// Returns why a list of `had` entries may not become one of `now`, given limits in percent.
pub(super) fn refused_change(
    command: &str,
    what: &str,
    (had, now): (u64, u64),
    (max_shrink, max_growth): (Option<u32>, Option<u32>),
) -> Option<String> {
    let changed = u128::from(had.abs_diff(now)) * 100;
    let (option, most, enough) = match now < had {
        true => ("--max-shrink", max_shrink, 100),
        false => (
            "--max-growth",
            max_growth,
            changed.div_ceil(had.max(1).into()),
        ),
    };
    let most = most.filter(|_| had >= SMALL)?;
    if changed <= u128::from(had) * u128::from(most) {
        return None;
    }
    Some(format!(
        "{what}: {}, {} before; this is more than {option} {most}% allows; \
         if it is intended, allow it once with {command}{option} {enough}%",
        counted(now, "entry", "entries"),
        grouped(had)
    ))
}
