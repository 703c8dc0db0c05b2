//! Filters that can be merged and compared: their keys were made in the same way, with the same seed and rules,
//! and their records say which keys they hold.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::compile::error::Error;
use blocklist_filter::filter::{Filter, Load, Spec};
use blocklist_filter::lookup::Lookup;

pub(crate) fn open_alike(paths: &[PathBuf]) -> Result<Vec<Arc<Filter>>, Error> {
    let mut filters: Vec<Arc<Filter>> = Vec::with_capacity(paths.len());
    for path in paths {
        let lookup = Lookup::open(path, Load::Disk)?;
        let filter = lookup.filter();
        if let Some(first) = filters.first() {
            check_alike((first.path(), first.spec()), (path, filter.spec()))?;
        }
        if !filter.spec().records {
            let why = "has no records, so it cannot be merged or compared; build it again without --no-records, \
                       or build one filter from the text lists of all";
            return Err(Error::unfit(path, why));
        }
        filters.push(Arc::clone(filter));
    }
    Ok(filters)
}

pub(super) fn check_alike(
    (a_path, a): (&Path, &Spec),
    (b_path, b): (&Path, &Spec),
) -> Result<(), Error> {
    let a_path = a_path.display();
    let again = "build it again from its text lists with";
    let why = if a.seed != b.seed {
        format!("has a different hash seed from {a_path}; {again} --seed-from {a_path}")
    } else if a.rules != b.rules {
        format!("made with other address rules than {a_path} (see info); {again} the same")
    } else {
        return Ok(());
    };
    Err(Error::unfit(b_path, why))
}
