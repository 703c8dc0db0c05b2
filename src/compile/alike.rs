//! Filters that can be merged and compared: their keys were made in the same way.

use std::path::PathBuf;
use std::sync::Arc;

use super::Error;
use crate::filter::page::{PAGE_BYTES, Page, unite};
use crate::filter::{Filter, Load};
use crate::lookup::Lookup;

/// Opens filters, which must all have the same seed and the same address rules.
///
/// # Errors
/// When a filter cannot be opened; [`Error::Unlike`] when it differs from the first.
pub(crate) fn open_alike(paths: &[PathBuf]) -> Result<Vec<Arc<Filter>>, Error> {
    let mut filters: Vec<Arc<Filter>> = Vec::with_capacity(paths.len());
    for path in paths {
        let lookup = Lookup::open(path, Load::Disk)?;
        if let Some(first) = filters.first() {
            alike(first, lookup.filter())?;
        }
        filters.push(Arc::clone(lookup.filter()));
    }
    Ok(filters)
}

fn alike(a: &Filter, b: &Filter) -> Result<(), Error> {
    let (a_path, b_path) = (a.path().display(), b.path().display());
    if a.spec().seed != b.spec().seed {
        return Err(Error::Unlike(format!(
            "{b_path}: has a different hash seed from {a_path}; rebuild it from its text lists with --seed-from {a_path}"
        )));
    }
    if a.spec().rules != b.spec().rules {
        return Err(Error::Unlike(format!(
            "{b_path}: made with other address rules than {a_path} (see info); rebuild it from its text lists with the same"
        )));
    }
    Ok(())
}

/// Returns the union of one page of all filters.
pub(crate) fn union_of_page(filters: &[Arc<Filter>], number: u64) -> Result<Page, Error> {
    let mut union = [0; PAGE_BYTES];
    for filter in filters {
        unite(&mut union, &filter.page(number)?);
    }
    Ok(union)
}
