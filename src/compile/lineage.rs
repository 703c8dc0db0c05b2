//! What a new filter takes over from the existing filter at the output.

use std::path::Path;

use super::error::Error;
use super::plan::{Plan, Seed};
use crate::base::path::{is_missing, is_same_file};
use crate::filter::{Filter, FilterFile, Header, Load};

#[derive(Clone, Debug)]
pub(crate) struct Lineage {
    pub(crate) seed: u64,
    pub(crate) generation: u64,
    pub(crate) before: Option<Header>,
}

impl Lineage {
    /// Reads the filter at the output; fails if that is of another kind, unless it may be overwritten.
    /// A part of a list replaces an older part, whatever it holds.
    pub(crate) fn of(plan: &Plan, seed: &Seed) -> Result<Self, Error> {
        let (output, is_part) = (&plan.output, plan.part.is_some());
        let found = match is_part {
            true => FilterFile::is_part(output).map(|is_part| (is_part, None)),
            false => Filter::open(output, Load::Disk).map(|old| (true, Some(old.header().clone()))),
        };
        let before = match found {
            Ok((true, before)) => before,
            Ok(_) | Err(_) if plan.overwrite || is_missing(output) => None,
            Err(error) if error.io_kind().is_some() => return Err(error.into()),
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
        let spec = before.as_ref().map(|before| &before.spec);
        let random = || {
            let why = |error| Error::Plan(format!("cannot get a random seed: {error}"));
            getrandom::u64().map_err(why)
        };
        Ok(Self {
            seed: match seed {
                Seed::Fixed(seed) => *seed,
                Seed::Of(other) => Filter::open(other, Load::Disk)?.spec().seed,
                Seed::Keep => spec.map_or_else(random, |spec| Ok(spec.seed))?,
            },
            generation: spec.map_or(1, |spec| spec.generation.saturating_add(1)),
            before,
        })
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
