//! The report beside the filter: what a build did, or why it failed.

use std::io;
use std::path::Path;

use super::error::Error;
use super::report::{FilterReport, Report};
use blocklist_filter::base::clock::now_s;
use blocklist_filter::base::replacement;
use blocklist_filter::filter::{BuildReport, Reason, Written};

const KEPT: usize = 16;
const KEPT_LINES: usize = 3;
const KEPT_LISTS: usize = 1000;

/// Replaces the report beside the filter `output`, after a build. A build that was not meant for this
/// file, or never began, leaves it as it is.
pub(crate) fn write_build_report(output: &Path, result: Result<&Report, &Error>) -> io::Result<()> {
    let report = match result {
        Ok(report) => report.summary(),
        Err(
            Error::Interrupted
            | Error::NotReplaced { .. }
            | Error::File(replacement::Error::Busy(_) | replacement::Error::NotAFile(_)),
        ) => return Ok(()),
        Err(error) => BuildReport {
            time_s: now_s(),
            failure: Some(error.to_string().replace('\n', "; ")),
            ..BuildReport::default()
        },
    };
    report.write(output)
}

impl Report {
    pub(super) fn summary(&self) -> BuildReport {
        let skipped = self.skipped.iter().filter(|skipped| skipped.notable);
        let refused = self.refused_files.iter().take(KEPT);
        let filter = self.filter.as_ref();
        BuildReport {
            time_s: now_s(),
            failure: self.refused.as_ref().map(ToString::to_string),
            generation: filter.map(|filter| filter.generation),
            built_s: filter.map_or(0, |filter| filter.built_s),
            entries: filter.map_or(0, |filter| filter.entries),
            approved_shrink: self.approved_shrink,
            expired: self.expired,
            is_feed: self.is_feed,
            rejected: self.rejected,
            rejects: kept(self.rejects.iter()),
            skipped: kept(skipped.map(|skipped| &skipped.why)),
            broad: kept(self.broad.iter()),
            refused_files: refused.map(ToString::to_string).collect(),
            written: filter.map(|filter| self.written(filter)),
        }
    }
}

impl Report {
    fn written(&self, filter: &FilterReport) -> Written {
        let sources = self.inputs.iter().map(|input| &input.source);
        let lists = sources.map(|source| (source.file.clone(), source.entries));
        // The inputs of an update are not the lists of the filter.
        let is_known = self.changed.is_none() && self.inputs.len() <= KEPT_LISTS;
        Written {
            generation: filter.generation,
            entries: filter.entries,
            lists: lists.filter(|_| is_known).collect(),
        }
    }
}

fn kept<'a>(reasons: impl Iterator<Item = &'a Reason>) -> Vec<Reason> {
    let kept = reasons.take(KEPT).map(|reason| Reason {
        first: reason.first.iter().take(KEPT_LINES).cloned().collect(),
        ..reason.clone()
    });
    kept.collect()
}
