//! Charts of messages over time: inline SVG, with the same figures in a table for screen readers.
//!
//! A bar is the messages a minute, over the time of it in which messages were counted: the current
//! bar has only begun, and the daemon may have been away. Times without data are shaded. The SVG
//! contains no text, because text would shrink with it.

use std::fmt::{self, Formatter};

use super::history::{DAY_S, Minute};
use super::report::Report;
use super::times::{time, zone};
use super::words::{VerdictGroup, grouped};

const CLASSES: [&str; 3] = ["acc", "mark", "ref"];
const HEIGHT: f64 = 100.0;

/// What a chart shows.
struct Chart<'a> {
    heading: &'a str,
    steps: &'a [Minute],
    /// Number of bars, and the seconds of each.
    bars: u64,
    bar_s: u64,
    /// Bars in one row of the table.
    row_bars: u64,
    /// How times are shown at the axis.
    how: &'a str,
}

/// One bar.
#[derive(Clone, Copy, Default)]
struct Bar {
    counts: [u64; 3],
    /// Seconds in which messages were counted.
    covered_s: u64,
}

impl Bar {
    fn a_minute(self, count: u64) -> f64 {
        #[allow(clippy::cast_precision_loss, reason = "for the eye")]
        let (count, minutes) = (count as f64, self.covered_s.max(1) as f64 / 60.0);
        count / minutes.max(1.0)
    }
}

/// Writes the last day.
pub(super) fn day(f: &mut Formatter<'_>, report: &Report) -> fmt::Result {
    let chart = Chart {
        heading: "Messages a minute, last 24 hours",
        steps: &report.minutes,
        bars: 288,
        bar_s: 300,
        row_bars: 12,
        how: "%H:%M",
    };
    chart.write(f, report)
}

/// Writes the last 30 days.
pub(super) fn month(f: &mut Formatter<'_>, report: &Report) -> fmt::Result {
    let chart = Chart {
        heading: "Messages a minute, last 30 days",
        steps: &report.hours,
        bars: 120,
        bar_s: DAY_S / 4,
        row_bars: 4,
        how: "%F",
    };
    chart.write(f, report)
}

impl Chart<'_> {
    fn first_s(&self, report: &Report) -> u64 {
        (report.time_s / self.bar_s + 1).saturating_sub(self.bars) * self.bar_s
    }

    fn bars(&self, report: &Report) -> Vec<Bar> {
        let first_s = self.first_s(report);
        let mut bars = vec![Bar::default(); usize::try_from(self.bars).unwrap_or_default()];
        for step in self.steps {
            let index = step.time_s.checked_sub(first_s).map(|at| at / self.bar_s);
            let bar = index.and_then(|index| bars.get_mut(usize::try_from(index).ok()?));
            if let Some(bar) = bar {
                for (count, kind) in bar.counts.iter_mut().zip(VerdictGroup::ALL) {
                    *count += kind.count(std::iter::once(step));
                }
            }
        }
        for (start_s, bar) in (first_s..)
            .step_by(usize::try_from(self.bar_s).unwrap_or(1))
            .zip(&mut bars)
        {
            let covered = report.periods.iter().map(|&(from_s, to_s)| {
                to_s.min(start_s + self.bar_s)
                    .saturating_sub(from_s.max(start_s))
            });
            bar.covered_s = covered.sum();
        }
        bars
    }

    fn write(&self, f: &mut Formatter<'_>, report: &Report) -> fmt::Result {
        let bars = self.bars(report);
        let all = |bar: &Bar| bar.a_minute(bar.counts.iter().sum());
        let most = bars.iter().map(all).fold(0.0, f64::max);
        write!(
            f,
            "<section class=\"card\"><h2>{}</h2><p class=\"dim\">Highest: {} a minute. Grey: no data.</p>\
             <svg viewBox=\"0 0 {} {HEIGHT}\" preserveAspectRatio=\"none\" role=\"img\" aria-label=\"{}; the table below has the figures\">",
            self.heading,
            (most * 10.0).round() / 10.0,
            self.bars,
            self.heading
        )?;
        for (x, bar) in bars.iter().enumerate() {
            if bar.covered_s == 0 {
                write!(
                    f,
                    "<rect class=\"none\" x=\"{x}\" y=\"0\" width=\"1\" height=\"{HEIGHT}\"/>"
                )?;
            }
            let mut top = HEIGHT;
            for (count, class) in bar
                .counts
                .into_iter()
                .zip(CLASSES)
                .filter(|(count, _)| *count > 0)
            {
                // High enough to be visible.
                let height = (bar.a_minute(count) / most * HEIGHT).max(1.0);
                top = (top - height).max(0.0);
                write!(
                    f,
                    "<rect class=\"{class}\" x=\"{x}\" y=\"{top:.2}\" width=\".9\" height=\"{height:.2}\"/>"
                )?;
            }
        }
        write!(f, "</svg><div class=\"axis\">")?;
        let first_s = self.first_s(report);
        for quarter in 0..4 {
            let at = first_s + self.bars * quarter / 4 * self.bar_s;
            write!(f, "<span>{}</span>", time(at, self.how))?;
        }
        write!(
            f,
            "<span>{} {}</span></div><div class=\"key\">",
            time(report.time_s, self.how),
            zone(report.time_s)
        )?;
        for (class, kind) in CLASSES.iter().zip(VerdictGroup::ALL).rev() {
            write!(f, "<span><i class=\"{class}\"></i>{}</span>", kind.name())?;
        }
        write!(f, "</div>")?;
        self.table(f, report, &bars)
    }

    /// Writes the figures, a row for several bars.
    fn table(&self, f: &mut Formatter<'_>, report: &Report, bars: &[Bar]) -> fmt::Result {
        let from = format!("From ({})", zone(report.time_s));
        write!(
            f,
            "<details><summary>Figures</summary><table><thead><tr><th>{from}"
        )?;
        for kind in VerdictGroup::ALL {
            write!(f, "<th class=\"n\">{}", kind.name())?;
        }
        write!(f, "</tr></thead><tbody>")?;
        let rows = bars.chunks(usize::try_from(self.row_bars).unwrap_or(1));
        for (number, row) in (0..).zip(rows) {
            if row.iter().all(|bar| bar.covered_s == 0) {
                continue;
            }
            let at = self.first_s(report) + number * self.row_bars * self.bar_s;
            write!(f, "<tr><td data-name=\"{from}\">{}", time(at, "%F %H:%M"))?;
            for (index, kind) in VerdictGroup::ALL.iter().enumerate() {
                let counts = row.iter().filter_map(|bar| bar.counts.get(index));
                let count = grouped(counts.sum());
                write!(f, "<td class=\"n\" data-name=\"{}\">{count}", kind.name())?;
            }
            write!(f, "</tr>")?;
        }
        write!(f, "</tbody></table></details></section>")
    }
}
