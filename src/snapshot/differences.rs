//! The differences between two snapshots, and the log lines about them.

use std::sync::Arc;
use std::time::Instant;

use tracing::{error, info, warn};

use super::{Error, Loaded, Snapshot};
use crate::filter::Filter;

impl Snapshot {
    /// Whether all files are in effect as they are: no errors, and no copies in use.
    pub(super) fn is_as_configured(&self) -> bool {
        self.faults.is_empty() && self.stand_ins.is_empty()
    }

    /// The filter of the list with this name.
    pub(super) fn filter_of(&self, list: &str) -> Option<&Arc<Filter>> {
        let mut lists = self.config.enabled_lists().zip(&self.loaded);
        let (_, file) = lists.find(|(settings, _)| settings.terms.name == list)?;
        file.as_ref().map(|file| &file.filter)
    }

    /// Whether nothing has changed, including the errors.
    pub(super) fn is_same(&self, old: &Self) -> bool {
        let filter = |file: &Option<Loaded>| file.as_ref().map(|file| Arc::as_ptr(&file.filter));
        let texts = |faults: &[Error]| faults.iter().map(ToString::to_string).collect::<Vec<_>>();
        self.loaded
            .iter()
            .map(filter)
            .eq(old.loaded.iter().map(filter))
            && texts(&self.faults) == texts(&old.faults)
            && self.stand_ins().eq(old.stand_ins())
            && self.policy.whitelist == old.policy.whitelist
            && self.policy.correspondents == old.policy.correspondents
            && self.config == old.config
    }
}

/// Logs the changes, and the present errors.
pub(super) fn report_changes(new: &Snapshot, old: &Snapshot, began: Instant) {
    for (list, file) in new.policy.lists().iter().zip(&new.loaded) {
        let Some(file) = file else { continue };
        if !old
            .files()
            .any(|before| Arc::ptr_eq(&before.filter, &file.filter))
        {
            info!(
                list = list.name(),
                filter = %file.path.display(),
                generation = file.filter.spec().generation,
                entries = file.filter.entries(),
                "filter in effect"
            );
        }
    }
    for fault in new.faults() {
        let reason = fault.to_string().replace('\n', "; ");
        error!(reason, "not serving as configured");
    }
    for text in new.stand_ins() {
        if !old.stand_ins().any(|known| known == text) {
            warn!("{text}");
        }
    }
    let restart = new.config.needs_restart(&old.config);
    if !restart.is_empty() {
        warn!(
            settings = restart.join(", "),
            "these settings take effect only after a restart"
        );
    }
    for warning in new.warnings(None) {
        if !old.warnings(None).contains(&warning) {
            warn!("{warning}");
        }
    }
    let ms = u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX);
    info!(
        lists = new.policy.lists().len(),
        whitelist = new.policy.whitelist.len(),
        correspondents = new.policy.correspondents.len(),
        ms,
        "reloaded"
    );
}
