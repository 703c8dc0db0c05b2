//! Text lists -> one filter file.
//!
//! ```text
//!   inputs --feed--> blocks --read--> keys, staged by their top bits (memory, then disk)
//!          --sort--> each key once, counted --size--> pages and records in file order
//!          --write hidden--> checked --rename--> the filter
//! ```
//!
//! The same lists, seed and date give the same bytes, regardless of the threads, the order of the
//! inputs and the memory: sources are numbered by name, duplicates are merged by rules that do not
//! depend on order, and pages are filled from sorted keys. No output is ever half-written: it is
//! claimed before the work begins, and replaced after the new file was read back and checked.
//!
//! | in the order of building | about |
//! |---|---|
//! | `error`, `progress` | what fails, and how far the work is |
//! | `guard` | overly broad entries |
//! | `write` | sorted records to a filter file |
//! | `partition` | keys staged by their top bits, sorted stage by stage |
//! | `read` | text lists to staged keys |
//! | `lineage`, `plan` | what the existing filter passes on to its successor; what to build |
//! | `report`, `build_report` | the result, as data, and beside the filter |
//! | `limits` | how much a list may change, and why nothing is written |
//! | `verdict` | whether a new filter may replace the old one: an incomplete list must not |
//! | `job` | a plan while it is carried out: threads, memory, and staged keys to the finished file |
//! | `build`, `merge` | a filter from lists; from filters, or the parts of a list |
//! | `look` | what a build would count, without a filter being written |
//! | `update` | entries added to a filter, or removed |
//! | `delta` | the difference between two filters, and a filter made from another one and a delta |
//! | `undone`, `edit` | entries that no report adds again; single entries added to a text list, or removed from it |

mod build;
mod build_report;
mod delta;
mod edit;
mod error;
pub mod guard;
mod job;
mod limits;
mod lineage;
mod look;
mod merge;
mod partition;
mod plan;
mod progress;
mod read;
mod report;
mod undone;
mod update;
mod verdict;
mod write;

pub use build::build;
pub(crate) use build_report::write_build_report;
pub use delta::{Applied, Made, apply, make as make_delta};
pub use edit::{By, Done, Edited, REPORTED, add, line_of, may_list, remove};
pub use error::Error;
pub(crate) use limits::SMALL;
pub use limits::{Limits, Refused, RefusedFile};
pub(crate) use look::{Against, look};
pub(crate) use merge::open_alike;
pub use merge::{Expected, merge};
pub use plan::{
    DEFAULT_FPR, DEFAULT_FPR_WITHOUT_RECORDS, MIN_MEMORY_BYTES, Plan, Reads, Resources, Seed,
};
pub(crate) use plan::{list_name, source_date};
pub use progress::{Phase, Progress, State};
pub(crate) use read::open as open_input;

pub(crate) use read::{Begun, Ends, ReadOptions, base_name, begin as begin_input, in_its_folder};
pub use read::{Block, Input, Line, inputs, may_be_list};
pub(crate) use read::{build_settings, is_fetched};
pub use report::{Changed, FilterReport, InputReport, KindCount, PartReport, Report, Skipped};
pub(crate) use report::{REFUSED, bits_per_entry, digest_shown, kind_counts, preview_hint};
pub(crate) use update::changeable;
pub use update::{Changes, update};
pub(crate) use write::{EntryCounts, STEPS, Walk};
