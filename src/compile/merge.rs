//! Merges several filters into one.
//!
//! Filters with records may differ in size and rate: their records are joined, and the result
//! gets a new size. Without records there are only pages. A union of pages is correct only if
//! every key has the same bits in the same page, so seeds, shapes and rules must be equal.
//! Everything else is refused, with an error that says what to do.

use std::sync::Arc;
use std::time::Instant;

use super::alike::{open_alike, union_of_page};
use super::lineage::Lineage;
use super::report::{FilterReport, ReadReport, Report};
use super::wording::kind_counts;
use super::write::{FileRecords, Joined, Sorted, Sources, assemble, count_entries};
use super::{Error, Phase, Plan, Progress, Seed};
use crate::base::replacement::Replacement;
use crate::filter::page::count_set;
use crate::filter::{EncodedPage, Filter, Header, Spec, Writer, sizing};

/// Merges the filters that are the inputs of `plan` into its output. The rate is `fpr`, or else
/// the lowest rate of the inputs.
///
/// # Errors
/// When they cannot be merged, and whatever prevents writing the result.
pub fn merge(plan: &Plan, fpr: Option<f64>, progress: &Progress) -> Result<Report, Error> {
    let started = Instant::now();
    plan.check_settings()?;
    let replacement = Replacement::claim(&plan.output)?;
    let filters = open_alike(&plan.inputs)?;
    let Some(first) = filters.first() else {
        return Err(Error::Plan("no filter to merge".to_owned()));
    };
    let lineage = Lineage::of(
        &plan.output,
        &Seed::Fixed(first.spec().seed),
        plan.overwrite,
    )?;
    let mut sources = Sources::default();
    for filter in &filters {
        sources.add_counts(&filter.spec().sources);
    }
    let numbers: Vec<_> = filters
        .iter()
        .map(|filter| sources.numbers(&filter.spec().sources))
        .collect();
    let lowest = filters
        .iter()
        .map(|filter| filter.spec().fpr)
        .fold(1.0, f64::min);
    let spec = Spec {
        name: plan.name.clone(),
        generation: lineage.generation,
        built: plan.built,
        kinds: filters
            .iter()
            .fold(0, |kinds, filter| kinds | filter.spec().kinds),
        fpr: fpr.unwrap_or(lowest),
        sources: sources.into_list(),
        ..first.spec().clone()
    };
    let mut report = Report::after_reading(plan, ReadReport::default(), 0);
    report.rows = filters.iter().map(|filter| filter.entries()).sum();
    report.refuse_changed_sources(plan, &lineage.before, &spec.sources);
    if report.refused.is_some() {
        return Ok(report);
    }
    let header = if filters.iter().all(|filter| filter.spec().records) {
        let stream = || -> Result<_, Error> {
            let mut streams: Vec<Box<dyn Sorted>> = Vec::new();
            for (filter, numbers) in filters.iter().zip(&numbers) {
                streams.push(Box::new(FileRecords::new(filter, numbers.clone())?));
            }
            Ok(Joined::new(streams, None, plan.today().0))
        };
        progress.begin(Phase::Counting, report.rows);
        let mut counted = stream()?;
        let counts = count_entries(&mut counted, progress)?;
        // Expired entries were in the filters.
        let entries = counts.entries() + counted.changed().expired;
        report.refuse_shrunk_filter(plan, &lineage.before, entries);
        if report.refused.is_some() {
            return Ok(report);
        }
        report.kinds = kind_counts(&counts);
        report.duplicates = report.rows.saturating_sub(counts.entries());
        let spec = Spec {
            kinds: counts.kind_bits(),
            ..spec
        };
        progress.begin(Phase::Writing, counts.entries());
        let shape = sizing::shape(counts.entries(), spec.fpr);
        assemble(
            Writer::begin(replacement, spec, counts.entries(), shape)?,
            stream()?,
            plan.workers(),
            progress,
        )?
    } else {
        if fpr.is_some_and(|fpr| fpr.to_bits() != first.spec().fpr.to_bits()) {
            return Err(Error::Unlike(
                "--fpr: cannot change the rate of a filter without records".to_owned(),
            ));
        }
        same_pages(&filters)?;
        let union = count_pages(&filters, spec.fpr, progress)?;
        report.refuse_shrunk_filter(plan, &lineage.before, union.entries);
        if report.refused.is_some() {
            return Ok(report);
        }
        unite_pages(replacement, spec, union, &filters, progress)?
    };
    report.filter = Some(FilterReport::new(&header, &plan.output));
    report.seconds = started.elapsed().as_secs_f64();
    Ok(report)
}

/// Checks that the pages of filters can be united, if some have no records.
fn same_pages(filters: &[Arc<Filter>]) -> Result<(), Error> {
    for filter in filters {
        let path = filter.path().display();
        if filter.spec().records {
            return Err(Error::Unlike(format!(
                "{path}: has records, but others have none; build those again with records, or this one without"
            )));
        }
        if filter.shape() != filters[0].shape() {
            return Err(Error::Unlike(format!(
                "{path}: differs in size or rate from {}, and neither can change without records; build them again with records",
                filters[0].path().display()
            )));
        }
    }
    Ok(())
}

/// The contents of a union of pages.
#[derive(Clone, Copy)]
struct Union {
    /// Estimated number of keys.
    entries: u64,
    /// Rate of false positives.
    fpr: f64,
}

/// Counts the union of pages of one shape. The number of keys is unknown, so it is estimated from
/// the bits that are set. Fuller pages have a higher rate: if it exceeds the rate of the filters,
/// the union declares its own, and `info` and the report show it.
fn count_pages(filters: &[Arc<Filter>], fpr: f64, progress: &Progress) -> Result<Union, Error> {
    let shape = filters[0].shape();
    let (mut entries, mut rates) = (0.0, 0.0);
    progress.begin(Phase::Counting, shape.pages);
    for number in 0..shape.pages {
        progress.go_on()?;
        let set = count_set(&union_of_page(filters, number)?);
        entries += sizing::entries_of_fill(set, shape.probes);
        rates += sizing::rate_of_fill(set, shape.probes);
        progress.add(1);
    }
    #[allow(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a sum of positive estimates, far below 2^53"
    )]
    Ok(Union {
        entries: entries.round() as u64,
        fpr: fpr.max(rates / shape.pages as f64),
    })
}

/// Writes the union of pages of one shape.
fn unite_pages(
    replacement: Replacement,
    spec: Spec,
    union: Union,
    filters: &[Arc<Filter>],
    progress: &Progress,
) -> Result<Header, Error> {
    let shape = filters[0].shape();
    let spec = Spec {
        fpr: union.fpr,
        ..spec
    };
    let mut writer = Writer::begin(replacement, spec, union.entries, shape)?;
    progress.begin(Phase::Writing, shape.pages);
    let mut page = [EncodedPage::new()];
    for number in 0..shape.pages {
        progress.go_on()?;
        page[0].set_bits(&union_of_page(filters, number)?);
        writer.append(&page)?;
        progress.add(1);
    }
    progress.begin(Phase::Checking, 0);
    Ok(writer.finish()?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::filter::Load;
    use crate::filter::{Key, Record, encode_page, page};

    /// Two full lists make pages three quarters full. Their rate is far too high, but the filter
    /// still holds both lists, and declares its rate.
    #[test]
    fn a_union_without_records_declares_the_rate_it_has() {
        let folder = tempfile::tempdir().unwrap();
        let shape = sizing::shape(3_000, 1e-4);
        let keys = |list: u64| {
            let key = |i: u64| Key::of(&i.to_le_bytes(), list);
            let mut keys: Vec<_> = (0..3_000).map(key).collect();
            keys.sort_unstable();
            keys
        };
        let filters = [1, 2].map(|list| {
            let path = folder.path().join(format!("{list}.blf"));
            let replacement = Replacement::claim(&path).unwrap();
            let mut writer = Writer::begin(replacement, spec(), 3_000, shape).unwrap();
            let mut encoded = EncodedPage::new();
            for number in 0..shape.pages {
                let here = |key: &Key| page::page_of(*key, shape.pages) == number;
                let record = |key| Record {
                    key,
                    ..Record::default()
                };
                let here = keys(list).into_iter().filter(here).map(record);
                encode_page(shape, &here.collect::<Vec<_>>(), false, &mut encoded);
                writer.append(std::slice::from_ref(&encoded)).unwrap();
            }
            writer.finish().unwrap();
            Arc::new(Filter::open(&path, Load::Disk).unwrap())
        });
        let path = folder.path().join("union.blf");
        let replacement = Replacement::claim(&path).unwrap();
        let progress = Progress::new();
        let union = count_pages(&filters, spec().fpr, &progress).unwrap();
        let header = unite_pages(replacement, spec(), union, &filters, &progress).unwrap();
        assert!(header.estimated);
        assert!(header.entries.abs_diff(6_000) < 300, "{}", header.entries);
        assert!(
            header.spec.fpr > 1e-3 && header.spec.fpr < 0.5,
            "{:e}",
            header.spec.fpr
        );
        let union = Filter::open(&path, Load::Memory).unwrap();
        for key in [keys(1), keys(2)].concat() {
            assert!(union.may_hold(key).unwrap());
        }
    }

    fn spec() -> Spec {
        Spec {
            name: "union".to_owned(),
            generation: 1,
            built: 0,
            seed: 0,
            rules_version: 1,
            rules: 0,
            kinds: 1,
            fpr: 1e-4,
            records: false,
            sources: Vec::new(),
        }
    }
}
