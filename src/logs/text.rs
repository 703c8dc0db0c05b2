//! A summary as the text of a mail: plain text with lines of 78 columns (RFC 5322 section 2.1.1), but for
//! long words.

use std::fmt::{self, Display, Formatter};

use super::summary::{IDLE_DAYS, Refused, Summary};
use crate::paint::wrapped;
use blocklist_filter::address::escaped;
use blocklist_filter::base::numbers::{counted, grouped, percent};

const COLUMNS: usize = 78;
/// Number of columns before a label: two spaces, the number, two spaces.
const NUMBER: usize = 13;
/// Maximum number of rows of a table; `--json` shows all.
const ROWS: usize = 25;

impl Summary {
    /// Returns the headers before the text for a mail to this address, for `sendmail -t`.
    #[must_use]
    pub fn mail_headers(&self, to: &str) -> String {
        format!(
            "To: {to}\nSubject: {}\nAuto-Submitted: auto-generated\nPrecedence: bulk\nMIME-Version: 1.0\n\
             Content-Type: text/plain; charset=utf-8\nContent-Transfer-Encoding: 8bit\n\n",
            self.title()
        )
    }

    /// Returns what one line can say: the days, the host, and how many messages were refused.
    fn title(&self) -> String {
        let mut title = match (&self.from, &self.until) {
            (Some(from), Some(until)) if from == until => format!("Sender blocklists, {from}"),
            (Some(from), Some(until)) => format!("Sender blocklists, {from} to {until}"),
            _ => "Sender blocklists".to_owned(),
        };
        if let Some(host) = &self.host {
            title += &format!(", {}", escaped(host.as_bytes()));
        }
        let refused = self.refused.iter().map(|row| row.3).sum();
        let messages = grouped(self.messages);
        title + &format!(": {} of {messages} refused", grouped(refused))
    }
}

impl Display for Summary {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}\n", self.title())?;
        if self.messages == 0 {
            writeln!(f, "No message in the log.")?;
        } else {
            row(f, self.messages, "messages")?;
        }
        for (action, count) in &self.actions {
            let share = percent(*count, self.messages);
            row(f, *count, &format!("{action:<12}{share}"))?;
        }
        table(f, "Refused, held or deleted", &self.refused, |f, of| {
            row(f, of.3, &format!("{}  {}", listed_by(&of.0, &of.1), of.2))
        })?;
        if self.has_history {
            table(f, "Refused for the first time", &self.first_refused, case)?;
        }
        table(f, "Refused most often", &self.most_refused, case)?;
        table(f, "Tagged", &self.tagged, |f, of| {
            row(f, of.2, &format!("{}, {}", of.0, of.1))
        })?;
        let title = "Dry run: what lists would have done";
        table(f, title, &self.dry_run, |f, of| {
            row(f, of.2, &format!("{}  {}", of.0, of.1))
        })?;
        table(f, "Listed, but not refused", &self.let_through, |f, of| {
            row(f, of.3, &format!("{}  {}, {}", of.0, of.1, of.2))
        })?;
        table(f, "Exempt, not looked up", &self.exempt, |f, of| {
            row(f, of.1, &of.0)
        })?;
        if self.undecided > 0 {
            writeln!(f, "\nUndecided, because filters could not be read")?;
            row(f, self.undecided, "messages")?;
        }
        let title = format!("Without a hit for {IDLE_DAYS} days");
        table(f, &title, &self.idle, |f, idle| {
            let last = idle.last_hit.as_deref().unwrap_or("none known");
            let name = listed_by(&idle.list, idle.source.as_deref().unwrap_or(""));
            lines(f, "  ", &format!("{name}, last hit: {last}"))
        })?;
        let errors = counted(self.errors, "error", "errors");
        let warnings = counted(self.warnings, "warning", "warnings");
        let title = format!("{errors}, {warnings}. Most recent:");
        table(f, &title, &self.problems, |f, text| lines(f, "  ", text))
    }
}

fn row(f: &mut Formatter<'_>, count: u64, label: &str) -> fmt::Result {
    lines(f, &format!("  {:>9}  ", grouped(count)), label)
}

fn table<R>(
    f: &mut Formatter<'_>,
    title: &str,
    rows: &[R],
    each: impl Fn(&mut Formatter<'_>, &R) -> fmt::Result,
) -> fmt::Result {
    if rows.is_empty() {
        return Ok(());
    }
    writeln!(f, "\n{title}")?;
    rows.iter().take(ROWS).try_for_each(|one| each(f, one))?;
    match rows.len().checked_sub(ROWS) {
        Some(more @ 1..) => writeln!(f, "  and {more} more (--json shows all)"),
        _ => Ok(()),
    }
}

/// Writes two lines: a refused entry, and where to look if the refusal is wrong.
fn case(f: &mut Formatter<'_>, of: &Refused) -> fmt::Result {
    row(f, of.count, &of.entry)?;
    let label = format!("case {}  {}", of.case, listed_by(&of.list, &of.source));
    lines(f, &" ".repeat(NUMBER), &label)
}

/// Returns `spammers` or `spammers / feed.txt`.
fn listed_by(list: &str, source: &str) -> String {
    if source.is_empty() {
        list.to_owned()
    } else {
        format!("{list} / {source}")
    }
}

/// Writes a text behind `start`, on as many lines as it needs: nothing is cut. Only a word that is longer
/// than a line, such as a path, makes a longer one.
fn lines(f: &mut Formatter<'_>, start: &str, text: &str) -> fmt::Result {
    let text = escaped(text.as_bytes()).to_string();
    writeln!(f, "{}", wrapped(start, start.len(), &text, COLUMNS))
}
