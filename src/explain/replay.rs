//! Plays a whole mailbox with one configuration, or with two, to show what a list would have done.
//!
//! One thread reads, all processors judge, and the results are counted in the order of the mailbox.

use std::collections::HashMap;
use std::fmt::{self, Display, Formatter};
use std::hash::Hash;
use std::path::Path;
use std::sync::Arc;

use serde::Serialize;

use super::explanation::{Listed, RecordedDecision};
use super::{Explainer, Explanation, Headers, Mail, Stored, each_message};
use crate::paint::Painted;
use crate::snapshot::Live;
use blocklist_filter::base::numbers::{counted, most_first, percent};
use blocklist_filter::base::parallel::{on_threads, processors};
use blocklist_filter::base::whole_file::FileError;

/// Most rows of each table.
const ROWS_MAX: usize = 20;

/// The results for a mailbox.
#[derive(Clone, Debug, Default, Serialize)]
pub(crate) struct Replay {
    pub messages: u64,
    /// Messages by verdict, the most frequent first.
    pub verdicts: Vec<(&'static str, u64)>,
    /// Messages not simply accepted, by the deciding list.
    pub lists: Vec<(String, u64)>,
    /// Messages by listed sender; only the most frequent senders.
    pub senders: Vec<(String, u64)>,
    /// Messages by the source that names the sender, if there is a record.
    pub sources: Vec<(String, u64)>,
    /// The messages not simply accepted, in the order of the mailbox, at most [`MAX_DECIDED`].
    pub decided: Vec<Decided>,
    /// Files of a folder that are not messages.
    pub not_messages: u64,
    /// Messages with another verdict in the other configuration.
    pub changed: Option<u64>,
    /// Messages for each pair of verdicts, before and after.
    pub changes: Vec<(&'static str, &'static str, u64)>,
    /// The first of them: message, verdict before, verdict after.
    pub examples: Vec<(String, &'static str, &'static str)>,
}

/// One message that was not simply accepted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Decided {
    /// Its file, with the number of the message in an mbox.
    pub message: String,
    pub verdict: &'static str,
    /// The deciding list.
    pub list: Option<String>,
    #[serde(flatten)]
    pub listed: Listed,
}

/// Most messages kept that were not accepted; all are counted.
const MAX_DECIDED: usize = 100_000;
/// How many of them the text shows.
const DECIDED_SHOWN: usize = 100;

/// Most messages, and bytes of messages, that are read before the processors judge them.
const BATCH_MESSAGES: usize = 1024;
const BATCH_BYTES: usize = 32 << 20;

/// Plays every message of a maildir, a folder or an mbox. `Delivered-To` gives the recipient. No message is an error:
/// this is not a mailbox.
pub(crate) fn replay(
    mailbox: &Path,
    explainer: &Explainer,
    other: Option<&Explainer>,
) -> Result<Replay, FileError> {
    let lives = (&explainer.live, other.map(|other| &other.live));
    let mut sums = Sums::default();
    let mut batch = Vec::new();
    let mut bytes = 0;
    let others = each_message(mailbox, true, &mut |Stored { name, headers, .. }| {
        bytes += headers.len_bytes();
        batch.push((name, stored(headers)));
        if batch.len() >= BATCH_MESSAGES || bytes >= BATCH_BYTES {
            sums.add_all(lives, std::mem::take(&mut batch));
            bytes = 0;
        }
    });
    sums.replay.not_messages = others.map_err(FileError::of(mailbox))?;
    sums.add_all(lives, batch);
    if sums.replay.messages == 0 {
        let why = "no message found; give a maildir, a folder of messages, or an mbox file";
        return Err(FileError::of(mailbox)(why));
    }
    Ok(sums.into_replay(other.is_some()))
}

/// Returns a stored message as it was received, as far as its header says.
fn stored(headers: Headers) -> Mail {
    let recipient = headers.get("Delivered-To");
    let recipient = recipient.or_else(|| headers.get("X-Original-To"));
    let recipient = recipient.map(|recipient| recipient.trim_ascii().to_vec());
    Mail {
        mail_from: headers.envelope_sender().map(<[u8]>::to_vec),
        recipients: recipient.into_iter().collect(),
        headers,
        ..Mail::default()
    }
}

/// Returns the decisions about messages in their order. Each processor judges an equal part.
fn judge(live: &Arc<Live>, batch: &[(String, Mail)]) -> Vec<RecordedDecision> {
    let run = batch.len().div_ceil(processors()).max(1);
    let judged = on_threads(batch.chunks(run), |run| {
        let mut explainer = Explainer::of(Arc::clone(live));
        let decisions = run.iter().map(|(_, mail)| {
            let mut explanation = Explanation::default();
            explainer.decide(mail, &mut explanation);
            explanation.decision
        });
        decisions.collect::<Vec<_>>()
    });
    judged.into_iter().flatten().collect()
}

/// The results so far, and the counts that are not sorted yet.
#[derive(Default)]
struct Sums {
    replay: Replay,
    verdicts: HashMap<&'static str, u64>,
    lists: HashMap<String, u64>,
    senders: HashMap<String, u64>,
    sources: HashMap<String, u64>,
    changes: HashMap<(&'static str, &'static str), u64>,
}

impl Sums {
    /// Judges messages with a configuration, and perhaps with another one, and counts them.
    fn add_all(
        &mut self,
        (live, other): (&Arc<Live>, Option<&Arc<Live>>),
        batch: Vec<(String, Mail)>,
    ) {
        let decisions = judge(live, &batch);
        let others = other.map(|other| judge(other, &batch));
        let mut others = others.unwrap_or_default().into_iter();
        for ((name, _), decision) in batch.into_iter().zip(decisions) {
            self.add(name, decision, others.next().map(|other| other.verdict));
        }
    }

    fn add(&mut self, name: String, decision: RecordedDecision, other: Option<&'static str>) {
        self.replay.messages += 1;
        let before = decision.verdict;
        count(&mut self.verdicts, Some(before));
        if before != "accept" {
            let RecordedDecision { list, listed, .. } = decision;
            count(&mut self.senders, listed.sender.clone());
            count(&mut self.sources, listed.source.clone());
            count(&mut self.lists, Some(list.clone().unwrap_or_default()));
            if self.replay.decided.len() < MAX_DECIDED {
                self.replay.decided.push(Decided {
                    message: name.clone(),
                    verdict: before,
                    list,
                    listed,
                });
            }
        }
        let Some(after) = other.filter(|after| *after != before) else {
            return;
        };
        count(&mut self.changes, Some((before, after)));
        if self.replay.examples.len() < ROWS_MAX {
            self.replay.examples.push((name, before, after));
        }
    }

    fn into_replay(self, compared: bool) -> Replay {
        let mut senders = most_first(self.senders);
        senders.truncate(ROWS_MAX);
        let changed = compared.then(|| self.changes.values().sum());
        let changes = most_first(self.changes).into_iter();
        Replay {
            verdicts: most_first(self.verdicts),
            lists: most_first(self.lists),
            senders,
            sources: most_first(self.sources),
            changed,
            changes: (changes.map(|((before, after), count)| (before, after, count))).collect(),
            ..self.replay
        }
    }
}

/// Writes `md/cur/1:2,S  from spam@bad.example (list spammers, source feed)`.
impl Display for Decided {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)?;
        if let (Some(identity), Some(sender)) = (self.listed.identity, &self.listed.sender) {
            write!(f, "  {identity} {sender}")?;
        }
        if let Some(list) = &self.list {
            write!(f, " (list {list}")?;
            if let Some(source) = &self.listed.source {
                write!(f, ", source {source}")?;
            }
            f.write_str(")")?;
        }
        Ok(())
    }
}

fn count<K: Eq + Hash>(counts: &mut HashMap<K, u64>, found: Option<K>) {
    if let Some(key) = found {
        *counts.entry(key).or_default() += 1;
    }
}

impl Display for Painted<'_, Replay> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Self(replay, paint) = self;
        let messages = counted(replay.messages, "message", "messages");
        writeln!(f, "{}", paint.bold(&messages))?;
        for (verdict, count) in &replay.verdicts {
            let (verdict, share) = (paint.verdict(verdict, 10), percent(*count, replay.messages));
            writeln!(f, "  {verdict}  {count:>8}  {share}")?;
        }
        if replay.not_messages > 0 {
            let files = counted(replay.not_messages, "file", "files");
            writeln!(f, "  {files} left out: not a message")?;
        }
        if !replay.decided.is_empty() {
            writeln!(f, "\n{}", paint.bold("not accepted"))?;
        }
        for decided in replay.decided.iter().take(DECIDED_SHOWN) {
            writeln!(f, "  {}  {decided}", paint.verdict(decided.verdict, 10))?;
        }
        if let Some(more @ 1..) = replay.decided.len().checked_sub(DECIDED_SHOWN) {
            writeln!(f, "  and {more} more (--json has them)")?;
        }
        let tables = [
            ("by list", &replay.lists),
            ("by source", &replay.sources),
            ("top senders", &replay.senders),
        ];
        for (heading, rows) in tables {
            if !rows.is_empty() {
                writeln!(f, "\n{}", paint.bold(heading))?;
            }
            for (name, count) in rows {
                writeln!(f, "  {count:>8}  {name}")?;
            }
        }
        if let Some(changed) = replay.changed {
            let changed = counted(changed, "message", "messages");
            let text = "would get a different verdict with the other configuration";
            writeln!(f, "\n{}", paint.bold(&format!("{changed} {text}")))?;
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
