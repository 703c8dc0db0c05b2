//! What a new filter takes over from the existing filter at the output.

use std::path::Path;

use super::error::Error;
use super::plan::{Plan, Seed};
use blocklist_filter::base::last_good::copy_of;
use blocklist_filter::base::path::{is_missing, is_same_file};
use blocklist_filter::filter::{BuildReport, Filter, FilterFile, Load, Written};

#[derive(Clone, Debug)]
pub(crate) struct Lineage {
    pub(crate) seed: u64,
    pub(crate) generation: u64,
    /// What the filter held.
    pub(crate) before: Option<Written>,
}

impl Lineage {
    /// Reads the filter at the output; fails if that is of another kind, unless it may be overwritten.
    /// A part of a list replaces an older part, whatever it holds.
    pub(crate) fn of(plan: &Plan, seed: &Seed) -> Result<Self, Error> {
        let (output, is_part) = (&plan.output, plan.part.is_some());
        let found = match is_part {
            true => FilterFile::is_part(output).map(|is_part| (is_part, None)),
            false => Filter::open(output, Load::Disk).map(|old| (true, Some(Known::of(&old)))),
        };
        let before = match found {
            Ok((true, before)) => before,
            Err(error) if error.io_kind().is_some() && !is_missing(output) && !plan.overwrite => {
                return Err(error.into());
            }
            // A person who has removed the file begins anew; the job that makes it goes on.
            Ok(_) | Err(_)
                if !is_part
                    && (plan.copies.is_some() || !is_missing(output))
                    && let Some(lost) = Known::of_lost(plan) =>
            {
                Some(lost)
            }
            Ok(_) | Err(_) if plan.overwrite || is_missing(output) => None,
            Ok(_) | Err(_) => {
                let wanted = match is_part {
                    true => "a part of a list",
                    false => "a valid filter file",
                };
                let else_do = "move it away, or replace it with --overwrite";
                return Err(Error::NotReplaced {
                    path: output.clone(),
                    why: format!("exists but is not {wanted}; {else_do}"),
                });
            }
        };
        let (kept, before) = before.map_or((None, None), |Known(seed, held)| (seed, Some(held)));
        let generation = before.as_ref().map_or(0, |before| before.generation);
        let random = || getrandom::u64().map_err(Error::from);
        Ok(Self {
            seed: match seed {
                Seed::Fixed(seed) => *seed,
                Seed::Of(other) => Filter::open(other, Load::Disk)?.spec().seed,
                Seed::Keep => kept.map_or_else(random, Ok)?,
            },
            generation: generation.saturating_add(1),
            before,
        })
    }
}

/// The seed of a filter, if it is known, and what it held.
struct Known(Option<u64>, Written);

impl Known {
    fn of(filter: &Filter) -> Self {
        let spec = filter.spec();
        let sources = spec.sources.iter();
        let lists = sources.map(|source| (source.file.clone(), source.entries));
        let written = Written {
            generation: spec.generation,
            entries: filter.entries(),
            lists: lists.collect(),
        };
        Self(Some(spec.seed), written)
    }

    /// Returns what is known of a filter whose file is damaged or gone: by the daemon's copy, and by the report of the build
    /// that wrote it. The later one counts. Only the copy has the seed.
    fn of_lost(plan: &Plan) -> Option<Self> {
        let copy = plan.copies.as_ref();
        let copy = copy.map(|folder| copy_of(folder, &plan.output, "blf"));
        let copy = copy.and_then(|copy| Filter::open(&copy, Load::Disk).ok());
        let copy = copy.filter(|copy| copy.spec().name == plan.name);
        let copy = copy.as_ref().map(Self::of);
        let written = BuildReport::of(&plan.output).and_then(|report| report.written);
        match (copy, written) {
            (Some(Self(seed, held)), Some(written)) if written.generation > held.generation => {
                Some(Self(seed, written))
            }
            (Some(copy), _) => Some(copy),
            (None, written) => written.map(|written| Self(None, written)),
        }
    }
}

/// Checks that the output replaces no input: nobody else may have a copy of it.
pub(crate) fn check_not_input(
    output: &Path,
    inputs: impl IntoIterator<Item: AsRef<Path>>,
) -> Result<(), Error> {
    let mut inputs = inputs.into_iter();
    match inputs.find(|path| is_same_file(path.as_ref(), output)) {
        Some(_) => Err(Error::NotReplaced {
            path: output.to_path_buf(),
            why: "is also an input, which the output would replace; name another output".to_owned(),
        }),
        None => Ok(()),
    }
}
