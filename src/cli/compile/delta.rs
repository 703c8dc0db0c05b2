//! `delta` and `apply`: the changes between two filters.

use std::fmt::Display;
use std::process::ExitCode;

use serde::Serialize;

use super::args::{Apply, Delta};
use crate::cli::Done;
use crate::cli::output::{Output, say};
use crate::cli::progress::Watcher;
use crate::compile::{self, Deltas, Error, Pair, Progress};

pub(super) fn make(args: &Delta, out: &mut Output) -> Done {
    let pair = Pair {
        old: args.old.clone(),
        new: args.new.clone(),
    };
    let made = watched(args.quiet, |progress| {
        compile::make_delta(&args.output, &pair, progress)
    })?;
    tell(&made, args.json, args.quiet && made.refused.is_none(), out)?;
    Ok(if made.refused.is_some() {
        ExitCode::FAILURE
    } else {
        ExitCode::SUCCESS
    })
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
    tell(
        &applied,
        args.json,
        args.quiet && applied.refused.is_none(),
        out,
    )?;
    Ok(if applied.refused.is_some() {
        ExitCode::FAILURE
    } else {
        ExitCode::SUCCESS
    })
}

fn watched<T>(quiet: bool, job: impl FnOnce(&Progress) -> Result<T, Error>) -> Result<T, Error> {
    let watcher = Watcher::start(quiet)?;
    job(watcher.progress())
}

/// Prints the result: JSON to standard output, text to standard error, as `build` does.
fn tell(
    done: &(impl Serialize + Display),
    json: bool,
    quiet: bool,
    out: &mut Output,
) -> std::io::Result<()> {
    if json {
        return out.json(done);
    }
    if !quiet {
        say(format_args!("{done}"));
    }
    Ok(())
}
