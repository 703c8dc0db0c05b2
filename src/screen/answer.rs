//! The reply to a refused client, and how hits are shown: there, in the tag header, in the log. The
//! case id in a reply identifies the decision in the log.

use super::state::{Observer, Screen};
use crate::config::OnError;
use crate::milter::{Reply, ReplyText};
use crate::policy::{Evidence, Fields, Hit, Reason, Verdict};
use crate::snapshot::Snapshot;
use blocklist_filter::base::clock::now_s;
use blocklist_filter::base::day::Day;
use blocklist_filter::filter::Source;

/// The reply if no list's reply fits, because a filter could not be read.
const UNDECIDED_REPLY: &str = "cannot check the sender now, try again later";

impl<O: Observer> Screen<O> {
    pub(super) fn refusal(&mut self, snapshot: &Snapshot, verdict: Verdict) -> Reply {
        self.ensure_case();
        let hit = verdict.hit_of(&self.message.hits);
        let (Some(hit), false) = (hit, verdict.reason == Reason::Undecided) else {
            return undecided();
        };
        let list = snapshot.policy.lists().get(hit.list);
        let template = list.and_then(|list| list.terms.reply(verdict.action?));
        let (Some(list), Some(template)) = (list, template) else {
            return Reply::Tempfail;
        };
        let date = day_of(hit);
        let text = template.fill(&Fields {
            address: shown_address(hit),
            identity: hit.identity.name(),
            list: list.name(),
            source: source_of(snapshot, hit),
            date: &date,
            case: &self.message.case,
            client: &self.origin.text,
            contact: &snapshot.config.contact,
        });
        text.map_or(Reply::Tempfail, Reply::Text)
    }

    /// The answer to a question that is not understood: that of `on_error`.
    pub(super) fn not_judged(&self) -> Reply {
        match self.live.snapshot().config.on_error {
            OnError::Tempfail => undecided(),
            OnError::Accept => Reply::Accept,
        }
    }

    pub(super) fn ensure_case(&mut self) {
        if self.message.case.is_empty() {
            write_case(self.live.next_case(), &mut self.message.case);
        }
    }
}

fn undecided() -> Reply {
    ReplyText::new(451, "4.3.0", &[UNDECIDED_REPLY]).map_or(Reply::Tempfail, Reply::Text)
}

const DIGITS: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";
const CASE_DIGITS: usize = 9;
/// 2026-01-01
const EPOCH_S: u64 = 1_767_225_600;

/// Writes a case id: the second and a sequence number in base 32, without similar letters.
fn write_case(number: u64, out: &mut String) {
    let id = (now_s().saturating_sub(EPOCH_S) << 15 | (number & 0x7fff)) & ((1 << 45) - 1);
    out.extend(
        (0..CASE_DIGITS)
            .rev()
            .map(|digit| char::from(DIGITS[usize::try_from(id >> (digit * 5) & 31).unwrap_or(0)])),
    );
}

/// Returns when a case id was made, in seconds since 1970; `None` if `id` is not a case id.
pub fn case_time(id: &str) -> Option<i64> {
    let mut number = 0_i64;
    for byte in id.bytes() {
        let digit = DIGITS.iter().position(|&digit| digit == byte)?;
        number = number << 5 | i64::try_from(digit).ok()?;
    }
    (id.len() == CASE_DIGITS).then_some(EPOCH_S.cast_signed() + (number >> 15))
}

/// `list=spammers; identity=from; address=a@b; source=feed`, or `undecided` if it is unknown whether
/// a sender is listed.
pub(super) fn tag(snapshot: &Snapshot, hit: Option<&Hit>) -> String {
    let Some(hit) = hit.filter(|hit| !hit.is_undecided()) else {
        return "undecided".to_owned();
    };
    let list = snapshot.policy.list_name(hit.list);
    let mut tag = format!("list={list}; identity={}; address=", hit.identity.name());
    plain(shown_address(hit), &mut tag);
    let source = source_of(snapshot, hit);
    if !source.is_empty() {
        tag.push_str("; source=");
        plain(source.as_bytes(), &mut tag);
    }
    tag
}

/// Appends printable ASCII; replaces bytes that could end a `key=value` of the tag.
fn plain(bytes: &[u8], out: &mut String) {
    const MAX: usize = 256;
    let shown = |&byte: &u8| match byte.is_ascii_graphic() && byte != b';' {
        true => char::from(byte),
        false => '?',
    };
    out.extend(bytes.iter().take(MAX).map(shown));
}

/// The address as written if it is printable ASCII without blanks, else its canonical form.
pub(super) fn shown_address(hit: &Hit) -> &[u8] {
    let written = hit.address.trim_ascii();
    let bare = written
        .strip_prefix(b"<")
        .and_then(|bare| bare.strip_suffix(b">"))
        .unwrap_or(written);
    if bare.iter().all(|byte| byte.is_ascii_graphic()) {
        bare
    } else {
        &hit.canonical
    }
}

/// The name of the source whose entry it is; empty if unknown.
pub(crate) fn source_of<'a>(snapshot: &'a Snapshot, hit: &Hit) -> &'a str {
    source(snapshot, hit).map_or("", |source| source.name.as_str())
}

pub(super) fn file_of<'a>(snapshot: &'a Snapshot, hit: &Hit) -> &'a str {
    source(snapshot, hit).map_or("", |source| source.file.as_str())
}

fn source<'a>(snapshot: &'a Snapshot, hit: &Hit) -> Option<&'a Source> {
    let Evidence::Proved(record) = &hit.evidence else {
        return None;
    };
    let list = snapshot.policy.lists().get(hit.list)?;
    list.filter()?.source(record.source)
}

/// The day when the entry was added, `2026-08-21`; empty if unknown.
pub(super) fn day_of(hit: &Hit) -> String {
    match hit.evidence {
        Evidence::Proved(record) if record.added > 0 => Day(record.added).to_string(),
        Evidence::Proved(_) | Evidence::Unproved | Evidence::Undecided(_) => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_case_id_says_when_it_was_made() {
        let mut id = String::new();
        write_case(7, &mut id);
        let made = case_time(&id).unwrap();
        let now = now_s().cast_signed();
        assert!((0..60).contains(&(now - made)), "{made} {now}");
        for wrong in ["", "0tpxdv00", "0tpxdv00u", "0tpxdv0000"] {
            assert_eq!(case_time(wrong), None, "{wrong}");
        }
    }
}
