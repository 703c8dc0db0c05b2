//! Keys on their way from text to pages: staged by their top bits, in memory and then on disk;
//! each stage is sorted separately.
//!
//! | file | about |
//! |---|---|
//! | `staged_key` | a key and the data about its entry, packed |
//! | `arena`, `spill` | the memory of stages, and the disk when it is full |
//! | `stage` | all stages, while they are filled and when they are read |
//! | `bins` | a worker's side of the stages |
//! | `sort`, `keys` | one stage sorted; all of them, counted and in order |
//! | `gathered` | the staged keys of a page, or of a block of a part, as records |
//! | `blocks` | all staged keys as a part of a list |

mod arena;
mod bins;
mod blocks;
mod gathered;
mod keys;
mod sort;
mod spill;
mod stage;
mod staged_key;

pub(super) use arena::Arena;
pub(super) use bins::Stager;
pub(super) use blocks::write_blocks;
pub(super) use gathered::Gathered;
pub(super) use keys::{InOrder, sort_all};
pub(super) use sort::{KEYS_OF_ONE_PASS, sort_and_join_runs};
pub(super) use stage::{Sealed, Store};
pub(super) use staged_key::{
    Dates, NARROW_SOURCES, Narrow, STAGE_BITS, STAGES, StagedKey, Tag, Wide,
};
