//! The last good copy of a filter, used instead of a damaged or missing file.
//!
//! It is used at a start, or if the file that a start has loaded turns out to be damaged. If a reload finds the file
//! still bad, it keeps the copy, so that other changes can take effect. If the file is good, the reload uses it, unless
//! it is older than the copy (`gate`).

use std::fmt::{self, Display, Formatter};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use twox_hash::XxHash3_64;

use super::open::{self, Loaded};
use crate::base::clock::minute;
use crate::config::{Config, ListSettings};

/// How long a copy may be used after its filter was last seen in effect.
pub(super) const KEPT: Duration = Duration::from_secs(7 * 86_400);
/// How the names of copies end.
pub(super) const ENDING: &str = ".last-good.blf";

/// A list whose copy is in effect.
#[derive(Clone, Debug)]
pub(super) struct StandIn {
    pub(super) list: String,
    /// The error of the file itself.
    fault: String,
    file: Loaded,
}

impl StandIn {
    /// Opens the copy for this enabled list; `None`: there is no usable copy.
    pub(super) fn open(config: &Config, list: &str, fault: String) -> Option<Self> {
        let settings = config
            .enabled_lists()
            .find(|settings| settings.terms.name == list)?;
        let copy = path_of(config, &settings.filter)?;
        if !is_fresh(&copy) {
            return None;
        }
        let file = open::copy(settings, &copy).ok()?;
        Some(Self {
            list: list.to_owned(),
            fault,
            file,
        })
    }

    /// The same copy with the new error of the file, if it belongs to the file that these settings name.
    pub(super) fn again(&self, settings: &ListSettings, fault: &dyn Display) -> Option<Self> {
        let is_for = self.list == settings.terms.name
            && self.file.path == settings.filter
            && self.file.load == settings.load;
        is_for.then(|| Self {
            fault: fault.to_string(),
            ..self.clone()
        })
    }

    pub(super) fn file(&self) -> &Loaded {
        &self.file
    }

    /// Generation and build time of the copied filter.
    pub(super) fn filter(&self) -> String {
        let spec = self.file.filter.spec();
        format!(
            "generation {}, built {}",
            spec.generation,
            minute(spec.built)
        )
    }
}

impl Display for StandIn {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let list = format!("list {}: ", self.list);
        let fault = self.fault.strip_prefix(&list).unwrap_or(&self.fault);
        let fault = fault.replace('\n', "; ");
        write!(
            f,
            "{list}an older copy of the filter is in use, {}: {fault}",
            self.filter()
        )
    }
}

/// The path of the copy for this filter path of the configuration; `None`: no copies are made.
pub(super) fn path_of(config: &Config, filter: &Path) -> Option<PathBuf> {
    /// The stem is only for human readers; the number distinguishes the paths.
    const STEM_MAX: usize = 64;
    if config.safety.last_good_mib == 0 {
        return None;
    }
    let stem = filter.file_stem()?.to_string_lossy();
    let is_plain = |c: &char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
    let stem: String = stem.chars().filter(is_plain).take(STEM_MAX).collect();
    let number = XxHash3_64::oneshot(filter.as_os_str().as_encoded_bytes());
    Some(config.state.join(format!("{stem}-{number:016x}{ENDING}")))
}

/// Whether its filter was in effect within [`KEPT`].
fn is_fresh(copy: &Path) -> bool {
    let modified = fs::metadata(copy).and_then(|meta| meta.modified());
    // A time in the future counts as now: a clock was wrong.
    let age = modified.map(|time| SystemTime::now().duration_since(time).unwrap_or_default());
    age.is_ok_and(|age| age <= KEPT)
}
