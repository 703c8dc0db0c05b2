//! Merges the pages of filters, some of which have no records.
//!
//! A union of pages is correct only if every key has the same bits in the same page, so seeds,
//! shapes and rules must be equal.

use std::sync::Arc;

use crate::compile::alike::union_of_page;
use crate::compile::error::Error;
use crate::compile::progress::{Phase, Progress};
use crate::filter::{EncodedPage, Filter, Header, Writer};

/// Checks that the pages of filters can be merged, if some have no records.
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

/// Writes the union of pages of one shape.
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
