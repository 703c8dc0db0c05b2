//! The last good copy of a filter in effect, in place of a file that is damaged or gone.
//!
//! At a start, or when the file that a start took turns out to be damaged. A reload that finds the file as bad as
//! before goes on with the copy, and so other changes take effect; one that finds it good takes it, if
//! it is not older than the copy (`gate`).

use std::fmt::{self, Display, Formatter};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use twox_hash::XxHash3_64;

use super::open::{self, Loaded};
use crate::clock::minute;
use crate::config::{Config, ListSettings};

/// So long after its filter was last seen in effect a copy is used.
pub(super) const KEPT: Duration = Duration::from_secs(7 * 86_400);
/// How the names of copies end.
pub(super) const ENDING: &str = ".last-good.blf";

/// A list whose copy is in effect.
#[derive(Clone, Debug)]
pub(super) struct StandIn {
    pub(super) list: String,
    /// What is wrong with the file itself.
    fault: String,
    file: Loaded,
}

impl StandIn {
    /// Opens the copy for this list, which the configuration enables; `None`: there is none that may be used.
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

    /// The same after the file was looked at again, if it stands in for the file that these settings name.
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

    /// Which filter the copy is of.
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
            "{list}listed by an older copy, {}: {fault}",
            self.filter()
        )
    }
}

/// Where the copy of the filter at this path of the configuration is; `None`: no copies are kept.
pub(super) fn path_of(config: &Config, filter: &Path) -> Option<PathBuf> {
    /// For those who look into the folder; the number tells the paths apart.
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

/// Whether its filter was in effect not long ago.
fn is_fresh(copy: &Path) -> bool {
    let modified = fs::metadata(copy).and_then(|meta| meta.modified());
    // A time in the future is a clock that was wrong.
    let age = modified.map(|time| SystemTime::now().duration_since(time).unwrap_or_default());
    age.is_ok_and(|age| age <= KEPT)
}
