//! A whole mailbox under one configuration, or under two: what a list would have done.

use std::collections::HashMap;
use std::fmt::{self, Display, Formatter};
use std::path::Path;

use serde::Serialize;

use super::{Error, Explainer, Explanation, Mail, Paint, each_message};

/// Rows of each table.
const ROWS_MAX: usize = 20;

/// What became of a mailbox.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Replay {
    /// Messages read.
    pub messages: u64,
    /// Messages by verdict, the most frequent first.
    pub verdicts: Vec<(String, u64)>,
    /// Messages not simply accepted, by the list that decided.
    pub lists: Vec<(String, u64)>,
    /// Messages by listed sender (entry of the list).
    pub senders: Vec<(String, u64)>,
    /// Messages that get another verdict by the other configuration.
    pub changed: Option<u64>,
    /// How many went from which verdict to which.
    pub changes: Vec<(String, String, u64)>,
    /// The first of them: where, from, to.
    pub examples: Vec<(String, String, String)>,
}

/// Plays every message of a maildir, a folder or an mbox. Recipients are taken from `Delivered-To`.
///
/// # Errors
/// A message cannot be read.
pub fn replay(
    mailbox: &Path,
    explainer: &mut Explainer,
    mut other: Option<&mut Explainer>,
) -> Result<Replay, Error> {
    let mut sums = [HashMap::new(), HashMap::new(), HashMap::new()];
    let mut changes: HashMap<(String, String), u64> = HashMap::new();
    let mut replay = Replay {
        changed: other.is_some().then_some(0),
        ..Replay::default()
    };
    let read = each_message(mailbox, &mut |name, headers| {
        let recipients = headers
            .get("Delivered-To")
            .or_else(|| headers.get("X-Original-To"));
        let mail = Mail {
            mail_from: headers.envelope_sender().map(<[u8]>::to_vec),
            recipients: recipients
                .map(|recipient| recipient.trim_ascii().to_vec())
                .into_iter()
                .collect(),
            client: None,
            headers: headers.clone(),
        };
        let explanation = explainer.explain(&mail);
        replay.messages += 1;
        let [verdicts, lists, senders] = &mut sums;
        *verdicts.entry(explanation.verdict.clone()).or_insert(0) += 1;
        if explanation.verdict != "accept" {
            *lists
                .entry(explanation.list.clone().unwrap_or_default())
                .or_insert(0) += 1;
            if let Some(entry) = deciding_entry(&explanation) {
                *senders.entry(entry).or_insert(0) += 1;
            }
        }
        if let Some(other) = other.as_deref_mut() {
            let after = other.explain(&mail).verdict;
            if after != explanation.verdict {
                replay.changed = replay.changed.map(|changed| changed + 1);
                *changes
                    .entry((explanation.verdict.clone(), after.clone()))
                    .or_insert(0) += 1;
                if replay.examples.len() < ROWS_MAX {
                    replay
                        .examples
                        .push((name.to_owned(), explanation.verdict, after));
                }
            }
        }
    });
    read.map_err(|source| Error::Unreadable {
        path: mailbox.to_owned(),
        source,
    })?;
    let [verdicts, lists, senders] = sums;
    replay.verdicts = sorted(verdicts);
    replay.lists = sorted(lists);
    replay.senders = sorted(senders);
    replay.senders.truncate(ROWS_MAX);
    replay.changes = changes
        .into_iter()
        .map(|((before, after), count)| (before, after, count))
        .collect();
    replay
        .changes
        .sort_by(|a, b| b.2.cmp(&a.2).then_with(|| a.cmp(b)));
    Ok(replay)
}

fn deciding_entry(explanation: &Explanation) -> Option<String> {
    let decided = explanation
        .identities
        .iter()
        .filter(|named| !named.whitelisted);
    decided
        .filter(|named| named.list == explanation.list)
        .find_map(|named| named.entry.clone())
}

fn sorted(counts: HashMap<String, u64>) -> Vec<(String, u64)> {
    let mut counts: Vec<_> = counts.into_iter().collect();
    counts.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
    counts
}

impl Replay {
    /// For a person.
    pub fn report(&self, paint: Paint) -> impl Display + '_ {
        Report {
            replay: self,
            paint,
        }
    }
}

struct Report<'a> {
    replay: &'a Replay,
    paint: Paint,
}

impl Display for Report<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Self { replay, paint } = self;
        writeln!(
            f,
            "{}",
            paint.bold(&format!("{} messages", replay.messages))
        )?;
        for (verdict, count) in &replay.verdicts {
            writeln!(
                f,
                "  {}  {count:>8}  {}",
                paint.verdict(verdict, 10),
                percent(*count, replay.messages)
            )?;
        }
        for (heading, rows) in [("by list", &replay.lists), ("top senders", &replay.senders)] {
            if !rows.is_empty() {
                writeln!(f, "\n{}", paint.bold(heading))?;
            }
            for (name, count) in rows {
                writeln!(f, "  {count:>8}  {name}")?;
            }
        }
        if let Some(changed) = replay.changed {
            writeln!(
                f,
                "\n{}",
                paint.bold(&format!(
                    "{changed} messages change with the other configuration"
                ))
            )?;
            for (before, after, count) in &replay.changes {
                writeln!(f, "  {count:>8}  {before} -> {after}")?;
            }
            for (name, before, after) in &replay.examples {
                writeln!(f, "  {before} -> {after}  {name}")?;
            }
        }
        Ok(())
    }
}

fn percent(part: u64, whole: u64) -> String {
    #[allow(
        clippy::cast_precision_loss,
        reason = "messages of a mailbox are far below 2^53"
    )]
    let share = part as f64 * 100.0 / whole.max(1) as f64;
    format!("{share:>5.1} %")
}
