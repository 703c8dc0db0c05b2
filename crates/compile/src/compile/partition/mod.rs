//! Keys on their way from text to pages: staged by their top bits, in memory and then on disk;
//! each stage is sorted separately.

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
