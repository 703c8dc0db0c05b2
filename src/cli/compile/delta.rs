//! `delta` and `apply`: the changes between two filters.

use std::fmt;

use super::args::{Apply, Delta};
use crate::base::numbers::{counted, grouped, size};
use crate::cli::Done;
use crate::cli::output::Output;
use crate::cli::progress::watched;
use crate::compile::{self, Applied, Deltas, Made};

pub(super) fn make(args: &Delta, out: &mut Output) -> Done {
    let made = watched(args.quiet, |progress| {
        compile::make_delta(&args.output, [&args.old, &args.new], progress)
    })?;
    Ok(out.tell(&made, made.refused.is_some(), args.json, args.quiet)?)
}

pub(super) fn apply(args: &Apply, out: &mut Output) -> Done {
    let mut deltas = Deltas::new(&args.old, &args.deltas);
    deltas.overwrite = args.overwrite;
    deltas.max_shrink = args.max_shrink.map(|most| most.0);
    deltas.max_growth = args.max_growth.map(|most| most.0);
    deltas.threads = args.threads.unwrap_or(deltas.threads);
    let applied = watched(args.quiet, |progress| {
        compile::apply(&args.output, &deltas, progress)
    })?;
    Ok(out.tell(&applied, applied.refused.is_some(), args.json, args.quiet)?)
}

impl fmt::Display for Made {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let output = self.output.display();
        if let Some(why) = &self.refused {
            return write!(f, "{output}: not written: {why}");
        }
        let [added, removed, changed] = [self.added, self.removed, self.changed].map(grouped);
        write!(
            f,
            "{output}: {added} added, {removed} removed, {changed} changed; {}, {:.3} % of the {} of the whole filter",
            size(self.bytes),
            self.bytes as f64 * 100.0 / self.new_bytes as f64,
            size(self.new_bytes)
        )
    }
}

impl fmt::Display for Applied {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let output = self.output.display();
        if let Some(why) = &self.refused {
            return write!(f, "{output}: not written: {why}");
        }
        write!(
            f,
            "{output}: generation {}, {}, {}; {} applied",
            self.generation,
            counted(self.entries, "entry", "entries"),
            size(self.bytes),
            counted(self.deltas as u64, "delta", "deltas")
        )
    }
}
