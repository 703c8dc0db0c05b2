//! Filters that can be merged and compared, since their keys were made in the same way; the union of
//! their pages.
//!
//! A union of pages is correct only if every key has the same bits in the same page, so seeds,
//! shapes and rules must be equal.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::compile::error::Error;
use crate::compile::progress::{Phase, Progress};
use blocklist_filter::filter::page::{PAGE_BYTES, Page, count_set, merge};
use blocklist_filter::filter::{EncodedPage, Filter, Header, Load, Spec, Writer, sizing};
use blocklist_filter::lookup::Lookup;

pub(crate) fn open_alike(paths: &[PathBuf]) -> Result<Vec<Arc<Filter>>, Error> {
    let mut filters: Vec<Arc<Filter>> = Vec::with_capacity(paths.len());
    for path in paths {
        let lookup = Lookup::open(path, Load::Disk)?;
        if let Some(first) = filters.first() {
            let other = lookup.filter();
            check_alike((first.path(), first.spec()), (other.path(), other.spec()))?;
        }
        filters.push(Arc::clone(lookup.filter()));
    }
    Ok(filters)
}

pub(super) fn check_alike(
    (a_path, a): (&Path, &Spec),
    (b_path, b): (&Path, &Spec),
) -> Result<(), Error> {
    let (a_path, b_path) = (a_path.display(), b_path.display());
    let again = "build it again from its text lists with";
    let why = if a.seed != b.seed {
        format!("has a different hash seed from {a_path}; {again} --seed-from {a_path}")
    } else if a.rules != b.rules {
        format!("made with other address rules than {a_path} (see info); {again} the same")
    } else {
        return Ok(());
    };
    Err(Error::Plan(format!("{b_path}: {why}")))
}

fn union_of_page(filters: &[Arc<Filter>], number: u64) -> Result<Page, Error> {
    let mut union = [0; PAGE_BYTES];
    for filter in filters {
        merge(&mut union, &filter.page(number)?);
    }
    Ok(union)
}

/// Estimates the number of keys in the union of pages of one shape, and its false-positive rate.
pub(crate) fn estimate_union(
    filters: &[Arc<Filter>],
    progress: &Progress,
) -> Result<(f64, f64), Error> {
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
    Ok((entries, rates / shape.pages as f64))
}

pub(super) fn check_same_pages(filters: &[Arc<Filter>]) -> Result<(), Error> {
    for filter in filters {
        let path = filter.path().display();
        if filter.spec().records {
            return Err(Error::Plan(format!(
                "{path}: has records, but others have none; build those again with records, or this one without"
            )));
        }
        if filter.shape() != filters[0].shape() {
            return Err(Error::Plan(format!(
                "{path}: differs in size or rate from {}, and neither can change without records; build them again with records",
                filters[0].path().display()
            )));
        }
    }
    Ok(())
}

pub(super) fn merge_pages(
    mut writer: Writer,
    filters: &[Arc<Filter>],
    progress: &Progress,
) -> Result<Header, Error> {
    let pages = writer.layout().shape.pages;
    progress.begin(Phase::Writing, pages);
    let mut page = [EncodedPage::default()];
    for number in 0..pages {
        progress.go_on()?;
        page[0].set_bits(&union_of_page(filters, number)?);
        writer.append(&page)?;
        progress.add(1);
    }
    progress.begin(Phase::Checking, 0);
    Ok(writer.finish()?)
}
