//! What a new filter takes over from the existing filter at the output.

use std::path::Path;

use super::error::Error;
use super::plan::Seed;
use crate::base::path::{is_missing, is_same_file};
use crate::filter::{self, Filter, FilterFile, Header, Load};

/// What a new filter takes over from the existing filter at the output.
#[derive(Clone, Debug)]
pub(crate) struct Lineage {
    pub(crate) seed: u64,
    pub(crate) generation: u64,
    /// The header of the existing filter.
    pub(crate) before: Option<Header>,
}

impl Lineage {
    /// Reads the filter at the output. A part of a list replaces an older part, whatever it holds.
    ///
    /// # Errors
    /// When the output exists and is of another kind (unless it may be overwritten), and when there is
    /// no seed.
    pub(crate) fn of(
        output: &Path,
        seed: &Seed,
        overwrite: bool,
        is_part: bool,
    ) -> Result<Self, Error> {
        let found = match is_part {
            false => Filter::open(output, Load::Disk).map(Some).map_err(Some),
            true => match FilterFile::is_part(output) {
                Ok(true) => Ok(None),
                Ok(false) => Err(None),
                Err(error) => Err(Some(error)),
            },
        };
        let old = match found {
            Ok(old) => old,
            Err(_) if overwrite || is_missing(output) => None,
            Err(Some(error @ filter::Error::Io { .. })) => return Err(error.into()),
            Err(_) => {
                return Err(Error::NotReplaced {
                    path: output.to_path_buf(),
                    wanted: match is_part {
                        true => "a part of a list",
                        false => "a valid filter file",
                    },
                    instead: "replace it with --overwrite",
                });
            }
        };
        let before = old.map(|old| old.header().clone());
        let spec = before.as_ref().map(|before| &before.spec);
        Ok(Self {
            seed: value_of(seed, spec.map(|spec| spec.seed))?,
            generation: spec.map_or(1, |spec| spec.generation.saturating_add(1)),
            before,
        })
    }
}

/// Checks that the output replaces no input: nobody else may have a copy of it.
///
/// # Errors
/// When a path leads to the same file as `output`.
pub(crate) fn check_not_input(
    output: &Path,
    inputs: impl IntoIterator<Item: AsRef<Path>>,
) -> Result<(), Error> {
    let mut inputs = inputs.into_iter();
    match inputs.find(|path| is_same_file(path.as_ref(), output)) {
        Some(_) => Err(Error::OutputIsInput {
            path: output.to_path_buf(),
        }),
        None => Ok(()),
    }
}

fn value_of(seed: &Seed, old: Option<u64>) -> Result<u64, Error> {
    match (seed, old) {
        (&Seed::Fixed(seed), _) => Ok(seed),
        (Seed::Keep, Some(old)) => Ok(old),
        (Seed::Of(other), _) => Ok(Filter::open(other, Load::Disk)?.spec().seed),
        (Seed::Keep, None) => getrandom::u64()
            .map_err(|error| Error::Plan(format!("cannot get a random seed: {error}"))),
    }
}
