//! The report of a compilation, as text on one screen.

use std::fmt;
use std::time::Duration;

use super::limits::SMALL;
use super::report::{REFUSED, Report};
use super::wording::{bits_shown, kinds_shown, rate_in_people};
use crate::base::numbers::{counted, grouped, size};

/// Number of inputs and reasons shown in the text; JSON has all of them.
const SHOWN: usize = 8;

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for input in self.inputs.iter().take(SHOWN) {
            if input.format == REFUSED {
                writeln!(f, "  {}: {REFUSED}", input.file)?;
                continue;
            }
            writeln!(
                f,
                "  {}: {}, {}, {}",
                input.file,
                input.format,
                counted(input.lines, "line", "lines"),
                counted(input.entries, "entry", "entries")
            )?;
        }
        if self.inputs.len() > SHOWN {
            writeln!(
                f,
                "  and {} more (--report FILE has them all)",
                self.inputs.len() - SHOWN
            )?;
        }
        for file in self.passed_over.iter().take(SHOWN) {
            writeln!(f, "not read  {file}")?;
        }
        if self.passed_over.len() > SHOWN {
            writeln!(
                f,
                "          and {} more (--report FILE has them all)",
                self.passed_over.len() - SHOWN
            )?;
        }
        for reject in self.rejects.iter().take(SHOWN) {
            let lines = counted(reject.count, "line", "lines");
            writeln!(f, "rejected  {lines}: {}", reject.reason)?;
            for line in &reject.first {
                writeln!(f, "          {line}")?;
            }
        }
        if self.rejects.len() > SHOWN {
            writeln!(
                f,
                "          and {} more reasons (--report FILE has them all)",
                self.rejects.len() - SHOWN
            )?;
        }
        for input in self
            .inputs
            .iter()
            .filter(|input| input.entries == 0 && self.refused_files.is_empty())
            .take(SHOWN)
        {
            writeln!(f, "warning   no entry in {}", input.file)?;
        }
        for skipped in self.skipped.iter().filter(|skipped| skipped.notable) {
            let lines = counted(skipped.count, "line", "lines");
            writeln!(f, "skipped   {lines}: {}", skipped.reason)?;
            for line in skipped.first.iter().take(1) {
                writeln!(f, "          {line}")?;
            }
        }
        for broad in &self.broad {
            let entries = counted(broad.count, "entry", "entries");
            writeln!(
                f,
                "left out  {entries}: {} (--allow ENTRY lists it)",
                broad.reason
            )?;
            for line in broad.first.iter().take(1) {
                writeln!(f, "          {line}")?;
            }
        }
        if self.expired > 0 {
            writeln!(
                f,
                "expired   {} left out: expiry date has passed",
                counted(self.expired, "entry", "entries")
            )?;
        }
        for input in self
            .inputs
            .iter()
            .filter(|input| input.ends_within_line && input.entries >= SMALL)
            .take(SHOWN)
        {
            writeln!(
                f,
                "note      {}: the last line has no line ending; is the list truncated?",
                input.file
            )?;
        }
        for file in self.no_longer_read.iter().take(SHOWN) {
            writeln!(f, "note      no longer among the inputs: {file}")?;
        }
        if let Some(refused) = &self.refused {
            return write!(
                f,
                "refused   {refused}; {} is unchanged",
                self.output.display()
            );
        }
        if let Some(part) = &self.part {
            writeln!(
                f,
                "part      {}: {}, {}",
                self.output.display(),
                counted(part.entries, "entry", "entries"),
                size(part.bytes)
            )?;
            match part.piece.as_str() {
                "" => writeln!(f, "piece     {}", part.digest)?,
                piece => writeln!(f, "piece     {piece}, {}", part.digest)?,
            }
            if part.world_readable {
                writeln!(
                    f,
                    "warning   all users can read {0}, including its secret hash seed; use chmod o= {0}",
                    self.output.display()
                )?;
            }
        }
        if let Some(filter) = &self.filter {
            if self.inputs.is_empty() && filter.entries == 0 && self.changed.is_none() {
                writeln!(
                    f,
                    "warning   no list was read, for example because a folder is empty"
                )?;
            }
            write!(f, "entries   {}", grouped(filter.entries))?;
            match self.kinds.as_slice() {
                [] if filter.entries == 0 => f.write_str(": the list is empty")?,
                [] => {}
                kinds => write!(f, ": {}", kinds_shown(kinds))?,
            }
            if let Some(before) = self.entries_before {
                write!(f, "; {} before", grouped(before))?;
            }
            if self.duplicates > 0 {
                let duplicates = counted(self.duplicates, "duplicate", "duplicates");
                write!(f, "; {duplicates} dropped")?;
            }
            writeln!(f)?;
            if let Some(changed) = self.changed {
                writeln!(f, "changes   {changed}")?;
                if changed.is_nothing() {
                    return write!(
                        f,
                        "unchanged {}: nothing was written",
                        self.output.display()
                    );
                }
            }
            write!(
                f,
                "filter    {}: {}",
                self.output.display(),
                size(filter.bytes)
            )?;
            writeln!(
                f,
                " ({} of pages{}), generation {}",
                size(filter.page_bytes),
                bits_shown(filter.bits_per_entry),
                filter.generation
            )?;
            writeln!(
                f,
                "rate      {}",
                rate_in_people(filter.fpr_per_sender, filter.records)
            )?;
            if filter.world_writable {
                writeln!(
                    f,
                    "warning   all users can write {0}, and so decide which mail is refused; use chmod o= {0}",
                    self.output.display()
                )?;
            }
            if filter.world_readable {
                writeln!(
                    f,
                    "warning   all users can read {0}, including its secret hash seed; use chmod o= {0}",
                    self.output.display()
                )?;
            }
        }
        let seconds = Duration::from_secs_f64(self.seconds.max(1e-3)).as_secs_f64();
        write!(f, "took      {seconds:.2} s")?;
        // A small list or a very short duration gives no meaningful speed.
        if seconds >= 0.1 && self.rows >= 100_000 {
            #[allow(clippy::cast_precision_loss, reason = "shown with a few digits")]
            let per_second = self.rows as f64 / seconds / 1e6;
            write!(f, ", {per_second:.2} million entries a second")?;
        }
        if self.spilled_bytes > 0 {
            write!(f, ", {} spilled", size(self.spilled_bytes))?;
        }
        if self.changed.is_some() {
            f.write_str("\nnote      the next build from text lists replaces these changes")?;
        }
        if self.part.is_some() {
            return f.write_str("\nnext      blocklist-compile merge -o FILE PART...");
        }
        write!(
            f,
            "\nnext      blocklist-compile query {} ADDRESS",
            self.output.display()
        )
    }
}
