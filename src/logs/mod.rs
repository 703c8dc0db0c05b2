//! Reads the daemon's log: reports about a day or a week, and explains single decisions.
//!
//! The daemon is not involved: the commands read its log from the journal, files or standard input.

mod case;
mod history;
mod line;
mod summary;
mod text;

use std::path::{Path, PathBuf};

pub(crate) use case::find_case;
pub use history::History;
pub use summary::{Options, summarize};

use crate::journal;
pub use blocklist_filter::base::whole_file::FileError as Error;

/// The unit whose lines in the journal are read if no log is named.
const UNIT: &str = "blocklist-milter.service";

/// Calls `each` with every line of these logs, or if there are none, with those in the journal
/// since a time. It returns whether the daemon wrote the line.
///
/// # Errors
/// When a log cannot be read, or has lines, but none of the daemon.
fn each_line(
    logs: &[PathBuf],
    since: i64,
    mut each: impl FnMut(&str) -> bool,
) -> Result<(), Error> {
    let (mut lines, mut ours) = (0_u64, 0_u64);
    let mut count = |line: &str| {
        lines += u64::from(!line.trim().is_empty());
        ours += u64::from(each(line));
    };
    for log in logs {
        journal::each_line(log, &mut count).map_err(Error::of(log))?;
    }
    let journal = Path::new("journal");
    if logs.is_empty() {
        journal::each_line_of_unit(UNIT, since, &mut count).map_err(Error::of(journal))?;
    }
    // Nothing at all in a part of the journal is no wonder.
    if ours == 0 && (lines > 0 || logs.is_empty() && since == 0) {
        let log = logs.first().map_or(journal, PathBuf::as_path);
        return Err(Error::of(log)(
            "no line of blocklist-milter in it; name its log",
        ));
    }
    Ok(())
}
