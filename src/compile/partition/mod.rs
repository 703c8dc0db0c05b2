//! Keys on their way from text to pages: staged by their top bits, in memory and then on disk;
//! each stage is sorted separately.
//!
//! | file | about |
//! |---|---|
//! | `staged_key` | a key and the data about its entry, packed |
//! | `arena` | the memory of stages, and the disk when it is full |
//! | `stage` | all stages, while they are filled and when they are read |
//! | `bins` | a worker's side of the stages |
//! | `sort`, `keys` | one stage sorted; all of them, counted and in order |

mod arena;
mod bins;
mod keys;
mod sort;
mod stage;
mod staged_key;

pub(super) use arena::Arena;
pub(super) use bins::Stager;
pub(super) use keys::{InOrder, sort_all};
pub(super) use stage::{Sealed, Store};
pub(super) use staged_key::{NARROW_SOURCES, Narrow, STAGES, StagedKey, Wide};
