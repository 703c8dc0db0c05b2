//! The staged keys -> the blocks of a part.
//!
//! A part has 2^n blocks, and there are 2^m stages, so a block consists of several whole stages, or
//! is one of several equal pieces of a stage. The staged keys of a block are found without a
//! search, and if they are all of one list, as usual, only their keys are read. The number of
//! blocks does not depend on the duplicates, so a stage can be sorted just before it is written.

use super::gathered::Gathered;
use super::keys::sort_all;
use super::sort;
use super::stage::Sealed;
use super::staged_key::{Dates, STAGES, StagedKey};
use crate::compile::write::EntryCounts;
use crate::compile::{Error, Progress};
use crate::filter::page::first_key;
use crate::filter::{EncodedPage, Writer};

/// Sorts all keys, joins their duplicates, and appends them to the part that `writer` began.
/// `dates` are those of staged keys without dates.
///
/// # Errors
/// When the disk fails, and on an interrupt.
pub(crate) fn write_blocks<I: StagedKey>(
    keys: &Sealed<'_, I>,
    dates: Dates,
    threads: usize,
    writer: &mut Writer,
    progress: &Progress,
) -> Result<EntryCounts, Error> {
    let mut counts = EntryCounts::default();
    let is_sorted = threads > 1;
    if is_sorted {
        // Most of the work, done on all threads.
        counts = sort_all(keys, threads, progress)?;
    }
    let blocks = writer.shape().pages;
    let (stages_of_block, blocks_of_stage) = match usize::try_from(blocks) {
        Ok(blocks @ ..STAGES) => (STAGES / blocks, 1),
        _ => (1, blocks / STAGES as u64),
    };
    let mut block = Gathered::default();
    let mut encoded = EncodedPage::new();
    let (mut staged, mut scratch, mut bytes) = (Vec::new(), Vec::new(), Vec::new());
    let mut number = 0;
    for stage in 0..STAGES {
        progress.go_on()?;
        keys.gather(stage, &mut staged, &mut bytes)?;
        if !is_sorted {
            progress.add(staged.len() as u64);
            sort::sort_and_join(&mut staged, &mut scratch);
            counts.count_staged(&staged);
        }
        let mut left = staged.as_slice();
        for piece in 1..=blocks_of_stage {
            let here = match piece < blocks_of_stage {
                true => {
                    let end = first_key(number + 1, blocks);
                    left.partition_point(|key| key.key(stage) < end)
                }
                false => left.len(),
            };
            block.add(stage, &left[..here], dates);
            left = &left[here..];
            if (stage + 1).is_multiple_of(stages_of_block) {
                block.encode_block(writer.shape(), &mut encoded);
                block.clear();
                writer.append(std::slice::from_ref(&encoded))?;
                number += 1;
            }
        }
    }
    Ok(counts)
}
