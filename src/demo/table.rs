//! The table of the demo: a line for each message, with the answer below it.

use std::fmt::{self, Display, Formatter};

use super::peer::{Answer, Change, Delivery};
use super::scenes::Scene;
use crate::base::paint::Paint;
use crate::explain::RecordedDecision;
use crate::screen::TAG_HEADER;

/// A line of the table, and the reply below it.
pub(super) struct Row<'a> {
    pub(super) scene: &'a Scene,
    pub(super) outcome: &'a Delivery,
    pub(super) decision: &'a RecordedDecision,
    pub(super) paint: Paint,
}

impl Row<'_> {
    fn verdict(&self) -> &'static str {
        match self.answer() {
            Answer::Text(text) if text.starts_with('4') => "tempfail",
            Answer::Text(_) | Answer::Reject => "reject",
            Answer::Tempfail => "tempfail",
            Answer::Discard => "discard",
            Answer::Continue | Answer::Accept if self.tag().is_some() => "tag",
            Answer::Continue | Answer::Accept => "accept",
        }
    }

    fn answer(&self) -> &Answer {
        let last = self
            .outcome
            .message
            .as_ref()
            .or_else(|| self.outcome.recipients.last());
        last.unwrap_or(&Answer::Continue)
    }

    fn tag(&self) -> Option<&str> {
        self.outcome.changes.iter().find_map(|change| match change {
            Change::Added(name, value) if name == TAG_HEADER => Some(value.as_str()),
            Change::Added(..) | Change::Changed(..) | Change::Quarantined(_) => None,
        })
    }

    pub(super) fn is_expected(&self) -> bool {
        self.verdict() == self.scene.verdict && self.decision.identity == self.scene.identity
    }
}

impl Display for Row<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Self {
            scene,
            outcome,
            decision,
            paint,
        } = *self;
        let identity = match decision.identity {
            "" => "-",
            identity => identity,
        };
        writeln!(
            f,
            "{:<37} {} {:<10} {:<11} {:>6} {:>6}",
            scene.title,
            paint.verdict(self.verdict(), 9),
            identity,
            decision.list.as_deref().unwrap_or("-"),
            decision.spent.as_micros(),
            outcome.time.as_micros()
        )?;
        let below = match self.answer() {
            Answer::Text(text) => text.clone(),
            _ => match (self.tag(), decision.reason) {
                (Some(tag), _) => format!("{TAG_HEADER}: {tag}"),
                (None, "unlisted") => String::new(),
                (None, reason) => reason.to_owned(),
            },
        };
        for line in below.lines() {
            writeln!(f, "{}", paint.dim(&format!("    {line}")))?;
        }
        if !self.is_expected() {
            writeln!(f, "    expected: {} {}", scene.verdict, scene.identity)?;
        }
        Ok(())
    }
}
