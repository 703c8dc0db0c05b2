//! One share of a merge on several machines: its counts, or its pages. See [`filter::share`](crate::filter).
//!
//! The counts belong to a share of the keys. All counts together determine the number of pages, and the pages are divided
//! into shares, too. Both steps read only the records of their own keys from the parts. The second step uses nothing from
//! the memory of the first one, so it may run on another machine.

use std::path::{Path, PathBuf};
use std::time::Instant;

use super::count::{Counted, Kept, count};
use super::pages::Paging;
use super::pieces::{Expected, Pieces};
use super::read::Reading;
use super::totals::{Totals, by_source};
use super::{left_of, ranges_of};
use crate::base::numbers::grouped;
use crate::base::replacement::Replacement;
use crate::compile::lineage::{check_not_input, check_share};
use crate::compile::partition::{NARROW_SOURCES, Narrow, StagedKey, Wide};
use crate::compile::report::{ReadReport, Report, ShareReport};
use crate::compile::{Error, Phase, Plan, Progress};
use crate::filter::{
    Basis, Counts, MAX_PARTS, PagesHead, Share, ShareKind, Spec, Writer, share_kind_at, sizing,
};

/// Whether a file is a share of a merge.
///
/// # Errors
/// The file cannot be read.
pub fn is_share(path: &Path) -> Result<bool, Error> {
    Ok(share_kind_at(path)?.is_some())
}

/// Counts the entries of a share of the keys of the parts that are the inputs of `plan`.
///
/// # Errors
/// The same as for [`join`](super::join).
pub fn count_share(
    plan: &Plan,
    share: Share,
    expected: &Expected,
    progress: &Progress,
) -> Result<Report, Error> {
    let started = Instant::now();
    let replacement = claim(plan, ShareKind::Counts)?;
    let pieces = pieces_of(&plan.inputs, expected, progress)?;
    let reading = Reading::of(&pieces, plan.today().0, progress)?;
    let merging = Merging {
        plan,
        progress,
        share,
        reading: &reading,
        entries: pieces.entries(),
    };
    let narrow = reading.sources <= NARROW_SOURCES as usize;
    let counted = match narrow {
        true => merging.count::<Narrow>()?,
        false => None,
    };
    let dated = narrow && counted.is_none();
    let counted = match counted {
        Some(counted) => counted,
        None => merging
            .count::<Wide>()?
            .unwrap_or_else(|| unreachable!("wide keys keep dates")),
    };
    let Counted {
        counts,
        expired,
        records,
        ..
    } = counted;
    let counts = Counts {
        share,
        basis: merging.basis(&pieces),
        dated,
        sources: by_source(&counts, &expired),
        records,
    };
    counts.write(replacement)?;
    let mut report = Report::after_reading(plan, ReadReport::default(), 0);
    report.rows = counts
        .records
        .iter()
        .fold(0, |sum, count| sum.saturating_add(*count));
    report.expired = expired
        .iter()
        .fold(0, |sum, count| sum.saturating_add(*count));
    report.share = Some(ShareReport::new(
        ShareKind::Counts,
        share,
        counts.entries(),
        &plan.output,
    ));
    report.seconds = started.elapsed().as_secs_f64();
    Ok(report)
}

/// Writes a share of the pages of the parts that are, with the counts of all shares, the inputs of
/// `plan`. The rate is `fpr`, or the lowest of theirs.
///
/// # Errors
/// The same as for [`join`](super::join). Also: counts are missing, or were made from other parts or on another day.
pub fn write_share(
    plan: &Plan,
    share: Share,
    fpr: Option<f64>,
    expected: &Expected,
    progress: &Progress,
) -> Result<Report, Error> {
    let started = Instant::now();
    let replacement = claim(plan, ShareKind::Pages)?;
    let (mut counts, mut parts) = (Vec::new(), Vec::new());
    for path in &plan.inputs {
        progress.go_on()?;
        match is_share(path)? {
            true => counts.push(path.clone()),
            false => parts.push(path.clone()),
        }
    }
    let pieces = pieces_of(&parts, expected, progress)?;
    let reading = Reading::of(&pieces, plan.today().0, progress)?;
    let merging = Merging {
        plan,
        progress,
        share,
        reading: &reading,
        entries: pieces.entries(),
    };
    let basis = merging.basis(&pieces);
    let totals = Totals::of(&counts, basis, &reading, progress)?;
    let of_all = pieces.spec();
    let spec = Spec {
        // The last step sets these fields of the filter.
        name: String::new(),
        generation: 0,
        built: 0,
        fpr: fpr.unwrap_or(of_all.fpr),
        ..of_all
    };
    let spec = left_of(spec, &totals.counts, &totals.expired);
    let entries = totals.counts.entries();
    let shape = sizing::shape(entries, spec.fpr);
    let head = PagesHead::new(
        (share, basis),
        (spec, entries, shape),
        totals.sources(),
        pieces.names(),
    );
    let writer = Writer::begin_share(replacement, &head)?;
    progress.begin(Phase::Writing, entries / u64::from(share.of()));
    let wide = totals.dated || reading.sources > NARROW_SOURCES as usize;
    let writer = match wide {
        true => merging.fill::<Wide>(writer, entries)?,
        false => merging.fill::<Narrow>(writer, entries)?,
    };
    let head = writer.finish_share(head)?;
    let mut report = Report::after_reading(plan, ReadReport::default(), 0);
    report.rows = head.body.entries;
    report.share = Some(ShareReport::new(
        ShareKind::Pages,
        share,
        head.body.entries,
        &plan.output,
    ));
    report.seconds = started.elapsed().as_secs_f64();
    Ok(report)
}

/// Claims the output, if it may be replaced by a share of this kind.
fn claim(plan: &Plan, kind: ShareKind) -> Result<Replacement, Error> {
    plan.check_settings()?;
    check_not_input(&plan.output, &plan.inputs)?;
    check_share(&plan.output, kind, plan.overwrite)?;
    Ok(Replacement::claim(&plan.output)?)
}

fn pieces_of(paths: &[PathBuf], expected: &Expected, progress: &Progress) -> Result<Pieces, Error> {
    if paths.len() > MAX_PARTS {
        return Err(Error::Plan(format!(
            "{} parts: a merge in shares takes at most {}; build larger pieces",
            grouped(paths.len() as u64),
            grouped(MAX_PARTS as u64)
        )));
    }
    Pieces::of(paths, expected, progress)
}

/// The merge of one share, in progress.
struct Merging<'a> {
    plan: &'a Plan,
    progress: &'a Progress,
    share: Share,
    reading: &'a Reading<'a>,
    /// Entries of all parts, including duplicates.
    entries: u64,
}

impl Merging<'_> {
    fn basis(&self, pieces: &Pieces) -> Basis {
        Basis {
            parts: pieces.digest(),
            day: self.plan.today().0,
        }
    }

    fn own_entries(&self) -> u64 {
        self.entries / u64::from(self.share.of())
    }

    fn count<I: StagedKey>(&self) -> Result<Option<Counted<'static>>, Error> {
        self.progress.begin(Phase::Counting, self.own_entries());
        let ranges = ranges_of::<I>(self.plan, self.reading, self.entries, 0);
        count::<I>(self.reading, ranges, self.share.keys(), &mut [])
    }

    fn fill<I: StagedKey>(&self, writer: Writer, entries: u64) -> Result<Writer, Error> {
        let ranges = ranges_of::<I>(self.plan, self.reading, self.entries, self.own_entries());
        let paging = Paging {
            reading: self.reading,
            ranges,
            kept: &Kept::new(ranges, &mut []),
        };
        paging.fill::<I>(writer, entries)
    }
}
